from typing import Any

from sandberth.demo.tally import tally
from sandberth.kube import names

NODES = [
    {"metadata": {"name": name}, "status": {"allocatable": {"cpu": "10"}}} for name in ("node-0", "node-1", "node-2")
]


def a_sandbox(name: str, node: str = "node-0", phase: str = "Running") -> dict[str, Any]:
    return {"metadata": {"name": name, "uid": f"uid-{name}"}, "status": {"phase": phase, "nodeName": node}}


def a_pod(sandbox: str, node: str = "node-0", phase: str = "Running", cpu: str = "1") -> dict[str, Any]:
    return {
        "metadata": {
            "name": sandbox,
            "annotations": {names.NOMINAL_CPU_ANNOTATION: cpu},
            "ownerReferences": [{"kind": "Sandbox", "uid": f"uid-{sandbox}"}],
        },
        "spec": {"nodeName": node, "containers": [{"name": "main", "resources": {"requests": {"cpu": "250m"}}}]},
        "status": {"phase": phase},
    }


def a_foreign_pod(node: str, cpu: str) -> dict[str, Any]:
    return {
        "metadata": {"name": "other"},
        "spec": {"nodeName": node, "containers": [{"name": "main", "resources": {"requests": {"cpu": cpu}}}]},
        "status": {"phase": "Running"},
    }


def test_sandboxes_count_with_their_nominal_size_and_others_with_their_request() -> None:
    pods = [a_pod("a"), a_pod("b", "node-1"), a_pod("c", "node-1"), a_foreign_pod("node-0", "1500m")]

    found = tally(NODES, [a_sandbox("a"), a_sandbox("b", "node-1"), a_sandbox("c", "node-1")], pods)

    assert found.counts == {"node-0": 1, "node-1": 2, "node-2": 0}
    assert found.allocated_fractions == {"node-0": 0.25, "node-1": 0.2, "node-2": 0.0}
    assert (found.running, found.faults) == (3, ())


def test_a_sandbox_without_a_running_pod_is_lost() -> None:
    found = tally(NODES, [a_sandbox("a"), a_sandbox("b")], [a_pod("b", phase="Failed")])

    assert found.faults == ("2 have no running Pod, a first",)
    assert found.counts["node-0"] == 0


def test_a_sandbox_with_two_pods_is_doubled() -> None:
    found = tally(NODES, [a_sandbox("a")], [a_pod("a"), a_pod("a", "node-1")])

    assert found.faults == ("1 have more than one Pod, a first",)


def test_a_pod_elsewhere_than_its_sandbox_says_is_a_fault() -> None:
    found = tally(NODES, [a_sandbox("a", "node-1")], [a_pod("a", "node-0")])

    assert found.faults == ("1 are not on the node that their status names, a first",)


def test_a_pod_without_its_sandbox_is_a_fault() -> None:
    found = tally(NODES, [], [a_pod("a")])

    assert found.faults == ("1 are Pods without their Sandbox, a first",)


def test_a_sandbox_that_only_starts_is_not_running() -> None:
    found = tally(NODES, [a_sandbox("a", phase="Starting")], [a_pod("a", phase="Pending")])

    assert found.running == 0
