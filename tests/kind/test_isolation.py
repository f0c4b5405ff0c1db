"""What a sandbox may do, seen from inside it."""

import json
from collections.abc import Iterator

import pytest
import yaml

from sandberth.kube import names
from tests.kind.bed import FOREVER, KindBed, a_sandbox
from tests.kind.rooms import a_container, a_templated_sandbox

LOOK = """
import ctypes, json, pathlib
status = dict(line.split(":\\t", 1) for line in pathlib.Path("/proc/1/status").read_text().splitlines())
libc = ctypes.CDLL(None, use_errno=True)
NEW_USER_NAMESPACE = 0x10000000
print(json.dumps({
    "uid": int(status["Uid"].split()[0]),
    "capabilities": [int(status[key], 16) for key in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")],
    "no_new_privileges": status["NoNewPrivs"].strip(),
    "seccomp": status["Seccomp"].strip(),
    "secrets": pathlib.Path("/var/run/secrets").exists(),
    "may_unshare": libc.unshare(NEW_USER_NAMESPACE) == 0,
}))
"""
NOTHING = {
    "uid": 65532,
    "capabilities": [0, 0, 0, 0, 0],
    "no_new_privileges": "1",
    "seccomp": "2",  # a filter
    "secrets": False,
    "may_unshare": False,
}


def test_a_bare_sandbox_has_no_token_no_capability_and_no_way_to_privileges(bed: KindBed, namespace: str) -> None:
    bed.apply(a_sandbox(), namespace)
    bed.wait_for_phase("box", namespace=namespace)

    assert json.loads(bed.exec("box", "python3", "-c", LOOK, namespace=namespace)) == NOTHING


def test_a_template_that_says_nothing_is_as_restricted(bed: KindBed, namespace: str) -> None:
    bed.apply(a_templated_sandbox("box", a_container(command=FOREVER)), namespace)
    bed.wait_for_phase("box", namespace=namespace)

    assert json.loads(bed.exec("box", "python3", "-c", LOOK, namespace=namespace)) == NOTHING


@pytest.fixture
def allowed_host_pid(bed: KindBed) -> Iterator[None]:
    """What an administrator does to let templates see the processes of their node."""
    bed.kubectl("annotate", "namespace", names.NAMESPACE, "--overwrite", f"{names.HOST_FEATURES_ANNOTATION}=hostPID")
    yield
    bed.kubectl("annotate", "namespace", names.NAMESPACE, f"{names.HOST_FEATURES_ANNOTATION}-")


def test_a_host_feature_is_refused_unless_the_administrator_allows_it(
    bed: KindBed, namespace: str, request: pytest.FixtureRequest
) -> None:
    text = yaml.safe_dump(a_templated_sandbox("box", fields={"hostPID": True}))
    arguments = ("apply", "--namespace", namespace, "--filename=-")

    assert "hostPID is not allowed in a Sandbox" in bed.kubectl(*arguments, text=text, check=False).stderr
    request.getfixturevalue("allowed_host_pid")
    bed.wait(lambda: bed.kubectl(*arguments, text=text, check=False).returncode == 0, "the permission holds", 30)

    bed.wait_for_phase("box", namespace=namespace)
    assert "kubelet" in bed.exec("box", "sh", "-c", "cat /proc/[0-9]*/comm", namespace=namespace, check=False)
