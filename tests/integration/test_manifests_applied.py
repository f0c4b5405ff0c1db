"""The shipped manifests on a real API server: who may do what, examples, columns, explanations."""

import json
from collections.abc import Iterator
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest
import yaml

from sandberth.kube.names import API_VERSION, FLAGS_CONFIGMAP, HOST_FEATURES_ANNOTATION, NAMESPACE
from tests.integration.applying import Kubectl, a_sandbox, an_image_spec, eventually, settled
from tests.integration.bed import OperatorProgram

pytestmark = pytest.mark.integration

ROOT = Path(__file__).parents[2]
OPERATOR, REPORTER, API_REPORTER = (
    f"system:serviceaccount:{NAMESPACE}:{name}"
    for name in ("sandberth-operator", "sandberth-reporter", "sandberth-reporter-api")
)
REPORT = {
    "report": {
        "epoch": 1,
        "sequence": 1,
        "intervalSeconds": 20,
        "reportedAt": "2030-01-01T00:00:00Z",
        "nodeUID": "u",
        "allocated": {"cpu": "1", "memory": "1Gi"},
    }
}
VIEW = {"view": {"accounted": {"cpu": "1", "memory": "1Gi"}}}
CONDITIONS = {
    "conditions": [
        {"type": "Fresh", "status": "True", "reason": "Reported", "lastTransitionTime": "2030-01-01T00:00:00Z"}
    ]
}


@pytest.fixture
def home(kubectl: Kubectl, namespace: str) -> Iterator[str]:
    """A namespace in which the policies are seen to act."""
    yield settled(kubectl, namespace)
    kubectl("delete", "namespace", namespace, "--wait=false")


@pytest.fixture
def capacity(kubectl: Kubectl, home: str) -> str:
    """The name of a NodeCapacity that belongs to no Node."""
    name = f"{home}-node"
    kubectl("create", "-f", "-", input=json.dumps(_node_capacity(name)))
    return name


def _node_capacity(name: str, **fields: Any) -> dict[str, Any]:
    return {"apiVersion": API_VERSION, "kind": "NodeCapacity", "metadata": {"name": name}, **fields}


def write_status(
    kubectl: Kubectl, capacity: str, status: dict[str, Any], user: str, node: str | None = None
) -> CompletedProcess[str]:
    # Server-side apply is one PATCH; `kubectl patch` would read the status first, which a reporter may not.
    options = ["--as-user-extra", f"authentication.kubernetes.io/node-name={node}"] if node else []
    manifest = json.dumps(_node_capacity(capacity, status=status))
    return kubectl(
        *("apply", "--server-side", "--force-conflicts", "--subresource", "status", "-f", "-"),
        *("--as", user, *options),
        input=manifest,
        check=False,
    )


def test_reporter_writes_the_report_of_its_own_node(kubectl: Kubectl, capacity: str) -> None:
    own = write_status(kubectl, capacity, REPORT, REPORTER, node=capacity)
    other = write_status(kubectl, capacity, REPORT, REPORTER, node="another")
    unbound = write_status(kubectl, capacity, REPORT, REPORTER)

    assert own.returncode == 0, own.stderr
    assert f'this token belongs to node "another", not to {capacity}' in other.stderr
    assert f'this token belongs to node "", not to {capacity}' in unbound.stderr


@pytest.mark.parametrize(("status", "part"), [(VIEW, "view"), (CONDITIONS, "conditions")])
@pytest.mark.parametrize("user", [REPORTER, API_REPORTER])
def test_reporter_writes_nothing_but_the_report(
    kubectl: Kubectl, capacity: str, status: dict[str, Any], part: str, user: str
) -> None:
    result = write_status(kubectl, capacity, status, user, node=capacity)

    assert f"a reporter writes status.report only, not status.{part}" in result.stderr


def test_api_reporter_reports_any_node_and_the_operator_writes_its_view(kubectl: Kubectl, capacity: str) -> None:
    report = write_status(kubectl, capacity, REPORT, API_REPORTER)
    view = write_status(kubectl, capacity, {**VIEW, **CONDITIONS}, OPERATOR)

    assert report.returncode == 0, report.stderr
    assert view.returncode == 0, view.stderr


def can(kubectl: Kubectl, user: str, *question: str) -> bool:
    return kubectl("auth", "can-i", *question, "--as", user, check=False).stdout.strip() == "yes"


def test_service_accounts_can_do_their_work_and_no_more(kubectl: Kubectl, home: str) -> None:
    allowed = [
        can(kubectl, OPERATOR, "create", "pods", "-n", home),
        can(kubectl, OPERATOR, "patch", "sandboxes.sandberth.dev", "--subresource", "status", "-n", home),
        can(kubectl, OPERATOR, "watch", "configmaps/sandberth-flags", "--all-namespaces"),
        can(kubectl, OPERATOR, "get", f"namespaces/{NAMESPACE}", "-n", NAMESPACE),
        can(kubectl, OPERATOR, "create", "events", "-n", NAMESPACE),
        can(kubectl, API_REPORTER, "list", "pods", "--all-namespaces"),
    ]
    refused = [
        can(kubectl, OPERATOR, "get", "secrets", "-n", home),
        can(kubectl, OPERATOR, "get", "configmaps", "-n", NAMESPACE),
        can(kubectl, OPERATOR, "get", f"namespaces/{home}", "-n", home),
        can(kubectl, OPERATOR, "patch", "sandboxes.sandberth.dev", "-n", home),
        can(kubectl, OPERATOR, "create", "events", "-n", home),
        can(kubectl, OPERATOR, "patch", "pods", "-n", home),
        can(kubectl, API_REPORTER, "delete", "pods", "-n", home),
        can(kubectl, REPORTER, "list", "pods", "-n", home),
    ]

    assert all(allowed), allowed
    assert not any(refused), refused


