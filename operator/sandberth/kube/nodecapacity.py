"""NodeCapacities: a node's report, the operator's view of the node, and the administrator's limits.

`crds/nodecapacities.sandberth.dev.yaml` is the same schema by hand.
"""

from pydantic import Field

from sandberth.kube.objects import ApiModel, ApiObject, Condition, Timestamp
from sandberth.kube.reportlines import MAX_REPORTED_SANDBOXES


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
