"""Sandboxes that are deleted at any moment, and names that are used again."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from sandberth.kube import names
from tests.integration.bed import Object, Objects, OperatorProgram, wait_for
from tests.integration.boxes import Boxes, plays, ready_pod
from tests.integration.conftest import Kubectl

pytestmark = pytest.mark.integration

NOWHERE = {"nodeSelector": {"example.com/no-such": "node"}}
FOREIGN_FINALIZER = "example.com/keep"


@pytest.fixture
def boxes(objects: Objects, home: str, operator: OperatorProgram) -> Boxes:
    return Boxes(objects, home)


def owner_of(pod: Object | None) -> str | None:
    owners = (pod or {}).get("metadata", {}).get("ownerReferences") or [{}]
    uid: str | None = owners[0].get("uid")
    return uid


def a_foreign_pod(namespace: str, name: str = "box") -> Object:
    containers = [{"name": "main", "image": "busybox", "resources": {"requests": {"cpu": "50m"}}}]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"nodeName": "node-0", "containers": containers},
    }


def test_a_sandbox_deleted_while_it_waits_never_gets_a_pod(boxes: Boxes) -> None:
    boxes.apply(placement=NOWHERE)
    boxes.has_reason("Placed", "NoEligibleNode")

    boxes.delete()

    boxes.is_gone()
    boxes.apply("later")
    ready_pod(boxes, "later")
    assert boxes.pod() is None


def test_a_sandbox_deleted_while_its_pod_is_made_leaves_no_pod(boxes: Boxes, objects: Objects) -> None:
    def make_and_delete(number: int) -> None:
        boxes.apply(f"box-{number}")
        boxes.delete(f"box-{number}")

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(make_and_delete, range(50)))

    boxes.apply("last")
    ready_pod(boxes, "last")
    wait_for(lambda: len(objects.list("Pod", boxes.namespace)) == 1, what="only the last one's Pod is there")
    assert boxes.one_pod_each()


def test_a_running_sandboxs_pod_goes_with_it_within_a_second_or_two(boxes: Boxes) -> None:
    boxes.apply()
    ready_pod(boxes)

    boxes.delete()

    boxes.is_gone(seconds=3)


def test_a_name_used_again_at_once_waits_for_the_old_pod_and_adopts_nothing(boxes: Boxes) -> None:
    old_uid = boxes.apply(annotations=plays(terminate_after="1500ms"))
    old_pod = ready_pod(boxes)

    boxes.delete()
    wait_for(lambda: boxes.sandbox() is None, what="the old Sandbox is gone")
    new_uid = boxes.apply()

    boxes.has_reason("Placed", "PodNameTaken")
    assert owner_of(boxes.pod()) == old_uid
    boxes.has_phase("Running", seconds=10)
    assert owner_of(boxes.pod()) == new_uid
    assert (boxes.pod() or {})["metadata"]["uid"] != old_pod["metadata"]["uid"]


def test_a_name_used_again_twenty_times_in_a_row_ends_with_the_last_ones_pod(boxes: Boxes) -> None:
    for _ in range(20):
        uid = boxes.apply()
        boxes.delete()
    uid = boxes.apply()

    boxes.has_phase("Running")

    assert owner_of(boxes.pod()) == uid
    assert boxes.one_pod_each()


def test_foreground_deletion_removes_the_pod_and_then_the_sandbox(boxes: Boxes, kubectl: Kubectl) -> None:
    boxes.apply()
    ready_pod(boxes)

    kubectl("delete", "sandbox", "box", "-n", boxes.namespace, "--cascade=foreground", "--timeout=20s")

    boxes.is_gone(seconds=5)


def test_orphan_deletion_leaves_the_pod_running(boxes: Boxes, kubectl: Kubectl, objects: Objects) -> None:
    numbers = range(10)
    for number in numbers:
        boxes.apply(f"box-{number}")
    boxes.all_run(len(numbers))
    before = {pod["metadata"]["uid"] for pod in objects.list("Pod", boxes.namespace)}

    kubectl("delete", "sandboxes", "--all", "-n", boxes.namespace, "--cascade=orphan", "--timeout=20s")

    boxes.apply("later")
    ready_pod(boxes, "later")
    boxes.delete("later")
    boxes.is_gone("later")
    pods = objects.list("Pod", boxes.namespace)
    assert {pod["metadata"]["uid"] for pod in pods} == before
    assert not any(pod["metadata"].get("deletionTimestamp") for pod in pods)
    for number in numbers:
        boxes.delete_pod(f"box-{number}")


def test_a_sandbox_that_somebody_elses_finalizer_keeps_loses_its_pod_and_gets_no_other(
    boxes: Boxes, objects: Objects
) -> None:
    boxes.apply(metadata={"finalizers": [FOREIGN_FINALIZER]})
    ready_pod(boxes)

    boxes.delete()

    wait_for(lambda: boxes.pod() is None, what="the Pod is gone")
    boxes.has_phase("Terminating")
    boxes.patch(metadata={"labels": {"touched": "yes"}})
    boxes.apply("later")
    ready_pod(boxes, "later")
    assert boxes.pod() is None
    boxes.patch(metadata={"finalizers": None})
    boxes.is_gone()


def test_a_finished_sandbox_that_a_finalizer_keeps_stays_finished(boxes: Boxes) -> None:
    boxes.apply(metadata={"finalizers": [FOREIGN_FINALIZER]}, annotations=plays(exit="0", exit_after="200ms"))
    boxes.has_phase("Succeeded")

    boxes.delete()

    wait_for(lambda: boxes.pod() is None, what="the Pod is gone")
    assert boxes.status()["phase"] == "Succeeded"
    boxes.patch(metadata={"finalizers": None})
    boxes.is_gone()


def test_a_namespace_with_fifty_sandboxes_can_be_deleted(
    objects: Objects, namespace: str, operator: OperatorProgram
) -> None:
    objects.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
    wait_for(lambda: objects.get("ServiceAccount", "default", namespace), what="the default service account")
    boxes = Boxes(objects, namespace)
    for number in range(50):
        boxes.apply(f"box-{number}")
    boxes.all_run(50)

    objects.delete("Namespace", namespace)

    wait_for(lambda: objects.get("Namespace", namespace) is None, 40, "the namespace is gone")
    assert operator.probe("livez") == 200


def test_sandboxes_deleted_while_the_operator_is_down_leave_no_pod(boxes: Boxes, operator: OperatorProgram) -> None:
    for number in range(5):
        boxes.apply(f"box-{number}")
    boxes.all_run(5)

    operator.kill()
    for number in range(5):
        boxes.delete(f"box-{number}")
    again = boxes.apply("box-0")
    operator.restart()

    for number in range(1, 5):
        boxes.is_gone(f"box-{number}", 30)
    boxes.has_phase("Running", "box-0", 30)
    assert owner_of(boxes.pod("box-0")) == again


def test_a_pod_of_somebody_else_with_the_sandboxs_name_is_left_alone_and_the_sandbox_runs_once_it_is_gone(
    boxes: Boxes, objects: Objects
) -> None:
    foreign = objects.create(a_foreign_pod(boxes.namespace))
    boxes.apply()

    taken = boxes.has_reason("Placed", "PodNameTaken")
    assert foreign["metadata"]["uid"] in taken["message"]
    assert boxes.status()["phase"] == "Pending"
    boxes.delete()
    wait_for(lambda: boxes.sandbox() is None, what="the Sandbox is gone")
    boxes.apply("later")
    ready_pod(boxes, "later")
    assert (boxes.pod() or {})["metadata"]["uid"] == foreign["metadata"]["uid"]

    uid = boxes.apply()
    boxes.has_reason("Placed", "PodNameTaken")
    boxes.delete_pod()
    boxes.has_phase("Running")
    assert owner_of(boxes.pod()) == uid


def test_a_copy_of_a_sandboxs_pod_under_another_name_is_somebody_elses(boxes: Boxes, objects: Objects) -> None:
    boxes.apply()
    pod = ready_pod(boxes)

    metadata = {key: pod["metadata"][key] for key in ("labels", "annotations", "ownerReferences")}
    copy = {**a_foreign_pod(boxes.namespace), "metadata": {**metadata, "name": "copy", "namespace": boxes.namespace}}
    objects.create(copy)
    wait_for(lambda: (boxes.pod("copy") or {}).get("status", {}).get("phase") == "Running", what="the copy runs")
    boxes.delete_pod("copy")
    wait_for(lambda: boxes.pod("copy") is None, what="the copy is gone")
    boxes.apply("later")
    ready_pod(boxes, "later")

    assert (boxes.pod() or {})["metadata"]["uid"] == pod["metadata"]["uid"]
    assert boxes.status()["placement"]["attempt"] == 1
    assert boxes.status()["podIP"] == pod["status"]["podIP"]
    assert boxes.sandbox() is not None
    assert names.ATTEMPT_LABEL in pod["metadata"]["labels"]
