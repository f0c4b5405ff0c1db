"""The four streams that the operator lives on, each behind one `observe` port.

Sandboxes, Nodes and NodeCapacities come from kopf, Pods from our own informer; lists, own writes and the healer enter
through the same ports. The stores drop what is stale, so the sources need no order among themselves.
"""

import logging
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec
import orjson
from pydantic import ValidationError

from sandberth.kube.nodecapacity import NodeCapacity
from sandberth.kube.nodes import Node, convert_node, node_key
from sandberth.kube.objects import describe
from sandberth.kube.pods import PodFacts
from sandberth.kube.sandbox import Sandbox
from sandberth.kube.store import Key, Store, mapping_key

LOG = logging.getLogger(__name__)
_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


@dataclass(frozen=True, slots=True)
class SandboxSeen:
    """One version of one Sandbox, kept as compact JSON: ten thousand of them fit into a small process."""

    uid: str
    namespace: str
    name: str
    resource_version: int
    content: bytes
    problem: str = ""  # why the spec is left out of the content

    def parse(self) -> Sandbox:
        """Return the model. Raises pydantic's ValidationError for a Sandbox that an older schema let in."""
        return Sandbox.from_object(orjson.loads(self.content))

    def phase(self) -> str | None:
        """Return status.phase as stored, without validating the rest."""
        phase = (orjson.loads(self.content).get("status") or {}).get("phase")
        return phase if isinstance(phase, str) else None


def sandbox_seen(body: Mapping[str, Any]) -> SandboxSeen:
    """Return what is kept of a Sandbox as the API gives it: all but the bookkeeping of other clients."""
    metadata = {key: value for key, value in body["metadata"].items() if key != "managedFields"}
    annotations = metadata.get("annotations")
    if annotations and _LAST_APPLIED in annotations:
        metadata["annotations"] = {key: value for key, value in annotations.items() if key != _LAST_APPLIED}
    kept = {"metadata": metadata, "spec": body.get("spec") or {}, "status": body.get("status") or {}}
    problem = ""
    try:
        content = orjson.dumps(kept)
    except (TypeError, RecursionError):
        problem = "spec: nested too deeply, or a number too large: nothing that a Pod can hold"
        content = orjson.dumps({"metadata": metadata, "spec": {}, "status": kept["status"]})
    version = int(metadata["resourceVersion"])
    return SandboxSeen(metadata["uid"], metadata["namespace"], metadata["name"], version, content, problem)


def _capacity_key(capacity: NodeCapacity) -> Key:
    return Key(capacity.uid, "", capacity.name, int(capacity.resource_version))


class Streams:
    """The newest known state of everything, and the ports through which it comes in."""

    def __init__(self) -> None:
        self.sandboxes: Store[SandboxSeen] = Store()
        self.nodes: Store[Node] = Store(node_key)
        self.capacities: Store[NodeCapacity] = Store(_capacity_key)
        self.pods: Store[PodFacts] = Store()
        self.heard: Counter[str] = Counter()  # events that kopf brought, by stream: a sign of life
        self.unverified: set[str] = set()  # Sandboxes that only a list has shown: read again before acting on them

    def observe_sandbox(self, body: Mapping[str, Any], *, deleted: bool = False, listed: bool = False) -> None:
        """Take in one state of a Sandbox; `listed` says that a list showed it, not an event."""
        if not deleted and self.sandboxes.has_seen(mapping_key(body)):
            return  # most often kopf's echo of an own write
        seen = sandbox_seen(body)
        if listed and seen.uid not in self.sandboxes:
            self.unverified.add(seen.uid)
        self.sandboxes.observe(seen, deleted=deleted, in_stream=False)
        if deleted:
            self.unverified.discard(seen.uid)

    def doubt_sandboxes(self) -> None:
        """Have every Sandbox known now read again before anything is created or deleted for it."""
        self.unverified.update(seen.uid for seen in self.sandboxes)

    def observe_node(self, body: Mapping[str, Any], *, deleted: bool = False) -> None:
        """Take in one state of a Node."""
        try:
            node = convert_node(body)
        except msgspec.ValidationError as error:
            LOG.warning("Node %s cannot be read: %s", body["metadata"].get("name"), error)
            return
        self.nodes.observe(node, deleted=deleted, in_stream=False)

    def observe_capacity(self, body: Mapping[str, Any], *, deleted: bool = False) -> None:
        """Take in one state of a NodeCapacity."""
        try:
            capacity = NodeCapacity.from_object(body)
        except ValidationError as error:
            LOG.warning("NodeCapacity %s cannot be read: %s", body["metadata"].get("name"), describe(error))
            return
        self.capacities.observe(capacity, deleted=deleted, in_stream=False)
