import pytest

from sandberth.sim.histogram import bar_length, histogram


def test_each_node_has_its_name_a_bar_and_its_count() -> None:
    text = histogram(["node-0", "node-10"], [5, 10], 10)

    assert text.splitlines() == [
        f"node-0  | {'#' * 30:<60}  5",
        f"node-10 | {'#' * 60} 10",
    ]


def test_bars_of_two_runs_compare_when_drawn_to_the_same_most() -> None:
    assert histogram(["n"], [50], 100).count("#") == 30


@pytest.mark.parametrize(("count", "length"), [(0, 0), (1, 1), (1000, 60), (2000, 60)])
def test_what_is_not_nothing_shows_and_no_bar_is_too_long(count: int, length: int) -> None:
    assert bar_length(count, 1000) == length


def test_a_run_without_any_sandbox_has_empty_bars() -> None:
    assert "#" not in histogram(["n"], [0], 0)
