"""Taints, selectors, affinity and architecture, as Kubernetes reads them."""

from dataclasses import fields

import pytest

from sandberth.core.constraints import Constraints, Rejection, Requirement, Term, Toleration
from sandberth.core.node import Taint
from tests.builders import a_node

GPU = Taint("vendor/gpu", "yes", "NoSchedule")


@pytest.mark.parametrize(
    ("toleration", "tolerated"),
    [
        (Toleration(), False),
        (Toleration(operator="Exists"), True),
        (Toleration(operator="Exists", effect="NoSchedule"), True),
        (Toleration(operator="Exists", effect="NoExecute"), False),
        (Toleration("vendor/gpu", "Exists"), True),
        (Toleration("vendor/gpu", "Exists", effect="NoExecute"), False),
        (Toleration("other", "Exists"), False),
        (Toleration("vendor/gpu", "Equal", "yes"), True),
        (Toleration("vendor/gpu", "", "yes", "NoSchedule"), True),
        (Toleration("vendor/gpu", "Equal", "no"), False),
        (Toleration("vendor/gpu", "Equal"), False),
        (Toleration("other", "Equal", "yes"), False),
        (Toleration("vendor/gpu", "Gt", "yes"), False),
    ],
)
def test_a_toleration_covers_what_kubernetes_says(toleration: Toleration, tolerated: bool) -> None:
    assert toleration.tolerates(GPU) is tolerated


@pytest.mark.parametrize(
    ("effect", "rejection"),
    [("NoSchedule", Rejection.TAINTED), ("NoExecute", Rejection.TAINTED), ("PreferNoSchedule", None)],
)
def test_hard_taints_reject_and_preferences_do_not(effect: str, rejection: Rejection | None) -> None:
    node = a_node(taints=(Taint("key", "", effect),))

    assert Constraints().rejection(node) is rejection


def test_every_taint_needs_a_toleration_of_its_own() -> None:
    node = a_node(taints=(GPU, Taint("team", "red", "NoExecute")))
    one, both = Toleration("vendor/gpu", "Exists"), Toleration("team", "Equal", "red")

    assert Constraints(tolerations=(one,)).rejection(node) is Rejection.TAINTED
    assert Constraints(tolerations=(one, both)).rejection(node) is None


@pytest.mark.parametrize(
    ("requirement", "holds"),
    [
        (Requirement("zone", "In", ("a", "b")), True),
        (Requirement("zone", "In", ("b",)), False),
        (Requirement("zone", "In"), False),
        (Requirement("none", "In", ("a",)), False),
        (Requirement("zone", "NotIn", ("b",)), True),
        (Requirement("zone", "NotIn", ("a",)), False),
        (Requirement("none", "NotIn", ("a",)), True),
        (Requirement("zone", "Exists"), True),
        (Requirement("none", "Exists"), False),
        (Requirement("zone", "DoesNotExist"), False),
        (Requirement("none", "DoesNotExist"), True),
        (Requirement("empty", "Exists"), True),
        (Requirement("empty", "In", ("",)), True),
        (Requirement("cores", "Gt", ("8",)), True),
        (Requirement("cores", "Gt", ("16",)), False),
        (Requirement("cores", "Lt", ("17",)), True),
        (Requirement("cores", "Lt", ("16",)), False),
        (Requirement("below", "Lt", ("-1",)), True),
        (Requirement("cores", "Gt", ("eight",)), False),
        (Requirement("cores", "Gt", ("",)), False),
        (Requirement("cores", "Gt", ("8.5",)), False),
        (Requirement("cores", "Gt", ("1_0",)), False),
        (Requirement("cores", "Gt", (" 8",)), False),
        (Requirement("cores", "Lt", ("9" * 30,)), False),
        (Requirement("cores", "Gt", ()), False),
        (Requirement("cores", "Gt", ("1", "2")), False),
        (Requirement("zone", "Gt", ("1",)), False),
        (Requirement("odd", "Gt", ("1",)), False),
        (Requirement("huge", "Gt", ("1",)), False),
        (Requirement("none", "Lt", ("1",)), False),
        (Requirement("empty", "Lt", ("1",)), False),
        (Requirement("zone", "Like", ("a",)), False),
    ],
)
def test_a_requirement_reads_labels_as_kubernetes_does(requirement: Requirement, holds: bool) -> None:
    labels = {"zone": "a", "cores": "16", "below": "-2", "empty": "", "odd": "1_000", "huge": "9" * 5_000}

    assert requirement.holds(labels) is holds


