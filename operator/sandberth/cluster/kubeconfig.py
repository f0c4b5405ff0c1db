"""Kubeconfig files that need no other file."""

import base64
from pathlib import Path

import yaml


def client_credentials(directory: Path, name: str) -> dict[str, str]:
    """Return the certificate `name` as the user entry of a kubeconfig, its files embedded."""
    return {
        "client-certificate-data": _base64(directory / f"{name}.crt"),
        "client-key-data": _base64(directory / f"{name}.key"),
    }


def write_kubeconfig(
    path: Path, *, server: str, ca_file: Path, user: str, credentials: dict[str, str], namespace: str = "default"
) -> None:
    """Write a kubeconfig that needs no other file, readable by its owner alone."""
    cluster = {"server": server, "certificate-authority-data": _base64(ca_file)}
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "bed", "cluster": cluster}],
        "users": [{"name": user, "user": credentials}],
        "contexts": [{"name": user, "context": {"cluster": "bed", "user": user, "namespace": namespace}}],
        "current-context": user,
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch(mode=0o600)
    path.chmod(0o600)
    path.write_text(yaml.safe_dump(config, sort_keys=False))


def _base64(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()
