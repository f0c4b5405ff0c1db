import math
from random import Random

import pytest

from sandberth.sim.distributions import fixed, parse_times


class Scripted(Random):
    """Gives one number for ever."""

    def __init__(self, share: float) -> None:
        super().__init__()
        self._share = share

    def random(self) -> float:
        return self._share


@pytest.mark.parametrize("text", ["1", "0", "0.001", ".5", "0.5-2", "exp:60", "lognormal:1,0.5"])
def test_what_is_read_is_written_the_same(text: str) -> None:
    assert parse_times(str(parse_times(text))) == parse_times(text)


@pytest.mark.parametrize(
    "text", ["", "x", "-1", "2-1", "1-", "exp:", "exp:x", "lognormal:1", "lognormal:1,9", "1e3", "nan", "inf", "9" * 9]
)
def test_anything_else_is_refused_naming_it(text: str) -> None:
    with pytest.raises(ValueError, match="'"):
        parse_times(text)


@pytest.mark.parametrize(
    ("text", "share", "microseconds"),
    [
        ("1.5", 0.9, 1_500_000),
        ("1-3", 0.25, 1_500_000),
        ("exp:60", 1 - math.exp(-1), 60_000_000),
        ("exp:60", 0.0, 0),
        ("lognormal:2,0.5", 0.5, 2_000_000),
    ],
)
def test_a_draw_is_the_inverse_of_the_distribution_at_the_random_number(
    text: str, share: float, microseconds: int
) -> None:
    assert parse_times(text).draw(Scripted(share)) == microseconds


@pytest.mark.parametrize("text", ["lognormal:1,5", "exp:1000000", "0-1000000"])
@pytest.mark.parametrize("share", [0.0, 1 - 2**-53])
def test_the_ends_of_the_random_numbers_give_a_time(text: str, share: float) -> None:
    assert parse_times(text).draw(Scripted(share)) >= 0


@pytest.mark.parametrize("text", ["2", "1-3", "exp:2", "lognormal:2,0.5"])
def test_the_mean_is_that_of_the_draws(text: str) -> None:
    times, rng = parse_times(text), Random(0)

    drawn = math.fsum(times.draw(rng) for _ in range(40_000)) / 40_000 / 1e6

    assert drawn == pytest.approx(times.mean, rel=0.03)


@pytest.mark.parametrize("text", ["2", "1-3", "exp:2", "lognormal:2,0.5"])
def test_every_draw_takes_one_random_number(text: str) -> None:
    one, other = Random(0), Random(0)

    parse_times(text).draw(one)
    other.random()

    assert one.random() == other.random()


def test_only_what_is_always_0_is_zero() -> None:
    assert fixed(0).is_zero
    assert not parse_times("0-1").is_zero
