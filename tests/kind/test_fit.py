"""Sandberth's sums against the kubelet's: what is exactly free fits, and a millicore or a byte more does not."""

from collections.abc import Iterator

import pytest

from sandberth.kube import names
from tests.kind.bed import KindBed, Object, a_sandbox
from tests.kind.rooms import (
    SLEEPING,
    a_container,
    a_pod,
    a_templated_sandbox,
    allocatable,
    condition_of,
    described,
    settled,
    wait_until_quiet,
)


def on(node: str) -> Object:
    return {"nodeSelector": {"kubernetes.io/hostname": node}}


def waits_for(bed: KindBed, name: str, namespace: str, why: str) -> None:
    waiting = bed.wait_for_phase(name, names.Phase.PENDING, namespace)
    assert condition_of(waiting, "Placed")["reason"] == "NoEligibleNode"
    assert waiting["status"]["placement"]["rejected"].get(why), waiting["status"]["placement"]


@pytest.fixture
def mixed_pods(bed: KindBed, namespace: str) -> Iterator[str]:
    """Pods whose request is more than the sum of their containers, on one worker; returns the worker."""
    wait_until_quiet(bed, namespace)
    node, runtime_class = bed.workers[0], f"heavy-{namespace}"
    first = a_container("first", {"cpu": "150m", "memory": "10Mi"}, ("true",))
    side = a_container("side", {"cpu": "21m", "memory": "7M"}, restartPolicy="Always")
    late = a_container("late", {"cpu": "120m", "memory": "100Mi"}, ("true",))
    small = a_container(requests={"cpu": "17m", "memory": 1_234_567})
    bed.apply(
        [
            {
                "apiVersion": "node.k8s.io/v1",
                "kind": "RuntimeClass",
                "metadata": {"name": runtime_class},
                "handler": "runc",
                "overhead": {"podFixed": {"cpu": "30m", "memory": 12_345_678}},
            },
            a_pod("peak", node, small, initContainers=[first, side, late]),
            a_pod("overhead", node, small, runtimeClassName=runtime_class),
            a_pod("level", node, small, resources={"requests": {"cpu": "45m", "memory": "20Mi"}}),
        ],
        namespace,
    )

    def run() -> bool:
        return all(pod["status"].get("phase") == "Running" for pod in bed.list("Pod", namespace))

    bed.wait(run, "the Pods run", 90, namespace)
    yield node
    bed.kubectl("delete", "runtimeclass", runtime_class)


def test_exactly_what_is_free_is_admitted_and_a_millicore_more_is_not_tried(
    bed: KindBed, namespace: str, mixed_pods: str
) -> None:
    room = settled(bed, mixed_pods)
    more = a_container(requests={"cpu": f"{room.cpu_millicores + 1}m", "memory": "16Mi"})
    bed.apply(a_templated_sandbox("more", more, fields=on(mixed_pods)), namespace)
    waits_for(bed, "more", namespace, "InsufficientCpu")
    assert bed.get("Pod", "more", namespace) is None

    whole = a_container(requests={"cpu": f"{room.cpu_millicores}m", "memory": str(room.memory_bytes)})
    bed.apply(a_templated_sandbox("whole", whole, fields=on(mixed_pods)), namespace)

    box = bed.wait_for_phase("whole", namespace=namespace)
    assert box["status"]["placement"]["attempt"] == 1
    assert described(bed, mixed_pods) == allocatable(bed, mixed_pods)


def test_memory_is_never_overcommitted_not_by_a_byte(bed: KindBed, namespace: str) -> None:
    wait_until_quiet(bed, namespace)
    node = bed.workers[0]
    memory = settled(bed, node).memory_bytes

    def asking(name: str, amount: int) -> Object:
        return a_sandbox(name, cpu="100m", memory=str(amount), command=SLEEPING, placement=on(node))

    bed.apply(asking("byte", memory + 1), namespace)
    waits_for(bed, "byte", namespace, "InsufficientMemory")
    bed.apply(asking("whole", memory), namespace)
    assert bed.wait_for_phase("whole", namespace=namespace)["status"]["placement"]["attempt"] == 1
    bed.apply(asking("small", 2**20), namespace)
    waits_for(bed, "small", namespace, "InsufficientMemory")

    bed.kubectl("delete", "sandbox", "whole", "--namespace", namespace)
    for name in ("small", "byte"):
        bed.kubectl("delete", "sandbox", name, "--namespace", namespace)
