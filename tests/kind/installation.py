"""Sandberth as it runs in the bed: its Pods and their processes, the reports, the views, and the flags in force."""

import json
from collections.abc import Mapping
from typing import Any

from sandberth.core.quantity import cpu_millicores, whole_bytes
from sandberth.core.resources import ZERO, Resources
from sandberth.kube import names
from sandberth.kube.nodecapacity import NodeCapacityStatus, Report
from sandberth.kube.pods import convert_pod
from tests.kind.bed import KindBed, Object

OPERATOR = "sandberth-operator"
REPORTER = "sandberth-reporter"
PROGRAMS = (f"deployment/{OPERATOR}", f"daemonset/{REPORTER}")


# --- Pods and processes ---


def pods_of(bed: KindBed, program: str) -> list[Object]:
    """Return the Pods of the operator or of the reporter that are there to stay."""
    return [
        pod
        for pod in bed.list("Pod", names.NAMESPACE)
        if pod["metadata"].get("labels", {}).get("app.kubernetes.io/name") == program
        and "deletionTimestamp" not in pod["metadata"]
    ]


def operator_nodes(bed: KindBed) -> set[str]:
    """Return the nodes on which operators run."""
    return {pod["spec"]["nodeName"] for pod in pods_of(bed, OPERATOR) if "nodeName" in pod["spec"]}


def reporter_on(bed: KindBed, node: str) -> Object:
    """Return the reporter's Pod on a node."""
    (pod,) = [each for each in pods_of(bed, REPORTER) if each["spec"].get("nodeName") == node]
    return pod


def is_ready(thing: Object) -> bool:
    """Tell whether a Pod or a Node has the condition Ready."""
    conditions = thing["status"].get("conditions", [])
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


def roll_out(bed: KindBed, *programs: str) -> None:
    """Wait until these programs, by default all, run as their objects say."""
    for program in programs or PROGRAMS:
        rollout = ("rollout", "status", program, "--namespace", names.NAMESPACE, "--timeout=240s")
        bed.kubectl(*rollout, timeout_seconds=250)


def signal_processes(bed: KindBed, pod: Object, signal: str) -> None:
    """Send a signal to the processes of a Pod's first container, as whoever owns its node can."""
    container = pod["status"]["containerStatuses"][0]["containerID"].rpartition("/")[2]
    script = f"kill -{signal} $(grep -ls {container} /proc/[0-9]*/cgroup | cut -d/ -f3)"
    bed.on_node(pod["spec"]["nodeName"], "bash", "-c", script)


# --- reports and views ---


def status_of(bed: KindBed, node: str) -> NodeCapacityStatus:
    """Return what the reporter and the operator say of a node."""
    capacity = bed.get(names.NODECAPACITY_KIND, node)
    assert capacity is not None
    return NodeCapacityStatus.model_validate(capacity.get("status", {}))


def report_of(bed: KindBed, node: str) -> Report:
    """Return the last report of a node."""
    report = status_of(bed, node).report
    assert report is not None
    return report


def report_now(bed: KindBed, *nodes: str) -> None:
    """Have these nodes report, so that the next reports are an interval away."""
    before = {node: report_of(bed, node).version for node in nodes}
    for node in nodes:
        bed.exec(reporter_on(bed, node)["metadata"]["name"], "sh", "-c", "kill -USR1 1", namespace=names.NAMESPACE)
    bed.wait(lambda: all(report_of(bed, node).version > before[node] for node in nodes), "fresh reports")


def condition(bed: KindBed, node: str, kind: str) -> tuple[str, str]:
    """Return status and reason of a NodeCapacity's condition."""
    found = status_of(bed, node).condition(kind)
    return ("", "") if found is None else (found.status, found.reason)


def held_on(bed: KindBed, node: str) -> tuple[int, Resources]:
    """Return how many Sandboxes the Pods on a node are, and what the node's view must come to, by the Pods alone.

    What one Pod comes to is what the reporter's tests compare with `kubectl describe node`; whether each counts once is
    what is asked here.
    """
    pods = [convert_pod(pod) for pod in bed.list("Pod") if pod["spec"].get("nodeName") == node]
    living = [pod for pod in pods if not pod.terminal]
    return sum(pod.owner_uid is not None for pod in living), sum((pod.nominal for pod in living), ZERO)


def viewed_on(bed: KindBed, node: str) -> tuple[int, Resources]:
    """Return how many Sandboxes, and what sum, the operator believes to be on a node."""
    view = status_of(bed, node).view
    assert view is not None
    return view.sandboxes, Resources(cpu_millicores(view.accounted.cpu), whole_bytes(view.accounted.memory))


def wait_for_true_views(bed: KindBed, seconds: float = 90) -> None:
    """Wait until every node's view is what its Pods come to; views are written every ten seconds."""
    nodes = [bed.control_plane, *bed.workers]

    def differing() -> dict[str, Any]:
        pairs = {node: (viewed_on(bed, node), held_on(bed, node)) for node in nodes}
        return {node: (viewed, held) for node, (viewed, held) in pairs.items() if viewed != held}

    try:
        bed.wait(lambda: not differing(), "views that equal the Pods", seconds)
    except AssertionError as error:
        raise AssertionError(f"node -> viewed, held: {differing()}\n{error}") from None


# --- flags ---


def flags_in_force(bed: KindBed) -> dict[str, set[str]]:
    """Return key -> value of the flags, by the metrics of every operator that is Ready."""
    values: dict[str, set[str]] = {}
    for pod in filter(is_ready, pods_of(bed, OPERATOR)):
        path = f"/api/v1/namespaces/{names.NAMESPACE}/pods/{pod['metadata']['name']}:8080/proxy/metrics"
        for line in bed.kubectl("get", "--raw", path, check=False).stdout.splitlines():
            if line.startswith("sandberth_flag{") and line.endswith(" 1.0"):
                key, value = (part.partition('"')[0] for part in line.split('="')[1:])
                values.setdefault(key, set()).add(value)
    return values


class FlagsMap:
    """The ConfigMap of the flags, patched as an administrator does; `restore` brings its data back."""

    def __init__(self, bed: KindBed) -> None:
        self._bed = bed
        self._before = self.data

    @property
    def data(self) -> dict[str, str]:
        """What stands in it."""
        found = self._bed.get("ConfigMap", names.FLAGS_CONFIGMAP, names.NAMESPACE)
        assert found is not None
        data: dict[str, str] = found.get("data") or {}
        return data

    def patch(self, values: Mapping[str, str | None]) -> None:
        """Patch the map; None takes a key out."""
        patch = json.dumps({"data": dict(values)})
        where = ("--namespace", names.NAMESPACE, "configmap", names.FLAGS_CONFIGMAP)
        self._bed.kubectl("patch", *where, "--type=merge", f"--patch={patch}")

    def set(self, values: Mapping[str, str]) -> None:
        """Patch the map and wait until the values hold: news of a change takes a moment."""
        self.patch(values)
        wanted = {key: {value} for key, value in values.items()}
        self._bed.wait(lambda: wanted.items() <= flags_in_force(self._bed).items(), f"the flags are {wanted}")

    def restore(self) -> None:
        """Bring back what stood there."""
        added: dict[str, str | None] = {key: None for key in self.data if key not in self._before}
        self.patch(added | self._before)
