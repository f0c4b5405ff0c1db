"""What the command line decides of a reporter. Standard library and core only: `--help` reads this."""

from dataclasses import dataclass
from enum import StrEnum

from sandberth.core.resources import ZERO, Resources


class UsageSource(StrEnum):
    """Where a report's `used` comes from."""

    METRICS = "metrics"  # measured: metrics.k8s.io, or the kubelet's stats
    REQUESTS = "requests"  # the effective requests: for beds where nothing runs
    NONE = "none"  # left out


class Phase(StrEnum):
    """How the nodes' reports lie in time."""

    SYNC = "sync"  # all at once
    STAGGERED = "staggered"  # spread over the interval, each node always at the same place


@dataclass(frozen=True, slots=True)
class ReporterSettings:
    """How often the api reporter reports, when, and with which usage."""

    interval_seconds: float = 20.0
    usage: UsageSource = UsageSource.METRICS
    phase: Phase = Phase.SYNC


@dataclass(frozen=True, slots=True)
class KubeletSettings:
    """What the process of one node's reporter is told, as plain values; "" leaves a thing out."""

    node_name: str
    address: str  # of the kubelet
    port: int = 10_250
    authority: str = ""  # file that its certificate is verified with; "": the authority of the cluster
    server_name: str = ""  # what the certificate is for; "": the address
    insecure_tls: bool = False
    pod_uid: str = ""  # of the reporter's own pod: a list of pods without it is not whole
    allocatable: Resources = ZERO  # of the node; zero where it is not known
    interval_seconds: float = 20.0
    usage: UsageSource = UsageSource.METRICS
    kubeconfig: str = ""
    metrics_host: str = "0.0.0.0"  # noqa: S104 - probes and scrapes come from outside the Pod
    metrics_port: int = 8080
