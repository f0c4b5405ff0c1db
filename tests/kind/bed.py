"""The kind bed as tests use it: kubectl and docker as a user has them, and waiting that says what it saw."""

import json
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import yaml

from sandberth.cluster.api import BedApi
from sandberth.cluster.errors import BedApiError
from sandberth.cluster.kind.cluster import KindCluster
from sandberth.cluster.kind.docker import Docker
from sandberth.kube import names

Object = dict[str, Any]
T = TypeVar("T")

IMAGE = "sandberth:dev"  # on every node, and with a shell and a Python in it
# Ends at SIGTERM. A container's first process that says nothing about it ignores it, and takes the 30 s of grace to go.
FOREVER = (
    "python3",
    "-u",
    "-c",
    "import signal; signal.pthread_sigmask(signal.SIG_BLOCK, [15]); print('hello'); signal.sigwait([15])",
)
_ELSEWHERE = ("--context", "--kubeconfig", "--cluster", "--server", "-s", "--user", "--token")
_PATHS = {  # kind -> where its objects are
    names.SANDBOX_KIND: (f"apis/{names.API_VERSION}", names.SANDBOXES),
    names.NODECAPACITY_KIND: (f"apis/{names.API_VERSION}", names.NODECAPACITIES),
    "Pod": ("api/v1", "pods"),
    "Node": ("api/v1", "nodes"),
    "Event": ("api/v1", "events"),
    "ConfigMap": ("api/v1", "configmaps"),
    "Namespace": ("api/v1", "namespaces"),
    "PersistentVolumeClaim": ("api/v1", "persistentvolumeclaims"),
    "Deployment": ("apis/apps/v1", "deployments"),
    "DaemonSet": ("apis/apps/v1", "daemonsets"),
}


class ForeignClusterError(RuntimeError):
    """Whatever these tests were pointed at is not the bed that they made."""


def own_context(kubeconfig: Path, cluster: str) -> str:
    """Return the bed's context. Raises ForeignClusterError where the file names any other, or another machine."""
    config = yaml.safe_load(kubeconfig.read_text())
    expected = f"kind-{cluster}"
    present = config.get("current-context")
    if present != expected:
        raise ForeignClusterError(f"the tests run against {expected} only; {kubeconfig} points at {present}")
    contexts = [each["name"] for each in config["contexts"]]
    servers = [each["cluster"]["server"] for each in config["clusters"]]
    if contexts != [expected] or not all(server.startswith("https://127.0.0.1:") for server in servers):
        raise ForeignClusterError(f"{kubeconfig} names more than {expected} on this machine: {contexts}, {servers}")
    return expected


def a_sandbox(
    name: str = "box",
    *,
    cpu: str = "50m",
    memory: str = "32Mi",
    command: Sequence[str] = FOREVER,
    image: str = IMAGE,
    **fields: Any,
) -> Object:
    """Return a Sandbox that runs until it is deleted; `fields` add to its spec."""
    spec = {"image": image, "command": list(command), "resources": {"cpu": cpu, "memory": memory}} | fields
    return {"apiVersion": names.API_VERSION, "kind": names.SANDBOX_KIND, "metadata": {"name": name}, "spec": spec}


