"""An operator that loses its rights, or the definition of what it serves: it says so, and heals when they are back."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from sandberth.cluster.local import LocalCluster
from sandberth.kube import names
from tests.integration.bed import Object, Objects, OperatorProgram, operator_program, wait_for
from tests.integration.boxes import Boxes
from tests.integration.conftest import ROOT, Kubectl

pytestmark = pytest.mark.integration

ACCOUNT = "locked-out"
DEFINITION = str(ROOT / "crds/sandboxes.sandberth.dev.yaml")

# The look for what streams missed comes every second instead of every minute.
QUICK_LOOKS = """
import sys
from pathlib import Path
from sandberth.control.process import run_process
from sandberth.control.settings import Settings
run_process(Settings(Path(sys.argv[1]), metrics_host="127.0.0.1", metrics_port=0, healing_interval_seconds=1.0))
"""


def binding(kind: str, role: str) -> Object:
    metadata = {"name": ACCOUNT} | ({"namespace": names.NAMESPACE} if kind == "Role" else {})
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": f"{kind}Binding",
        "metadata": metadata,
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": role},
        "subjects": [{"kind": "ServiceAccount", "name": ACCOUNT, "namespace": names.NAMESPACE}],
    }


def a_lease_of_somebody_else() -> Object:
    spec = {"holderIdentity": "somebody else", "leaseDurationSeconds": 3600}
    metadata = {"name": names.OPERATOR_LEASE, "namespace": names.NAMESPACE}
    return {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": spec}


@pytest.fixture
def standby(
    cluster: LocalCluster, operator: OperatorProgram, objects: Objects, tmp_path: Path
) -> Iterator[OperatorProgram]:
    """An operator that stands by beside the bed's, with a user of its own whose rights a test may take away."""
    account = {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": {"name": ACCOUNT, "namespace": names.NAMESPACE},
    }
    made = [account, binding("ClusterRole", "sandberth-operator"), binding("Role", "sandberth-operator")]
    for item in [*made, a_lease_of_somebody_else()]:
        objects.create(item)
    program = operator_program(cluster, tmp_path, account=ACCOUNT)
    program.command[1:] = ["-c", QUICK_LOOKS, str(tmp_path / "operator.kubeconfig")]
    try:
        program.restart()
        yield program
    finally:
        program.kill()
        objects.delete("Lease", names.OPERATOR_LEASE, names.NAMESPACE)
        for item in made:
            objects.delete(item["kind"], item["metadata"]["name"], item["metadata"].get("namespace"))


def not_ready(program: OperatorProgram, text: str) -> str:
    """Return the answer of /readyz once it is red and says this."""
    code, answer = program.ask("readyz")
    return answer if code == 503 and text in answer else ""


def test_a_standby_whose_lease_is_refused_is_not_ready_and_says_why(standby: OperatorProgram, objects: Objects) -> None:
    objects.delete("RoleBinding", ACCOUNT, names.NAMESPACE)

    text = wait_for(lambda: not_ready(standby, "Lease"), 30, "not ready")

    assert "403 Forbidden" in text
    assert 'cannot get resource "leases"' in text
    assert standby.probe("livez") == 200, "a restart would not help"

    objects.create(binding("Role", "sandberth-operator"))
    wait_for(lambda: standby.probe("readyz") == 200, 30, "ready again")


def test_an_operator_without_rights_to_the_lease_never_becomes_ready_and_says_why(
    standby: OperatorProgram, objects: Objects
) -> None:
    standby.kill()
    objects.delete("RoleBinding", ACCOUNT, names.NAMESPACE)
    standby.start()

    wait_for(lambda: not_ready(standby, 'cannot get resource "leases"'), 30, "not ready")

    objects.create(binding("Role", "sandberth-operator"))


def test_an_operator_that_is_locked_out_after_its_start_is_not_ready_and_says_why(
    standby: OperatorProgram, objects: Objects
) -> None:
    objects.delete("ClusterRoleBinding", ACCOUNT)

    text = wait_for(lambda: not_ready(standby, "is refused"), 60, "not ready")

    assert "403 Forbidden" in text
    assert standby.probe("livez") == 200, "a restart would not help"

    objects.create(binding("ClusterRole", "sandberth-operator"))
    wait_for(lambda: standby.probe("readyz") == 200, 60, "ready again")


def test_an_operator_whose_token_is_refused_after_its_start_is_not_ready_and_says_why(
    standby: OperatorProgram, objects: Objects
) -> None:
    objects.delete("ServiceAccount", ACCOUNT, names.NAMESPACE)

    assert "401 Unauthorized" in wait_for(lambda: not_ready(standby, "401"), 60, "not ready")
    assert standby.probe("livez") == 200


def test_a_definition_that_is_deleted_and_installed_again_costs_one_restart(
    operator: OperatorProgram, objects: Objects, home: str, kubectl: Kubectl
) -> None:
    boxes = Boxes(objects, home)
    boxes.apply("before")
    boxes.has_phase("Running", "before")

    try:
        kubectl("delete", "-f", DEFINITION)
        wait_for(lambda: not objects.list("Pod", home), 30, "the Pods went with their Sandboxes")
        assert operator.process is not None
        assert operator.process.wait(60) == 1
        operator.start()
        assert "are the CRDs installed" in wait_for(
            lambda: not_ready(operator, "sandboxes"), 30, "it says what it lacks"
        )
    finally:
        kubectl("apply", "-f", DEFINITION)
        kubectl("wait", "--for=condition=Established", "--timeout=30s", "-f", DEFINITION)
    operator.wait_ready()

    boxes.apply("after")
    boxes.has_phase("Running", "after")
