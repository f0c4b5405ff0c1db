"""Nodes that say nothing: a reporter killed or paused, a worker stopped and started.

Reports come every two seconds here, so that three and ten intervals are over soon.
"""

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from sandberth.core.quantity import cpu_millicores
from sandberth.kube import names
from tests.kind.bed import FOREVER, IMAGE, KindBed, Object, a_sandbox
from tests.kind.installation import (
    REPORTER,
    FlagsMap,
    condition,
    is_ready,
    operator_nodes,
    report_of,
    reporter_on,
    roll_out,
    signal_processes,
    wait_for_true_views,
)

INTERVAL_SECONDS = 2
ALPHA_PERCENT, OVERCOMMIT_PERCENT = 100, 400
# Ends at SIGTERM, which the first process of a container ignores where it says nothing about it.
BURN = ("python3", "-c", "import signal, sys; signal.signal(15, lambda *_: sys.exit())\nwhile True: pass")


@pytest.fixture(scope="module", autouse=True)
def _short_interval(bed: KindBed) -> Iterator[None]:
    """Have the reporters report often, and as often as before when the module is through."""
    try:
        _set_interval(bed, f"{INTERVAL_SECONDS}s", "100%")
        yield
    finally:
        _set_interval(bed, None, "10%")


def _set_interval(bed: KindBed, interval: str | None, at_once: str) -> None:
    variable = {"name": "SANDBERTH_INTERVAL"} | ({"$patch": "delete"} if interval is None else {"value": interval})
    template = {"spec": {"containers": [{"name": "reporter", "env": [variable]}]}}
    update = {"updateStrategy": {"rollingUpdate": {"maxUnavailable": at_once}}}
    for spec in ({"template": template}, update) if interval is None else (update, {"template": template}):
        patch = json.dumps({"spec": spec})
        bed.kubectl("patch", "daemonset", REPORTER, "--namespace", names.NAMESPACE, f"--patch={patch}")
        roll_out(bed, f"daemonset/{REPORTER}")
    seconds = float(interval.removesuffix("s")) if interval else 20.0
    nodes = (bed.control_plane, *bed.workers)
    bed.wait(lambda: {report_of(bed, node).interval_seconds for node in nodes} == {seconds}, "reports that often", 120)


@pytest.fixture
def worker(bed: KindBed) -> Iterator[str]:
    """A worker on which no operator runs, and which reports and is Ready again when the test is over."""
    worker = min(bed.workers, key=lambda each: each in operator_nodes(bed))
    yield worker
    bed.wait(lambda: is_ready(_node(bed, worker)) and is_ready(reporter_on(bed, worker)), f"{worker} is back", 180)
    bed.wait(lambda: condition(bed, worker, "Fresh")[0] == "True", f"{worker} is reported", 120)


def _node(bed: KindBed, name: str) -> Object:
    node = bed.get("Node", name)
    assert node is not None
    return node


def place(bed: KindBed, namespace: str, **fields: object) -> Object:
    """Apply one more Sandbox; return its status once it runs."""
    box = f"probe-{len(bed.list(names.SANDBOX_KIND, namespace))}"
    bed.apply(a_sandbox(box, **fields), namespace)  # type: ignore[arg-type]
    status: Object = bed.wait_for_phase(box, namespace=namespace, seconds=120)["status"]
    return status


def usage_in_the_score(bed: KindBed, placement: Object, node: str) -> float | None:
    """Return the millicores that a decision counted as used on a node, None where it did not compare that node.

    score = (asked + accounted + alpha x used) / (R x allocatable), see docs/concepts.md
    """
    found = [each for each in placement["candidates"] if each["node"] == node]
    if not found:
        return None
    allocatable = cpu_millicores(_node(bed, node)["status"]["allocatable"]["cpu"])
    numerator = found[0]["score"] * allocatable * OVERCOMMIT_PERCENT / 100
    return float(numerator - cpu_millicores(found[0]["accounted"]) - 50) / (ALPHA_PERCENT / 100)


