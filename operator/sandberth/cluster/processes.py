"""Programs that outlive the command which started them, told apart from whoever got their PID later."""

import os
import signal
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_POLL_SECONDS = 0.02


@dataclass(frozen=True, slots=True)
class Process:
    """A process, named by more than its PID: `birth` is the boot and the clock tick in which it started."""

    pid: int
    birth: str


def start(argv: Sequence[str], log: Path, environment: Mapping[str, str]) -> Process:
    """Start a program in a session of its own, its output appended to `log`; it survives us and our Ctrl-C."""
    pid = os.posix_spawn(
        argv[0],
        list(argv),
        dict(environment),
        file_actions=[
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
            (os.POSIX_SPAWN_OPEN, 1, os.fspath(log), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600),
            (os.POSIX_SPAWN_DUP2, 1, 2),
            *((os.POSIX_SPAWN_CLOSE, number) for number in _inheritable_descriptors()),
        ],
        setsid=True,
    )
    return Process(pid, _look_up(pid).birth)  # nobody has waited for it, so its /proc entry is there


def is_running(process: Process) -> bool:
    """Tell whether this very process lives: a zombie does not, nor does a later owner of its PID."""
    found = _look_up(process.pid)
    if found.birth != process.birth:
        return False
    if found.state == "Z":
        if found.threads > 1:
            return True  # killed, but its other threads have yet to go: they still hold its port
        with suppress(ChildProcessError):  # not our child: its parent takes it away
            os.waitpid(process.pid, os.WNOHANG)
        return False
    return True


def stop(process: Process, grace_seconds: float = 10.0) -> None:
    """End the process if it is still the one we know: SIGTERM first, SIGKILL after the grace."""
    _signal_and_wait(process, signal.SIGTERM, grace_seconds)
    _signal_and_wait(process, signal.SIGKILL, grace_seconds)


def kill(process: Process) -> None:
    """End the process at once, as a crash would."""
    _signal_and_wait(process, signal.SIGKILL, 10.0)


def resident_bytes(process: Process) -> int:
    """Return the memory that the process holds, 0 when it is gone."""
    if not is_running(process):
        return 0
    try:
        pages = int(Path(f"/proc/{process.pid}/statm").read_text().split()[1])
    except OSError:
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")


def _inheritable_descriptors() -> list[int]:
    """Return what a caller's shell left open to us: a pipe held by a bed would keep its reader waiting."""
    inheritable = []
    for entry in os.listdir("/proc/self/fd"):  # noqa: PTH208  (numbers, not paths)
        with suppress(OSError):  # the descriptor of the listing itself is closed by now
            if int(entry) > 2 and os.get_inheritable(int(entry)):
                inheritable.append(int(entry))
    return inheritable


def _signal_and_wait(process: Process, number: signal.Signals, seconds: float) -> None:
    if not is_running(process):
        return
    with suppress(ProcessLookupError):
        os.kill(process.pid, number)
    deadline = time.monotonic() + seconds
    while is_running(process) and time.monotonic() < deadline:
        time.sleep(_POLL_SECONDS)


class _Entry(NamedTuple):
    """What /proc says of a PID; the birth is empty when there is no such process."""

    birth: str = ""
    state: str = ""
    threads: int = 0


def _look_up(pid: int) -> _Entry:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return _Entry()
    # The second field is the program's name in parentheses and may itself hold spaces and parentheses.
    fields = stat[stat.rindex(")") + 2 :].split()
    state, threads, start_ticks = fields[0], int(fields[17]), fields[19]
    return _Entry(f"{_BOOT_ID.read_text().strip()}:{start_ticks}", state, threads)
