"""The Sandboxes of one namespace as a test sees them, and what every Pod of the bed adds up to on its node."""

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from sandberth.core.quantity import cpu_millicores, whole_bytes
from sandberth.kube import names
from sandberth.kube.pods import PodFacts, convert_pod
from tests.integration.applying import an_image_spec
from tests.integration.bed import Object, Objects, wait_for
from tests.integration.berths import condition

PLAY = "kwok.sandberth.test/"  # see cluster/stages.yaml


def plays(**acts: str) -> dict[str, str]:
    """Return annotations that have kwok play a Pod: exit="1", exit_after="2s", pending="true", fail_reason=..."""
    return {PLAY + act.replace("_", "-"): value for act, value in acts.items()}


class Boxes:
    """Sandboxes by name."""

    def __init__(self, objects: Objects, namespace: str) -> None:
        self.objects = objects
        self.namespace = namespace

    # --- what a user does ---

    def apply(
        self,
        name: str = "box",
        spec: Object | None = None,
        *,
        annotations: Mapping[str, str] | None = None,
        **fields: Any,
    ) -> str:
        """Create a Sandbox, by default an image of 100m and 64Mi; `fields` add to the spec. Return its UID."""
        metadata = {"name": name, "namespace": self.namespace, "annotations": dict(annotations or {})}
        metadata |= fields.pop("metadata", {})
        spec = (an_image_spec("100m", "64Mi") if spec is None else spec) | fields
        body = {"apiVersion": names.API_VERSION, "kind": names.SANDBOX_KIND, "metadata": metadata, "spec": spec}
        uid: str = self.objects.create(body)["metadata"]["uid"]
        return uid

    def patch(self, name: str = "box", **body: Any) -> None:
        self.objects.patch(names.SANDBOX_KIND, name, body, self.namespace)

    def delete(self, name: str = "box", **options: Any) -> None:
        self.objects.delete(names.SANDBOX_KIND, name, self.namespace, **options)

    def delete_pod(self, name: str = "box", **options: Any) -> None:
        self.objects.delete("Pod", name, self.namespace, **options)

    # --- what a user sees ---

    def sandbox(self, name: str = "box") -> Object | None:
        return self.objects.get(names.SANDBOX_KIND, name, self.namespace)

    def pod(self, name: str = "box") -> Object | None:
        return self.objects.get("Pod", name, self.namespace)

    def status(self, name: str = "box") -> Object:
        result: Object = (self.sandbox(name) or {}).get("status") or {}
        return result

    def reason(self, kind: str, name: str = "box") -> str | None:
        """Return the reason of a condition, None where it was never written."""
        reason: str | None = condition(self.status(name), kind).get("reason")
        return reason

    def message(self, kind: str, name: str = "box") -> str:
        return str(condition(self.status(name), kind).get("message", ""))

    def has_phase(self, phase: str, name: str = "box", seconds: float = 20) -> Object:
        """Wait until a Sandbox is in a phase; return its status."""
        wait_for(lambda: self.status(name).get("phase") == phase, seconds, f"{name} is {phase}, {self.status(name)}")
        return self.status(name)

    def has_reason(self, kind: str, reason: str, name: str = "box", seconds: float = 20) -> Object:
        """Wait until a condition has a reason; return the condition."""
        wait_for(lambda: self.reason(kind, name) == reason, seconds, f"{name}: {kind} is {reason}, {self.status(name)}")
        return condition(self.status(name), kind)

    def is_gone(self, name: str = "box", seconds: float = 20) -> None:
        wait_for(lambda: self.sandbox(name) is None and self.pod(name) is None, seconds, f"{name} and its Pod are gone")

    def has_new_pod(self, old_uid: str, name: str = "box", seconds: float = 10) -> Object:
        """Wait until another Pod than the old one holds the name; return it."""

        def other() -> list[Object]:
            pod = self.pod(name)
            return [pod] if pod is not None and pod["metadata"]["uid"] != old_uid else []

        return wait_for(other, seconds, f"{name} has a new Pod")[0]

    def phases(self) -> Counter[str]:
        sandboxes = self.objects.list(names.SANDBOX_KIND, self.namespace)
        return Counter((sandbox.get("status") or {}).get("phase", "") for sandbox in sandboxes)

    def all_run(self, count: int, seconds: float = 30) -> None:
        wait_for(lambda: self.phases() == {"Running": count}, seconds, f"all {count} run")

    def one_pod_each(self) -> bool:
        """Return whether every Sandbox has the one Pod that it says it has, and no other Pod is there."""
        sandboxes = self.objects.list(names.SANDBOX_KIND, self.namespace)
        pods = {pod["metadata"]["name"]: pod for pod in self.objects.list("Pod", self.namespace)}
        claims = {
            (box["metadata"]["name"], box["metadata"]["uid"], (box.get("status") or {}).get("nodeName"))
            for box in sandboxes
        }
        facts = {
            (name, pod["metadata"]["ownerReferences"][0]["uid"], pod["spec"]["nodeName"]) for name, pod in pods.items()
        }
        return claims == facts and len(pods) == len(sandboxes)


def attempt_of(pod: Object) -> int:
    """Return the number of the attempt that a Pod is."""
    return int(pod["metadata"]["labels"][names.ATTEMPT_LABEL].rpartition(".")[2])


def ready_pod(boxes: Boxes, name: str = "box") -> Object:
    """Wait until a Sandbox runs; return its Pod."""
    boxes.has_phase("Running", name)
    pod = boxes.pod(name)
    assert pod is not None
    return pod


def views_differ(objects: Objects) -> list[str]:
    """Return the nodes whose NodeCapacity view is not the sum over the Pods that the API server has now."""
    by_node: dict[str, list[PodFacts]] = {}
    for body in objects.list("Pod"):
        pod = convert_pod(body)
        if not pod.terminal:
            by_node.setdefault(pod.node_name, []).append(pod)
    differences = []
    nodes = {node["metadata"]["name"] for node in objects.list("Node")}
    for capacity in objects.list(names.NODECAPACITY_KIND):
        name, view = capacity["metadata"]["name"], (capacity.get("status") or {}).get("view") or {}
        if name not in nodes:
            continue  # its Node is gone, and the garbage collector has not come to it yet
        pods = by_node.get(name, [])
        own = [pod for pod in pods if pod.attempt_id is not None]
        sizes = [pod.nominal if pod.attempt_id is not None else pod.requests.size for pod in pods]
        expected = (sum(s.cpu_millicores for s in sizes), sum(s.memory_bytes for s in sizes), len(own))
        accounted = view.get("accounted", {"cpu": "-1", "memory": "-1"})
        seen = (cpu_millicores(accounted["cpu"]), whole_bytes(accounted["memory"]), view.get("sandboxes"))
        if seen != expected:
            differences.append(f"{name}: the view says {seen}, its Pods {expected}")
    return differences


def views_are_the_pods(objects: Objects, meanwhile: Callable[[], object] = lambda: None) -> None:
    """Wait until every NodeCapacity's view equals the sums over the Pods; it is written every ten seconds."""
    differences: list[str] = []

    def agree() -> bool:
        meanwhile()
        differences[:] = views_differ(objects)
        return not differences

    try:
        wait_for(agree, 25)
    except AssertionError as error:
        raise AssertionError(f"after 25 s still: {differences}") from error
