"""The documented way to remove Sandberth, on a cluster where it works; afterwards it is installed again."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from sandberth.cluster.kind.deploy import deploy
from sandberth.cluster.progress import QuietProgress
from sandberth.kube import names
from tests.kind.bed import KindBed, Object, a_sandbox
from tests.kind.rooms import SLEEPING

ROOT = Path(__file__).parents[2]
OVERLAY = ROOT / "manifests/overlays/kind"
SECONDS = 360


def documented_commands(heading: str) -> list[list[str]]:
    """Return the commands under a heading of docs/install.md, for the overlay of kind in the place of the reader's."""
    text = (ROOT / "docs/install.md").read_text()
    _, _, section = text.partition(f"\n## {heading}\n")
    lines = re.findall(r"^    (kubectl .*)$", section.partition("\n## ")[0], re.MULTILINE)
    paths = {"sandberth": str(OVERLAY), "crds": str(ROOT / "crds")}
    return [[paths.get(word, word) for word in shlex.split(line, comments=True)[1:]] for line in lines]


def objects(bed: KindBed, *options: str) -> list[str]:
    """Return kind and name of every object of the cluster but for Events and what is named after a node."""
    kinds = bed.kubectl("api-resources", "--verbs=list", "--output=name").stdout.split()
    listed = ",".join(kind for kind in kinds if not kind.startswith("events"))
    found = bed.kubectl("get", listed, "--all-namespaces", "--output=name", *options).stdout.split()
    return [each for each in found if bed.cluster.cluster not in each]


def marked(bed: KindBed) -> list[str]:
    return objects(bed, "--selector=app.kubernetes.io/part-of=sandberth")


@pytest.fixture
def installed_again(bed: KindBed) -> Iterator[None]:
    yield
    deploy(bed.cluster, QuietProgress(), build=False)


def test_nothing_is_left_of_what_is_removed_as_documented_and_it_can_be_installed_again(
    bed: KindBed, namespace: str, installed_again: None
) -> None:
    boxes = [a_sandbox(f"box-{number}", memory="16Mi", command=SLEEPING) for number in range(4)]
    bed.apply(boxes, namespace)
    for number in range(len(boxes)):
        bed.wait_for_phase(f"box-{number}", namespace=namespace, seconds=120)
    commands = documented_commands("Remove")
    assert len(commands) == 3
    assert marked(bed) != []

    for command in commands:
        bed.kubectl(*command, timeout_seconds=SECONDS)

    bed.wait(lambda: bed.get("Namespace", names.NAMESPACE) is None, "the namespace is gone", SECONDS)
    assert [each for each in objects(bed) if "sandberth" in each] == []
    assert bed.kubectl("api-resources", f"--api-group={names.GROUP}", "--output=name").stdout == ""
    assert bed.list("Pod", namespace) == []
    assert marked(bed) == []
    for role in ("view", "edit", "admin"):
        rules: list[Object] = aggregated(bed, role)
        assert [rule for rule in rules if names.GROUP in rule.get("apiGroups", ())] == []

    deploy(bed.cluster, QuietProgress(), build=False)
    bed.apply(boxes, namespace)
    for number in range(len(boxes)):
        bed.wait_for_phase(f"box-{number}", namespace=namespace, seconds=120)


def aggregated(bed: KindBed, role: str) -> list[Object]:
    with bed.api() as api:
        rules: list[Object] = api.get(f"/apis/rbac.authorization.k8s.io/v1/clusterroles/{role}")["rules"]
    return rules
