"""The four sums of what a node holds, of which a score uses one."""

from enum import StrEnum
from typing import TypeVar

Number = TypeVar("Number", int, float)


class View(StrEnum):
    """Which sum of the ledger the score uses."""

    METRICS = "metrics"
    IN_PROGRESS = "in-progress"
    OPTIMISTIC = "optimistic"
    RECONCILED = "reconciled"


def view_sum(
    view: View, *, trusted: bool, reconciled: Number, reported: Number, in_progress: Number, delta: Number
) -> Number:
    """Return the sum that `view` names, never below 0, from its parts in one unit; whole numbers stay whole.

    Without a report that is `trusted` every view is the reconciled one: there is nothing else to go by.
    """
    if view is View.RECONCILED or not trusted:
        return reconciled
    amount = reported
    if view is not View.METRICS:
        amount += in_progress
    if view is View.OPTIMISTIC:
        amount += delta
    return max(0, amount)
