"""The image of the nodes: kind's own where a registry answers, otherwise one built here from Go and Debian."""

import hashlib
import subprocess
import tempfile
from pathlib import Path

from sandberth.cluster.errors import ClusterError
from sandberth.cluster.kind.archive import ProgramImage, write_archive
from sandberth.cluster.kind.debian import ensure_debian, image_name
from sandberth.cluster.kind.docker import Docker
from sandberth.cluster.places import cache_directory
from sandberth.cluster.programs import cache_key, ensure_programs, kubernetes_version
from sandberth.cluster.progress import Progress
from sandberth.cluster.toolchain import MODULES

AUTO, OWN = "auto", "own"
# What this kind takes when it is given no image.
REGISTRY_IMAGE = "kindest/node:v1.37.0@sha256:a1ed56cfb0e7b93589bdf97c8cd566405a265939e3620fc4f5de89adff580ae5"
CONTROL_PLANE = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler")
PROGRAMS = ("kind", "kubectl", "kubelet", "kubeadm", "kube-proxy", "nodenet", "pause", "coredns", *CONTROL_PLANE)
NODE_FILES = Path(__file__).parent / "node"
NODENET_IMAGE = "sandberth.dev/nodenet:bed"  # default-cni.yaml names it
_REPOSITORY = "sandberth-bed/kind-node"
_REGISTRY_SECONDS = 10.0
_PACKAGES = (
    "ca-certificates",
    "conntrack",
    "containerd",
    "containernetworking-plugins",
    "ethtool",
    "iproute2",
    "iptables",
    "kmod",
    "mount",
    "nftables",
    "procps",
    "runc",
    "socat",
    "util-linux",
)
_COPIED = ("Dockerfile", "entrypoint", "fence", "systemctl", "journalctl", "default-cni.yaml", "default-storage.yaml")


def ensure_node_image(docker: Docker, wanted: str, progress: Progress) -> str:
    """Return the name of the image for the nodes, built now if it has to be.

    `wanted` is AUTO, OWN, or the name of an image. Raises ClusterError.
    """
    if wanted not in (AUTO, OWN):
        return wanted
    if wanted == AUTO and has_registry_image(docker):
        progress.say(f"the nodes run {REGISTRY_IMAGE.partition('@')[0]}")
        return REGISTRY_IMAGE
    name = own_image_name()
    if not docker.has_image(name):
        if wanted == AUTO:
            progress.say("no image registry answers: building the node image from Go modules and Debian packages")
        _build(docker, name, progress)
    return name


def has_registry_image(docker: Docker) -> bool:
    """Tell, within seconds, whether kind's own node image is here or can be had from its registry."""
    return docker.has_image(REGISTRY_IMAGE) or docker.succeeds(
        "manifest", "inspect", REGISTRY_IMAGE, timeout_seconds=_REGISTRY_SECONDS
    )


def own_image_name() -> str:
    """Return the name of the image built here; it changes with whatever changes the image."""
    digest = hashlib.sha256(f"{cache_key(MODULES)}\n{image_name('node', _PACKAGES)}\n".encode())
    files = [*NODE_FILES.iterdir(), Path(__file__), Path(__file__).with_name("archive.py")]
    for file in sorted(files, key=lambda each: each.name):
        content = file.read_bytes() if file.is_file() else b""
        digest.update(f"{file.name} {len(content)}\n".encode())
        digest.update(content)
    return f"{_REPOSITORY}:{kubernetes_version()}-{digest.hexdigest()[:16]}"


def _build(docker: Docker, name: str, progress: Progress) -> None:
    programs = ensure_programs(PROGRAMS, progress)
    base = ensure_debian(docker, "node", _PACKAGES, progress)
    with (
        progress.step("building the node image"),
        tempfile.TemporaryDirectory(dir=cache_directory(), prefix=".node-image-") as folder,
    ):
        context, scratch = Path(folder) / "context", Path(folder) / "scratch"
        for each in (context / "bin", context / "images/all", context / "images/control-plane", scratch):
            each.mkdir(parents=True)
        for program in ("kubeadm", "kubelet", "kubectl"):
            (context / "bin" / program).hardlink_to(programs / program)
        for file in _COPIED:
            _copy(NODE_FILES / file, context / file)
        (context / "version").write_text(f"{kubernetes_version()}\n")
        names = _image_names(programs / "kubeadm")
        settings = (NODE_FILES / "containerd.toml").read_text().replace("@PAUSE@", names["pause"])
        (context / "containerd.toml").write_text(settings)
        netfilter = scratch / "netfilter.tar"
        _collect_netfilter(docker, base, netfilter)
        _write_archives(programs, names, netfilter, context / "images")
        docker.run("build", "--tag", name, "--build-arg", f"BASE={base}", str(context))
    for other in docker.lines("images", "--format", "{{.Repository}}:{{.Tag}}", _REPOSITORY):
        if other != name:  # a gigabyte that nobody asks for again; one that a bed still runs is refused
            docker.succeeds("rmi", other)


def _write_archives(programs: Path, names: dict[str, str], netfilter: Path, images: Path) -> None:
    """Write what every node starts with, and what only the control plane does; the layers go beside `netfilter`."""
    everywhere = [
        ProgramImage(names["pause"], programs / "pause", entrypoint=True),
        ProgramImage(names["kube-proxy"], programs / "kube-proxy", below=netfilter),
        ProgramImage(names["coredns"], programs / "coredns", entrypoint=True),
        ProgramImage(NODENET_IMAGE, programs / "nodenet", entrypoint=True),
    ]
    control_plane = [ProgramImage(names[program], programs / program) for program in CONTROL_PLANE]
    write_archive(images / "all/node.tar", everywhere, netfilter.parent)
    write_archive(images / "control-plane/control-plane.tar", control_plane, netfilter.parent)


def _collect_netfilter(docker: Docker, base: str, target: Path) -> None:
    """Write what kube-proxy needs of Debian as a tar."""
    script = (NODE_FILES / "kube-proxy-files").read_bytes()
    argv = [str(docker.program), "run", "--rm", "--interactive", "--network=none", base, "sh", "-s"]
    with target.open("wb") as output:
        done = subprocess.run(argv, input=script, stdout=output, stderr=subprocess.PIPE, check=False)
    if done.returncode != 0:
        raise ClusterError(f"collecting kube-proxy's files failed: {done.stderr.decode(errors='replace').strip()}")


def _image_names(kubeadm: Path) -> dict[str, str]:
    """Return the images that this kubeadm looks for, by the program in them; asking it needs no network."""
    argv = [str(kubeadm), "config", "images", "list", "--kubernetes-version", kubernetes_version()]
    listed = subprocess.run(argv, capture_output=True, text=True, check=True).stdout.split()
    return {name.rpartition("/")[2].partition(":")[0]: name for name in listed}


def _copy(source: Path, target: Path) -> None:
    content = source.read_bytes()
    target.write_bytes(content)
    target.chmod(0o755 if content.startswith(b"#!") else 0o644)  # an installed package may have lost its modes
