"""The operator is stopped, killed, doubled, or cut off from the API server: no Sandbox is lost, none runs twice."""

import random
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Thread

import pytest

from sandberth.cluster.local import LocalCluster
from sandberth.kube import names
from tests.integration.bed import Objects, OperatorProgram, operator_program, wait_for
from tests.integration.boxes import Boxes, attempt_of, plays, ready_pod, views_are_the_pods
from tests.integration.conftest import Kubectl

pytestmark = pytest.mark.integration

NOWHERE = {"nodeSelector": {"example.com/no-such": "node"}}
BURST = 200
BURST_PER_SECOND = 60


@pytest.fixture
def boxes(objects: Objects, home: str, operator: OperatorProgram) -> Boxes:
    return Boxes(objects, home)


@pytest.fixture
def second_operator(cluster: LocalCluster, operator: OperatorProgram, tmp_path: Path) -> Iterator[OperatorProgram]:
    program = operator_program(cluster, tmp_path)
    program.restart()
    yield program
    program.kill()


def apply_burst(boxes: Boxes, count: int = BURST) -> None:
    started = time.monotonic()

    def apply(number: int) -> None:
        pause = started + number / BURST_PER_SECOND - time.monotonic()
        if pause > 0:
            time.sleep(pause)  # the rate of the burst, not a wait for anything
        boxes.apply(f"box-{number}")

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(apply, range(count)))


def clear(boxes: Boxes, kubectl: Kubectl) -> None:
    kubectl("delete", "sandboxes", "--all", "-n", boxes.namespace, "--wait=false")
    wait_for(lambda: not boxes.objects.list("Pod", boxes.namespace), 40, "all Pods are gone")


def test_sigterm_ends_the_operator_quickly_with_exit_code_0(operator: OperatorProgram) -> None:
    began = time.monotonic()

    try:
        assert operator.stop() == 0
        assert time.monotonic() - began < 5
    finally:
        operator.restart()


@pytest.mark.parametrize("how", ["SIGTERM", "SIGKILL"])
def test_a_restart_leaves_sandboxes_in_every_phase_as_they_are(
    boxes: Boxes, operator: OperatorProgram, how: str
) -> None:
    boxes.apply("pending", placement=NOWHERE)
    boxes.apply("starting", annotations=plays(pending="true"))
    boxes.apply("running")
    boxes.apply("succeeded", annotations=plays(exit="0", exit_after="100ms"))
    boxes.apply("failed", annotations=plays(exit="1", exit_after="100ms"))
    phases = ("pending", "starting", "running", "succeeded", "failed")
    for name in phases:
        boxes.has_phase(name.capitalize(), name)
    boxes.has_reason("Placed", "NoEligibleNode", "pending")
    before = {name: (boxes.status(name), (boxes.pod(name) or {}).get("metadata", {}).get("uid")) for name in phases}

    operator.kill() if how == "SIGKILL" else operator.stop()
    operator.restart()
    boxes.apply("later")
    ready_pod(boxes, "later")

    after = {name: (boxes.status(name), (boxes.pod(name) or {}).get("metadata", {}).get("uid")) for name in phases}
    assert after == before


