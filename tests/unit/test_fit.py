"""Whether a Sandbox fits: Sandberth's own sum and the kubelet's, never a report's."""

import pytest

from sandberth.core.constraints import Rejection
from sandberth.core.fit import Ask, divided_cpu, shortage
from sandberth.core.fleet import Node
from sandberth.core.node import Allocatable
from sandberth.core.resources import Requests, Resources
from tests.builders import GIB, NOW_S, a_fleet, a_node, a_report, a_size, an_allocatable, an_ask, hold

ROOMY = an_allocatable(cpu_millicores=10**9, memory_bytes=10**15, ephemeral_storage_bytes=10**15, pods=10**6)


def node_with(
    allocatable: Allocatable, *, nominal: Resources | None = None, requests: Requests | None = None, pods: int = 0
) -> Node:
    """Return a node that `pods` Pods of this size are bound to."""
    fleet = a_fleet(a_node(allocatable=allocatable))
    for number in range(pods):
        hold(fleet, "node-a", pod_uid=f"pod-{number}", nominal=nominal or a_size(0, 0), requests=requests or Requests())
    return fleet.nodes["uid-of-node-a"]


@pytest.mark.parametrize(
    ("nominal_millicores", "overcommit_percent", "request_millicores"),
    [
        (1_000, 400, 250),
        (1_001, 400, 250),
        (1_003, 400, 250),
        (1_004, 400, 251),
        (1_000, 300, 333),
        (1_000, 100, 1_000),
        (1_000, 50, 1_000),
        (1_000, 1, 1_000),
        (3, 400, 1),
        (1, 10_000, 1),
        (0, 400, 1),
    ],
)
def test_the_cpu_request_is_the_nominal_size_over_r_rounded_down(
    nominal_millicores: int, overcommit_percent: int, request_millicores: int
) -> None:
    assert divided_cpu(nominal_millicores, overcommit_percent) == request_millicores


def test_requests_stand_unless_the_ask_divides_its_cpu() -> None:
    requests = Requests(700, 5, 6, (("vendor/gpu", 1),))

    assert an_ask(1_000, requests=requests).requests_at(400) == requests
    assert an_ask(1_000, requests=requests, divides_cpu=True).requests_at(400) == Requests(
        250, 5, 6, (("vendor/gpu", 1),)
    )


def test_four_times_its_cpu_fits_on_a_node_at_400_percent() -> None:
    fleet = a_fleet(a_node(allocatable=an_allocatable(1_000)))
    node = fleet.nodes["uid-of-node-a"]
    ask = an_ask(100, 1, divides_cpu=True)

    placed = 0
    while shortage(node, ask, 400) is None:
        fleet.ledger.reserve(f"s.{placed}", node.facts.uid, ask.nominal, ask.requests_at(400))
        placed += 1

    assert placed == 40
    assert shortage(node, ask, 400) is Rejection.OVERCOMMIT


@pytest.mark.parametrize(("overcommit_percent", "fits"), [(400, True), (399, False), (50, False)])
def test_nominal_cpu_goes_up_to_r(overcommit_percent: int, fits: bool) -> None:
    node = node_with(an_allocatable(1_000), nominal=a_size(3_000, 1), requests=Requests(1), pods=1)
    ask = an_ask(1_000, 1, requests=Requests(1))

    assert (shortage(node, ask, overcommit_percent) is None) is fits


def test_cpu_requests_go_up_to_the_allocatable_cpu() -> None:
    node = node_with(an_allocatable(1_000), nominal=a_size(0, 0), requests=Requests(600), pods=1)

    assert shortage(node, an_ask(1, 1, requests=Requests(400)), 400) is None
    assert shortage(node, an_ask(1, 1, requests=Requests(401)), 400) is Rejection.CPU


