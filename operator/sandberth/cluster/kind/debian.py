"""Debian userlands as images, made by debootstrap from the mirror that this machine's own apt uses.

All packages come in this one step, so no build inside Docker needs a network, and no image remembers the mirror.
"""

import hashlib
import os
import platform
import shutil
import subprocess
import tempfile
from pathlib import Path

from sandberth.cluster.errors import ClusterError
from sandberth.cluster.kind.docker import Docker
from sandberth.cluster.places import cache_directory
from sandberth.cluster.progress import Progress

SUITE = "bookworm"
_SEARCH_PATH = "ENV PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_UNNEEDED = ("var/cache/apt", "var/lib/apt/lists", "var/log", "usr/share/doc", "usr/share/man", "usr/share/locale")
_RECIPE = "2"  # raise it when the same packages are to give another image
_TAIL_LINES = 5


def image_name(subject: str, packages: tuple[str, ...]) -> str:
    """Return the name of the image with these packages; it changes with whatever changes the image."""
    text = "\n".join([SUITE, platform.machine(), _RECIPE, *_UNNEEDED, *sorted(packages)])
    return f"sandberth-bed/{subject}:{hashlib.sha256(text.encode()).hexdigest()[:16]}"


def ensure_debian(docker: Docker, subject: str, packages: tuple[str, ...], progress: Progress) -> str:
    """Return the name of a Debian image with these packages, made now if it is not here. Raises ClusterError."""
    name = image_name(subject, packages)
    if docker.has_image(name):
        return name
    debootstrap, mirror = _debootstrap(), _mirror()
    with progress.step(f"installing Debian with {len(packages)} packages for {subject} (debootstrap; once)"):
        downloads = cache_directory() / "debian"
        downloads.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache_directory(), prefix=".debian-") as folder:
            root = Path(folder) / "root"
            log = cache_directory() / f"{subject}.debootstrap.log"
            argv = [debootstrap, "--variant=minbase", f"--cache-dir={downloads}", f"--include={','.join(packages)}"]
            with log.open("wb") as output:
                code = subprocess.run([*argv, SUITE, str(root), *mirror], stdout=output, stderr=output, check=False)
            if code.returncode != 0:
                for line in log.read_text(errors="replace").splitlines()[-_TAIL_LINES:]:
                    progress.say(f"  {line}")
                raise ClusterError(f"debootstrap failed; the whole output is in {log}")
            log.unlink()
            _clean(root)
            archive = ["tar", "-C", str(root), "--numeric-owner", "-c", "."]
            with subprocess.Popen(archive, stdout=subprocess.PIPE) as tar:
                assert tar.stdout is not None  # noqa: S101  (a pipe was asked for)
                docker.run("import", "--change", _SEARCH_PATH, "--change", 'CMD ["bash"]', "-", name, stdin=tar.stdout)
    return name


def _debootstrap() -> str:
    found = shutil.which("debootstrap", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")
    if found is None:
        raise ClusterError(
            "no image registry answers, and building the node image needs debootstrap: apt-get install debootstrap"
        )
    if os.geteuid() != 0:
        raise ClusterError("no image registry answers, and building the node image (debootstrap) needs root")
    return found


def _mirror() -> list[str]:
    """Return the mirror of this machine's apt for the suite; nothing, for debootstrap's default, where it has none."""
    found = subprocess.run(
        ["apt-get", "indextargets", "--format", "$(REPO_URI)", f"Codename: {SUITE}"],
        capture_output=True,
        text=True,
        check=False,
    )
    return found.stdout.split()[:1]


def _clean(root: Path) -> None:
    """Remove what a container does not need, and every trace of this machine and its mirror."""
    for each in _UNNEEDED:
        for entry in (root / each).glob("*"):
            shutil.rmtree(entry) if entry.is_dir() and not entry.is_symlink() else entry.unlink()
    for file in ("etc/apt/sources.list", "etc/resolv.conf", "etc/hostname"):
        (root / file).write_text("")