class KindBed:
    """One kind cluster with Sandberth deployed in it."""

    def __init__(self, cluster: KindCluster) -> None:
        self.cluster = cluster
        self.context = own_context(cluster.kubeconfig, cluster.cluster)

    @property
    def docker(self) -> Docker:
        """This machine's Docker."""
        return self.cluster.docker

    @property
    def control_plane(self) -> str:
        """The container, and the Node, of the control plane."""
        return self.cluster.control_plane

    @property
    def workers(self) -> list[str]:
        """The containers, and the Nodes, of the workers."""
        return self.cluster.workers()

    def api(self) -> BedApi:
        """Return a connection as the administrator, to be closed by `with`."""
        return self.cluster.api()

    # What a user does.

    def kubectl(
        self, *arguments: str, text: str = "", check: bool = True, timeout_seconds: float = 120
    ) -> subprocess.CompletedProcess[str]:
        """Run kubectl as the bed's administrator. Raises ForeignClusterError for an option that leads elsewhere.

        What follows "--" is the command of an exec and may say what it likes.
        """
        own = arguments[: arguments.index("--")] if "--" in arguments else arguments
        leading = [each for each in own if each.partition("=")[0] in _ELSEWHERE]
        if leading:
            raise ForeignClusterError(f"kubectl in these tests is bound to {self.context}; leave out {leading[0]}")
        bound = ["--kubeconfig", str(self.cluster.kubeconfig), "--context", self.context]
        done = subprocess.run(
            [str(self.cluster.kubectl), *bound, *arguments],
            input=text,
            capture_output=True,
            text=True,
            check=False,
            timeout=timeout_seconds,
        )
        assert not check or done.returncode == 0, f"kubectl {' '.join(arguments)}: {done.stderr.strip()}"
        return done

    def apply(self, what: str | Object | Sequence[Object], namespace: str = "default") -> None:
        """Apply YAML text, one object, or several."""
        objects = [what] if isinstance(what, dict) else what
        text = objects if isinstance(objects, str) else yaml.safe_dump_all(list(objects))
        self.kubectl("apply", "--namespace", namespace, "--filename=-", text=text)

    def exec(self, pod: str, *command: str, namespace: str = "default", check: bool = True) -> str:
        """Return what a command prints in a Pod's first container."""
        return self.kubectl("exec", "--namespace", namespace, pod, "--", *command, check=check).stdout

    def logs(self, pod: str, namespace: str = "default") -> str:
        """Return what a Pod's container printed."""
        return self.kubectl("logs", "--namespace", namespace, pod).stdout

    def on_node(self, node: str, *command: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        """Run a command in a node's container, as whoever owns the node could."""
        argv = [str(self.docker.program), "exec", node, *command]
        done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=120)
        assert not check or done.returncode == 0, f"{' '.join(command)} on {node}: {done.stderr.strip()}"
        return done

    # What a user sees.

    def get(self, kind: str, name: str, namespace: str | None = None) -> Object | None:
        """Return an object, None when there is none."""
        try:
            with self.api() as api:
                found: Object = api.get(f"{path_of(kind, namespace)}/{name}")
        except BedApiError as error:
            if error.status == 404:
                return None
            raise
        return found

    def list(self, kind: str, namespace: str | None = None) -> list[Object]:
        """Return the objects of a kind: of one namespace, or of all."""
        with self.api() as api:
            items: list[Object] = api.get(path_of(kind, namespace))["items"]
        return items

    def phase(self, sandbox: str, namespace: str = "default") -> str:
        """Return the phase of a Sandbox, "" before it has one."""
        found = self.get(names.SANDBOX_KIND, sandbox, namespace) or {}
        return str(found.get("status", {}).get("phase", ""))

    def node_of(self, sandbox: str, namespace: str = "default") -> str:
        """Return the node of a Sandbox, "" before it has one."""
        found = self.get(names.SANDBOX_KIND, sandbox, namespace) or {}
        return str(found.get("status", {}).get("nodeName", ""))

    def wait(self, claim: Callable[[], T], what: str, seconds: float = 60, namespace: str | None = None) -> T:
        """Return the first true value of `claim`; after `seconds`, fail with the state of the namespace."""
        deadline = time.monotonic() + seconds
        while True:
            value = claim()
            if value:
                return value
            if time.monotonic() > deadline:
                raise AssertionError(
                    f"not within {seconds:g} s: {what}; last seen: {value!r}\n{self.account(namespace or 'default')}"
                )
            time.sleep(0.1)

    def wait_for_phase(
        self, sandbox: str, phase: str = names.Phase.RUNNING, namespace: str = "default", seconds: float = 60
    ) -> Object:
        """Return the Sandbox once it is in this phase."""
        what = f"Sandbox {sandbox} is {phase}"
        self.wait(lambda: self.phase(sandbox, namespace) == phase, what, seconds, namespace)
        found = self.get(names.SANDBOX_KIND, sandbox, namespace)
        assert found is not None
        return found

    def account(self, namespace: str) -> str:
        """Return what there is to know of a namespace, and what the operator said last: for failures."""
        parts = [
            self.kubectl(*arguments, check=False).stdout.strip()
            for arguments in (
                ("get", "nodes,nodecapacities", "--output=wide"),
                ("get", "sandboxes.sandberth.dev,pods", "--namespace", namespace, "--output=wide"),
                ("get", "events", "--namespace", namespace, "--sort-by=.lastTimestamp"),
                ("logs", "--namespace", names.NAMESPACE, "deployment/sandberth-operator", "--tail=20"),
            )
        ]
        statuses = {
            each["metadata"]["name"]: each.get("status", {}).get("conditions", [])
            for each in self.list(names.SANDBOX_KIND, namespace)
        }
        return "\n\n".join([*parts, json.dumps(statuses, indent=1)])


def path_of(kind: str, namespace: str | None) -> str:
    """Return where the objects of a kind are, of one namespace or of all."""
    group, plural = _PATHS[kind]
    return f"/{group}/{plural}" if namespace is None else f"/{group}/namespaces/{namespace}/{plural}"
