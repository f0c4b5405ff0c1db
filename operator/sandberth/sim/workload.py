"""What will be asked of a cluster, drawn before anything is placed: every view of a run gets the very same."""

from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256
from random import Random

from sandberth.sim.distributions import MICROSECONDS, Distribution
from sandberth.sim.settings import Settings


def stream(seed: int, run: int, name: str) -> Random:
    """Return a stream of random numbers of its own, so that one setting does not shift the draws of another."""
    return Random(int.from_bytes(sha256(f"{seed}/{run}/{name}".encode()).digest()[:8], "big"))


@dataclass(frozen=True, slots=True)
class Request:
    """One sandbox that somebody asks for; times in microseconds, None = never."""

    number: int
    at_us: int
    cpu_millicores: int
    create_us: int
    delete_us: int  # how long its delete takes
    lifetime_us: int | None  # from its start to its delete
    exit_us: int | None  # from its start to its end by itself


def requests(settings: Settings, run: int) -> Iterator[Request]:
    """Yield what is asked for in the order of time."""
    sizes = stream(settings.seed, run, "sizes")
    latencies = stream(settings.seed, run, "latencies")
    lifetimes = stream(settings.seed, run, "lifetimes")
    exits = stream(settings.seed, run, "exits")
    choices = [round(cpu * 1000) for cpu in settings.sandbox_cpu]
    for number, at_us in enumerate(_times(settings, stream(settings.seed, run, "arrivals"))):
        lifetime_us = None if settings.lifetime.is_zero else max(1, settings.lifetime.draw(lifetimes))
        yield Request(
            number,
            at_us,
            choices[int(sizes.random() * len(choices))],
            settings.create_latency.draw(latencies),
            settings.create_latency.draw(latencies),
            lifetime_us,
            _exit_us(settings, lifetime_us, at_us, exits),
        )


def _times(settings: Settings, rng: Random) -> Iterator[int]:
    burst = [round(settings.burst_seconds * MICROSECONDS * i / settings.burst) for i in range(settings.burst)]
    end_us = round(settings.duration * MICROSECONDS)
    if not settings.sandboxes_per_second:
        yield from burst
        return
    gap = Distribution("exp", 1 / settings.sandboxes_per_second)
    number, at_us, waiting = 0, 0, iter(burst)
    next_burst = next(waiting, None)
    if settings.arrivals == "poisson":
        at_us = gap.draw(rng)
    while at_us < end_us:
        while next_burst is not None and next_burst <= at_us:
            yield next_burst
            next_burst = next(waiting, None)
        yield at_us
        number += 1
        even = round(number * MICROSECONDS / settings.sandboxes_per_second)
        at_us = at_us + gap.draw(rng) if settings.arrivals == "poisson" else even
    while next_burst is not None:
        yield next_burst
        next_burst = next(waiting, None)


def _exit_us(settings: Settings, lifetime_us: int | None, at_us: int, rng: Random) -> int | None:
    """Return when a sandbox ends by itself: some time in its life, or in what is left of the run."""
    ends, share = rng.random() < settings.self_exit, rng.random()
    if not ends:
        return None
    span_us = lifetime_us if lifetime_us is not None else round(settings.duration * MICROSECONDS) - at_us
    return max(1, round(share * max(1, span_us)))
