import pytest

from sandberth.demo.statistics import Outcome, failures, kept_pace
from sandberth.sim.measures import coefficient_of_variation


def an_outcome(setting: str = "reconciled", counts: tuple[int, ...] = (50, 50, 50, 50), **changes: object) -> Outcome:
    fields: dict[str, object] = {
        "setting": setting,
        "nodes": tuple(f"node-{number}" for number in range(len(counts))),
        "counts": counts,
        "allocated_fractions": tuple(count / 192 for count in counts),
        "asked": sum(counts),
        "running": sum(counts),
        "seconds": 25.0,
    }
    return Outcome(**(fields | changes))  # type: ignore[arg-type]


def test_the_cv_is_the_population_deviation_over_the_mean() -> None:
    assert coefficient_of_variation([2, 4, 4, 4, 5, 5, 7, 9]) == pytest.approx(2 / 5)


@pytest.mark.parametrize("values", [[], [0, 0, 0]])
def test_nothing_on_any_node_is_even(values: list[float]) -> None:
    assert coefficient_of_variation(values) == 0.0


def test_the_json_of_an_outcome_has_exactly_the_promised_keys() -> None:
    outcome = an_outcome(counts=(1, 3), seconds=25.123)

    assert outcome.as_json() == {
        "cv_count": 0.5,
        "cv_allocated": 0.5,
        "max": 3,
        "min": 1,
        "counts": [1, 3],
        "running": 4,
        "seconds": 25.12,
    }


def test_a_herd_and_its_cures_pass() -> None:
    outcomes = [an_outcome("off", (10, 90, 10, 90)), an_outcome("optimistic"), an_outcome("reconciled")]

    assert failures(outcomes) == []


@pytest.mark.parametrize(
    ("outcome", "failure"),
    [
        (an_outcome("off"), "off: no herd, the CV of the counts is 0.000, not 0.4 or more"),
        (
            an_outcome("optimistic", (45, 55, 45, 55), allocated_fractions=(0.25, 0.25)),
            "optimistic: the CV of the counts is 0.1000, above 0.05",
        ),
        (
            an_outcome("reconciled", allocated_fractions=(0.24, 0.26)),
            "reconciled: the CV of what is allocated is 0.0400, above 0.025",
        ),
        (an_outcome(running=199), "reconciled: 199 of 200 Sandboxes are Running"),
        (an_outcome(faults=("1 have more than one Pod, a first",)), "reconciled: 1 have more than one Pod, a first"),
    ],
)
def test_each_miss_is_one_line(outcome: Outcome, failure: str) -> None:
    assert failures([outcome]) == [failure]


def test_the_bounds_themselves_still_pass() -> None:
    even = an_outcome("optimistic", (95, 105), allocated_fractions=(0.975, 1.025))
    herd = an_outcome("off", (30, 70))

    assert even.cv_count == pytest.approx(0.05)
    assert failures([even, herd]) == []


@pytest.mark.parametrize(("seconds", "kept"), [(25.2, True), (31.9, True), (32.1, False), (74.0, False)])
def test_a_burst_that_took_much_longer_than_its_schedule_did_not_keep_the_pace(seconds: float, kept: bool) -> None:
    assert kept_pace(an_outcome(counts=(250, 250), seconds=seconds), rate=20) is kept
