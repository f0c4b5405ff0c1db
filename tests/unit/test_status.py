"""From what is known of a Sandbox to its status."""

from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

import pytest

from sandberth.control import status as statuses
from sandberth.core.constraints import Rejection
from sandberth.core.placement import Decision, Parameters, choose
from sandberth.core.sampling import Sampler
from sandberth.kube.names import Phase, PlacedReason, ReadyReason, SandboxCondition
from sandberth.kube.pods import PodFacts
from sandberth.kube.sandbox import Decision as DecisionStatus
from sandberth.kube.sandbox import SandboxStatus
from tests.builders import NOW_S, a_fleet, a_node, an_ask
from tests.unit.pods import a_failed_pod, a_pod, a_running_pod

NOW = datetime(2026, 1, 2, 3, 4, 10, tzinfo=UTC)
LATER = NOW + timedelta(minutes=5)


def followed(pod: PodFacts, status: SandboxStatus | None = None, **changes: Any) -> SandboxStatus:
    """Return the status of a Sandbox whose Pod lives."""
    arguments: dict[str, Any] = {
        "attempt": 1,
        "generation": 1,
        "now": NOW,
        "node_ready": True,
        "placed_message": "",
        "record": None,
    }
    return statuses.pod_status(status or SandboxStatus(), pod, **(arguments | changes))


def reason(status: SandboxStatus, kind: SandboxCondition) -> str | None:
    condition = status.condition(kind)
    return None if condition is None else condition.reason


# --- conditions ---


def test_a_conditions_transition_time_moves_only_with_its_value() -> None:
    ready = SandboxCondition.READY
    first = statuses.with_condition(SandboxStatus(), ready, False, "Starting", "", generation=1, now=NOW)
    same = statuses.with_condition(first, ready, False, "ImagePullFailed", "no such image", generation=2, now=LATER)
    other = statuses.with_condition(same, ready, True, "PodReady", "", generation=2, now=LATER)

    conditions = [status.condition(ready) for status in (first, same, other)]
    assert [c.last_transition_time if c else None for c in conditions] == [NOW, NOW, LATER]


def test_conditions_stand_in_the_order_that_the_columns_rely_on() -> None:
    status = SandboxStatus()
    for kind in reversed(SandboxCondition):
        status = statuses.with_condition(status, kind, True, "Because", "", generation=1, now=NOW)

    assert [condition.type for condition in status.conditions] == ["Placed", "Finished", "Ready"]


@pytest.mark.parametrize("length", [0, 1, 1023, 1024, 1025, 50_000])
def test_a_message_fits_into_a_condition_whatever_the_server_said(length: int) -> None:
    shortened = statuses.shortened("x" * length)

    assert len(shortened) == min(length, 1024)
    assert shortened.endswith("…") == (length > 1024)


# --- a Pod that lives ---


def test_a_pending_pod_makes_its_sandbox_starting_without_address_and_start_time() -> None:
    status = followed(a_pod(pod_ip="10.0.0.1"))

    assert status.phase is Phase.STARTING
    assert (status.pod_ip, status.started_at) == (None, None)
    assert reason(status, SandboxCondition.PLACED) == PlacedReason.PLACED
    assert reason(status, SandboxCondition.READY) == ReadyReason.STARTING


def test_a_running_pod_makes_its_sandbox_running_with_all_that_a_user_needs() -> None:
    status = followed(a_running_pod())

    assert status.phase is Phase.RUNNING
    assert (status.node_name, status.pod_name, status.pod_ip) == ("node-1", "box", "10.0.0.1")
    assert status.started_at == datetime(2026, 1, 2, 3, 4, 6, tzinfo=UTC)
    assert status.resources is not None
    assert (status.resources.cpu, status.resources.memory) == ("2", "1Gi")
    assert reason(status, SandboxCondition.READY) == ReadyReason.POD_READY


def test_the_same_pod_seen_twice_changes_nothing() -> None:
    status = followed(a_running_pod())

    assert followed(a_running_pod(), status, now=LATER) == status


def test_a_container_that_was_restarted_does_not_move_the_sandboxs_start() -> None:
    status = followed(a_running_pod())

    later = followed(a_running_pod(started_at="2026-01-02T09:00:00Z", restarts=1), status)

    assert later.started_at == status.started_at
    assert later.restarts == 1


