"""Brings one Sandbox to where it should be, from whatever state it is found in.

Level-triggered: every call looks at the newest Sandbox and Pod and does the one next thing. Each branch ends in a
status that is written only if it differs, so calling it again changes nothing. A new attempt starts only once the
end of the last one stands in the status.
"""

import logging
from dataclasses import dataclass
from datetime import datetime

from pydantic import ValidationError

from sandberth.control import status as statuses
from sandberth.control.backoff import pause_seconds
from sandberth.control.creating import Creator, NameTaken, Refused, Unanswered
from sandberth.control.endings import Ending, ending_of
from sandberth.control.outcomes import refusal_reason
from sandberth.control.queue import WorkQueue
from sandberth.control.review import Review
from sandberth.control.state import State
from sandberth.control.streams import SandboxSeen
from sandberth.control.tracks import Exclusion, Track
from sandberth.control.waiting import Waiting
from sandberth.core.errors import SandberthError
from sandberth.kube.errors import ApiError
from sandberth.kube.names import FinishedReason, Phase, PlacedReason, SandboxCondition
from sandberth.kube.objects import describe
from sandberth.kube.paths import node_path, pod_path, sandbox_path
from sandberth.kube.pods import PodFacts, convert_pod
from sandberth.kube.sandbox import Decision, Sandbox, SandboxStatus

LOG = logging.getLogger(__name__)
MAX_FAILED_STARTS = 3
_PENDING_REWRITE_SECONDS = 10.0
_LOSSES_FORGOTTEN_SECONDS = 600.0
_LONGEST_ERROR_PAUSE_SECONDS = 4.0  # so long after an outage an object may still be left alone
_LONGEST_REFUSED_PAUSE_SECONDS = 60.0
_LONGEST_EXCLUSION_SECONDS = 300.0
_TELL_AFTER_TRIES = 3


@dataclass(slots=True)
class _Work:
    """One look at one Sandbox."""

    uid: str
    seen: SandboxSeen
    sandbox: Sandbox
    track: Track
    now_s: float
    now: datetime

    @property
    def status(self) -> SandboxStatus:
        return self.sandbox.status


