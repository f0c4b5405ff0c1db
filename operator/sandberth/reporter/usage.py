"""What nodes use, by the source that --usage names."""

import logging
from collections.abc import Mapping
from typing import Any

import msgspec

from sandberth.core.errors import SandberthError
from sandberth.core.quantity import cpu_millicores, whole_bytes
from sandberth.core.resources import Resources
from sandberth.kube.client import Client
from sandberth.kube.errors import ApiError
from sandberth.kube.paths import path_of
from sandberth.reporter.troubles import Trouble

LOG = logging.getLogger(__name__)
NODE_METRICS_PATH = path_of("metrics.k8s.io", "v1beta1", "nodes")


class _Metadata(msgspec.Struct):
    name: str


class _NodeMetrics(msgspec.Struct):
    metadata: _Metadata
    usage: dict[str, str]


class _List(msgspec.Struct):
    items: list[_NodeMetrics]


_DECODER = msgspec.json.Decoder(_List)


class NodeMetrics:
    """The newest answer of metrics.k8s.io; a node that it does not list, or all while it fails, has no usage."""

    def __init__(self, client: Client, timeout_seconds: float) -> None:
        self._client = client
        self._timeout_seconds = timeout_seconds
        self._usage: Mapping[str, Resources] = {}
        self._trouble = Trouble(LOG, "metrics.k8s.io answers again; reports hold usage.")

    def of(self, node_name: str) -> Resources | None:
        """Return what the node uses, None where that is not known."""
        return self._usage.get(node_name)

    async def refresh(self) -> None:
        """Read all nodes' usage, in one request. Never raises; a change of state is logged once."""
        try:
            content = await self._client.list(NODE_METRICS_PATH, timeout_seconds=self._timeout_seconds)
            self._usage = {item.metadata.name: _resources(item.usage) for item in _DECODER.decode(content).items}
        except (SandberthError, msgspec.MsgspecError, ValueError, KeyError) as error:
            self._usage = {}
            is_absent = isinstance(error, ApiError) and error.not_found
            what = "metrics.k8s.io is not served" if is_absent else f"metrics.k8s.io fails: {error}"
            self._trouble.begin("absent" if is_absent else "failing", f"Reports leave usage out: {what}")
        else:
            self._trouble.end()


def _resources(usage: Mapping[str, Any]) -> Resources:
    return Resources(cpu_millicores(usage["cpu"]), whole_bytes(usage["memory"]))
