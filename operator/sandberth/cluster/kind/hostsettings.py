"""What a kind bed changes on this machine outside its containers, remembered so that it can be put back.

A kubelet sets three kernel settings that no namespace holds, and one that beds soon exhaust is raised. They are noted
before the first kind bed of this cache starts and put back when the last one goes; a note from before a reboot is
worthless, because the reboot put them back.
"""

import json
import os
from pathlib import Path
from typing import Any

from sandberth.cluster.kind.docker import Docker, DockerError
from sandberth.cluster.places import cache_directory
from sandberth.cluster.progress import Progress

SETTINGS = ("kernel/panic", "kernel/panic_on_oops", "vm/overcommit_memory", "fs/inotify/max_user_instances")
# A node holds about 15, and the kernel's 128 are for all that root runs: the kubelets of a third bed would not start.
_WATCHERS, _ENOUGH_WATCHERS = "fs/inotify/max_user_instances", 1024
_MODULES = Path("/lib/modules")  # kind mounts it into its nodes, and Docker makes it where it is missing
_SYSTEM = Path("/proc/sys")
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


def note_path() -> Path:
    """Return the file that holds the settings as they were."""
    return cache_directory() / "kind-host.json"


def remember(note: Path, system: Path = _SYSTEM, modules: Path = _MODULES) -> None:
    """Note the present settings, unless a note of this boot has them already."""
    boot = _BOOT_ID.read_text().strip()
    noted = _read(note, boot) or {"boot": boot, "settings": {}, "modules": modules.exists()}
    for name in SETTINGS:
        noted["settings"].setdefault(name, (system / name).read_text().strip())
    note.parent.mkdir(parents=True, exist_ok=True)
    note.write_text(json.dumps(noted, indent=1))


def make_room(docker: Docker, image: str, progress: Progress, system: Path = _SYSTEM) -> None:
    """Raise what the nodes would run out of, and say so."""
    present = int((system / _WATCHERS).read_text())
    if present >= _ENOUGH_WATCHERS:
        return
    setting = f"{_WATCHERS.replace('/', '.')}={_ENOUGH_WATCHERS}"
    if _write(system / _WATCHERS, str(_ENOUGH_WATCHERS), docker, image):
        progress.say(f"while there are kind beds, this machine has {setting} (it was {present})")
    else:
        progress.say(f"kubelets may find too many open files; then, as root: sysctl -w {setting}")


def restore(note: Path, docker: Docker, image: str, system: Path = _SYSTEM, modules: Path = _MODULES) -> list[str]:
    """Put back what was noted and drop the note; return what could not be put back."""
    noted = _read(note, _BOOT_ID.read_text().strip())
    failed = []
    if noted is not None:
        for name, value in noted["settings"].items():
            if (system / name).read_text().strip() != value and not _write(system / name, value, docker, image):
                failed.append(f"{name.replace('/', '.')}={value}")
        if not noted["modules"] and modules.is_dir() and not any(modules.iterdir()) and os.geteuid() == 0:
            modules.rmdir()
    note.unlink(missing_ok=True)
    return failed


def _read(note: Path, boot: str) -> dict[str, Any] | None:
    try:
        noted = json.loads(note.read_text())
    except (OSError, ValueError):
        return None
    return noted if noted.get("boot") == boot else None


def _write(path: Path, value: str, docker: Docker, image: str) -> bool:
    try:
        path.write_text(value)
    except PermissionError:  # not root, but whoever may use Docker may do this
        script = f"echo {value} > {path}"
        try:
            docker.run("run", "--rm", "--privileged", "--network=none", "--entrypoint=sh", image, "-c", script)
        except DockerError:
            return False
    return True
