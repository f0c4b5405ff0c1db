"""The ledger between an adversary and the truth: schedules of `tests/prove`, as a plain loop and by Hypothesis.

`make prove` runs far more of them. What breaks here is run again by `python -m tests.prove.prove --seed N`.
"""

import os
from collections.abc import Callable
from dataclasses import fields
from random import Random
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from sandberth.core.report import Report
from tests.prove import cases
from tests.prove.checks import picture
from tests.prove.mutants import MUTANTS, Mutant
from tests.prove.prove import MOVES, first_fault, run
from tests.prove.rules import WEIGHTS, Schedule
from tests.prove.side import Side, facts_as_answers

BATCH = 250
FIRST = 1_000_000 if os.environ.get("CI") else Random().randrange(10**9)
CLOCKS = {"block", "report_seen_at_s", "usage_counts_until_s", "report_counts_until_s"}


@pytest.mark.parametrize("batch", range(8))
def test_no_schedule_breaks_an_invariant(batch: int) -> None:
    first = FIRST + batch * BATCH

    _, _, seed, text = first_fault(range(first, first + BATCH))

    assert seed < 0, f"python -m tests.prove.prove --seed {seed}: {text}"


@pytest.mark.parametrize("case", cases.CASES, ids=lambda case: case.__name__)
def test_named_schedule(case: Callable[[type[Side]], None]) -> None:
    cases.run_case(case)


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_wrong_rule_fails_its_named_case(mutant: Mutant) -> None:
    assert mutant.killed_by_case()


def played(seed: int, side_type: type[Side]) -> Any:
    """Return the whole ledger after a hundred moves, without what is stamped by our own clock."""
    rng = Random(seed)
    with facts_as_answers():
        schedule = Schedule(lambda count: int(rng.random() * count), side_type=side_type)
        for _ in range(100):
            getattr(schedule, MOVES[int(rng.random() * len(MOVES))])()
    whole = picture(schedule.side.ledger)
    del whole["attempts"], whole["pods"]  # identities
    for account in whole["accounts"].values():
        for name in CLOCKS:
            del account[name]
    return whole


class SkewedSide(Side):
    """An operator whose clock runs a million times slower, and began elsewhere."""

    def __init__(self) -> None:
        super().__init__()
        self.now_s = -3_600.0

    def report(self, *args: Any) -> bool:
        self.now_s -= 1 - 1e-6
        return super().report(*args)


@pytest.mark.parametrize("seed", range(30))
def test_no_clock_changes_a_result(seed: int) -> None:
    assert played(seed, SkewedSide) == played(seed, Side)


def test_a_report_carries_no_time_of_the_node() -> None:
    assert not {field.name for field in fields(Report)} & {"reported_at", "reported_at_s", "boot_id", "now_s"}


def test_a_seed_gives_the_same_schedule_twice() -> None:
    with facts_as_answers():
        assert run(7) == run(7)
    assert played(7, Side) == played(7, Side)


class ScheduleMachine(RuleBasedStateMachine):
    """The same moves, drawn by Hypothesis, which shrinks what breaks."""

    def __init__(self) -> None:
        super().__init__()
        self.patch = facts_as_answers()
        self.patch.__enter__()
        self.schedule: Schedule | None = None

    @initialize(data=st.data())
    def begin(self, data: st.DataObject) -> None:
        self.schedule = Schedule(drawing(data))

    @invariant()
    def everything_holds(self) -> None:
        if self.schedule is not None:
            self.schedule.check()
            self.schedule.check_sums()

    def teardown(self) -> None:
        try:
            if self.schedule is not None:
                self.schedule.below = lambda count: count - 1
                self.schedule.come_to_rest()
        finally:
            self.patch.__exit__(None, None, None)


def drawing(data: st.DataObject) -> Callable[[int], int]:
    """Return what picks a number below another by drawing it."""
    return lambda count: data.draw(st.integers(0, count - 1))


def a_rule(name: str) -> Any:
    """Return a move as a rule."""

    def move(self: ScheduleMachine, data: st.DataObject) -> None:
        assert self.schedule is not None
        self.schedule.below = drawing(data)
        getattr(self.schedule, name)()

    move.__name__ = name
    return rule(data=st.data())(move)


for _name in WEIGHTS:
    setattr(ScheduleMachine, f"do_{_name}", a_rule(_name))

TestSchedules = ScheduleMachine.TestCase
TestSchedules.settings = settings(max_examples=100, stateful_step_count=60)
