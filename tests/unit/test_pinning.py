"""The pin of a Pod that kube-scheduler binds: to its node, with what the template asks for still true."""

from typing import Any

import pytest

from sandberth.core.constraints import Constraints
from sandberth.kube import names
from sandberth.kube.building import ask_of, build_pod
from sandberth.kube.constraints import constraints_of
from sandberth.kube.pinning import pin
from tests.builders import a_node
from tests.unit.sandbox_specs import a_sandbox, a_template

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
NAMED = {"key": "metadata.name", "operator": "In", "values": ["node-a"]}
SSD = {"key": "disk", "operator": "In", "values": ["ssd"]}
EAST = {"key": "zone", "operator": "In", "values": ["east"]}
SPREAD = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {}}


def pinned(*, selects_nodes: bool = False, **pod_spec: Any) -> dict[str, Any]:
    pin(pod_spec, "node-a", selects_nodes=selects_nodes)
    return pod_spec


def required_terms(pod_spec: dict[str, Any]) -> list[dict[str, Any]]:
    terms: list[dict[str, Any]] = pod_spec["affinity"]["nodeAffinity"][REQUIRED]["nodeSelectorTerms"]
    return terms


def demands(pod_spec: dict[str, Any]) -> Constraints:
    return constraints_of(pod_spec)


@pytest.mark.parametrize("affinity", [None, {}, {"nodeAffinity": None}, {"nodeAffinity": {REQUIRED: None}}])
def test_a_pod_without_required_affinity_is_pinned_by_the_name_of_its_node(affinity: Any) -> None:
    assert required_terms(pinned(affinity=affinity)) == [{"matchFields": [NAMED]}]


def test_each_of_several_terms_is_pinned_and_keeps_its_own_demands() -> None:
    other = {"key": "metadata.name", "operator": "NotIn", "values": ["node-b"]}
    own = [{"matchExpressions": [SSD]}, {"matchExpressions": [EAST], "matchFields": [other]}]
    preferred = [{"weight": 1, "preference": {"matchExpressions": [SSD]}}]
    pods = {REQUIRED: [{"topologyKey": "zone"}]}

    spec = pinned(
        affinity={"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": own}, PREFERRED: preferred}, "podAffinity": pods}
    )

    assert required_terms(spec) == [
        {"matchExpressions": [SSD], "matchFields": [NAMED]},
        {"matchExpressions": [EAST], "matchFields": [other, NAMED]},
    ]
    assert spec["affinity"]["nodeAffinity"][PREFERRED] == preferred
    assert spec["affinity"]["podAffinity"] == pods
    assert own[0] == {"matchExpressions": [SSD]}, "the Sandbox's own template is left as it is"


def test_a_term_that_says_nothing_matches_no_node_and_does_not_begin_to() -> None:
    spec = pinned(affinity={"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{}, {"matchExpressions": [SSD]}]}}})

    assert required_terms(spec) == [{"matchExpressions": [SSD], "matchFields": [NAMED]}]


@pytest.mark.parametrize("labels", [{}, {"disk": "ssd"}, {"zone": "east"}, {"disk": "ssd", "zone": "east"}])
@pytest.mark.parametrize("name", ["node-a", "node-b"])
def test_the_pinned_affinity_admits_the_chosen_node_exactly_where_the_templates_own_does(
    name: str, labels: dict[str, str]
) -> None:
    affinity = {
        "nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": [SSD]}, {"matchExpressions": [EAST]}]}}
    }
    node = a_node(name, labels=labels)

    own = demands({"affinity": affinity}).rejection(node)
    now = demands(pinned(affinity=affinity)).rejection(node)

    assert (now is None) == (own is None and name == "node-a")


def test_a_topology_spread_goes_on_counting_all_nodes() -> None:
    ignoring = {**SPREAD, "nodeAffinityPolicy": "Ignore"}
    loose = {**SPREAD, "whenUnsatisfiable": "ScheduleAnyway"}

    spec = pinned(topologySpreadConstraints=[SPREAD, {**SPREAD, "nodeAffinityPolicy": "Honor"}, ignoring, loose])

    assert spec["topologySpreadConstraints"] == [ignoring, ignoring, ignoring, loose]
    assert required_terms(spec) == [{"matchFields": [NAMED]}]


def test_a_topology_spread_over_selected_nodes_is_not_undone_by_a_pin_and_its_node_is_preferred() -> None:
    spec = pinned(topologySpreadConstraints=[SPREAD], nodeSelector={"disk": "ssd"}, selects_nodes=True)

    assert spec["topologySpreadConstraints"] == [SPREAD]
    wish = {"weight": 100, "preference": {"matchFields": [NAMED]}}
    assert spec["affinity"] == {"nodeAffinity": {PREFERRED: [wish]}}


def test_a_topology_spread_that_counts_all_nodes_anyway_allows_a_pin_beside_a_selector() -> None:
    ignoring = {**SPREAD, "nodeAffinityPolicy": "Ignore"}

    spec = pinned(topologySpreadConstraints=[ignoring], nodeSelector={"disk": "ssd"}, selects_nodes=True)

    assert required_terms(spec) == [{"matchFields": [NAMED]}]


@pytest.mark.parametrize(
    "fields",
    [
        {"topologySpreadConstraints": 5},
        {"topologySpreadConstraints": [None, "x", {"nodeAffinityPolicy": {}}]},
        {"topologySpreadConstraints": [SPREAD], "affinity": {"nodeAffinity": {PREFERRED: 5}}, "selects_nodes": True},
    ],
)
def test_what_is_malformed_is_left_for_the_server_to_refuse(fields: dict[str, Any]) -> None:
    spec = pinned(**fields)

    assert spec["topologySpreadConstraints"] == fields["topologySpreadConstraints"]


# --- the Pod ---


def built(**pod_fields: Any) -> dict[str, Any]:
    sandbox = a_sandbox(a_template(**pod_fields))
    return build_pod(sandbox, 2, ask_of(sandbox.spec), node_name="node-a", node_uid="n-1", overcommit_percent=400)


def test_a_pod_with_a_claim_is_pinned_and_not_bound_and_records_its_node() -> None:
    pod = built(volumes=[{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}])

    assert "nodeName" not in pod["spec"]
    assert "schedulerName" not in pod["spec"]
    assert required_terms(pod["spec"]) == [{"matchFields": [NAMED]}]
    annotations = pod["metadata"]["annotations"]
    assert (annotations[names.NODE_NAME_ANNOTATION], annotations[names.NODE_UID_ANNOTATION]) == ("node-a", "n-1")


def test_a_selector_of_the_sandbox_counts_as_one_of_the_pods() -> None:
    sandbox = a_sandbox(a_template(topologySpreadConstraints=[SPREAD]) | {"placement": {"nodeSelector": {"a": "b"}}})

    pod = build_pod(sandbox, 1, ask_of(sandbox.spec), node_name="node-a", node_uid="n-1", overcommit_percent=400)

    assert PREFERRED in pod["spec"]["affinity"]["nodeAffinity"]
    assert pod["metadata"]["annotations"][names.NODE_NAME_ANNOTATION] == "node-a"


def test_a_pod_that_needs_no_scheduler_records_no_name() -> None:
    pod = built(volumes=[{"name": "data", "emptyDir": {}}])

    assert pod["spec"]["nodeName"] == "node-a"
    assert names.NODE_NAME_ANNOTATION not in pod["metadata"]["annotations"]
