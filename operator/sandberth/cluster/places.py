"""Where beds and programs live on disk, and the locks that keep concurrent commands apart."""

import fcntl
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sandberth.cluster.errors import ClusterError

KIND_STATE_FILE = "kind.json"  # its presence makes the folder of a bed that of a kind bed
_NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,38}[a-z0-9])?")


def cache_directory() -> Path:
    """Return our folder in the user's cache: $XDG_CACHE_HOME if absolute (as its specification asks), or ~/.cache."""
    configured = Path(os.environ.get("XDG_CACHE_HOME", ""))
    return (configured if configured.is_absolute() else Path.home() / ".cache") / "sandberth"


def beds_directory() -> Path:
    """Return the folder that holds one folder a bed."""
    return cache_directory() / "clusters"


def bed_directory(name: str) -> Path:
    """Return the folder of one bed, whether or not it exists. Raises ClusterError for a name that is none."""
    if not is_bed_name(name):
        raise ClusterError(f"{name!r} is no name for a bed: use 1 to 40 of a-z, 0-9 and inner dashes")
    return beds_directory() / name


def is_bed_name(name: str) -> bool:
    """Tell whether the name is safe as a folder and in a kubeconfig."""
    return _NAME.fullmatch(name) is not None


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock file at `path`, waiting for whoever has it; it goes with the process, also when that is killed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    while True:
        with path.open("w") as file:  # not inheritable, so no program of a bed keeps the lock
            fcntl.flock(file, fcntl.LOCK_EX)
            if _is_file_at(path, file.fileno()):  # its last holder may remove it, as `down` does
                yield
                return


def is_locked(path: Path) -> bool:
    """Tell whether somebody holds the lock now: good for a message, not for a decision."""
    try:
        with path.open("r") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True
    return False


def _is_file_at(path: Path, descriptor: int) -> bool:
    try:
        return path.stat().st_ino == os.fstat(descriptor).st_ino
    except FileNotFoundError:
        return False
