"""A new version of the operator or of its manifests while Sandboxes run."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from sandberth.kube import names
from tests.kind.bed import KindBed, a_sandbox
from tests.kind.installation import (
    OPERATOR,
    PROGRAMS,
    FlagsMap,
    flags_in_force,
    pods_of,
    report_of,
    roll_out,
    wait_for_true_views,
)

OVERLAY = Path(__file__).parents[2] / "manifests" / "overlays" / "kind"


def traces(bed: KindBed, namespace: str) -> dict[str, Any]:
    """Return what would be different of a Sandbox that somebody touched."""
    pods = {pod["metadata"]["name"]: pod for pod in bed.list("Pod", namespace)}
    return {
        each["metadata"]["name"]: (
            each["status"],
            each["metadata"]["generation"],
            (pod := pods[each["metadata"]["name"]])["metadata"]["uid"],
            [container["containerID"] for container in pod["status"]["containerStatuses"]],
            [container["restartCount"] for container in pod["status"]["containerStatuses"]],
        )
        for each in bed.list(names.SANDBOX_KIND, namespace)
    }


@pytest.fixture
def running(bed: KindBed, namespace: str) -> dict[str, Any]:
    """Sandboxes that run, as they were before anything happened."""
    boxes = [f"box-{number}" for number in range(4)]
    bed.apply([a_sandbox(box) for box in boxes], namespace)
    for box in boxes:
        bed.wait_for_phase(box, namespace=namespace, seconds=120)

    def settled() -> bool:
        return all(status["conditions"][-1]["status"] == "True" for status, *_ in traces(bed, namespace).values())

    bed.wait(settled, "they are Ready", 60, namespace)
    return traces(bed, namespace)


def test_a_restart_of_the_operator_touches_no_sandbox_and_loses_none(
    bed: KindBed, namespace: str, running: dict[str, Any]
) -> None:
    operators = {pod["metadata"]["uid"] for pod in pods_of(bed, OPERATOR)}

    bed.kubectl("rollout", "restart", f"deployment/{OPERATOR}", "--namespace", names.NAMESPACE)
    bed.apply(a_sandbox("meanwhile"), namespace)
    roll_out(bed, f"deployment/{OPERATOR}")

    assert not operators & {pod["metadata"]["uid"] for pod in pods_of(bed, OPERATOR)}
    bed.wait_for_phase("meanwhile", namespace=namespace, seconds=120)
    assert running.items() <= traces(bed, namespace).items()
    wait_for_true_views(bed)


@pytest.fixture
def next_version(bed: KindBed, tmp_path: Path) -> Iterator[Path]:
    """A user's own overlay, which makes every program of ours roll out; the manifests are applied again afterwards."""
    release = [{"op": "add", "path": "/spec/template/metadata/annotations", "value": {"example.com/release": "next"}}]
    kustomization = {
        "resources": [os.path.relpath(OVERLAY, tmp_path.resolve())],
        "patches": [
            {"target": {"kind": kind, "namespace": names.NAMESPACE}, "patch": yaml.safe_dump(release)}
            for kind in ("Deployment", "DaemonSet")
        ],
    }
    (tmp_path / "kustomization.yaml").write_text(yaml.safe_dump(kustomization))
    yield tmp_path
    bed.kubectl("apply", "--kustomize", str(OVERLAY))
    roll_out(bed)


def test_applying_the_next_version_keeps_the_flags_and_touches_no_sandbox(
    bed: KindBed, namespace: str, flags: FlagsMap, running: dict[str, Any], next_version: Path
) -> None:
    mine = {"sandbox-placement-id-reconciliation": "true", "best-of-k-alpha": "35"}
    flags.set(mine)
    nodes = (bed.control_plane, *bed.workers)
    epochs = {node: report_of(bed, node).epoch for node in nodes}

    bed.kubectl("apply", "--kustomize", str(next_version))
    roll_out(bed, *PROGRAMS)

    assert flags.data.items() >= mine.items()
    in_force = flags_in_force(bed)
    assert {key: in_force[key] for key in mine} == {key: {value} for key, value in mine.items()}
    bed.wait(lambda: all(report_of(bed, node).epoch > epochs[node] for node in nodes), "reports of the next version")
    assert traces(bed, namespace) == running
    bed.apply(a_sandbox("next"), namespace)
    placement = bed.wait_for_phase("next", namespace=namespace, seconds=120)["status"]["placement"]
    assert (placement["view"], placement["flags"]["alpha"]) == ("reconciled", 35)
    wait_for_true_views(bed)
