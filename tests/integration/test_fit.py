"""How much fits on a node: CPU overcommitted by R, memory never, and what the Pods of others leave."""

from collections.abc import Callable, Iterator

import pytest

from sandberth.cluster.local import LocalCluster
from tests.integration.applying import an_image_spec
from tests.integration.bed import Objects, OperatorProgram, wait_for
from tests.integration.berths import Berths, a_sized_template, berths_in

pytestmark = pytest.mark.integration
Flags = Callable[..., None]


@pytest.fixture
def berths(cluster: LocalCluster, objects: Objects, operator: OperatorProgram, home: str) -> Iterator[Berths]:
    with berths_in(cluster, objects, home) as made:
        yield made


# --- CPU ---


def test_four_times_the_cpu_fits_by_default_and_not_one_millicore_more(berths: Berths) -> None:
    node = berths.add_node(cpu="2")
    boxes = [f"box-{number}" for number in range(8)]

    for box in boxes:
        berths.apply(box)
    berths.running(*boxes)
    berths.apply("more", an_image_spec(cpu="1m"))

    berths.refused("more", text="1 OvercommitLimit")
    assert berths.nodes_of() == {node: 8}
    assert berths.container_resources("box-0") == {
        "limits": {"cpu": "1", "memory": "1Gi"},
        "requests": {"cpu": "250m", "memory": "1Gi"},
    }


@pytest.mark.parametrize(
    ("percent", "cpu", "request_at_node"),
    [("300", "1", "333m"), ("400", "1m", "1m"), ("150", "1500m", "1"), ("100", "1", "1"), ("50", "500m", "500m")],
)
def test_the_cpu_request_is_the_nominal_size_divided_by_overcommitment(
    berths: Berths, flags: Flags, percent: str, cpu: str, request_at_node: str
) -> None:
    flags(best_of_k_max_overcommit=percent)
    berths.add_node(cpu="2")

    berths.apply("box", an_image_spec(cpu=cpu))
    berths.running("box")

    resources = berths.container_resources("box")
    assert resources["requests"]["cpu"] == request_at_node
    assert resources["limits"]["cpu"] == cpu


def test_less_than_a_hundred_percent_leaves_cpu_free(berths: Berths, flags: Flags) -> None:
    flags(best_of_k_max_overcommit="50")
    berths.add_node(cpu="2")

    berths.apply("box")
    berths.running("box")
    berths.apply("more", an_image_spec(cpu="1m"))

    berths.refused("more", text="1 OvercommitLimit")


def test_a_node_has_an_overcommitment_of_its_own(berths: Berths) -> None:
    node = berths.add_node(cpu="1")
    berths.set_capacity(node, overcommitPercent=200)

    berths.apply("box", an_image_spec(cpu="2"))
    status = berths.running("box")
    berths.apply("more", a_sized_template(requests={}) | {"resources": {"cpu": "1", "memory": "1Gi"}})
    berths.refused("more", text="1 OvercommitLimit")
    berths.set_capacity(node, overcommitPercent=300)

    assert status["placement"]["flags"]["overcommitPercent"] == 200
    assert berths.container_resources("box")["requests"]["cpu"] == "1"
    assert berths.running("more")["placement"]["flags"]["overcommitPercent"] == 300


def test_overcommitment_that_is_raised_wakes_what_waits_and_leaves_pods_alone(berths: Berths, flags: Flags) -> None:
    flags(best_of_k_max_overcommit="200")
    berths.add_node(cpu="1")
    berths.apply("box")
    berths.running("box")
    berths.apply("large", an_image_spec(cpu="1500m"))
    berths.refused("large", text="1 OvercommitLimit")
    before = berths.pod("box")["metadata"]

    flags(best_of_k_max_overcommit="300")

    berths.running("large")
    assert berths.container_resources("large")["requests"]["cpu"] == "500m"
    assert berths.pod("box")["metadata"]["uid"] == before["uid"]
    assert berths.container_resources("box")["requests"]["cpu"] == "500m"


# --- memory, Pods, and what others hold ---


def test_memory_is_never_overcommitted(berths: Berths) -> None:
    berths.add_node(memory="4Gi")
    boxes = [f"box-{number}" for number in range(4)]

    for box in boxes:
        berths.apply(box, an_image_spec(cpu="1m"))
    berths.running(*boxes)
    berths.apply("more", an_image_spec(cpu="1m", memory="1Mi"))

    berths.refused("more", text="1 InsufficientMemory")


def test_the_nominal_memory_of_a_template_is_not_overcommitted_either(berths: Berths) -> None:
    berths.add_node(memory="4Gi")
    spec = a_sized_template({"memory": "1Mi"}) | {"resources": {"cpu": "1", "memory": "3Gi"}}

    berths.apply("box", spec)
    berths.running("box")
    berths.apply("more", spec)

    berths.refused("more", text="1 InsufficientMemory")


def test_a_node_takes_no_more_pods_than_it_allows_own_and_foreign(berths: Berths) -> None:
    node = berths.add_node(pods=2)
    berths.foreign_pod("other", node, {})
    wait_for(lambda: berths.nodes_of(phases=["Running"]) == {node: 1}, what="the other pod runs")

    berths.apply("box")
    berths.running("box")
    berths.apply("more")

    berths.refused("more", text="1 TooManyPods")


def test_foreign_pods_fill_a_node_until_they_go(berths: Berths) -> None:
    node = berths.add_node(cpu="2", memory="4Gi")
    berths.foreign_pod("cpu", node, {"cpu": "1900m"})
    berths.foreign_pod("memory", node, {"memory": "3584Mi"})
    wait_for(lambda: berths.nodes_of(phases=["Running"]) == {node: 2}, what="the other pods run")

    berths.apply("cpu-bound", an_image_spec(cpu="408m", memory="1Mi"))
    berths.apply("memory-bound", an_image_spec(cpu="1m", memory="1Gi"))
    berths.apply("fits", an_image_spec(cpu="400m", memory="256Mi"))

    berths.running("fits")
    berths.refused("cpu-bound", text="1 InsufficientCpu")
    berths.refused("memory-bound", text="1 InsufficientMemory")
    berths.delete("cpu", "Pod")
    berths.delete("memory", "Pod")
    berths.running("cpu-bound", "memory-bound")


def test_a_pod_that_has_ended_holds_no_room(berths: Berths, objects: Objects) -> None:
    node = berths.add_node(memory="1Gi")
    objects.create(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": "ends",
                "namespace": berths.namespace,
                "annotations": {"kwok.sandberth.test/exit": "0", "kwok.sandberth.test/exit-after": "1ms"},
            },
            "spec": {
                "nodeName": node,
                "restartPolicy": "Never",
                "containers": [
                    {"name": "main", "image": "busybox", "resources": {"requests": {"memory": "1Gi"}}},
                ],
            },
        }
    )
    wait_for(lambda: berths.nodes_of(phases=["Succeeded"]) == {node: 1}, what="the pod has ended")

    berths.apply("box")

    assert berths.running("box")["nodeName"] == node
