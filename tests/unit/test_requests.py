"""The effective request of a pod, with the cases that the Kubernetes documentation explains."""

import pytest

from sandberth.core.quantity import QuantityError
from sandberth.core.requests import Amounts, Container, PodShape, Port, effective_requests
from sandberth.core.resources import ZERO, Requests, Resources


def asks(cpu: str = "0", memory: str = "0", **more: str) -> Amounts:
    return {"cpu": cpu, "memory": memory, **more}


def cpu_of(*containers: Container, init: list[Container] | None = None) -> int:
    shape = PodShape(containers=containers, init_containers=init or [])
    return effective_requests(shape).cpu_millicores


def test_containers_run_together_so_their_requests_add_up() -> None:
    shape = PodShape([Container(asks("250m", "64Mi")), Container(asks("500m", "128Mi"))])

    found = effective_requests(shape)

    assert found == Requests(cpu_millicores=750, memory_bytes=192 * 2**20)
    assert found.size == Resources(750, 192 * 2**20)


def test_no_request_at_all_is_zero() -> None:
    assert effective_requests(PodShape([Container()])).size == ZERO


def test_a_limit_fills_only_the_request_that_is_absent() -> None:
    shape = PodShape([Container(requests={"cpu": "100m"}, limits=asks("1", "1Gi"))])

    assert effective_requests(shape).size == Resources(100, 2**30)


def test_init_containers_run_one_by_one_so_the_largest_counts() -> None:
    init = [Container(asks("2")), Container(asks("3"))]

    assert cpu_of(Container(asks("1")), init=init) == 3000
    assert cpu_of(Container(asks("4")), init=init) == 4000


def test_the_largest_is_taken_resource_by_resource() -> None:
    shape = PodShape([Container(asks("2", "1Gi"))], init_containers=[Container(asks("1", "4Gi"))])

    assert effective_requests(shape).size == Resources(2000, 4 * 2**30)


def test_a_sidecar_runs_beside_the_containers() -> None:
    sidecar = Container(asks("500m"), is_sidecar=True)

    assert cpu_of(Container(asks("1")), init=[sidecar]) == 1500


def test_a_sidecar_counts_for_the_init_containers_after_it_only() -> None:
    init, sidecar = Container(asks("2")), Container(asks("500m"), is_sidecar=True)

    assert cpu_of(Container(asks("1")), init=[sidecar, init]) == 2500
    assert cpu_of(Container(asks("1")), init=[init, sidecar]) == 2000


def test_sidecars_add_up_while_init_containers_wait_for_their_turn() -> None:
    init = [
        Container(asks("5")),  # alone: 5
        Container(asks("1"), is_sidecar=True),
        Container(asks("3")),  # with one sidecar: 4
        Container(asks("2"), is_sidecar=True),
        Container(asks("4")),  # with both: 7
    ]

    assert cpu_of(Container(asks("1")), init=init) == 7000
    assert cpu_of(Container(asks("6")), init=init) == 9000


def test_overhead_is_added_to_whatever_the_pod_needs() -> None:
    shape = PodShape([Container(asks("1", "1Gi"))], overhead=asks("250m", "120Mi"))

    assert effective_requests(shape).size == Resources(1250, 2**30 + 120 * 2**20)


def test_pod_level_requests_replace_the_sum_and_overhead_comes_on_top() -> None:
    shape = PodShape([Container(asks("1", "1Gi"))], requests={"cpu": "3"}, overhead=asks("1"))

    assert effective_requests(shape).size == Resources(4000, 2**30)


def test_pod_level_resources_do_not_touch_other_kinds() -> None:
    shape = PodShape([Container({"example.com/gpu": "1"})], requests={"example.com/gpu": "5", "cpu": "1"})

    assert effective_requests(shape).extended == (("example.com/gpu", 1),)


def test_a_pod_level_limit_counts_only_where_no_container_asks() -> None:
    shape = PodShape([Container({"cpu": "1"})], limits=asks("4", "2Gi"))

    assert effective_requests(shape).size == Resources(1000, 2 * 2**30)


def test_pod_level_huge_pages_cannot_be_overcommitted() -> None:
    shape = PodShape([Container({"hugepages-2Mi": "2Mi"})], limits={"hugepages-2Mi": "8Mi"})

    assert effective_requests(shape).extended == (("hugepages-2Mi", 8 * 2**20),)


@pytest.mark.parametrize(
    ("wanted", "allocated", "actual", "counted"),
    [
        ("1", "1", "1", 1000),
        ("3", "1", "1", 3000),  # growing: not yet allocated
        ("1", "3", "2", 3000),  # allocated more than is in force
        ("1", "1", "4", 4000),  # shrinking: still in force
    ],
)
def test_a_resize_counts_the_largest_of_wanted_allocated_and_actual(
    wanted: str, allocated: str, actual: str, counted: int
) -> None:
    container = Container({"cpu": wanted}, allocated={"cpu": allocated}, actual={"cpu": actual})

    assert cpu_of(container) == counted


def test_an_infeasible_resize_is_not_counted() -> None:
    container = Container({"cpu": "64"}, allocated={"cpu": "1"}, actual={"cpu": "2"})

    assert effective_requests(PodShape([container], resize_is_infeasible=True)).cpu_millicores == 2000


def test_a_pod_level_resize_counts_the_largest_too() -> None:
    shape = PodShape([Container()], requests={"cpu": "1"}, allocated={"cpu": "2"}, actual={"cpu": "3"})

    assert effective_requests(shape).cpu_millicores == 3000


def test_other_resources_are_listed_by_name_without_the_zeros() -> None:
    shape = PodShape(
        [
            Container({"example.com/b": "1", "example.com/a": 2, "example.com/none": "0"}),
            Container({"example.com/b": "1", "ephemeral-storage": "1Gi"}),
        ]
    )

    found = effective_requests(shape)

    assert found.extended == (("example.com/a", 2), ("example.com/b", 2))
    assert found.ephemeral_storage_bytes == 2**30


def test_host_ports_are_those_that_stay_bound() -> None:
    shape = PodShape(
        [Container(ports=[Port(80, host_port=8080), Port(81)])],
        init_containers=[
            Container(ports=[Port(82, host_port=8082)]),
            Container(ports=[Port(83, 8083, "UDP", "10.0.0.1")], is_sidecar=True),
        ],
    )

    assert effective_requests(shape).host_ports == (("0.0.0.0", "TCP", 8080), ("10.0.0.1", "UDP", 8083))


def test_on_the_host_network_every_port_is_a_host_port() -> None:
    shape = PodShape([Container(ports=[Port(80), Port(81, 81, host_ip="0.0.0.0")])], host_network=True)

    assert effective_requests(shape).host_ports == (("0.0.0.0", "TCP", 80), ("0.0.0.0", "TCP", 81))


def test_requests_can_be_compared_and_hashed() -> None:
    shape = PodShape([Container(asks("1"), ports=[Port(80, 80)])])

    assert len({effective_requests(shape), effective_requests(shape)}) == 1


def test_a_malformed_quantity_is_named() -> None:
    with pytest.raises(QuantityError, match="1GiB"):
        effective_requests(PodShape([Container({"memory": "1GiB"})]))
