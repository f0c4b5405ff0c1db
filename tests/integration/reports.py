"""NodeCapacities, Nodes and Pods as the tests of reporters make them, and the reports that they wait for."""

from collections.abc import Callable
from contextlib import suppress
from typing import Any

from kubernetes.client.exceptions import ApiException

from sandberth.cluster.local import LocalCluster
from sandberth.kube import names
from sandberth.kube.nodecapacity import Report
from tests.integration.bed import Objects, wait_for

TAINT = {"key": "test/reporter", "value": "only", "effect": "NoSchedule"}


class Bed:
    """What these tests do as the administrator."""

    def __init__(self, cluster: LocalCluster, objects: Objects) -> None:
        self._cluster = cluster
        self.objects = objects

    def node_uid(self, name: str) -> str:
        return uid_of(self.objects.get("Node", name))

    def ensure_capacity(self, name: str) -> str:
        """Return the UID of the NodeCapacity that belongs to this Node as it is now, made here or by the operator."""
        owner = {"apiVersion": "v1", "kind": "Node", "name": name, "uid": self.node_uid(name)}
        metadata = {"name": name, "ownerReferences": [owner]}

        def owned() -> str | None:
            found = self.objects.get(names.NODECAPACITY_KIND, name)
            if found is None:
                with suppress(ApiException):  # somebody was quicker
                    self.objects.create(
                        {"apiVersion": names.API_VERSION, "kind": names.NODECAPACITY_KIND, "metadata": metadata}
                    )
                return None
            return uid_of(found) if found["metadata"]["ownerReferences"][0]["uid"] == owner["uid"] else None

        return wait_for(owned, what=f"the NodeCapacity of {name}") or ""

    def remove_capacity(self, name: str) -> None:
        self.objects.delete(names.NODECAPACITY_KIND, name)

    def report_when(self, name: str, claim: Callable[[Report], bool], what: str = "") -> Report:
        """Return the first report of this node that is as claimed."""

        def wanted() -> Report | None:
            found = self.objects.get(names.NODECAPACITY_KIND, name)
            body = (found or {}).get("status", {}).get("report")
            report = Report.model_validate(body) if body else None
            return report if report is not None and claim(report) else None

        report = wait_for(wanted, what=what or f"a report of {name}")
        assert report is not None
        return report

    def add_node(self, name: str) -> str:
        self._cluster.add_node(name, taints=[TAINT])
        return self.node_uid(name)

    def add_pod(
        self, namespace: str, name: str, node: str, cpu: str, *, owner_uid: str = "", nominal: str = ""
    ) -> None:
        """Create a Pod on a node; with an owner it is a Sandbox's, of that nominal CPU and 1Gi."""
        metadata: dict[str, Any] = {"name": name, "namespace": namespace}
        if owner_uid:
            owner = {"apiVersion": names.API_VERSION, "kind": names.SANDBOX_KIND, "name": name, "uid": owner_uid}
            metadata |= {
                "labels": {names.ATTEMPT_LABEL: f"{owner_uid}.1"},
                "annotations": {names.NOMINAL_CPU_ANNOTATION: nominal, names.NOMINAL_MEMORY_ANNOTATION: "1Gi"},
                "ownerReferences": [{**owner, "controller": True}],
            }
        amounts = {"requests": {"cpu": cpu, "memory": "1Gi"}}
        container = {"name": "main", "image": "busybox:1.36", "resources": amounts}
        spec = {"nodeName": node, "containers": [container], "automountServiceAccountToken": False}
        self.objects.create({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})

    def add_sandbox(self, namespace: str, name: str) -> str:
        """Create a Sandbox that no node takes, so that its Pod can be made by hand; return its UID."""
        spec = {
            "image": "busybox:1.36",
            "resources": {"cpu": "1", "memory": "1Gi"},
            "placement": {"nodeSelector": {"test/nowhere": "true"}},
            "recovery": "Never",
        }
        metadata = {"name": name, "namespace": namespace}
        body = {"apiVersion": names.API_VERSION, "kind": names.SANDBOX_KIND, "metadata": metadata, "spec": spec}
        return uid_of(self.objects.create(body))


def uid_of(item: dict[str, Any] | None) -> str:
    assert item is not None
    return str(item["metadata"]["uid"])
