"""Which node a Sandbox gets on a real API server, and what its status says of the choice."""

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from sandberth.cluster.local import LocalCluster
from tests.integration.applying import a_template_spec, an_image_spec
from tests.integration.bed import Objects, OperatorProgram, wait_for
from tests.integration.berths import Berths, berths_in, condition
from tests.integration.conftest import NODES, Kubectl

pytestmark = pytest.mark.integration
Flags = Callable[..., None]


@pytest.fixture
def berths(cluster: LocalCluster, objects: Objects, operator: OperatorProgram, home: str) -> Iterator[Berths]:
    with berths_in(cluster, objects, home) as made:
        yield made


# --- Best-of-K and its record ---


def test_the_decision_stands_in_the_status_with_all_its_numbers(berths: Berths, flags: Flags) -> None:
    flags(best_of_k_sample_size="all", best_of_k_max_overcommit="200", best_of_k_alpha="70")
    light, busy, full = berths.add_nodes(3, cpu="4")
    berths.foreign_pod("load", busy, {"cpu": "2"})
    berths.foreign_pod("filler", full, {"cpu": "4"})
    wait_for(lambda: berths.nodes_of(phases=["Running"]) == {busy: 1, full: 1}, what="the other pods run")

    berths.apply("box")
    record = berths.running("box")["placement"]

    assert record.pop("decidedAt")
    assert record.pop("rejected") == {"InsufficientCpu": 1, "NodeSelectorMismatch": NODES}
    assert record == {
        "attempt": 1,
        "node": light,
        "score": 0.125,
        "view": "metrics",
        "flags": {"k": "all", "overcommitPercent": 200, "alpha": 70, "sampler": "uniform"},
        "sampled": 2,
        "candidates": [
            {"node": light, "score": 0.125, "accounted": "0", "inProgress": 0},
            {"node": busy, "score": 0.375, "accounted": "2", "inProgress": 0},
        ],
    }


def test_k_nodes_are_compared_and_those_that_cannot_take_it_use_up_none(berths: Berths, flags: Flags) -> None:
    flags(best_of_k_sample_size="2")
    berths.add_nodes(3)

    berths.apply("box")
    record = berths.running("box")["placement"]

    assert record["sampled"] == 2
    assert {candidate["node"] for candidate in record["candidates"]} < set(berths.nodes)
    assert record["node"] == record["candidates"][0]["node"]


def test_ten_candidates_at_most_are_listed_of_all_that_were_compared(
    berths: Berths, flags: Flags, objects: Objects, home: str
) -> None:
    flags(best_of_k_sample_size="all")
    added = berths.add_nodes(3, cpu="1000", memory="1Ti")

    objects.create(
        {
            "apiVersion": "sandberth.dev/v1alpha1",
            "kind": "Sandbox",
            "metadata": {"name": "box", "namespace": home},
            "spec": an_image_spec(),
        }
    )
    record = berths.running("box")["placement"]

    assert record["sampled"] == NODES + 3
    assert len(record["candidates"]) == 10
    assert record["node"] in added
    scores = [candidate["score"] for candidate in record["candidates"]]
    assert scores == sorted(scores)
    assert record["score"] == scores[0]


def test_sandboxes_spread_evenly_where_all_nodes_are_compared(berths: Berths, flags: Flags) -> None:
    flags(best_of_k_sample_size="all", sandbox_placement_id_reconciliation="true")
    berths.add_nodes(3)
    boxes = [f"box-{number}" for number in range(12)]

    for box in boxes:
        berths.apply(box)
    berths.running(*boxes)

    assert berths.nodes_of() == Counter(dict.fromkeys(berths.nodes, 4))


def test_a_node_without_reports_is_second_choice_and_the_message_says_so(berths: Berths) -> None:
    (node,) = berths.add_nodes(1)

    berths.apply("box")
    placed = condition(berths.running("box"), "Placed")

    assert placed["status"] == "True"
    assert placed["reason"] == "Placed"
    assert placed["message"].startswith(f"{node} has the lowest load of 1 compared: score 0.0625, metrics view")
    assert "no fresh report" in placed["message"]


def test_kubectl_shows_node_reason_and_message(berths: Berths, kubectl: Kubectl, home: str) -> None:
    (node,) = berths.add_nodes(1)
    berths.apply("box", an_image_spec(cpu="500m", memory="512Mi"))
    berths.apply("giant", an_image_spec(cpu="90000"))
    status = berths.running("box")
    berths.refused("giant")

    listed = kubectl("get", "sandboxes", "-n", home, "-o", "wide").stdout.splitlines()
    described = kubectl("describe", "sandbox", "box", "-n", home).stdout
    explained = kubectl("describe", "sandbox", "giant", "-n", home).stdout

    header, box, giant = (line.split() for line in listed)
    assert header == ["NAME", "PHASE", "NODE", "READY", "CPU", "MEMORY", "AGE", "REASON", "POD", "IP", "SCORE"]
    assert box[:6] == ["box", "Running", node, "True", "500m", "512Mi"]
    assert box[7:] == ["PodReady", status["podIP"], str(status["placement"]["score"])]
    assert giant[:2] == ["giant", "Pending"]
    assert "NoEligibleNode" in giant
    assert f"{node} has the lowest load of 1 compared" in described
    assert "0 of" in explained
    assert "1 OvercommitLimit" in explained


# --- selectors ---


def test_the_selector_of_a_template_is_honoured(berths: Berths) -> None:
    berths.add_node(labels={"disk": "hdd"})
    fast = berths.add_node(labels={"disk": "ssd"})

    berths.apply("box", a_template_spec(nodeSelector={"disk": "ssd"}))

    assert berths.running("box")["nodeName"] == fast


