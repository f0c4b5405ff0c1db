"""The local bed: a real control plane on this machine, with nodes and kubelets played by kwok.

A bed lives in a folder of the user's cache and outlives the command that starts it. Pods do not run: see `stages.yaml`
for what happens to them instead. kwok does not enforce a node's capacity.
"""

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Self

from sandberth.cluster import processes
from sandberth.cluster.api import BedApi
from sandberth.cluster.controlplane import BedFolder, write_certificates
from sandberth.cluster.errors import ClusterError
from sandberth.cluster.kubeconfig import write_kubeconfig
from sandberth.cluster.nodes import NodeSize, is_usable, node_object, wait_until_usable
from sandberth.cluster.places import KIND_STATE_FILE, bed_directory, locked
from sandberth.cluster.programs import ensure_programs
from sandberth.cluster.progress import Progress, QuietProgress
from sandberth.cluster.running import READY_SECONDS, RunningPrograms, programs_of
from sandberth.cluster.shell import shell_lines
from sandberth.cluster.state import BedOptions, BedState


class LocalCluster:
    """One bed: use `up` or `find` to get it."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._folder = BedFolder(bed_directory(name))

    @classmethod
    def up(
        cls,
        name: str = "default",
        *,
        nodes: int = 3,
        node_cpu: str = "192",
        node_memory: str = "512Gi",
        node_pods: int = 500,
        scheduler: bool = False,
        audit: bool = True,
        progress: Progress | None = None,
    ) -> Self:
        """Return a bed whose nodes are Ready, built and started where needed.

        A healthy bed of this name is reused as it is; `progress` is told where it differs from what was asked.
        What is left of a broken one is cleaned away first. Raises ClusterError; then nothing is left running,
        and the logs stay.
        """
        options = BedOptions(nodes, node_cpu, node_memory, node_pods, scheduler, audit)
        progress = progress or QuietProgress()
        bed = cls(name)
        if (bed.directory / KIND_STATE_FILE).exists():
            raise ClusterError(f"{name} is a kind bed; take it down first, or choose another --name")
        with locked(bed.lock):
            if bed.healthy():
                bed._tell_reuse(options, progress)
                return bed
            if bed.directory.exists():
                progress.say(f"removing what is left of bed {name}")
                bed._remove()
            bed._create(options, progress)
        return bed

    @classmethod
    def find(cls, name: str = "default") -> Self | None:
        """Return the bed of this name, healthy or not; None when `up` has not made one."""
        bed = cls(name)
        return bed if bed.exists() else None

    def exists(self) -> bool:
        """Tell whether `up` has made this bed."""
        return self._state() is not None

    @property
    def start_command(self) -> str:
        """How to start this bed."""
        return f"sandberth cluster up --name {self.name}"

    @property
    def directory(self) -> Path:
        """The bed's folder."""
        return self._folder.directory

    @property
    def kubeconfig(self) -> Path:
        """The administrator's kubeconfig."""
        return self._folder.kubeconfig

    @property
    def ca_file(self) -> Path:
        """The certificate that the API server's own is checked against."""
        return self._folder.pki / "ca.crt"

    @property
    def kubectl(self) -> Path:
        """A kubectl of the API server's version."""
        return self._folder.kubectl

    @property
    def audit_log(self) -> Path:
        """The writes of Sandberth's service accounts, one audit event as JSON a line."""
        return self._folder.audit_log

    @property
    def server(self) -> str:
        """The API server's URL; it stays the same over restarts."""
        return RunningPrograms(self._folder, self._known_state()).server

    @property
    def options(self) -> BedOptions:
        """What the bed was made with."""
        return self._known_state().options

    @property
    def pids(self) -> dict[str, int]:
        """The running programs, in the order of their start."""
        state = self._state()
        known = state.processes if state else {}
        return {name: each.pid for name, each in known.items() if processes.is_running(each)}

    def healthy(self) -> bool:
        """Tell whether every program runs and the API server says that it is ready."""
        state = self._state()
        if state is None or not state.complete:
            return False
        running = RunningPrograms(self._folder, state)
        return running.all_run() and running.is_ready()

    def status(self) -> dict[str, Any]:
        """Return the bed as plain values: `state` is up, degraded or down; `nodes` is None when nobody answers."""
        state = self._state()
        if state is None:
            return {"name": self.name, "state": "down"}
        ready: int | None = None
        total: int | None = None
        running = RunningPrograms(self._folder, state)
        if running.is_ready():
            with running.api() as api:
                items = api.get("/api/v1/nodes")["items"]
            total, ready = len(items), sum(map(is_usable, items))
        return {
            "name": self.name,
            "state": "up" if self.healthy() and _services_run(state) else "degraded",
            "server": self.server if state.ports else None,
            "kubeconfig": str(self.kubeconfig),
            "options": asdict(state.options),
            "nodes": None if total is None else {"total": total, "ready": ready},
            "programs": [
                *(self._program_status(name, state.processes.get(name)) for name in programs_of(state.options)),
                *(self._program_status(name, service.process) for name, service in state.services.items()),
            ],
        }

    def down(self, *, keep_logs: bool = False) -> None:
        """Stop the programs and remove the bed's folder, or all of it but the logs. Twice is fine."""
        if self.directory.exists():
            with locked(self.lock):
                self._remove(keep_logs=keep_logs)
                self.lock.unlink()

    def stop_program(self, name: str, *, crash: bool = False) -> None:
        """Stop one program until `start_program`: in good order, or as if it crashed."""
        RunningPrograms(self._folder, self._known_state()).stop(name, crash=crash)

    def start_program(self, name: str) -> None:
        """Start a stopped program with the same port and data; return when it answers (etcd, kube-apiserver)."""
        RunningPrograms(self._folder, self._known_state()).restart(name)

    def add_node(
        self,
        name: str,
        *,
        cpu: str = "192",
        memory: str = "512Gi",
        pods: int = 500,
        labels: Mapping[str, str] | None = None,
        taints: Sequence[Mapping[str, str]] = (),
        extended: Mapping[str, str] | None = None,
    ) -> None:
        """Create a node and return when it is Ready. Raises BedApiError, with status 409 if the name is taken."""
        self._add_nodes([node_object(name, NodeSize(cpu, memory, pods), labels, taints, extended)])

    def api(self) -> BedApi:
        """Return a connection as the administrator, to be closed by `with`."""
        return RunningPrograms(self._folder, self._known_state()).api()

    def environment(self, path: str, commands: Path) -> list[str]:
        """Return the shell lines that point kubectl at this bed; `path` is the present PATH."""
        return shell_lines(self.kubeconfig, self.kubectl.parent, path, commands)

    # How a bed comes to be.

    def _create(self, options: BedOptions, progress: Progress) -> None:
        """Make everything; on any failure, Ctrl-C included, stop it again and keep the logs."""
        programs = ensure_programs((*programs_of(options), "kubectl"), progress)
        self._folder.logs.mkdir(parents=True, mode=0o700)
        self.directory.chmod(0o700)
        state = BedState(options, str(programs))
        state.write(self._folder.state)
        try:
            write_certificates(self._folder)
            self.kubectl.parent.mkdir()
            self.kubectl.symlink_to(programs / "kubectl")
            with progress.step(f"starting the control plane of bed {self.name}"):
                RunningPrograms(self._folder, state).start_all()
            if options.nodes:
                with progress.step(f"adding {options.nodes} nodes"):
                    size = NodeSize(options.node_cpu, options.node_memory, options.node_pods)
                    self._add_nodes([node_object(f"node-{number}", size) for number in range(options.nodes)])
            state.complete = True
            state.write(self._folder.state)
        except BaseException:
            self._remove(keep_logs=True)
            raise

    def _add_nodes(self, nodes: Sequence[dict[str, Any]]) -> None:
        running = RunningPrograms(self._folder, self._known_state())
        with running.api() as api:
            for node in nodes:
                api.post("/api/v1/nodes", node)
            names = [node["metadata"]["name"] for node in nodes]
            wait_until_usable(api, names, READY_SECONDS, running.check)

    # How it goes, and what it knows.

    def _remove(self, *, keep_logs: bool = False) -> None:
        state = self._state()
        if state is not None:
            RunningPrograms(self._folder, state).stop_all()
        if not keep_logs:
            shutil.rmtree(self.directory, ignore_errors=True)
            return
        for entry in self.directory.iterdir():
            if entry.is_dir() and entry != self._folder.logs:
                shutil.rmtree(entry, ignore_errors=True)
            elif entry.is_file():
                entry.unlink()

    def _tell_reuse(self, options: BedOptions, progress: Progress) -> None:
        progress.say(f"bed {self.name} is up already")
        differences = self.options.differences(options)
        if differences:
            progress.say(f"it is not what was asked for: {'; '.join(differences)}; run down first to change it")

    def _program_status(self, name: str, process: processes.Process | None) -> dict[str, Any]:
        running = process is not None and processes.is_running(process)
        return {
            "name": name,
            "running": running,
            "pid": process.pid if process is not None and running else None,
            "memory_bytes": processes.resident_bytes(process) if process is not None else 0,
            "log": str(self._folder.log(name)),
        }

    def _state(self) -> BedState | None:
        return BedState.read(self._folder.state)

    def _known_state(self) -> BedState:
        state = self._state()
        if state is None:
            raise ClusterError(f"there is no bed {self.name}; start it with: {self.start_command}")
        return state

    @property
    def lock(self) -> Path:
        """The file that keeps commands on this bed apart."""
        return self.directory.with_name(f".{self.name}.lock")  # outside the folder, which `down` removes


def _services_run(state: BedState) -> bool:
    return all(processes.is_running(service.process) for service in state.services.values())


def service_account_kubeconfig(
    cluster: LocalCluster, namespace: str, service_account: str, path: Path, expiration_seconds: int = 86_400
) -> Path:
    """Write a kubeconfig that acts as this ServiceAccount, and return its path.

    The token comes from the TokenRequest API and ends after `expiration_seconds`. Raises BedApiError, with status 404
    when the account does not exist.
    """
    with cluster.api() as api:
        answer = api.post(
            f"/api/v1/namespaces/{namespace}/serviceaccounts/{service_account}/token",
            {
                "apiVersion": "authentication.k8s.io/v1",
                "kind": "TokenRequest",
                "spec": {"expirationSeconds": expiration_seconds},
            },
        )
    write_kubeconfig(
        path,
        server=cluster.server,
        ca_file=cluster.ca_file,
        user=service_account,
        credentials={"token": answer["status"]["token"]},
        namespace=namespace,
    )
    return path
