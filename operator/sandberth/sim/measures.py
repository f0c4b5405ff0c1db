"""How even a fleet is. Sums are exact (math.fsum), so neither order nor Python version matters."""

import math
from collections.abc import Sequence
from dataclasses import dataclass


def coefficient_of_variation(values: Sequence[float]) -> float:
    """Return the population standard deviation over the mean; 0 where all are 0, or there are none."""
    if not values:
        return 0.0
    mean = math.fsum(values) / len(values)
    if not mean:
        return 0.0
    return math.sqrt(math.fsum((value - mean) ** 2 for value in values) / len(values)) / mean


@dataclass(frozen=True, slots=True)
class Evenness:
    """One look at all nodes that are up.

    `cv_count` is the article's measure. It rewards a placer for ignoring what else runs on a node.
    `cv_allocated` is the honest one: the spread of the share of each node that is taken, by whomever.
    """

    cv_count: float
    cv_allocated: float
    max_over_mean: float  # of the share that is taken


def evenness(counts: Sequence[int], fractions: Sequence[float]) -> Evenness:
    """Measure the sandboxes on each node and the share of its CPU that is taken."""
    mean = math.fsum(fractions) / len(fractions) if fractions else 0.0
    return Evenness(
        coefficient_of_variation(counts),
        coefficient_of_variation(fractions),
        max(fractions) / mean if mean else 1.0,
    )


def averaged(looks: Sequence[Evenness]) -> Evenness:
    """Return the mean of several looks."""
    return Evenness(
        math.fsum(look.cv_count for look in looks) / len(looks),
        math.fsum(look.cv_allocated for look in looks) / len(looks),
        math.fsum(look.max_over_mean for look in looks) / len(looks),
    )


def summary(values: Sequence[float]) -> dict[str, float]:
    """Return mean, 95th percentile (nearest rank), minimum and maximum over the runs."""
    ordered = sorted(values)
    return {
        "mean": math.fsum(ordered) / len(ordered),
        "p95": ordered[math.ceil(0.95 * len(ordered)) - 1],
        "min": ordered[0],
        "max": ordered[-1],
    }
