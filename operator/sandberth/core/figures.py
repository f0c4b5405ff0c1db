"""What a decision reads of one node, as numbers side by side in one block of memory.

At thousands of nodes the time of a decision is the time to fetch what it reads. As objects of their own these numbers
lie in some twenty places a node; packed they lie in one. The exact integers stay in the account: a block is a copy,
made anew after every change. Its numbers are floats, exact to 2**53: nine trillion cores, or eight pebibytes.
"""

from math import inf
from struct import Struct
from typing import NamedTuple

from sandberth.core.views import View, view_sum


class Figures(NamedTuple):
    """One node's numbers: CPU in millicores, memory in bytes, times in seconds of our own monotonic clock.

    Without a report both times until which it counts are -inf; `used_cpu` is -1 where no usage was reported.
    """

    allocatable_cpu: float = 0
    allocatable_memory: float = 0
    allocatable_pods: float = 0
    pods: float = 0
    held_cpu: float = 0
    held_memory: float = 0
    requested_cpu: float = 0
    requested_memory: float = 0
    reconciled_cpu: float = 0
    reported_cpu: float = 0
    in_progress_cpu: float = 0
    delta_cpu: float = 0
    used_cpu: float = -1
    accounted_at_report_cpu: float = 0
    in_progress: float = 0
    report_seen_at_s: float = 0
    usage_counts_until_s: float = -inf
    report_counts_until_s: float = -inf

    def report_age_seconds(self, now_s: float) -> float | None:
        """Return the seconds since the last accepted report was first seen, or None without one."""
        return None if self.report_counts_until_s == -inf else now_s - self.report_seen_at_s

    def expired(self, now_s: float) -> bool:
        """Return whether the report is too old to trust, or absent."""
        return now_s > self.report_counts_until_s

    def accounted_cpu(self, view: View, now_s: float) -> float:
        """Return the CPU that the node holds in this view, in millicores, never below 0."""
        if view is View.RECONCILED:
            return self.reconciled_cpu
        return view_sum(
            view,
            trusted=not self.expired(now_s),
            reconciled=self.reconciled_cpu,
            reported=self.reported_cpu,
            in_progress=self.in_progress_cpu,
            delta=self.delta_cpu,
        )

    def projected_cpu(self, now_s: float, usage_fraction: float = 0.0) -> float:
        """Return the CPU usage in millicores, as reported or projected; 0 where none was reported or it is too old.

        With a `usage_fraction` the usage is projected: what came since that report is taken to use this share of its
        size, and what went no longer to do so. Where the reported usage is too old, all that the node holds is taken to
        use that share: at 0 the node would look emptier than its neighbours, and be flooded. Never below 0.
        """
        used = self.used_cpu
        if used < 0:
            return 0.0
        if now_s > self.usage_counts_until_s:
            return usage_fraction * self.reconciled_cpu
        if not usage_fraction:
            return used
        return max(0.0, used + usage_fraction * (self.reconciled_cpu - self.accounted_at_report_cpu))


_BLOCK = Struct(f"{len(Figures._fields)}d")
pack = _BLOCK.pack
"""Return the block of a node's figures, given in the order of their fields. Raises OverflowError beyond 2**1024."""


def unpack(block: bytes) -> Figures:
    """Return the figures of a block."""
    return Figures._make(_BLOCK.unpack(block))
