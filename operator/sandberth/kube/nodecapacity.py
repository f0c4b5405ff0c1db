"""NodeCapacities: a node's report, the operator's view of the node, and the administrator's limits.

`crds/nodecapacities.sandberth.dev.yaml` is the same schema by hand.
"""

from typing import NamedTuple

from pydantic import Field

from sandberth.kube.objects import ApiModel, ApiObject, Condition, Timestamp

MAX_REPORTED_SANDBOXES = 2000


class ReportedSandbox(NamedTuple):
    """One entry of a report: an attempt and the nominal size it holds."""

    attempt_id: str
    cpu_millicores: int
    memory_bytes: int


def parse_line(line: str) -> ReportedSandbox:
    """Return what `<attempt id> <cpu in m> <memory in bytes>` says.

    Raises ValueError with the line in its text: a list with one bad entry is not a complete list.
    """
    parts = line.split(" ")
    if len(parts) != 3 or not parts[0] or not all(part.isascii() and part.isdigit() for part in parts[1:]):
        raise ValueError(f"not `<attempt id> <cpu in m> <memory in bytes>`: {line!r}")
    return ReportedSandbox(parts[0], int(parts[1]), int(parts[2]))


def format_line(attempt_id: str, cpu_millicores: int, memory_bytes: int) -> str:
    """Return the line that `parse_line` reads back."""
    return f"{attempt_id} {cpu_millicores} {memory_bytes}"


class Amounts(ApiModel):
    """An amount of cpu and memory, as quantities."""

    cpu: str
    memory: str


class NodeCapacitySpec(ApiModel):
    """What the administrator decides for one node; None leaves it to the flags."""

    overcommit_percent: int | None = Field(None, ge=1, le=10_000)
    max_sandboxes: int | None = Field(None, ge=0, le=1_000_000)
    max_starting: int | None = Field(None, ge=1, le=1_000_000)
    unschedulable: bool = False


class Report(ApiModel):
    """One node's own account of itself, at one instant; totals and list are one snapshot.

    Ordered by (NodeCapacity UID, epoch, sequence); `reported_at` is for people, no decision reads it.
    """

    epoch: int = Field(ge=0)
    sequence: int = Field(ge=0)
    interval_seconds: float = Field(ge=0.1, le=86_400)
    complete: bool = True
    reported_at: Timestamp
    node_uid: str = Field(alias="nodeUID")
    capacity: Amounts | None = None
    allocated: Amounts  # nominal sizes of sandboxes + effective requests of all other pods
    requested: Amounts | None = None  # effective requests of all pods
    used: Amounts | None = None  # None: the usage is not known
    pods: int = Field(0, ge=0)
    sandboxes: tuple[str, ...] = Field((), max_length=MAX_REPORTED_SANDBOXES)

    @property
    def version(self) -> tuple[int, int]:
        """Return (epoch, sequence): the only order that is trusted."""
        return (self.epoch, self.sequence)


class NodeCapacityView(ApiModel):
    """What the operator believes the node holds."""

    accounted: Amounts
    in_progress: int = Field(0, ge=0)  # created, not yet answered
    unconfirmed: int = Field(0, ge=0)  # created, not in the last report
    sandboxes: int = Field(0, ge=0)


class NodeCapacityStatus(ApiModel):
    """The reporter's part (`report`) and the operator's part (`view`, `conditions`)."""

    report: Report | None = None
    view: NodeCapacityView | None = None
    conditions: tuple[Condition, ...] = ()

    def condition(self, condition_type: str) -> Condition | None:
        """Return the condition of that type, None if it was never written."""
        return next((item for item in self.conditions if item.type == condition_type), None)


class NodeCapacity(ApiObject):
    """One NodeCapacity: metadata, spec and status."""

    spec: NodeCapacitySpec = NodeCapacitySpec()
    status: NodeCapacityStatus = NodeCapacityStatus()

    @property
    def owner_node_uid(self) -> str | None:
        """Return the UID of the Node that owns this object, None if no Node does."""
        return next((owner.uid for owner in self.metadata.owner_references if owner.kind == "Node"), None)
