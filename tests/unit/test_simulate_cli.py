import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from sandberth.cli.root import app
from sandberth.cli.simulate import ScenarioName
from sandberth.sim.scenarios import SCENARIOS


def run(*arguments: str) -> tuple[int, str, str]:
    answer = CliRunner().invoke(app, ["simulate", *arguments])
    return answer.exit_code, answer.stdout, answer.stderr


def parameters(*arguments: str) -> dict[str, Any]:
    code, output, errors = run("--output", "json", "--accounting", "reconciled", "--duration", "1", *arguments)
    assert code == 0, errors
    found: dict[str, Any] = json.loads(output)["parameters"]
    return found


def test_the_article_is_the_default_and_shows_histogram_table_and_which_measure_is_which() -> None:
    code, output, errors = run()

    assert (code, errors) == (0, "")
    assert output.count("node 09 | ") == 4
    assert [line.split()[0] for line in output.splitlines() if line.count(".") == 3][:4] == [
        *("metrics", "in-progress", "optimistic", "reconciled"),
    ]
    assert "the article's measure" in output


def test_the_names_on_the_command_line_are_the_scenarios() -> None:
    assert {name.value for name in ScenarioName} == set(SCENARIOS)


def test_options_override_the_scenario_and_the_rest_stays() -> None:
    found = parameters("--scenario", "storm", "--nodes", "3", "--report-loss", "0", "--measure-after", "end")

    assert (found["scenario"], found["nodes"], found["report_loss"]) == ("storm", 3, 0)
    assert (found["lifetime"], found["rate"], found["projected_usage"]) == ("exp:60", 6, True)


def test_every_option_of_the_contract_is_taken() -> None:
    found = parameters(
        *("--nodes", "4", "--node-cpu", "192,96", "--rate", "7", "--burst", "11", "--heartbeat", "5-10"),
        *("--heartbeat-phase", "staggered", "--create-latency", "exp:0.1", "--sandbox-cpu", "1,0.5"),
        *("--lifetime", "lognormal:3,0.5", "--self-exit", "0.25", "--exit-watch-delay", "none", "--usage-ratio", "0.5"),
        *("--replicas", "2", "--share-delay", "0.1", "--node-failures", "1", "--report-loss", "0.1"),
        *("--report-delay", "0.5-2", "--noise", "2", "--sample-size", "all", "--overcommit", "200", "--alpha", "0"),
        *("--sampler", "deck", "--projected-usage", "--seed", "5", "--repeat", "2"),
    )

    expected = {
        "nodes": 4, "node_cpu": [192, 96], "rate": 7, "burst": 11, "heartbeat": "5-10", "heartbeat_phase": "staggered",
        "create_latency": "exp:0.1", "sandbox_cpu": [1, 0.5], "lifetime": "lognormal:3,0.5", "self_exit": 0.25,
        "exit_watch_delay": "none", "usage_ratio": 0.5, "replicas": 2, "share_delay": "0.1", "node_failures": 1,
        "report_loss": 0.1, "report_delay": "0.5-2", "noise": 2, "sample_size": "all", "overcommit": 200, "alpha": 0,
        "sampler": "deck", "projected_usage": True, "seed": 5, "repeat": 2,
    }  # fmt: skip
    assert {name: found[name] for name in expected} == expected


def test_a_burst_takes_the_place_of_the_rate_unless_both_are_given() -> None:
    assert parameters("--burst", "9")["rate"] == 0
    assert parameters("--burst", "9", "--rate", "1/node")["rate"] == 10
    assert parameters("--scenario", "churn", "--burst", "9", "--measure-after", "end")["rate"] == 0


def test_projection_can_be_switched_off() -> None:
    found = parameters("--scenario", "storm", "--no-projected-usage", "--nodes", "2", "--measure-after", "end")

    assert found["projected_usage"] is False


def test_the_same_seed_gives_the_same_bytes() -> None:
    arguments = ("--scenario", "chaos", "--duration", "20", "--measure-after", "5", "--output", "json")

    first, second, other = run(*arguments), run(*arguments), run(*arguments, "--seed", "1")

    assert first[0] == 0
    assert first == second != other


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["--create-latency", "soon"], "--create-latency"),
        (["--lifetime", "2-1"], "ends before"),
        (["--accounting", "nope"], "nope"),
        (["--accounting", ""], "--accounting"),
        (["--sample-size", "0"], "--sample-size"),
        (["--heartbeat", "0"], "--heartbeat"),
        (["--rate", "2/s"], "--rate"),
        (["--rate", "-1"], "--rate"),
        (["--node-cpu", "192,"], "--node-cpu"),
        (["--sandbox-cpu", "0"], "--sandbox-cpu"),
        (["--scenario", "nope"], "--scenario"),
        (["--nodes", "0"], "--nodes"),
        (["--self-exit", "1.5"], "--self-exit"),
        (["--measure-after", "26"], "--measure-after"),
        (["--plot", "picture.pdf"], "--plot"),
    ],
)
def test_bad_usage_is_one_line_and_exit_code_2(arguments: list[str], named: str) -> None:
    command = [sys.executable, "-m", "sandberth", "simulate", *arguments]

    done = subprocess.run(command, capture_output=True, text=True, check=False)

    assert (done.returncode, done.stdout) == (2, "")
    assert len(done.stderr.splitlines()) == 1, done.stderr
    assert named in done.stderr


def test_a_picture_goes_where_it_should_and_the_json_stays_clean(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")

    code, output, errors = run("--output", "json", "--duration", "2", "--plot", str(tmp_path / "picture.svg"))

    assert code == 0
    assert json.loads(output)["runs"] == 1
    assert (tmp_path / "picture.svg").stat().st_size > 1000
    assert errors == f"picture: {tmp_path / 'picture.svg'}\n"


def test_a_folder_that_is_not_there_is_said_before_the_run(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "sandberth", "simulate", "--plot", str(tmp_path / "nowhere" / "picture.svg")]

    done = subprocess.run(command, capture_output=True, text=True, check=False)

    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"sandberth: --plot: there is no folder {tmp_path / 'nowhere'}\n"


@pytest.mark.parametrize("arguments", [["simulate", "--help"], ["simulate", "--duration", "1"]])
def test_neither_help_nor_a_run_loads_what_it_does_not_need(arguments: list[str]) -> None:
    unwanted = ("kopf", "kubernetes", "aiohttp", "matplotlib", "cryptography")
    script = (
        "import sys; from typer.testing import CliRunner; from sandberth.cli.root import app\n"
        f"answer = CliRunner().invoke(app, {arguments}); assert answer.exit_code == 0, answer.output\n"
        f"print([name for name in {unwanted} if name in sys.modules])"
    )

    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)

    assert done.stdout == "[]\n"