def test_the_next_attempt_has_a_start_of_its_own() -> None:
    status = followed(a_running_pod())

    later = followed(a_running_pod(started_at="2026-01-02T09:00:00Z"), status, attempt=2)

    assert later.started_at == datetime(2026, 1, 2, 9, tzinfo=UTC)


def test_a_pod_that_is_being_deleted_makes_its_sandbox_terminating() -> None:
    status = followed(a_running_pod(deleting=True, disruption="EvictionByEvictionAPI"))

    assert status.phase is Phase.TERMINATING
    ready = status.condition(SandboxCondition.READY)
    assert ready is not None
    assert (ready.status, ready.reason) == ("False", ReadyReason.POD_LOST)
    assert "EvictionByEvictionAPI" in ready.message


def test_a_pod_on_a_node_that_is_not_ready_counts_as_alive_and_unreachable() -> None:
    status = followed(a_running_pod(), node_ready=False)

    assert status.phase is Phase.RUNNING
    assert reason(status, SandboxCondition.READY) == ReadyReason.NODE_UNREACHABLE


@pytest.mark.parametrize(
    ("waits_for", "expected"),
    [
        ("", ReadyReason.STARTING),
        ("ContainerCreating", ReadyReason.STARTING),
        ("ImagePullBackOff", ReadyReason.IMAGE_PULL_FAILED),
        ("ErrImagePull", ReadyReason.IMAGE_PULL_FAILED),
        ("InvalidImageName", ReadyReason.IMAGE_PULL_FAILED),
        ("CreateContainerConfigError", ReadyReason.STARTING),
    ],
)
def test_a_pod_that_waits_says_for_what(waits_for: str, expected: ReadyReason) -> None:
    status = followed(a_pod(waiting_reason=waits_for, waiting_message="so the kubelet"))

    ready = status.condition(SandboxCondition.READY)
    assert ready is not None
    assert ready.reason == expected
    assert ("so the kubelet" in ready.message) == (waits_for not in {"", "ContainerCreating"})


def test_the_record_of_a_decision_is_kept_for_its_own_attempt_only() -> None:
    record = DecisionStatus(attempt=1, node="node-1", score=0.25)
    status = followed(a_running_pod(), record=record)

    assert status.placement == record
    assert followed(a_running_pod(), status).placement == record
    assert followed(a_running_pod(), status, attempt=2).placement == DecisionStatus(attempt=2, node="node-1")
    moved = followed(a_running_pod(node_name="node-2"), status)
    assert moved.placement == DecisionStatus(attempt=1, node="node-2")


def test_the_reason_of_a_placement_outlives_a_change_of_the_lifetime() -> None:
    status = followed(a_running_pod(), placed_message="node-1 has the lowest load")

    later = followed(a_running_pod(), status, generation=2)

    placed = later.condition(SandboxCondition.PLACED)
    assert placed is not None
    assert (placed.message, placed.observed_generation) == ("node-1 has the lowest load", 2)


# --- no Pod ---


def test_a_sandbox_that_waits_has_no_place() -> None:
    status = statuses.waiting_status(followed(a_running_pod()), PlacedReason.POD_LOST, "gone", generation=3, now=LATER)

    assert status.phase is Phase.PENDING
    assert (status.node_name, status.pod_name, status.pod_ip) == (None, None, None)
    assert status.observed_generation == 3
    assert reason(status, SandboxCondition.READY) == ReadyReason.POD_LOST


def test_a_sandbox_that_never_had_a_pod_has_no_ready_condition_to_be_false() -> None:
    status = statuses.waiting_status(SandboxStatus(), PlacedReason.NO_ELIGIBLE_NODE, "full", generation=1, now=NOW)

    assert status.condition(SandboxCondition.READY) is None


