"""The demo's bed: nodes with something on them, Sandberth running, flags changed live, reports made when needed."""

import json
import random
import time
from collections.abc import Callable
from typing import Any

from sandberth.cluster import services
from sandberth.cluster.errors import BedApiError, ClusterError
from sandberth.cluster.kubectl import run_kubectl
from sandberth.cluster.local import LocalCluster
from sandberth.core.quantity import format_cpu
from sandberth.demo.burst import NAMESPACE
from sandberth.demo.display import Display
from sandberth.demo.parameters import Parameters
from sandberth.kube import names

FOREIGN_NAMESPACE = "demo-others"
_PATIENCE_SECONDS = 60.0
_POLL_SECONDS = 0.1
_CAPACITIES = f"/apis/{names.API_VERSION}/{names.NODECAPACITIES}"


def raise_stage(parameters: Parameters, display: Display) -> LocalCluster:
    """Return a new bed on which a burst can begin. Raises ClusterError; what was started then is left to `down`."""
    bed = LocalCluster.up(
        parameters.bed, nodes=parameters.nodes, node_cpu=parameters.node_cpu, audit=False, progress=display
    )
    with display.step("installing Sandberth, and one foreign pod on each node"):
        services.install(bed)
        for namespace in (NAMESPACE, FOREIGN_NAMESPACE):
            _make_namespace(bed, namespace)
        _make_foreign_pods(bed, parameters)
    with display.step("starting the operator and the reporter"):
        services.start_operator(bed, "--seed", str(parameters.seed))
        services.start_reporter(bed, interval=f"{parameters.interval_seconds:g}s", usage="none")
        services.wait_until_reported(bed)
    return bed


def foreign_sizes(parameters: Parameters) -> list[int]:
    """Return the millicores of each node's foreign pod: 0 to the most, by the seed."""
    rng = random.Random(parameters.seed)
    return [rng.randint(0, parameters.foreign_millicores) for _ in range(parameters.nodes)]


def set_flags(bed: LocalCluster, flags: dict[str, str]) -> None:
    """Patch the ConfigMap, and return when the operator has the flags in force."""
    patch = json.dumps({"data": flags})
    run_kubectl(bed, "-n", names.NAMESPACE, "patch", "configmap", names.FLAGS_CONFIGMAP, "--type=merge", "-p", patch)
    wanted = [f'sandberth_flag{{key="{key}",value="{value}"}} 1.0' for key, value in flags.items()]

    def in_force() -> bool:
        lines = services.metrics(bed).splitlines()
        return all(line in lines for line in wanted)

    _wait(in_force, "the operator has not taken over the flags")


def refresh_reports(bed: LocalCluster) -> None:
    """Have all nodes reported as empty of Sandboxes, and return when the operator has taken these reports in."""
    with bed.api() as api:

        def reports() -> dict[str, dict[str, Any]]:
            items = api.get(_CAPACITIES)["items"]
            return {each["metadata"]["name"]: each.get("status", {}).get("report", {}) for each in items}

        def renewed() -> bool:
            before, taken = reports(), _reports_taken(bed)
            services.report_now(bed)
            _wait(lambda: all(_version(after) > _version(before[name]) for name, after in reports().items()), _LATE)
            _wait(lambda: _reports_taken(bed) >= taken + len(before), "the operator has not taken the reports in")
            return not any(report["sandboxes"] for report in reports().values())

        # The reporter's own cache may be a moment behind the deletion of the last Pods.
        _wait(renewed, "the reports still list Sandboxes")


_LATE = "not every node has a new report"


def _version(report: dict[str, Any]) -> tuple[int, int]:
    return (report.get("epoch", 0), report.get("sequence", 0))


def _reports_taken(bed: LocalCluster) -> int:
    prefix = 'sandberth_reports_total{outcome="taken"} '
    lines = services.metrics(bed).splitlines()
    return next((int(float(line.removeprefix(prefix))) for line in lines if line.startswith(prefix)), 0)


def _make_namespace(bed: LocalCluster, name: str) -> None:
    """Create a namespace, and wait for the account that its pods run as."""
    with bed.api() as api:
        api.post("/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})

        def has_account() -> bool:
            try:
                api.get(f"/api/v1/namespaces/{name}/serviceaccounts/default")
            except BedApiError as error:
                if error.status == 404:
                    return False
                raise
            return True

        _wait(has_account, f"namespace {name} has no default service account")


def _make_foreign_pods(bed: LocalCluster, parameters: Parameters) -> None:
    pods = f"/api/v1/namespaces/{FOREIGN_NAMESPACE}/pods"
    with bed.api() as api:
        for number, millicores in enumerate(foreign_sizes(parameters)):
            container = {"name": "main", "image": "foreign", "resources": {"requests": {"cpu": format_cpu(millicores)}}}
            pod = {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": f"other-{number}"},
                "spec": {
                    "nodeName": f"node-{number}",
                    "automountServiceAccountToken": False,
                    "containers": [container],
                },
            }
            api.post(pods, pod)
        _wait(
            lambda: all(pod["status"]["phase"] == "Running" for pod in api.get(pods)["items"]),
            "the foreign pods do not run",
        )


def _wait(claim: Callable[[], bool], complaint: str) -> None:
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while not claim():
        if time.monotonic() > deadline:
            raise ClusterError(f"{complaint} after {_PATIENCE_SECONDS:.0f} s")
        time.sleep(_POLL_SECONDS)
