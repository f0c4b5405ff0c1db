"""Who leads: the decisions of one candidate for a Lease, from what it has seen of it and its own clock.

No I/O and no clock in here. A holder renews; the others call a Lease expired when *they* have seen no change of it for
its duration, so no clock of another machine is compared. A holder counts its own time from before its last successful
renewal was sent, and only four fifths of the duration: it has left before anybody else may take the Lease.

Source: the semantics of client-go's leaderelection.
"""

from dataclasses import dataclass
from math import inf


@dataclass(frozen=True, slots=True)
class Timing:
    """What follows from the duration of a Lease, in seconds."""

    duration_seconds: float

    @property
    def renew_seconds(self) -> float:
        """From the start of one renewal to the next."""
        return self.duration_seconds / 6

    @property
    def deadline_seconds(self) -> float:
        """So long after the start of its last renewal a holder may write; it then leaves."""
        return self.duration_seconds * 4 / 5

    @property
    def call_seconds(self) -> float:
        """The longest that one request about the Lease may take.

        A busy server needs seconds, and a second request is no faster; a hung connection leaves time for another.
        """
        return self.duration_seconds * 9 / 20

    @property
    def look_seconds(self) -> float:
        """From one look of a candidate at a Lease that somebody holds to the next."""
        return min(1.0, self.duration_seconds / 10)

    @property
    def retry_seconds(self) -> float:
        """From a failed request to the next."""
        return min(0.5, self.duration_seconds / 20)


@dataclass(frozen=True, slots=True)
class Record:
    """A Lease as the server has it; `version` changes with every write, `holder` is "" when it was given up."""

    version: str
    holder: str
    duration_seconds: float


@dataclass(frozen=True, slots=True)
class Wait:
    """Nothing to do for so long."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Read:
    """See what the Lease says by a consistent read."""


@dataclass(frozen=True, slots=True)
class Write:
    """Make the Lease ours, or renew it: replace `over`, that very version, or create it where `over` is None."""

    over: Record | None


@dataclass(frozen=True, slots=True)
class Leave:
    """Leadership is lost: the process must end."""

    reason: str


Step = Wait | Read | Write | Leave


class Candidate:
    """One process that wants to lead. `next` says what to do; each answer comes back through one of the others."""

    def __init__(self, identity: str, timing: Timing) -> None:
        self.identity = identity
        self.timing = timing
        self.leads = False
        self.valid_until_s = -inf  # while leading: from then on nothing may be written
        self._record: Record | None = None
        self._was_read = False
        self._is_current = False  # whether `_record` is what the last answer showed
        self._expiry_s = -inf  # when the Lease counts as expired unless it is seen to change before
        self._next_try_s = -inf

    def next(self, now_s: float) -> Step:
        """Return what to do at this moment."""
        if self.leads:
            return self._next_of_leader(now_s)
        if now_s < self._next_try_s:
            return Wait(self._next_try_s - now_s)
        if not self._is_current:
            return Read()
        self._is_current = False  # whatever comes of it, the next decision needs a new look
        if self._is_free(now_s):
            return Write(self._record)
        self._next_try_s = min(now_s + self.timing.look_seconds, self._expiry_s)
        return Wait(self._next_try_s - now_s)

    def seen(self, record: Record | None, now_s: float) -> None:
        """A read was answered, at `now_s`; None where there is no Lease."""
        if not self._was_read or record != self._record:
            # A Lease deleted under its holder is given as long as one that fell silent: that holder may still write.
            last = record or self._record
            held = last is not None and last.holder != ""
            self._expiry_s = now_s + (last.duration_seconds if last is not None and held else 0.0)
        self._was_read = self._is_current = True
        self._record = record

    def written(self, record: Record, sent_at_s: float) -> None:
        """Our write was carried out, as its answer or a later read says; `sent_at_s` is a moment before it was sent."""
        self._record = record
        self._was_read = self._is_current = self.leads = True
        self.valid_until_s = sent_at_s + self.timing.deadline_seconds
        self._next_try_s = sent_at_s + self.timing.renew_seconds

    def failed(self, now_s: float) -> None:
        """A request failed, or its outcome is unknown, or somebody else was faster: look again soon."""
        self._is_current = False
        self._next_try_s = now_s + self.timing.retry_seconds

    def _next_of_leader(self, now_s: float) -> Step:
        if now_s >= self.valid_until_s:
            return Leave("the Lease could not be renewed in time")
        if now_s < self._next_try_s:
            return Wait(min(self._next_try_s, self.valid_until_s) - now_s)
        if not self._is_current:
            return Read()
        if self._record is not None and self._record.holder != self.identity:
            return Leave(f"the Lease is held by {self._record.holder or 'nobody'}")
        return Write(self._record)

    def _is_free(self, now_s: float) -> bool:
        """Return whether the Lease may be taken: given up, expired by our own clock, or ours by an unanswered write."""
        return (self._record is not None and self._record.holder in {"", self.identity}) or now_s >= self._expiry_s
