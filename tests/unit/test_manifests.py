"""The manifests: least privilege, defaults equal to the code's, examples that the models accept."""

import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from sandberth.cli import reporter
from sandberth.flags import Flags
from sandberth.kube import names
from sandberth.kube.sandbox import Sandbox
from sandberth.kube.template import HOST_FEATURES, sandbox_refusals, scheduler_features

ROOT = Path(__file__).parents[2]
BASE = ROOT / "manifests/base"
SECURITY = ROOT / "docs/security.md"
API_REPORTER = ROOT / "manifests/components/api-reporter"
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
    ("ClusterRole/sandberth-operator", "persistentvolumeclaims.", (), ("get",)),
    ("ClusterRole/sandberth-operator", "persistentvolumes.", (), ("get",)),
    ("Role/sandberth-operator", "namespaces.", (names.NAMESPACE,), ("get",)),
    ("Role/sandberth-operator", "events.", (), ("create",)),
    ("Role/sandberth-operator", "leases.coordination.k8s.io", (), ("create",)),
    ("Role/sandberth-operator", "leases.coordination.k8s.io", (names.OPERATOR_LEASE,), ("get", "update")),
    ("ClusterRole/sandberth-reporter", "nodes/pods.", (), ("get",)),
    ("ClusterRole/sandberth-reporter", "nodes/stats.", (), ("get",)),
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


def objects(kind: str, *folders: Path) -> dict[str, dict[str, Any]]:
    """Return the objects of a kind in these folders, by name."""
    return {
        document["metadata"]["name"]: document
        for folder in folders
        for path in folder.glob("*.yaml")
        for document in documents(path)
        if document["kind"] == kind
    }


def base_objects(kind: str) -> dict[str, dict[str, Any]]:
    return objects(kind, BASE)


def all_objects(kind: str) -> dict[str, dict[str, Any]]:
    """Return the objects of a kind in the base and in what may be added to it, by name."""
    return objects(kind, BASE, API_REPORTER)


def roles() -> Iterator[dict[str, Any]]:
    yield from all_objects("ClusterRole").values()
    yield from all_objects("Role").values()


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
    named = [*kustomization.get("resources", ()), *kustomization.get("components", ())]
    resources = [(path.parent / name).resolve() for name in named]

    siblings = {file.resolve() for file in path.parent.glob("*.yaml") if file != path}

    assert [resource for resource in resources if not resource.exists()] == []
    assert siblings - set(resources) == set()


def test_programs_may_do_exactly_what_the_table_says() -> None:
    found = {rule for role in roles() if "labels" not in role["metadata"] for rule in granted(role)}

    assert found == PROGRAMS


def test_the_table_of_rights_in_the_docs_is_what_the_roles_grant() -> None:
    rows = re.findall(r"^\| `(sandberth-[a-z-]+)` \| `([^`]+)`([^|]*)\| ([^|]+) \|", SECURITY.read_text(), re.MULTILINE)

    told = {
        (account, resource, tuple(re.findall(r"`([^`]+)`", names)), tuple(verbs.split(", ")))
        for account, resource, names, verbs in rows
    }

    assert told == {
        (role.partition("/")[2], resource.removesuffix("."), resource_names, verbs)
        for role, resource, resource_names, verbs in PROGRAMS
    }


def test_no_role_holds_a_wildcard() -> None:
    fields = ("apiGroups", "resources", "verbs")

    found = [value for role in roles() for rule in role["rules"] for field in fields for value in rule[field]]

    assert [value for value in found if "*" in value] == []


def test_users_get_sandboxes_through_the_roles_of_the_cluster() -> None:
    found = {rule for role in roles() if "labels" in role["metadata"] for rule in granted(role)}

    writable = {resource for _, resource, _, verbs in found if set(verbs) - set(READ)}
    assert writable == {"sandboxes.sandberth.dev"}


def test_bindings_name_roles_and_accounts_that_exist() -> None:
    accounts = all_objects("ServiceAccount")
    bindings = [*all_objects("ClusterRoleBinding").values(), *all_objects("RoleBinding").values()]

    subjects = {subject["name"] for binding in bindings for subject in binding["subjects"]}

    expected = {
        names.OPERATOR_SERVICE_ACCOUNT,
        names.REPORTER_SERVICE_ACCOUNT,
        names.API_REPORTER_SERVICE_ACCOUNT,
    }
    assert subjects == set(accounts) == expected
    for binding in bindings:
        assert binding["roleRef"]["name"] in all_objects(binding["roleRef"]["kind"])


def keys_told(config: dict[str, Any]) -> dict[str, str]:
    """Return the keys that a ConfigMap's annotation tells of, with their defaults."""
    lines = config["metadata"]["annotations"]["sandberth.dev/keys"].splitlines()[1:]
    assert all("  # " in line for line in lines)
    told: dict[str, str] = yaml.safe_load("\n".join(lines))
    return told


