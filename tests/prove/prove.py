"""Run schedules by their seeds: `python -m tests.prove.prove`, or one of them again with `--seed N`.

Each schedule is a world of its own and 100 to 140 moves of the adversary, with every invariant held after each move.
In one schedule of eight, each event is told twice and the second must change nothing (I5); the ledger adds its own sums
up anew at every eighth move.
"""

import argparse
import os
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from random import Random
from typing import Any

from sandberth.core.ledger import Ledger
from tests.prove.checks import Broken, picture
from tests.prove.rules import WEIGHTS, Schedule
from tests.prove.side import Side, facts_as_answers

SCHEDULES = 100_000
LEAST_STEPS, MOST_STEPS = 100, 140
BATCH = 500
SUMS_EVERY = 8
ECHO_EVERY = 8
MOVES = [name for name, weight in WEIGHTS.items() for _ in range(weight)]
EVENTS = (
    "node_appeared",
    "node_vanished",
    "reserve",
    "release",
    "create_answered",
    "delete_answered",
    "pod_observed",
    "pod_ended",
    "pods_passed",
    "accept_report",
)


def _echoed(name: str) -> Callable[..., Any]:
    def event(self: Ledger, *args: Any) -> Any:
        result = getattr(Ledger, name)(self, *args)
        before = picture(self)
        getattr(Ledger, name)(self, *args)
        if picture(self) != before:
            raise Broken("I5", f"{name}{args} changes the ledger when it comes twice")
        return result

    return event


class EchoSide(Side):
    """An operator whose ledger hears every event twice."""

    ledger_type = type("EchoLedger", (Ledger,), {name: _echoed(name) for name in EVENTS})


def run(seed: int, side_type: type[Side] = Side, *, echo: bool | None = None) -> int:
    """Run the schedule of a seed; return its number of moves. Raises what the first broken invariant raises."""
    rng = Random(seed)
    chance = rng.random
    if side_type is Side and (seed % ECHO_EVERY == 0 if echo is None else echo):
        side_type = EchoSide
    schedule = Schedule(lambda count: int(chance() * count), side_type=side_type)
    steps = LEAST_STEPS + int(chance() * (MOST_STEPS - LEAST_STEPS))
    for step in range(steps):
        getattr(schedule, MOVES[int(chance() * len(MOVES))])()
        schedule.check()
        if step % SUMS_EVERY == 0:
            schedule.check_sums()
    schedule.come_to_rest()
    return steps


def first_fault(seeds: range, side_type: type[Side] = Side) -> tuple[int, int, int, str]:
    """Run schedules until one breaks; return (schedules, moves, seed of the broken one or -1, what broke)."""
    moves = 0
    with facts_as_answers():
        for done, seed in enumerate(seeds, 1):
            try:
                moves += run(seed, side_type)
            except Exception as error:  # noqa: BLE001 - a ledger that raises is a fault as well
                return done, moves, seed, f"{type(error).__name__}: {error}"
    return len(seeds), moves, -1, ""


def _batches(first: int, count: int) -> Iterator[range]:
    for start in range(first, first + count, BATCH):
        yield range(start, min(start + BATCH, first + count))


def prove(first: int, count: int, workers: int) -> int:
    """Run all schedules; return how many broke an invariant."""
    started, done, moves, faults = time.monotonic(), 0, 0, 0
    undercounts = 0
    with ProcessPoolExecutor(workers) as pool:
        for future in as_completed([pool.submit(first_fault, batch) for batch in _batches(first, count)]):
            schedules, steps, seed, text = future.result()
            done, moves = done + schedules, moves + steps
            if seed >= 0:
                faults += 1
                undercounts += text.startswith("Broken: I1")
                print(f"\nseed {seed}: {text}\nagain: python -m tests.prove.prove --seed {seed}", flush=True)
            if sys.stderr.isatty() or done % (count // 20 // BATCH * BATCH or BATCH) == 0:
                print(
                    f"\r{done:>9,} schedules, {moves:>12,} moves, {time.monotonic() - started:6.0f} s",
                    end="",
                    file=sys.stderr,
                )
    print(file=sys.stderr)
    print(f"{done:,} schedules, {moves:,} moves in {time.monotonic() - started:.0f} s on {workers} cores")
    print(f"{undercounts} undercounts, {faults - undercounts} other faults")
    return faults


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--schedules", type=int, default=SCHEDULES)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--seed", type=int, help="run this one alone, and show where it breaks")
    arguments = parser.parse_args()
    if arguments.seed is not None:
        with facts_as_answers():
            print(f"seed {arguments.seed}: {run(arguments.seed)} moves, nothing broken")
        return 0
    return min(prove(arguments.first, arguments.schedules, arguments.workers), 1)


if __name__ == "__main__":
    sys.exit(main())
