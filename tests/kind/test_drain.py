"""A worker cordoned, drained and put back into service, with `kubectl` as its administrator does it."""

from collections.abc import Iterator

import pytest

from sandberth.kube import names
from tests.kind.bed import KindBed, a_sandbox
from tests.kind.installation import OPERATOR, FlagsMap, condition, operator_nodes, roll_out, wait_for_true_views


@pytest.fixture
def worker(bed: KindBed) -> Iterator[str]:
    """The worker on which the operator runs; in service again when the test is over."""
    worker = max(bed.workers, key=lambda each: each in operator_nodes(bed))
    yield worker
    bed.kubectl("uncordon", worker)
    bed.kubectl("rollout", "status", "deployment/coredns", "--namespace", "kube-system", "--timeout=120s")
    bed.wait(lambda: condition(bed, worker, "Schedulable")[0] == "True", f"{worker} is in service again")


def test_a_cordoned_worker_gets_nothing_until_it_is_uncordoned(
    bed: KindBed, namespace: str, flags: FlagsMap, worker: str
) -> None:
    flags.set({"sandbox-placement-id-reconciliation": "true", "best-of-k-alpha": "0"})
    bed.apply(a_sandbox("before", placement={"preferredNode": worker}), namespace)
    bed.wait_for_phase("before", namespace=namespace, seconds=120)

    bed.kubectl("cordon", worker)
    bed.wait(lambda: condition(bed, worker, "Schedulable") == ("False", "Cordoned"), f"{worker} counts as cordoned")
    during = [f"during-{number}" for number in range(3)]
    bed.apply([a_sandbox(box, cpu="500m", placement={"preferredNode": worker}) for box in during], namespace)
    cordoned = [bed.wait_for_phase(box, namespace=namespace, seconds=120)["status"] for box in during]
    bed.kubectl("uncordon", worker)
    bed.wait(lambda: condition(bed, worker, "Schedulable")[0] == "True", f"{worker} is in service again")
    bed.apply(a_sandbox("after"), namespace)
    after = bed.wait_for_phase("after", namespace=namespace, seconds=120)["status"]

    (other,) = set(bed.workers) - {worker}
    assert {status["nodeName"] for status in cordoned} == {other}
    placed = [next(each for each in status["conditions"] if each["type"] == "Placed") for status in cordoned]
    assert all(f"the preferred node {worker} was not eligible: Cordoned" in each["message"] for each in placed)
    assert all(status["placement"]["rejected"]["Cordoned"] == 1 for status in cordoned)
    assert bed.node_of("before", namespace) == worker
    assert after["nodeName"] == worker  # the emptier one by far


def test_a_drain_moves_sandboxes_as_their_recovery_says(bed: KindBed, namespace: str, worker: str) -> None:
    recoveries = {"moves-1": "Recreate", "moves-2": "Recreate", "ends": "Never"}
    placement = {"preferredNode": worker}
    bed.apply([a_sandbox(box, placement=placement, recovery=each) for box, each in recoveries.items()], namespace)
    for box in recoveries:
        assert bed.wait_for_phase(box, namespace=namespace, seconds=120)["status"]["nodeName"] == worker
    uids = {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in bed.list("Pod", namespace)}

    # Without --force: a Sandbox's Pod has a controller, so kubectl counts on its being made again.
    drain = ("drain", worker, "--ignore-daemonsets", "--delete-emptydir-data", "--timeout=180s")
    bed.kubectl(*drain, timeout_seconds=200)

    (other,) = set(bed.workers) - {worker}
    roll_out(bed, f"deployment/{OPERATOR}")  # it was on that worker itself
    for box in ("moves-1", "moves-2"):
        bed.wait(lambda box=box: bed.node_of(box, namespace) == other, f"{box} moved", 120, namespace)  # type: ignore[misc]
        status = bed.wait_for_phase(box, namespace=namespace, seconds=120)["status"]
        assert status["placement"]["attempt"] == 2
    ended = bed.wait_for_phase("ends", names.Phase.FAILED, namespace, 120)["status"]
    finished = next(each for each in ended["conditions"] if each["type"] == "Finished")
    assert finished["message"] in {  # whether an operator was there when the Pod ended, or came when it was gone
        f"the Pod was lost on {worker}, and recovery is Never: EvictionByEvictionAPI",
        f"the Pod on {worker} is gone, and recovery is Never",
    }
    pods = {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in bed.list("Pod", namespace)}
    assert pods.keys() == {"moves-1", "moves-2"}
    assert not set(pods.values()) & set(uids.values())
    wait_for_true_views(bed)
