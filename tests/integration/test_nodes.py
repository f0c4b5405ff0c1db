"""What a Node says of itself decides at once: taints, cordon, Ready, its coming and going."""

from collections.abc import Iterator

import pytest

from sandberth.cluster.local import LocalCluster
from tests.integration.applying import a_template_spec, an_image_spec
from tests.integration.bed import Objects, OperatorProgram, wait_for
from tests.integration.berths import Berths, berths_in, condition

pytestmark = pytest.mark.integration
NOT_READY = "kwok.sandberth.test/ready"


@pytest.fixture
def berths(cluster: LocalCluster, objects: Objects, operator: OperatorProgram, home: str) -> Iterator[Berths]:
    with berths_in(cluster, objects, home) as made:
        yield made


@pytest.mark.parametrize("effect", ["NoSchedule", "NoExecute"])
def test_a_tainted_node_takes_only_what_tolerates_the_taint(berths: Berths, effect: str) -> None:
    node = berths.add_node(taints=[{"key": "team", "value": "a", "effect": effect}])
    tolerations = {
        "equal": {"key": "team", "value": "a"},
        "exists": {"key": "team", "operator": "Exists", "effect": effect},
        "all": {"operator": "Exists"},
    }
    others = {
        "other-value": {"key": "team", "value": "b"},
        "other-effect": {"key": "team", "value": "a", "effect": "PreferNoSchedule"},
    }

    for name, toleration in {**tolerations, **others}.items():
        berths.apply(name, a_template_spec(tolerations=[toleration]))
    berths.apply("image")

    assert {berths.running(name)["nodeName"] for name in tolerations} == {node}
    for name in (*others, "image"):
        berths.refused(name, text="1 Tainted")


def test_a_taint_that_goes_wakes_what_waits(berths: Berths) -> None:
    node = berths.add_node(taints=[{"key": "team", "value": "a", "effect": "NoSchedule"}])
    berths.apply("box")
    berths.refused("box", text="1 Tainted")

    berths.set_node(node, taints=None)

    assert berths.running("box")["nodeName"] == node


def test_a_taint_for_preferences_keeps_nobody_away_and_is_named(berths: Berths) -> None:
    node = berths.add_node(taints=[{"key": "slow", "effect": "PreferNoSchedule"}])

    berths.apply("box")
    status = berths.running("box")

    assert status["nodeName"] == node
    assert condition(status, "Placed")["message"].endswith("; not scored: taint slow:PreferNoSchedule")


def test_a_taint_for_preferences_that_is_tolerated_is_not_named(berths: Berths) -> None:
    berths.add_node(taints=[{"key": "slow", "effect": "PreferNoSchedule"}])

    berths.apply("box", a_template_spec(tolerations=[{"key": "slow", "operator": "Exists"}]))

    assert "not scored" not in condition(berths.running("box"), "Placed")["message"]


def test_a_cordoned_node_takes_nothing_until_it_is_uncordoned(berths: Berths) -> None:
    node = berths.add_node()
    berths.apply("early")
    berths.running("early")

    berths.set_node(node, unschedulable=True)
    wait_for(lambda: berths.node(node)["spec"].get("taints"), what="the taint that a cordon brings")
    berths.apply("late")
    berths.refused("late", text="1 Cordoned")
    berths.set_node(node, unschedulable=False)

    assert berths.running("late")["nodeName"] == node
    assert berths.status("early")["phase"] == "Running"


def test_a_node_that_is_not_ready_takes_nothing_until_it_is(berths: Berths, objects: Objects) -> None:
    node = berths.add_node()
    berths.apply("early")
    berths.running("early")

    objects.patch("Node", node, {"metadata": {"annotations": {NOT_READY: "False"}}})
    wait_for(lambda: condition(berths.node(node)["status"], "Ready")["status"] == "False", what="the node is not Ready")
    berths.apply("late")
    berths.refused("late", text="1 NodeNotReady")
    wait_for(
        lambda: condition(berths.status("early"), "Ready").get("reason") == "NodeUnreachable",
        what="what runs there is unreachable",
    )
    objects.patch("Node", node, {"metadata": {"annotations": {NOT_READY: None}}})

    assert berths.running("late")["nodeName"] == node
    wait_for(lambda: condition(berths.status("early"), "Ready")["status"] == "True", what="it is reachable again")
    assert berths.status("early")["phase"] == "Running"


