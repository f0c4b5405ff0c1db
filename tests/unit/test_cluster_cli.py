import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from sandberth.cli.cluster import app


@pytest.fixture
def cli(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CliRunner:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return CliRunner()


@pytest.mark.parametrize("command", ["up", "down", "status", "env"])
def test_help_shows_an_example(cli: CliRunner, command: str) -> None:
    answer = cli.invoke(app, [command, "--help"])

    assert answer.exit_code == 0
    assert f"sandberth cluster {command}" in " ".join(answer.output.split("Example:")[1].split())


@pytest.mark.parametrize(
    "arguments",
    [
        ["up", "--nodes", "-1"],
        ["up", "--name", "No/Name"],
        ["up", "--node-cpu", "lots"],
        ["up", "--node-memory", "512GB"],
        ["up", "--node-pods", "0"],
        ["status", "--output", "xml"],
        ["up", "--provider", "cloud"],
    ],
)
def test_bad_usage_is_exit_code_2(cli: CliRunner, arguments: list[str]) -> None:
    assert cli.invoke(app, arguments).exit_code == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["up", "--provider", "kind"], "sandberth: --provider kind is not built yet; use --provider local\n"),
        (["env", "--name", "x"], "sandberth: there is no bed x; start it with: sandberth cluster up --name x\n"),
    ],
)
def test_a_failure_is_one_line_on_stderr_and_exit_code_1(cli: CliRunner, arguments: list[str], message: str) -> None:
    answer = cli.invoke(app, arguments)

    assert (answer.exit_code, answer.stdout, answer.stderr) == (1, "", message)


def test_the_status_of_no_bed_is_down_and_exit_code_1(cli: CliRunner) -> None:
    answer = cli.invoke(app, ["status", "--output", "json"])

    assert answer.exit_code == 1
    assert '"state": "down"' in answer.stdout


def test_taking_down_no_bed_is_fine(cli: CliRunner) -> None:
    answer = cli.invoke(app, ["down"])

    assert (answer.exit_code, answer.stdout) == (0, "there is no bed default\n")


def test_the_commands_load_nothing_slow_before_they_run() -> None:
    script = (
        "import sys, sandberth.cli.cluster; "
        "print([m for m in ('kopf', 'kubernetes', 'cryptography', 'aiohttp', 'yaml') if m in sys.modules])"
    )

    answer = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)

    assert answer.stdout == "[]\n"
