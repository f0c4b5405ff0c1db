"""The operator's requests, each a method with the preconditions that make it safe, counted by verb and resource."""

from collections.abc import Awaitable
from typing import Any, TypeVar

from sandberth.control.metrics import Metrics
from sandberth.core.errors import SandberthError
from sandberth.kube.client import Client
from sandberth.kube.errors import ApiError
from sandberth.kube.paths import capacity_path, path_of, pod_path, sandbox_path

R = TypeVar("R")


class Api:
    """Requests as the operator makes them. All raise ApiError and Unreachable, as the client does."""

    def __init__(self, client: Client, metrics: Metrics) -> None:
        self.client = client
        self._metrics = metrics

    async def get(self, path: str) -> dict[str, Any] | None:
        """Return an object by a consistent read, None where there is none."""
        try:
            return await self.client.get(path)
        except ApiError as error:
            if error.not_found:
                return None
            raise

    async def create_pod(self, body: dict[str, Any]) -> dict[str, Any]:
        """Create a Pod; a field that the server does not know is refused, not dropped."""
        path = pod_path(body["metadata"]["namespace"])
        return await self._write("create", "pods", self.client.post(path, body, {"fieldValidation": "Strict"}))

    async def delete_pod(self, namespace: str, name: str, uid: str, resource_version: int | None = None) -> bool:
        """Delete the Pod of this UID (and version); False where it is gone, or has changed, or another has its name."""
        return await self._delete("pods", pod_path(namespace, name), uid, resource_version)

    async def delete_sandbox(self, namespace: str, name: str, uid: str, resource_version: int) -> bool:
        """Delete this version of the Sandbox of this UID; False where it is gone, or has changed."""
        return await self._delete("sandboxes", sandbox_path(namespace, name), uid, resource_version)

    async def patch_sandbox_status(
        self, namespace: str, name: str, patch: dict[str, Any], resource_version: int
    ) -> dict[str, Any]:
        """Change a Sandbox's status, of this version of this object only: another answers with `.conflict`.

        A UID would not do: in a patch of a custom resource's status the API server does not look at it.
        """
        path = sandbox_path(namespace, name, "status")
        return await self._patch_version("sandboxes/status", path, patch, resource_version)

    async def create_capacity(self, body: dict[str, Any]) -> dict[str, Any]:
        """Create a NodeCapacity."""
        return await self._write("create", "nodecapacities", self.client.post(capacity_path(), body))

    async def delete_capacity(self, name: str, uid: str) -> bool:
        """Delete the NodeCapacity of this UID; False where it is gone already or another one holds the name."""
        return await self._delete("nodecapacities", capacity_path(name), uid)

    async def patch_capacity_status(self, name: str, patch: dict[str, Any], resource_version: int) -> dict[str, Any]:
        """Change the status of this version of a NodeCapacity; another answers with `.conflict`."""
        path = capacity_path(name, "status")
        return await self._patch_version("nodecapacities/status", path, patch, resource_version)

    async def create_event(self, namespace: str, body: dict[str, Any]) -> None:
        """Create an Event."""
        path = path_of("", "v1", "events", namespace=namespace)
        await self._write("create", "events", self.client.post(path, body))

    async def _patch_version(
        self, resource: str, path: str, patch: dict[str, Any], resource_version: int
    ) -> dict[str, Any]:
        body = {"metadata": {"resourceVersion": str(resource_version)}, **patch}
        return await self._write("patch", resource, self.client.patch(path, body))

    async def _delete(self, resource: str, path: str, uid: str, resource_version: int | None = None) -> bool:
        request = self.client.delete(path, uid=uid, resource_version=resource_version)
        try:
            await self._write("delete", resource, request)
        except ApiError as error:
            if error.not_found or error.conflict:
                return False
            raise
        return True

    async def _write(self, verb: str, resource: str, request: Awaitable[R]) -> R:
        self._metrics.writes.labels(verb, resource).inc()
        try:
            return await request
        except SandberthError as error:
            reason = (error.reason or str(error.status)) if isinstance(error, ApiError) else "Unreachable"
            self._metrics.api_errors.labels(verb, resource, reason).inc()
            raise