def test_view_and_edit_include_sandboxes(kubectl: Kubectl, home: str) -> None:
    for role in ("view", "edit"):
        kubectl("-n", home, "create", "rolebinding", role, "--clusterrole", role, "--user", f"user-{role}")
    resource = "sandboxes.sandberth.dev"

    eventually(lambda: can(kubectl, "user-view", "list", resource, "-n", home))
    eventually(lambda: can(kubectl, "user-edit", "create", resource, "-n", home))

    assert can(kubectl, "user-edit", "get", resource, "-n", home)
    assert not can(kubectl, "user-view", "create", resource, "-n", home)
    assert not can(kubectl, "user-edit", "patch", resource, "--subresource", "status", "-n", home)


@pytest.mark.parametrize("example", sorted((ROOT / "manifests/examples").glob("*.yaml")), ids=lambda path: path.stem)
def test_example_applies(kubectl: Kubectl, home: str, example: Path) -> None:
    result = kubectl("-n", home, "apply", "--validate=strict", "-f", str(example), check=False)

    assert result.returncode == 0, result.stderr


def test_manifests_applied_again_change_nothing(kubectl: Kubectl, home: str) -> None:
    manifests = str(ROOT / "manifests/overlays/local")
    kubectl("apply", "-k", manifests)

    result = kubectl("apply", "-k", manifests)

    assert [line for line in result.stdout.splitlines() if not line.endswith("unchanged")] == []


def test_full_installation_is_accepted(kubectl: Kubectl, home: str) -> None:
    result = kubectl("apply", "--dry-run=server", "-k", str(ROOT / "manifests/base"), check=False)

    assert result.returncode == 0, result.stderr
    assert "Warning" not in result.stderr


def test_defaults_stand_in_the_stored_object(kubectl: Kubectl, home: str) -> None:
    kubectl("create", "-f", "-", input=a_sandbox(home, an_image_spec()))

    stored = yaml.safe_load(kubectl("-n", home, "get", "sandboxes.sandberth.dev", "box", "-o", "yaml").stdout)["spec"]

    assert stored["recovery"] == "Recreate"
    assert stored["lifetime"] == {"startDeadlineSeconds": 600}


def test_columns_read_well(kubectl: Kubectl, home: str, operator: OperatorProgram) -> None:
    kubectl("create", "-f", "-", input=a_sandbox(home, an_image_spec()))
    kubectl("-n", home, "wait", "--for=condition=Ready", "sandboxes.sandberth.dev/box", "--timeout=20s")

    header, row = kubectl("-n", home, "get", "sandboxes.sandberth.dev", "-o", "wide").stdout.splitlines()

    assert header.split() == [
        *("NAME", "PHASE", "NODE", "READY", "CPU", "MEMORY", "AGE", "REASON", "POD", "IP", "SCORE")
    ]
    name, phase, node, ready, cpu, memory, _, reason, address, score = row.split()
    assert (name, phase, ready, cpu, memory, reason) == ("box", "Running", "True", "1", "1Gi", "PodReady")
    assert node.startswith("node-")
    assert address.count(".") == 3
    assert float(score) > 0


def test_kubectl_explain_describes_the_size(kubectl: Kubectl, home: str) -> None:
    text = " ".join(kubectl("explain", "sandboxes.spec.resources", "--api-version", API_VERSION).stdout.split())

    assert 'CPUs, from 1m to 99999, such as 2, 500m or "0.5" (fractions in quotes)' in text


def test_applying_the_manifests_again_takes_no_setting_back(kubectl: Kubectl) -> None:
    """An upgrade must neither turn accounting off nor shut out templates that were allowed."""

    flags = ("-n", NAMESPACE, "configmap", FLAGS_CONFIGMAP)
    alpha = json.dumps({"data": {"best-of-k-alpha": "50"}})
    overlay = str(ROOT / "manifests/overlays/local")
    try:
        kubectl("patch", *flags, "--type", "merge", "-p", alpha)
        kubectl("annotate", "namespace", NAMESPACE, "--overwrite", f"{HOST_FEATURES_ANNOTATION}=,")

        kubectl("apply", "-k", overlay)
        kubectl("apply", "--server-side", "--force-conflicts", "-k", overlay)

        assert kubectl("get", *flags, "-o", "jsonpath={.data.best-of-k-alpha}").stdout == "50"
        namespace = json.loads(kubectl("get", "namespace", NAMESPACE, "-o", "json").stdout)
        assert namespace["metadata"]["annotations"][HOST_FEATURES_ANNOTATION] == ","
    finally:
        kubectl("annotate", "namespace", NAMESPACE, f"{HOST_FEATURES_ANNOTATION}-")
