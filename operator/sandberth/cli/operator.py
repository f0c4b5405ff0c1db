"""`sandberth operator`: the process that places Sandboxes."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from sandberth.cli.reporter import duration_seconds
from sandberth.kube import names

_SHORTEST_LEASE_SECONDS = 3
_LONGEST_LEASE_SECONDS = 600


class LogFormat(StrEnum):
    """How log lines look."""

    TEXT = "text"
    JSON = "json"


def lease_seconds(text: str) -> float:
    """Return the duration of a Lease, 0 for no election.

    Raises typer.BadParameter for what is no duration, and outside of 3 seconds to 10 minutes.
    """
    if text.strip() in {"0", "0s"}:
        return 0.0
    seconds = duration_seconds(text)
    if not _SHORTEST_LEASE_SECONDS <= seconds <= _LONGEST_LEASE_SECONDS:
        raise typer.BadParameter(f"{text} is neither 0 nor between 3s and 10m")
    return seconds


def run_operator(
    *,
    kubeconfig: Annotated[
        Path | None,
        typer.Option(envvar="SANDBERTH_KUBECONFIG", help="Kubeconfig; default: $KUBECONFIG, else in-cluster."),
    ] = None,
    namespace: Annotated[
        str, typer.Option(envvar="SANDBERTH_NAMESPACE", help="Namespace of the operator and its ConfigMaps.")
    ] = names.NAMESPACE,
    lease_duration: Annotated[
        str,
        typer.Option(
            envvar="SANDBERTH_LEASE_DURATION",
            help="How long others wait for a silent leader: 15s. 0: no election, this process leads.",
        ),
    ] = "15s",
    concurrency: Annotated[
        int, typer.Option(envvar="SANDBERTH_CONCURRENCY", min=1, max=1024, help="Sandboxes worked on at once.")
    ] = 64,
    metrics_port: Annotated[
        int,
        typer.Option(envvar="SANDBERTH_METRICS_PORT", min=0, max=65535, help="Port of probes and metrics; 0: any."),
    ] = 8080,
    metrics_host: Annotated[
        str, typer.Option(envvar="SANDBERTH_METRICS_HOST", help="Address of probes and metrics.")
    ] = "0.0.0.0",  # noqa: S104 - probes and scrapes come from outside the Pod
    log_format: Annotated[
        LogFormat, typer.Option(envvar="SANDBERTH_LOG_FORMAT", help="text or json.")
    ] = LogFormat.TEXT,
    scheduler_after: Annotated[
        float | None,
        typer.Option(
            envvar="SANDBERTH_SCHEDULER_AFTER",
            min=1,
            help="Seconds after which a Sandbox without an eligible node is left to kube-scheduler, where a cluster "
            "autoscaler sees it; default: never.",
        ),
    ] = None,
    unschedulable_after: Annotated[
        float,
        typer.Option(
            envvar="SANDBERTH_UNSCHEDULABLE_AFTER",
            min=0.1,
            help="Seconds after which a Pod that kube-scheduler cannot bind is tried on another node.",
        ),
    ] = 30.0,
    seed: Annotated[
        int | None, typer.Option(envvar="SANDBERTH_SEED", help="Seed of the random choices, for experiments.")
    ] = None,
) -> None:
    """Run the operator until it is stopped.

    Example: sandberth operator --kubeconfig ~/.kube/config --metrics-port 8080
    """
    from sandberth.control.process import run_process  # noqa: PLC0415 - kopf takes a second to import
    from sandberth.control.settings import Settings  # noqa: PLC0415

    run_process(
        Settings(
            kubeconfig=kubeconfig,
            namespace=namespace,
            lease_duration_seconds=lease_seconds(lease_duration),
            concurrency=concurrency,
            metrics_host=metrics_host,
            metrics_port=metrics_port,
            unschedulable_after_seconds=unschedulable_after,
            scheduler_after_seconds=scheduler_after,
            seed=seed,
        ),
        json_logs=log_format is LogFormat.JSON,
    )
