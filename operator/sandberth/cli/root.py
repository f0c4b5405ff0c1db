"""The command `sandberth`: what is said here must stay cheap to import, so that `--help` answers at once."""

import sys
from typing import Annotated, cast

import typer

from sandberth import __version__
from sandberth.cli import cluster, demo, flags, operator, reporter, simulate
from sandberth.core.errors import SandberthError

# Typer brings a click of its own and gives its base class of bad usage no public name.
UsageError = cast("type[typer.BadParameter]", typer.BadParameter.__base__)

app = typer.Typer(
    name="sandberth",
    help="Gives every sandbox its berth: spreads short-lived sandboxes over Kubernetes nodes by load, without a herd.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)
app.command("operator")(operator.run_operator)
app.command("reporter")(reporter.run_reporter)
app.command("flags")(flags.show_flags)
app.command("demo")(demo.run_demo)
app.command("simulate")(simulate.simulate)
app.add_typer(cluster.app, name="cluster")


@app.command("version")
def version() -> None:
    """Print the version.

    Example: sandberth version
    """
    typer.echo(f"sandberth {__version__}")


@app.callback(invoke_without_command=True)
def options(
    *,
    version: Annotated[bool, typer.Option("--version", help="Print the version and leave.")] = False,
) -> None:
    """Take the options that stand before a command."""
    if version:
        typer.echo(f"sandberth {__version__}")
        raise typer.Exit


def main() -> None:
    """Run the command line: an error is one line on stderr, with exit code 2 for bad usage and 1 for a failure."""
    try:
        code = app(standalone_mode=False)
    except UsageError as error:
        command = error.ctx.command_path if error.ctx is not None else "sandberth"
        message = error.format_message().rstrip(".")
        if message:  # a group without a command has shown its help, and there is no more to say
            typer.echo(f"sandberth: {message}. See {command} --help.", err=True)
        code = 2
    except SandberthError as error:
        typer.echo(f"sandberth: {error}", err=True)
        code = 1
    except (KeyboardInterrupt, typer.Abort):
        code = 130
    sys.exit(code)
