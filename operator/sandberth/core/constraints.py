"""Which nodes a Sandbox may run on at all: selectors, required affinity, taints, architecture.

Preferences (preferred affinity, PreferNoSchedule) are not looked at; the operator says so where they stand.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from sandberth.core.node import NodeFacts, Taint

ARCHITECTURE_LABEL = "kubernetes.io/arch"
NAME_FIELD = "metadata.name"


class Rejection(StrEnum):
    """Why a node was passed over; the keys of `status.placement.rejected`."""

    NODE_NOT_READY = "NodeNotReady"
    CORDONED = "Cordoned"
    DISABLED = "Disabled"
    NO_ALLOCATABLE_CPU = "NoAllocatableCpu"
    TAINTED = "Tainted"
    NODE_SELECTOR = "NodeSelectorMismatch"
    NODE_AFFINITY = "NodeAffinityMismatch"
    ARCHITECTURE = "ArchitectureMismatch"
    VOLUME = "VolumeElsewhere"
    EXCLUDED = "RefusedEarlier"
    OVERCOMMIT = "OvercommitLimit"
    CPU = "InsufficientCpu"
    MEMORY = "InsufficientMemory"
    EPHEMERAL_STORAGE = "InsufficientEphemeralStorage"
    EXTENDED = "InsufficientExtendedResource"
    PODS = "TooManyPods"
    HOST_PORT = "HostPortTaken"
    STARTING = "TooManyStarting"
    MAX_SANDBOXES = "TooManySandboxes"


@dataclass(frozen=True, slots=True)
class Toleration:
    """One toleration of a pod spec; empty fields mean what they mean to Kubernetes."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""

    def tolerates(self, taint: Taint) -> bool:
        """Return whether this toleration covers `taint` (an empty key with Exists covers all)."""
        if self.effect and self.effect != taint.effect:
            return False
        if self.operator == "Exists":
            return not self.key or self.key == taint.key
        return self.operator in {"", "Equal"} and self.key == taint.key and self.value == taint.value


@dataclass(frozen=True, slots=True)
class Requirement:
    """One match expression of a node selector term."""

    key: str
    operator: str
    values: tuple[str, ...] = ()

    def holds(self, labels: Mapping[str, str]) -> bool:
        """Return whether `labels` satisfy it; an unknown operator or a bad number never does."""
        value = labels.get(self.key)
        match self.operator:
            case "In":
                return value is not None and value in self.values
            case "NotIn":
                return value is None or value not in self.values
            case "Exists":
                return value is not None
            case "DoesNotExist":
                return value is None
            case "Gt" | "Lt":
                return self._compares(value)
        return False

    def _compares(self, value: str | None) -> bool:
        if value is None or len(self.values) != 1:
            return False
        actual, bound = _whole_number(value), _whole_number(self.values[0])
        if actual is None or bound is None:
            return False
        return actual > bound if self.operator == "Gt" else actual < bound


def _whole_number(text: str) -> int | None:
    """Return what the API server reads from a label in a comparison: a signed 64-bit decimal, or None.

    `int` alone would also take underscores, spaces and the digits of other scripts.
    """
    if not re.fullmatch(r"[+-]?[0-9]{1,40}", text):
        return None
    number = int(text)
    return number if -(2**63) <= number < 2**63 else None


@dataclass(frozen=True, slots=True)
class Term:
    """Requirements that must all hold; a term without any matches no node, as in Kubernetes."""

    expressions: tuple[Requirement, ...] = ()
    fields: tuple[Requirement, ...] = ()

    def matches(self, node: NodeFacts) -> bool:
        """Return whether the node satisfies every expression and every field."""
        if not self.expressions and not self.fields:
            return False
        return all(expression.holds(node.labels) for expression in self.expressions) and all(
            requirement.holds({NAME_FIELD: node.name}) for requirement in self.fields
        )


@dataclass(frozen=True, slots=True)
class Constraints:
    """All that a Sandbox demands of a node apart from room."""

    node_selector: tuple[tuple[str, str], ...] = ()
    affinity: tuple[Term, ...] | None = None  # required node affinity: one term must match; None = no demand
    tolerations: tuple[Toleration, ...] = ()
    architecture: str | None = None
    volumes: tuple[tuple[Term, ...], ...] = ()  # of each volume: where it can be mounted; one term must match

    @property
    def selective(self) -> bool:
        """Whether it may refuse a node without taints."""
        if self.affinity is not None or self.architecture is not None:
            return True
        return bool(self.node_selector or self.volumes)

    def rejection(self, node: NodeFacts) -> Rejection | None:
        """Return why `node` is out of the question, or None."""
        for taint in node.taints:
            if taint.effect != "PreferNoSchedule" and not any(t.tolerates(taint) for t in self.tolerations):
                return Rejection.TAINTED
        for key, value in self.node_selector:
            if node.labels.get(key) != value:
                return Rejection.NODE_SELECTOR
        if self.affinity is not None and not any(term.matches(node) for term in self.affinity):
            return Rejection.NODE_AFFINITY
        if self.architecture is not None and node.labels.get(ARCHITECTURE_LABEL) != self.architecture:
            return Rejection.ARCHITECTURE
        for terms in self.volumes:
            if not any(term.matches(node) for term in terms):
                return Rejection.VOLUME
        return None
