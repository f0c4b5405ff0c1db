"""What CI runs: one script for any machine, and the same commands side by side on GitHub."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
LEFT_OUT = "ci: Docker does not run here, so make test-kind (the tests on real kubelets) was left out\n"


def run_ci(folder: Path, *, docker: str, make: str = 'echo "$@"') -> subprocess.CompletedProcess[str]:
    """Run a copy of the script with a `make` and a `docker` that are these shell scripts."""
    (folder / ".ci").mkdir()
    shutil.copy(ROOT / ".ci" / "run", folder / ".ci" / "run")
    for name, script in (("make", make), ("docker", docker)):
        program = folder / name
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)
    environment = {"PATH": f"{folder}:{os.environ['PATH']}"}
    argv = [folder / ".ci" / "run"]
    return subprocess.run(argv, env=environment, capture_output=True, text=True, check=False)


def test_the_tests_on_real_kubelets_run_where_docker_answers(tmp_path: Path) -> None:
    done = run_ci(tmp_path, docker="exit 0")

    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.split() == ["check", "test", "docker", "test-kind", "test-kind-down"]


@pytest.mark.parametrize("docker", ["exit 1", "echo Cannot connect to the Docker daemon >&2; exit 1"])
def test_without_docker_it_says_in_one_line_what_is_left_out(tmp_path: Path, docker: str) -> None:
    done = run_ci(tmp_path, docker=docker)

    assert (done.returncode, done.stderr) == (0, LEFT_OUT)
    assert "test-kind" not in done.stdout


@pytest.mark.parametrize("failing", ["check", "test", "test-kind"])
def test_what_fails_ends_it(tmp_path: Path, failing: str) -> None:
    done = run_ci(tmp_path, docker="exit 0", make=f'echo "$1"; test "$1" != {failing}')

    assert done.returncode != 0
    assert done.stdout.split()[-1] == failing


def test_github_runs_the_same_commands() -> None:
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text())
    on_github = {step.get("run") for job in workflow["jobs"].values() for step in job["steps"]}
    targets = set(re.findall(r"\bmake ([a-z-]+)$", (ROOT / ".ci" / "run").read_text(), re.MULTILINE))

    assert targets == {"check", "test", "test-kind", "test-kind-down"}
    assert {f"make {target}" for target in targets - {"test-kind-down"}} <= on_github
