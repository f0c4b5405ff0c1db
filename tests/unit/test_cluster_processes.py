import os
import platform
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from sandberth.cluster import processes
from sandberth.cluster.processes import Process

SLEEP = ["/bin/sh", "-c", "exec sleep 60"]
STUBBORN = ["/bin/sh", "-c", "trap '' TERM; echo ready; while :; do sleep 0.05; done"]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "program.log"


@pytest.fixture
def sleeper(log: Path) -> Iterator[Process]:
    process = processes.start(SLEEP, log, os.environ)
    yield process
    processes.kill(process)


def wait_for_text(file: Path, text: str) -> None:
    deadline = time.monotonic() + 10
    while text not in file.read_text():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_started_program_runs_in_a_session_of_its_own(sleeper: Process) -> None:
    assert processes.is_running(sleeper)
    assert os.getsid(sleeper.pid) == sleeper.pid != os.getsid(0)
    assert processes.resident_bytes(sleeper) > 0


def test_a_stopped_program_is_gone(sleeper: Process) -> None:
    processes.stop(sleeper)

    assert not processes.is_running(sleeper)
    assert not Path(f"/proc/{sleeper.pid}").exists()
    assert processes.resident_bytes(sleeper) == 0


def test_a_program_that_ignores_sigterm_is_killed_after_the_grace(log: Path) -> None:
    process = processes.start(STUBBORN, log, os.environ)
    wait_for_text(log, "ready")

    processes.stop(process, grace_seconds=0.2)

    assert not processes.is_running(process)


def test_a_later_owner_of_the_pid_is_neither_running_nor_killed(sleeper: Process) -> None:
    predecessor = replace(sleeper, birth=f"{sleeper.birth}0")

    processes.stop(predecessor)
    processes.kill(predecessor)

    assert not processes.is_running(predecessor)
    assert processes.is_running(sleeper)


def test_a_pid_from_before_a_reboot_is_not_killed(sleeper: Process) -> None:
    boot, ticks = sleeper.birth.split(":")
    before_reboot = replace(sleeper, birth=f"{boot[::-1]}:{ticks}")

    processes.stop(before_reboot)

    assert processes.is_running(sleeper)


def test_a_program_that_ended_by_itself_does_not_run(log: Path) -> None:
    process = processes.start(["/bin/sh", "-c", "echo said; echo warned >&2"], log, os.environ)
    deadline = time.monotonic() + 10
    while processes.is_running(process):
        assert time.monotonic() < deadline
        time.sleep(0.01)

    assert log.read_text() == "said\nwarned\n"
    processes.stop(process)


def test_no_open_pipe_of_the_caller_reaches_the_program(log: Path) -> None:
    reader, writer = os.pipe()
    os.set_inheritable(writer, True)

    process = processes.start(SLEEP, log, os.environ)
    os.close(writer)

    assert os.read(reader, 1) == b""  # nobody else holds the other end
    os.close(reader)
    processes.kill(process)


def test_a_program_whose_main_thread_ended_runs_until_its_last_thread_has(log: Path) -> None:
    """A killed program looks like this for a moment: a zombie by its state, but its ports are still taken."""
    exit_this_thread = 93 if platform.machine() == "aarch64" else 60  # the number of the system call
    script = (
        "import ctypes, threading, time; threading.Thread(target=time.sleep, args=(60,)).start(); "
        f"ctypes.CDLL(None).syscall({exit_this_thread}, 0)"
    )
    process = processes.start([sys.executable, "-c", script], log, os.environ)
    wait_for_text(Path(f"/proc/{process.pid}/stat"), ") Z ")

    running_without_main_thread = processes.is_running(process)
    processes.stop(process)

    assert running_without_main_thread
    assert not processes.is_running(process)
