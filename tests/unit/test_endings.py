"""How a terminal Pod ended."""

import pytest

from sandberth.control.endings import Ending, ending_of
from tests.unit.pods import a_failed_pod, a_running_pod


def test_exit_code_0_is_completed() -> None:
    assert ending_of(a_running_pod(phase="Succeeded")) is Ending.COMPLETED


def test_another_exit_code_is_failed() -> None:
    assert ending_of(a_failed_pod()) is Ending.FAILED


@pytest.mark.parametrize(
    "reason",
    [
        "OutOfcpu",
        "OutOfmemory",
        "OutOfpods",
        "OutOfephemeral-storage",
        "OutOfnvidia.com/gpu",
        "NodePorts",
        "NodeAffinity",
        "TaintToleration",
        "PodOSNotSupported",
        "UnexpectedAdmissionError",
    ],
)
def test_a_kubelet_that_does_not_admit_a_pod_refuses_it(reason: str) -> None:
    pod = a_failed_pod(reason=reason, ran=False, exit_code=None)

    assert ending_of(pod) is Ending.NODE_REFUSED


@pytest.mark.parametrize("reason", ["Evicted", "NodeShutdown", "Terminated", "Preempting", "NodeLost"])
def test_a_pod_that_its_node_ended_is_lost_though_its_program_has_an_exit_code(reason: str) -> None:
    assert ending_of(a_failed_pod(reason=reason, exit_code=137)) is Ending.LOST


def test_a_pod_that_was_disrupted_is_lost() -> None:
    assert ending_of(a_failed_pod(disruption="DeletionByTaintManager")) is Ending.LOST


@pytest.mark.parametrize(("code", "reason"), [(137, "ContainerStatusUnknown"), (255, "Unknown")])
def test_a_pod_whose_end_nobody_saw_is_lost(code: int, reason: str) -> None:
    assert ending_of(a_failed_pod(exit_code=code, exit_reason=reason)) is Ending.LOST


def test_a_program_that_exits_like_one_whose_end_nobody_saw_failed() -> None:
    assert ending_of(a_failed_pod(exit_code=255, exit_reason="Error")) is Ending.FAILED


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_pod_that_ends_while_it_is_deleted_is_lost_whatever_its_program_said(phase: str) -> None:
    assert ending_of(a_failed_pod(phase=phase, deleting=True)) is Ending.LOST


def test_a_pod_that_failed_before_any_container_ran_never_ran() -> None:
    assert ending_of(a_failed_pod(ran=False, exit_code=None, reason="SysctlForbidden")) is Ending.NEVER_RAN


def test_a_pod_that_was_out_of_time_before_it_ran_failed_by_its_own_deadline() -> None:
    assert ending_of(a_failed_pod(ran=False, exit_code=None, reason="DeadlineExceeded")) is Ending.FAILED


def test_a_program_that_was_out_of_memory_failed() -> None:
    assert ending_of(a_failed_pod(exit_code=137, exit_reason="OOMKilled")) is Ending.FAILED
