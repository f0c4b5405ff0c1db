"""The kind bed: a control plane and workers in containers of this machine's Docker, with real kubelets.

A bed outlives the command that starts it. Its containers, volumes, network and fence go with `down`; the programs and
images that it was made of are a cache and stay.
"""

import base64
import shutil
import subprocess
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Self

import yaml

from sandberth.cluster.api import BedApi
from sandberth.cluster.errors import BedApiError, BedUnreachableError, ClusterError, ProgramFailedError
from sandberth.cluster.kind import hostsettings
from sandberth.cluster.kind.docker import Docker, find_docker
from sandberth.cluster.kind.loading import load_images
from sandberth.cluster.kind.network import BedNetwork
from sandberth.cluster.kind.nodeimage import AUTO, NODE_FILES, REGISTRY_IMAGE, ensure_node_image
from sandberth.cluster.kind.privileges import kind_environment
from sandberth.cluster.kind.state import KindState
from sandberth.cluster.places import KIND_STATE_FILE, bed_directory, beds_directory, cache_directory, locked
from sandberth.cluster.programs import ensure_programs
from sandberth.cluster.progress import Progress, QuietProgress
from sandberth.cluster.shell import shell_lines

_LABEL = "io.x-k8s.kind.cluster"
_LONGEST_NAME = 39  # "sandberth-NAME-control-plane" is a host name, which has 63 characters at the most
_READY_SECONDS = 180.0
_RESTART_SECONDS = 60.0
_POLL_SECONDS = 0.3
_ANSWER_SECONDS = 3.0
_SYSTEM = "/api/v1/namespaces/kube-system/pods"