def test_a_paused_reporter_costs_its_node_first_the_usage_then_the_first_choice(
    bed: KindBed, namespace: str, flags: FlagsMap, worker: str
) -> None:
    (other,) = set(bed.workers) - {worker}
    flags.set(
        {
            "sandbox-placement-id-reconciliation": "true",
            "best-of-k-alpha": str(ALPHA_PERCENT),
            "best-of-k-max-overcommit": str(OVERCOMMIT_PERCENT),
        }
    )
    place(bed, namespace, cpu="500m", command=BURN, placement={"preferredNode": worker})
    # So much there that the score would choose the other one at any usage.
    place(bed, namespace, cpu="6", placement={"preferredNode": other})
    burning = lambda: (used := report_of(bed, worker).used) is not None and cpu_millicores(used.cpu) >= 200  # noqa: E731
    bed.wait(burning, "a report of the burner", 120)

    fresh = place(bed, namespace)
    signal_processes(bed, reporter_on(bed, worker), "STOP")
    try:
        paused_at = report_of(bed, worker).version
        # By the operator's clock, which the decision tells: the usage counts for three intervals.
        silent = place_when_the_age_is(bed, namespace, worker, 3 * INTERVAL_SECONDS + 1, 10 * INTERVAL_SECONDS - 1)
        bed.wait(lambda: condition(bed, worker, "Fresh") == ("False", "Stale"), "a stale report", 120)
        bed.wait(lambda: condition(bed, worker, "Schedulable") == ("True", "Stale"), "a second choice", 60)
        stale = [place(bed, namespace)["placement"] for _ in range(3)]
        wait_for_true_views(bed)
        assert report_of(bed, worker).version == paused_at
        bed.kubectl("cordon", other)
        last_resort = place(bed, namespace)
        bed.kubectl("uncordon", other)
    finally:
        bed.kubectl("uncordon", other)
        signal_processes(bed, reporter_on(bed, worker), "CONT")
    bed.wait(lambda: condition(bed, worker, "Fresh") == ("True", "Reported"), "a fresh report", 60)
    back = place(bed, namespace)

    assert fresh["nodeName"] == worker
    assert (usage_in_the_score(bed, fresh["placement"], worker) or 0) >= 100
    assert silent["node"] == worker
    assert usage_in_the_score(bed, silent, worker) == pytest.approx(0, abs=1)
    assert [placement["node"] for placement in stale] == [other] * 3
    assert {each["node"] for placement in stale for each in placement["candidates"]} == {other}
    assert last_resort["nodeName"] == worker
    placed = next(each for each in last_resort["conditions"] if each["type"] == "Placed")
    assert "it has no fresh report" in placed["message"]
    assert back["nodeName"] == worker
    assert report_of(bed, worker).version > paused_at
    wait_for_true_views(bed)


def place_when_the_age_is(bed: KindBed, namespace: str, node: str, least: int, most: int) -> Object:
    """Return the placement of a Sandbox that was decided when the node's report was that old, in seconds."""

    def decided() -> Object | None:
        placement: Object = place(bed, namespace)["placement"]
        ages = {each["node"]: each.get("reportAgeSeconds", 0) for each in placement["candidates"]}
        assert ages.get(node, most + 1) <= most, f"no Sandbox was placed in time: {ages}"
        return placement if ages[node] >= least else None

    found = bed.wait(decided, f"a placement {least} s after the last report", 60, namespace)
    assert found is not None
    return found


def delete_pod(bed: KindBed, pod: Object) -> None:
    name: str = pod["metadata"]["name"]
    bed.kubectl("delete", "pod", name, "--namespace", names.NAMESPACE, "--grace-period=0", "--force")


def kill_process(bed: KindBed, pod: Object) -> None:
    signal_processes(bed, pod, "KILL")


@pytest.mark.parametrize("kill", [delete_pod, kill_process])
def test_a_killed_reporter_comes_back_in_a_new_epoch_and_the_ledger_stays_right(
    bed: KindBed, namespace: str, worker: str, kill: Callable[[KindBed, Object], None]
) -> None:
    boxes = [f"box-{number}" for number in range(4)]
    bed.apply([a_sandbox(box, placement={"preferredNode": worker}) for box in boxes[:2]], namespace)
    before = report_of(bed, worker)

    kill(bed, reporter_on(bed, worker))
    bed.apply([a_sandbox(box, placement={"preferredNode": worker}) for box in boxes[2:]], namespace)
    bed.kubectl("delete", "sandbox", boxes[0], "--namespace", namespace)

    bed.wait(lambda: report_of(bed, worker).epoch > before.epoch, "a new epoch", 120)
    for box in boxes[1:]:
        bed.wait_for_phase(box, namespace=namespace, seconds=120)
    assert report_of(bed, worker).epoch == before.epoch + 1
    wait_for_true_views(bed)


