"""Growing pauses with jitter."""

from random import Random


def pause_seconds(failures: int, rng: Random, *, first: float = 1.0, longest: float = 60.0) -> float:
    """Return how long to wait after the `failures`-th failure in a row (from 1): doubled each time, +-20 %."""
    pause = min(longest, first * 2.0 ** min(max(failures - 1, 0), 16))
    return pause * rng.uniform(0.8, 1.2)
