"""Nodes that Pods of others fill: Sandboxes go elsewhere, wait, and are woken."""

from sandberth.kube import names
from tests.kind.bed import KindBed, Object, a_sandbox
from tests.kind.rooms import SLEEPING, a_deployment, condition_of, settled, wait_until_quiet
from tests.kind.watching import Recording

COUNT = 4
LEFT_MILLICORES = 100  # less than what a Sandbox of one CPU requests at 400 %, and more than what comes and goes


def a_large_sandbox(name: str) -> Object:
    return a_sandbox(name, cpu="1", memory="16Mi", command=SLEEPING)


def fill(bed: KindBed, node: str, namespace: str) -> str:
    """Have a Deployment take what is free on a node; return its name."""
    name = f"fills-{node}"
    millicores = settled(bed, node).cpu_millicores - LEFT_MILLICORES
    bed.apply(a_deployment(name, node, 2, {"cpu": f"{millicores // 2}m"}), namespace)
    bed.kubectl("rollout", "status", f"deployment/{name}", "--namespace", namespace, "--timeout=110s")
    return name


def test_sandboxes_go_around_a_full_node_wait_when_all_are_full_and_wake_when_a_deployment_shrinks(
    bed: KindBed, namespace: str
) -> None:
    wait_until_quiet(bed, namespace)
    full, other = bed.workers
    fill(bed, full, namespace)

    with Recording(bed, "Pod", namespace) as pods:
        bed.apply([a_large_sandbox(f"box-{number}") for number in range(COUNT)], namespace)
        for number in range(COUNT):
            box = bed.wait_for_phase(f"box-{number}", namespace=namespace)
            assert box["status"]["nodeName"] == other

        deployment = fill(bed, other, namespace)
        bed.apply(a_large_sandbox("late"), namespace)
        late = bed.wait_for_phase("late", names.Phase.PENDING, namespace)
        placed = condition_of(late, "Placed")
        assert placed["reason"] == "NoEligibleNode"
        assert "0 of 3 nodes are eligible: 2 InsufficientCpu, 1 Tainted" in placed["message"]
        assert late["status"]["placement"]["rejected"] == {"InsufficientCpu": 2, "Tainted": 1}

        bed.kubectl("scale", f"deployment/{deployment}", "--replicas=0", "--namespace", namespace)
        assert bed.wait_for_phase("late", namespace=namespace)["status"]["nodeName"] == other

    assert {pod["status"].get("reason") for pod in pods.versions} == {None}, "no kubelet refused any"
