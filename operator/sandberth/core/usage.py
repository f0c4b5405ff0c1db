"""How much of what is allocated is really used: what a projection of the usage between two reports goes by."""

from sandberth.core.report import Report

WEIGHT_OF_THE_NEWEST = 0.05


class UsageFraction:
    """The share of its size that a sandbox uses, in [0, 1], learnt from the reports of all nodes.

    One number for the fleet: what a node is given next comes from the same stream whatever the node, and a node's own
    share would be that of the few sandboxes it happens to have. CPU used and CPU allocated are averaged apart (each an
    exponentially weighted moving average), so that a nearly empty node says little. 1 until a report lists a sandbox.
    """

    def __init__(self) -> None:
        self._used = 0.0
        self._allocated = 0.0

    @property
    def value(self) -> float:
        """The share as learnt so far."""
        return min(1.0, max(0.0, self._used / self._allocated)) if self._allocated > 0 else 1.0

    def learn(self, report: Report) -> None:
        """Take a report in; one without usage or without sandboxes says nothing."""
        if report.used is None or not report.sandboxes:
            return
        self._used += WEIGHT_OF_THE_NEWEST * (report.used.cpu_millicores - self._used)
        self._allocated += WEIGHT_OF_THE_NEWEST * (report.allocated.cpu_millicores - self._allocated)