def test_selectors_that_contradict_are_an_invalid_pod_until_corrected(berths: Berths) -> None:
    node = berths.add_node(labels={"disk": "ssd"})
    spec = a_template_spec(nodeSelector={"disk": "ssd"}) | {"placement": {"nodeSelector": {"disk": "hdd"}}}

    berths.apply("box", spec)
    message = berths.refused("box", "InvalidPod")
    berths.correct("box", placement={"nodeSelector": {"disk": "ssd"}})

    assert message == "nodeSelector: podTemplate.spec asks for disk=ssd, spec.placement for disk=hdd"
    assert berths.running("box")["nodeName"] == node


def test_a_node_label_that_appears_wakes_what_waits_for_it(berths: Berths, objects: Objects) -> None:
    node = berths.add_node()
    berths.apply("box", an_image_spec(placement={"nodeSelector": {"disk": "ssd"}}))
    berths.refused("box", text=f"{NODES + 1} NodeSelectorMismatch")

    objects.patch("Node", node, {"metadata": {"labels": {"disk": "ssd"}}})

    assert berths.running("box")["nodeName"] == node


def _affinity(*terms: dict[str, Any]) -> dict[str, Any]:
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(terms)}}
    return a_template_spec(affinity={"nodeAffinity": required})


def _expressions(*expressions: tuple[Any, ...]) -> dict[str, Any]:
    return {"matchExpressions": [{"key": e[0], "operator": e[1], "values": list(e[2:])} for e in expressions]}


def test_required_node_affinity_is_honoured_with_every_operator(berths: Berths, flags: Flags) -> None:
    flags(best_of_k_sample_size="all")
    east = berths.add_node(labels={"zone": "east", "gen": "1"})
    west = berths.add_node(labels={"zone": "west", "gen": "5"})
    bare = berths.add_node(labels={"gen": "9"})
    names_only = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [west]}]}
    not_named = {"matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": [west]}]}
    cases: dict[str, tuple[dict[str, Any], set[str]]] = {
        "in": (_affinity(_expressions(("zone", "In", "east", "north"))), {east}),
        "not-in": (_affinity(_expressions(("zone", "NotIn", "east"))), {west, bare}),
        "exists": (_affinity(_expressions(("zone", "Exists"))), {east, west}),
        "absent": (_affinity(_expressions(("zone", "DoesNotExist"))), {bare}),
        "gt": (_affinity(_expressions(("gen", "Gt", "4"))), {west, bare}),
        "lt": (_affinity(_expressions(("gen", "Lt", "5"))), {east}),
        "both": (_affinity(_expressions(("gen", "Gt", "1"), ("zone", "Exists"))), {west}),
        "either": (_affinity(_expressions(("zone", "In", "east")), _expressions(("gen", "Gt", "8"))), {east, bare}),
        "field": (_affinity(names_only), {west}),
        "not-field": (_affinity(not_named), {east, bare}),
    }

    for name, (spec, _) in cases.items():
        berths.apply(name, spec)
    berths.apply("none", _affinity(_expressions(("zone", "In", "south"))))

    berths.running(*cases)
    for name, (_, expected) in cases.items():
        record = berths.status(name)["placement"]
        assert {candidate["node"] for candidate in record["candidates"]} == expected, name
    berths.refused("none", text="3 NodeAffinityMismatch")


def test_the_architecture_is_honoured(berths: Berths) -> None:
    berths.add_node()
    arm = berths.add_node(labels={"kubernetes.io/arch": "arm64"})

    berths.apply("box", an_image_spec(placement={"architecture": "arm64"}))
    berths.apply("none", an_image_spec(placement={"architecture": "s390x"}))

    assert berths.running("box")["nodeName"] == arm
    berths.refused("none", text="2 ArchitectureMismatch")


def test_wishes_that_are_not_scored_are_named(berths: Berths) -> None:
    berths.add_node(taints=[{"key": "slow", "effect": "PreferNoSchedule"}])
    wish = {"weight": 1, "preference": {"matchExpressions": [{"key": "zone", "operator": "Exists"}]}}
    affinity = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [wish]}}

    berths.apply("box", a_template_spec(affinity=affinity))
    placed = condition(berths.running("box"), "Placed")

    assert placed["message"].endswith("not scored: preferred nodeAffinity, taint slow:PreferNoSchedule")


# --- the preferred node ---


def test_the_preferred_node_is_taken_though_others_are_less_loaded(berths: Berths) -> None:
    preferred, _ = berths.add_nodes(2)
    berths.foreign_pod("load", preferred, {"cpu": "2"})
    wait_for(lambda: berths.nodes_of(phases=["Running"]) == {preferred: 1}, what="the other pod runs")

    berths.apply("box", an_image_spec(placement={"preferredNode": preferred}))
    status = berths.running("box")

    assert status["nodeName"] == preferred
    assert condition(status, "Placed")["message"].startswith(f"{preferred} is the preferred node and has room")


def test_another_node_is_taken_where_the_preferred_one_is_full_or_unknown(berths: Berths) -> None:
    full, other = berths.add_nodes(2)
    berths.foreign_pod("filler", full, {"cpu": "4"})
    wait_for(lambda: berths.nodes_of(phases=["Running"]) == {full: 1}, what="the other pod runs")

    berths.apply("sated", an_image_spec(placement={"preferredNode": full}))
    berths.apply("lost", an_image_spec(placement={"preferredNode": "no-such-node"}))
    sated, lost = berths.running("sated"), berths.running("lost")

    assert sated["nodeName"] == lost["nodeName"] == other
    assert f"the preferred node {full} was not eligible: InsufficientCpu" in condition(sated, "Placed")["message"]
    message = condition(lost, "Placed")["message"]
    assert "the preferred node no-such-node was not eligible: there is no such node" in message
