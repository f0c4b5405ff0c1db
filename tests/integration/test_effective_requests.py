"""What a Pod really asks of its node: effective requests of templates, LimitRanges, RuntimeClasses, rarer resources."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from sandberth.cluster.local import LocalCluster
from sandberth.core.quantity import cpu_millicores, whole_bytes
from tests.integration.applying import a_template_spec, an_image_spec
from tests.integration.bed import Object, Objects, OperatorProgram
from tests.integration.berths import Berths, a_sized_template, berths_in

pytestmark = pytest.mark.integration
Flags = Callable[..., None]


@pytest.fixture
def berths(cluster: LocalCluster, objects: Objects, operator: OperatorProgram, home: str) -> Iterator[Berths]:
    with berths_in(cluster, objects, home) as made:
        yield made


def test_a_template_counts_by_its_effective_request(berths: Berths) -> None:
    berths.add_node(cpu="4", memory="8Gi")
    init = [
        {"name": "first", "image": "busybox", "resources": {"requests": {"cpu": "2"}}},
        {
            "name": "side",
            "image": "busybox",
            "restartPolicy": "Always",
            "resources": {"requests": {"cpu": "500m", "memory": "1Gi"}},
        },
        {"name": "last", "image": "busybox", "resources": {"limits": {"cpu": "2500m"}}},
    ]

    berths.apply("box", a_sized_template({"cpu": "1"}, {"memory": "2Gi"}, initContainers=init))
    status = berths.running("box")
    berths.apply("fits", a_sized_template({"cpu": "1", "memory": "5Gi"}))
    berths.running("fits")
    berths.apply("cpu", a_sized_template({"cpu": "1m"}))
    berths.apply("memory", a_sized_template({"memory": "1"}))

    assert status["resources"] == {"cpu": "3", "memory": "3Gi"}
    berths.refused("cpu", text="1 InsufficientCpu")
    berths.refused("memory", text="1 InsufficientMemory")


def test_the_nominal_size_of_a_template_is_scored_and_its_request_is_kept(berths: Berths) -> None:
    berths.add_node(cpu="1")

    berths.apply("box", a_sized_template({"cpu": "100m"}) | {"resources": {"cpu": "3", "memory": "1Gi"}})
    status = berths.running("box")
    berths.apply("more", an_image_spec(cpu="1001m"))

    assert status["resources"] == {"cpu": "3", "memory": "1Gi"}
    assert status["placement"]["score"] == 0.75
    assert berths.container_resources("box")["requests"] == {"cpu": "100m"}
    berths.refused("more", text="1 OvercommitLimit")


def test_what_a_limit_range_adds_to_the_pod_counts(berths: Berths, objects: Objects) -> None:
    node = berths.add_node(cpu="2", memory="8Gi")
    limits = {"type": "Container", "defaultRequest": {"cpu": "1500m", "memory": "5Gi"}}
    objects.create(
        {
            "apiVersion": "v1",
            "kind": "LimitRange",
            "metadata": {"name": "defaults", "namespace": berths.namespace},
            "spec": {"limits": [limits]},
        }
    )

    berths.apply("box", a_template_spec())
    status = berths.running("box")
    berths.apply("cpu", an_image_spec(cpu="2004m"))
    berths.apply("memory", an_image_spec(memory="4Gi"))

    assert status["nodeName"] == node
    assert status["resources"] == {"cpu": "1500m", "memory": "5Gi"}
    berths.refused("cpu", text="1 InsufficientCpu")
    berths.refused("memory", text="1 InsufficientMemory")


def test_a_runtime_class_adds_its_overhead_and_its_scheduling(berths: Berths, objects: Objects) -> None:
    berths.add_node(cpu="1")
    special = berths.add_node(
        cpu="1",
        labels={"runtime": berths.name},
        taints=[{"key": "runtime", "value": "special", "effect": "NoSchedule"}],
    )
    runtime_class = f"special-{berths.name}"
    objects.create(
        {
            "apiVersion": "node.k8s.io/v1",
            "kind": "RuntimeClass",
            "metadata": {"name": runtime_class},
            "handler": "special",
            "overhead": {"podFixed": {"cpu": "250m", "memory": "1Gi"}},
            "scheduling": {
                "nodeSelector": {"runtime": berths.name},
                "tolerations": [{"key": "runtime", "operator": "Equal", "value": "special"}],
            },
        }
    )

    try:
        berths.apply("box", a_sized_template({"cpu": "500m", "memory": "1Gi"}, runtimeClassName=runtime_class))
        status = berths.running("box")
        berths.apply("more", a_sized_template({"cpu": "1m"}, runtimeClassName=runtime_class))

        assert status["nodeName"] == special
        assert status["resources"] == {"cpu": "750m", "memory": "2Gi"}
        assert berths.pod("box")["spec"]["overhead"] == {"cpu": "250m", "memory": "1Gi"}
        berths.refused("more", text="1 InsufficientCpu")
    finally:
        objects.delete("RuntimeClass", runtime_class)


def test_a_runtime_class_that_is_missing_is_named_and_may_come_later(berths: Berths, objects: Objects) -> None:
    node = berths.add_node()
    runtime_class = f"late-{berths.name}"

    berths.apply("box", a_template_spec(runtimeClassName=runtime_class))
    message = berths.refused("box", "InvalidPod")
    body = {"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": runtime_class}}
    objects.create({**body, "handler": "late"})

    try:
        assert message == f"podTemplate.spec.runtimeClassName: there is no RuntimeClass {runtime_class}"
        assert berths.running("box")["nodeName"] == node
    finally:
        objects.delete("RuntimeClass", runtime_class)


# --- the rarer resources ---


def test_extended_resources_are_counted_on_the_nodes_that_have_them(berths: Berths) -> None:
    berths.add_node()
    devices = berths.add_node(extended={"example.com/gpu": "3"})
    asking = {"resources": {"cpu": "1", "memory": "1Gi", "extended": {"example.com/gpu": "2"}}}

    berths.apply("image", {**an_image_spec(), **asking})
    status = berths.running("image")
    berths.apply("template", a_sized_template(limits={"example.com/gpu": "1"}))
    berths.running("template")
    berths.apply("more", a_sized_template(limits={"example.com/gpu": "1"}))

    assert status["nodeName"] == devices
    assert berths.container_resources("image")["limits"]["example.com/gpu"] == "2"
    berths.refused("more", text="2 InsufficientExtendedResource")


def test_ephemeral_storage_is_counted(berths: Berths) -> None:
    berths.add_node()  # 1Ti of it
    large = {"resources": {"cpu": "1", "memory": "1Gi", "ephemeralStorage": "600Gi"}}

    berths.apply("box", {**an_image_spec(), **large})
    berths.running("box")
    berths.apply("more", {**an_image_spec(), **large})
    berths.apply("fits", a_sized_template({"ephemeral-storage": "424Gi"}))

    berths.running("fits")
    berths.refused("more", text="1 InsufficientEphemeralStorage")
    assert berths.container_resources("box")["requests"]["ephemeral-storage"] == "600Gi"


def test_no_host_port_is_given_twice(berths: Berths) -> None:
    nodes = berths.add_nodes(2)

    def spec(**port: Any) -> Object:
        return a_template_spec(containers=[{"name": "m", "image": "b", "ports": [{"containerPort": 80, **port}]}])

    for name in ("one", "two"):
        berths.apply(name, spec(hostPort=8080))
    taken = {berths.running(name)["nodeName"] for name in ("one", "two")}
    berths.apply("same", spec(hostPort=8080))
    berths.apply("address", spec(hostPort=8080, hostIP="127.0.0.1"))
    berths.apply("udp", spec(hostPort=8080, protocol="UDP"))
    berths.apply("none", spec())

    assert taken == set(nodes)
    berths.running("udp", "none")
    berths.refused("same", text="2 HostPortTaken")
    berths.refused("address", text="2 HostPortTaken")


# --- quantities ---


def test_every_spelling_of_a_quantity_means_the_same(berths: Berths, flags: Flags) -> None:
    flags(best_of_k_max_overcommit="10000")
    berths.add_node(cpu="100")
    spellings: dict[str, tuple[object, object, dict[str, str]]] = {
        "exponent": ("1e3", "129e6", {"cpu": "1k", "memory": "129M"}),
        "capital": ("1E3", "129E+6", {"cpu": "1k", "memory": "129M"}),
        "milli": ("1000000m", "128974848000m", {"cpu": "1k", "memory": "123Mi"}),
        "plain": (1000, 128974848, {"cpu": "1k", "memory": "123Mi"}),
        "binary": ("1000", "123Mi", {"cpu": "1k", "memory": "123Mi"}),
        "fraction": ("0.5", "0.5Gi", {"cpu": "500m", "memory": "512Mi"}),
        "nano": ("1500000000n", "1G", {"cpu": "1500m", "memory": "1G"}),
    }

    for name, (cpu, memory, _) in spellings.items():
        berths.apply(name, an_image_spec(cpu=cpu, memory=memory))
    berths.running(*spellings)

    for name, (_, _, limits) in spellings.items():
        container = berths.container_resources(name)
        assert _in_units(container["limits"]) == _in_units(limits), name


def _in_units(amounts: Object) -> tuple[int, int]:
    return cpu_millicores(amounts["cpu"]), whole_bytes(amounts["memory"])
