"""One look at one Sandbox: what a single call of the reconciler has in its hands."""

from dataclasses import dataclass
from datetime import datetime

from sandberth.control.streams import SandboxSeen
from sandberth.control.tracks import Track
from sandberth.kube.pods import PodFacts
from sandberth.kube.sandbox import Decision, Sandbox, SandboxStatus


@dataclass(slots=True)
class Work:
    """The Sandbox as it was seen, what is remembered of it, and the moment."""

    uid: str
    seen: SandboxSeen
    sandbox: Sandbox
    track: Track
    now_s: float
    now: datetime

    @property
    def status(self) -> SandboxStatus:
        """The status as it was seen."""
        return self.sandbox.status

    @property
    def stored_attempt(self) -> int:
        """The number of the last attempt that stands in the status, 0 before the first."""
        return self.status.placement.attempt if self.status.placement is not None else 0

    def record_of(self, number: int) -> tuple[Decision | None, str]:
        """Return how an attempt's node was chosen, and the message about it, as far as this process knows."""
        record = self.track.record
        return (None, "") if record is None or record[0] != number else record[1:]


def attempt_number(pod: PodFacts) -> int:
    """Return the n of the attempt ID `<uid>.<n>`; 1 where the label was tampered with."""
    number = (pod.attempt_id or "").rpartition(".")[2]
    return int(number) if number.isascii() and number.isdecimal() and len(number) < 10 else 1
