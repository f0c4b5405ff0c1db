"""The two README commands as a stranger types them: `sandberth cluster up` and `sandberth demo`, small."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sandberth.cluster import processes, services
from sandberth.cluster.local import LocalCluster
from sandberth.cluster.state import BedState
from sandberth.demo.display import QuietDisplay
from sandberth.demo.parameters import Parameters
from sandberth.demo.results import results
from sandberth.demo.statistics import Outcome, failures
from sandberth.demo.story import tell
from tests.integration.applying import a_sandbox, an_image_spec
from tests.integration.bed import wait_for

pytestmark = pytest.mark.integration


@pytest.fixture
def spare() -> Iterator[str]:
    """The name of a bed that the test makes itself."""
    name = f"test-{os.getpid()}-readme"
    yield name
    LocalCluster(name).down()


def sandberth(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the command line as a user would, from a folder that is not the checkout."""
    return subprocess.run(
        [sys.executable, "-m", "sandberth", *arguments],
        cwd="/",
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


def programs(name: str) -> dict[str, dict[str, Any]]:
    status = json.loads(sandberth("cluster", "status", "--name", name, "--output", "json").stdout)
    return {program["name"]: program for program in status["programs"]}


def test_a_bed_comes_with_a_working_sandberth_and_leaves_nothing_behind(spare: str) -> None:
    answer = sandberth("cluster", "up", "--name", spare, "--nodes", "2", "--report-interval", "1s")

    assert answer.returncode == 0, answer.stderr
    assert "kubectl get nodecapacities,sandboxes" in answer.stdout
    bed = LocalCluster(spare)
    kubectl = [str(bed.kubectl), "--kubeconfig", str(bed.kubeconfig)]
    subprocess.run(
        [*kubectl, "apply", "-f", "-"], input=a_sandbox("default", an_image_spec()), text=True, check=True, timeout=30
    )
    subprocess.run(
        [*kubectl, "wait", "--for=jsonpath={.status.phase}=Running", "--timeout=30s", "sandbox/box"],
        check=True,
        timeout=60,
    )
    running = programs(spare)
    assert running["operator"]["running"]
    assert running["reporter"]["running"]
    state = BedState.read(bed.directory / "state.json")
    assert state is not None

    down = sandberth("cluster", "down", "--name", spare)

    assert down.returncode == 0, down.stderr
    started = [*state.processes.values(), *(service.process for service in state.services.values())]
    assert len(started) == 6
    assert not any(processes.is_running(process) for process in started)
    assert not bed.directory.exists()


def test_up_gives_a_bed_what_it_lacks(spare: str) -> None:
    bed = LocalCluster.up(spare, nodes=1, audit=False)
    assert services.running(bed) == set()

    services.start_all(bed, interval="1s", usage="requests")
    state = BedState.read(bed.directory / "state.json")
    assert state is not None
    operator, reporter = state.services["operator"], state.services["reporter"]
    processes.kill(operator.process)
    assert bed.healthy()
    assert bed.status()["state"] == "degraded"
    assert not programs(spare)["operator"]["running"]

    services.start_all(bed, interval="1s", usage="requests")

    state = BedState.read(bed.directory / "state.json")
    assert state is not None
    assert state.services["operator"].process != operator.process
    assert state.services["reporter"] == reporter
    assert bed.status()["state"] == "up"


def test_a_reporter_reports_at_once_when_told_to(spare: str) -> None:
    bed = LocalCluster.up(spare, nodes=2, audit=False)
    services.start_all(bed, interval="1h", usage="none")

    def sequences() -> list[int]:
        with bed.api() as api:
            items = api.get("/apis/sandberth.dev/v1alpha1/nodecapacities")["items"]
        return [item["status"]["report"]["sequence"] for item in items]

    before = sequences()
    services.report_now(bed)

    wait_for(lambda: all(map(int.__gt__, sequences(), before)), what="every node has a new report")


def test_the_demo_runs_its_bursts_and_takes_its_bed_down(spare: str, tmp_path: Path) -> None:
    parameters = Parameters(count=60, rate=30, nodes=4, interval_seconds=1, bed=spare, check=False)
    shown: list[Outcome] = []

    outcomes, wrong = tell(parameters, QuietDisplay(), shown.append)

    assert shown == outcomes
    assert wrong == []
    assert [outcome.setting for outcome in outcomes] == ["off", "optimistic", "reconciled"]
    for outcome in outcomes:
        assert (sum(outcome.counts), outcome.running, outcome.faults) == (60, 60, ())
        assert len(outcome.counts) == 4
    assert failures(outcomes[2:]) == [] or outcomes[2].cv_count < 0.15  # 15 a node: one more is already 7 %
    assert set(results(parameters, outcomes, wrong)["settings"]) == {"off", "optimistic", "reconciled"}
    assert not LocalCluster(spare).directory.exists()


def test_a_demo_that_fails_takes_its_bed_down_and_leaves_the_logs(spare: str) -> None:
    parameters = Parameters(count=1, nodes=1, settings=("no such setting",), bed=spare)

    with pytest.raises(KeyError):
        tell(parameters, QuietDisplay(), lambda _outcome: None)

    folder = LocalCluster(spare).directory
    assert [entry.name for entry in folder.iterdir()] == ["logs"]
    assert (folder / "logs" / "operator.log").exists()
