"""What a Sandbox costs in writes, as the API server's audit log counts them."""

import json
from collections import Counter

import pytest

from sandberth.kube import names
from tests.integration.applying import a_sandbox, an_image_spec
from tests.integration.bed import AuditLog, Objects, OperatorProgram, Write, wait_for
from tests.integration.boxes import Boxes, plays
from tests.integration.conftest import Kubectl

pytestmark = pytest.mark.integration

COUNT = 200
NODES = ("nodecapacities", "nodecapacities/status")  # stated apart: per node, not per Sandbox


@pytest.fixture
def boxes(objects: Objects, home: str, operator: OperatorProgram) -> Boxes:
    return Boxes(objects, home)


def apply_all(boxes: Boxes, kubectl: Kubectl, count: int, annotations: dict[str, str]) -> None:
    spec = an_image_spec("100m", "64Mi")
    items = [
        json.loads(a_sandbox(boxes.namespace, spec, f"box-{number}", annotations=annotations))
        for number in range(count)
    ]
    kubectl("create", "-f", "-", input=json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))


def of_sandboxes(writes: list[Write], namespace: str) -> Counter[tuple[str, str]]:
    """Count the writes in a namespace; Events count wherever they are."""
    return Counter(
        (write.verb, write.resource)
        for write in writes
        if write.resource not in NODES and (write.namespace == namespace or write.resource == "events")
    )


def test_two_hundred_sandboxes_stay_within_the_budget_of_writes(
    boxes: Boxes, objects: Objects, audit: AuditLog, kubectl: Kubectl
) -> None:
    since = audit.position()

    apply_all(boxes, kubectl, COUNT, {})
    boxes.all_run(COUNT, 60)
    run = audit.writes(since)
    sandboxes, pods = objects.list(names.SANDBOX_KIND, boxes.namespace), objects.list("Pod", boxes.namespace)
    kubectl("delete", "sandboxes", "--all", "-n", boxes.namespace, "--wait=false")
    wait_for(lambda: not objects.list("Pod", boxes.namespace), 60, "all Pods are gone")

    counts = of_sandboxes(run, boxes.namespace)
    assert set(counts) == {("create", "pods"), ("patch", "sandboxes/status")}
    assert counts["create", "pods"] == COUNT
    run = [write for write in run if write.namespace == boxes.namespace]
    patches = Counter(write.name for write in run if write.resource == "sandboxes/status")
    assert len(patches) == COUNT
    assert max(patches.values()) <= 2, [w for w in run if w.name == patches.most_common(1)[0][0]]
    everything = [w for w in audit.writes(since) if w.namespace == boxes.namespace]
    late = of_sandboxes(audit.writes(since), boxes.namespace) - counts
    print(f"{COUNT} Sandboxes: {dict(counts)} to Running, {dict(late)} at their deletion")
    deletes = Counter(write.name for write in everything if write.verb == "delete")
    assert max(deletes.values()) <= 1, [w for w in everything if w.name == deletes.most_common(1)[0][0]]
    # The garbage collector may end a Pod before the operator hears of the Sandbox's end: the status is gone by then.
    assert all(w.code == 404 for w in everything if w.verb == "patch" and w not in run)
    assert {(w.verb, w.resource) for w in everything} == {*counts, ("delete", "pods")}
    for item in [*sandboxes, *pods]:
        assert not item["metadata"].get("finalizers")
        assert not any("kopf" in key for key in item["metadata"].get("annotations") or {})


def test_a_program_that_ends_costs_one_more_patch(boxes: Boxes, audit: AuditLog, kubectl: Kubectl) -> None:
    since = audit.position()

    apply_all(boxes, kubectl, 50, {})
    boxes.all_run(50)
    running = of_sandboxes(audit.writes(since), boxes.namespace)["patch", "sandboxes/status"]
    ends = [f"{key}={value}" for key, value in plays(exit="0", exit_after="100ms").items()]
    kubectl("annotate", "pods", "--all", "-n", boxes.namespace, *ends)
    wait_for(lambda: boxes.phases() == {"Succeeded": 50}, 20, "all have ended")

    counts = of_sandboxes(audit.writes(since), boxes.namespace)
    assert counts["patch", "sandboxes/status"] == running + 50
    assert running <= 100
    assert counts["delete", "pods"] == 0
    assert counts["create", "pods"] == 50


def test_twenty_labels_on_a_running_sandbox_cost_no_write(boxes: Boxes, audit: AuditLog) -> None:
    boxes.apply()
    boxes.has_phase("Running")
    since = audit.position()

    for number in range(20):
        boxes.patch(metadata={"labels": {"number": str(number)}})
    boxes.apply("later")
    boxes.has_phase("Running", "later")

    assert [w for w in audit.writes(since) if w.namespace == boxes.namespace and w.name == "box"] == []
