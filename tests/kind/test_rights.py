"""What the programs' accounts may do, by what the API server itself says."""

import re
from collections.abc import Iterable

import pytest

from sandberth.kube import names
from tests.kind.bed import KindBed
from tests.unit.test_manifests import PROGRAMS

ACCOUNTS = ("sandberth-operator", "sandberth-reporter")
Right = tuple[str, str, str]  # resource, its name or "", verb


def rights(bed: KindBed, account: str, namespace: str) -> set[Right]:
    """Return what `kubectl auth can-i --list` shows for resources."""
    who = f"--as=system:serviceaccount:{names.NAMESPACE}:{account}"
    lines = bed.kubectl("auth", "can-i", "--list", who, "--namespace", namespace).stdout.splitlines()
    found: set[Right] = set()
    for line in lines[1:]:
        cells = re.fullmatch(r"(\S*) *\[(.*?)\] +\[(.*?)\] +\[(.*?)\]", line.strip())
        assert cells is not None, line
        resource, urls, objects, verbs = cells.groups()
        if not urls:
            found |= {(resource, name, verb) for name in objects.split() or [""] for verb in verbs.split()}
    return found


def documented(account: str, roles: Iterable[str]) -> set[Right]:
    """Return what the table of the manifests grants, in kubectl's spelling."""
    return {
        (_as_kubectl_writes(resource), name, verb)
        for role, resource, objects, verbs in PROGRAMS
        if role in {f"{kind}/{account}" for kind in roles}
        for name in objects or ("",)
        for verb in verbs
    }


def _as_kubectl_writes(resource: str) -> str:
    """Turn sandboxes/status.sandberth.dev into sandboxes.sandberth.dev/status."""
    plural, _, group = resource.partition(".")
    whole, _, part = plural.partition("/")
    return whole + (f".{group}" if group else "") + (f"/{part}" if part else "")


@pytest.mark.parametrize("account", ACCOUNTS)
def test_an_account_may_do_what_the_table_says_and_what_everybody_may(bed: KindBed, account: str) -> None:
    everybody = rights(bed, "an-account-without-rights", names.NAMESPACE)

    own = rights(bed, account, names.NAMESPACE) - everybody

    assert own == documented(account, ("ClusterRole", "Role"))


@pytest.mark.parametrize("account", ACCOUNTS)
def test_elsewhere_an_account_has_its_cluster_role_alone(bed: KindBed, namespace: str, account: str) -> None:
    everybody = rights(bed, "an-account-without-rights", namespace)

    own = rights(bed, account, namespace) - everybody

    assert own == documented(account, ("ClusterRole",))


@pytest.mark.parametrize("verb", ["create", "delete", "update", "patch"])
def test_a_reporter_may_not_touch_what_a_sandbox_is_made_of(bed: KindBed, verb: str) -> None:
    who = f"--as=system:serviceaccount:{names.NAMESPACE}:sandberth-reporter"

    for resource in ("sandboxes.sandberth.dev", "pods", "nodecapacities.sandberth.dev", "nodes", "secrets"):
        answer = bed.kubectl("auth", "can-i", verb, resource, who, check=False)
        assert answer.stdout.strip() == "no", resource
