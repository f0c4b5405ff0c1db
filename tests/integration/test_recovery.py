"""What becomes of a Sandbox whose Pod is lost, refused by its node, or fails before it runs."""

import time
from collections.abc import Iterator

import pytest

from sandberth.cluster.local import LocalCluster
from sandberth.kube import names
from tests.integration.bed import AuditLog, Object, Objects, OperatorProgram, wait_for
from tests.integration.berths import Berths, berths_in, condition
from tests.integration.boxes import Boxes, attempt_of, plays, ready_pod, views_differ

pytestmark = pytest.mark.integration

WHOLE_NODE = {"requests": {"cpu": "4", "memory": "16Gi"}}
EVICTED = {"phase": "Failed", "reason": "Evicted", "message": "The node was low on resource: memory."}


@pytest.fixture
def boxes(objects: Objects, home: str, operator: OperatorProgram) -> Boxes:
    return Boxes(objects, home)


@pytest.fixture
def berths(cluster: LocalCluster, objects: Objects, home: str, operator: OperatorProgram) -> Iterator[Berths]:
    with berths_in(cluster, objects, home) as berths:
        yield berths


def uid_of(item: Object | None) -> str:
    return str((item or {}).get("metadata", {}).get("uid", ""))


def test_a_pod_deleted_by_hand_is_replaced_by_the_next_attempt(boxes: Boxes) -> None:
    boxes.apply()
    first = ready_pod(boxes)

    boxes.delete_pod()

    second = boxes.has_new_pod(uid_of(first), seconds=3)
    assert attempt_of(second) == attempt_of(first) + 1
    boxes.has_phase("Running")
    status = boxes.status()
    assert status["placement"]["attempt"] == 2
    assert condition(status, "Placed")["status"] == "True"
    assert boxes.one_pod_each()


def test_a_pod_deleted_by_hand_fails_a_sandbox_that_is_never_to_be_recovered(boxes: Boxes) -> None:
    boxes.apply(recovery="Never")
    ready_pod(boxes)

    boxes.delete_pod()

    status = boxes.has_phase("Failed")
    assert "gone" in condition(status, "Finished")["message"]
    assert status["nodeName"]
    boxes.apply("later")
    ready_pod(boxes, "later")
    assert boxes.pod() is None


def test_a_pod_that_ends_slowly_makes_its_sandbox_terminating_and_is_replaced_only_when_it_is_gone(
    boxes: Boxes,
) -> None:
    boxes.apply(annotations=plays(terminate_after="1500ms"))
    first = ready_pod(boxes)

    boxes.delete_pod()

    status = boxes.has_phase("Terminating")
    assert condition(status, "Ready")["reason"] == "PodLost"
    assert status["nodeName"] == first["spec"]["nodeName"]
    assert uid_of(boxes.pod()) == uid_of(first)
    boxes.has_new_pod(uid_of(first))
    boxes.has_phase("Running")


def test_an_evicted_pod_is_replaced(boxes: Boxes, objects: Objects) -> None:
    boxes.apply()
    first = ready_pod(boxes)

    objects.patch("Pod", "box", {"status": EVICTED}, boxes.namespace, status=True)

    second = boxes.has_new_pod(uid_of(first), seconds=5)
    assert attempt_of(second) == 2
    boxes.has_phase("Running")


def test_an_evicted_pod_fails_a_sandbox_that_is_never_to_be_recovered(boxes: Boxes, objects: Objects) -> None:
    boxes.apply(recovery="Never")
    ready_pod(boxes)

    objects.patch("Pod", "box", {"status": EVICTED}, boxes.namespace, status=True)

    status = boxes.has_phase("Failed")
    assert "Evicted" in condition(status, "Finished")["message"]