def test_a_term_without_requirements_matches_no_node() -> None:
    assert not Term().matches(a_node())


def test_no_terms_at_all_match_no_node() -> None:
    assert Constraints(affinity=()).rejection(a_node()) is Rejection.NODE_AFFINITY
    assert Constraints(affinity=(Term(),)).rejection(a_node()) is Rejection.NODE_AFFINITY
    assert Constraints(affinity=None).rejection(a_node()) is None


def test_a_term_needs_all_of_its_requirements_and_affinity_one_of_its_terms() -> None:
    node = a_node(labels={"zone": "a", "disk": "ssd"})
    zone, disk = Requirement("zone", "In", ("a",)), Requirement("disk", "In", ("hdd",))

    assert Constraints(affinity=(Term((zone, disk)),)).rejection(node) is Rejection.NODE_AFFINITY
    assert Constraints(affinity=(Term((disk,)), Term((zone,)))).rejection(node) is None


@pytest.mark.parametrize(
    ("requirement", "matches"),
    [
        (Requirement("metadata.name", "In", ("node-a",)), True),
        (Requirement("metadata.name", "In", ("node-b",)), False),
        (Requirement("metadata.name", "NotIn", ("node-b",)), True),
        (Requirement("metadata.name", "NotIn", ("node-a",)), False),
        (Requirement("zone", "In", ("a",)), False),
    ],
)
def test_match_fields_know_the_name_of_the_node(requirement: Requirement, matches: bool) -> None:
    node = a_node("node-a", labels={"zone": "a", "metadata.name": "node-b"})

    assert Term(fields=(requirement,)).matches(node) is matches


def test_expressions_and_fields_of_a_term_must_both_hold() -> None:
    name, zone = Requirement("metadata.name", "In", ("node-a",)), Requirement("zone", "Exists")

    assert not Term((zone,), (name,)).matches(a_node("node-a"))
    assert Term((zone,), (name,)).matches(a_node("node-a", labels={"zone": ""}))


def test_a_selector_needs_every_label_with_its_value() -> None:
    constraints = Constraints(node_selector=(("disk", "ssd"), ("zone", "a")))

    assert constraints.rejection(a_node(labels={"disk": "ssd"})) is Rejection.NODE_SELECTOR
    assert constraints.rejection(a_node(labels={"disk": "hdd", "zone": "a"})) is Rejection.NODE_SELECTOR
    assert constraints.rejection(a_node(labels={"disk": "ssd", "zone": "a", "more": ""})) is None


def test_an_architecture_is_a_label_of_the_node() -> None:
    constraints = Constraints(architecture="arm64")

    assert constraints.rejection(a_node()) is Rejection.ARCHITECTURE
    assert constraints.rejection(a_node(labels={"kubernetes.io/arch": "amd64"})) is Rejection.ARCHITECTURE
    assert constraints.rejection(a_node(labels={"kubernetes.io/arch": "arm64"})) is None


def test_every_demand_but_tolerations_makes_constraints_selective() -> None:
    """What is not selective is not asked about nodes without taints."""
    demands = {
        "node_selector": (("disk", "ssd"),),
        "affinity": (),
        "architecture": "amd64",
        "volumes": ((),),
    }
    assert {*demands, "tolerations"} == {field.name for field in fields(Constraints)}

    assert [name for name, value in demands.items() if not Constraints(**{name: value}).selective] == []  # type: ignore[arg-type]
    assert not Constraints(tolerations=(Toleration(),)).selective
