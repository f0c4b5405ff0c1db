"""The network of a bed's nodes, and the fence around it on this machine's side.

The fence inside each node (node/fence) answers what its pods and programs try; this one stands outside, where nothing
in a node can change it, and holds for every node image.
"""

import hashlib
import os
import shutil
import subprocess

from sandberth.cluster.errors import ClusterError
from sandberth.cluster.kind.docker import Docker
from sandberth.cluster.progress import Progress

_CHAIN = "DOCKER-USER"  # Docker's own place for rules that come before its own


class BedNetwork:
    """One bed's bridge network."""

    def __init__(self, docker: Docker, cluster: str) -> None:
        self._docker = docker
        self.name = cluster
        # Of a known name, so that a rule can be about it; an interface has 15 characters at the most.
        self.bridge = f"sb-{hashlib.sha256(cluster.encode()).hexdigest()[:10]}"

    def create(self, progress: Progress) -> None:
        """Make the network unless it is there, and the fence before anything runs in it."""
        if not self._docker.succeeds("network", "inspect", self.name):
            option = f"com.docker.network.bridge.name={self.bridge}"
            self._docker.run("network", "create", "--driver=bridge", "--opt", option, self.name)
        if os.geteuid() != 0:
            progress.say("without root there is no fence on this machine's side, only those inside the nodes")
        elif not self.is_fenced():
            _iptables("--insert", *self._rule())

    def remove(self) -> None:
        """Remove the fence and the network, as far as they are there."""
        while os.geteuid() == 0 and self.is_fenced():
            _iptables("--delete", *self._rule())
        if self._docker.succeeds("network", "inspect", self.name):
            self._docker.run("network", "rm", self.name)

    def is_fenced(self) -> bool:
        """Tell whether new connections from the bed to beyond this machine are refused here. Needs root."""
        program = _iptables_program()
        done = subprocess.run([program, "--wait", "--check", *self._rule()], capture_output=True, check=False)
        return done.returncode == 0

    def _rule(self) -> list[str]:
        beyond = ["--in-interface", self.bridge, "!", "--out-interface", self.bridge]
        return [_CHAIN, *beyond, "--match", "conntrack", "--ctstate", "NEW", "--jump", "REJECT"]


def _iptables(*arguments: str) -> None:
    argv = [_iptables_program(), "--wait", *arguments]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise ClusterError(f"the fence of the bed cannot be set: {' '.join(done.stderr.split())}")


def _iptables_program() -> str:
    found = shutil.which("iptables", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")
    if found is None:
        raise ClusterError("the fence around a kind bed needs iptables: apt-get install iptables")
    return found