def test_a_pod_that_the_kubelet_reports_failed_while_it_is_deleted_is_replaced(boxes: Boxes, objects: Objects) -> None:
    boxes.apply(annotations=plays(terminate_after="3s"))
    first = ready_pod(boxes)

    boxes.delete_pod()
    ended = {"terminated": {"exitCode": 143, "reason": "Error", "startedAt": None, "finishedAt": None}}
    container = {"name": "sandbox", "image": "busybox", "imageID": "", "ready": False, "restartCount": 0}
    killed = {"phase": "Failed", "containerStatuses": [{**container, "state": ended}]}
    objects.patch("Pod", "box", {"status": killed}, boxes.namespace, status=True)

    assert attempt_of(boxes.has_new_pod(uid_of(first))) == 2
    boxes.has_phase("Running")


def test_a_program_that_the_test_deletes_again_and_again_is_replaced_with_growing_pauses(
    boxes: Boxes, audit: AuditLog
) -> None:
    boxes.apply()
    ready_pod(boxes)
    since, started, deletions = audit.position(), time.monotonic(), 0

    while time.monotonic() - started < 6:
        wait_for(lambda: boxes.pod() or time.monotonic() - started > 6, 10)
        boxes.delete_pod()
        deletions += 1

    creates = [w for w in audit.writes(since) if w.namespace == boxes.namespace and w.verb == "create"]
    assert 2 <= len(creates) <= 6, f"{len(creates)} new Pods in 6 s, {deletions} deletions"


@pytest.mark.parametrize(
    "reason", ["OutOfcpu", "OutOfmemory", "OutOfpods", "NodePorts", "NodeAffinity", "UnexpectedAdmissionError"]
)
def test_a_node_that_refuses_a_pod_is_passed_over_and_the_sandbox_runs_elsewhere(
    boxes: Boxes, berths: Berths, objects: Objects, reason: str
) -> None:
    berths.add_nodes(2)
    berths.apply("box", annotations=plays(pending="true"))
    refusing = boxes.has_phase("Starting")["nodeName"]
    refused = uid_of(boxes.pod())

    boxes.patch(metadata={"annotations": dict.fromkeys(plays(pending=""))})
    refusal = {"phase": "Failed", "reason": reason, "message": "Pod was rejected"}
    objects.patch("Pod", "box", {"status": refusal}, boxes.namespace, status=True)

    status = boxes.has_phase("Running")
    (elsewhere,) = {*berths.nodes} - {refusing}
    assert status["nodeName"] == elsewhere
    assert status["placement"]["attempt"] == 2
    assert uid_of(boxes.pod()) != refused, "the refused Pod was cleaned up: it had the name"
    big = {"podTemplate": {"spec": {"containers": [{"name": "main", "image": "busybox", "resources": WHOLE_NODE}]}}}
    berths.apply("big", big)
    assert boxes.has_phase("Running", "big")["nodeName"] == refusing, "all of its room was given back"


def test_a_sandbox_that_every_node_refuses_waits_with_the_reason_and_few_tries(
    boxes: Boxes, berths: Berths, audit: AuditLog
) -> None:
    berths.add_nodes(3)
    since = audit.position()
    berths.apply("box", annotations=plays(fail_reason="OutOfcpu"))

    wait_for(lambda: boxes.status().get("placement", {}).get("attempt") == 3, what="three tries")
    refused = boxes.has_reason("Placed", "NodesRefused")
    assert boxes.status()["phase"] == "Pending"
    assert "nodeName" not in boxes.status()
    assert refused["message"]

    boxes.apply("clock", annotations=plays(exit="0", exit_after="2s"))
    boxes.has_phase("Succeeded", "clock")
    box = (boxes.namespace, "box")
    creates = [w for w in audit.writes(since) if w.verb == "create" and (w.namespace, w.name) == box]
    assert 3 <= len(creates) <= 4
    assert all(view.get("sandboxes", 0) == 0 for view in views_of(berths))


def views_of(berths: Berths) -> list[Object]:
    capacities = [berths.capacity(node) for node in berths.nodes]
    return [(capacity or {}).get("status", {}).get("view", {}) for capacity in capacities]