def test_a_node_that_is_added_wakes_what_waits(berths: Berths) -> None:
    berths.apply("box")
    berths.refused("box", text="NodeSelectorMismatch")

    node = berths.add_node()

    assert berths.running("box")["nodeName"] == node


def test_allocatable_that_grows_wakes_what_waits(berths: Berths, objects: Objects) -> None:
    node = berths.add_node(memory="1Gi")
    berths.apply("box", an_image_spec(memory="2Gi"))
    berths.refused("box", text="1 InsufficientMemory")

    objects.patch("Node", node, {"status": {"allocatable": {"memory": "4Gi"}}}, status=True)

    assert berths.running("box")["nodeName"] == node


def test_a_node_that_offers_no_cpu_is_never_chosen(berths: Berths, objects: Objects) -> None:
    node = berths.add_node(cpu="0")

    berths.apply("box", a_template_spec())

    berths.refused("box", text="1 NoAllocatableCpu")
    objects.patch("Node", node, {"status": {"allocatable": {"cpu": "1"}}}, status=True)
    assert berths.running("box")["nodeName"] == node


def test_absurd_amounts_on_a_node_and_a_foreign_pod_are_counted_as_they_are(
    berths: Berths, operator: OperatorProgram, objects: Objects
) -> None:
    node = berths.add_node(cpu="1E", memory="1E", extended={"example.com/grain": "9E"})
    for name in ("one", "two", "three"):
        berths.foreign_pod(name, node, {"cpu": "5E", "memory": "4E"})
    wait_for(lambda: berths.nodes_of(phases=["Running"]) == {node: 3}, what="the other pods run")

    berths.apply("box")
    berths.refused("box", text="1 OvercommitLimit")
    wait_for(
        lambda: berths.view(node).get("accounted") == {"cpu": "15E", "memory": "11444091796875Mi"},
        what="the operator's view of the node",
    )
    for name in ("one", "two", "three"):
        berths.delete(name, "Pod")

    assert berths.running("box")["nodeName"] == node
    assert operator.probe("livez") == 200


def test_a_node_made_anew_under_its_name_is_another_node(
    berths: Berths, cluster: LocalCluster, objects: Objects
) -> None:
    node = berths.add_node(cpu="1")
    old = berths.node(node)["metadata"]["uid"]
    boxes = [f"box-{number}" for number in range(4)]
    for box in boxes:
        berths.apply(box, an_image_spec(recovery="Never"))
    berths.running(*boxes)
    berths.apply("waits")
    berths.refused("waits", text="1 OvercommitLimit")

    objects.delete("Node", node)
    cluster.add_node(node, cpu="1", memory="16Gi", labels=berths.selector)

    assert berths.running("waits")["nodeName"] == node
    assert berths.node(node)["metadata"]["uid"] != old
    annotations = berths.pod("waits")["metadata"]["annotations"]
    assert annotations["sandberth.dev/node-uid"] == berths.node(node)["metadata"]["uid"]
    wait_for(lambda: berths.phases() == {"Failed": 4, "Running": 1}, what="what ran on the old node is lost")
    wait_for(lambda: berths.capacity(node), what="a NodeCapacity of the new Node")


# --- limits that the administrator sets for one node ---


def test_a_node_takes_no_more_sandboxes_than_its_maximum(berths: Berths) -> None:
    node = berths.add_node()
    berths.set_capacity(node, maxSandboxes=2)
    boxes = [f"box-{number}" for number in range(3)]

    for box in boxes[:2]:
        berths.apply(box)
    berths.running(*boxes[:2])
    berths.apply(boxes[2])
    berths.refused(boxes[2], text="1 TooManySandboxes")
    berths.set_capacity(node, maxSandboxes=3)

    berths.running(*boxes)


def test_a_node_that_is_disabled_takes_nothing_until_it_is_enabled(berths: Berths) -> None:
    node = berths.add_node()
    berths.set_capacity(node, unschedulable=True)

    berths.apply("box")
    berths.refused("box", text="1 Disabled")
    berths.set_capacity(node, unschedulable=None)

    assert berths.running("box")["nodeName"] == node


def test_a_foreign_pod_does_not_count_towards_the_maximum_of_sandboxes(berths: Berths) -> None:
    node = berths.add_node()
    berths.set_capacity(node, maxSandboxes=1)
    berths.foreign_pod("other", node, {"cpu": "1"})
    wait_for(lambda: berths.nodes_of(phases=["Running"]) == {node: 1}, what="the other pod runs")

    berths.apply("box")

    assert berths.running("box")["nodeName"] == node
