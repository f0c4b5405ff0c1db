"""NodeCapacities: one for each Node, with the operator's view of it."""

from collections.abc import Iterator

import pytest

from sandberth.cluster.local import LocalCluster
from sandberth.kube import names
from tests.integration.applying import an_image_spec
from tests.integration.bed import Object, Objects, OperatorProgram, wait_for
from tests.integration.berths import Berths, a_sized_template, berths_in
from tests.integration.conftest import Kubectl
from tests.integration.hand_reporter import HandReporter

pytestmark = pytest.mark.integration
VIEW_SECONDS = 15  # a view is written at most every ten


@pytest.fixture
def berths(cluster: LocalCluster, objects: Objects, operator: OperatorProgram, home: str) -> Iterator[Berths]:
    with berths_in(cluster, objects, home) as made:
        yield made


def _status(berths: Berths, node: str) -> Object:
    capacity = berths.capacity(node)
    status: Object = (capacity or {}).get("status") or {}
    return status


def _claims(berths: Berths, node: str) -> dict[str, tuple[str, str]]:
    conditions = _status(berths, node).get("conditions", ())
    return {item["type"]: (item["status"], item["reason"]) for item in conditions}


def test_every_node_has_one_that_it_owns_by_uid(berths: Berths, objects: Objects) -> None:
    berths.add_node()

    owners = {
        capacity["metadata"]["name"]: capacity["metadata"].get("ownerReferences")
        for capacity in objects.list(names.NODECAPACITY_KIND)
    }

    for node in objects.list("Node"):
        name, uid = node["metadata"]["name"], node["metadata"]["uid"]
        assert owners[name] == [{"apiVersion": "v1", "kind": "Node", "name": name, "uid": uid}]


def test_one_that_is_deleted_by_hand_is_made_again_without_its_settings(berths: Berths, objects: Objects) -> None:
    node = berths.add_node()
    berths.set_capacity(node, unschedulable=True)
    berths.apply("box")
    berths.refused("box", text="1 Disabled")
    old = objects.get(names.NODECAPACITY_KIND, node)
    assert old is not None

    objects.delete(names.NODECAPACITY_KIND, node)

    made = wait_for(lambda: berths.capacity(node), what="a new one")
    assert made is not None
    assert made["metadata"]["uid"] != old["metadata"]["uid"]
    assert berths.running("box")["nodeName"] == node


def test_one_that_belongs_to_another_uid_is_remade(berths: Berths, objects: Objects) -> None:
    node = berths.add_node()
    right = berths.capacity(node)
    assert right is not None
    other = {"apiVersion": "v1", "kind": "Node", "name": node, "uid": "00000000-0000-0000-0000-000000000001"}

    objects.patch(names.NODECAPACITY_KIND, node, {"metadata": {"ownerReferences": [other]}})

    made = wait_for(lambda: berths.capacity(node), what="one that belongs to the Node")
    assert made is not None
    assert made["metadata"]["uid"] != right["metadata"]["uid"]


def test_the_view_is_the_sum_over_the_pods_and_what_only_the_report_knows(
    berths: Berths, kubectl: Kubectl, objects: Objects, operator: OperatorProgram
) -> None:
    node, idle = berths.add_nodes(2, cpu="16", memory="64Gi")
    only = {"placement": {"nodeSelector": {"kubernetes.io/hostname": node}}}
    berths.foreign_pod("other", node, {"cpu": "1500m", "memory": "3Gi"})
    berths.foreign_pod("empty", node, {})
    berths.apply("image", an_image_spec(cpu="2", memory="1Gi") | only)
    berths.apply("small", an_image_spec(cpu="10m", memory="512Mi") | only)
    berths.apply("template", a_sized_template({"cpu": "250m"}, {"memory": "2Gi"}) | only)
    nominal = {"resources": {"cpu": "4", "memory": "8Gi"}}
    berths.apply("nominal", a_sized_template({"cpu": "250m"}) | nominal | only)
    berths.apply("gone", an_image_spec(cpu="4") | only)
    berths.running("image", "small", "template", "nominal", "gone")
    confirmed = [f"{berths.pod(name)['metadata']['labels'][names.ATTEMPT_LABEL]} 1 1" for name in ("image", "gone")]
    berths.delete("gone")
    wait_for(lambda: berths.nodes_of() == {node: 6}, what="the deleted one has gone")
    capacity = {"cpu": "16", "memory": "64Gi"}
    listed = [*confirmed, "unknown-to-us.1 100 1073741824"]
    HandReporter(berths, objects, operator).report(node, 1, 1, "3", capacity=capacity, sandboxes=listed)

    expected = {
        "accounted": {"cpu": "7860m", "memory": "15872Mi"},  # the Pods' 7760m and 14.5Gi, and the unknown one
        "inProgress": 0,
        "unconfirmed": 3,
        "sandboxes": 5,
    }
    wait_for(lambda: _status(berths, node).get("view") == expected, VIEW_SECONDS, "the sums")
    wait_for(lambda: "view" in _status(berths, idle), VIEW_SECONDS, "the view of the other node")
    assert _status(berths, idle)["view"]["accounted"] == {"cpu": "0", "memory": "0"}
    header, row = kubectl("get", "nodecapacities", node, "-o", "wide").stdout.splitlines()
    assert header.split()[:5] == ["NAME", "SCHEDULABLE", "CPU", "ALLOCATED", "ACCOUNTED"]
    assert row.split()[:5] == [node, "True", "16", "3", "7860m"]
    assert _claims(berths, node) == {"Fresh": ("True", "Reported"), "Schedulable": ("True", "Schedulable")}


def test_the_conditions_say_why_a_node_takes_nothing(berths: Berths, objects: Objects) -> None:
    good, cordoned, tainted, disabled, full, down, sated = berths.add_nodes(7)
    berths.set_node(cordoned, unschedulable=True)
    berths.set_node(tainted, taints=[{"key": "team", "value": "a", "effect": "NoSchedule"}])
    berths.set_capacity(disabled, unschedulable=True)
    berths.set_capacity(sated, maxSandboxes=0)
    berths.foreign_pod("filler", full, {"cpu": "4"})
    objects.patch("Node", down, {"metadata": {"annotations": {"kwok.sandberth.test/ready": "Unknown"}}})
    expected = {
        good: ("True", "NoReport"),
        cordoned: ("False", "Cordoned"),
        tainted: ("False", "Tainted"),
        disabled: ("False", "Disabled"),
        full: ("False", "Full"),
        sated: ("False", "Full"),
        down: ("False", "NodeNotReady"),
    }

    wait_for(
        lambda: {node: _claims(berths, node).get("Schedulable") for node in expected} == expected,
        VIEW_SECONDS,
        "the conditions",
    )

    assert {_claims(berths, node)["Fresh"] for node in expected} == {("False", "NoReport")}


def test_it_goes_with_its_node(berths: Berths, objects: Objects) -> None:
    node = berths.add_node()

    objects.delete("Node", node)

    wait_for(lambda: objects.get(names.NODECAPACITY_KIND, node) is None, 30, "it is collected")
