"""`sandberth reporter`: the process that reports what nodes hold."""

import re
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from sandberth.core.resources import Resources
from sandberth.reporter.settings import KubeletSettings, Phase, ReporterSettings, UsageSource


class Source(StrEnum):
    """Where a node's pods are read."""

    API = "api"
    KUBELET = "kubelet"


_KUBELET = "With --source kubelet"
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
            help="api: one process for all nodes; kubelet: one process on each node, from its own kubelet.",
        ),
    ] = Source.API,
    interval: Annotated[
        str, typer.Option(envvar="SANDBERTH_INTERVAL", help="Time between two reports: 20s, 500ms, 1m.")
    ] = "20s",
    usage: Annotated[
        UsageSource,
        typer.Option(
            envvar="SANDBERTH_USAGE",
            help="metrics: measured, by metrics.k8s.io or the kubelet; requests: what is requested; none: left out.",
        ),
    ] = UsageSource.METRICS,
    phase: Annotated[
        Phase,
        typer.Option(
            envvar="SANDBERTH_PHASE",
            help="With --source api: sync, all nodes at once; staggered, spread over the interval.",
        ),
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
    node_name: Annotated[
        str, typer.Option(envvar="SANDBERTH_NODE_NAME", help="The node to report.", rich_help_panel=_KUBELET)
    ] = "",
    kubelet_address: Annotated[
        str,
        typer.Option(
            envvar="SANDBERTH_KUBELET_ADDRESS",
            help="Where its kubelet listens; default: the node's name.",
            rich_help_panel=_KUBELET,
        ),
    ] = "",
    kubelet_port: Annotated[
        int,
        typer.Option(
            envvar="SANDBERTH_KUBELET_PORT", min=1, max=65535, help="The kubelet's port.", rich_help_panel=_KUBELET
        ),
    ] = 10_250,
    kubelet_ca: Annotated[
        Path | None,
        typer.Option(
            envvar="SANDBERTH_KUBELET_CA",
            help="What the kubelet's certificate is verified with; default: the cluster's authority.",
            rich_help_panel=_KUBELET,
        ),
    ] = None,
    kubelet_server_name: Annotated[
        str,
        typer.Option(
            envvar="SANDBERTH_KUBELET_SERVER_NAME",
            help="The name that the certificate is for; default: the address.",
            rich_help_panel=_KUBELET,
        ),
    ] = "",
    kubelet_insecure_tls: Annotated[
        bool,
        typer.Option(
            "--kubelet-insecure-tls",
            envvar="SANDBERTH_KUBELET_INSECURE_TLS",
            help="Do not verify the kubelet's certificate.",
            rich_help_panel=_KUBELET,
        ),
    ] = False,
    allocatable_millicores: Annotated[
        int,
        typer.Option(
            envvar="SANDBERTH_ALLOCATABLE_MILLICORES",
            min=0,
            help="CPU of the node, for people to read; 0: left out.",
            rich_help_panel=_KUBELET,
        ),
    ] = 0,
    allocatable_bytes: Annotated[
        int,
        typer.Option(
            envvar="SANDBERTH_ALLOCATABLE_BYTES",
            min=0,
            help="Memory of the node, for people to read; 0: left out.",
            rich_help_panel=_KUBELET,
        ),
    ] = 0,
    pod_uid: Annotated[
        str,
        typer.Option(
            envvar="SANDBERTH_POD_UID",
            help="UID of this very pod: a kubelet that does not list it has just started, and is not believed.",
            rich_help_panel=_KUBELET,
        ),
    ] = "",
) -> None:
    """Report what each node holds to its NodeCapacity until stopped; SIGUSR1 reports at once.

    Example: sandberth reporter --source api --interval 20s --usage requests
    """
    seconds = duration_seconds(interval)
    if source is Source.KUBELET:
        if not node_name:
            raise typer.BadParameter("--source kubelet needs --node-name")
        if kubelet_insecure_tls and kubelet_ca is not None:
            raise typer.BadParameter("--kubelet-insecure-tls and --kubelet-ca exclude each other")
        from sandberth.reporter import kubelet_process  # noqa: PLC0415 - each source loads what it needs

        kubelet_process.become_process(
            KubeletSettings(
                node_name=node_name,
                address=kubelet_address or node_name,
                port=kubelet_port,
                authority=str(kubelet_ca or ""),
                server_name=kubelet_server_name,
                insecure_tls=kubelet_insecure_tls,
                pod_uid=pod_uid,
                allocatable=Resources(allocatable_millicores, allocatable_bytes),
                interval_seconds=seconds,
                usage=usage,
                kubeconfig=str(kubeconfig or ""),
                metrics_host=metrics_host,
                metrics_port=metrics_port,
            )
        )
    from sandberth.reporter import api_process  # noqa: PLC0415 - aiohttp takes its time to import

    settings = ReporterSettings(interval_seconds=seconds, usage=usage, phase=phase)
    api_process.run_process(settings, kubeconfig=kubeconfig, host=metrics_host, port=metrics_port)
