"""Fit against a naive sum over all Pods of a node."""

from hypothesis import given
from hypothesis import strategies as st

from sandberth.core.fit import divided_cpu, shortage
from sandberth.core.ledger import PodHolding
from sandberth.core.node import Allocatable
from sandberth.core.resources import Requests, Resources
from tests.builders import a_fleet, a_node, an_ask

AMOUNTS = st.integers(0, 12)
SIZES = st.builds(Resources, AMOUNTS, AMOUNTS)
PORTS = st.tuples(st.sampled_from(["0.0.0.0", "10.0.0.1", "10.0.0.2"]), st.sampled_from(["TCP", "UDP"]), st.just(80))
REQUESTS = st.builds(
    Requests,
    cpu_millicores=AMOUNTS,
    memory_bytes=AMOUNTS,
    ephemeral_storage_bytes=AMOUNTS,
    extended=st.dictionaries(st.sampled_from(["vendor/gpu", "vendor/nic"]), st.integers(0, 2)).map(
        lambda amounts: tuple(sorted(amounts.items()))
    ),
    host_ports=st.lists(PORTS, max_size=2, unique=True).map(tuple),
)
PODS = st.lists(st.tuples(SIZES, REQUESTS), max_size=6)
ALLOCATABLES = st.builds(
    Allocatable,
    cpu_millicores=st.integers(0, 30),
    memory_bytes=st.integers(0, 30),
    ephemeral_storage_bytes=st.integers(0, 30),
    pods=st.integers(0, 8),
    extended=st.dictionaries(st.just("vendor/gpu"), st.integers(0, 4)),
)


def fits_naively(
    pods: list[tuple[Resources, Requests]],
    nominal: Resources,
    requests: Requests,
    allocatable: Allocatable,
    overcommit_percent: int,
) -> bool:
    """Return whether all Pods and this one stay within the node, each sum written out."""
    everyone = [*pods, (nominal, requests)]
    bound = [port for _, request in pods for port in request.host_ports]
    return (
        sum(size.cpu_millicores for size, _ in everyone) * 100 <= overcommit_percent * allocatable.cpu_millicores
        and sum(size.memory_bytes for size, _ in everyone) <= allocatable.memory_bytes
        and sum(request.cpu_millicores for _, request in everyone) <= allocatable.cpu_millicores
        and sum(request.memory_bytes for _, request in everyone) <= allocatable.memory_bytes
        and len(everyone) <= allocatable.pods
        and (
            requests.ephemeral_storage_bytes == 0
            or sum(request.ephemeral_storage_bytes for _, request in everyone) <= allocatable.ephemeral_storage_bytes
        )
        and all(
            amount == 0
            or sum(dict(request.extended).get(name, 0) for _, request in everyone) <= allocatable.extended.get(name, 0)
            for name, amount in requests.extended
        )
        and not any(
            (protocol, port) == (other_protocol, other_port) and (address == other or "0.0.0.0" in {address, other})
            for address, protocol, port in requests.host_ports
            for other, other_protocol, other_port in bound
        )
    )


@given(PODS, SIZES, REQUESTS, ALLOCATABLES, st.sampled_from([50, 100, 133, 400]))
def test_fit_says_what_the_sums_over_all_pods_say(
    pods: list[tuple[Resources, Requests]],
    nominal: Resources,
    requests: Requests,
    allocatable: Allocatable,
    overcommit_percent: int,
) -> None:
    fleet = a_fleet(a_node(allocatable=allocatable))
    for number, (size, request) in enumerate(pods):
        fleet.ledger.pod_observed(PodHolding(f"pod-{number}", None, "node-a", size, request))
    node = fleet.nodes["uid-of-node-a"]
    ask = an_ask(nominal.cpu_millicores, nominal.memory_bytes, requests=requests)

    fits = shortage(node, ask, overcommit_percent) is None

    assert fits == fits_naively(pods, nominal, requests, allocatable, overcommit_percent)


@given(PODS, SIZES, ALLOCATABLES, st.integers(1, 1_000))
def test_a_divided_request_is_the_one_that_is_checked(
    pods: list[tuple[Resources, Requests]], nominal: Resources, allocatable: Allocatable, overcommit_percent: int
) -> None:
    fleet = a_fleet(a_node(allocatable=allocatable))
    for number, (size, request) in enumerate(pods):
        fleet.ledger.pod_observed(PodHolding(f"pod-{number}", None, "node-a", size, request))
    node = fleet.nodes["uid-of-node-a"]
    ask = an_ask(nominal.cpu_millicores, nominal.memory_bytes, divides_cpu=True)

    fits = shortage(node, ask, overcommit_percent) is None

    requests = ask.requests_at(overcommit_percent)
    assert fits == fits_naively(pods, nominal, requests, allocatable, overcommit_percent)


@given(st.integers(1, 10**6), st.integers(1, 10_000))
def test_a_divided_cpu_is_at_least_one_at_most_the_size_and_never_rounded_up(
    nominal: int, overcommit_percent: int
) -> None:
    divided = divided_cpu(nominal, overcommit_percent)

    assert 1 <= divided <= nominal
    assert divided == 1 or divided * max(100, overcommit_percent) <= nominal * 100
    assert (divided + 1) * max(100, overcommit_percent) > nominal * 100