def test_what_happened_while_the_operator_was_down_is_seen_at_its_start(
    boxes: Boxes, objects: Objects, operator: OperatorProgram
) -> None:
    for name in ("stays", "lost", "never", "deleted", "exits", "shut"):
        boxes.apply(name, recovery="Never" if name == "never" else "Recreate")
    boxes.all_run(6)
    nodes = [node["metadata"]["name"] for node in objects.list("Node")]

    operator.kill()
    try:
        boxes.delete_pod("lost")
        boxes.delete_pod("never")
        boxes.delete("deleted")
        objects.patch("Pod", "exits", {"status": {"phase": "Succeeded"}}, boxes.namespace, status=True)
        boxes.patch("shut", spec={"lifetime": {"shutdownTime": "2020-01-01T00:00:00Z"}})
        data = {"best-of-k-sample-size": "7"}
        objects.patch("ConfigMap", names.FLAGS_CONFIGMAP, {"data": data}, names.NAMESPACE)
        for node in nodes[1:]:
            objects.patch("Node", node, {"spec": {"unschedulable": True}})
        boxes.apply("new")
        operator.restart()

        assert boxes.has_phase("Running", "new")["nodeName"] == nodes[0]
        assert boxes.status("new")["placement"]["flags"]["k"] in {7, "7"}
        lost = boxes.has_phase("Running", "lost")
        assert lost["nodeName"] == nodes[0]
        assert lost["placement"]["attempt"] == 2
        boxes.has_phase("Failed", "never")
        boxes.has_phase("Succeeded", "exits")
        boxes.has_phase("Succeeded", "shut")
        assert boxes.reason("Finished", "shut") == "Expired"
        boxes.is_gone("deleted")
        assert boxes.status("stays")["phase"] == "Running"
        assert attempt_of(boxes.pod("stays") or {}) == 1
    finally:
        for node in nodes[1:]:
            objects.patch("Node", node, {"spec": {"unschedulable": None}})
        objects.patch("ConfigMap", names.FLAGS_CONFIGMAP, {"data": {"best-of-k-sample-size": "3"}}, names.NAMESPACE)


def test_an_operator_killed_five_times_in_a_burst_makes_one_pod_for_each_sandbox_and_counts_each_once(
    boxes: Boxes, objects: Objects, operator: OperatorProgram, kubectl: Kubectl
) -> None:
    rng = random.Random(3)
    burst = Thread(target=apply_burst, args=(boxes,))
    burst.start()

    for _ in range(5):
        time.sleep(rng.uniform(0.05, 0.8))  # the moment of the kill, not a wait for anything
        operator.kill()
        operator.restart()
    burst.join()

    boxes.all_run(BURST, 60)
    assert boxes.one_pod_each()
    attempts = [attempt_of(pod) for pod in objects.list("Pod", boxes.namespace)]
    assert attempts == [1] * BURST, "a kill is no reason to give up a Pod"
    views_are_the_pods(objects)
    clear(boxes, kubectl)
    views_are_the_pods(objects)


def test_the_operator_goes_on_within_seconds_after_the_api_server_was_away(
    cluster: LocalCluster, boxes: Boxes, operator: OperatorProgram
) -> None:
    boxes.apply("before")
    pod = ready_pod(boxes, "before")
    burst = Thread(target=apply_all_patiently, args=(boxes, 20))

    cluster.stop_program("kube-apiserver", crash=True)
    try:
        burst.start()
    finally:
        cluster.start_program("kube-apiserver")
    burst.join()

    wait_for(lambda: boxes.phases() == {"Running": 21}, 20, "all run")
    assert operator.process is not None
    assert operator.process.poll() is None, "the operator survives"
    assert boxes.one_pod_each()
    assert (boxes.pod("before") or {})["metadata"]["uid"] == pod["metadata"]["uid"]


def apply_all_patiently(boxes: Boxes, count: int) -> None:
    for number in range(count):
        wait_for(lambda number=number: applied(boxes, f"box-{number}"), 60, "the API server is back")  # type: ignore[misc]


def applied(boxes: Boxes, name: str) -> bool:
    try:
        boxes.apply(name)
    except Exception as error:  # noqa: BLE001 - refused connection, 503, or made by an earlier try
        return "AlreadyExists" in str(error)
    return True


def test_two_operators_at_once_make_one_pod_for_each_sandbox(
    boxes: Boxes, second_operator: OperatorProgram, operator: OperatorProgram, objects: Objects
) -> None:
    apply_burst(boxes, 60)
    boxes.all_run(60)
    assert boxes.one_pod_each()

    for number in range(0, 60, 4):
        boxes.delete_pod(f"box-{number}")
    wait_for(lambda: boxes.one_pod_each() and boxes.phases() == {"Running": 60}, 30, "the lost ones run again")

    attempts = {pod["metadata"]["name"]: attempt_of(pod) for pod in objects.list("Pod", boxes.namespace)}
    assert all(attempts[f"box-{number}"] == 1 for number in range(60) if number % 4)