def test_a_refused_sandbox_runs_once_something_on_a_node_that_refused_it_changes(boxes: Boxes, berths: Berths) -> None:
    (node,) = berths.add_nodes(1)
    berths.apply("box", annotations=plays(fail_reason="NodeAffinity"))
    boxes.has_reason("Placed", "NodesRefused")
    wait_for(lambda: boxes.pod() is None, what="the refused Pod is gone")

    boxes.patch(metadata={"annotations": dict.fromkeys(plays(fail_reason=""))})
    berths._objects.patch("Node", node, {"metadata": {"labels": {"example.com/changed": "yes"}}})

    assert boxes.has_phase("Running")["nodeName"] == node


def test_three_pods_that_fail_before_they_run_fail_their_sandbox(boxes: Boxes, berths: Berths) -> None:
    berths.add_nodes(3)  # of its own: on one that an earlier test has just removed a Pod would be lost, not failed
    berths.apply("box", annotations=plays(fail_reason="SomethingElse"))

    status = boxes.has_phase("Failed")

    finished = condition(status, "Finished")
    assert finished["reason"] == "Failed"
    assert "SomethingElse" in finished["message"]
    assert status["placement"]["attempt"] == 3
    assert attempt_of(boxes.pod() or {}) == 3


def test_a_sandbox_whose_node_is_deleted_is_lost_and_runs_elsewhere_once_its_pod_is_gone(
    boxes: Boxes, berths: Berths, objects: Objects
) -> None:
    first_node, _ = berths.add_nodes(2)
    berths.apply("box", {**boxes_spec(), "placement": {"preferredNode": first_node}})
    pod = ready_pod(boxes)
    assert pod["spec"]["nodeName"] == first_node

    objects.delete("Node", first_node)

    boxes.has_phase("Terminating")
    assert boxes.reason("Ready") == "PodLost"
    assert uid_of(boxes.pod()) == uid_of(pod), "the object goes by the administrator or the garbage collector"
    boxes.delete_pod(gracePeriodSeconds=0)
    status = boxes.has_phase("Running")
    assert status["nodeName"] in berths.nodes
    assert status["nodeName"] != first_node


def boxes_spec() -> Object:
    return {"image": "busybox", "resources": {"cpu": "100m", "memory": "64Mi"}}


def test_a_node_that_comes_back_under_its_name_does_not_keep_the_pods_of_the_old_one(
    boxes: Boxes, berths: Berths, cluster: LocalCluster, objects: Objects
) -> None:
    (node,) = berths.add_nodes(1)
    berths.apply("box")
    pod = ready_pod(boxes)

    objects.delete("Node", node)
    cluster.add_node(node, cpu="4", memory="16Gi", pods=110, labels=berths.selector)

    new = boxes.has_new_pod(uid_of(pod), seconds=20)
    assert new["metadata"]["annotations"][names.NODE_UID_ANNOTATION] == uid_of(objects.get("Node", node))
    boxes.has_phase("Running")


def test_a_sandbox_on_a_node_that_is_not_ready_is_not_ready_and_not_replaced(
    boxes: Boxes, berths: Berths, objects: Objects
) -> None:
    first_node, second_node = berths.add_nodes(2)
    berths.apply("box", {**boxes_spec(), "placement": {"preferredNode": first_node}})
    pod = ready_pod(boxes)

    objects.patch("Node", first_node, {"metadata": {"annotations": plays(ready="Unknown")}})

    ready = boxes.has_reason("Ready", "NodeUnreachable")
    assert ready["status"] == "False"
    assert boxes.status()["phase"] == "Running"
    berths.apply("other")  # the operator is at work, and places on the other node
    assert boxes.has_phase("Running", "other")["nodeName"] == second_node
    assert uid_of(boxes.pod()) == uid_of(pod)

    objects.patch("Node", first_node, {"metadata": {"annotations": dict.fromkeys(plays(ready=""))}})
    boxes.has_reason("Ready", "PodReady")
    assert uid_of(boxes.pod()) == uid_of(pod)
    assert boxes.status()["placement"]["attempt"] == 1
    assert isinstance(views_differ(objects), list)
