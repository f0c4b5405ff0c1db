"""Nodes of a test's own, and the Sandboxes that nothing but these nodes can take."""

import itertools
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

from sandberth.cluster.local import LocalCluster
from sandberth.kube import names
from tests.integration.applying import a_template_spec, an_image_spec
from tests.integration.bed import AuditLog, Object, Objects, wait_for

LABEL = "example.com/berths"
PENDING = {"kwok.sandberth.test/pending": "true"}
_NUMBERS = itertools.count(1)


class Berths:
    """A label of its own, the nodes that carry it, and Sandboxes that select it."""

    def __init__(self, cluster: LocalCluster, objects: Objects, namespace: str) -> None:
        self.name = f"b{next(_NUMBERS)}"
        self.selector = {LABEL: self.name}
        self.nodes: list[str] = []
        self.namespace = namespace
        self._cluster = cluster
        self._objects = objects

    # --- nodes ---

    def add_node(
        self,
        *,
        cpu: str = "4",
        memory: str = "16Gi",
        pods: int = 110,
        labels: Mapping[str, str] | None = None,
        taints: Sequence[Mapping[str, str]] = (),
        extended: Mapping[str, str] | None = None,
    ) -> str:
        """Return the name of a new node once it is usable and the operator has made its NodeCapacity."""
        name = f"{self.name}-{len(self.nodes)}"
        self.nodes.append(name)
        own = self.selector | dict(labels or {})
        self._cluster.add_node(name, cpu=cpu, memory=memory, pods=pods, labels=own, taints=taints, extended=extended)
        wait_for(lambda: self.capacity(name), what=f"the NodeCapacity of {name}")
        return name

    def add_nodes(self, count: int, **size: Any) -> list[str]:
        """Return the names of several new nodes of one size."""
        with ThreadPoolExecutor(count) as threads:
            return [future.result() for future in [threads.submit(self.add_node, **size) for _ in range(count)]]

    def node(self, name: str) -> Object:
        node = self._objects.get("Node", name)
        assert node is not None
        return node

    def capacity(self, name: str) -> Object | None:
        """Return the NodeCapacity of the Node as it is now; None while there is none that belongs to it."""
        node = self._objects.get("Node", name)
        capacity = self._objects.get(names.NODECAPACITY_KIND, name)
        if node is None or capacity is None:
            return None
        owners = [owner["uid"] for owner in capacity["metadata"]["ownerReferences"]]
        return capacity if owners == [node["metadata"]["uid"]] else None

    def view(self, name: str) -> Object:
        """Return the operator's view of a Node, empty where it was never written."""
        status = (self.capacity(name) or {}).get("status") or {}
        view: Object = status.get("view") or {}
        return view

    def set_node(self, name: str, **spec: Any) -> None:
        """Patch a Node's spec: `unschedulable` cordons it, `taints` replaces the taints."""
        self._objects.patch("Node", name, {"spec": spec})

    def set_capacity(self, name: str, **spec: Any) -> None:
        """Patch a NodeCapacity's spec; None removes a setting."""
        self._objects.patch(names.NODECAPACITY_KIND, name, {"spec": spec})

    # --- Sandboxes and Pods ---

    def apply(self, name: str, spec: Object | None = None, **metadata: Any) -> Object:
        """Create a Sandbox that only these nodes can take; by default an image of 1 CPU and 1Gi."""
        spec = an_image_spec() if spec is None else spec
        placement = spec.get("placement", {})
        selector = self.selector | placement.get("nodeSelector", {})
        return self._objects.create(
            {
                "apiVersion": names.API_VERSION,
                "kind": names.SANDBOX_KIND,
                "metadata": {"name": name, "namespace": self.namespace, **metadata},
                "spec": {**spec, "placement": {**placement, "nodeSelector": selector}},
            }
        )

    def correct(self, name: str, **spec: Any) -> None:
        """Patch a Sandbox's spec."""
        self._objects.patch(names.SANDBOX_KIND, name, {"spec": spec}, self.namespace)

    def foreign_pod(self, name: str, node: str, requests: Mapping[str, str], **container: Any) -> Object:
        """Create a Pod that is not Sandberth's on a node."""
        return self._objects.create(
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": name, "namespace": self.namespace},
                "spec": {
                    "nodeName": node,
                    "containers": [
                        {"name": "main", "image": "busybox", "resources": {"requests": dict(requests)}, **container}
                    ],
                },
            }
        )

    def delete(self, name: str, kind: str = names.SANDBOX_KIND) -> None:
        self._objects.delete(kind, name, self.namespace)

    def status(self, name: str) -> Object:
        sandbox = self._objects.get(names.SANDBOX_KIND, name, self.namespace)
        assert sandbox is not None
        result: Object = sandbox.get("status") or {}
        return result

    def pod(self, name: str) -> Object:
        pod = self._objects.get("Pod", name, self.namespace)
        assert pod is not None, self.status(name)
        return pod

    def container_resources(self, name: str) -> Object:
        """Return requests and limits of the first container of a Sandbox's Pod."""
        resources: Object = self.pod(name)["spec"]["containers"][0]["resources"]
        return resources

    def running(self, *names_of_sandboxes: str, seconds: float = 20) -> Object:
        """Wait until the Sandboxes run; return the status of the last."""
        for name in names_of_sandboxes:
            wait_for(lambda name=name: self.status(name).get("phase") == "Running", seconds, f"{name} runs")  # type: ignore[misc]
        return self.status(names_of_sandboxes[-1])

    def placed(self, name: str) -> Object:
        """Wait until a Sandbox has a node; return its status."""
        wait_for(lambda: self.status(name).get("nodeName"), what=f"{name} has a node")
        return self.status(name)

    def refused(self, name: str, reason: str = "NoEligibleNode", text: str = "") -> str:
        """Wait until a Sandbox is Pending for this reason with this text in its message; return the message."""

        def message() -> str:
            placed = condition(self.status(name), "Placed")
            matches = placed.get("reason") == reason and text in placed["message"]
            return str(placed["message"]) if matches and placed["status"] == "False" else ""

        result = wait_for(message, what=f"{name} waits: {reason} {text}")
        assert self.status(name)["phase"] == "Pending"
        return result

    def nodes_of(self, *, phases: Sequence[str] = ("Pending", "Running")) -> Counter[str]:
        """Return how many Pods of this namespace each node holds."""
        pods = self._objects.list("Pod", self.namespace)
        return Counter(pod["spec"]["nodeName"] for pod in pods if pod["status"]["phase"] in phases)

    def phases(self) -> Counter[str]:
        """Return how many Sandboxes are in each phase."""
        sandboxes = self._objects.list(names.SANDBOX_KIND, self.namespace)
        return Counter((sandbox.get("status") or {}).get("phase", "") for sandbox in sandboxes)

    def clear(self) -> None:
        """Delete every Sandbox and Pod, and return when they have gone."""
        for kind in (names.SANDBOX_KIND, "Pod"):
            for item in self._objects.list(kind, self.namespace):
                self._objects.delete(kind, item["metadata"]["name"], self.namespace)
        wait_for(lambda: not self._objects.list("Pod", self.namespace), 30, "no Pod is left")


def a_sized_template(
    requests: Mapping[str, str] | None = None, limits: Mapping[str, str] | None = None, **pod_fields: Any
) -> Object:
    """Return a spec whose template has one container of this size."""
    resources = {"requests": dict(requests or {}), "limits": dict(limits or {})}
    container = {"name": "main", "image": "busybox", "resources": resources}
    return a_template_spec(**{"containers": [container], **pod_fields})


def condition(status: Object, kind: str) -> Object:
    """Return one condition, empty where it was never written."""
    found: Object = next((item for item in status.get("conditions", ()) if item["type"] == kind), {})
    return found


def pod_creates(audit: AuditLog, namespace: str, since: int) -> list[int]:
    """Return the answers to the operator's creates of Pods in a namespace, as status codes."""
    writes = audit.writes(since)
    return [w.code for w in writes if (w.verb, w.resource, w.namespace) == ("create", "pods", namespace)]


@contextmanager
def berths_in(cluster: LocalCluster, objects: Objects, namespace: str) -> Iterator[Berths]:
    """Give a test its berths, and take everything down after it."""
    berths = Berths(cluster, objects, namespace)
    try:
        yield berths
    finally:
        berths.clear()
        for node in berths.nodes:
            objects.delete("Node", node)
