"""The reporter of each node on real kubelets: its sums, its usage, what it costs, and what its token may write."""

import json
import time
from collections.abc import Iterator
from typing import Any

import pytest

from sandberth.core.quantity import cpu_millicores, whole_bytes
from sandberth.kube import names
from sandberth.kube.nodecapacity import Report
from tests.kind.bed import FOREVER, IMAGE, KindBed, Object, a_sandbox

SELECTOR = "app.kubernetes.io/name=sandberth-reporter"
INTERVAL_SECONDS = 20.0
TICKS_A_SECOND = 100
MIB = 2**20


def report_of(bed: KindBed, node: str) -> Report:
    capacity = bed.get(names.NODECAPACITY_KIND, node)
    assert capacity is not None
    return Report.model_validate(capacity["status"]["report"])


def newer_report(bed: KindBed, node: str, than: Report, count: int = 1) -> Report:
    """Return a report that is at least so many reports newer, as they come by themselves."""
    wanted = (than.epoch, than.sequence + count)
    seconds = (count + 2) * INTERVAL_SECONDS
    bed.wait(lambda: report_of(bed, node).version >= wanted, f"{count} more reports of {node}", seconds)
    return report_of(bed, node)


def reporter_on(bed: KindBed, node: str) -> Object:
    """Return the Pod of the DaemonSet on that node."""
    pods = [
        pod
        for pod in bed.list("Pod", names.NAMESPACE)
        if pod["metadata"].get("labels", {}).get("app.kubernetes.io/name") == "sandberth-reporter"
        and pod["spec"].get("nodeName") == node
        and "deletionTimestamp" not in pod["metadata"]
    ]
    assert len(pods) == 1, [pod["metadata"]["name"] for pod in pods]
    return pods[0]


def in_reporter(bed: KindBed, node: str, *command: str, check: bool = True) -> str:
    name: str = reporter_on(bed, node)["metadata"]["name"]
    return bed.exec(name, *command, namespace=names.NAMESPACE, check=check)


def report_now(bed: KindBed, node: str) -> Report:
    """Return a report of the node as it is now."""
    before = report_of(bed, node)
    in_reporter(bed, node, "sh", "-c", "kill -USR1 1")
    bed.wait(lambda: report_of(bed, node).version > before.version, f"a report of {node}", 30)
    return report_of(bed, node)


def pods_on(bed: KindBed, node: str) -> list[Object]:
    """Return what the API shows on that node and what has not ended."""
    return [
        pod
        for pod in bed.list("Pod")
        if pod["spec"].get("nodeName") == node and pod["status"].get("phase") not in {"Succeeded", "Failed"}
    ]


def described(bed: KindBed, node: str) -> tuple[int, int]:
    """Return the requests of CPU and memory that `kubectl describe node` shows."""
    text = bed.kubectl("describe", "node", node).stdout.partition("Allocated resources:")[2]
    rows = {words[0]: words[1] for words in map(str.split, text.splitlines()) if len(words) > 1}
    return cpu_millicores(rows["cpu"]), whole_bytes(rows["memory"])


def requested(report: Report) -> tuple[int, int]:
    assert report.requested is not None
    return cpu_millicores(report.requested.cpu), whole_bytes(report.requested.memory)


def used_millicores(report: Report) -> int:
    assert report.used is not None
    return cpu_millicores(report.used.cpu)


def test_every_node_is_reported_by_its_own_kubelet(bed: KindBed) -> None:
    for node in [bed.control_plane, *bed.workers]:
        report, found = report_of(bed, node), bed.get("Node", node)
        assert found is not None
        allocatable = found["status"]["allocatable"]

        assert report.node_uid == found["metadata"]["uid"]
        assert report.complete
        assert report.capacity is not None
        assert cpu_millicores(report.capacity.cpu) == cpu_millicores(allocatable["cpu"])
        assert whole_bytes(report.capacity.memory) == whole_bytes(allocatable["memory"])


def test_tls_to_the_kubelets_is_verified(bed: KindBed) -> None:
    log = bed.kubectl("logs", "--namespace", names.NAMESPACE, f"--selector={SELECTOR}", "--tail=-1").stdout

    assert "Reporting node" in log
    assert "not verified" not in log


# --- sums ---


