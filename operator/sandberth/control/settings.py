"""What an operator process is told at its start."""

from dataclasses import dataclass
from pathlib import Path

from sandberth.kube import names


@dataclass(frozen=True, slots=True)
class Settings:
    """The options of `sandberth operator`; `metrics_port` 0 takes any free port."""

    kubeconfig: Path | None = None
    namespace: str = names.NAMESPACE
    concurrency: int = 64
    metrics_host: str = "0.0.0.0"  # noqa: S104 - probes and scrapes come from outside the Pod
    metrics_port: int = 8080
    unschedulable_after_seconds: float = 30.0
    scheduler_after_seconds: float | None = None  # None: a Sandbox without room waits for as long as it takes
    healing_interval_seconds: float = 60.0
    lease_duration_seconds: float = 15.0  # 0: no election, this process leads
    seed: int | None = None
