"""The manifests: least privilege, defaults equal to the code's, examples that the models accept."""

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml

from sandberth.flags import Flags
from sandberth.kube import names
from sandberth.kube.sandbox import Sandbox
from sandberth.kube.template import HOST_FEATURES, parse_host_features, sandbox_refusals, scheduler_features

ROOT = Path(__file__).parents[2]
BASE = ROOT / "manifests/base"
FILES = sorted([*ROOT.glob("manifests/**/*.yaml"), *ROOT.glob("crds/*.yaml")])
KUSTOMIZATIONS = [path for path in FILES if path.name == "kustomization.yaml"]
EXAMPLES = sorted(ROOT.glob("manifests/examples/*.yaml"))

READ = ["get", "list", "watch"]
Rule = tuple[str, str, tuple[str, ...], tuple[str, ...]]

# (role, resource of a group) -> (resource names, verbs): everything that the programs may do.
PROGRAMS: set[Rule] = {
    ("ClusterRole/sandberth-operator", "sandboxes.sandberth.dev", (), (*READ, "delete")),
    ("ClusterRole/sandberth-operator", "sandboxes/status.sandberth.dev", (), ("patch",)),
    ("ClusterRole/sandberth-operator", "nodecapacities.sandberth.dev", (), (*READ, "create", "delete")),
    ("ClusterRole/sandberth-operator", "nodecapacities/status.sandberth.dev", (), ("patch",)),
    ("ClusterRole/sandberth-operator", "pods.", (), (*READ, "create", "delete")),
    ("ClusterRole/sandberth-operator", "nodes.", (), tuple(READ)),
    ("ClusterRole/sandberth-operator", "configmaps.", ("sandberth-flags",), tuple(READ)),
    ("ClusterRole/sandberth-operator", "runtimeclasses.node.k8s.io", (), ("get",)),
    ("Role/sandberth-operator", "configmaps.", ("sandberth-policy",), ("get",)),
    ("Role/sandberth-operator", "events.", (), ("create",)),
    ("Role/sandberth-operator", "leases.coordination.k8s.io", (), ("create",)),
    ("Role/sandberth-operator", "leases.coordination.k8s.io", (names.OPERATOR_LEASE,), ("get", "update")),
    ("ClusterRole/sandberth-reporter", "nodecapacities.sandberth.dev", (), ("get",)),
    ("ClusterRole/sandberth-reporter", "nodecapacities/status.sandberth.dev", (), ("patch",)),
    ("ClusterRole/sandberth-reporter-api", "nodecapacities.sandberth.dev", (), tuple(READ)),
    ("ClusterRole/sandberth-reporter-api", "nodecapacities/status.sandberth.dev", (), ("patch",)),
    ("ClusterRole/sandberth-reporter-api", "pods.", (), tuple(READ)),
    ("ClusterRole/sandberth-reporter-api", "nodes.", (), tuple(READ)),
    ("ClusterRole/sandberth-reporter-api", "nodes.metrics.k8s.io", (), ("get", "list")),
}


def documents(path: Path) -> list[dict[str, Any]]:
    return [document for document in yaml.safe_load_all(path.read_text()) if document]


def base_objects(kind: str) -> dict[str, dict[str, Any]]:
    """Return the objects of a kind in the base, by name."""
    return {
        document["metadata"]["name"]: document
        for path in BASE.glob("*.yaml")
        for document in documents(path)
        if document["kind"] == kind
    }


def roles() -> Iterator[dict[str, Any]]:
    yield from base_objects("ClusterRole").values()
    yield from base_objects("Role").values()


def granted(role: dict[str, Any]) -> Iterator[Rule]:
    for rule in role["rules"]:
        for group in rule["apiGroups"]:
            for resource in rule["resources"]:
                yield (
                    f"{role['kind']}/{role['metadata']['name']}",
                    f"{resource}.{group}",
                    tuple(rule.get("resourceNames", ())),
                    tuple(rule["verbs"]),
                )


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_file_parses_and_every_object_has_a_kind(path: Path) -> None:
    found = documents(path)

    assert found
    assert all(document.get("kind") and document.get("apiVersion") for document in found)


@pytest.mark.parametrize("path", KUSTOMIZATIONS, ids=lambda path: str(path.relative_to(ROOT)))
def test_kustomization_names_files_that_exist_and_forgets_none(path: Path) -> None:
    kustomization = documents(path)[0]
    resources = [(path.parent / resource).resolve() for resource in kustomization["resources"]]

    siblings = {file.resolve() for file in path.parent.glob("*.yaml") if file != path}

    assert [resource for resource in resources if not resource.exists()] == []
    assert siblings - set(resources) == set()


def test_programs_may_do_exactly_what_the_table_says() -> None:
    found = {rule for role in roles() if "labels" not in role["metadata"] for rule in granted(role)}

    assert found == PROGRAMS


def test_no_role_holds_a_wildcard() -> None:
    fields = ("apiGroups", "resources", "verbs")

    found = [value for role in roles() for rule in role["rules"] for field in fields for value in rule[field]]

    assert [value for value in found if "*" in value] == []


