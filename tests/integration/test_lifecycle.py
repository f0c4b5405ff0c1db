"""A Sandbox's life: starting, running, and the five ways in which it ends by plan."""

from datetime import UTC, datetime, timedelta

import pytest

from tests.integration.applying import an_image_spec
from tests.integration.bed import Objects, OperatorProgram, wait_for
from tests.integration.berths import condition
from tests.integration.boxes import Boxes, attempt_of, plays, ready_pod, views_are_the_pods

pytestmark = pytest.mark.integration

NOWHERE = {"nodeSelector": {"example.com/no-such": "node"}}


@pytest.fixture
def boxes(objects: Objects, home: str, operator: OperatorProgram) -> Boxes:
    return Boxes(objects, home)


def in_seconds(seconds: float) -> str:
    return (datetime.now(UTC) + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")


def test_a_sandbox_runs_with_address_start_time_and_ready_condition(boxes: Boxes) -> None:
    boxes.apply()

    status = boxes.has_phase("Running")

    pod = ready_pod(boxes)
    assert status["podIP"] == pod["status"]["podIP"]
    assert status["podName"] == "box"
    assert status["nodeName"] == pod["spec"]["nodeName"]
    assert status["startedAt"]
    assert "finishedAt" not in status
    assert status["observedGeneration"] == 1
    assert [(c["type"], c["status"], c["reason"]) for c in status["conditions"]] == [
        ("Placed", "True", "Placed"),
        ("Ready", "True", "PodReady"),
    ]


def test_a_pod_that_is_still_pending_makes_its_sandbox_starting(boxes: Boxes) -> None:
    boxes.apply(annotations=plays(pending="true"))

    status = boxes.has_phase("Starting")

    assert condition(status, "Placed")["status"] == "True"
    assert condition(status, "Ready")["reason"] == "Starting"
    assert "podIP" not in status
    assert "startedAt" not in status


def test_a_program_that_ends_with_0_makes_its_sandbox_succeeded(boxes: Boxes) -> None:
    boxes.apply(annotations=plays(exit="0", exit_after="300ms"))

    status = boxes.has_phase("Succeeded")

    assert condition(status, "Finished")["reason"] == "Completed"
    assert condition(status, "Ready")["reason"] == "Finished"
    assert status["startedAt"] <= status["finishedAt"]
    assert boxes.pod() is not None, "the logs of a finished program stay readable"


def test_a_program_that_ends_with_another_code_makes_its_sandbox_failed_and_names_the_code(boxes: Boxes) -> None:
    boxes.apply(annotations=plays(exit="3", exit_after="300ms"))

    status = boxes.has_phase("Failed")

    finished = condition(status, "Finished")
    assert finished["reason"] == "Failed"
    assert "exit code 3" in finished["message"]
    assert attempt_of(boxes.pod() or {}) == 1


def test_a_finished_sandbox_gives_its_room_back(boxes: Boxes, objects: Objects) -> None:
    boxes.apply("short", an_image_spec("500", "1Gi"), annotations=plays(exit="0", exit_after="200ms"))
    node = boxes.has_phase("Succeeded", "short")["nodeName"]

    boxes.apply("next", an_image_spec("500", "1Gi"), placement={"preferredNode": node})

    assert boxes.has_phase("Running", "next")["nodeName"] == node
    views_are_the_pods(objects)


def test_a_finished_sandbox_never_gets_another_pod(boxes: Boxes) -> None:
    boxes.apply(annotations=plays(exit="0", exit_after="200ms"))
    before = boxes.has_phase("Succeeded")

    boxes.delete_pod()
    wait_for(lambda: boxes.pod() is None, what="the Pod is gone")
    boxes.patch(metadata={"labels": {"touched": "yes"}})  # has the operator look again
    boxes.apply("later")
    boxes.has_phase("Running", "later")

    assert boxes.pod() is None
    assert boxes.status() == before


def test_the_shutdown_time_ends_a_running_sandbox_and_its_pod(boxes: Boxes) -> None:
    boxes.apply(lifetime={"shutdownTime": in_seconds(3)})
    boxes.has_phase("Running", seconds=2.5)

    status = boxes.has_phase("Succeeded", seconds=8)

    assert condition(status, "Finished")["reason"] == "Expired"
    wait_for(lambda: boxes.pod() is None, what="the Pod is gone")
    assert boxes.sandbox() is not None


def test_a_shutdown_time_in_the_past_ends_a_sandbox_before_it_gets_a_pod(boxes: Boxes) -> None:
    boxes.apply(lifetime={"shutdownTime": in_seconds(-60)})

    status = boxes.has_phase("Succeeded")

    assert condition(status, "Finished")["reason"] == "Expired"
    assert "nodeName" not in status
    assert boxes.pod() is None


def test_the_shutdown_time_ends_a_sandbox_that_waits_for_a_node(boxes: Boxes) -> None:
    boxes.apply(placement=NOWHERE, lifetime={"shutdownTime": in_seconds(2)})
    boxes.has_reason("Placed", "NoEligibleNode", seconds=1.5)

    boxes.has_phase("Succeeded", seconds=8)

    assert boxes.reason("Finished") == "Expired"


def test_a_shutdown_time_set_while_it_runs_takes_effect_at_once(boxes: Boxes) -> None:
    boxes.apply()
    boxes.has_phase("Running")

    boxes.patch(spec={"lifetime": {"shutdownTime": in_seconds(3600)}})
    wait_for(lambda: boxes.status().get("observedGeneration") == 2, what="the later time is seen")
    assert boxes.status()["phase"] == "Running"
    boxes.patch(spec={"lifetime": {"shutdownTime": in_seconds(-1)}})

    status = boxes.has_phase("Succeeded", seconds=3)
    assert status["observedGeneration"] == 3


def test_a_finished_sandbox_goes_when_its_time_to_live_is_over(boxes: Boxes) -> None:
    ended = plays(exit="0", exit_after="200ms")
    boxes.apply("at-once", lifetime={"ttlSecondsAfterFinished": 0}, annotations=ended)
    boxes.apply("soon", lifetime={"ttlSecondsAfterFinished": 2}, annotations=ended)
    boxes.apply("later", lifetime={"ttlSecondsAfterFinished": 3600}, annotations=ended)

    boxes.has_phase("Succeeded", "soon")

    boxes.is_gone("at-once", 5)
    boxes.is_gone("soon", 8)
    assert boxes.status("later")["phase"] == "Succeeded"


def test_a_pod_that_does_not_start_in_time_fails_its_sandbox_and_goes(boxes: Boxes) -> None:
    boxes.apply(lifetime={"startDeadlineSeconds": 2}, annotations=plays(pending="true"))
    boxes.has_phase("Starting")

    status = boxes.has_phase("Failed", seconds=8)

    assert condition(status, "Finished")["reason"] == "StartDeadlineExceeded"
    assert "2 s" in condition(status, "Finished")["message"]
    wait_for(lambda: boxes.pod() is None, what="the Pod is gone")
    assert boxes.status()["phase"] == "Failed"


def test_the_start_deadline_does_not_count_while_a_sandbox_waits_for_room(boxes: Boxes) -> None:
    boxes.apply(placement=NOWHERE, lifetime={"startDeadlineSeconds": 1})
    boxes.has_reason("Placed", "NoEligibleNode")

    boxes.apply("clock", lifetime={"startDeadlineSeconds": 1}, annotations=plays(pending="true"))
    boxes.has_phase("Failed", "clock")  # a deadline that began later has passed

    assert boxes.status()["phase"] == "Pending"


def test_what_was_changed_of_a_running_sandbox_is_observed_and_its_pod_stays(boxes: Boxes) -> None:
    boxes.apply()
    pod = ready_pod(boxes)

    boxes.patch(spec={"lifetime": {"ttlSecondsAfterFinished": 99}})

    wait_for(lambda: boxes.status().get("observedGeneration") == 2, what="the new generation is observed")
    conditions = boxes.status()["conditions"]
    assert {c["observedGeneration"] for c in conditions} == {2}
    assert (boxes.pod() or {})["metadata"]["uid"] == pod["metadata"]["uid"]


def test_a_ready_condition_follows_the_pod(boxes: Boxes, objects: Objects) -> None:
    boxes.apply()
    ready_pod(boxes)

    conditions = [{"type": "Ready", "status": "False", "lastTransitionTime": in_seconds(0)}]
    objects.patch("Pod", "box", {"status": {"conditions": conditions}}, boxes.namespace, status=True)

    ready = boxes.has_reason("Ready", "Starting")
    assert ready["status"] == "False"
    assert boxes.status()["phase"] == "Running"
