"""Sandboxes of real sizes until nothing fits any more: CPU overcommitted four times, and no kubelet refuses one."""

import math
from collections import Counter

from sandberth.kube import names
from tests.kind.bed import KindBed, Object, a_sandbox
from tests.kind.installation import FlagsMap, report_now
from tests.kind.rooms import SLEEPING, allocatable, condition_of, described, settled, wait_until_quiet
from tests.kind.watching import Recording

OVERCOMMIT = 4  # best-of-k-max-overcommit, by default
MILLICORES = 250
MOST_A_NODE = 60  # of 110 Pods that a kubelet takes
START_SECONDS = 300


def boxes(first: int, last: int) -> list[Object]:
    return [
        a_sandbox(f"box-{number}", cpu=f"{MILLICORES}m", memory="16Mi", command=SLEEPING)
        for number in range(first, last)
    ]


def phases(bed: KindBed, namespace: str) -> Counter[str]:
    found = bed.list(names.SANDBOX_KIND, namespace)
    return Counter(box.get("status", {}).get("phase", "") for box in found)


def nodes_of(bed: KindBed, namespace: str) -> Counter[str]:
    return Counter(box["status"].get("nodeName", "") for box in bed.list(names.SANDBOX_KIND, namespace))


def test_workers_fill_evenly_to_four_times_their_cpu_and_no_kubelet_refuses_a_pod(
    bed: KindBed, namespace: str, flags: FlagsMap
) -> None:
    wait_until_quiet(bed, namespace)
    flags.set({"sandbox-placement-id-reconciliation": "true", "best-of-k-alpha": "0"})
    report_now(bed, *bed.workers)
    room = {node: OVERCOMMIT * settled(bed, node).cpu_millicores for node in bed.workers}
    part = math.floor(0.75 * sum(room.values()) / MILLICORES)
    beyond = math.ceil(sum(room.values()) / MILLICORES) + 6
    assert beyond / len(bed.workers) < MOST_A_NODE, "a machine of this size takes larger Sandboxes"

    with Recording(bed, "Pod", namespace) as pods:
        bed.apply(boxes(0, part), namespace)
        bed.wait(lambda: phases(bed, namespace) == {"Running": part}, f"{part} run", START_SECONDS, namespace)
        counts = nodes_of(bed, namespace)
        assert set(counts) == set(bed.workers)
        assert max(counts.values()) - min(counts.values()) <= 2, counts

        bed.apply(boxes(part, beyond), namespace)
        bed.wait(
            lambda: set(phases(bed, namespace)) == {"Running", "Pending"}, "the rest waits", START_SECONDS, namespace
        )

    assert {pod["status"].get("reason") for pod in pods.versions} == {None}, "a kubelet refused one"
    assert len({pod["metadata"]["uid"] for pod in pods.versions}) == phases(bed, namespace)["Running"], "one Pod each"
    for node, count in nodes_of(bed, namespace).items():
        if node:
            assert room[node] - count * MILLICORES < MILLICORES, "room was left where a Sandbox would have fitted"
            assert count * MILLICORES > 3.5 * allocatable(bed, node).cpu_millicores
            assert described(bed, node).cpu_millicores <= allocatable(bed, node).cpu_millicores
    for box in bed.list(names.SANDBOX_KIND, namespace):
        if box["status"]["phase"] == names.Phase.PENDING:
            placed = condition_of(box, "Placed")
            assert placed["reason"] == "NoEligibleNode"
            assert "0 of 3 nodes are eligible" in placed["message"]
            rejected = box["status"]["placement"]["rejected"]
            assert rejected.get("OvercommitLimit", 0) + rejected.get("InsufficientCpu", 0) == len(bed.workers)
