"""An API server that fits into a test: one Sandbox's worth of objects, and the answers that a test wants."""

import copy
from typing import Any

from sandberth.control.creating import holding_of
from sandberth.control.metrics import Metrics
from sandberth.control.reconciler import Reconciler
from sandberth.control.review import Review
from sandberth.control.settings import Settings
from sandberth.control.state import State
from sandberth.core.fleet import Fleet
from sandberth.kube.errors import ApiError, Unreachable
from sandberth.kube.paths import pod_path, sandbox_path
from sandberth.kube.pods import PodFacts, convert_pod
from tests.builders import a_fleet

Object = dict[str, Any]
LOST_ANSWER = Unreachable("POST", "/api/v1/pods", TimeoutError())


class FakeApi:
    """Pods and Sandboxes by path; `refusals` are the errors that the next creates end in, None lets one through.

    A create that is refused with LOST_ANSWER is carried out all the same. `calls` lists the writes in their order.
    """

    def __init__(self) -> None:
        self.objects: dict[str, Object] = {}
        self.refusals: list[Exception | None] = []
        self.calls: list[tuple[str, Object]] = []
        self._version = 100

    def next_version(self) -> str:
        self._version += 1
        return str(self._version)

    def verbs(self) -> list[str]:
        return [verb for verb, _ in self.calls]

    async def get(self, path: str) -> Object | None:
        return copy.deepcopy(self.objects.get(path))

    async def create_pod(self, body: Object) -> Object:
        self.calls.append(("create", copy.deepcopy(body)))
        path = pod_path(body["metadata"]["namespace"], body["metadata"]["name"])
        refusal = self.refusals.pop(0) if self.refusals else None
        if refusal is not None and refusal is not LOST_ANSWER:
            raise refusal
        if path in self.objects:
            raise ApiError(409, "AlreadyExists", "it exists")
        version = self.next_version()
        pod = self.objects[path] = copy.deepcopy(body) | {"status": {"phase": "Pending"}}
        pod["metadata"] |= {"uid": f"pod-{version}", "resourceVersion": version}
        if refusal is not None:
            raise refusal
        return copy.deepcopy(pod)

    async def delete_pod(self, namespace: str, name: str, uid: str, resource_version: int | None = None) -> bool:
        self.calls.append(("delete", {"uid": uid, "resourceVersion": resource_version}))
        found = self.objects.get(pod_path(namespace, name))
        if found is None or found["metadata"]["uid"] != uid:
            return False
        return resource_version in {None, int(found["metadata"]["resourceVersion"])}

    async def delete_sandbox(self, namespace: str, name: str, uid: str, resource_version: int) -> bool:
        self.calls.append(("delete sandbox", {"uid": uid, "resourceVersion": resource_version}))
        found = self.objects.get(sandbox_path(namespace, name))
        return found is not None and resource_version == int(found["metadata"]["resourceVersion"])

    async def patch_sandbox_status(self, namespace: str, name: str, patch: Object, resource_version: int) -> Object:
        self.calls.append(("patch", copy.deepcopy(patch)))
        found = self.objects.get(sandbox_path(namespace, name))
        if found is None:
            raise ApiError(404, "NotFound", "it is gone")
        if resource_version != int(found["metadata"]["resourceVersion"]):
            raise ApiError(409, "Conflict", "it has changed")
        found["status"] = _merged(found.get("status") or {}, patch["status"])
        found["metadata"]["resourceVersion"] = self.next_version()
        return copy.deepcopy(found)


def _merged(old: Any, patch: Any) -> Any:
    if not isinstance(patch, dict):
        return patch
    result = dict(old) if isinstance(old, dict) else {}
    for key, value in patch.items():
        result[key] = None if value is None else _merged(result.get(key), value)
    return {key: value for key, value in result.items() if value is not None}


class Bench:
    """A reconciler on a fake API server; `step` does what one event would have done."""

    def __init__(self, fleet: Fleet | None = None) -> None:
        self.api = FakeApi()
        api: Any = self.api
        self.now_s = 1000.0
        self.state = State(Settings(), api, Metrics(), fleet=fleet or a_fleet(), now_s=lambda: self.now_s)
        self.reconciler = Reconciler(self.state, Review(self.state))
        self.state.streams.pods.subscribe(self._pod_changed)
        self.woken: list[str] = []
        self.reconciler.placer.creator._room_given_back = lambda: self.woken.append("all")

    def apply(self, name: str = "box", **spec: Any) -> str:
        uid = f"uid-{name}"
        metadata = {"name": name, "namespace": "team", "uid": uid, "generation": 1}
        wanted = {"image": "busybox", "resources": {"cpu": "1", "memory": "1Gi"}} | spec
        self.put_sandbox({"metadata": metadata, "spec": wanted})
        return uid

    def put_sandbox(self, body: Object) -> None:
        metadata = body["metadata"]
        metadata["resourceVersion"] = self.api.next_version()
        self.api.objects[sandbox_path(metadata["namespace"], metadata["name"])] = body
        self.state.streams.observe_sandbox(copy.deepcopy(body))

    def sandbox(self, name: str = "box") -> Object:
        return self.api.objects[sandbox_path("team", name)]

    def status(self, name: str = "box") -> Object:
        result: Object = self.sandbox(name).get("status") or {}
        return result

    def pod(self, name: str = "box") -> Object:
        return self.api.objects[pod_path("team", name)]

    def pod_becomes(self, name: str = "box", **status: Any) -> None:
        """Have the kubelet write a Pod's status, and the stream show it."""
        pod = self.pod(name)
        pod["status"] |= status
        pod["metadata"]["resourceVersion"] = self.api.next_version()
        self.show(pod)

    def pod_goes(self, name: str = "box") -> None:
        pod = self.api.objects.pop(pod_path("team", name))
        pod["metadata"]["resourceVersion"] = self.api.next_version()
        self.show(pod, deleted=True)

    def delete(self, name: str = "box") -> None:
        body = self.api.objects.pop(sandbox_path("team", name))
        body["metadata"]["resourceVersion"] = self.api.next_version()
        self.state.streams.observe_sandbox(body, deleted=True)

    def show(self, pod: Object, *, deleted: bool = False) -> None:
        """Have the Pod stream show a state."""
        self.state.streams.pods.observe(convert_pod(pod), deleted=deleted)

    def _pod_changed(self, old: PodFacts | None, new: PodFacts | None) -> None:
        """Index a Pod and count it, as the operator does."""
        pod = new or old
        if pod is None:
            return
        if pod.owner_uid is not None:
            owned = self.state.pods_of.setdefault(pod.owner_uid, set())
            (owned.discard if new is None else owned.add)(pod.uid)
        if new is None or new.terminal:
            self.state.ledger.pod_ended(pod.uid, pod.attempt_id, pod.node_name)
        elif pod.node_name:
            self.state.ledger.pod_observed(holding_of(pod))

    async def step(self, uid: str, times: int = 1) -> None:
        for _ in range(times):
            await self.reconciler.reconcile(uid)
