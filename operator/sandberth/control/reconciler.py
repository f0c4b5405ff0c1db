"""Brings one Sandbox to where it should be, from whatever state it is found in.

Level-triggered: every call looks at the newest Sandbox and Pod and does the one next thing. Each branch ends in a
status that is written only if it differs, so calling it again changes nothing. A new attempt starts only once the
end of the last one stands in the status.
"""

import logging
from dataclasses import replace

from pydantic import ValidationError

from sandberth.control import status as statuses
from sandberth.control.backoff import pause_seconds
from sandberth.control.creating import NameTaken, Refused, Unanswered
from sandberth.control.endings import Ending, ending_of
from sandberth.control.placing import Placer
from sandberth.control.queue import WorkQueue
from sandberth.control.reading import Reader
from sandberth.control.removing import Remover
from sandberth.control.review import Review
from sandberth.control.state import State
from sandberth.control.tracks import Exclusion
from sandberth.control.work import Work, attempt_number
from sandberth.control.writing import StatusWriter
from sandberth.core.errors import SandberthError
from sandberth.kube.errors import ApiError
from sandberth.kube.names import FinishedReason, Phase, PlacedReason, ReadyReason, SandboxCondition
from sandberth.kube.objects import describe
from sandberth.kube.pods import PodFacts

LOG = logging.getLogger(__name__)
MAX_FAILED_STARTS = 3
NODES_BEFORE_A_REST = 3  # that many nodes in a row are tried where kube-scheduler cannot bind a Pod
_LOSSES_FORGOTTEN_SECONDS = 600.0
_TELL_UNSCHEDULABLE_AFTER_SECONDS = 3.0
_LONGEST_ERROR_PAUSE_SECONDS = 4.0  # so long after an outage an object may still be left alone
_LONGEST_REFUSED_PAUSE_SECONDS = 60.0
_LONGEST_EXCLUSION_SECONDS = 300.0
_FIRST_BLIND_RETRY_SECONDS = 15.0


