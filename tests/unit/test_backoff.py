"""Growing pauses."""

from random import Random

from sandberth.control.backoff import pause_seconds


class NoJitter(Random):
    def uniform(self, a: float, b: float) -> float:
        return (a + b) / 2


def test_each_pause_is_twice_the_last_up_to_the_longest() -> None:
    pauses = [pause_seconds(count, NoJitter(), first=1, longest=10) for count in range(1, 8)]

    assert pauses == [1, 2, 4, 8, 10, 10, 10]


def test_a_pause_differs_by_at_most_a_fifth() -> None:
    rng = Random(1)

    pauses = [pause_seconds(1, rng, first=10) for _ in range(1000)]

    assert 8 <= min(pauses) < 8.2
    assert 11.8 < max(pauses) <= 12


def test_neither_no_failure_nor_very_many_break_the_pause() -> None:
    assert pause_seconds(0, NoJitter()) == 1
    assert pause_seconds(10**9, NoJitter(), longest=60) == 60
