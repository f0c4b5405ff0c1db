"""The truth: what a node really runs, and the reports that it sends. The operator's side never reads this."""

from dataclasses import dataclass, field

from sandberth.core.ledger import PodHolding
from sandberth.core.node import Allocatable, NodeFacts
from sandberth.core.report import Report
from sandberth.core.resources import Requests, Resources
from sandberth.sim.workload import Request

GIB = 1024**3
MANY_PODS = 1_000_000


@dataclass(slots=True, eq=False)
class Attempt:
    """One try to run one sandbox on one node: what is true of it, and what the operator has seen."""

    attempt_id: str
    number: int
    request: Request
    owner: int  # the replica that placed it
    node: "TrueNode"
    node_uid: str
    pod: PodHolding
    answer_us: int = 0
    present: bool = False  # it runs
    over: bool = False  # it runs no more, or never will
    lost: bool = False  # over because its node failed
    refused: bool = False  # over because its node did not admit it
    answered: bool = False
    orphaned: bool = False  # its node was seen to be gone before its create was answered
    deleting: bool = False
    running_seen: bool = False
    end_seen: bool = False
    shown_at_us: int = 0  # the watch shows nothing more of it before this


@dataclass(slots=True, eq=False)
class TrueNode:
    """One node as it is. `need_cpu` is what it holds and what may still be created on it, in millicores."""

    index: int
    cpu_millicores: int
    noise_millicores: int
    overcommit_percent: int
    incarnation: int = 1
    sequence: int = 0
    is_up: bool = True
    sandbox_cpu: int = 0
    need_cpu: int = 0
    present: dict[str, Resources] = field(default_factory=dict)
    assigned: dict[str, Attempt] = field(default_factory=dict)  # running, or may still be created
    unseen_ends: dict[str, Attempt] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.need_cpu = self.noise_millicores

    @property
    def name(self) -> str:
        """The name that stays over failures."""
        return f"node-{self.index}"

    @property
    def uid(self) -> str:
        """The UID of the Node object: another one after each failure."""
        return f"{self.name}/{self.incarnation}"

    @property
    def allocated_fraction(self) -> float:
        """The share of its CPU that is taken; above 1 where it is overcommitted."""
        return (self.noise_millicores + self.sandbox_cpu) / self.cpu_millicores

    @property
    def facts(self) -> NodeFacts:
        """The Node object. Memory and Pods are left out of the simulation: there is always enough."""
        memory = self.cpu_millicores * self.overcommit_percent * GIB
        return NodeFacts(
            self.uid, self.name, {}, (), True, False, Allocatable(self.cpu_millicores, memory, 0, MANY_PODS)
        )

    @property
    def foreign_pod(self) -> PodHolding | None:
        """The Pod of somebody else that makes the noise."""
        if not self.noise_millicores:
            return None
        size = Resources(self.noise_millicores, 0)
        return PodHolding(f"noise/{self.uid}", None, self.name, size, Requests(size.cpu_millicores))

    def has_room(self, millicores: int) -> bool:
        """Whether the node itself would admit it."""
        total = self.noise_millicores + self.sandbox_cpu + millicores
        return total * 100 <= self.overcommit_percent * self.cpu_millicores

    def report(self, usage_ratio: float, interval_seconds: float) -> Report:
        """Take a snapshot. Usage is that of the sandboxes; the noise is allocated, as in the article."""
        self.sequence += 1
        return Report(
            history=f"capacity/{self.uid}",
            epoch=1,
            sequence=self.sequence,
            node_uid=self.uid,
            interval_seconds=interval_seconds,
            allocated=Resources(self.noise_millicores + self.sandbox_cpu, len(self.present) * GIB),
            used=Resources(round(usage_ratio * self.sandbox_cpu), len(self.present) * GIB),
            sandboxes=dict(self.present),
        )