class Reconciler:
    """Works on Sandboxes by UID; `queue` is where it asks to be called again."""

    def __init__(self, state: State, review: Review) -> None:
        self._state = state
        self._errors: dict[str, int] = {}  # UID -> errors in a row
        self.queue: WorkQueue[str] = WorkQueue(self.reconcile)
        self._reader = Reader(state)
        self._writer = StatusWriter(state, self._reader, self.queue)
        self._remover = Remover(state, self._reader, self.queue)
        self.placer = Placer(state, review, self._reader, self._writer, self.queue)

    async def reconcile(self, uid: str) -> None:
        """Do the next thing for the Sandbox of this UID, which may be gone."""
        try:
            await self._reconcile(uid)
        except SandberthError as error:
            # The API server is busy or away, or the object moved on: what was not done is still to be done.
            LOG.info("Sandbox %s: %s; tried again.", uid, error)
            self.queue.add_after(uid, self._pause_after(uid, error))
        else:
            self._errors.pop(uid, None)

    def _pause_after(self, uid: str, error: SandberthError) -> float:
        count = self._errors[uid] = self._errors.get(uid, 0) + 1
        if not isinstance(error, ApiError):
            return pause_seconds(count, self._state.rng, first=0.5, longest=_LONGEST_ERROR_PAUSE_SECONDS)
        longest = _LONGEST_REFUSED_PAUSE_SECONDS if error.is_definite_refusal else _LONGEST_ERROR_PAUSE_SECONDS
        pause = pause_seconds(count, self._state.rng, first=0.5, longest=longest)
        return max(pause, error.retry_after_seconds or 0.0)

    async def _reconcile(self, uid: str) -> None:
        seen = self._state.streams.sandboxes.get(uid)
        if seen is None:
            await self._gone(uid)
            return
        try:
            sandbox = seen.parse()
        except ValidationError as error:
            problem = seen.problem or describe(error)
            LOG.warning("Sandbox %s/%s cannot be read: %s", seen.namespace, seen.name, problem)
            await self._writer.write_unreadable(seen, problem)
            return
        now_s, now = self._state.now_s(), statuses.utc(self._state.wall_s())
        work = Work(uid, seen, sandbox, self._state.track(uid), now_s, now)
        pod = self._state.pod_of(uid)
        if pod is not None and work.track.attempt is not None:
            pod = self.placer.creator.seen(work.track, pod)
        if sandbox.deletion_timestamp is not None:
            await self._being_deleted(work, pod)
        elif work.status.phase is not None and work.status.phase.is_terminal:
            await self._after_end(work, pod)
        elif pod is None and work.track.attempt is not None:
            await self._continue(work)  # its outcome comes first, whatever else is due
        elif await self._expired(work, pod):
            return
        elif pod is not None:
            await self._follow(work, pod)
        elif not await self._lost(work):
            await self._place(work)

    # --- without a Pod ---

    async def _place(self, work: Work) -> None:
        pod = await self.placer.place(work)
        if pod is not None:
            await self._follow(work, pod)

    async def _continue(self, work: Work) -> None:
        """Send the create whose outcome is not known again."""
        pod = await self.placer.send(work)
        if pod is not None:
            await self._follow(work, pod)

    async def _lost(self, work: Work) -> bool:
        """No Pod where one was: store that the attempt ended, or end the Sandbox; False if none was ever there."""
        placed = work.status.node_name is not None
        number = max(work.track.last_number, work.stored_attempt)
        if not placed and number == work.stored_attempt:
            return False
        if not await self._reader.pod_is_gone(work):
            return True
        if placed and work.sandbox.spec.recovery == "Never":
            message = f"the Pod on {work.status.node_name} is gone, and recovery is Never"
            await self._finish(work, Phase.FAILED, FinishedReason.FAILED, message)
            return True
        message = f"the Pod on {work.status.node_name} is gone" if placed else "the Pod went before it was recorded"
        self._count_loss(work, number)
        await self._writer.write_attempt_ended(work, number, PlacedReason.POD_LOST, message)
        return True

    def _count_loss(self, work: Work, number: int) -> None:
        """Have a lost Pod replaced at once, and one of many in a row after a growing pause: something removes them."""
        track = work.track
        if number <= track.lost_attempt:
            return
        recent = track.losses and work.now_s - track.lost_at_s < _LOSSES_FORGOTTEN_SECONDS
        track.losses = track.losses + 1 if recent else 1
        track.lost_attempt, track.lost_at_s = number, work.now_s
        if track.losses > 1:
            track.next_attempt_at_s = work.now_s + pause_seconds(track.losses - 1, self._state.rng)

    # --- with a Pod ---

    async def _follow(self, work: Work, pod: PodFacts) -> None:
        """There is a Pod: the status says what it does."""
        self.placer.waits_no_more(work)
        number = attempt_number(pod)
        work.track.last_number = max(work.track.last_number, number)
        if _is_outdated(work, pod):
            await self._remover.remove(work, pod)
            return
        if pod.terminal:
            await self._ended(work, pod)
            return
        if not pod.bound:
            if await self._not_bound(work, pod):
                return
            if not self._is_worth_telling(work, pod):
                pod = replace(pod, unschedulable=None)
        if await self._reader.node_is_gone(pod):
            await self._remover.remove(work, pod)  # the Pod is lost, whatever it says
        elif await self._start_deadline_passed(work, pod):
            return
        node = self._state.fleet.by_name(pod.node_name)
        record, message = work.record_of(number)
        if record is not None and record.node != pod.node_name:
            record, message = None, ""  # kube-scheduler bound it elsewhere
        await self._writer.write(
            work,
            statuses.pod_status(
                work.status,
                pod,
                attempt=number,
                generation=work.sandbox.generation,
                now=work.now,
                node_ready=node is None or node.facts.ready,
                placed_message=message,
                record=record,
            ),
        )
        work.track.record = work.track.ask = None  # it stands in the status from here, and they are large
        if pod.phase == "Running" and work.status.phase in {None, Phase.PENDING, Phase.STARTING}:
            work.track.refusals = work.track.failed_starts = work.track.node_refusals = work.track.unschedulables = 0
            self._state.metrics.start_seconds.observe(self._state.now_s() - work.track.first_seen_s)

    async def _not_bound(self, work: Work, pod: PodFacts) -> bool:
        """Take a node back from a Pod that kube-scheduler cannot bind; False while it may yet be bound there."""
        number = attempt_number(pod)
        if work.status.node_name is None and work.stored_attempt >= number:
            await self._remover.remove_unbound(work, pod)  # its end is stored
            return True
        if pod.deleting:
            return False
        if not pod.node_name:
            work.track.pod_made = (pod.uid, work.now_s)  # the start deadline counts from the binding
            said = f": {pod.unschedulable}" if pod.unschedulable else ""
            message = f"the Pod waits for kube-scheduler to bind it to any node{said}"
            await self._writer.write_waiting(work, PlacedReason.NO_ELIGIBLE_NODE, message)
            return True
        why = await self._why_hopeless(work, pod)
        if why is None:
            return False
        self._count_unschedulable(work, pod)
        message = work.track.last_node_refusal = f"not bound to {pod.node_name}: {why}"
        await self._writer.write_attempt_ended(work, number, PlacedReason.UNSCHEDULABLE, message)
        return True

    async def _why_hopeless(self, work: Work, pod: PodFacts) -> str | None:
        """Return why an unbound Pod is given up, None while it is too early for that."""
        if await self._reader.node_is_gone(pod):
            return "the node is gone"
        track, limit = work.track, self._state.settings.unschedulable_after_seconds
        if pod.unschedulable is None:
            track.unschedulable = None
            return None
        if track.unschedulable is None or track.unschedulable[0] != pod.uid:
            track.unschedulable = (pod.uid, work.now_s)
        left = track.unschedulable[1] + limit - work.now_s
        if left > 0:
            self.queue.add_after(work.uid, left)
            return None
        return f"kube-scheduler could not within {limit:g} s: {pod.unschedulable}"

    def _is_worth_telling(self, work: Work, pod: PodFacts) -> bool:
        """Return whether kube-scheduler's refusal stands in the status already, or long enough to be worth a write.

        Its caches may be behind by a moment, and then it says no and binds the Pod at once.
        """
        since, ready = work.track.unschedulable, work.status.condition(SandboxCondition.READY)
        if pod.unschedulable is None or since is None:
            return False
        if ready is not None and ready.message.startswith(statuses.SCHEDULER_SAYS):
            return True
        patience = min(_TELL_UNSCHEDULABLE_AFTER_SECONDS, self._state.settings.unschedulable_after_seconds / 2)
        left = since[1] + patience - work.now_s
        if left > 0:
            self.queue.add_after(work.uid, left)
        return left <= 0

    def _count_unschedulable(self, work: Work, pod: PodFacts) -> None:
        """Keep the Sandbox from a node where kube-scheduler could not bind it, and let it rest after a few of them."""
        track = work.track
        if track.counted_pod == pod.uid:
            return
        track.counted_pod = pod.uid
        track.unschedulables += 1
        rests, tries_since = divmod(track.unschedulables, NODES_BEFORE_A_REST)
        first = self._state.settings.unschedulable_after_seconds / 2
        pause = pause_seconds(rests + 1, self._state.rng, first=first, longest=_LONGEST_EXCLUSION_SECONDS)
        track.retry_unschedulable_at_s = work.now_s + pause
        generation = work.sandbox.generation
        node = self._state.fleet.by_name(pod.node_name)
        if node is not None:
            track.excluded[node.facts.uid] = Exclusion(work.now_s + pause, None, generation)
        if tries_since == 0:
            track.retry_at_s, track.refused_generation = work.now_s + pause, generation
            track.refused_reason = PlacedReason.UNSCHEDULABLE

    async def _start_deadline_passed(self, work: Work, pod: PodFacts) -> bool:
        if pod.phase != "Pending" or pod.deleting or not pod.created_at:
            return False
        deadline = work.sandbox.spec.lifetime.start_deadline_seconds
        left = deadline - self._age_seconds(work, pod)
        if left > 0:
            self.queue.add_after(work.uid, left)
            return False
        message = f"the Pod did not run within {deadline} s"
        if not pod.bound:
            message += ": kube-scheduler did not bind it"
        if pod.waiting_reason:
            message += f": {pod.waiting_reason} {pod.waiting_message}".rstrip()
        await self._finish(work, Phase.FAILED, FinishedReason.START_DEADLINE_EXCEEDED, message, pod=pod)
        return True

    def _age_seconds(self, work: Work, pod: PodFacts) -> float:
        """Return the age of a Pod, by our own monotonic clock if we made it, else by the server's time of creation."""
        track = work.track
        if track.pod_made is None or track.pod_made[0] != pod.uid:
            found_age = max(0.0, self._state.wall_s() - statuses.moment(pod.created_at).timestamp())
            if not pod.node_uid:
                found_age = 0.0  # kube-scheduler chose its node, perhaps long after it was made
            track.pod_made = (pod.uid, work.now_s - found_age)
        return work.now_s - track.pod_made[1]

    async def _ended(self, work: Work, pod: PodFacts) -> None:
        """The Pod is terminal: the program's own end is final, everything else is made good."""
        number = attempt_number(pod)
        if work.status.node_name is None and work.stored_attempt >= number:
            await self._remover.remove(work, pod)  # its end is stored
            return
        ending = ending_of(pod)
        why = statuses.loss_message(pod) if ending is Ending.LOST else statuses.exit_message(pod)
        if ending is Ending.COMPLETED:
            await self._finish(work, Phase.SUCCEEDED, FinishedReason.COMPLETED, why, pod=pod)
        elif ending is Ending.FAILED:
            await self._finish(work, Phase.FAILED, FinishedReason.FAILED, why, pod=pod)
        elif ending is Ending.LOST and work.sandbox.spec.recovery == "Never":
            message = f"the Pod was lost on {pod.node_name}, and recovery is Never: {why}"
            await self._finish(work, Phase.FAILED, FinishedReason.FAILED, message, pod=pod)
        elif ending is Ending.LOST:
            self._count_loss(work, number)
            message = f"the Pod was lost on {pod.node_name}: {why}"
            await self._writer.write_attempt_ended(work, number, PlacedReason.POD_LOST, message)
        elif self._count_refusal(work, pod, ending) >= MAX_FAILED_STARTS:
            message = f"{MAX_FAILED_STARTS} Pods failed before they ran; the last on {pod.node_name}: {why}"
            await self._finish(work, Phase.FAILED, FinishedReason.FAILED, message, pod=pod)
        else:
            message = work.track.last_node_refusal = f"refused by {pod.node_name}: {why}"
            await self._writer.write_attempt_ended(work, number, PlacedReason.NODES_REFUSED, message)

    def _count_refusal(self, work: Work, pod: PodFacts, ending: Ending) -> int:
        """Keep the Sandbox from the node that did not run its Pod; return how many Pods failed before they ran."""
        track = work.track
        if track.counted_pod == pod.uid:
            return track.failed_starts
        track.counted_pod = pod.uid
        if ending is Ending.NEVER_RAN:
            track.failed_starts += 1
        node = self._state.fleet.by_name(pod.node_name)
        if node is not None:
            track.node_refusals += 1
            count, rng, longest = track.node_refusals, self._state.rng, _LONGEST_EXCLUSION_SECONDS
            pause = pause_seconds(count, rng, longest=longest)
            # A kubelet may lack what the API does not show, and then nothing shows that it has it again either.
            blind_pause = pause_seconds(count, rng, first=_FIRST_BLIND_RETRY_SECONDS, longest=longest)
            track.excluded[node.facts.uid] = Exclusion(
                work.now_s + pause, node.changes, expires_s=work.now_s + blind_pause
            )
        return track.failed_starts

    # --- the end of a Sandbox ---

    async def _expired(self, work: Work, pod: PodFacts | None) -> bool:
        """End a Sandbox whose shutdown time has come; False while there is time, or if it has ended by itself."""
        shutdown = work.sandbox.spec.lifetime.shutdown_time
        if shutdown is None or (pod is not None and pod.terminal):
            return False
        left = shutdown.timestamp() - self._state.wall_s()
        if left > 0:
            self.queue.add_after(work.uid, left)
            return False
        await self._finish(work, Phase.SUCCEEDED, FinishedReason.EXPIRED, "the shutdown time has come", pod=pod)
        return True

    async def _finish(
        self, work: Work, phase: Phase, reason: FinishedReason, message: str, *, pod: PodFacts | None = None
    ) -> None:
        self.placer.waits_no_more(work)
        await self._writer.write_finished(work, phase, reason, message, pod=pod)

    async def _after_end(self, work: Work, pod: PodFacts | None) -> None:
        """A final Sandbox: a Pod that still runs goes, and the object goes when its time has come."""
        self.placer.waits_no_more(work)
        if pod is not None and not pod.terminal:
            await self._remover.remove(work, pod)
        ttl = work.sandbox.spec.lifetime.ttl_seconds_after_finished
        if ttl is None or work.status.finished_at is None:
            return
        left = work.status.finished_at.timestamp() + ttl - self._state.wall_s()
        if left > 0:
            self.queue.add_after(work.uid, left)
        elif not await self._reader.is_current(work):
            self.queue.add(work.uid)
        elif not await self._state.api.delete_sandbox(
            work.sandbox.namespace, work.sandbox.name, work.uid, work.seen.resource_version
        ):
            await self._reader.reread(work)  # its time may have been changed

    async def _being_deleted(self, work: Work, pod: PodFacts | None) -> None:
        """Somebody's finalizer keeps the object: the Pod goes all the same, and nothing new starts."""
        self.placer.waits_no_more(work)
        if pod is None and work.track.attempt is not None:
            pod = await self.placer.send(work)
        if pod is None or work.sandbox.is_orphaning:
            return
        await self._remover.remove(work, pod)
        ended = work.status.phase is not None and work.status.phase.is_terminal
        if not pod.terminal and not ended and work.status.phase is not Phase.TERMINATING:
            status = work.status.model_copy(update={"phase": Phase.TERMINATING})
            status = statuses.with_condition(
                status,
                SandboxCondition.READY,
                False,
                ReadyReason.POD_LOST,
                "the Sandbox is being deleted, and its Pod with it",
                generation=work.sandbox.generation,
                now=work.now,
            )
            await self._writer.write(work, status)

    async def _gone(self, uid: str) -> None:
        """The Sandbox is gone: its create is followed to an answer, then its Pod goes by UID."""
        track = self._state.tracks.get(uid)
        pod = self._state.pod_of(uid)
        if track is not None and track.attempt is not None:
            try:
                pod = (
                    await self.placer.creator.send(uid, track) if pod is None else self.placer.creator.seen(track, pod)
                )
            except (Refused, NameTaken):
                pod = None
            except Unanswered as error:
                self.placer.again(uid, track, error)
                return
        if pod is None:
            self.placer.forget(uid)
            self._state.tracks.pop(uid, None)
            self._errors.pop(uid, None)
        elif track is not None or await self._reader.sandbox_is_gone(uid, pod):
            self.placer.forget(uid)
            await self._remover.remove_left_behind(uid, pod)


def _is_outdated(work: Work, pod: PodFacts) -> bool:
    """Return whether the spec was corrected after this Pod was made and before Placed was written.

    A Pod of a later generation than the Sandbox's says that we have not seen the newest Sandbox yet.
    """
    return (
        work.status.node_name is None
        and work.stored_attempt < attempt_number(pod)  # else Placed was written, and somebody cleared the node's name
        and pod.generation is not None
        and pod.generation < work.sandbox.generation
    )
