"""`sandberth reporter` as a command: its options, its refusals, and what `--help` costs."""

import subprocess
import sys

import pytest
import typer

from sandberth.cli.reporter import duration_seconds

PROGRAM = (
    "import sys; from sandberth.cli.root import main\n"
    "try: main()\n"
    "except SystemExit as end: code = end.code or 0\n"
    "print({'aiohttp', 'kopf', 'kubernetes'} & sys.modules.keys()); sys.exit(code)"
)


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", PROGRAM, *arguments], capture_output=True, text=True, check=False, timeout=60
    )


@pytest.mark.parametrize(
    ("text", "seconds"), [("20s", 20), ("500ms", 0.5), ("1m", 60), ("1h", 3600), ("7", 7), ("0.5", 0.5), (" 2s ", 2)]
)
def test_durations(text: str, seconds: float) -> None:
    assert duration_seconds(text) == seconds


@pytest.mark.parametrize("text", ["", "s", "-1s", "1 s", "20x", "nan", "99ms", "0", "25h", "٣s"])
def test_what_is_no_interval_is_refused(text: str) -> None:
    with pytest.raises(typer.BadParameter):
        duration_seconds(text)


def test_help_shows_the_options_and_imports_no_client() -> None:
    result = run("reporter", "--help")

    assert result.returncode == 0
    for option in ("--source", "--interval", "--usage", "--phase", "--kubeconfig", "SANDBERTH_INTERVAL", "SIGUSR1"):
        assert option in result.stdout
    assert result.stdout.endswith("set()\n")


def test_the_kubelet_source_says_when_it_comes() -> None:
    result = run("reporter", "--source", "kubelet")

    assert result.returncode == 1
    assert result.stderr == "sandberth: --source kubelet comes with a later release; use --source api\n"


def test_a_wrong_interval_is_wrong_usage() -> None:
    assert run("reporter", "--interval", "soon").returncode == 2


def test_the_snapshot_needs_no_http_client() -> None:
    script = "import sys, sandberth.reporter.snapshot; sys.exit(bool({'aiohttp', 'kopf'} & sys.modules.keys()))"

    assert subprocess.run([sys.executable, "-c", script], check=False, timeout=60).returncode == 0