@pytest.fixture
def all_sorts_of_pods(bed: KindBed, namespace: str) -> Iterator[str]:
    """Pods of every kind on the first worker, settled; returns the worker."""
    node = bed.workers[0]
    runtime_class = f"heavy-{namespace}"

    def container(name: str, command: tuple[str, ...] = FOREVER, **fields: Any) -> Object:
        return {"name": name, "image": IMAGE, "imagePullPolicy": "Never", "command": list(command), **fields}

    def pod(name: str, *containers: Object, **fields: Any) -> Object:
        spec = {"nodeName": node, "terminationGracePeriodSeconds": 0, "containers": list(containers), **fields}
        return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}

    def asking(cpu: Any = None, memory: Any = None, kind: str = "requests") -> Object:
        amounts = {"cpu": cpu, "memory": memory}
        return {kind: {key: value for key, value in amounts.items() if value is not None}}

    template = pod("ds", container("main", resources=asking("17m", "33Mi")))
    del template["spec"]["nodeName"]
    first = container("first", ("true",), resources=asking("300m", "10Mi"))
    side = container("side", resources=asking("21m", "7M"), restartPolicy="Always")
    late = container("late", ("true",), resources=asking("100m", "100Mi"))
    bed.apply(
        [
            {
                "apiVersion": "node.k8s.io/v1",
                "kind": "RuntimeClass",
                "metadata": {"name": runtime_class},
                "handler": "runc",
                "overhead": {"podFixed": {"cpu": "30m", "memory": 12_345_678}},
            },
            {
                "apiVersion": "apps/v1",
                "kind": "DaemonSet",
                "metadata": {"name": "ds"},
                "spec": {
                    "selector": {"matchLabels": {"app": "ds"}},
                    "template": {"metadata": {"labels": {"app": "ds"}}, "spec": template["spec"]},
                },
            },
            pod(
                "sidecar",
                container("main", resources=asking("55m", "44Mi", "limits")),
                container("second", resources=asking("1m")),
                initContainers=[first, side, late],
            ),
            pod("heavy", container("main", resources=asking(0.0123, 1_234_567)), runtimeClassName=runtime_class),
            pod("besteffort", container("main")),
            pod("ended", container("main", ("true",), resources=asking("200m", "64Mi")), restartPolicy="Never"),
            pod("refused", container("main", resources=asking("500", "64Mi")), restartPolicy="Never"),
            a_sandbox("box", placement={"preferredNode": node}),
        ],
        namespace,
    )
    phases = {"sidecar": "Running", "heavy": "Running", "besteffort": "Running", "ended": "Succeeded"}
    phases |= {"refused": "Failed", "box": "Running"}

    def settled() -> bool:
        found = {pod["metadata"]["name"]: pod["status"].get("phase") for pod in bed.list("Pod", namespace)}
        on_this_node = any(name.startswith("ds-") for name in (p["metadata"]["name"] for p in pods_on(bed, node)))
        return on_this_node and all(found.get(name) == phase for name, phase in phases.items())

    bed.wait(settled, "all sorts of pods", 90, namespace)
    yield node
    bed.kubectl("delete", "daemonsets,pods", "--all", "--namespace", namespace)
    bed.kubectl("delete", "runtimeclass", runtime_class)


def test_requested_is_what_kubectl_describes_to_the_millicore_and_byte(
    bed: KindBed, namespace: str, all_sorts_of_pods: str
) -> None:
    node = all_sorts_of_pods
    refused = bed.get("Pod", "refused", namespace)

    report = report_now(bed, node)

    assert refused is not None
    assert refused["status"]["reason"] == "OutOfcpu"
    assert requested(report) == described(bed, node)
    assert requested(report)[0] >= 17 + 321 + 43
    assert report.pods == len(pods_on(bed, node))
    box = bed.get(names.SANDBOX_KIND, "box", namespace)
    assert box is not None
    if box["status"]["nodeName"] == node:
        assert f"{box['metadata']['uid']}.1 50 {32 * MIB}" in report.sandboxes


def test_static_pods_count_once(bed: KindBed) -> None:
    pods = pods_on(bed, bed.control_plane)
    static = [pod for pod in pods if "kubernetes.io/config.mirror" in pod["metadata"].get("annotations", {})]

    report = report_now(bed, bed.control_plane)

    assert len(static) >= 4  # etcd, API server, controller-manager, scheduler
    assert report.pods == len(pods)
    assert requested(report) == described(bed, bed.control_plane)


