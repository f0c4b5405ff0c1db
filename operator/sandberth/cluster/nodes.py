"""The bed's nodes: objects in the shape that a kubelet registers, kept alive by kwok."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sandberth.cluster.api import BedApi
from sandberth.cluster.errors import ClusterError

NOT_READY_TAINT = "node.kubernetes.io/not-ready"
_POLL_SECONDS = 0.1
_ARCHITECTURE = "amd64"


@dataclass(frozen=True, slots=True)
class NodeSize:
    """What one node offers, as Kubernetes quantities; capacity and allocatable are the same."""

    cpu: str = "192"
    memory: str = "512Gi"
    pods: int = 500
    ephemeral_storage: str = "1Ti"

    def resources(self) -> dict[str, str]:
        """Return the size as status.capacity writes it."""
        return {
            "cpu": self.cpu,
            "memory": self.memory,
            "pods": str(self.pods),
            "ephemeral-storage": self.ephemeral_storage,
        }


def node_object(
    name: str,
    size: NodeSize,
    labels: Mapping[str, str] | None = None,
    taints: Sequence[Mapping[str, str]] = (),
    extended: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Return the Node to create; `extended` adds countable resources such as {"example.com/gpu": "8"}."""
    own_labels = {
        "kubernetes.io/hostname": name,
        "kubernetes.io/arch": _ARCHITECTURE,
        "kubernetes.io/os": "linux",
    }
    resources = size.resources() | dict(extended or {})
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": own_labels | dict(labels or {})},
        "spec": {"taints": [dict(taint) for taint in taints]} if taints else {},
        "status": {
            "capacity": resources,
            "allocatable": resources,
            "nodeInfo": {
                "architecture": _ARCHITECTURE,
                "operatingSystem": "linux",
                "kubeletVersion": "kwok",
                "osImage": "",
                "kernelVersion": "",
                "containerRuntimeVersion": "",
                "kubeProxyVersion": "",
                "machineID": "",
                "systemUUID": "",
                "bootID": "",
            },
        },
    }


def is_usable(node: Mapping[str, Any]) -> bool:
    """Tell whether a Node is Ready and free of the taint that every fresh one carries for a while."""
    conditions = node.get("status", {}).get("conditions", [])
    ready = any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)
    taints = node.get("spec", {}).get("taints", [])
    return ready and all(taint["key"] != NOT_READY_TAINT for taint in taints)


def wait_until_usable(api: BedApi, names: Sequence[str], timeout_seconds: float, check: Callable[[], None]) -> None:
    """Return when all named nodes are usable. Raises ClusterError after the timeout, counting the rest.

    `check` raises when waiting has become pointless: a program of the bed ended.
    """
    deadline = time.monotonic() + timeout_seconds
    while True:
        usable = {node["metadata"]["name"] for node in api.get("/api/v1/nodes")["items"] if is_usable(node)}
        waiting = [name for name in names if name not in usable]
        if not waiting:
            return
        check()
        if time.monotonic() > deadline:
            raise ClusterError(
                f"{len(waiting)} of {len(names)} nodes are not Ready after {timeout_seconds:.0f} s, {waiting[0]} first"
            )
        time.sleep(_POLL_SECONDS)
