"""`sandberth reporter`: the process that reports what nodes hold."""

import re
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from sandberth.core.errors import SandberthError
from sandberth.reporter.settings import Phase, ReporterSettings, UsageSource


class Source(StrEnum):
    """Where a node's pods are read."""

    API = "api"
    KUBELET = "kubelet"


_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "": 1.0}
_DURATION = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ms|s|m|h|)")


def duration_seconds(text: str) -> float:
    """Return the seconds of a duration: 20s, 500ms, 1m, 1h, or plain seconds.

    Raises typer.BadParameter for what is none, and outside of what a report can say: 100 ms to 24 hours.
    """
    match = _DURATION.fullmatch(text.strip())
    if match is None:
        raise typer.BadParameter(f"{text!r} is not a duration such as 20s, 500ms or 1m")
    seconds = float(match[1]) * _UNITS[match[2]]
    if not 0.1 <= seconds <= 86_400:
        raise typer.BadParameter(f"{text} is not between 100ms and 24h")
    return seconds


def run_reporter(
    *,
    source: Annotated[
        Source,
        typer.Option(
            envvar="SANDBERTH_SOURCE",
            help="api: one process for all nodes; kubelet (one for each node): with a later release.",
        ),
    ] = Source.API,
    interval: Annotated[
        str, typer.Option(envvar="SANDBERTH_INTERVAL", help="Time between two reports: 20s, 500ms, 1m.")
    ] = "20s",
    usage: Annotated[
        UsageSource,
        typer.Option(
            envvar="SANDBERTH_USAGE", help="metrics: from metrics.k8s.io; requests: what is requested; none: left out."
        ),
    ] = UsageSource.METRICS,
    phase: Annotated[
        Phase,
        typer.Option(envvar="SANDBERTH_PHASE", help="sync: all nodes at once; staggered: spread over the interval."),
    ] = Phase.SYNC,
    kubeconfig: Annotated[
        Path | None,
        typer.Option(envvar="SANDBERTH_KUBECONFIG", help="Kubeconfig; default: $KUBECONFIG, else in-cluster."),
    ] = None,
    metrics_port: Annotated[
        int,
        typer.Option(envvar="SANDBERTH_METRICS_PORT", min=0, max=65535, help="Port of probes and metrics; 0: any."),
    ] = 8080,
    metrics_host: Annotated[
        str, typer.Option(envvar="SANDBERTH_METRICS_HOST", help="Address of probes and metrics.")
    ] = "0.0.0.0",  # noqa: S104 - probes and scrapes come from outside the Pod
) -> None:
    """Report what each node holds to its NodeCapacity until stopped; SIGUSR1 reports all nodes at once.

    Example: sandberth reporter --source api --interval 20s --usage requests
    """
    seconds = duration_seconds(interval)
    if source is Source.KUBELET:
        raise SandberthError("--source kubelet comes with a later release; use --source api")
    from sandberth.reporter.api_process import run_process  # noqa: PLC0415 - aiohttp takes its time to import

    settings = ReporterSettings(interval_seconds=seconds, usage=usage, phase=phase)
    run_process(settings, kubeconfig=kubeconfig, host=metrics_host, port=metrics_port)
