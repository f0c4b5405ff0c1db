"""One node's own account of itself, and the order in which such accounts are trusted."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from sandberth.core.resources import ZERO, Resources

USAGE_EXPIRES_AFTER_INTERVALS = 3
REPORT_EXPIRES_AFTER_INTERVALS = 10
DEFAULT_INTERVAL_SECONDS = 20.0


class Freshness(StrEnum):
    """How far a node's last report can be trusted, by our own clock since it was first seen."""

    FRESH = "Fresh"
    USAGE_EXPIRED = "UsageExpired"
    STALE = "Stale"
    NO_REPORT = "NoReport"


@dataclass(frozen=True, slots=True)
class Report:
    """An atomic snapshot of a node: `sandboxes` are the sandboxes whose sizes are inside `allocated`.

    Reports are ordered by (epoch, sequence) inside one `history`, the UID of the NodeCapacity object.
    """

    history: str
    epoch: int
    sequence: int
    node_uid: str
    interval_seconds: float = DEFAULT_INTERVAL_SECONDS
    complete: bool = True
    allocated: Resources = ZERO
    used: Resources | None = None
    sandboxes: Mapping[str, Resources] = field(default_factory=dict)  # attempt ID -> nominal size

    @property
    def version(self) -> tuple[int, int]:
        """(epoch, sequence): the only order that is trusted."""
        return self.epoch, self.sequence

    @property
    def usage_expires_after_seconds(self) -> float:
        """How long its usage counts after it was first seen."""
        return USAGE_EXPIRES_AFTER_INTERVALS * self._interval_seconds

    @property
    def expires_after_seconds(self) -> float:
        """How long it is trusted at all after it was first seen."""
        return REPORT_EXPIRES_AFTER_INTERVALS * self._interval_seconds

    @property
    def _interval_seconds(self) -> float:
        return self.interval_seconds if self.interval_seconds > 0 else 1.0