# --- usage ---


def test_usage_follows_a_burner_within_two_reports(bed: KindBed, namespace: str) -> None:
    burning = ["python3", "-c", "while True: pass"]
    bed.apply(a_sandbox("burner", cpu="600m", command=burning), namespace)
    node = bed.wait_for_phase("burner", namespace=namespace)["status"]["nodeName"]
    began = report_of(bed, node)

    second = newer_report(bed, node, began, 2)

    assert used_millicores(second) >= 400
    bed.kubectl("delete", "sandbox", "burner", "--namespace", namespace)


# --- whose node it is ---

TRY_TO_WRITE = """
import asyncio, json, sys
from sandberth.kube.errors import ApiError
from sandberth.kube.kubeconfig import cluster_access
from sandberth.kube.paths import MERGE_PATCH, capacity_path
from sandberth.reporter.connection import Connection

async def main():
    node, status = sys.argv[1], json.loads(sys.argv[2])
    connection = Connection(cluster_access(None), 10)
    if not status:
        content = json.loads(await connection.request("GET", capacity_path(node)))
        status = {"report": content["status"]["report"]}
    try:
        await connection.request("PATCH", capacity_path(node, "status"), {"status": status}, MERGE_PATCH)
        print("written")
    except ApiError as error:
        print(error)

asyncio.run(main())
"""


def try_to_write(bed: KindBed, reporter: str, node: str, status: Object | None = None) -> str:
    """Return what the API server says when the reporter of one node writes to a NodeCapacity, {} being its report."""
    return in_reporter(bed, reporter, "python3", "-P", "-c", TRY_TO_WRITE, node, json.dumps(status or {}))


def test_a_reporters_token_is_refused_for_every_other_node(bed: KindBed) -> None:
    own, other = bed.workers[0], bed.workers[1]

    assert f'this token belongs to node "{own}", not to {other}' in try_to_write(bed, own, other)
    assert try_to_write(bed, own, own) == "written\n"


def test_a_reporter_writes_nothing_but_its_report(bed: KindBed) -> None:
    own = bed.workers[0]
    view = {"view": {"accounted": {"cpu": "1", "memory": "1"}}}

    assert "not status.view" in try_to_write(bed, own, own, view)
    assert "not status.conditions" in try_to_write(bed, own, own, {"conditions": []})


def test_a_reporter_that_was_killed_begins_a_new_epoch(bed: KindBed) -> None:
    node = bed.workers[1]
    before = report_of(bed, node)
    pod: str = reporter_on(bed, node)["metadata"]["name"]

    bed.kubectl("delete", "pod", pod, "--namespace", names.NAMESPACE, "--grace-period=0", "--force")

    bed.wait(lambda: report_of(bed, node).epoch > before.epoch, "a new epoch", 60)
    assert report_of(bed, node).epoch == before.epoch + 1


def test_a_kubelet_that_starts_anew_is_not_believed_before_it_knows_its_pods(bed: KindBed) -> None:
    node = bed.workers[1]
    before = report_now(bed, node)
    seen = []

    bed.on_node(node, "systemctl", "restart", "kubelet")
    for _ in range(40):
        bed.on_node(node, "pkill", "-USR1", "-f", "sandberth.reporter.kubelet_process", check=False)
        seen.append(report_of(bed, node))
        time.sleep(0.2)

    bed.wait(lambda: report_of(bed, node).version > seen[0].version, "reports after the restart", 60)
    assert {report.pods for report in seen} == {before.pods}
    assert {requested(report) for report in seen} == {requested(before)}


# --- cost ---


def cpu_ticks(bed: KindBed, node: str) -> int:
    fields = in_reporter(bed, node, "cat", "/proc/1/stat").rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


def test_a_reporter_stays_within_its_budget(bed: KindBed) -> None:
    nodes = [bed.control_plane, *bed.workers]
    begin = {node: (report_of(bed, node), cpu_ticks(bed, node), time.monotonic()) for node in nodes}

    for node in nodes:
        report, ticks, since = begin[node]
        newer_report(bed, node, report, 3)
        millicores = (cpu_ticks(bed, node) - ticks) / TICKS_A_SECOND / (time.monotonic() - since) * 1000
        peak = in_reporter(bed, node, "grep", "VmHWM", "/proc/1/status").split()[1]
        assert millicores <= 10
        assert int(peak) <= 40 * 1024