def test_users_get_sandboxes_through_the_roles_of_the_cluster() -> None:
    found = {rule for role in roles() if "labels" in role["metadata"] for rule in granted(role)}

    writable = {resource for _, resource, _, verbs in found if set(verbs) - set(READ)}
    assert writable == {"sandboxes.sandberth.dev"}


def test_bindings_name_roles_and_accounts_that_exist() -> None:
    accounts = base_objects("ServiceAccount")
    bindings = [*base_objects("ClusterRoleBinding").values(), *base_objects("RoleBinding").values()]

    subjects = {subject["name"] for binding in bindings for subject in binding["subjects"]}

    expected = {
        names.OPERATOR_SERVICE_ACCOUNT,
        names.REPORTER_SERVICE_ACCOUNT,
        names.API_REPORTER_SERVICE_ACCOUNT,
    }
    assert subjects == set(accounts) == expected
    for binding in bindings:
        assert binding["roleRef"]["name"] in base_objects(binding["roleRef"]["kind"])


def test_flags_configmap_holds_every_default() -> None:
    data = base_objects("ConfigMap")[names.FLAGS_CONFIGMAP]["data"]

    assert data == Flags().by_key()


def test_every_key_of_the_configmaps_is_explained() -> None:
    lines = (BASE / "configmaps.yaml").read_text().splitlines()
    keys = {key for config in base_objects("ConfigMap").values() for key in config["data"]}

    explained = {
        line.strip().split(":")[0]
        for above, line in pairwise(lines)
        if above.startswith("  # ") and line.startswith("  ")
    }

    assert keys <= explained


def test_policy_configmap_allows_nothing() -> None:
    data = base_objects("ConfigMap")[names.POLICY_CONFIGMAP]["data"]

    assert parse_host_features(data[names.ALLOWED_HOST_FEATURES_KEY]) == frozenset()


def test_every_host_feature_has_a_rule_that_reads_the_setting() -> None:
    policy = base_objects("ValidatingAdmissionPolicy")["hostfeatures.sandberth.dev"]["spec"]

    guarded = {rule["expression"].split("'")[1] for rule in policy["validations"]}

    assert guarded == set(HOST_FEATURES)


def test_every_policy_is_bound_and_denies() -> None:
    bindings = base_objects("ValidatingAdmissionPolicyBinding").values()

    assert {binding["spec"]["policyName"] for binding in bindings} == set(base_objects("ValidatingAdmissionPolicy"))
    assert all(binding["spec"]["validationActions"] == ["Deny"] for binding in bindings)
    assert all(
        policy["spec"]["failurePolicy"] == "Fail" for policy in base_objects("ValidatingAdmissionPolicy").values()
    )


@pytest.mark.parametrize("name", ["sandberth-operator", "sandberth-reporter-api"])
def test_deployment_fits_the_restricted_pod_security_level(name: str) -> None:
    spec = base_objects("Deployment")[name]["spec"]
    pod = spec["template"]["spec"]
    container = pod["containers"][0]

    assert pod["serviceAccountName"] == name
    assert pod["securityContext"]["runAsNonRoot"]
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert (container["livenessProbe"]["httpGet"]["path"], container["readinessProbe"]["httpGet"]["path"]) == (
        "/livez",
        "/readyz",
    )


def test_two_operators_run_on_different_nodes_and_an_update_or_a_drain_leaves_one() -> None:
    spec = base_objects("Deployment")["sandberth-operator"]["spec"]
    budget = base_objects("PodDisruptionBudget")["sandberth-operator"]["spec"]
    pod = spec["template"]["spec"]
    apart = pod["affinity"]["podAntiAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"][0]["podAffinityTerm"]

    assert spec["replicas"] == 2
    assert spec["strategy"]["rollingUpdate"] == {"maxSurge": 1, "maxUnavailable": 0}
    assert budget["maxUnavailable"] == 1
    assert spec["selector"] == budget["selector"] == apart["labelSelector"]
    assert spec["template"]["metadata"]["labels"] == spec["selector"]["matchLabels"]
    assert apart["topologyKey"] == "kubernetes.io/hostname"
    assert pod["priorityClassName"] == "system-cluster-critical"


def test_the_api_reporter_runs_once() -> None:
    spec = base_objects("Deployment")["sandberth-reporter-api"]["spec"]

    assert spec["replicas"] == 1
    assert spec["strategy"] == {"type": "Recreate"}


def test_local_overlay_is_the_base_without_deployments_and_their_budgets() -> None:
    overlay = documents(ROOT / "manifests/overlays/local/kustomization.yaml")[0]
    removed = [yaml.safe_load(patch["patch"]) for patch in overlay["patches"]]

    assert overlay["resources"] == ["../../base"]
    assert all(patch["$patch"] == "delete" for patch in removed)
    assert {(patch["kind"], patch["metadata"]["name"]) for patch in removed} == {
        (kind, name) for kind in ("Deployment", "PodDisruptionBudget") for name in base_objects(kind)
    }


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_example_is_valid_and_named_like_its_file(path: Path) -> None:
    document = documents(path)[0]

    sandbox = Sandbox.from_object(document)

    assert path.read_text().startswith("# ")
    assert document["apiVersion"] == names.API_VERSION
    assert sandbox.name == path.stem
    assert sandbox_refusals(sandbox) == []
    assert scheduler_features(sandbox.spec) == []
