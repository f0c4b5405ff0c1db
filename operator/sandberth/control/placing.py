"""From a Sandbox without a Pod to one with a Pod, or to the reason why it has none."""

from math import inf

from sandberth.control import status as statuses
from sandberth.control.backoff import pause_seconds
from sandberth.control.creating import Creator, NameTaken, Refused, Unanswered
from sandberth.control.outcomes import refusal_reason
from sandberth.control.queue import WorkQueue
from sandberth.control.quota import QuotaLines
from sandberth.control.reading import Reader
from sandberth.control.review import Review
from sandberth.control.state import State
from sandberth.control.tracks import Track
from sandberth.control.waiting import Waiting
from sandberth.control.work import Work
from sandberth.control.writing import StatusWriter
from sandberth.core.fit import Ask
from sandberth.kube.names import PlacedReason
from sandberth.kube.pods import PodFacts, PodSpecError

_TELL_AFTER_TRIES = 3
_LONGEST_UNANSWERED_PAUSE_SECONDS = 15.0


class Placer:
    """Chooses nodes and makes Pods; keeps what waits, for room or for a quota."""

    def __init__(
        self, state: State, review: Review, reader: Reader, writer: StatusWriter, queue: WorkQueue[str]
    ) -> None:
        self._state = state
        self._review = review
        self._reader = reader
        self._writer = writer
        self._queue = queue
        self.waiting = Waiting(queue.add)
        self.quota = QuotaLines(self._try_within_quota)
        self.creator = Creator(state, self.waiting.wake_soon)

    def cause_is_gone(self, uid: str, reason: PlacedReason) -> None:
        """What a Sandbox was refused for is no more: try it at once."""
        track = self._state.tracks.get(uid)
        if track is not None and track.refused_reason == reason and track.retry_at_s:
            track.retry_at_s = 0.0
            self._queue.add(uid)

    def waits_no_more(self, work: Work) -> None:
        """The Sandbox has its Pod, or needs none any more."""
        work.track.waits_since_s = None
        self.waiting.remove(work.uid)
        self.quota.left(work.sandbox.namespace, work.uid)

    def forget(self, uid: str) -> None:
        """The Sandbox is gone."""
        self.waiting.remove(uid)
        self.quota.gone(uid)

    async def place(self, work: Work) -> PodFacts | None:
        """Choose a node and make the Pod; return it where it was made and the Sandbox is still as it was seen."""
        track = work.track
        if self._must_pause(work):
            return None
        verdict = await self._review.of(work.sandbox, track)
        if verdict.ask is None:
            await self._refuse(work, PlacedReason.INVALID_POD, verdict.message)
            return None
        if not await self._reader.is_current(work) or self._state.streams.sandboxes.get(work.uid) is not work.seen:
            self._queue.add(work.uid)  # it changed while something was read
            return None
        excluded = self._excluded(work)
        decision = self.creator.start(work.sandbox, track, verdict.ask, excluded)
        if decision.chosen is not None:
            track.retry_at_s = 0.0
            self.waiting.placed(work.uid)
            return await self.send(work)
        if self._goes_anywhere(work, verdict.ask):
            self.waiting.remove(work.uid)
            return await self.send(work)
        self.waiting.add(work.uid, (verdict.ask, excluded))
        message = statuses.no_node_message(decision, len(self._state.fleet.nodes), verdict.ask.preferred_node)
        reason = PlacedReason.NODES_REFUSED if excluded else PlacedReason.NO_ELIGIBLE_NODE
        if self._no_node_is_left(work):
            reason = PlacedReason.UNSCHEDULABLE
        if excluded and track.last_node_refusal:
            message += f"; the last was {track.last_node_refusal}"
        await self._writer.write_waiting(
            work,
            reason,
            message,
            record=statuses.decision_record(decision, work.stored_attempt, self._state.flags.parameters, work.now),
            ask=verdict.ask,
        )
        return None

    async def send(self, work: Work) -> PodFacts | None:
        """Send the attempt's create; return the Pod where it was made and the Sandbox is still as it was seen."""
        try:
            pod = await self.creator.send(work.uid, work.track)
        except Refused as refused:
            await self._refuse(work, refusal_reason(refused.error), refused.error.message)
        except NameTaken as taken:
            await self._refuse(work, PlacedReason.POD_NAME_TAKEN, str(taken))
        except Unanswered as error:
            self.again(work.uid, work.track, error)
            if work.track.attempt is not None and work.track.attempt.tries == _TELL_AFTER_TRIES:
                message = f"the create is not answered, the same one is sent again: {error}"
                await self._writer.write_waiting(work, PlacedReason.CREATE_UNANSWERED, message)
        else:
            work.track.refusals = 0
            if pod is not None and self._state.streams.sandboxes.get(work.uid) is work.seen:
                return pod
            self._queue.add(work.uid)
        return None

    def again(self, uid: str, track: Track, error: Unanswered) -> None:
        """Have the same create sent again after a pause."""
        tries = track.attempt.tries if track.attempt is not None else 1
        pause = pause_seconds(tries, self._state.rng, first=0.25, longest=_LONGEST_UNANSWERED_PAUSE_SECONDS)
        self._queue.add_after(uid, max(pause, error.retry_after_seconds or 0.0))

    def _must_pause(self, work: Work) -> bool:
        """Return whether it is too early for another try, which is then due later."""
        track = work.track
        refused = track.retry_at_s if track.refused_generation == work.sandbox.generation else 0.0
        left = max(refused, track.next_attempt_at_s) - work.now_s
        if left > 0:
            self._queue.add_after(work.uid, left)
        return left > 0

    def _try_within_quota(self, uid: str) -> None:
        # The server counts the quota anew a moment later, so the pauses between further tries are short again.
        track = self._state.tracks.get(uid)
        if track is not None:
            track.refusals = 0
        self.cause_is_gone(uid, PlacedReason.QUOTA_EXCEEDED)

    def _excluded(self, work: Work) -> frozenset[str]:
        """Return the nodes that refused this Sandbox and must not be tried yet."""
        excluded = work.track.excluded
        for node_uid, exclusion in list(excluded.items()):
            node = self._state.fleet.nodes.get(node_uid)
            if node is None or exclusion.is_over(work.now_s, node.changes, work.sandbox.generation):
                del excluded[node_uid]
                continue
            due = exclusion.until_s if work.now_s < exclusion.until_s else exclusion.expires_s
            if due < inf:
                self._queue.add_after(work.uid, due - work.now_s)
        return frozenset(excluded)

    def _goes_anywhere(self, work: Work, ask: Ask) -> bool:
        """Have a Sandbox that found no node for so long that the setting says so placed by kube-scheduler."""
        track, after = work.track, self._state.settings.scheduler_after_seconds
        if after is None:
            return False
        if track.waits_since_s is None:
            track.waits_since_s = work.now_s
        left = track.waits_since_s + after - work.now_s
        if left > 0:
            self._queue.add_after(work.uid, left)
            return False
        try:
            self.creator.start_anywhere(work.sandbox, track, ask)
        except PodSpecError:
            return False  # no node will ever do
        return True

    def _no_node_is_left(self, work: Work) -> bool:
        """Have the nodes where kube-scheduler could not bind the Sandbox tried again later; False without any."""
        track = work.track
        tried = [exclusion for exclusion in track.excluded.values() if exclusion.generation is not None]
        for exclusion in tried:
            if exclusion.expires_s == inf:
                exclusion.expires_s = track.retry_unschedulable_at_s
                self._queue.add_after(work.uid, max(0.0, exclusion.expires_s - work.now_s))
        return bool(tried)

    async def _refuse(self, work: Work, reason: PlacedReason, message: str) -> None:
        """No node is to blame: say what the server said, and try again later or when the cause changes."""
        track = work.track
        self.waiting.remove(work.uid)
        if reason is PlacedReason.QUOTA_EXCEEDED:
            self.quota.refused(work.sandbox.namespace, work.uid)
        else:
            self.quota.left(work.sandbox.namespace, work.uid)
        track.refusals += 1
        track.refused_generation = work.sandbox.generation
        track.refused_reason = reason
        pause = pause_seconds(track.refusals, self._state.rng)
        track.retry_at_s = work.now_s + pause
        self._queue.add_after(work.uid, pause)
        ask = track.ask[1] if track.ask is not None else None
        await self._writer.write_waiting(work, reason, message, ask=ask)