def test_the_manifests_set_no_setting_so_that_an_upgrade_takes_none_back() -> None:
    assert [config.get("data") for config in base_objects("ConfigMap").values()] == [None]
    assert "annotations" not in base_objects("Namespace")[names.NAMESPACE]["metadata"]


def test_the_configmap_tells_every_key_and_its_default() -> None:
    assert keys_told(base_objects("ConfigMap")[names.FLAGS_CONFIGMAP]) == Flags().by_key()


def test_no_policy_depends_on_a_parameter_that_the_api_server_forgets() -> None:
    policies = base_objects("ValidatingAdmissionPolicy").values()

    kinds = {policy["spec"]["paramKind"]["kind"] for policy in policies if "paramKind" in policy["spec"]}

    assert kinds == {"Namespace"}


def test_every_host_feature_has_a_rule_that_reads_the_setting() -> None:
    policy = base_objects("ValidatingAdmissionPolicy")["hostfeatures.sandberth.dev"]["spec"]

    guarded = {rule["expression"].split("'")[1] for rule in policy["validations"]}

    assert guarded == set(HOST_FEATURES)
    assert names.HOST_FEATURES_ANNOTATION in policy["variables"][1]["expression"]


def test_every_policy_is_bound_and_denies() -> None:
    bindings = base_objects("ValidatingAdmissionPolicyBinding").values()

    assert {binding["spec"]["policyName"] for binding in bindings} == set(base_objects("ValidatingAdmissionPolicy"))
    assert all(binding["spec"]["validationActions"] == ["Deny"] for binding in bindings)
    assert all(
        policy["spec"]["failurePolicy"] == "Fail" for policy in base_objects("ValidatingAdmissionPolicy").values()
    )


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("Deployment", "sandberth-operator"),
        ("Deployment", "sandberth-reporter-api"),
        ("DaemonSet", "sandberth-reporter"),
    ],
)
def test_program_fits_the_restricted_pod_security_level(kind: str, name: str) -> None:
    pod = all_objects(kind)[name]["spec"]["template"]["spec"]
    container = pod["containers"][0]

    assert pod["serviceAccountName"] == name
    assert pod["securityContext"]["runAsNonRoot"]
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert not {"hostNetwork", "hostPID", "hostIPC", "volumes"} & pod.keys()
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
    spec = all_objects("Deployment")["sandberth-reporter-api"]["spec"]

    assert spec["replicas"] == 1
    assert spec["strategy"] == {"type": "Recreate"}


def test_the_daemonset_is_on_every_node_and_stays_there() -> None:
    pod = base_objects("DaemonSet")["sandberth-reporter"]["spec"]["template"]["spec"]

    assert pod["tolerations"] == [{"operator": "Exists"}]
    assert pod["priorityClassName"] == "system-node-critical"


def test_the_daemonset_says_the_nodes_size_and_has_no_limits_that_would_stand_for_it() -> None:
    container = base_objects("DaemonSet")["sandberth-reporter"]["spec"]["template"]["spec"]["containers"][0]
    fields = {item["name"]: item["valueFrom"].get("resourceFieldRef") for item in container["env"]}

    assert fields["SANDBERTH_ALLOCATABLE_MILLICORES"] == {"resource": "limits.cpu", "divisor": "1m"}
    assert fields["SANDBERTH_ALLOCATABLE_BYTES"] == {"resource": "limits.memory"}
    assert container["resources"].keys() == {"requests"}


def test_every_variable_of_the_manifests_is_an_option_of_the_reporter() -> None:
    text = "".join(path.read_text() for path in [*BASE.glob("*.yaml"), *BASE.parent.glob("components/*/*.yaml")])
    variables = set(re.findall(r"SANDBERTH_[A-Z_]+", text))

    known = set(re.findall(r'envvar="(SANDBERTH_[A-Z_]+)"', inspect.getsource(reporter)))

    assert variables
    assert variables <= known


def test_local_overlay_is_the_base_without_programs_and_their_budgets() -> None:
    overlay = documents(ROOT / "manifests/overlays/local/kustomization.yaml")[0]
    component = documents(API_REPORTER / "kustomization.yaml")[0]
    patches = [yaml.safe_load(patch["patch"]) for patch in (*overlay["patches"], *component["patches"])]

    assert overlay["resources"] == ["../../base"]
    assert overlay["components"] == ["../../components/api-reporter"]
    assert all(patch["$patch"] == "delete" for patch in patches)
    removed = {(patch["kind"], patch["metadata"]["name"]) for patch in patches}
    programs = {
        (kind, name) for kind in ("Deployment", "DaemonSet", "PodDisruptionBudget") for name in all_objects(kind)
    }
    assert removed == programs


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_example_is_valid_and_named_like_its_file(path: Path) -> None:
    document = documents(path)[0]

    sandbox = Sandbox.from_object(document)

    assert path.read_text().startswith("# ")
    assert document["apiVersion"] == names.API_VERSION
    assert sandbox.name == path.stem
    assert sandbox_refusals(sandbox) == []
    assert bool(scheduler_features(sandbox.spec)) == (path.stem == "volume")
