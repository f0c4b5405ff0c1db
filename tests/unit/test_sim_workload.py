from itertools import pairwise

import pytest

from sandberth.sim.distributions import parse_times
from sandberth.sim.settings import Settings
from sandberth.sim.workload import requests


def test_the_article_asks_500_times_at_20_a_second() -> None:
    asked = list(requests(Settings(), 0))

    assert len(asked) == 500
    assert [request.at_us for request in asked[:3]] == [0, 50_000, 100_000]
    assert {request.cpu_millicores for request in asked} == {1000}
    assert all(request.lifetime_us is None and request.exit_us is None for request in asked)


def test_a_burst_comes_within_its_seconds_and_beside_a_rate_in_the_order_of_time() -> None:
    asked = list(requests(Settings(rate=2, duration=10, burst=30, burst_seconds=3), 0))

    assert len(asked) == 30 + 20
    assert all(before.at_us <= after.at_us for before, after in pairwise(asked))
    assert [request.number for request in asked] == list(range(50))
    assert sum(request.at_us < 3_000_000 for request in asked) == 30 + 6


def test_a_poisson_rate_is_that_rate_on_average_and_not_even() -> None:
    asked = list(requests(Settings(rate=50, duration=100, arrivals="poisson"), 0))

    gaps = {after.at_us - before.at_us for before, after in pairwise(asked)}
    assert 4_700 < len(asked) < 5_300
    assert len(gaps) > 1_000


def test_a_rate_for_each_node_grows_with_the_nodes() -> None:
    assert len(list(requests(Settings(nodes=7, rate=2, rate_is_per_node=True, duration=10), 0))) == 140


def test_each_size_is_about_as_likely() -> None:
    asked = list(requests(Settings(sandbox_cpu=(1, 2, 0.5), rate=300), 0))

    for size in (1000, 2000, 500):
        assert sum(r.cpu_millicores == size for r in asked) == pytest.approx(2500, rel=0.08)


def test_the_share_that_ends_by_itself_does_so_within_its_life() -> None:
    asked = list(requests(Settings(rate=400, self_exit=0.3, lifetime=parse_times("exp:60")), 0))

    exits = [request for request in asked if request.exit_us is not None]
    assert len(exits) == pytest.approx(3000, rel=0.06)
    assert all(
        request.lifetime_us is not None and 0 < (request.exit_us or 0) <= request.lifetime_us for request in exits
    )


def test_one_setting_does_not_shift_the_draws_of_another() -> None:
    plain = list(requests(Settings(lifetime=parse_times("exp:60")), 3))
    changed = list(requests(Settings(lifetime=parse_times("exp:60"), self_exit=0.5, sandbox_cpu=(1, 2)), 3))

    assert [r.lifetime_us for r in plain] == [r.lifetime_us for r in changed]
    assert [r.create_us for r in plain] == [r.create_us for r in changed]


def test_runs_and_seeds_differ() -> None:
    def lifetimes(seed: int, run: int) -> tuple[int | None, ...]:
        return tuple(r.lifetime_us for r in requests(Settings(seed=seed, lifetime=parse_times("exp:60")), run))

    assert len({lifetimes(0, 0), lifetimes(0, 1), lifetimes(1, 0)}) == 3
