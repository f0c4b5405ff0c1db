"""The command line: one line on stderr for what went wrong, exit code 2 for bad usage and 1 for a failure."""

import subprocess
import sys

import pytest
import typer

from sandberth.cli.operator import lease_seconds


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "sandberth", *arguments], capture_output=True, text=True, check=False, timeout=60
    )


@pytest.mark.parametrize(
    "arguments",
    [
        ["nope"],
        ["cluster", "up", "--nodes", "x"],
        ["cluster", "down", "--name", "BAD NAME"],
        ["operator", "--metrics-port", "99999999"],
        ["operator", "one-too-many"],
        ["operator", "--nope"],
        ["operator", "--lease-duration", "1s"],
        ["reporter", "--interval", "soon"],
    ],
)
def test_bad_usage_is_one_line_and_exit_code_2(arguments: list[str]) -> None:
    result = run(*arguments)

    assert result.returncode == 2
    assert result.stdout == ""
    assert len(result.stderr.splitlines()) == 1, result.stderr
    assert result.stderr.startswith("sandberth: ")
    assert "--help" in result.stderr


@pytest.mark.parametrize("command", ["operator", "reporter", "flags"])
def test_a_kubeconfig_that_is_not_there_is_one_line_and_exit_code_1(command: str) -> None:
    result = run(command, "--kubeconfig", "/nowhere/kubeconfig")

    assert result.returncode == 1
    assert len(result.stderr.splitlines()) == 1, result.stderr
    assert "/nowhere/kubeconfig" in result.stderr


@pytest.mark.parametrize(
    "arguments",
    [[], ["operator"], ["reporter"], ["flags"], ["demo"], ["version"], ["cluster"], ["cluster", "up"]],
)
def test_help_of_every_command_answers_and_shows_an_example_where_there_is_something_to_run(
    arguments: list[str],
) -> None:
    result = run(*arguments, "--help")

    assert result.returncode == 0
    assert "Usage" in result.stdout
    assert not arguments or arguments == ["cluster"] or "Example" in result.stdout


def test_version_is_the_packages_own() -> None:
    from sandberth import __version__  # noqa: PLC0415

    assert run("version").stdout == run("--version").stdout == f"sandberth {__version__}\n"


@pytest.mark.parametrize(("text", "seconds"), [("0", 0.0), ("0s", 0.0), ("15", 15.0), ("15s", 15.0), ("1m", 60.0)])
def test_a_lease_lasts_as_long_as_it_says_and_0_is_no_election(text: str, seconds: float) -> None:
    assert lease_seconds(text) == seconds


@pytest.mark.parametrize("text", ["1s", "500ms", "11m", "-5", "soon", ""])
def test_a_lease_that_is_too_short_too_long_or_none_is_refused(text: str) -> None:
    with pytest.raises(typer.BadParameter):
        lease_seconds(text)
