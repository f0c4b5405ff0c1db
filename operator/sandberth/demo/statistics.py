"""The numbers of one burst, and what they must show."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from sandberth.sim.measures import coefficient_of_variation

HERD_CV_COUNT = 0.4
EVEN_CV_COUNT = 0.05
EVEN_CV_ALLOCATED = 0.025


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one setting led to; the sequences have one entry a node, in the order of `nodes`."""

    setting: str
    nodes: tuple[str, ...]
    counts: tuple[int, ...]  # Sandboxes
    allocated_fractions: tuple[float, ...]  # nominal sizes and others' requests, of the node's CPU
    asked: int  # Sandboxes applied
    running: int
    seconds: float  # from the first apply to the last one Running
    applied_late_seconds: float = 0.0  # the worst that a Sandbox was sent after its time
    faults: tuple[str, ...] = ()  # Sandboxes lost, doubled, or elsewhere than their status says

    @property
    def cv_count(self) -> float:
        """The spread of Sandboxes over nodes."""
        return coefficient_of_variation(self.counts)

    @property
    def cv_allocated(self) -> float:
        """The spread of what is allocated, as a share of each node."""
        return coefficient_of_variation(self.allocated_fractions)

    def as_json(self) -> dict[str, Any]:
        """Return the entry of demo.json."""
        return {
            "cv_count": round(self.cv_count, 4),
            "cv_allocated": round(self.cv_allocated, 4),
            "max": max(self.counts, default=0),
            "min": min(self.counts, default=0),
            "counts": list(self.counts),
            "running": self.running,
            "seconds": round(self.seconds, 2),
        }


def kept_pace(outcome: Outcome, rate: float) -> bool:
    """Tell whether the burst took about as long as it was meant to; else reports came in that it was not to see."""
    return outcome.seconds <= 1.2 * outcome.asked / rate + 2.0


def failures(outcomes: Iterable[Outcome]) -> list[str]:
    """Return what the outcomes should have shown and did not, one line each."""
    found: list[str] = []
    for outcome in outcomes:
        name, spread, allocated = outcome.setting, outcome.cv_count, outcome.cv_allocated
        if outcome.running != outcome.asked:
            found.append(f"{name}: {outcome.running} of {outcome.asked} Sandboxes are Running")
        found += [f"{name}: {fault}" for fault in outcome.faults]
        if name == "off":
            if spread < HERD_CV_COUNT:
                found.append(f"off: no herd, the CV of the counts is {spread:.3f}, not {HERD_CV_COUNT} or more")
            continue
        if spread > EVEN_CV_COUNT:
            found.append(f"{name}: the CV of the counts is {spread:.4f}, above {EVEN_CV_COUNT}")
        if allocated > EVEN_CV_ALLOCATED:
            found.append(f"{name}: the CV of what is allocated is {allocated:.4f}, above {EVEN_CV_ALLOCATED}")
    return found
