"""`sandberth cluster`: a Kubernetes cluster on this machine to try Sandberth on.

The bed itself is imported inside the commands, so that `--help` stays quick.
"""

import json
import os
import re
from dataclasses import asdict
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sandberth.cli import kindbed
from sandberth.cli.outcome import command_folder, interruptible, one_line_errors, this_command
from sandberth.cli.reporter import duration_seconds
from sandberth.reporter.settings import UsageSource

if TYPE_CHECKING:
    from sandberth.cluster.kind.cluster import KindCluster
    from sandberth.cluster.local import LocalCluster
    from sandberth.cluster.state import BedOptions

app = typer.Typer(
    name="cluster",
    help="Start and stop a bed: a Kubernetes cluster on this machine, to try Sandberth on.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

_LOCAL_OPTIONS = ("scheduler", "node_cpu", "node_memory", "node_pods", "audit", "report_interval", "usage")
_KIND_OPTIONS = ("node_image", "build", "samples")
_CPU = re.compile(r"[1-9]\d*m?")
_MEMORY = re.compile(r"[1-9]\d*([kMGTPE]|[KMGTPE]i)?")


class Provider(StrEnum):
    """Which kind of test bed."""

    LOCAL = "local"
    KIND = "kind"


class Output(StrEnum):
    """How to print."""

    TABLE = "table"
    JSON = "json"


def _bed_name(value: str) -> str:
    from sandberth.cluster.places import is_bed_name  # noqa: PLC0415

    if not is_bed_name(value):
        raise typer.BadParameter(f"{value!r}: use 1 to 40 of a-z, 0-9 and inner dashes")
    return value


def _quantity(pattern: re.Pattern[str], example: str, value: str) -> str:
    if not pattern.fullmatch(value):
        raise typer.BadParameter(f"{value!r} is no such quantity; write it like {example}")
    return value


def _cpu(value: str) -> str:
    return _quantity(_CPU, "192 or 500m", value)


def _memory(value: str) -> str:
    return _quantity(_MEMORY, "512Gi", value)


Name = Annotated[str, typer.Option(help="The bed; several can be up at once.", callback=_bed_name)]
ProviderOption = Annotated[
    Provider,
    typer.Option(help="local: nodes and kubelets are played by kwok. kind: real kubelets, in containers of Docker."),
]
ProviderOfBed = Annotated[Provider | None, typer.Option(help="local or kind; left out, what the bed of this name is.")]


@app.command()
def up(
    context: typer.Context,
    *,
    name: Name = "default",
    provider: ProviderOption = Provider.LOCAL,
    nodes: Annotated[
        int | None, typer.Option(min=0, help="How many nodes; of a kind bed, workers.", show_default="3; kind: 2")
    ] = None,
    scheduler: Annotated[bool, typer.Option(help="Also start kube-scheduler (local).")] = False,
    node_cpu: Annotated[str, typer.Option(help="CPUs of each node (local).", callback=_cpu)] = "192",
    node_memory: Annotated[str, typer.Option(help="Memory of each node (local).", callback=_memory)] = "512Gi",
    node_pods: Annotated[int, typer.Option(min=1, help="Pods that each node takes (local).")] = 500,
    audit: Annotated[bool, typer.Option(help="Log the writes of Sandberth's service accounts (local).")] = True,
    operator: Annotated[
        bool, typer.Option(help="Install Sandberth and run it; without, there is a control plane with nodes alone.")
    ] = True,
    report_interval: Annotated[str, typer.Option(help="Time between two reports of a node (local): 20s, 1m.")] = "20s",
    usage: Annotated[
        UsageSource,
        typer.Option(
            help="What reports give as usage (local). Nothing really runs on these nodes, and they have no "
            "metrics.k8s.io: requests reports what is requested, none leaves it out."
        ),
    ] = UsageSource.REQUESTS,
    node_image: Annotated[
        str,
        typer.Option(
            help="Image of the nodes (kind). auto: kind's own where a registry answers, else one built here; own: one "
            "built here; or the name of an image."
        ),
    ] = "auto",
    build: Annotated[bool, typer.Option(help="Build the image sandberth:dev, or take it as it is (kind).")] = True,
    samples: Annotated[bool, typer.Option("--samples", help="Also run six sample Sandboxes (kind).")] = False,
) -> None:
    """Start a bed with Sandberth running in it; what is up already is left as it is.

    The first time, its programs are built with Go (6 to 25 minutes; for kind 12 to 25, unless its registry answers);
    after that a local bed is up in seconds, a kind bed in a minute.

    In a local bed, operator and reporter are processes of this machine; one that died is started again by the same
    command. In a kind bed they run as pods, from the image that is built of this checkout.

    Example: sandberth cluster up --nodes 10 --node-cpu 64 --node-memory 256Gi

    Example: sandberth cluster up --provider kind --nodes 2 --samples
    """
    _check_options(context, provider)
    if provider is Provider.KIND:
        kindbed.up(name, 2 if nodes is None else nodes, node_image, operator=operator, build=build, samples=samples)
        return
    nodes = 3 if nodes is None else nodes
    interval = f"{duration_seconds(report_interval):g}s"
    with one_line_errors(), interruptible():
        from sandberth.cluster import services  # noqa: PLC0415
        from sandberth.cluster.local import LocalCluster  # noqa: PLC0415
        from sandberth.cluster.progress import progress_for_stderr  # noqa: PLC0415
        from sandberth.cluster.state import BedOptions  # noqa: PLC0415

        progress = progress_for_stderr()
        was_up = LocalCluster(name).healthy()
        asked = BedOptions(nodes, node_cpu, node_memory, node_pods, scheduler, audit)
        if was_up:
            asked = _as_it_is(LocalCluster(name), asked, context)
        bed = LocalCluster.up(name, **asdict(asked), progress=progress)
        if operator:
            try:
                services.start_all(bed, interval=interval, usage=usage.value, progress=progress)
            except BaseException:
                if not was_up:
                    bed.down(keep_logs=True)
                raise
        sandberth_runs = bool(services.running(bed))
    selector = "" if name == "default" else f" --name {name}"
    typer.echo(f"bed {name} is up at {bed.server}")
    typer.echo(f'point your shell at it:  eval "$({this_command()} cluster env{selector})"')
    if sandberth_runs:
        typer.echo("look at it:              kubectl get nodecapacities,sandboxes -A -o wide")
    typer.echo(f"logs:                    {bed.directory / 'logs'}")
    typer.echo(f"stop it:                 {this_command()} cluster down{selector}")


def _as_it_is(bed: "LocalCluster", asked: "BedOptions", context: typer.Context) -> "BedOptions":
    """Return the options of a bed that is up. Raises ClusterError where one that was typed differs."""
    from sandberth.cluster.errors import ClusterError  # noqa: PLC0415

    wanted, present = asdict(asked), asdict(bed.options)
    different = [
        f"--{option.replace('_', '-')} is {value}, not {wanted[option]}"
        for option, value in present.items()
        if value != wanted[option] and _is_typed(context, option)
    ]
    if different:
        raise ClusterError(f"bed {bed.name} is up: {'; '.join(different)}; take it down first to change that")
    return bed.options


@app.command()
def build(provider: ProviderOption = Provider.LOCAL) -> None:
    """Build what a bed is made of without starting any of it; what is built already is kept.

    For kind that is the image of the nodes, unless kind's own can be had, and the image of Sandberth.

    Example: sandberth cluster build
    """
    with one_line_errors(), interruptible():
        if provider is Provider.KIND:
            kindbed.build()
            return
        from sandberth.cluster.programs import LOCAL_PROGRAMS, ensure_programs  # noqa: PLC0415
        from sandberth.cluster.progress import progress_for_stderr  # noqa: PLC0415

        directory = ensure_programs(LOCAL_PROGRAMS, progress_for_stderr())
    typer.echo(f"the programs of the local bed are in {directory}")


@app.command()
def image(
    tag: Annotated[str, typer.Option(help="Name of the image.")] = "sandberth:dev",
    base: Annotated[
        str | None,
        typer.Option(
            help="Image to build on, with Python 3.11.", show_default="python:3.11-slim where a registry answers"
        ),
    ] = None,
) -> None:
    """Build the image of Sandberth from this checkout, also where no build can reach a registry or a package index.

    Example: sandberth cluster image --tag sandberth:mine
    """
    with one_line_errors(), interruptible():
        kindbed.image(tag, base)


@app.command()
def load(
    images: Annotated[list[str], typer.Argument(help="Images of this machine's Docker.")],
    name: Name = "default",
) -> None:
    """Load images into every node of a kind bed that lacks them.

    Example: sandberth cluster load my-sandbox:v1 --name default
    """
    with one_line_errors(), interruptible():
        kindbed.load(name, images)


@app.command()
def down(
    name: Name = "default",
    provider: ProviderOfBed = None,
    keep_logs: Annotated[bool, typer.Option("--keep-logs", help="Leave the logs folder.")] = False,
) -> None:
    """Stop a bed and remove its folder; a bed that is not there is fine.

    Example: sandberth cluster down --name default
    """
    with one_line_errors():
        bed = _bed(name, provider)
        existed = bed.directory.exists()
        bed.down(keep_logs=keep_logs)
    typer.echo(f"bed {name} is down" if existed else f"there is no bed {name}")
    if existed and keep_logs:
        typer.echo(f"its logs are in {bed.directory / 'logs'}")


@app.command()
def status(
    name: Name = "default",
    provider: ProviderOfBed = None,
    output: Annotated[Output, typer.Option("--output", "-o", help="How to print.")] = Output.TABLE,
) -> None:
    """Show what runs in a bed; the exit code is 0 when it is up and 1 when it is not.

    Example: sandberth cluster status --output json
    """
    with one_line_errors():
        report = _bed(name, provider).status()
    typer.echo(json.dumps(report, indent=2) if output is Output.JSON else _status_text(report))
    if report["state"] != "up":
        raise typer.Exit(1)


@app.command()
def env(name: Name = "default", provider: ProviderOfBed = None) -> None:
    """Print the shell lines that point kubectl at a bed, and put the bed's own kubectl on PATH.

    Example: eval "$(sandberth cluster env)" && kubectl get nodes
    """
    with one_line_errors():
        from sandberth.cluster.errors import ClusterError  # noqa: PLC0415

        bed = _bed(name, provider)
        if not bed.exists():
            raise ClusterError(f"there is no bed {name}; start it with: {bed.start_command}")
        lines = bed.environment(os.environ.get("PATH", ""), command_folder())
    typer.echo("\n".join(lines))


def _bed(name: str, provider: Provider | None) -> "LocalCluster | KindCluster":
    """Return the bed of this name: as asked for, or as it is. Raises ClusterError where these differ."""
    from sandberth.cluster.errors import ClusterError  # noqa: PLC0415
    from sandberth.cluster.kind.cluster import KindCluster  # noqa: PLC0415
    from sandberth.cluster.local import LocalCluster  # noqa: PLC0415

    kind, local = KindCluster(name), LocalCluster(name)
    present = Provider.KIND if kind.exists() else Provider.LOCAL if local.exists() else None
    if provider is not None and present is not None and provider is not present:
        raise ClusterError(f"bed {name} is a {present} bed, not {provider}")
    return kind if (provider or present) is Provider.KIND else local


def _check_options(context: typer.Context, provider: Provider) -> None:
    """Raise BadParameter for an option that was typed and means nothing to this provider."""
    foreign = _KIND_OPTIONS if provider is Provider.LOCAL else _LOCAL_OPTIONS
    for option in foreign:
        if _is_typed(context, option):
            other = Provider.KIND if provider is Provider.LOCAL else Provider.LOCAL
            raise typer.BadParameter(f"--{option.replace('_', '-')} goes with --provider {other} only")


def _is_typed(context: typer.Context, option: str) -> bool:
    source = context.get_parameter_source(option)
    return source is not None and source.name != "DEFAULT"


def _status_text(report: dict[str, Any]) -> str:
    lines = [f"{'bed':<12}{report['name']}", f"{'state':<12}{report['state']}"]
    if report["state"] == "down":
        return "\n".join(lines)
    nodes = report["nodes"]
    counted = "the API server does not answer" if nodes is None else f"{nodes['ready']} of {nodes['total']} Ready"
    lines += [
        f"{'server':<12}{report['server']}",
        f"{'kubeconfig':<12}{report['kubeconfig']}",
        f"{'nodes':<12}{counted}",
    ]
    if "containers" in report:
        return "\n".join([*lines, "", *kindbed.container_lines(report, nodes)])
    lines += ["", f"{'PROGRAM':<26}{'PID':<10}{'MEMORY':<10}LOG"]
    for program in report["programs"]:
        pid = str(program["pid"]) if program["running"] else "stopped"
        memory = f"{program['memory_bytes'] / 2**20:.0f}Mi"
        lines.append(f"{program['name']:<26}{pid:<10}{memory:<10}{program['log']}")
    if not all(program["running"] for program in report["programs"]):
        selector = "" if report["name"] == "default" else f" --name {report['name']}"
        lines += ["", f"start what is stopped with: {this_command()} cluster up{selector}"]
    return "\n".join(lines)
