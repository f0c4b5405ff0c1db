"""`sandberth simulate`: the herd, the cure and the effect of every knob, without a cluster."""

import json
from collections.abc import Callable
from enum import StrEnum
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sandberth.cli.outcome import interruptible
from sandberth.core.errors import SandberthError
from sandberth.core.sampling import Sampler
from sandberth.sim import options
from sandberth.sim.distributions import parse_times

if TYPE_CHECKING:
    from sandberth.sim.engine import Outcome
    from sandberth.sim.settings import Settings

_WORK, _NODES, _OPERATOR = "What is asked for", "Nodes and reports", "The operator"
_RESULT = "Runs and output"


class ScenarioName(StrEnum):
    """The scenarios that have a name."""

    ARTICLE = "article"
    NO_REPORTS = "no-reports"
    STORM = "storm"
    CHURN = "churn"
    UNEQUAL = "unequal"
    BURST = "burst"
    CHAOS = "chaos"


class Phase(StrEnum):
    """Whether nodes report in step."""

    SYNC = "sync"
    STAGGERED = "staggered"


class Arrivals(StrEnum):
    """How sandboxes come at a rate."""

    EVEN = "even"
    POISSON = "poisson"


class OutputFormat(StrEnum):
    """How the result is printed."""

    TABLE = "table"
    JSON = "json"


def _option(panel: str, text: str, **limits: Any) -> Any:
    return typer.Option(help=text, rich_help_panel=panel, show_default=False, **limits)


