"""What one node holds at one instant, and the report that says so.

No I/O, no clock and no HTTP client: both sources of pods, the API server's and a kubelet's, share this module. How
reports are ordered and written is not here.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from sandberth.core.quantity import format_bytes, format_cpu
from sandberth.core.resources import ZERO, Resources
from sandberth.kube.pods import PodFacts
from sandberth.kube.reportlines import MAX_REPORTED_SANDBOXES, format_line
from sandberth.kube.store import Store

MAX_LINE_LENGTH = 128


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Totals of one node and the lines of the sandboxes in them, taken together.

    `allocated` minus the sum of all lines is what others hold; that holds only while `complete`, because a list that
    is too long is cut and the totals are not.
    """

    allocated: Resources  # nominal sizes of sandboxes + effective requests of all other pods
    requested: Resources  # effective requests of all pods
    pods: int
    sandboxes: tuple[str, ...]
    complete: bool


def take_snapshot(pods: Iterable[PodFacts]) -> Snapshot:
    """Return what these pods, all of one node, hold; those that have ended hold nothing."""
    allocated_cpu = allocated_memory = requested_cpu = requested_memory = count = 0
    lines = []
    for pod in pods:
        if pod.terminal:
            continue
        count += 1
        requested = pod.requests
        requested_cpu += requested.cpu_millicores
        requested_memory += requested.memory_bytes
        line, size = _line(pod)
        allocated_cpu += size.cpu_millicores
        allocated_memory += size.memory_bytes
        if line is not None:
            lines.append(line)
    lines.sort()
    return Snapshot(
        allocated=Resources(allocated_cpu, allocated_memory),
        requested=Resources(requested_cpu, requested_memory),
        pods=count,
        sandboxes=tuple(lines[:MAX_REPORTED_SANDBOXES]),
        complete=len(lines) <= MAX_REPORTED_SANDBOXES,
    )


def _line(pod: PodFacts) -> tuple[str | None, Resources]:
    """Return the line of a sandbox's pod, None for any other pod, and the size to count.

    Labels and annotations are only as good as who may write pods: an empty attempt ID or an absurd size would make
    the whole report invalid, so such a pod counts as any other.
    """
    requested = pod.requests.size
    if not pod.attempt_id:
        return None, requested
    line = format_line(pod.attempt_id, pod.nominal.cpu_millicores, pod.nominal.memory_bytes)
    return (line, pod.nominal) if len(line) <= MAX_LINE_LENGTH else (None, requested)


@dataclass(frozen=True, slots=True)
class NodeDescription:
    """What a report says of the node besides its pods; `used` is None where the usage is not known."""

    uid: str
    capacity: Resources  # allocatable, as the schema defines the field: the score divides by it
    used: Resources | None


def report_body(
    node: NodeDescription, snapshot: Snapshot, *, epoch: int, sequence: int, interval_seconds: float, now: datetime
) -> dict[str, Any]:
    """Return `status.report` as the API takes it."""
    report: dict[str, Any] = {
        "epoch": epoch,
        "sequence": sequence,
        "intervalSeconds": interval_seconds,
        "complete": snapshot.complete,
        "reportedAt": now.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "nodeUID": node.uid,
        "allocated": _amounts(snapshot.allocated),
        "requested": _amounts(snapshot.requested),
        "pods": snapshot.pods,
        "sandboxes": snapshot.sandboxes,
    }
    if node.capacity != ZERO:
        report["capacity"] = _amounts(node.capacity)
    if node.used is not None:
        report["used"] = _amounts(node.used)
    return report


def _amounts(resources: Resources) -> dict[str, str]:
    return {"cpu": format_cpu(resources.cpu_millicores), "memory": format_bytes(resources.memory_bytes)}


class PodsByNode:
    """The pods of a store that are bound to a node and have not ended, kept by the node's name.

    It follows the store, so that a report looks at the pods of its own node alone.
    """

    def __init__(self, store: Store[PodFacts]) -> None:
        self._nodes: dict[str, dict[str, PodFacts]] = {}
        for pod in store:
            self._change(None, pod)
        self.close: Callable[[], None] = store.subscribe(self._change)

    def on(self, node_name: str) -> Iterator[PodFacts]:
        """Return the pods bound to the node of that name; take them all in before the next `await`."""
        return iter(self._nodes.get(node_name, {}).values())

    def _change(self, old: PodFacts | None, new: PodFacts | None) -> None:
        if old is not None and (pods := self._nodes.get(old.node_name)) is not None:
            pods.pop(old.uid, None)
            if not pods:
                del self._nodes[old.node_name]
        if new is not None and new.node_name and new.bound and not new.terminal:
            self._nodes.setdefault(new.node_name, {})[new.uid] = new
