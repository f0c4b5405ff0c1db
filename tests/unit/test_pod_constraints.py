"""What a pod spec demands of a node, read from JSON."""

from typing import Any

import pytest

from sandberth.core.constraints import Rejection, Requirement, Term, Toleration
from sandberth.kube.constraints import (
    RuntimeClass,
    _Scheduling,
    _Toleration,
    constraints_of,
    merged_selector,
    volume_terms,
)
from sandberth.kube.pods import PodSpecError
from tests.builders import a_node


def _required(*terms: dict[str, Any]) -> dict[str, Any]:
    return {
        "affinity": {
            "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(terms)}}
        }
    }


def test_a_spec_that_demands_nothing_has_no_constraints() -> None:
    constraints = constraints_of({"containers": []})

    assert constraints.node_selector == ()
    assert constraints.affinity is None
    assert constraints.tolerations == ()
    assert constraints.architecture is None


@pytest.mark.parametrize(
    "spec",
    [
        {"nodeSelector": None, "affinity": None, "tolerations": None},
        {"affinity": {}},
        {"affinity": {"nodeAffinity": None}},
        {"affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": []}}},
        {"affinity": {"podAffinity": {"anything": 1}}},
    ],
)
def test_what_is_empty_or_only_a_wish_demands_nothing(spec: dict[str, Any]) -> None:
    assert constraints_of(spec) == constraints_of({})


def test_selector_tolerations_and_architecture_are_read() -> None:
    constraints = constraints_of(
        {
            "nodeSelector": {"zone": "b", "disk": "ssd"},
            "tolerations": [
                {"key": "team", "value": "a", "effect": "NoSchedule", "tolerationSeconds": 5},
                {"operator": "Exists"},
            ],
        },
        architecture="arm64",
    )

    assert constraints.node_selector == (("disk", "ssd"), ("zone", "b"))
    assert constraints.tolerations == (
        Toleration(key="team", operator="Equal", value="a", effect="NoSchedule"),
        Toleration(operator="Exists"),
    )
    assert constraints.architecture == "arm64"


def test_required_affinity_is_read_term_by_term() -> None:
    constraints = constraints_of(
        _required(
            {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a", "b"]}]},
            {"matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": ["n"]}]},
            {},
        )
    )

    assert constraints.affinity == (
        Term(expressions=(Requirement("zone", "In", ("a", "b")),)),
        Term(fields=(Requirement("metadata.name", "NotIn", ("n",)),)),
        Term(),
    )


def test_affinity_without_terms_matches_no_node_but_is_a_demand() -> None:
    assert constraints_of(_required()).affinity == ()


@pytest.mark.parametrize(
    ("spec", "named"),
    [
        ({"nodeSelector": {"zone": 1}}, "nodeSelector"),
        ({"nodeSelector": "zone=a"}, "nodeSelector"),
        ({"tolerations": [{"key": 5}]}, "tolerations[0].key"),
        (_required({"matchExpressions": [{"operator": "In"}]}), "matchExpressions[0]"),
        (_required({"matchExpressions": [{"key": "a", "operator": "In", "values": "b"}]}), "values"),
    ],
)
def test_what_is_malformed_is_named(spec: dict[str, Any], named: str) -> None:
    with pytest.raises(PodSpecError) as caught:
        constraints_of(spec)

    assert str(caught.value).startswith("podTemplate.spec: ")
    assert named in str(caught.value)


def test_a_runtime_class_adds_its_selector_and_its_tolerations() -> None:
    runtime_class = RuntimeClass(
        _Scheduling({"runtime": "kata"}, [_Toleration(key="kata", operator="Exists")]), {"podFixed": {"cpu": "250m"}}
    )

    constraints = constraints_of(
        {"nodeSelector": {"zone": "a"}, "tolerations": [{"operator": "Exists"}]}, runtime_class=runtime_class
    )

    assert constraints.node_selector == (("runtime", "kata"), ("zone", "a"))
    assert constraints.tolerations == (Toleration(operator="Exists"), Toleration("kata", "Exists"))
    assert runtime_class.pod_overhead == {"cpu": "250m"}


def test_a_runtime_class_without_scheduling_or_overhead_adds_nothing() -> None:
    assert constraints_of({}, runtime_class=RuntimeClass()) == constraints_of({})
    assert RuntimeClass().pod_overhead == {}


def test_a_selector_that_contradicts_the_runtime_class_names_both_places() -> None:
    runtime_class = RuntimeClass(_Scheduling({"zone": "b"}))

    with pytest.raises(PodSpecError, match=r"podTemplate\.spec asks for zone=a, its RuntimeClass for zone=b"):
        constraints_of({"nodeSelector": {"zone": "a"}}, runtime_class=runtime_class)


def test_selectors_that_agree_are_merged() -> None:
    assert merged_selector({"a": "1", "b": "2"}, {"b": "2", "c": "3"}, "here", "there") == {
        "a": "1",
        "b": "2",
        "c": "3",
    }


# --- volumes ---


def a_volume(affinity: Any) -> dict[str, Any]:
    return {"spec": {"nodeAffinity": affinity}}


def test_a_volume_says_where_it_can_be_mounted() -> None:
    here = {"key": "kubernetes.io/hostname", "operator": "In", "values": ["node-1"]}

    terms = volume_terms(a_volume({"required": {"nodeSelectorTerms": [{"matchExpressions": [here]}]}}))

    assert terms is not None
    constraints = constraints_of({}, volumes=(terms,))
    assert constraints.rejection(a_node("node-1", labels={"kubernetes.io/hostname": "node-1"})) is None
    elsewhere = a_node("node-2", labels={"kubernetes.io/hostname": "node-2"})
    assert constraints.rejection(elsewhere) is Rejection.VOLUME


@pytest.mark.parametrize(
    "volume",
    [
        {},
        {"spec": {}},
        a_volume(None),
        a_volume({}),
        a_volume({"required": {"nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "Near"}]}]}}),
        a_volume({"required": 5}),
    ],
)
def test_a_volume_that_does_not_say_where_can_be_anywhere(volume: dict[str, Any]) -> None:
    assert volume_terms(volume) is None
