"""Writing a Sandbox's status: what differs, to the very version that was looked at, and not too often."""

import orjson

from sandberth.control import status as statuses
from sandberth.control.queue import WorkQueue
from sandberth.control.reading import Reader
from sandberth.control.state import State
from sandberth.control.streams import SandboxSeen
from sandberth.control.work import Work, attempt_number
from sandberth.core.fit import Ask
from sandberth.kube.errors import ApiError
from sandberth.kube.names import FinishedReason, Phase, PlacedReason, SandboxCondition
from sandberth.kube.objects import Condition
from sandberth.kube.pods import PodFacts
from sandberth.kube.sandbox import Decision, SandboxStatus

_PENDING_REWRITE_SECONDS = 10.0


class StatusWriter:
    """Stores what became of a Sandbox. Every write raises ApiError where the Sandbox has changed in between."""

    def __init__(self, state: State, reader: Reader, queue: WorkQueue[str]) -> None:
        self._state = state
        self._reader = reader
        self._queue = queue

    async def write(self, work: Work, status: SandboxStatus) -> None:
        """Write what differs, to the version that was looked at: a spec corrected since is never called placed."""
        patch = statuses.status_patch(work.status, status)
        if patch is None:
            return
        try:
            answer = await self._state.api.patch_sandbox_status(
                work.sandbox.namespace, work.sandbox.name, patch, work.seen.resource_version
            )
        except ApiError as error:
            if error.not_found or error.conflict or error.reason == "Invalid":
                await self._reader.reread(work)
            raise
        with self._state.quietly(work.uid):
            self._state.streams.observe_sandbox(answer)

    async def write_waiting(
        self,
        work: Work,
        reason: PlacedReason,
        message: str,
        *,
        record: Decision | None = None,
        ask: Ask | None = None,
    ) -> None:
        """Write that a Sandbox has no node: at once when the reason changes, else (new counts) only now and then."""
        old = work.status.condition(SandboxCondition.PLACED)
        if (
            old is not None
            and old.reason == reason
            and old.observed_generation == work.sandbox.generation
            and work.status.phase is Phase.PENDING
        ):
            if old.message == statuses.shortened(message):
                return
            left = work.track.pending_written_s + _PENDING_REWRITE_SECONDS - work.now_s
            if left > 0:
                self._queue.add_after(work.uid, left)
                return
        await self.write(work, self._waiting(work, reason, message, record=record, ask=ask))
        work.track.pending_written_s = work.now_s

    async def write_attempt_ended(self, work: Work, number: int, reason: PlacedReason, message: str) -> None:
        """Store that an attempt ended, so that the next one may start after any restart."""
        placement = work.status.placement
        if placement is None or placement.attempt < number:
            placement = Decision(attempt=number)
        await self.write(work, self._waiting(work, reason, message, record=placement))
        self._queue.add(work.uid)  # the end being stored, what follows from it is due

    async def write_finished(
        self, work: Work, phase: Phase, reason: FinishedReason, message: str, *, pod: PodFacts | None = None
    ) -> None:
        """Store the final status; only then may a Pod be removed."""
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
            record=work.record_of(number)[0],
        )
        await self.write(work, final)
        self._queue.add(work.uid)  # the end being stored, what follows from it is due

    async def write_unreadable(self, seen: SandboxSeen, why: str) -> None:
        """Tell of a Sandbox that no model can hold; one that has a status keeps what it says but for Placed."""
        document = orjson.loads(seen.content)
        status, generation = document["status"], document["metadata"].get("generation", 0)
        message = statuses.shortened(f"the Sandbox cannot be read: {why}")
        others = [item for item in status.get("conditions") or () if item["type"] != SandboxCondition.PLACED]
        old = [item for item in status.get("conditions") or () if item["type"] == SandboxCondition.PLACED]
        if old and (old[0].get("message"), old[0].get("observedGeneration")) == (message, generation):
            return
        condition = Condition(
            type=SandboxCondition.PLACED,
            status="True" if status.get("nodeName") else "False",
            reason=PlacedReason.INVALID_POD,
            message=message,
            last_transition_time=statuses.utc(self._state.wall_s()),
            observed_generation=generation,
        )
        patch = {"conditions": [condition.to_api(), *others], "observedGeneration": generation}
        if not status.get("phase"):
            patch["phase"] = Phase.PENDING
        answer = await self._state.api.patch_sandbox_status(
            seen.namespace, seen.name, {"status": patch}, seen.resource_version
        )
        with self._state.quietly(seen.uid):
            self._state.streams.observe_sandbox(answer)

    def _waiting(
        self,
        work: Work,
        reason: PlacedReason,
        message: str,
        *,
        record: Decision | None = None,
        ask: Ask | None = None,
    ) -> SandboxStatus:
        return statuses.waiting_status(
            work.status,
            reason,
            message,
            generation=work.sandbox.generation,
            now=work.now,
            record=record,
            ask=ask,
        )