def simulate(
    *,
    scenario: Annotated[
        ScenarioName, typer.Option(help="Where the defaults of all other options come from; see above.")
    ] = ScenarioName.ARTICLE,
    duration: Annotated[float | None, _option(_WORK, "Seconds of a run. (article: 25)", min=0.1, max=86_400)] = None,
    rate: Annotated[str | None, _option(_WORK, "Sandboxes a second: 20, or 2/node. (article: 20)")] = None,
    arrivals: Annotated[Arrivals | None, _option(_WORK, "How they come at that rate. (article: even)")] = None,
    burst: Annotated[
        int | None,
        _option(_WORK, "Sandboxes at the start, in place of a rate (give --rate to have both).", min=0, max=5_000_000),
    ] = None,
    burst_seconds: Annotated[
        float | None, _option(_WORK, "Within how many seconds those come. (article: 1)", min=0, max=86_400)
    ] = None,
    sandbox_cpu: Annotated[
        str | None, _option(_WORK, "CPUs of a sandbox; of several, each is as likely: 1,2,4. (article: 1)")
    ] = None,
    lifetime: Annotated[str | None, _option(_WORK, "Time until a sandbox is deleted; 0 = never. (article: 0)")] = None,
    self_exit: Annotated[
        float | None, _option(_WORK, "Share of the sandboxes that end by themselves before that.", min=0, max=1)
    ] = None,
    create_latency: Annotated[
        str | None, _option(_WORK, "Time from a create to its answer; deletes take as long. (article: 0.001)")
    ] = None,
    usage_ratio: Annotated[
        float | None, _option(_WORK, "Share of its CPU that a sandbox really uses. (article: 1)", min=0, max=100)
    ] = None,
    nodes: Annotated[int | None, _option(_NODES, "How many. (article: 10)", min=1, max=100_000)] = None,
    node_cpu: Annotated[
        str | None, _option(_NODES, "CPUs of a node; several are repeated over the nodes. (article: 192)")
    ] = None,
    noise: Annotated[
        int | None, _option(_NODES, "CPUs of other pods on a node, at most. (article: 4)", min=0, max=10_000)
    ] = None,
    heartbeat: Annotated[
        str | None, _option(_NODES, "Time between two reports of a node, or none. (article: 20)")
    ] = None,
    heartbeat_phase: Annotated[
        Phase | None, _option(_NODES, "Whether all nodes report at once. (article: sync)")
    ] = None,
    report_loss: Annotated[float | None, _option(_NODES, "Share of the reports that are lost.", min=0, max=1)] = None,
    report_delay: Annotated[str | None, _option(_NODES, "Time from a snapshot to its arrival. (article: 0)")] = None,
    node_failures: Annotated[
        int | None, _option(_NODES, "Nodes that fail in a run, each once, at any time.", min=0, max=100_000)
    ] = None,
    failure_detection: Annotated[
        float | None, _option(_NODES, "Seconds until that is noticed. (40)", min=0, max=86_400)
    ] = None,
    node_repair: Annotated[
        float | None, _option(_NODES, "Seconds from then until the node is back, empty. (60)", min=0, max=86_400)
    ] = None,
    accounting: Annotated[
        str, _option(_OPERATOR, "Views to run: metrics, in-progress, optimistic, reconciled, or all. (all)")
    ] = "all",
    sample_size: Annotated[str | None, _option(_OPERATOR, "Nodes compared for a placement (K), or all. (3)")] = None,
    overcommit: Annotated[int | None, _option(_OPERATOR, "R in percent. (400)", min=1, max=10_000)] = None,
    alpha: Annotated[int | None, _option(_OPERATOR, "Weight of the usage in percent. (50)", min=0, max=10_000)] = None,
    sampler: Annotated[Sampler | None, _option(_OPERATOR, "How the K nodes are picked. (article: uniform)")] = None,
    projected_usage: Annotated[
        bool | None,
        _option(_OPERATOR, "Project the usage between two reports. (article: no)"),
    ] = None,
    too_many_starting: Annotated[
        bool | None, _option(_OPERATOR, "Cap the sandboxes that start on a node at once. (no)")
    ] = None,
    max_starting: Annotated[int | None, _option(_OPERATOR, "That cap. (3)", min=1, max=1_000_000)] = None,
    exit_watch_delay: Annotated[
        str | None,
        _option(_OPERATOR, "Time until the operator sees what became of a Pod; none: it has no watch. (0.2)"),
    ] = None,
    replicas: Annotated[int | None, _option(_OPERATOR, "Active operators, each with a ledger.", min=1, max=100)] = None,
    share_delay: Annotated[
        str | None, _option(_OPERATOR, "Time until one sees what another placed; none: in reports alone. (none)")
    ] = None,
    measure_after: Annotated[
        str | None, _option(_RESULT, "Measure each second from here and average; end: once, at the end. (article: end)")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of everything random.", rich_help_panel=_RESULT, min=0)] = 0,
    repeat: Annotated[
        int, typer.Option(help="Runs, each with another workload.", rich_help_panel=_RESULT, min=1, max=100_000)
    ] = 1,
    workers: Annotated[
        int | None, _option(_RESULT, "Processes; the result does not depend on them. (one a core)", min=1, max=1024)
    ] = None,
    output: Annotated[OutputFormat, typer.Option(rich_help_panel=_RESULT)] = OutputFormat.TABLE,
    plot: Annotated[Path | None, _option(_RESULT, "A picture of the first run: FILE.png or FILE.svg.")] = None,
) -> None:
    """Run the production placement and ledger in virtual time: the same seed gives the same result on any machine.

    Scenarios: article (500 sandboxes in 25 s on 10 nodes, reports at 20 s), no-reports, burst (500 within a second),
    churn (they come and go), storm (churn with slow creates, late and lost reports), unequal (nodes of 48 to 192 CPUs),
    chaos (two operators, failing nodes, everything at once).

    Times are in seconds: X, A-B (uniform), exp:X (mean X) or lognormal:X,S (median X, sigma S).

    Measures: CV of counts is the article's; CV of allocated/capacity is the honest one, because an exact balancer also
    levels what else runs on a node. Each view is a run of its own on the same workload. undercount: how often a view
    counted less on a node than it held or might still get; overcount: the most CPU it ever counted too much.

    Example: sandberth simulate --scenario storm --accounting optimistic,reconciled --repeat 5
    """
    given = {
        "duration": duration,
        "arrivals": arrivals and arrivals.value,
        "burst": burst,
        "burst_seconds": burst_seconds,
        "self_exit": self_exit,
        "usage_ratio": usage_ratio,
        "nodes": nodes,
        "noise": noise,
        "heartbeat_phase": heartbeat_phase and heartbeat_phase.value,
        "report_loss": report_loss,
        "node_failures": node_failures,
        "failure_detection": failure_detection,
        "node_repair": node_repair,
        "overcommit": overcommit,
        "alpha": alpha,
        "sampler": sampler,
        "projected_usage": projected_usage,
        "too_many_starting": too_many_starting,
        "max_starting": max_starting,
        "replicas": replicas,
    }
    changes = {name: value for name, value in given.items() if value is not None}
    if burst and rate is None:
        changes |= {"rate": 0.0, "rate_is_per_node": False}
    parsers: list[tuple[str, str | None, Callable[[str], dict[str, Any]]]] = [
        ("rate", rate, lambda text: dict(zip(("rate", "rate_is_per_node"), options.rate(text), strict=True))),
        ("sandbox-cpu", sandbox_cpu, lambda text: {"sandbox_cpu": options.sizes(text)}),
        ("node-cpu", node_cpu, lambda text: {"node_cpu": options.sizes(text)}),
        ("lifetime", lifetime, lambda text: {"lifetime": parse_times(text)}),
        ("create-latency", create_latency, lambda text: {"create_latency": parse_times(text)}),
        ("report-delay", report_delay, lambda text: {"report_delay": parse_times(text)}),
        ("heartbeat", heartbeat, lambda text: {"heartbeat": options.period_or_none(text)}),
        ("exit-watch-delay", exit_watch_delay, lambda text: {"exit_watch_delay": options.times_or_none(text)}),
        ("share-delay", share_delay, lambda text: {"share_delay": options.times_or_none(text)}),
        ("sample-size", sample_size, lambda text: {"sample_size": options.sample_size(text)}),
        ("measure-after", measure_after, lambda text: {"measure_after": options.seconds_or_end(text)}),
        ("accounting", accounting, lambda text: {"accounting": options.views(text)}),
    ]
    for name, text, parse in parsers:
        if text is not None:
            changes |= _parsed(name, text, parse)
    _check_plot(plot)
    _simulate(scenario.value, changes | {"seed": seed, "repeat": repeat}, workers, output, plot)


def _simulate(
    scenario: str, changes: dict[str, Any], workers: int | None, output: OutputFormat, plot: Path | None
) -> None:
    from dataclasses import replace  # noqa: PLC0415

    from sandberth.sim.progress import progress_bar  # noqa: PLC0415
    from sandberth.sim.runs import as_json, run_all  # noqa: PLC0415
    from sandberth.sim.scenarios import SCENARIOS  # noqa: PLC0415

    settings = replace(SCENARIOS[scenario].settings(scenario), **changes)
    if settings.measure_after is not None and settings.measure_after > settings.duration:
        raise typer.BadParameter("is later than the end of a run", param_hint="'--measure-after'")
    with interruptible(), progress_bar(f"{scenario}, {settings.repeat * len(settings.accounting)} runs") as progress:
        outcomes = run_all(settings, workers, progress)
    results = as_json(settings, outcomes)
    if output is OutputFormat.JSON:
        typer.echo(json.dumps(results, indent=2))
    else:
        _print(results)
    if plot is not None:
        _save(settings, outcomes, plot)


def _print(results: dict[str, Any]) -> None:
    from rich.console import Console  # noqa: PLC0415

    from sandberth.sim.text import LEGEND, WIDTH, histograms, table  # noqa: PLC0415

    typer.echo(histograms(results["results"]) + "\n")
    Console(highlight=False, width=WIDTH).print(table(results["results"], results["runs"]))
    typer.echo(f"\n{LEGEND}")


def _save(settings: "Settings", outcomes: "list[Outcome]", path: Path) -> None:
    from sandberth.sim.plot import save_plot  # noqa: PLC0415

    try:
        save_plot(settings, outcomes, path)
    except OSError as error:
        raise SandberthError(f"--plot: {error}") from error
    typer.echo(f"picture: {path}", err=True)


def _check_plot(path: Path | None) -> None:
    """Say before a long run what would keep its picture from being written."""
    if path is None:
        return
    if path.suffix not in {".png", ".svg"}:
        raise typer.BadParameter("must end in .png or .svg", param_hint="'--plot'")
    if not path.parent.is_dir():
        raise SandberthError(f"--plot: there is no folder {path.parent}")
    if find_spec("matplotlib") is None:
        raise SandberthError("--plot needs matplotlib: pip install 'sandberth[plot]'")


def _parsed(name: str, text: str, parse: Callable[[str], dict[str, Any]]) -> dict[str, Any]:
    try:
        return parse(text)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint=f"'--{name}'") from error
