"""All runs of a simulation, on as many processes as there are, and what they come to: the JSON of `simulate`.

A run depends on its settings, view and number alone, so the result is the same for any number of processes.
"""

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing import get_context
from typing import Any

from sandberth.core.views import View
from sandberth.sim.engine import Outcome, simulate
from sandberth.sim.measures import summary
from sandberth.sim.settings import Settings

Progress = Callable[[float], None]  # takes the share that is done
Task = tuple[Settings, View, int]

WORTH_A_PROCESS = 30_000  # sandboxes in all; with fewer, starting processes takes longer than the runs
DECIMALS = 6


def run_all(settings: Settings, workers: int | None = None, progress: Progress = lambda _: None) -> list[Outcome]:
    """Return the outcomes in the order of views and runs."""
    tasks: list[Task] = [(settings, view, run) for view in settings.accounting for run in range(settings.repeat)]
    outcomes = []
    with _mapping(settings, tasks, workers, progress) as results:
        for outcome in results:
            outcomes.append(outcome)
            progress(len(outcomes) / len(tasks))
    return outcomes


@contextmanager
def _mapping(
    settings: Settings, tasks: list[Task], workers: int | None, progress: Progress
) -> Iterator[Iterator[Outcome]]:
    workers = min(workers or len(os.sched_getaffinity(0)), len(tasks))
    if workers == 1 or settings.expected_sandboxes * len(tasks) < WORTH_A_PROCESS:
        yield _in_turn(tasks, progress)
        return
    chunk = max(1, min(10, len(tasks) // (workers * 10)))
    with get_context("spawn").Pool(workers, _leave_interrupts_to_the_parent) as pool:
        yield pool.imap(_run, tasks, chunk)


def _leave_interrupts_to_the_parent() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _run(task: Task) -> Outcome:
    return simulate(*task)


def _in_turn(tasks: list[Task], progress: Progress) -> Iterator[Outcome]:
    for number, task in enumerate(tasks):
        duration = task[0].duration

        def tick(seconds: float, number: int = number, duration: float = duration) -> None:
            progress((number + min(1.0, seconds / duration)) / len(tasks))

        yield simulate(*task, tick)


def as_json(settings: Settings, outcomes: list[Outcome]) -> dict[str, Any]:
    """Return everything that a simulation came to."""
    views = {view: [outcome for outcome in outcomes if outcome.view is view] for view in settings.accounting}
    return {
        "parameters": settings.as_json(),
        "runs": settings.repeat,
        "results": {view.value: _result(runs) for view, runs in views.items()},
    }


def _result(runs: list[Outcome]) -> dict[str, Any]:
    first = runs[0]
    result: dict[str, Any] = {
        name: {
            key: round(value, DECIMALS) for key, value in summary([getattr(run.evenness, name) for run in runs]).items()
        }
        for name in ("cv_count", "cv_allocated", "max_over_mean")
    }
    return result | {
        "counts": list(first.counts),
        "max": max(first.counts),
        "min": min(first.counts),
        "undercount": sum(run.tally.undercount for run in runs),
        "overcount_max_cpu": max(run.tally.overcount_max for run in runs) / 1000,
        "refused": sum(run.tally.refused for run in runs),
    }
