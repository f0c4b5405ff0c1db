"""Every name that Sandberth and its users share: group, kinds, labels, reasons.

Reasons are part of the API: scripts and alerts match them, so one may be added but none renamed.
"""

from enum import StrEnum
from typing import Final

GROUP: Final = "sandberth.dev"
VERSION: Final = "v1alpha1"
API_VERSION: Final = f"{GROUP}/{VERSION}"
SANDBOXES: Final = "sandboxes"
NODECAPACITIES: Final = "nodecapacities"
SANDBOX_KIND: Final = "Sandbox"
NODECAPACITY_KIND: Final = "NodeCapacity"

NAMESPACE: Final = "sandberth-system"
FLAGS_CONFIGMAP: Final = "sandberth-flags"
OPERATOR_SERVICE_ACCOUNT: Final = "sandberth-operator"
OPERATOR_LEASE: Final = "sandberth-operator"
REPORTER_SERVICE_ACCOUNT: Final = "sandberth-reporter"
API_REPORTER_SERVICE_ACCOUNT: Final = "sandberth-reporter-api"

PREFIX: Final = "sandberth.dev/"
ATTEMPT_LABEL: Final = f"{PREFIX}attempt"
NOMINAL_CPU_ANNOTATION: Final = f"{PREFIX}nominal-cpu"
NOMINAL_MEMORY_ANNOTATION: Final = f"{PREFIX}nominal-memory"
NODE_NAME_ANNOTATION: Final = f"{PREFIX}node-name"  # the chosen node, where kube-scheduler binds
NODE_UID_ANNOTATION: Final = f"{PREFIX}node-uid"
GENERATION_ANNOTATION: Final = f"{PREFIX}generation"
HOST_FEATURES_ANNOTATION: Final = f"{PREFIX}allowed-host-features"  # of the operator's namespace


class Phase(StrEnum):
    """Where a Sandbox is in its life; Succeeded and Failed are final."""

    PENDING = "Pending"
    STARTING = "Starting"
    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    TERMINATING = "Terminating"

    @property
    def is_terminal(self) -> bool:
        """Return whether the Sandbox never gets another Pod."""
        return self in (Phase.SUCCEEDED, Phase.FAILED)


class SandboxCondition(StrEnum):
    """The conditions of a Sandbox, in the order in which status.conditions lists them.

    The column Reason shows the first condition whose reason is not "Placed", so Finished, when it is there,
    stands before Ready.
    """

    PLACED = "Placed"
    FINISHED = "Finished"
    READY = "Ready"


class PlacedReason(StrEnum):
    """Why a Sandbox has a node, or has none yet."""

    PLACED = "Placed"
    NO_ELIGIBLE_NODE = "NoEligibleNode"
    QUOTA_EXCEEDED = "QuotaExceeded"
    REFUSED_BY_POLICY = "RefusedByPolicy"
    INVALID_POD = "InvalidPod"
    POD_NAME_TAKEN = "PodNameTaken"
    NODES_REFUSED = "NodesRefused"
    UNSCHEDULABLE = "Unschedulable"
    POD_LOST = "PodLost"
    CREATE_UNANSWERED = "CreateUnanswered"


class ReadyReason(StrEnum):
    """Why a Sandbox can be used, or cannot."""

    POD_READY = "PodReady"
    STARTING = "Starting"
    IMAGE_PULL_FAILED = "ImagePullFailed"
    POD_LOST = "PodLost"
    NODE_UNREACHABLE = "NodeUnreachable"
    FINISHED = "Finished"


class FinishedReason(StrEnum):
    """How a Sandbox ended."""

    COMPLETED = "Completed"
    FAILED = "Failed"
    EXPIRED = "Expired"
    START_DEADLINE_EXCEEDED = "StartDeadlineExceeded"


class NodeCapacityCondition(StrEnum):
    """The conditions of a NodeCapacity."""

    FRESH = "Fresh"
    SCHEDULABLE = "Schedulable"


class FreshReason(StrEnum):
    """Whether a node's report still counts."""

    REPORTED = "Reported"
    NO_REPORT = "NoReport"
    STALE = "Stale"


class SchedulableReason(StrEnum):
    """Whether a node takes Sandboxes, and what keeps it from doing so."""

    SCHEDULABLE = "Schedulable"
    NO_REPORT = "NoReport"
    STALE = "Stale"
    NODE_NOT_READY = "NodeNotReady"
    CORDONED = "Cordoned"
    TAINTED = "Tainted"
    FULL = "Full"
    DISABLED = "Disabled"
