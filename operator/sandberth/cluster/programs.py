"""The bed's programs: built once by `go build` from the modules in `gomod/`, then taken from the user's cache."""

import hashlib
import os
import platform
import re
import signal
import subprocess
import sys
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from sandberth.cluster.errors import ClusterError
from sandberth.cluster.places import cache_directory, is_locked, locked
from sandberth.cluster.progress import Progress
from sandberth.cluster.toolchain import MODULES, find_go, go_environment, required_go

_ARCHITECTURES = ("x86_64", "aarch64", "arm64", "ppc64le", "s390x")  # where etcd is supported
_OLDEST_KERNEL = (3, 2)  # what Go 1.24 and later run on
_TAIL_LINES = 15


@dataclass(frozen=True, slots=True)
class Program:
    """What to build: a package, and the folder of gomod/ whose go.mod pins it."""

    module: str
    package: str


PROGRAMS = {
    "etcd": Program("etcd", "go.etcd.io/etcd/server/v3"),
    "kube-apiserver": Program("k8s", "k8s.io/kubernetes/cmd/kube-apiserver"),
    "kube-controller-manager": Program("k8s", "k8s.io/kubernetes/cmd/kube-controller-manager"),
    "kube-scheduler": Program("k8s", "k8s.io/kubernetes/cmd/kube-scheduler"),
    "kubectl": Program("k8s", "k8s.io/kubernetes/cmd/kubectl"),
    "kwok": Program("kwok", "sigs.k8s.io/kwok/cmd/kwok"),
    "kubelet": Program("k8s", "k8s.io/kubernetes/cmd/kubelet"),
    "kube-proxy": Program("k8s", "k8s.io/kubernetes/cmd/kube-proxy"),
    "kubeadm": Program("k8s", "k8s.io/kubernetes/cmd/kubeadm"),
    "nodenet": Program("k8s", "./nodenet"),
    "pause": Program("k8s", "./pause"),
    "coredns": Program("coredns", "."),
    "kind": Program("kind", "sigs.k8s.io/kind"),
}
LOCAL_PROGRAMS = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl", "kwok")


def ensure_programs(names: Iterable[str], progress: Progress) -> Path:
    """Return the folder that holds the named programs, building those it lacks.

    Several callers may ask at once: one builds, the others wait and find the programs built.
    """
    directory = cache_directory() / "programs" / cache_key(MODULES)
    missing = [name for name in names if not (directory / name).exists()]
    if not missing:
        return directory
    check_platform(sys.platform, platform.machine(), platform.release())
    lock = directory.with_name(f"{directory.name}.lock")
    if is_locked(lock):
        progress.say("another command is building the programs; waiting for it")
    with locked(lock):
        missing = [name for name in missing if not (directory / name).exists()]
        if missing:
            go = find_go(required_go(MODULES))
            directory.mkdir(parents=True, exist_ok=True)
            progress.say(
                f"building {', '.join(missing)} with {go} (once; 6 to 25 minutes when Go's own cache is empty)"
            )
            for position, name in enumerate(missing, 1):
                with progress.step(f"building {name} ({position} of {len(missing)})"):
                    _build(go, name, directory, progress)
    return directory


def kubernetes_version() -> str:
    """Return the version of Kubernetes that go.mod pins, such as v1.36.3."""
    return _required_version((MODULES / "k8s" / "go.mod").read_text(), "k8s.io/kubernetes")


def cache_key(modules: Path) -> str:
    """Return a name that changes with whatever changes the programs: modules, our own Go, flags, architecture."""
    digest = hashlib.sha256(platform.machine().encode())
    for file in sorted((*modules.glob("*/go.mod"), *modules.glob("*/go.sum"), *modules.rglob("*.go"))):
        content = file.read_bytes()
        digest.update(f"\n{file.relative_to(modules)} {len(content)}\n".encode())
        digest.update(content)
    kubernetes = _required_version((modules / "k8s" / "go.mod").read_text(), "k8s.io/kubernetes")
    digest.update(_linker_flags(kubernetes).encode())
    return f"{kubernetes}-{digest.hexdigest()[:16]}"


def check_platform(system: str, machine: str, kernel: str) -> None:
    """Raise ClusterError where the programs would not run, saying what would."""
    if system != "linux":
        raise ClusterError(f"the local bed runs on Linux only, this is {system}; use --provider kind")
    if machine not in _ARCHITECTURES:
        raise ClusterError(f"etcd does not support {machine}; the local bed needs one of {', '.join(_ARCHITECTURES)}")
    version = tuple(int(number) for number in re.findall(r"\d+", kernel)[:2])
    if version < _OLDEST_KERNEL:
        raise ClusterError(f"the local bed needs Linux 3.2 or later, this is {kernel}")


def _build(go: Path, name: str, directory: Path, progress: Progress) -> None:
    program = PROGRAMS[name]
    log = directory / f"{name}.build.log"
    unfinished = directory / f".{name}.{os.getpid()}"
    argv = [str(go), "build", "-mod=readonly", "-p", str(os.cpu_count() or 1), "-trimpath"]
    argv += ["-ldflags", _linker_flags(kubernetes_version()), "-o", str(unfinished), program.package]
    try:
        with log.open("wb") as output:
            code = _run_to_end(argv, MODULES / program.module, output.fileno())
        if code != 0:
            for line in log.read_text(errors="replace").splitlines()[-_TAIL_LINES:]:
                progress.say(f"  {line}")
            raise ClusterError(f"building {name} failed; the whole output is in {log}")
        unfinished.rename(directory / name)  # atomic: a program is there as a whole or not at all
        log.unlink()
    finally:
        unfinished.unlink(missing_ok=True)


def _run_to_end(argv: list[str], directory: Path, output: int) -> int:
    """Run a command and return its exit code; when we are interrupted, so are its compilers."""
    process = subprocess.Popen(
        argv, cwd=directory, env=go_environment(), stdout=output, stderr=output, start_new_session=True
    )
    try:
        return process.wait()
    finally:
        if process.returncode is None:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _required_version(go_mod: str, module: str) -> str:
    line = re.search(rf"^(?:require)?\s*{re.escape(module)} (v\S+)", go_mod, re.MULTILINE)
    if line is None:
        raise ClusterError(f"go.mod does not require {module}")
    return line[1]


def _linker_flags(kubernetes: str) -> str:
    major, minor, _ = kubernetes.removeprefix("v").split(".", 2)
    variables = {"gitVersion": kubernetes, "gitMajor": major, "gitMinor": minor}
    return " ".join(["-s -w", *(f"-X k8s.io/component-base/version.{key}={value}" for key, value in variables.items())])
