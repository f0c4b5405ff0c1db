"""How a terminal Pod ended, which decides what becomes of its Sandbox."""

from enum import StrEnum

from sandberth.kube.pods import PodFacts

# status.reason of Pods that the kubelet refused to admit.
_NODE_REFUSALS = frozenset(
    {
        "NodeAffinity",
        "NodePorts",
        "PodFeatureUnsupported",
        "PodLevelResourcesNotAdmittedReason",
        "PodOSNotSupported",
        "PodOSSelectorNodeLabelDoesNotMatch",
        "TaintToleration",
        "TopologyAffinityError",
        "UnexpectedAdmissionError",
    }
)
# status.reason of Pods that the node or the control plane ended for a cause that is not the program's.
_LOSSES = frozenset({"Evicted", "NodeLost", "NodeShutdown", "Preempting", "Shutdown", "Terminated"})
# The reason of a container whose end nobody saw: the runtime found it dead after a restart of its node (containerd), or
# the kubelet found no trace of it. The exit code that stands beside it is made up.
UNSEEN_EXITS = frozenset({"ContainerStatusUnknown", "Unknown"})


class Ending(StrEnum):
    """How a Pod ended."""

    COMPLETED = "completed"
    FAILED = "failed"  # by the program itself: final
    LOST = "lost"  # evicted, its node shut down or restarted: recovery decides
    NODE_REFUSED = "node-refused"  # the kubelet did not admit it
    NEVER_RAN = "never-ran"  # it failed before any container ran, for another cause


def ending_of(pod: PodFacts) -> Ending:
    """Return how a terminal Pod ended.

    A Pod that is being deleted ends because of that: the kubelet reports it terminal before the object goes.
    """
    if pod.deleting:
        return Ending.LOST
    if pod.phase == "Succeeded":
        return Ending.COMPLETED
    if pod.reason.startswith("OutOf") or pod.reason in _NODE_REFUSALS:
        return Ending.NODE_REFUSED
    if pod.reason in _LOSSES or pod.disruption is not None or pod.exit_reason in UNSEEN_EXITS:
        return Ending.LOST
    if not pod.ran and pod.exit_code is None and pod.reason != "DeadlineExceeded":
        return Ending.NEVER_RAN
    return Ending.FAILED
