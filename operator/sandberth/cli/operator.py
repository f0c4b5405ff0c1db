"""`sandberth operator`: the process that places Sandboxes."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from sandberth.kube import names


class LogFormat(StrEnum):
    """How log lines look."""

    TEXT = "text"
    JSON = "json"


def run_operator(
    *,
    kubeconfig: Annotated[
        Path | None,
        typer.Option(envvar="SANDBERTH_KUBECONFIG", help="Kubeconfig; default: $KUBECONFIG, else in-cluster."),
    ] = None,
    namespace: Annotated[
        str, typer.Option(envvar="SANDBERTH_NAMESPACE", help="Namespace of the operator and its ConfigMaps.")
    ] = names.NAMESPACE,
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
            concurrency=concurrency,
            metrics_host=metrics_host,
            metrics_port=metrics_port,
            unschedulable_after_seconds=unschedulable_after,
            scheduler_after_seconds=scheduler_after,
            seed=seed,
        ),
        json_logs=log_format is LogFormat.JSON,
    )
