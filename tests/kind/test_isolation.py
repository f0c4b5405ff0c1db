"""What a sandbox may do, seen from inside it."""

import json

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