class Reconciler:
    """Works on Sandboxes by UID; `queue` is where it asks to be called again."""

    def __init__(self, state: State, review: Review) -> None:
        self._state = state
        self._review = review
        self.queue: WorkQueue[str] = WorkQueue(self.reconcile)
        self.waiting = Waiting(self.queue.add)
        self._creator = Creator(state, self.waiting.wake_soon)
        self._over_quota: dict[str, dict[str, None]] = {}  # namespace -> UIDs in the order of their tries
        self._errors: dict[str, int] = {}  # UID -> errors in a row

    def cause_is_gone(self, uid: str, reason: PlacedReason) -> None:
        """What a Sandbox was refused for is no more: try it at once."""
        track = self._state.tracks.get(uid)
        if track is not None and track.refused_reason == reason and track.retry_at_s:
            track.retry_at_s = 0.0
            self.queue.add(uid)

    def room_in_namespace(self, namespace: str) -> None:
        """A Pod of this namespace ended or was let in: the Sandbox that is next may be within the quota now.

        The server counts the quota anew a moment later, so the pauses between further tries are short again.
        """
        waiting = self._over_quota.get(namespace)
        if waiting:
            uid = next(iter(waiting))
            track = self._state.tracks.get(uid)
            if track is not None:
                track.refusals = 0
            self.cause_is_gone(uid, PlacedReason.QUOTA_EXCEEDED)

    def _waits_no_more(self, work: _Work) -> None:
        self.waiting.remove(work.uid)
        self._leave_quota(work.sandbox.namespace, work.uid)

    def _leave_quota(self, namespace: str, uid: str) -> None:
        """Forget that a Sandbox is over its namespace's quota, and have the next one tried."""
        waiting = self._over_quota.get(namespace)
        if waiting is None or uid not in waiting:
            return
        del waiting[uid]
        if waiting:
            self.room_in_namespace(namespace)
        else:
            del self._over_quota[namespace]

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
            LOG.warning("Sandbox %s/%s cannot be read: %s", seen.namespace, seen.name, describe(error))
            return
        work = _Work(
            uid, seen, sandbox, self._state.track(uid), self._state.now_s(), statuses.utc(self._state.wall_s())
        )
        pod = self._state.pod_of(uid)
        if pod is not None and work.track.attempt is not None:
            pod = self._creator.seen(work.track, pod)
        if sandbox.deletion_timestamp is not None:
            await self._being_deleted(work, pod)
        elif work.status.phase is not None and work.status.phase.is_terminal:
            await self._after_end(work, pod)
        elif await self._expired(work, pod):
            return
        elif pod is not None:
            await self._follow(work, pod)
        elif work.track.attempt is not None:
            await self._send(work)
        elif await self._lost(work):
            return
        else:
            await self._place(work)

    # --- the ways of a Sandbox ---

    async def _verify(self, work: _Work) -> bool:
        """Read a Sandbox that only a list has shown again before the first create or delete; False if it changed."""
        if work.uid not in self._state.streams.unverified:
            return True
        path = sandbox_path(work.seen.namespace, work.seen.name)
        current = await self._state.api.get(path)
        streams = self._state.streams
        streams.unverified.discard(work.uid)
        if current is None or current["metadata"]["uid"] != work.uid:
            streams.sandboxes.observe(work.seen, deleted=True, in_stream=False)
            return False
        streams.observe_sandbox(current)
        newest = streams.sandboxes.get(work.uid)
        if newest is None or newest.resource_version != work.seen.resource_version:
            self.queue.add(work.uid)
            return False
        return True

    async def _gone(self, uid: str) -> None:
        """The Sandbox is gone: its create is followed to an answer, then its Pod goes by UID."""
        track = self._state.tracks.get(uid)
        self.waiting.remove(uid)
        pod = self._state.pod_of(uid)
        if track is not None and track.attempt is not None:
            if pod is not None:
                pod = self._creator.seen(track, pod)
            else:
                try:
                    pod = await self._creator.send(uid, track)
                except (Refused, NameTaken):
                    pod = None
                except Unanswered as error:
                    self._again(uid, track, error)
                    return
        if pod is None:
            self._forget(uid)
            return
        if track is None and not await self._is_really_gone(uid, pod):
            return
        await self._delete_left_behind(uid, pod)

    async def _delete_left_behind(self, uid: str, pod: PodFacts) -> None:
        """Delete the Pod of a Sandbox that is gone, unless it was set free (`--cascade=orphan`) since it was seen."""
        track = self._state.track(uid)
        if pod.deleting or track.delete_sent == pod.uid:
            return
        if not await self._state.api.delete_pod(pod.namespace, pod.name, pod.uid, pod.resource_version):
            found = await self._state.api.get(pod_path(pod.namespace, pod.name))
            if found is not None and found["metadata"]["uid"] == pod.uid:
                self._state.streams.pods.observe(convert_pod(found), in_stream=False)
                self.queue.add_after(uid, pause_seconds(1, self._state.rng, first=0.1))
                return
        self._delete_is_sent(track, pod)

    def _forget(self, uid: str) -> None:
        self._state.tracks.pop(uid, None)
        for namespace in [name for name, waiting in self._over_quota.items() if uid in waiting]:
            self._leave_quota(namespace, uid)

    async def _is_really_gone(self, uid: str, pod: PodFacts) -> bool:
        """A Pod was found whose Sandbox was never seen: make sure by a consistent read."""
        current = await self._state.api.get(sandbox_path(pod.namespace, pod.name))
        if current is not None and current["metadata"]["uid"] == uid:
            self._state.streams.observe_sandbox(current)
            return False
        return True

    async def _being_deleted(self, work: _Work, pod: PodFacts | None) -> None:
        """Somebody's finalizer keeps the object: the Pod goes all the same, and nothing new starts."""
        self._waits_no_more(work)
        if pod is None and work.track.attempt is not None:
            await self._send(work)
            return
        if pod is None or work.sandbox.is_orphaning:
            return
        await self._remove_pod(work, pod)
        ended = work.status.phase is not None and work.status.phase.is_terminal
        if not pod.terminal and not ended and work.status.phase is not Phase.TERMINATING:
            await self._write(work, work.status.model_copy(update={"phase": Phase.TERMINATING}))

    async def _after_end(self, work: _Work, pod: PodFacts | None) -> None:
        """A final Sandbox: a Pod that still runs goes, and the object goes when its time has come."""
        self._waits_no_more(work)
        if pod is not None and not pod.terminal:
            await self._remove_pod(work, pod)
        ttl = work.sandbox.spec.lifetime.ttl_seconds_after_finished
        if ttl is None or work.status.finished_at is None:
            return
        left = work.status.finished_at.timestamp() + ttl - self._state.wall_s()
        if left > 0:
            self.queue.add_after(work.uid, left)
        elif await self._verify(work):
            await self._state.api.delete_sandbox(work.sandbox.namespace, work.sandbox.name, work.uid)

    async def _expired(self, work: _Work, pod: PodFacts | None) -> bool:
        """End a Sandbox whose shutdown time has come; False while there is time."""
        shutdown = work.sandbox.spec.lifetime.shutdown_time
        if shutdown is None:
            return False
        left = shutdown.timestamp() - self._state.wall_s()
        if left > 0:
            self.queue.add_after(work.uid, left)
            return False
        if pod is None and work.track.attempt is not None:
            await self._send(work)  # its outcome decides whether there is a Pod to delete
            return True
        if pod is not None and pod.terminal:
            return False  # the program ended by itself before
        await self._finish(work, Phase.SUCCEEDED, FinishedReason.EXPIRED, "the shutdown time has come", pod=pod)
        return True

    async def _follow(self, work: _Work, pod: PodFacts) -> None:
        """There is a Pod: the status says what it does."""
        self._waits_no_more(work)
        number = attempt_number(pod)
        work.track.last_number = max(work.track.last_number, number)
        if self._is_outdated(work, pod):
            await self._remove_pod(work, pod)
            return
        if pod.terminal:
            await self._ended(work, pod)
            return
        node = self._state.fleet.by_name(pod.node_name)
        if await self._node_is_gone(pod):
            await self._remove_pod(work, pod)  # the Pod is lost, whatever it says
        elif await self._start_deadline_passed(work, pod):
            return
        record, message = _record_of(work.track, number)
        await self._write(
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
            work.track.refusals = work.track.failed_starts = work.track.node_refusals = 0
            self._state.metrics.start_seconds.observe(self._state.now_s() - work.track.first_seen_s)

    async def _node_is_gone(self, pod: PodFacts) -> bool:
        """Return whether the Node that a Pod was made for is no more; an unknown one is asked for first."""
        node = self._state.fleet.by_name(pod.node_name)
        if node is not None and pod.node_uid in {"", node.facts.uid}:
            return False
        current = await self._state.api.get(node_path(pod.node_name))
        if current is not None:
            self._state.streams.observe_node(current)
        return current is None or pod.node_uid not in {"", current["metadata"]["uid"]}

    def _is_outdated(self, work: _Work, pod: PodFacts) -> bool:
        """Return whether the spec was corrected after this Pod was made and before Placed was written."""
        return (
            work.status.node_name is None and pod.generation is not None and pod.generation != work.sandbox.generation
        )

    async def _start_deadline_passed(self, work: _Work, pod: PodFacts) -> bool:
        if pod.phase != "Pending" or pod.deleting or not pod.created_at:
            return False
        deadline = work.sandbox.spec.lifetime.start_deadline_seconds
        left = statuses.moment(pod.created_at).timestamp() + deadline - self._state.wall_s()
        if left > 0:
            self.queue.add_after(work.uid, left)
            return False
        message = f"the Pod did not run within {deadline} s"
        if pod.waiting_reason:
            message += f": {pod.waiting_reason} {pod.waiting_message}".rstrip()
        await self._finish(work, Phase.FAILED, FinishedReason.START_DEADLINE_EXCEEDED, message, pod=pod)
        return True

    async def _ended(self, work: _Work, pod: PodFacts) -> None:
        """The Pod is terminal: the program's own end is final, everything else is made good."""
        if self._end_is_stored(work, pod):
            await self._remove_pod(work, pod)
            return
        ending = ending_of(pod)
        if ending is Ending.COMPLETED:
            await self._finish(work, Phase.SUCCEEDED, FinishedReason.COMPLETED, statuses.exit_message(pod), pod=pod)
            return
        if ending is Ending.FAILED:
            await self._finish(work, Phase.FAILED, FinishedReason.FAILED, statuses.exit_message(pod), pod=pod)
            return
        why = f"{pod.node_name}: {statuses.exit_message(pod)}"
        if ending is Ending.LOST:
            if work.sandbox.spec.recovery == "Never":
                await self._finish(work, Phase.FAILED, FinishedReason.FAILED, f"the Pod was lost on {why}", pod=pod)
                return
            self._count_loss(work, attempt_number(pod))
            reason, message = PlacedReason.POD_LOST, f"the Pod was lost on {why}"
        else:
            self._count_refusal(work, pod, ending)
            if work.track.failed_starts >= MAX_FAILED_STARTS:
                message = f"{MAX_FAILED_STARTS} Pods failed before they ran; the last on {why}"
                await self._finish(work, Phase.FAILED, FinishedReason.FAILED, message, pod=pod)
                return
            reason, message = PlacedReason.NODES_REFUSED, f"refused by {why}"
        await self._write_attempt_ended(work, attempt_number(pod), reason, message)
        self.queue.add(work.uid)  # and then, its end being stored, the Pod goes

    def _end_is_stored(self, work: _Work, pod: PodFacts) -> bool:
        stored = work.status.placement.attempt if work.status.placement is not None else 0
        return work.status.node_name is None and stored >= attempt_number(pod)

    def _count_refusal(self, work: _Work, pod: PodFacts, ending: Ending) -> None:
        if work.track.counted_pod == pod.uid:
            return
        work.track.counted_pod = pod.uid
        if ending is Ending.NEVER_RAN:
            work.track.failed_starts += 1
        node = self._state.fleet.by_name(pod.node_name)
        if node is None:
            return
        work.track.node_refusals += 1
        pause = pause_seconds(work.track.node_refusals, self._state.rng, longest=_LONGEST_EXCLUSION_SECONDS)
        work.track.excluded[node.facts.uid] = Exclusion(work.now_s + pause, node.changes)

    async def _lost(self, work: _Work) -> bool:
        """No Pod where one was: store that the attempt ended, or end the Sandbox; False if none was ever there."""
        placed = work.status.node_name is not None
        stored = work.status.placement.attempt if work.status.placement is not None else 0
        if not placed and work.track.last_number <= stored:
            return False
        if await self._pod_is_there(work):
            return True
        number = max(work.track.last_number, stored)
        if placed and work.sandbox.spec.recovery == "Never":
            message = f"the Pod on {work.status.node_name} is gone, and recovery is Never"
            await self._finish(work, Phase.FAILED, FinishedReason.FAILED, message)
            return True
        message = f"the Pod on {work.status.node_name} is gone" if placed else "the Pod went before it was recorded"
        self._count_loss(work, number)
        await self._write_attempt_ended(work, number, PlacedReason.POD_LOST, message)
        self.queue.add(work.uid)
        return True

    def _count_loss(self, work: _Work, number: int) -> None:
        """Have a lost Pod replaced at once, and one of many in a row after a growing pause: something removes them."""
        track = work.track
        if number <= track.lost_attempt:
            return
        recent = track.losses and work.now_s - track.lost_at_s < _LOSSES_FORGOTTEN_SECONDS
        track.losses = track.losses + 1 if recent else 1
        track.lost_attempt, track.lost_at_s = number, work.now_s
        if track.losses > 1:
            track.next_attempt_at_s = work.now_s + pause_seconds(track.losses - 1, self._state.rng)

    async def _pod_is_there(self, work: _Work) -> bool:
        """Ask for the Pod that the cache does not show, before it is called lost."""
        found = await self._state.api.get(pod_path(work.sandbox.namespace, work.sandbox.name))
        if found is None:
            return False
        pod = convert_pod(found)
        if pod.owner_uid != work.uid:
            return False
        self._state.streams.pods.observe(pod, in_stream=False)
        return self._state.pod_of(work.uid) is not None

    async def _place(self, work: _Work) -> None:
        """There is no Pod and none was lost: choose a node, or say why there is none."""
        track, generation = work.track, work.sandbox.generation
        if work.now_s < track.retry_at_s and track.refused_generation == generation:
            self.queue.add_after(work.uid, track.retry_at_s - work.now_s)
            return
        if work.now_s < track.next_attempt_at_s:
            self.queue.add_after(work.uid, track.next_attempt_at_s - work.now_s)
            return
        verdict = await self._review.of(work.sandbox, track)
        if verdict.ask is None:
            await self._refuse(work, PlacedReason.INVALID_POD, verdict.message)
            return
        if not await self._verify(work):
            return
        if self._state.streams.sandboxes.get(work.uid) is not work.seen:
            self.queue.add(work.uid)  # it changed while something else was read
            return
        excluded = self._excluded(work)
        decision = self._creator.start(work.sandbox, track, verdict.ask, excluded)
        if decision.chosen is not None:
            track.retry_at_s = 0.0
            self.waiting.placed(work.uid)
            await self._send(work)
            return
        self.waiting.add(work.uid, (verdict.ask, excluded))
        parameters = self._state.flags.parameters
        stored = work.status.placement.attempt if work.status.placement is not None else 0
        reason = PlacedReason.NODES_REFUSED if excluded else PlacedReason.NO_ELIGIBLE_NODE
        await self._write_waiting(
            work,
            statuses.waiting_status(
                work.status,
                reason,
                statuses.no_node_message(decision, len(self._state.fleet.nodes), verdict.ask.preferred_node),
                generation=generation,
                now=work.now,
                record=statuses.decision_record(decision, stored, parameters, "uniform", work.now),
                ask=verdict.ask,
            ),
        )

    def _excluded(self, work: _Work) -> frozenset[str]:
        """Return the nodes that refused this Sandbox and must not be tried yet."""
        excluded = work.track.excluded
        for node_uid, exclusion in list(excluded.items()):
            node = self._state.fleet.nodes.get(node_uid)
            if node is None or (work.now_s >= exclusion.until_s and node.changes != exclusion.changes):
                del excluded[node_uid]
            elif work.now_s < exclusion.until_s:
                self.queue.add_after(work.uid, exclusion.until_s - work.now_s)
        return frozenset(excluded)

    async def _send(self, work: _Work) -> None:
        """Send the create and go on from its answer."""
        try:
            pod = await self._creator.send(work.uid, work.track)
        except Refused as refused:
            await self._refuse(work, refusal_reason(refused.error), refused.error.message)
        except NameTaken as taken:
            await self._refuse(work, PlacedReason.POD_NAME_TAKEN, str(taken))
        except Unanswered as error:
            self._again(work.uid, work.track, error)
            if work.track.attempt is not None and work.track.attempt.tries == _TELL_AFTER_TRIES:
                await self._tell_unanswered(work, error)
        else:
            work.track.refusals = 0
            newest = self._state.streams.sandboxes.get(work.uid)
            if pod is None or newest is not work.seen:
                self.queue.add(work.uid)
            elif work.sandbox.deletion_timestamp is None:
                await self._follow(work, pod)
            else:
                await self._remove_pod(work, pod)

    def _again(self, uid: str, track: Track, error: Unanswered) -> None:
        tries = track.attempt.tries if track.attempt is not None else 1
        pause = pause_seconds(tries, self._state.rng, first=0.25, longest=15.0)
        self.queue.add_after(uid, max(pause, error.retry_after_seconds or 0.0))

    async def _tell_unanswered(self, work: _Work, error: Unanswered) -> None:
        message = f"the create is not answered, the same one is sent again: {error}"
        await self._write_waiting(
            work,
            statuses.waiting_status(
                work.status,
                PlacedReason.CREATE_UNANSWERED,
                message,
                generation=work.sandbox.generation,
                now=work.now,
            ),
        )

    async def _refuse(self, work: _Work, reason: PlacedReason, message: str) -> None:
        """No node is to blame: say what the server said, and try again later or when the cause changes."""
        track = work.track
        self.waiting.remove(work.uid)
        over_quota = self._over_quota.setdefault(work.sandbox.namespace, {})
        over_quota.pop(work.uid, None)
        if reason is PlacedReason.QUOTA_EXCEEDED:
            over_quota[work.uid] = None  # behind the others: it may be too large where they are not
        elif not over_quota:
            del self._over_quota[work.sandbox.namespace]
        track.refusals += 1
        track.refused_generation = work.sandbox.generation
        track.refused_reason = reason
        pause = pause_seconds(track.refusals, self._state.rng)
        track.retry_at_s = work.now_s + pause
        self.queue.add_after(work.uid, pause)
        await self._write_waiting(
            work,
            statuses.waiting_status(
                work.status,
                reason,
                message,
                generation=work.sandbox.generation,
                now=work.now,
                ask=track.ask[1] if track.ask is not None else None,
            ),
        )

    # --- writes ---

    async def _write_attempt_ended(self, work: _Work, number: int, reason: PlacedReason, message: str) -> None:
        """Store that an attempt ended, so that the next one may start after any restart."""
        placement = work.status.placement
        if placement is None or placement.attempt < number:
            placement = Decision(attempt=number)
        await self._write(
            work,
            statuses.waiting_status(
                work.status,
                reason,
                message,
                generation=work.sandbox.generation,
                now=work.now,
                record=placement,
            ),
        )

    async def _finish(
        self, work: _Work, phase: Phase, reason: FinishedReason, message: str, *, pod: PodFacts | None = None
    ) -> None:
        """Store the final status; only then may a Pod be removed (the write brings us back here)."""
        self._waits_no_more(work)
        number = 0 if pod is None else attempt_number(pod)
        final = statuses.finished_status(
            work.status,
            phase,
            reason,
            message,
            generation=work.sandbox.generation,
            now=work.now,
            pod=pod,
            attempt=number,
            record=_record_of(work.track, number)[0],
        )
        await self._write(work, final)
        self.queue.add(work.uid)

    async def _write_waiting(self, work: _Work, status: SandboxStatus) -> None:
        """Write a Pending status at once when its reason changes, else (new counts) only now and then."""
        old = work.status.condition(SandboxCondition.PLACED)
        new = status.condition(SandboxCondition.PLACED)
        same = (
            old is not None
            and new is not None
            and old.reason == new.reason
            and old.observed_generation == new.observed_generation
            and work.status.phase is Phase.PENDING
        )
        if same and old is not None and new is not None:
            if old.message == new.message:
                return
            left = work.track.pending_written_s + _PENDING_REWRITE_SECONDS - work.now_s
            if left > 0:
                self.queue.add_after(work.uid, left)
                return
        await self._write(work, status)
        work.track.pending_written_s = work.now_s

    async def _write(self, work: _Work, status: SandboxStatus) -> None:
        """Write what differs, to the very version that was looked at: a spec corrected since is never called placed."""
        patch = statuses.status_patch(work.status, status)
        if patch is None:
            return
        try:
            answer = await self._state.api.patch_sandbox_status(
                work.sandbox.namespace, work.sandbox.name, patch, work.seen.resource_version
            )
        except ApiError as error:
            if error.not_found or error.conflict or error.reason == "Invalid":
                await self._reread(work)
            raise
        self._state.streams.observe_sandbox(answer)

    async def _reread(self, work: _Work) -> None:
        """The Sandbox is not what it was: learn what it is now."""
        current = await self._state.api.get(sandbox_path(work.sandbox.namespace, work.sandbox.name))
        if current is None or current["metadata"]["uid"] != work.uid:
            self._state.streams.sandboxes.observe(work.seen, deleted=True, in_stream=False)
        else:
            self._state.streams.observe_sandbox(current)

    async def _remove_pod(self, work: _Work, pod: PodFacts) -> None:
        """Delete the Pod of a Sandbox that was seen as it is now."""
        if not pod.deleting and await self._verify(work):
            await self._delete_pod(work.track, pod)

    async def _delete_pod(self, track: Track, pod: PodFacts) -> None:
        """Delete a Pod by UID, once; its room is free when it is gone, not at the answer."""
        if pod.deleting or track.delete_sent == pod.uid:
            return
        await self._state.api.delete_pod(pod.namespace, pod.name, pod.uid)
        self._delete_is_sent(track, pod)

    def _delete_is_sent(self, track: Track, pod: PodFacts) -> None:
        track.delete_sent = pod.uid
        if pod.attempt_id is not None:
            self._state.ledger.delete_answered(pod.attempt_id)


def _record_of(track: Track, number: int) -> tuple[Decision | None, str]:
    """Return how an attempt's node was chosen, and the message about it, as far as this process knows."""
    if track.record is None or track.record[0] != number:
        return None, ""
    return track.record[1:]


def attempt_number(pod: PodFacts) -> int:
    """Return the n of the attempt ID `<uid>.<n>`; 1 where the label was tampered with."""
    number = (pod.attempt_id or "").rpartition(".")[2]
    return int(number) if number.isascii() and number.isdecimal() and len(number) < 10 else 1
