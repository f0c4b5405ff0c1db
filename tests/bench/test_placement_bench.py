"""One decision with its reservation, and the release after it: flat in the number of nodes while most are eligible.

Compare only runs of one machine. Run with `pytest tests/bench -m bench`.
"""

from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from sandberth.core.constraints import Constraints
from sandberth.core.fit import Ask
from sandberth.core.fleet import Fleet
from sandberth.core.placement import Parameters, place
from sandberth.core.sampling import Sampler
from sandberth.core.views import View
from tests.builders import NOW_S, a_fleet, a_node, a_report, a_size, an_ask, hold

pytestmark = pytest.mark.bench

Benchmark = Callable[..., Any]


def a_loaded_fleet(node_count: int, *, labelled: int) -> Fleet:
    """Return nodes with one Pod and a report each; the first `labelled` of them carry a label."""
    fleet = a_fleet(
        *(a_node(f"n{number}", labels={"pick": "me"} if number < labelled else {}) for number in range(node_count))
    )
    for number in range(node_count):
        load = a_size(number % 997)
        hold(fleet, f"n{number}", pod_uid=f"p{number}", nominal=load)
        fleet.accept_report(a_report(f"uid-of-n{number}", 2, allocated=load, used=load), NOW_S)
    return fleet


def place_and_release(fleet: Fleet, ask: Ask, rng: Random, parameters: Parameters) -> None:
    decision = place(fleet, "sandbox.1", ask, parameters=parameters, rng=rng, now_s=NOW_S)
    assert decision.chosen is not None
    fleet.ledger.release("sandbox.1")


def parameters_of(sampler: Sampler, sample_size: int | None = 3) -> Parameters:
    return Parameters(sample_size, view=View.RECONCILED, sampler=sampler)


@pytest.mark.parametrize("sampler", list(Sampler))
@pytest.mark.parametrize("node_count", [10, 100, 1_000, 10_000])
def test_bench_place_and_release(benchmark: Benchmark, node_count: int, sampler: Sampler) -> None:
    fleet = a_loaded_fleet(node_count, labelled=node_count)

    benchmark(place_and_release, fleet, an_ask(divides_cpu=True), Random(0), parameters_of(sampler))


@pytest.mark.parametrize("sampler", list(Sampler))
def test_bench_place_and_release_where_one_node_in_a_hundred_is_eligible(
    benchmark: Benchmark, sampler: Sampler
) -> None:
    fleet = a_loaded_fleet(10_000, labelled=100)
    ask = an_ask(divides_cpu=True, constraints=Constraints(node_selector=(("pick", "me"),)))

    benchmark(place_and_release, fleet, ask, Random(0), parameters_of(sampler))


def test_bench_place_and_release_with_all_nodes_compared(benchmark: Benchmark) -> None:
    fleet = a_loaded_fleet(10_000, labelled=10_000)

    benchmark(place_and_release, fleet, an_ask(divides_cpu=True), Random(0), parameters_of(Sampler.UNIFORM, None))
