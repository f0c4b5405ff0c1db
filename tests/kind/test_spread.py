"""Bursts between two reports over two real workers, with and without accounting for what is not reported yet."""

from collections import Counter

import pytest

from tests.kind.bed import KindBed, Object, a_sandbox
from tests.kind.installation import FlagsMap, held_on, report_now, wait_for_true_views

COUNT = 12
SIZE_MILLICORES = 250


def burst(bed: KindBed, namespace: str) -> list[Object]:
    """Apply Sandboxes right after a report of both workers; return them once all run."""
    boxes = [f"box-{number}" for number in range(COUNT)]
    report_now(bed, *bed.workers)
    bed.apply([a_sandbox(box, cpu=f"{SIZE_MILLICORES}m") for box in boxes], namespace)
    return [bed.wait_for_phase(box, namespace=namespace, seconds=180) for box in boxes]


def spread(bed: KindBed, sandboxes: list[Object]) -> list[int]:
    """Return how many of them each worker has."""
    counts = Counter(each["status"]["nodeName"] for each in sandboxes)
    assert counts.keys() <= set(bed.workers)
    return [counts[worker] for worker in bed.workers]


@pytest.mark.parametrize(
    ("flag", "view"),
    [
        ("sandbox-placement-optimistic-resource-accounting", "optimistic"),
        ("sandbox-placement-id-reconciliation", "reconciled"),
    ],
)
def test_a_burst_between_two_reports_goes_to_whichever_worker_holds_less(
    bed: KindBed, namespace: str, flags: FlagsMap, flag: str, view: str
) -> None:
    flags.set({flag: "true", "best-of-k-alpha": "0"})  # 0: what else this machine does is left out

    sandboxes = burst(bed, namespace)

    assert {each["status"]["placement"]["view"] for each in sandboxes} == {view}
    first, second = (held_on(bed, worker)[1].cpu_millicores for worker in bed.workers)
    slack = 2 if view == "optimistic" else 1  # a report in between takes one back that it does not list yet
    assert abs(first - second) <= slack * SIZE_MILLICORES, spread(bed, sandboxes)
    wait_for_true_views(bed)


def test_without_the_flags_a_burst_is_placed_by_the_last_report(bed: KindBed, namespace: str, flags: FlagsMap) -> None:
    off = {"sandbox-placement-optimistic-resource-accounting": "false", "sandbox-placement-id-reconciliation": "false"}
    flags.set({**off, "best-of-k-alpha": "0"})

    sandboxes = burst(bed, namespace)

    placements = [each["status"]["placement"] for each in sandboxes]
    assert {placement["view"] for placement in placements} == {"metrics"}
    believed = {(each["node"], each["accounted"]) for placement in placements for each in placement["candidates"]}
    # One sum a worker, or two where a report came in between; a sum that knew of each placement would have a dozen.
    assert len(believed) <= 2 * len(bed.workers), believed
    print(f"spread of {COUNT} without the flags:", *spread(bed, sandboxes))
    wait_for_true_views(bed)
