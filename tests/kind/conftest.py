"""One kind bed for all of these tests. It is made where it is missing, brought up to date, and stays up.

Kept apart from any other cluster by its name; nothing here reads $KUBECONFIG or ~/.kube/config.
"""

import itertools
import os
import sys
from collections.abc import Iterator

import pytest

from sandberth.cluster.kind.cluster import KindCluster
from sandberth.cluster.kind.deploy import deploy
from sandberth.cluster.progress import PlainProgress
from tests.kind.bed import KindBed
from tests.kind.installation import FlagsMap

NAME = os.environ.get("SANDBERTH_TEST_BED", "kindtest")
WORKERS = 2
_NUMBERS = itertools.count(1)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "tests/kind/" in item.path.as_posix():
            item.add_marker(pytest.mark.kind)


@pytest.fixture(scope="session")
def bed(pytestconfig: pytest.Config) -> KindBed:
    """Two workers, with Sandberth as it is in this checkout."""
    capture = pytestconfig.pluginmanager.getplugin("capturemanager")
    with capture.global_and_fixture_disabled():  # minutes at the first time: whoever waits is to see why
        progress = PlainProgress(sys.stderr)
        cluster = KindCluster.up(NAME, workers=WORKERS, progress=progress)
        deploy(cluster, progress)
    return KindBed(cluster)


@pytest.fixture
def namespace(bed: KindBed) -> Iterator[str]:
    """A namespace of its own, which goes with all that is in it."""
    name = f"t-{os.getpid()}-{next(_NUMBERS)}"
    bed.kubectl("create", "namespace", name)
    bed.wait(lambda: bed.kubectl("get", "serviceaccount/default", "-n", name, check=False).stdout, "its account")
    yield name
    for kinds in ("sandboxes.sandberth.dev,deployments,daemonsets", "pods"):
        bed.kubectl("delete", kinds, "--all", "--namespace", name, "--timeout=90s")
    bed.wait(lambda: not bed.list("Pod", name), "the Pods are gone", 90, name)
    # Not waited for: a namespace takes its time also when it is empty.
    bed.kubectl("delete", "namespace", name, "--wait=false", "--ignore-not-found")


@pytest.fixture
def flags(bed: KindBed) -> Iterator[FlagsMap]:
    """The ConfigMap of the flags, as it was when the test is over."""
    flags = FlagsMap(bed)
    yield flags
    flags.restore()
