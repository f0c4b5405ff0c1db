import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from sandberth.cluster import processes, services
from sandberth.cluster.assets import LOCAL_OVERLAY, assets_directory
from sandberth.cluster.errors import ClusterError, ProgramFailedError
from sandberth.cluster.local import LocalCluster
from sandberth.cluster.state import BedOptions, BedState, Service


@pytest.fixture
def bed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LocalCluster:
    """A bed of which only the state file is there."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    bed = LocalCluster("default")
    (bed.directory / "logs").mkdir(parents=True)
    BedState(BedOptions(), "/programs").write(bed.directory / "state.json")
    return bed


@pytest.fixture
def sleeper(tmp_path: Path) -> Iterator[processes.Process]:
    process = processes.start(["/bin/sleep", "60"], tmp_path / "sleep.log", {})
    yield process
    processes.kill(process)


def remember(bed: LocalCluster, name: str, process: processes.Process) -> None:
    state = BedState(BedOptions(), "/programs", services={name: Service(process, 21_000, ["--usage", "none"])})
    state.write(bed.directory / "state.json")


def test_the_assets_of_a_checkout_hold_the_local_overlay() -> None:
    assert (assets_directory() / LOCAL_OVERLAY / "kustomization.yaml").is_file()


def test_a_folder_with_only_one_of_the_two_is_passed_over(tmp_path: Path) -> None:
    half, whole = tmp_path / "half", tmp_path / "whole"
    for folder in (half / "crds", whole / "crds", whole / "manifests"):
        folder.mkdir(parents=True)

    assert assets_directory((tmp_path / "none", half, whole)) == whole
    with pytest.raises(ClusterError, match="crds and manifests are in none of"):
        assets_directory((half,))


def test_the_state_file_gives_back_what_was_stored(bed: LocalCluster, sleeper: processes.Process) -> None:
    remember(bed, services.REPORTER, sleeper)

    state = BedState.read(bed.directory / "state.json")

    assert state is not None
    assert state.services == {"reporter": Service(sleeper, 21_000, ["--usage", "none"])}
    assert state.used_ports == {21_000}


def test_a_state_file_from_before_there_were_services_is_read(bed: LocalCluster) -> None:
    path = bed.directory / "state.json"
    stored = json.loads(path.read_text())
    del stored["services"]
    path.write_text(json.dumps(stored))

    state = BedState.read(path)

    assert state is not None
    assert state.services == {}


def test_a_dead_service_is_shown_as_stopped_and_makes_the_bed_degraded(
    bed: LocalCluster, sleeper: processes.Process
) -> None:
    remember(bed, services.OPERATOR, sleeper)
    processes.kill(sleeper)

    status = bed.status()

    (program,) = [each for each in status["programs"] if each["name"] == "operator"]
    assert (program["running"], program["pid"]) == (False, None)
    assert status["state"] == "degraded"
    assert services.running(bed) == set()


def test_down_stops_the_services(bed: LocalCluster, sleeper: processes.Process) -> None:
    remember(bed, services.OPERATOR, sleeper)

    bed.down()

    assert not processes.is_running(sleeper)
    assert not bed.directory.exists()


def test_a_report_cannot_be_asked_of_a_reporter_that_is_not_there(
    bed: LocalCluster, sleeper: processes.Process
) -> None:
    with pytest.raises(ClusterError, match="bed default has no reporter; start it with: sandberth cluster up"):
        services.report_now(bed)

    remember(bed, services.REPORTER, sleeper)
    processes.kill(sleeper)
    with pytest.raises(ProgramFailedError, match="reporter is not running"):
        services.report_now(bed)


def test_metrics_of_a_service_that_does_not_answer_are_an_error(bed: LocalCluster, sleeper: processes.Process) -> None:
    remember(bed, services.OPERATOR, sleeper)

    with pytest.raises(ProgramFailedError, match="operator does not answer"):
        services.metrics(bed)


def test_a_folder_named_like_a_module_does_not_change_what_a_service_imports(tmp_path: Path) -> None:
    """The flag -P that services are started with; without it the current folder comes first."""
    (tmp_path / "sandberth.py").write_text("raise SystemExit('the wrong one')")
    environment = {"PATH": os.defpath}
    if "PYTHONPATH" in os.environ:
        environment["PYTHONPATH"] = os.environ["PYTHONPATH"]

    answer = subprocess.run(
        [sys.executable, "-P", "-m", "sandberth", "version"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )

    assert answer.stdout.startswith("sandberth ")