@pytest.mark.parametrize("overcommit_percent", [100, 400, 10_000])
def test_memory_is_never_overcommitted(overcommit_percent: int) -> None:
    by_size = node_with(an_allocatable(memory_bytes=4 * GIB), nominal=a_size(1, 3 * GIB), pods=1)
    by_request = node_with(an_allocatable(memory_bytes=4 * GIB), requests=Requests(1, 3 * GIB), pods=1)

    for node in (by_size, by_request):
        assert shortage(node, an_ask(1, GIB), overcommit_percent) is None
        assert shortage(node, an_ask(1, GIB + 1), overcommit_percent) is Rejection.MEMORY


def test_the_nominal_memory_counts_where_the_request_is_smaller() -> None:
    node = node_with(an_allocatable(memory_bytes=4 * GIB))

    assert shortage(node, an_ask(1, 5 * GIB, requests=Requests(1, GIB)), 400) is Rejection.MEMORY
    assert shortage(node, an_ask(1, GIB, requests=Requests(1, 5 * GIB)), 400) is Rejection.MEMORY


def test_every_pod_counts_towards_the_number_of_pods() -> None:
    assert shortage(node_with(an_allocatable(pods=3), pods=2), an_ask(), 400) is None
    assert shortage(node_with(an_allocatable(pods=3), pods=3), an_ask(), 400) is Rejection.PODS
    assert shortage(node_with(an_allocatable(pods=0)), an_ask(), 400) is Rejection.PODS


def test_ephemeral_storage_counts_where_it_is_asked_for() -> None:
    node = node_with(an_allocatable(ephemeral_storage_bytes=10), requests=Requests(ephemeral_storage_bytes=8), pods=1)

    assert shortage(node, an_ask(1, 1, requests=Requests(ephemeral_storage_bytes=2)), 400) is None
    assert (
        shortage(node, an_ask(1, 1, requests=Requests(ephemeral_storage_bytes=3)), 400) is Rejection.EPHEMERAL_STORAGE
    )
    assert shortage(node_with(an_allocatable(ephemeral_storage_bytes=0)), an_ask(), 400) is None


def test_an_extended_resource_that_the_node_lacks_does_not_fit() -> None:
    ask = an_ask(1, 1, requests=Requests(extended=(("vendor/gpu", 1),)))
    none_asked = an_ask(1, 1, requests=Requests(extended=(("vendor/gpu", 0),)))

    assert shortage(node_with(an_allocatable()), ask, 400) is Rejection.EXTENDED
    assert shortage(node_with(an_allocatable()), none_asked, 400) is None


def test_extended_resources_are_shared_out_once() -> None:
    one = Requests(extended=(("vendor/gpu", 1),))
    allocatable = an_allocatable(extended={"vendor/gpu": 2})

    assert shortage(node_with(allocatable, requests=one, pods=1), an_ask(requests=one), 400) is None
    assert shortage(node_with(allocatable, requests=one, pods=2), an_ask(requests=one), 400) is Rejection.EXTENDED


def test_a_host_port_is_bound_once() -> None:
    port = Requests(host_ports=(("0.0.0.0", "TCP", 80),))
    loopback = Requests(host_ports=(("127.0.0.1", "TCP", 80), ("0.0.0.0", "TCP", 81)))
    node = node_with(ROOMY, requests=port, pods=1)

    assert shortage(node, an_ask(requests=port), 400) is Rejection.HOST_PORT
    assert shortage(node, an_ask(requests=loopback), 400) is Rejection.HOST_PORT
    assert shortage(node_with(ROOMY), an_ask(requests=port), 400) is None


def test_a_report_changes_no_fit() -> None:
    fleet = a_fleet(a_node(allocatable=an_allocatable(8_000)))
    node = fleet.nodes["uid-of-node-a"]
    full = a_size(10**9, 10**15)

    fleet.accept_report(a_report(sequence=2, allocated=full, used=full, sandboxes={"foreign.1": full}), NOW_S)

    assert shortage(node, an_ask(), 400) is None


def test_a_node_without_cpu_fits_nothing() -> None:
    ask = Ask(a_size(1, 1), Requests(0, 1))

    assert shortage(node_with(an_allocatable(0)), ask, 400) is Rejection.OVERCOMMIT