@pytest.mark.parametrize("sampler", list(Sampler))
def test_a_record_names_the_sampler_and_counts_all_that_were_compared(sampler: Sampler) -> None:
    fleet = a_fleet(*(a_node(f"n{number}") for number in range(30)))
    parameters = Parameters(12, sampler=sampler)
    decision = choose(fleet, an_ask(), parameters=parameters, rng=Random(0), now_s=NOW_S)

    record = statuses.decision_record(decision, 1, parameters, NOW)

    assert record.flags is not None
    assert record.flags.sampler == sampler.value
    assert (record.sampled, len(record.candidates)) == (12, 10)
    assert "of 12 compared" in statuses.placed_message(decision, parameters, an_ask(), [])


def test_no_node_is_explained_by_counts_the_largest_first() -> None:
    decision = Decision(None, rejected={Rejection.CORDONED: 1, Rejection.NODE_NOT_READY: 4})

    message = statuses.no_node_message(decision, 5, None)

    assert message.startswith("0 of 5 nodes are eligible: 4 ")
    assert f"1 {Rejection.CORDONED}" in message
    assert statuses.no_node_message(decision, 0, None) == "the cluster has no nodes"


def test_a_preferred_node_that_does_not_exist_is_named() -> None:
    decision = Decision(None, rejected={Rejection.CORDONED: 1}, preferred=False)

    assert "the preferred node nowhere does not exist" in statuses.no_node_message(decision, 1, "nowhere")


# --- the end ---


def test_the_end_keeps_what_was_known_of_the_place() -> None:
    status = statuses.finished_status(
        followed(a_running_pod()),
        Phase.FAILED,
        "Failed",
        "exit code 1",
        generation=1,
        now=LATER,
        pod=a_failed_pod(finished_at="2026-01-02T03:05:00Z"),
        attempt=1,
    )

    assert (status.phase, status.node_name, status.pod_ip) == (Phase.FAILED, "node-1", "10.0.0.1")
    assert status.finished_at == datetime(2026, 1, 2, 3, 5, tzinfo=UTC)
    assert status.placement == DecisionStatus(attempt=1, node="node-1")
    assert reason(status, SandboxCondition.FINISHED) == "Failed"
    assert reason(status, SandboxCondition.READY) == ReadyReason.FINISHED
    assert reason(status, SandboxCondition.PLACED) == PlacedReason.PLACED


def test_the_end_tells_of_the_last_attempt_even_if_its_start_was_never_written() -> None:
    earlier = followed(a_running_pod())

    status = statuses.finished_status(
        earlier, Phase.FAILED, "Failed", "", generation=1, now=LATER, pod=a_failed_pod(node_name="node-2"), attempt=3
    )

    assert status.placement == DecisionStatus(attempt=3, node="node-2")


def test_a_sandbox_that_ends_without_a_pod_ends_now() -> None:
    status = statuses.finished_status(SandboxStatus(), Phase.SUCCEEDED, "Expired", "", generation=1, now=LATER)

    assert (status.finished_at, status.node_name, status.placement) == (LATER, None, None)


@pytest.mark.parametrize(
    ("pod", "words"),
    [
        (a_running_pod(phase="Succeeded"), "the program ended with exit code 0"),
        (a_failed_pod(exit_code=3), "exit code 3; Error"),
        (a_failed_pod(exit_code=137, exit_reason="OOMKilled"), "exit code 137; OOMKilled"),
        (
            a_failed_pod(exit_code=None, exit_reason="", reason="Evicted", message="low on memory"),
            "Evicted: low on memory",
        ),
        (a_failed_pod(exit_code=None, exit_reason=""), "the Pod failed"),
    ],
)
def test_how_a_program_ended_is_said_in_words(pod: PodFacts, words: str) -> None:
    assert statuses.exit_message(pod) == words


@pytest.mark.parametrize(
    ("pod", "words"),
    [
        (a_failed_pod(deleting=True, disruption="EvictionByEvictionAPI"), "EvictionByEvictionAPI"),
        (a_running_pod(phase="Succeeded", deleting=True), "it was deleted"),
        (
            a_failed_pod(reason="Evicted", message="full", disruption="TerminationByKubelet", exit_code=None),
            "Evicted: full",
        ),
        (
            a_failed_pod(exit_code=255, exit_reason="Unknown"),
            "its program ended unseen, as when its node restarts",
        ),
    ],
)
def test_what_lost_a_pod_is_said_instead_of_how_its_program_exited(pod: PodFacts, words: str) -> None:
    assert statuses.loss_message(pod) == words
