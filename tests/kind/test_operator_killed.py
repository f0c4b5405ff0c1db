"""The operator killed in the middle of a burst: whatever was under way, each Sandbox ends up with one Pod."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from sandberth.kube import names
from tests.kind.bed import KindBed, a_sandbox
from tests.kind.installation import (
    OPERATOR,
    pods_of,
    report_now,
    report_of,
    roll_out,
    signal_processes,
    wait_for_true_views,
)

COUNT = 20


def delete_pods(bed: KindBed) -> None:
    for pod in pods_of(bed, OPERATOR):
        where = ("--namespace", names.NAMESPACE, pod["metadata"]["name"])
        bed.kubectl("delete", "pod", *where, "--grace-period=0", "--force")


def kill_processes(bed: KindBed) -> None:
    for pod in pods_of(bed, OPERATOR):
        signal_processes(bed, pod, "KILL")


@pytest.mark.parametrize("kill", [delete_pods, kill_processes])
def test_each_sandbox_runs_in_one_pod_although_the_operator_was_killed_amid_them(
    bed: KindBed, namespace: str, kill: Callable[[KindBed], None]
) -> None:
    boxes = [f"box-{number}" for number in range(COUNT)]
    with ThreadPoolExecutor(1) as user:
        applying = user.submit(bed.apply, [a_sandbox(box) for box in boxes], namespace)
        bed.wait(lambda: len(bed.list("Pod", namespace)) >= 3, "the first Pods", 60, namespace)
        kill(bed)
        applying.result()

    for box in boxes:
        bed.wait_for_phase(box, namespace=namespace, seconds=240)
    roll_out(bed, f"deployment/{OPERATOR}")
    pods = bed.list("Pod", namespace)
    sandboxes = {each["metadata"]["uid"]: each["metadata"]["name"] for each in bed.list(names.SANDBOX_KIND, namespace)}
    assert sorted(pod["metadata"]["name"] for pod in pods) == sorted(boxes)
    # The first attempt of each: none was lost and made again.
    assert {pod["metadata"]["labels"][names.ATTEMPT_LABEL] for pod in pods} == {f"{uid}.1" for uid in sandboxes}
    report_now(bed, *bed.workers)
    reported = [line.split()[0] for worker in bed.workers for line in report_of(bed, worker).sandboxes]
    assert len(reported) == len(set(reported))
    assert {f"{uid}.1" for uid in sandboxes} <= set(reported)
    wait_for_true_views(bed)
