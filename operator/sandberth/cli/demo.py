"""`sandberth demo`: the herd and its cures, on a real API server of this machine."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sandberth.cli.outcome import interruptible, one_line_errors, this_command
from sandberth.cli.reporter import duration_seconds
from sandberth.demo.parameters import SETTINGS, Parameters

if TYPE_CHECKING:
    from sandberth.demo.statistics import Outcome

_DEFAULTS = Parameters()


def _settings(value: str) -> str:
    unknown = [each for each in value.split(",") if each not in SETTINGS]
    if unknown:
        raise typer.BadParameter(f"{unknown[0]!r} is none of {', '.join(SETTINGS)}")
    return value


def run_demo(
    *,
    keep: Annotated[bool, typer.Option("--keep", help="Leave the bed up, with the last Sandboxes running.")] = False,
    count: Annotated[int, typer.Option(min=1, max=20_000, help="Sandboxes in each burst.")] = _DEFAULTS.count,
    rate: Annotated[float, typer.Option(min=0.1, max=1000, help="Sandboxes a second.")] = _DEFAULTS.rate,
    nodes: Annotated[int, typer.Option(min=1, max=1000, help="Nodes of 192 CPUs.")] = _DEFAULTS.nodes,
    interval: Annotated[str, typer.Option(help="Time between two reports of a node: 20s, 500ms, 1m.")] = "20s",
    output_dir: Annotated[Path, typer.Option(help="Where demo.json, demo.png and demo.svg go.")] = Path("build"),
    seed: Annotated[int, typer.Option(min=0, help="Seed of the other load and of the random choices.")] = 0,
    settings: Annotated[str, typer.Option(callback=_settings, help="Which bursts, in this order.")] = ",".join(
        SETTINGS
    ),
    check: Annotated[bool, typer.Option(help="Exit with 1 where a burst does not show what it should.")] = True,
) -> None:
    """Show the herd and its cures: the same burst of Sandboxes, placed without and with Sandberth's accounting.

    Three bursts on a control plane of this machine, each right after a report of every node, which ages meanwhile:
    off (only reports count), optimistic (what was started and deleted since counts too), reconciled (every Sandbox
    counts once, by its ID). Takes about two minutes once the control plane is built. The control plane is a bed named
    demo, made for this run: one of that name that is up already is replaced.

    Example: sandberth demo --keep
    """
    parameters = Parameters(
        count=count,
        rate=rate,
        nodes=nodes,
        interval_seconds=duration_seconds(interval),
        seed=seed,
        settings=tuple(dict.fromkeys(settings.split(","))),
        check=check,
        keep=keep,
    )
    with one_line_errors(), interruptible():
        from sandberth.demo.display import display_for_stderr  # noqa: PLC0415
        from sandberth.demo.results import results, save_results  # noqa: PLC0415
        from sandberth.demo.story import tell  # noqa: PLC0415

        _make(output_dir)
        shown: list[Outcome] = []

        def show(outcome: "Outcome") -> None:
            shown.append(outcome)
            _print_burst(outcome, max(count for each in shown for count in each.counts))

        outcomes, wrong = tell(parameters, display_for_stderr(), show)
    save_results(results(parameters, outcomes, wrong), output_dir / "demo.json")
    _print_summary(outcomes)
    typer.echo(f"numbers:  {output_dir / 'demo.json'}")
    typer.echo(_plot_line(parameters, outcomes, output_dir))
    if keep:
        _print_how_to_look(parameters.bed)
    for line in wrong:
        typer.echo(f"sandberth: {line}", err=True)
    if wrong:
        _print_pace(parameters, outcomes)
        raise typer.Exit(1)


def _make(directory: Path) -> None:
    from sandberth.core.errors import SandberthError  # noqa: PLC0415

    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SandberthError(f"--output-dir: {error}") from error


def _print_burst(outcome: "Outcome", most: int) -> None:
    from sandberth.sim.histogram import histogram  # noqa: PLC0415

    values = outcome.as_json()
    typer.echo(f"\n{outcome.setting}: {outcome.running} of {outcome.asked} Running after {outcome.seconds:.1f} s")
    typer.echo(histogram(outcome.nodes, outcome.counts, most))
    typer.echo(
        f"max {values['max']}, min {values['min']}, CV of counts {outcome.cv_count:.3f}, "
        f"CV of allocated/capacity {outcome.cv_allocated:.3f}\n"
    )


def _print_summary(outcomes: "list[Outcome]") -> None:
    from rich.console import Console  # noqa: PLC0415
    from rich.table import Table  # noqa: PLC0415

    table = Table(box=None, header_style="bold", pad_edge=False)
    table.add_column("SETTING")
    for heading in ("CV OF COUNTS", "CV OF ALLOCATED", "MAX", "MIN", "RUNNING", "SECONDS"):
        table.add_column(heading, justify="right")
    for outcome in outcomes:
        values = outcome.as_json()
        table.add_row(
            outcome.setting,
            f"{outcome.cv_count:.3f}",
            f"{outcome.cv_allocated:.3f}",
            *(str(values[key]) for key in ("max", "min", "running")),
            f"{outcome.seconds:.1f}",
        )
    Console(highlight=False).print(table)
    typer.echo("")


def _plot_line(parameters: Parameters, outcomes: "list[Outcome]", directory: Path) -> str:
    from sandberth.demo.plot import save_plot  # noqa: PLC0415

    try:
        paths = save_plot(parameters, outcomes, directory)
    except ImportError:
        return "picture:  none, because matplotlib is missing; pip install 'sandberth[plot]' and run again"
    return f"picture:  {', '.join(map(str, paths))}"


def _print_pace(parameters: Parameters, outcomes: "list[Outcome]") -> None:
    from sandberth.demo.statistics import kept_pace  # noqa: PLC0415

    slow = [outcome for outcome in outcomes if not kept_pace(outcome, parameters.rate)]
    if slow:
        worst = max(slow, key=lambda outcome: outcome.seconds)
        typer.echo(
            f"note: this machine did not keep the pace: {worst.setting} took {worst.seconds:.0f} s instead of "
            f"{parameters.count / parameters.rate:.0f} s, and more reports came in than the story is about; "
            "run it again with less beside it, or with a lower --rate and --count",
            err=True,
        )


def _print_how_to_look(name: str) -> None:
    typer.echo(f'\nthe bed is up; point your shell at it:  eval "$({this_command()} cluster env --name {name})"')
    typer.echo("  kubectl get nodecapacities -o wide")
    typer.echo("  kubectl -n demo get sandboxes -o wide | head")
    typer.echo("  kubectl -n demo describe sandbox sandbox-00000   # why it is where it is")
    typer.echo(f"stop it:  {this_command()} cluster down --name {name}")