@pytest.fixture
def stopped_worker(bed: KindBed, worker: str) -> Iterator[str]:
    """A worker to be stopped, which runs again when the test is over."""
    yield worker
    bed.docker.run("start", worker)


def test_a_worker_that_is_stopped_and_started_ends_no_sandbox_and_doubles_none(
    bed: KindBed, namespace: str, stopped_worker: str
) -> None:
    (other,) = set(bed.workers) - {stopped_worker}
    there: dict[str, Any] = {"placement": {"preferredNode": stopped_worker}}
    bed.apply(
        [
            a_sandbox("made-again", **there),
            a_restarting_sandbox("restarted", **there),
            a_sandbox("elsewhere", placement={"preferredNode": other}),
        ],
        namespace,
    )
    for box in ("made-again", "restarted", "elsewhere"):
        bed.wait(lambda box=box: ready(bed, namespace, box) == ("True", "PodReady"), f"{box} is ready", 120)  # type: ignore[misc]
    before = uids(bed, namespace)

    bed.docker.run("stop", stopped_worker)
    for box in ("made-again", "restarted"):
        bed.wait(lambda box=box: ready(bed, namespace, box) == ("False", "NodeUnreachable"), f"{box} unreachable", 180)  # type: ignore[misc]
    bed.wait(lambda: condition(bed, stopped_worker, "Schedulable") == ("False", "NodeNotReady"), "node not ready", 60)
    bed.wait(lambda: condition(bed, stopped_worker, "Fresh") == ("False", "Stale"), "a stale report", 60)
    meanwhile = place(bed, namespace, **there)

    assert uids(bed, namespace).items() >= before.items()
    assert {bed.phase(box, namespace) for box in before} == {names.Phase.RUNNING}
    assert meanwhile["nodeName"] == other
    assert meanwhile["placement"]["rejected"]["NodeNotReady"] == 1

    bed.docker.run("start", stopped_worker)
    bed.wait(lambda: uids(bed, namespace).get("made-again") not in (None, before["made-again"]), "a new Pod", 180)
    for box in before:
        bed.wait(lambda box=box: ready(bed, namespace, box) == ("True", "PodReady"), f"{box} is ready again", 180)  # type: ignore[misc]
    status = {box: bed.wait_for_phase(box, namespace=namespace)["status"] for box in before}
    after = uids(bed, namespace)
    assert after.keys() == {*before, meanwhile["podName"]}
    assert {box for box in before if after[box] == before[box]} == {"restarted", "elsewhere"}
    assert {box: each["placement"]["attempt"] for box, each in status.items()} == {
        "made-again": 2,  # its containers are not to be started twice, so the kubelet calls the Pod failed
        "restarted": 1,
        "elsewhere": 1,
    }
    assert {box: each.get("restarts", 0) for box, each in status.items()} == {
        "made-again": 0,
        "restarted": 1,
        "elsewhere": 0,
    }
    bed.wait(lambda: condition(bed, stopped_worker, "Fresh") == ("True", "Reported"), "a fresh report", 120)
    wait_for_true_views(bed)


def a_restarting_sandbox(name: str, **fields: object) -> Object:
    """Return a Sandbox whose containers the kubelet starts again when they ended."""
    size = {"cpu": "20m", "memory": "32Mi"}
    container = {"name": "main", "image": IMAGE, "command": list(FOREVER), "resources": {"limits": size}}
    spec = {"podTemplate": {"spec": {"restartPolicy": "Always", "containers": [container]}}, **fields}
    return {"apiVersion": names.API_VERSION, "kind": names.SANDBOX_KIND, "metadata": {"name": name}, "spec": spec}


def uids(bed: KindBed, namespace: str) -> dict[str, str]:
    return {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in bed.list("Pod", namespace)}


def ready(bed: KindBed, namespace: str, box: str) -> tuple[str, str]:
    found = bed.get(names.SANDBOX_KIND, box, namespace)
    conditions = {} if found is None else {each["type"]: each for each in found["status"].get("conditions", [])}
    return (conditions["Ready"]["status"], conditions["Ready"]["reason"]) if "Ready" in conditions else ("", "")