class KindCluster:
    """One bed: use `up` or `find` to get it."""

    def __init__(self, name: str, docker: Docker | None = None) -> None:
        self.name = name
        self.cluster = f"sandberth-{name}"  # kind's name for it; a user's own clusters are called otherwise
        self.directory = bed_directory(name)
        self._docker = docker

    @classmethod
    def up(
        cls, name: str = "default", *, workers: int = 2, image: str = AUTO, progress: Progress | None = None
    ) -> Self:
        """Return a bed whose nodes are Ready, built and started where needed.

        A healthy bed of this name is reused as it is; `progress` is told where it differs from what was asked. Stopped
        nodes are started; where that does not help, what is left of the bed is cleaned away first. Raises
        ClusterError; then nothing is left running, and the logs stay.
        """
        progress = progress or QuietProgress()
        bed = cls(name, find_docker())
        if len(name) > _LONGEST_NAME:
            raise ClusterError(f"{name} is too long for a kind bed: {_LONGEST_NAME} characters at the most")
        if (bed.directory / "state.json").exists():
            raise ClusterError(f"{name} is a local bed; take it down first, or choose another --name")
        with locked(bed.lock):
            if bed._is_revived(progress):
                bed._tell_reuse(workers, progress)
                return bed
            if bed.directory.exists() or bed.containers():
                progress.say(f"removing what is left of bed {name}")
                bed._remove(keep_logs=False)
            bed._create(workers, image, progress)
        return bed

    @classmethod
    def find(cls, name: str = "default") -> Self | None:
        """Return the bed of this name, healthy or not; None when `up` has not made one."""
        bed = cls(name)
        return bed if bed.exists() else None

    @property
    def docker(self) -> Docker:
        """This machine's Docker. Raises ClusterError where it does not answer."""
        if self._docker is None:
            self._docker = find_docker()
        return self._docker

    @property
    def kubeconfig(self) -> Path:
        """The administrator's kubeconfig."""
        return self.directory / "kubeconfig"

    @property
    def kubectl(self) -> Path:
        """The bed's kubectl, alone in its folder so that the folder can go on PATH."""
        return self.directory / "bin" / "kubectl"

    @property
    def logs(self) -> Path:
        """What kind and the nodes of a failed start said."""
        return self.directory / "logs"

    @property
    def lock(self) -> Path:
        """The file that keeps commands on this bed apart."""
        return self.directory.with_name(f".{self.name}.lock")  # outside the folder, which `down` removes

    @property
    def server(self) -> str:
        """The API server's URL."""
        return self._known_state().server

    @property
    def network(self) -> BedNetwork:
        """The network of the nodes."""
        return BedNetwork(self.docker, self.cluster)

    @property
    def control_plane(self) -> str:
        """The container, and the Node, of the control plane."""
        return f"{self.cluster}-control-plane"

    def exists(self) -> bool:
        """Tell whether `up` has made this bed; Docker is not asked."""
        return (self.directory / KIND_STATE_FILE).exists()

    def containers(self, *, running_only: bool = False) -> list[str]:
        """Return the containers of the nodes, which are called like their Nodes, the control plane first."""
        arguments = ["ps", "--filter", f"label={_LABEL}={self.cluster}", "--format", "{{.Names}}"]
        return sorted(self.docker.lines(*arguments, *([] if running_only else ["--all"])))

    def workers(self) -> list[str]:
        """Return the containers of the workers."""
        return [name for name in self.containers() if name != self.control_plane]

    def load(self, images: Sequence[str], progress: Progress | None = None) -> None:
        """Load images of this machine's Docker into every running node that lacks them. Raises ClusterError."""
        nodes = self.containers(running_only=True)
        if not nodes:
            raise ClusterError(f"no node of bed {self.name} runs; start it with: {self.start_command}")
        load_images(self.docker, nodes, images, progress or QuietProgress())

    def api(self, timeout_seconds: float = 30.0) -> BedApi:
        """Return a connection as the administrator, to be closed by `with`."""
        pki = self.directory / "pki"
        return BedApi(self.server, pki / "ca.crt", pki / "admin.crt", pki / "admin.key", timeout_seconds)

    def healthy(self) -> bool:
        """Tell whether every node's container runs, the API server answers, and every Node is Ready."""
        state = self._state()
        if state is None or not state.complete or len(self.containers(running_only=True)) != state.nodes + 1:
            return False
        nodes = self._nodes()
        return nodes is not None and len(nodes) == state.nodes + 1 and all(map(_is_ready, nodes))

    def status(self) -> dict[str, Any]:
        """Return the bed as plain values: `state` is up, degraded or down; `nodes` is None when nobody answers."""
        state = self._state()
        if state is None:
            return {"name": self.name, "state": "down"}
        running = set(self.containers(running_only=True))
        nodes = self._nodes() if state.server else None
        ready = None if nodes is None else {"total": len(nodes), "ready": sum(map(_is_ready, nodes))}
        return {
            "name": self.name,
            "provider": "kind",
            "state": "up" if self.healthy() else "degraded",
            "server": state.server or None,
            "kubeconfig": str(self.kubeconfig),
            "image": state.image,
            "nodes": ready,
            "containers": [{"name": name, "running": name in running} for name in self.containers()],
        }

    def down(self, *, keep_logs: bool = False) -> None:
        """Remove the containers with their volumes, the network, the fence and the bed's folder. Twice is fine."""
        if self.directory.exists() or self.containers():  # its cache may have been removed under it
            with locked(self.lock):
                self._remove(keep_logs=keep_logs)
                self.lock.unlink()

    def environment(self, path: str, commands: Path) -> list[str]:
        """Return the shell lines that point kubectl at this bed; `path` is the present PATH."""
        return shell_lines(self.kubeconfig, self.kubectl.parent, path, commands)

    @property
    def start_command(self) -> str:
        """How to start this bed."""
        return f"sandberth cluster up --provider kind --name {self.name}"

    # How a bed comes to be.

    def _create(self, workers: int, wanted_image: str, progress: Progress) -> None:
        """Make everything; on any failure, Ctrl-C included, remove it again and keep the logs."""
        image = ensure_node_image(self.docker, wanted_image, progress)
        programs = ensure_programs(("kind", "kubectl"), progress)
        self.logs.mkdir(parents=True, mode=0o700)
        self.directory.chmod(0o700)
        state = KindState(workers, image, str(programs))
        state.write(self.directory / KIND_STATE_FILE)
        with _host_lock():
            hostsettings.remember(hostsettings.note_path())
            hostsettings.make_room(self.docker, image, progress)
        try:
            self.kubectl.parent.mkdir()
            self.kubectl.symlink_to(programs / "kubectl")
            self.network.create(progress)
            with progress.step(f"starting bed {self.name}: a control plane, {workers} workers"):
                self._run_kind(programs / "kind", state)
            if image == REGISTRY_IMAGE:
                self._fence_nodes()
            state.server = self._write_credentials()
            state.write(self.directory / KIND_STATE_FILE)
            with progress.step("waiting until the nodes are Ready"):
                self._wait_until(self._is_working, _READY_SECONDS)
            state.complete = True
            state.write(self.directory / KIND_STATE_FILE)
        except BaseException:
            self._save_logs()
            self._remove(keep_logs=True)
            raise

    def _run_kind(self, kind: Path, state: KindState) -> None:
        nodes = [{"role": "control-plane"}, *({"role": "worker"} for _ in range(state.nodes))]
        config = self.directory / "kind.yaml"
        config.write_text(
            yaml.safe_dump({"kind": "Cluster", "apiVersion": "kind.x-k8s.io/v1alpha4", "nodes": nodes}, sort_keys=False)
        )
        argv = [str(kind), "create", "cluster", "--name", self.cluster, "--config", str(config), "--retain"]
        argv += ["--image", state.image, "--kubeconfig", str(self.kubeconfig)]
        environment = kind_environment(self.docker, state.image, self.cluster, self.directory / "kind-path")
        log = self.logs / "kind.log"
        with log.open("ab") as output:
            done = subprocess.run(
                argv, stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=environment, check=False
            )
        if done.returncode != 0:
            raise ProgramFailedError("kind", f"ended with {done.returncode}", log)

    def _fence_nodes(self) -> None:
        """Set the fence in nodes whose image does not bring it; a node that is started again is without."""
        script = (NODE_FILES / "fence").read_text()
        for node in self.containers():
            self.docker.run("exec", "--interactive", node, "bash", "-s", text=script)

    def _write_credentials(self) -> str:
        """Take the administrator's credentials out of the kubeconfig; return the server's URL."""
        self.kubeconfig.chmod(0o600)
        config = yaml.safe_load(self.kubeconfig.read_text())
        cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
        pki = self.directory / "pki"
        pki.mkdir(mode=0o700, exist_ok=True)
        for name, content in (
            ("ca.crt", cluster["certificate-authority-data"]),
            ("admin.crt", user["client-certificate-data"]),
            ("admin.key", user["client-key-data"]),
        ):
            (pki / name).touch(mode=0o600)
            (pki / name).write_bytes(base64.b64decode(content))
        return str(cluster["server"])

    def _is_working(self) -> bool:
        """Tell whether the Nodes are usable and everything that runs in kube-system is Ready."""
        nodes = self._nodes()
        expected = self._known_state().nodes + 1
        if nodes is None or len(nodes) != expected or not all(map(_is_ready, nodes)):
            return False
        with self.api(_ANSWER_SECONDS) as api:
            pods = api.get(_SYSTEM)["items"]
        return bool(pods) and all(map(_is_ready, pods))

    def _wait_until(self, claim: Any, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while True:
            try:
                if claim():
                    return
            except (BedApiError, BedUnreachableError):
                pass  # the API server of a fresh control plane goes away once or twice
            if time.monotonic() > deadline:
                raise ClusterError(f"the nodes of bed {self.name} are not Ready after {seconds:.0f} s; see {self.logs}")
            time.sleep(_POLL_SECONDS)

    # How it comes back, how it goes, and what it knows.

    def _is_revived(self, progress: Progress) -> bool:
        """Tell whether the bed is healthy, perhaps after its stopped nodes were started."""
        state = self._state()
        if state is None or not state.complete:
            return False
        stopped = sorted(set(self.containers()) - set(self.containers(running_only=True)))
        if stopped:
            self.network.create(progress)  # the fence does not outlive a reboot
            with progress.step(f"starting {', '.join(stopped)}"):
                self.docker.run("start", *stopped)
        if self.healthy():
            return True
        try:
            with progress.step("waiting until the nodes are Ready"):
                self._wait_until(self.healthy, _RESTART_SECONDS)
        except ClusterError:
            return False
        return True

    def _remove(self, *, keep_logs: bool) -> None:
        containers = self.containers()
        if containers:
            with ThreadPoolExecutor(len(containers)) as pool:
                removals = [pool.submit(self.docker.run, "rm", "--force", "--volumes", each) for each in containers]
                for removal in removals:
                    removal.result()
        self.network.remove()
        state = self._state()
        if keep_logs and self.directory.exists():
            for entry in self.directory.iterdir():
                if entry.is_dir() and entry != self.logs:
                    shutil.rmtree(entry, ignore_errors=True)
                elif entry.is_file():
                    entry.unlink()
        else:
            shutil.rmtree(self.directory, ignore_errors=True)
        with _host_lock():
            if not any(beds_directory().glob(f"*/{KIND_STATE_FILE}")):
                image = state.image if state else ""
                failed = hostsettings.restore(hostsettings.note_path(), self.docker, image)
                if failed:
                    raise ClusterError(f"bed {self.name} is down, but put back by hand: sysctl -w {' '.join(failed)}")

    def _save_logs(self) -> None:
        for node in self.containers():
            with (self.logs / f"{node}.log").open("wb") as output:
                for command in (["logs", node], ["exec", node, "journalctl"]):
                    subprocess.run([str(self.docker.program), *command], stdout=output, stderr=output, check=False)

    def _tell_reuse(self, workers: int, progress: Progress) -> None:
        progress.say(f"bed {self.name} is up already")
        present = self._known_state().nodes
        if present != workers:
            progress.say(
                f"it is not what was asked for: nodes is {present}, not {workers}; run down first to change it"
            )

    def _nodes(self) -> list[dict[str, Any]] | None:
        """Return the Nodes, None when the API server does not answer."""
        try:
            with self.api(_ANSWER_SECONDS) as api:
                items: list[dict[str, Any]] = api.get("/api/v1/nodes")["items"]
        except (BedApiError, BedUnreachableError, OSError):  # OSError: not even its certificates are there
            return None
        return items

    def _state(self) -> KindState | None:
        return KindState.read(self.directory / KIND_STATE_FILE)

    def _known_state(self) -> KindState:
        state = self._state()
        if state is None:
            raise ClusterError(f"there is no kind bed {self.name}; start it with: {self.start_command}")
        return state


def _is_ready(thing: dict[str, Any]) -> bool:
    """Tell whether a Node or a Pod has the condition Ready."""
    conditions = thing.get("status", {}).get("conditions", [])
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


def _host_lock() -> Any:
    return locked(cache_directory() / "kind-host.lock")
