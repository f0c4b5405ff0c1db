"""What the operator remembers of a Sandbox beyond its objects: the attempt under way, pauses, nodes that refused.

All of it may be lost at any moment: a restart finds everything that matters in the Sandbox's status and its Pod.
"""

from dataclasses import dataclass, field
from math import inf
from typing import Any

from sandberth.core.fit import Ask
from sandberth.kube.sandbox import Decision as DecisionStatus


@dataclass(slots=True)
class Attempt:
    """A create whose outcome is not known yet; the same body is sent until it is.

    `node_name` is the node that it is aimed at: bound to it, or pinned for kube-scheduler to bind; "" for any.
    `tries` counts the sends that had no definite answer: each of them may have been carried out.
    """

    number: int
    attempt_id: str
    node_name: str
    body: dict[str, Any]
    tries: int = 0


@dataclass(slots=True)
class Exclusion:
    """A node that refused this Sandbox: not before `until_s`, and not before something on the node changed.

    What the node lacks may be where no change of it shows, so `expires_s` ends that: after a kubelet's refusal from the
    start, and where kube-scheduler could not bind it there, once no other node is left to try. `generation` is then
    that of the Sandbox, since one that was corrected is another case; None stands for a refusal by the kubelet.
    `changes` is None as long as the Sandbox's own Pod may be there: that it goes is no change that helps.
    """

    until_s: float
    changes: int | None
    generation: int | None = None
    expires_s: float = inf

    def is_over(self, now_s: float, changes: int, generation: int) -> bool:
        """Return whether the Sandbox, of this generation now and without a Pod, may try the node again."""
        if self.generation not in {None, generation} or now_s >= self.expires_s:
            return True
        if self.changes is None:
            self.changes = changes
        return now_s >= self.until_s and changes != self.changes


@dataclass(slots=True)
class Track:
    """The memory of one Sandbox."""

    first_seen_s: float
    waits_since_s: float | None = None  # since when no node was found for it
    attempt: Attempt | None = None
    record: tuple[int, DecisionStatus, str] | None = None  # attempt number, decision and message of the last create
    last_number: int = 0  # the largest attempt number seen in its Pods
    refusals: int = 0  # definite refusals in a row by namespace or policy
    refused_reason: str = ""
    refused_generation: int = 0
    retry_at_s: float = 0.0
    excluded: dict[str, Exclusion] = field(default_factory=dict)  # Node UID -> until when
    node_refusals: int = 0
    unschedulable: tuple[str, float] | None = None  # UID of an unbound Pod, and since when it is known to be hopeless
    unschedulables: int = 0  # Pods in a row that kube-scheduler could not bind
    retry_unschedulable_at_s: float = 0.0  # when their nodes may be tried again, where no other is left
    last_node_refusal: str = ""  # what the last node that refused said
    counted_pod: str | None = None  # UID of the last Pod that was counted as refused or failed
    failed_starts: int = 0  # Pods that failed before running for a cause of their own
    lost_attempt: int = 0  # the number of the last attempt that was counted as lost
    losses: int = 0  # lost attempts with little time between them
    lost_at_s: float = 0.0
    next_attempt_at_s: float = 0.0  # not before this moment is a lost Pod replaced
    ask: tuple[int, Ask] | None = None  # (generation, what it asks for)
    pod_made: tuple[str, float] | None = None  # UID of the Pod, and when it was made by our own clock
    delete_sent: str | None = None  # UID of the Pod whose delete was answered
    pending_written_s: float = 0.0
