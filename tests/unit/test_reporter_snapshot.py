"""What a report says of a node's pods, and the index that finds them."""

from dataclasses import replace
from datetime import UTC, datetime
from random import Random
from typing import Any

import pytest

from sandberth.core.resources import ZERO, Requests, Resources
from sandberth.kube.nodecapacity import Report
from sandberth.kube.pods import PodFacts, convert_pod
from sandberth.kube.reportlines import MAX_REPORTED_SANDBOXES, parse_line
from sandberth.kube.store import Store
from sandberth.reporter.snapshot import NodeDescription, PodsByNode, report_body, take_snapshot

GIB = 2**30
SANDBOX = {"apiVersion": "sandberth.dev/v1alpha1", "kind": "Sandbox", "uid": "box", "controller": True}


def a_pod(
    name: str = "one",
    *,
    node: str = "node-1",
    attempt: str | None = None,
    nominal: tuple[str, str] | None = None,
    requests: tuple[str, str] = ("250m", "1Gi"),
    phase: str = "Running",
    version: int = 1,
) -> PodFacts:
    """Return a pod as the cache keeps it: a Sandbox's with `attempt`, anybody's without."""
    metadata: dict[str, Any] = {
        "name": name,
        "namespace": "team",
        "uid": f"uid-{name}",
        "resourceVersion": f"{version}",
    }
    if attempt is not None:
        metadata |= {"labels": {"sandberth.dev/attempt": attempt}, "ownerReferences": [SANDBOX | {"name": name}]}
    if nominal is not None:
        metadata["annotations"] = {"sandberth.dev/nominal-cpu": nominal[0], "sandberth.dev/nominal-memory": nominal[1]}
    amounts = {"cpu": requests[0], "memory": requests[1]}
    spec = {"nodeName": node, "containers": [{"name": "main", "resources": {"requests": amounts}}]}
    return convert_pod({"metadata": metadata, "spec": spec, "status": {"phase": phase}})


def a_sandbox(number: int, **changes: Any) -> PodFacts:
    return a_pod(f"box-{number}", attempt=f"box-{number}.1", **{"nominal": ("1", "2Gi"), **changes})


def names_on(index: PodsByNode, node: str) -> set[str]:
    return {pod.name for pod in index.on(node)}


def test_a_node_without_pods_holds_nothing() -> None:
    snapshot = take_snapshot([])

    assert (snapshot.allocated, snapshot.requested, snapshot.pods, snapshot.sandboxes) == (ZERO, ZERO, 0, ())
    assert snapshot.complete


def test_sandboxes_count_nominally_and_others_by_request() -> None:
    snapshot = take_snapshot([a_sandbox(1), a_pod("other", requests=("500m", "3Gi"))])

    assert snapshot.allocated == Resources(1500, 5 * GIB)
    assert snapshot.requested == Resources(750, 4 * GIB)
    assert snapshot.pods == 2
    assert snapshot.sandboxes == (f"box-1.1 1000 {2 * GIB}",)


def test_a_nominal_size_that_cannot_be_read_is_the_requests_own() -> None:
    snapshot = take_snapshot([a_sandbox(1, nominal=("many", "2Gi"))])

    assert snapshot.sandboxes == (f"box-1.1 250 {2 * GIB}",)
    assert snapshot.allocated == Resources(250, 2 * GIB)


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_ended_pods_hold_nothing(phase: str) -> None:
    snapshot = take_snapshot([a_sandbox(1, phase=phase), a_pod("other", phase=phase), a_sandbox(2)])

    assert snapshot.pods == 1
    assert snapshot.sandboxes == (f"box-2.1 1000 {2 * GIB}",)
    assert snapshot.requested == Resources(250, GIB)


def test_pending_pods_hold_their_room() -> None:
    assert take_snapshot([a_sandbox(1, phase="Pending")]).allocated == Resources(1000, 2 * GIB)


def test_an_empty_attempt_label_makes_a_pod_an_ordinary_one() -> None:
    snapshot = take_snapshot([a_pod(attempt="", nominal=("1", "1Gi"))])

    assert snapshot.sandboxes == ()
    assert snapshot.allocated == Resources(250, GIB)


def test_lines_are_sorted_and_read_back_by_the_operator() -> None:
    pods = [a_sandbox(number) for number in range(20)]
    Random(0).shuffle(pods)

    lines = take_snapshot(pods).sandboxes

    assert list(lines) == sorted(lines)
    assert {parse_line(line).attempt_id for line in lines} == {f"box-{number}.1" for number in range(20)}


