"""What a Node says of itself, reduced to what decides a placement."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Taint:
    """One taint of a Node; `effect` is NoSchedule, PreferNoSchedule or NoExecute."""

    key: str
    value: str
    effect: str


@dataclass(frozen=True, slots=True)
class Allocatable:
    """What the kubelet gives to Pods; 0 where the Node does not say."""

    cpu_millicores: int = 0
    memory_bytes: int = 0
    ephemeral_storage_bytes: int = 0
    pods: int = 0
    extended: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """One Node as it was last seen."""

    uid: str
    name: str
    labels: Mapping[str, str]
    taints: tuple[Taint, ...]
    ready: bool
    cordoned: bool
    allocatable: Allocatable


@dataclass(frozen=True, slots=True)
class NodeSettings:
    """What the administrator set for one node (NodeCapacity.spec); None leaves it to the flags."""

    overcommit_percent: int | None = None
    max_sandboxes: int | None = None
    max_starting: int | None = None
    unschedulable: bool = False
