"""The image of Sandberth itself, built from a checkout.

Neither an image registry nor a package index has to be within reach of a container: the dependencies are installed on
this machine, with its own pip settings, for the Python of the image, and go into the build as files.
"""

import hashlib
import platform
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from sandberth import __version__
from sandberth.cluster.errors import ClusterError
from sandberth.cluster.kind.debian import ensure_debian
from sandberth.cluster.kind.docker import Docker
from sandberth.cluster.places import cache_directory, locked
from sandberth.cluster.progress import Progress

DEFAULT_TAG = "sandberth:dev"
OFFICIAL_BASE = "python:3.11-slim"
_PYTHON = "3.11"  # of the official base, and of Debian's own
_PACKAGES = ("ca-certificates", "python3")
_CHECKOUT = Path(__file__).parents[4]
_REGISTRY_SECONDS = 10.0
_TAIL_LINES = 15
_GLIBC_MINORS = range(36, 4, -1)  # of Debian 12; a wheel for an older one works too


def build_image(docker: Docker, progress: Progress, tag: str = DEFAULT_TAG, base: str | None = None) -> str:
    """Build the image and return its identity (sha256:...). Raises ClusterError, also outside a checkout.

    `base` None takes the official Python image where a registry answers, and otherwise Debian's Python.
    """
    if not (_CHECKOUT / "Dockerfile").is_file():
        raise ClusterError("the image is built from a checkout of Sandberth, and this is an installed package")
    base = base or _ensure_base(docker, progress)
    site = _ensure_site(progress)
    before = _identity(docker, tag) if docker.has_image(tag) else None
    with (
        progress.step(f"building the image {tag}"),
        tempfile.TemporaryDirectory(dir=cache_directory(), prefix=".image-") as folder,
    ):
        context = Path(folder)
        _fill(context, site)
        arguments = {"BASE": base, "VERSION": __version__, "REVISION": _revision()}
        options = [word for key, value in arguments.items() for word in ("--build-arg", f"{key}={value}")]
        docker.run("build", "--tag", tag, *options, str(context))
    identity = _identity(docker, tag)
    if before not in (None, identity):
        docker.succeeds("rmi", before)  # it has lost its name; refused where it has another one or is in use
    return identity


def wheel_platforms(machine: str) -> list[str]:
    """Return the platforms whose wheels run on Debian 12 on this architecture, the newest first."""
    tags = [f"manylinux_2_{minor}_{machine}" for minor in _GLIBC_MINORS]
    return [*tags, f"manylinux2014_{machine}", f"manylinux2010_{machine}", f"manylinux1_{machine}", f"linux_{machine}"]


def _identity(docker: Docker, image: str) -> str:
    return docker.run("image", "inspect", "--format", "{{.Id}}", image).strip()


def _ensure_base(docker: Docker, progress: Progress) -> str:
    if docker.has_image(OFFICIAL_BASE) or docker.succeeds(
        "manifest", "inspect", OFFICIAL_BASE, timeout_seconds=_REGISTRY_SECONDS
    ):
        return OFFICIAL_BASE
    return ensure_debian(docker, "python", _PACKAGES, progress)


def _ensure_site(progress: Progress) -> Path:
    """Return the folder with the installed dependencies, filled once for each state of the constraints."""
    constraints = _CHECKOUT / "constraints-image.txt"
    key = hashlib.sha256(f"{_PYTHON} {platform.machine()}\n".encode() + constraints.read_bytes()).hexdigest()[:16]
    site = cache_directory() / "image-site" / key
    with locked(site.with_name(f"{key}.lock")):
        if site.exists():
            return site
        with progress.step("installing the image's dependencies"):
            unfinished = site.with_name(f".{key}")
            shutil.rmtree(unfinished, ignore_errors=True)
            argv = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-compile"]
            argv += ["--no-deps", "--require-hashes", "--only-binary=:all:", "--python-version", _PYTHON]
            argv += [f"--platform={each}" for each in wheel_platforms(platform.machine())]
            argv += ["--target", str(unfinished), "--requirement", str(constraints)]
            done = subprocess.run(argv, capture_output=True, text=True, check=False)
            if done.returncode != 0:
                for line in done.stderr.splitlines()[-_TAIL_LINES:]:
                    progress.say(f"  {line}")
                raise ClusterError("installing the image's dependencies failed")
            unfinished.rename(site)
    return site


def _fill(context: Path, site: Path) -> None:
    ignored = shutil.ignore_patterns("__pycache__")
    for folder in ("operator/sandberth", "crds", "manifests"):
        shutil.copytree(_CHECKOUT / folder, context / folder, ignore=ignored)
    for file in ("Dockerfile", "constraints-image.txt"):
        shutil.copy(_CHECKOUT / file, context / file)
    shutil.copytree(site, context / "build/image-site")


def _revision() -> str:
    """Return the commit of the checkout, marked where files differ from it; "unknown" without git."""
    argv = ["git", "-C", str(_CHECKOUT), "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
    done = subprocess.run(argv, capture_output=True, text=True, check=False) if shutil.which("git") else None
    return done.stdout.strip() if done is not None and done.returncode == 0 else "unknown"
