"""One bed for the whole run, made for it and taken down after it; the operator runs beside it as its own process."""

import itertools
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sandberth.cluster.local import LocalCluster
from sandberth.flags import Flags
from sandberth.kube import names
from tests.integration.bed import AuditLog, Objects, OperatorProgram, operator_program, wait_for

ROOT = Path(__file__).parents[2]
NODES = 10
UNSCHEDULABLE_AFTER_SECONDS = 2
_NUMBERS = itertools.count(1)

Kubectl = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="session")
def cluster() -> Iterator[LocalCluster]:
    """A bed of ten nodes (192 CPU, 512Gi, 500 Pods each) with everything but the programs installed."""
    name = f"test-{os.getpid()}"
    try:
        bed = LocalCluster.up(name, nodes=NODES, scheduler=True)
        subprocess.run(
            [bed.kubectl, "--kubeconfig", bed.kubeconfig, "apply", "-k", ROOT / "manifests/overlays/local"],
            check=True,
            capture_output=True,
            timeout=120,
        )
        yield bed
    finally:
        LocalCluster(name).down()


@pytest.fixture(scope="session")
def kubectl(cluster: LocalCluster) -> Kubectl:
    """Run kubectl as the administrator."""

    def run(*arguments: str, input: str | None = None, check: bool = True) -> subprocess.CompletedProcess[str]:  # noqa: A002
        result = subprocess.run(
            [str(cluster.kubectl), "--kubeconfig", str(cluster.kubeconfig), *arguments],
            input=input,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        assert not check or result.returncode == 0, result.stderr
        return result

    return run


@pytest.fixture(scope="session")
def objects(cluster: LocalCluster, tmp_path_factory: pytest.TempPathFactory) -> Objects:
    """The bed's objects."""
    return Objects(cluster, tmp_path_factory.mktemp("discovery") / "cache.json")


@pytest.fixture(scope="session")
def audit(cluster: LocalCluster) -> AuditLog:
    """The writes of Sandberth's service accounts."""
    return AuditLog(cluster.audit_log)


@pytest.fixture
def namespace() -> str:
    """A name that no other test uses; the test creates the namespace itself."""
    return f"t-{os.getpid()}-{next(_NUMBERS)}"


@pytest.fixture
def home(namespace: str, objects: Objects) -> Iterator[str]:
    """A namespace that exists, with its default service account, and goes with all that is in it."""
    objects.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
    wait_for(lambda: objects.get("ServiceAccount", "default", namespace), what="the default service account")
    yield namespace
    for sandbox in objects.list(names.SANDBOX_KIND, namespace):
        objects.delete(names.SANDBOX_KIND, sandbox["metadata"]["name"], namespace)
    wait_for(lambda: not objects.list("Pod", namespace), 30, "the namespace is empty")
    objects.delete("Namespace", namespace)


@pytest.fixture(scope="session")
def operator(cluster: LocalCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[OperatorProgram]:
    """The operator, ready, with one NodeCapacity for each node; a test that kills it starts it again."""
    patience = ("--unschedulable-after", str(UNSCHEDULABLE_AFTER_SECONDS))
    program = operator_program(cluster, tmp_path_factory.mktemp("operator"), *patience)
    program.start()
    try:
        program.wait_ready()
        yield program
    finally:
        program.kill()


@pytest.fixture
def flags(objects: Objects, operator: OperatorProgram) -> Iterator[Callable[..., None]]:
    """Set flags by key (None removes one) and wait until the operator has them; afterwards all are at their default."""

    def shown(key: str, value: str) -> bool:
        return f'sandberth_flag{{key="{key}",value="{value}"}} 1.0' in operator.metrics()

    def put(**values: str | None) -> None:
        data = {key.replace("_", "-"): value for key, value in values.items()}
        objects.patch("ConfigMap", names.FLAGS_CONFIGMAP, {"data": data}, names.NAMESPACE)
        for key, value in data.items():
            if value is not None:
                wait_for(lambda key=key, value=value: shown(key, value), what=f"flag {key}={value}")  # type: ignore[misc]

    yield put
    put(**{key.replace("-", "_"): value for key, value in Flags().by_key().items()})
