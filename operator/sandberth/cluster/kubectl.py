"""A bed's own kubectl, run as the administrator."""

import subprocess
from pathlib import Path
from typing import Protocol

from sandberth.cluster.errors import ClusterError


class KubectlBed(Protocol):
    """What kubectl needs to know of a bed."""

    @property
    def kubectl(self) -> Path:
        """The program."""

    @property
    def kubeconfig(self) -> Path:
        """The administrator's kubeconfig, which alone decides whom it talks to."""


def run_kubectl(bed: KubectlBed, *arguments: str, text: str = "") -> str:
    """Return what kubectl prints, `text` being its standard input. Raises ClusterError with its first complaint."""
    command = [str(bed.kubectl), "--kubeconfig", str(bed.kubeconfig), *arguments]
    answer = subprocess.run(command, capture_output=True, text=True, check=False, input=text)
    if answer.returncode != 0:
        complaint = (answer.stderr.strip().splitlines() or ["it said nothing"])[0]
        raise ClusterError(f"kubectl {arguments[0]} failed: {complaint}")
    return answer.stdout
