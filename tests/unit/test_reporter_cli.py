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
    for option in (
        "--source",
        "--interval",
        "--usage",
        "--phase",
        "--kubeconfig",
        "SANDBERTH_INTERVAL",
        "SIGUSR1",
        "--node-name",
    ):
        assert option in result.stdout
    assert {"SANDBERTH_INTERVAL", "SIGUSR1"} <= set(result.stdout.replace("]", " ").split())
    assert result.stdout.endswith("set()\n")


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ([], "--source kubelet needs --node-name"),
        (
            ["--node-name", "n", "--kubelet-insecure-tls", "--kubelet-ca", "x.crt"],
            "--kubelet-insecure-tls and --kubelet-ca exclude each other",
        ),
    ],
)
def test_the_kubelet_source_refuses_what_makes_no_sense(arguments: list[str], text: str) -> None:
    result = run("reporter", "--source", "kubelet", *arguments)

    assert result.returncode == 2
    assert text in result.stderr


def test_a_kubeconfig_that_is_missing_is_one_line_also_from_the_process_of_its_own() -> None:
    result = run("reporter", "--source", "kubelet", "--node-name", "n", "--kubeconfig", "/nowhere/config")

    assert result.returncode == 1
    assert result.stderr == "sandberth: /nowhere/config: cannot be read: No such file or directory\n"


def test_a_wrong_interval_is_wrong_usage() -> None:
    assert run("reporter", "--interval", "soon").returncode == 2
