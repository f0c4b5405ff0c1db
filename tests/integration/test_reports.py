"""Reports: which are believed, in which order, and what they change in a score."""

from collections.abc import Callable, Iterator

import pytest

from sandberth.cluster.local import LocalCluster
from sandberth.kube import names
from tests.integration.bed import Object, Objects, OperatorProgram, wait_for
from tests.integration.berths import Berths, berths_in, condition
from tests.integration.hand_reporter import HandReporter

pytestmark = pytest.mark.integration
Flags = Callable[..., None]
OPTIMISTIC = "sandbox_placement_optimistic_resource_accounting"
RECONCILED = "sandbox_placement_id_reconciliation"


@pytest.fixture
def berths(cluster: LocalCluster, objects: Objects, operator: OperatorProgram, home: str) -> Iterator[Berths]:
    with berths_in(cluster, objects, home) as made:
        yield made


@pytest.fixture
def reporter(berths: Berths, objects: Objects, operator: OperatorProgram) -> HandReporter:
    return HandReporter(berths, objects, operator)


def _candidate(berths: Berths, name: str) -> Object:
    """Apply one Sandbox more and return how its node was seen."""
    berths.apply(name)
    candidate: Object = berths.running(name)["placement"]["candidates"][0]
    return candidate


def test_the_score_is_made_of_the_report_and_its_usage(berths: Berths, reporter: HandReporter) -> None:
    node = berths.add_node()
    reporter.report(node, 1, 1, "2", used={"cpu": "3", "memory": "1Gi"}, pods=2)

    berths.apply("box")
    status = berths.running("box")

    candidate = status["placement"]["candidates"][0]
    assert candidate["accounted"] == "2"
    assert candidate["score"] == (1 + 2 + 0.5 * 3) / (4 * 4)
    assert candidate["reportAgeSeconds"] >= 0
    assert "no fresh report" not in condition(status, "Placed")["message"]


def test_only_a_report_that_is_newer_by_epoch_and_sequence_counts(berths: Berths, reporter: HandReporter) -> None:
    node = berths.add_node(cpu="16", memory="64Gi")
    steps = [
        ((1, 5, "2"), "taken", "2"),
        ((1, 4, "3"), "outdated", "2"),
        ((1, 6, "1"), "taken", "1"),
        ((2, 0, "4"), "taken", "4"),
        ((1, 99, "5"), "outdated", "4"),
        ((2, 1, "6"), "taken", "6"),
    ]

    seen = []
    for number, ((epoch, sequence, cpu), outcome, _) in enumerate(steps):
        reporter.report(node, epoch, sequence, cpu, outcome)
        seen.append(_candidate(berths, f"box-{number}")["accounted"])

    assert seen == [expected for _, _, expected in steps]


def test_a_report_of_another_node_uid_is_ignored(berths: Berths, reporter: HandReporter) -> None:
    node = berths.add_node()

    reporter.report(node, 1, 1, "3", outcome="other-node", nodeUID="00000000-0000-0000-0000-000000000001")
    candidate = _candidate(berths, "box")

    assert candidate["accounted"] == "0"
    assert "reportAgeSeconds" not in candidate


def test_a_report_that_cannot_be_read_leaves_the_last_one_in_force(berths: Berths, reporter: HandReporter) -> None:
    node = berths.add_node()
    reporter.report(node, 1, 1, "2")

    reporter.report(node, 1, 2, "3", outcome="unreadable", sandboxes=["not a line"])
    reporter.report(node, 1, 3, "many", outcome="unreadable", sandboxes=[])

    assert _candidate(berths, "box")["accounted"] == "2"


def test_a_new_nodecapacity_is_a_new_history(berths: Berths, reporter: HandReporter, objects: Objects) -> None:
    node = berths.add_node()
    reporter.report(node, 7, 7, "3")
    old = berths.capacity(node)
    assert old is not None
    objects.delete(names.NODECAPACITY_KIND, node)
    wait_for(
        lambda: (berths.capacity(node) or old)["metadata"]["uid"] != old["metadata"]["uid"], what="a new NodeCapacity"
    )

    reporter.report(node, 1, 1, "2")

    assert _candidate(berths, "box")["accounted"] == "2"


def test_the_views_sum_up_what_they_say(berths: Berths, reporter: HandReporter, flags: Flags) -> None:
    node = berths.add_node(cpu="16", memory="64Gi")
    berths.foreign_pod("other", node, {"cpu": "500m"})
    wait_for(lambda: berths.nodes_of(phases=["Running"]) == {node: 1}, what="the other pod runs")
    reporter.report(node, 1, 1, "3", sandboxes=["unknown-to-us.1 2000 1073741824"])

    metrics = [_candidate(berths, f"metrics-{number}")["accounted"] for number in range(2)]
    flags(**{OPTIMISTIC: "true"})
    optimistic = [_candidate(berths, f"optimistic-{number}")["accounted"] for number in range(2)]
    flags(**{RECONCILED: "true"})
    reconciled = [_candidate(berths, f"reconciled-{number}")["accounted"] for number in range(2)]

    assert metrics == ["3", "3"]
    assert optimistic == ["5", "6"]
    assert reconciled == ["6500m", "7500m"]  # 500m of others, 2 that only the report knows, and 4 or 5 of ours


def test_a_node_without_a_fresh_report_is_taken_only_when_no_other_can(
    berths: Berths, reporter: HandReporter, flags: Flags
) -> None:
    flags(best_of_k_sample_size="all")
    fresh, silent = berths.add_nodes(2, memory="4Gi")
    reporter.report(fresh, 1, 1, "15")
    boxes = [f"box-{number}" for number in range(4)]

    for box in boxes:
        berths.apply(box)
    berths.running(*boxes)
    berths.apply("last")
    last = berths.running("last")

    assert {berths.status(box)["nodeName"] for box in boxes} == {fresh}
    assert last["nodeName"] == silent
    assert "it has no fresh report, and no node that has one was eligible" in condition(last, "Placed")["message"]


def test_usage_counts_for_three_intervals_and_the_report_for_ten(
    berths: Berths, reporter: HandReporter, objects: Objects
) -> None:
    node = berths.add_node()
    reporter.report(node, 1, 1, "2", used={"cpu": "4", "memory": "1Gi"}, intervalSeconds=0.1)

    def schedulable_reason() -> str:
        status = (berths.capacity(node) or {}).get("status") or {}
        return str(condition(status, "Schedulable").get("reason"))  # Fresh is False from the third interval on

    wait_for(lambda: schedulable_reason() == "Stale", 30, "the report has grown old")
    candidate = _candidate(berths, "box")

    assert candidate["accounted"] == "0"  # what the operator itself knows
    assert candidate["score"] == 1 / (4 * 4)
    reporter.report(node, 1, 2, "2")
    assert _candidate(berths, "again")["accounted"] == "2"
