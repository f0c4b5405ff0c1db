"""Nodes, reduced to `sandberth.core.node.NodeFacts`; from the wire and from dictionaries."""

from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from sandberth.core.node import Allocatable, NodeFacts
from sandberth.core.node import Taint as TaintFacts
from sandberth.core.quantity import QuantityError, count, cpu_millicores, whole_bytes
from sandberth.kube.store import Key


class _Slim(msgspec.Struct, rename="camel", gc=False):
    pass


class Metadata(_Slim):
    """The part of a Node's metadata that is read."""

    name: str
    uid: str
    resource_version: str = "0"
    labels: dict[str, str] | None = None


class Taint(_Slim):
    """One taint."""

    key: str
    effect: str = ""
    value: str | None = None


class Spec(_Slim):
    """The part of a Node's spec that is read."""

    taints: list[Taint] | None = None
    unschedulable: bool | None = None


class Condition(_Slim):
    """One condition of a Node."""

    type: str
    status: str = "Unknown"


class Status(_Slim):
    """The part of a Node's status that is read."""

    allocatable: dict[str, str | int | float] | None = None
    conditions: list[Condition] | None = None


class Node(_Slim):
    """A Node as decoded."""

    metadata: Metadata
    spec: Spec = msgspec.field(default_factory=Spec)
    status: Status = msgspec.field(default_factory=Status)


_NODE_DECODER = msgspec.json.Decoder(Node)
_NAMED: Final = frozenset({"cpu", "memory", "ephemeral-storage", "pods"})


def decode_node(content: bytes) -> Node:
    """Return a Node in JSON, slim. Raises msgspec.MsgspecError on what is no Node."""
    return _NODE_DECODER.decode(content)


def convert_node(document: Mapping[str, Any]) -> Node:
    """Return a Node that is already decoded, slim. Raises msgspec.ValidationError on what is no Node."""
    return msgspec.convert(document, Node)


def node_key(node: Node) -> Key:
    """Return the key of a Node for a Store."""
    metadata = node.metadata
    return Key(metadata.uid, "", metadata.name, int(metadata.resource_version))


def node_facts(node: Node | Mapping[str, Any] | bytes) -> NodeFacts:
    """Return what decides a placement on this Node."""
    if isinstance(node, bytes):
        node = decode_node(node)
    elif not isinstance(node, Node):
        node = convert_node(node)
    return NodeFacts(
        uid=node.metadata.uid,
        name=node.metadata.name,
        labels=node.metadata.labels or {},
        taints=tuple(TaintFacts(taint.key, taint.value or "", taint.effect) for taint in node.spec.taints or ()),
        ready=any(
            condition.type == "Ready" and condition.status == "True" for condition in node.status.conditions or ()
        ),
        cordoned=bool(node.spec.unschedulable),
        allocatable=_allocatable(node.status.allocatable or {}),
    )


def _allocatable(amounts: Mapping[str, str | int | float]) -> Allocatable:
    return Allocatable(
        cpu_millicores=_known(cpu_millicores, amounts.get("cpu")),
        memory_bytes=_known(whole_bytes, amounts.get("memory")),
        ephemeral_storage_bytes=_known(whole_bytes, amounts.get("ephemeral-storage")),
        pods=_known(count, amounts.get("pods")),
        extended={name: _known(count, amount) for name, amount in amounts.items() if name not in _NAMED},
    )


def _known(parse: Callable[[str | float], int], amount: str | float | None) -> int:
    """Return the amount, 0 where the Node gives none or one that makes no sense: then it is never chosen."""
    if amount is None:
        return 0
    try:
        return max(0, parse(amount))
    except QuantityError:
        return 0
