"""Images written as archives that any container runtime imports, without asking Docker.

The cluster's own images (kube-apiserver and so on) carry the names that kubeadm looks for. Written straight into an
archive, they never become images of this machine's Docker under names that belong to somebody else.
"""

import hashlib
import io
import json
import platform
import tarfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64", "arm64": "arm64"}
_SEARCH_PATH = "PATH=/usr/local/bin:/usr/sbin"


@dataclass(frozen=True, slots=True)
class ProgramImage:
    """One static program as an image: /usr/local/bin/PROGRAM, above `below` (a tar of a file system) where given."""

    name: str
    program: Path
    entrypoint: bool = False
    below: Path | None = None


def write_archive(path: Path, images: Sequence[ProgramImage], scratch: Path) -> None:
    """Write the images into one archive in the layout of `docker save`; `scratch` is a folder for the layers."""
    manifest = []
    with tarfile.open(path, "w") as archive:
        for image in images:
            layers = [image.below] if image.below is not None else []
            layers.append(_program_layer(image, scratch))
            digests = [_sha256(layer) for layer in layers]
            names = [f"{digest}/layer.tar" for digest in digests]
            for layer, name in zip(layers, names, strict=True):
                archive.add(layer, name)
            config = json.dumps(_config(image, digests), sort_keys=True).encode()
            config_name = f"{hashlib.sha256(config).hexdigest()}.json"
            _add(archive, config_name, config)
            manifest.append({"Config": config_name, "RepoTags": [image.name], "Layers": names})
        _add(archive, "manifest.json", json.dumps(manifest).encode())


def _program_layer(image: ProgramImage, scratch: Path) -> Path:
    layer = scratch / f"{image.program.name}.layer.tar"
    with tarfile.open(layer, "w") as tar:
        for folder in ("usr", "usr/local", "usr/local/bin"):
            entry = tarfile.TarInfo(folder)
            entry.type, entry.mode = tarfile.DIRTYPE, 0o755
            tar.addfile(entry)
        entry = tarfile.TarInfo(f"usr/local/bin/{image.program.name}")
        entry.mode, entry.size = 0o755, image.program.stat().st_size  # owner root and time 0: same bytes each time
        with image.program.open("rb") as content:
            tar.addfile(entry, content)
    return layer


def _config(image: ProgramImage, digests: list[str]) -> dict[str, object]:
    settings: dict[str, object] = {"Env": [_SEARCH_PATH]}
    if image.entrypoint:
        settings["Entrypoint"] = [f"/usr/local/bin/{image.program.name}"]
    return {
        "architecture": _ARCHITECTURES.get(platform.machine(), platform.machine()),
        "os": "linux",
        "config": settings,
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}" for digest in digests]},
        "history": [{"created_by": "sandberth cluster"} for _ in digests],
    }


def _add(archive: tarfile.TarFile, name: str, content: bytes) -> None:
    entry = tarfile.TarInfo(name)
    entry.size = len(content)
    archive.addfile(entry, io.BytesIO(content))


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
