import pytest

from sandberth.sim.measures import Evenness, averaged, evenness, summary


def test_even_counts_on_nodes_with_other_load_are_even_by_count_alone() -> None:
    seen = evenness([5, 5], [0.5, 0.3])

    assert seen.cv_count == 0
    assert seen.cv_allocated == pytest.approx(0.25)
    assert seen.max_over_mean == pytest.approx(1.25)


def test_no_node_and_no_load_are_even() -> None:
    assert evenness([], []) == evenness([0, 0], [0.0, 0.0]) == Evenness(0, 0, 1)


def test_looks_are_averaged() -> None:
    assert averaged([Evenness(0, 1, 1), Evenness(1, 2, 3)]) == Evenness(0.5, 1.5, 2)


def test_the_95th_percentile_is_a_value_that_occurred() -> None:
    values = [float(number) for number in range(20, 0, -1)]

    assert summary(values) == {"mean": 10.5, "p95": 19.0, "min": 1.0, "max": 20.0}
    assert summary([3.0]) == {"mean": 3.0, "p95": 3.0, "min": 3.0, "max": 3.0}
