"""What a placement needs of a Node."""

import json
from typing import Any

import msgspec
import pytest

from sandberth.core.node import Allocatable, NodeFacts, Taint
from sandberth.kube.nodes import convert_node, decode_node, node_facts, node_key
from sandberth.kube.store import Key


def a_node(*, spec: dict[str, Any] | None = None, status: dict[str, Any] | None = None) -> dict[str, Any]:
    return {
        "kind": "Node",
        "metadata": {"name": "node-1", "uid": "node-uid", "resourceVersion": "9", "labels": {"zone": "a"}},
        "spec": {"podCIDR": "10.0.0.0/24", **(spec or {})},
        "status": {
            "allocatable": {
                "cpu": "191500m",
                "memory": "512Gi",
                "ephemeral-storage": "95551679124",
                "pods": "500",
                "example.com/gpu": "8",
                "hugepages-2Mi": "0",
            },
            "conditions": [{"type": "MemoryPressure", "status": "False"}, {"type": "Ready", "status": "True"}],
            "images": [{"names": ["x"], "sizeBytes": 1}],
            **(status or {}),
        },
    }


def test_a_node_is_reduced_to_what_decides_a_placement() -> None:
    taint = {"key": "dedicated", "value": "x", "effect": "NoSchedule", "timeAdded": "2026-11-30T08:00:00Z"}
    document = a_node(spec={"taints": [taint, {"key": "k", "effect": "NoExecute"}]})

    found = node_facts(document)

    assert found == NodeFacts(
        uid="node-uid",
        name="node-1",
        labels={"zone": "a"},
        taints=(Taint("dedicated", "x", "NoSchedule"), Taint("k", "", "NoExecute")),
        ready=True,
        cordoned=False,
        allocatable=Allocatable(
            cpu_millicores=191_500,
            memory_bytes=512 * 2**30,
            ephemeral_storage_bytes=95_551_679_124,
            pods=500,
            extended={"example.com/gpu": 8, "hugepages-2Mi": 0},
        ),
    )


def test_bytes_dictionaries_and_decoded_nodes_give_the_same_facts() -> None:
    content = json.dumps(a_node()).encode()

    assert node_facts(content) == node_facts(a_node()) == node_facts(decode_node(content))


@pytest.mark.parametrize("status", ["False", "Unknown"])
def test_only_a_true_ready_condition_is_ready(status: str) -> None:
    assert not node_facts(a_node(status={"conditions": [{"type": "Ready", "status": status}]})).ready
    assert not node_facts(a_node(status={"conditions": None})).ready


def test_a_cordoned_node_says_so() -> None:
    assert node_facts(a_node(spec={"unschedulable": True})).cordoned


def test_a_node_that_says_nothing_has_room_for_nothing() -> None:
    found = node_facts({"metadata": {"name": "n", "uid": "u"}})

    assert found.allocatable == Allocatable()
    assert found.labels == {}
    assert not found.ready


def test_an_amount_that_makes_no_sense_is_no_room() -> None:
    found = node_facts(a_node(status={"allocatable": {"cpu": "many", "memory": "-1Gi", "pods": "10"}}))

    assert found.allocatable == Allocatable(pods=10)


def test_the_key_of_a_node_has_no_namespace() -> None:
    assert node_key(convert_node(a_node())) == Key("node-uid", "", "node-1", 9)


def test_what_is_no_node_is_an_error_of_the_decoder() -> None:
    with pytest.raises(msgspec.MsgspecError):
        node_facts({"metadata": {}})
