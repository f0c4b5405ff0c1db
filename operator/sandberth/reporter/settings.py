"""What the command line decides of a reporter. Standard library only: `--help` reads this."""

from dataclasses import dataclass
from enum import StrEnum


class UsageSource(StrEnum):
    """Where a report's `used` comes from."""

    METRICS = "metrics"  # metrics.k8s.io
    REQUESTS = "requests"  # the effective requests: for beds where nothing runs
    NONE = "none"  # left out


class Phase(StrEnum):
    """How the nodes' reports lie in time."""

    SYNC = "sync"  # all at once
    STAGGERED = "staggered"  # spread over the interval, each node always at the same place


@dataclass(frozen=True, slots=True)
class ReporterSettings:
    """How often, when, and with which usage."""

    interval_seconds: float = 20.0
    usage: UsageSource = UsageSource.METRICS
    phase: Phase = Phase.SYNC
