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


@pytest.mark.parametrize("command", ["up", "down", "status", "env", "build", "image", "load"])
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
        ["up", "--provider", "kind", "--node-cpu", "4"],
        ["up", "--provider", "kind", "--no-audit"],
        ["up", "--samples"],
        ["up", "--node-image", "own"],
    ],
)
def test_bad_usage_is_exit_code_2(cli: CliRunner, arguments: list[str]) -> None:
    assert cli.invoke(app, arguments).exit_code == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["env", "--name", "x"], "sandberth: there is no bed x; start it with: sandberth cluster up --name x\n"),
        (
            ["env", "--name", "x", "--provider", "kind"],
            "sandberth: there is no bed x; start it with: sandberth cluster up --provider kind --name x\n",
        ),
        (
            ["load", "image", "--name", "x"],
            "sandberth: there is no kind bed x; start it with: sandberth cluster up --provider kind --name x\n",
        ),
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


def test_kind_without_docker_says_what_to_install(
    cli: CliRunner, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))

    answer = cli.invoke(app, ["up", "--provider", "kind"])

    assert (answer.exit_code, answer.stdout) == (1, "")
    assert len(answer.stderr.splitlines()) == 1
    assert "there is no docker on PATH: install it (on Debian and Ubuntu: apt-get install docker.io)" in answer.stderr


def test_kind_with_a_docker_that_does_not_answer_says_what_to_start(
    cli: CliRunner, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    docker = tmp_path / "docker"
    docker.write_text("#!/bin/sh\necho 'Cannot connect to the Docker daemon' >&2\nexit 1\n")
    docker.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")

    answer = cli.invoke(app, ["up", "--provider", "kind"])

    assert (answer.exit_code, answer.stdout) == (1, "")
    assert len(answer.stderr.splitlines()) == 1
    assert "(docker version --format failed: Cannot connect to the Docker daemon): start it" in answer.stderr


def a_bed(cache: Path, name: str, state_file: str) -> None:
    folder = cache / "sandberth" / "clusters" / name
    folder.mkdir(parents=True)
    (folder / state_file).write_text("{}")


def test_a_bed_of_the_other_provider_is_left_alone(cli: CliRunner, tmp_path: Path) -> None:
    a_bed(tmp_path, "real", "kind.json")

    asked = cli.invoke(app, ["down", "--name", "real", "--provider", "local"])
    started = cli.invoke(app, ["up", "--name", "real"])

    assert asked.stderr == "sandberth: bed real is a kind bed, not local\n"
    assert started.stderr == "sandberth: real is a kind bed; take it down first, or choose another --name\n"
    assert (tmp_path / "sandberth/clusters/real/kind.json").exists()
