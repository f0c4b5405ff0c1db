"""What the folder `operator/` must not do to Python, and what the cheap commands must not load."""

import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
HEAVY = ("kopf", "kubernetes", "aiohttp")
LIST_HEAVY = f"import sys; print([name for name in {HEAVY} if name in sys.modules], file=sys.stderr)"


def run_python(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)


def test_operator_is_the_standard_librarys_also_in_the_root_of_the_repository() -> None:
    done = run_python("import operator; print(operator.__file__)")

    assert Path(done.stdout.strip()).parent == Path(sysconfig.get_path("stdlib"))


def test_the_folder_operator_is_no_package() -> None:
    assert (ROOT / "operator").is_dir()
    assert not (ROOT / "operator" / "__init__.py").exists()


@pytest.mark.parametrize("module", ["sandberth", "sandberth.core", "sandberth.core.placement", "sandberth.flags"])
def test_the_core_loads_nothing_heavy(module: str) -> None:
    done = run_python(f"import {module}; {LIST_HEAVY}")

    assert done.returncode == 0, done.stderr
    assert done.stderr.strip() == "[]"


def test_the_process_on_every_node_loads_no_http_library_and_no_models() -> None:
    heavy = (*HEAVY, "pydantic", "orjson", "uvloop", "typer", "rich", "prometheus_client")

    done = run_python(f"import sandberth.reporter.kubelet_process, sys; print(set({heavy}) & sys.modules.keys())")

    assert done.stdout.strip() == "set()", done.stderr


@pytest.mark.parametrize("arguments", [["--help"], ["version"]])
def test_help_loads_nothing_heavy(arguments: list[str]) -> None:
    code = f"""
import atexit, sys
from sandberth.cli import main
sys.argv = ["sandberth", *{arguments}]
atexit.register(lambda: print([name for name in {HEAVY} if name in sys.modules], file=sys.stderr))
main()
"""

    done = run_python(code)

    assert done.returncode == 0, done.stderr
    assert "andberth" in done.stdout
    assert done.stderr.strip() == "[]"