def test_a_list_that_is_too_long_is_cut_and_says_so_while_the_totals_are_whole() -> None:
    count = MAX_REPORTED_SANDBOXES + 1
    snapshot = take_snapshot([a_sandbox(number) for number in range(count)])

    assert not snapshot.complete
    assert len(snapshot.sandboxes) == MAX_REPORTED_SANDBOXES
    assert snapshot.allocated.cpu_millicores == count * 1000


def test_the_longest_list_is_still_complete() -> None:
    assert take_snapshot([a_sandbox(number) for number in range(MAX_REPORTED_SANDBOXES)]).complete


def test_the_body_is_what_the_model_reads() -> None:
    node = NodeDescription("node-uid", Resources(192_000, 512 * GIB), Resources(1500, GIB))
    now = datetime(2026, 11, 30, 8, 0, 1, 999_999, tzinfo=UTC)
    body = report_body(node, take_snapshot([a_sandbox(1)]), epoch=3, sequence=7, interval_seconds=0.5, now=now)

    report = Report.model_validate(body)

    assert report.version == (3, 7)
    assert (report.node_uid, report.interval_seconds, report.complete, report.pods) == ("node-uid", 0.5, True, 1)
    assert body["reportedAt"] == "2026-11-30T08:00:01Z"
    assert body["capacity"] == {"cpu": "192", "memory": "512Gi"}
    assert body["used"] == {"cpu": "1500m", "memory": "1Gi"}
    assert body["allocated"] == {"cpu": "1", "memory": "2Gi"}
    assert body["requested"] == {"cpu": "250m", "memory": "1Gi"}


def test_what_is_not_known_is_left_out() -> None:
    now = datetime(2026, 11, 30, tzinfo=UTC)
    body = report_body(
        NodeDescription("uid", ZERO, None), take_snapshot([]), epoch=1, sequence=1, interval_seconds=20, now=now
    )

    assert not {"capacity", "used"} & body.keys()


def test_the_index_finds_pods_by_node_from_before_and_after_its_start() -> None:
    store: Store[PodFacts] = Store()
    store.observe(a_pod("early"))
    index = PodsByNode(store)

    store.observe(a_pod("late"))
    store.observe(a_pod("elsewhere", node="node-2"))

    assert names_on(index, "node-1") == {"early", "late"}
    assert names_on(index, "node-2") == {"elsewhere"}
    assert names_on(index, "unknown") == set()


def test_the_index_follows_binding_end_and_deletion() -> None:
    store: Store[PodFacts] = Store()
    index = PodsByNode(store)
    store.observe(a_pod(node="", version=1))
    assert names_on(index, "") == set()

    store.observe(a_pod(version=2))
    assert names_on(index, "node-1") == {"one"}

    store.observe(a_pod(version=3, phase="Succeeded"))
    assert names_on(index, "node-1") == set()

    store.observe(a_pod("two", version=4))
    store.observe(a_pod("two", version=5), deleted=True)
    assert names_on(index, "node-1") == set()


def test_a_pod_that_is_only_pinned_is_not_on_its_node_yet() -> None:
    store: Store[PodFacts] = Store()
    index = PodsByNode(store)

    store.observe(replace(a_pod(), bound=False))
    assert names_on(index, "node-1") == set()
    store.observe(a_pod(version=2))

    assert names_on(index, "node-1") == {"one"}


def test_list_and_totals_agree_whatever_happens_to_the_pods() -> None:
    rng = Random(7)
    store: Store[PodFacts] = Store()
    index = PodsByNode(store)
    others = [a_pod(f"other-{number}", version=number + 1) for number in range(3)]
    for pod in others:
        store.observe(pod)
    foreign = Resources(3 * 250, 3 * GIB)
    phases = ["Pending", "Running", "Running", "Succeeded", "Failed"]

    for version in range(10, 1000):
        size = (f"{rng.randint(1, 4000)}m", f"{rng.randint(1, 4096)}Mi")
        pod = a_sandbox(rng.randint(1, 30), version=version, nominal=size, phase=rng.choice(phases))
        store.observe(pod, deleted=rng.random() < 0.2)
        snapshot = take_snapshot(index.on("node-1"))
        naive = take_snapshot(pod for pod in store if pod.node_name == "node-1")
        listed = sum((Resources(*parse_line(line)[1:]) for line in snapshot.sandboxes), ZERO)

        assert snapshot == naive
        assert snapshot.allocated - listed == foreign


def test_requests_stay_apart_from_nominal_sizes() -> None:
    pod = a_sandbox(1, requests=("250m", "2Gi"))

    assert pod.requests == Requests(250, 2 * GIB)
    assert take_snapshot([pod]).requested == Resources(250, 2 * GIB)
