"""Lists beside the streams: the whole first state, and from time to time a look for what a stream missed.

kopf reports neither what vanished while a watch was broken nor that a watch has died. So every minute the metadata of
all objects is listed (from the API server's cache) and held against the stores: what is gone is dropped, what is
newer is read. A stream that misses changes again and again and brings nothing at all is dead: see `missed_in_a_row`.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any

import msgspec

from sandberth.control.access import Access
from sandberth.control.flag_source import FlagSource
from sandberth.control.state import State
from sandberth.core.errors import SandberthError
from sandberth.kube import names
from sandberth.kube.client import decoded
from sandberth.kube.errors import ApiError
from sandberth.kube.paths import capacity_path, configmap_path, node_path, pod_path, sandbox_path
from sandberth.kube.store import Key, Store, mapping_key

LOG = logging.getLogger(__name__)
_PAGE = 500
_METADATA_LIST = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
_GRACE_SECONDS = 5.0
_REFUSED_INTERVAL_SECONDS = 10.0


class _Metadata(msgspec.Struct, rename="camel"):
    name: str
    uid: str
    namespace: str = ""
    resource_version: str = "0"


class _Item(msgspec.Struct):
    metadata: _Metadata


class _ListMetadata(msgspec.Struct, rename="camel"):
    resource_version: str = "0"


class _MetadataList(msgspec.Struct):
    metadata: _ListMetadata
    items: list[_Item] | None = None  # null where there is nothing


_DECODER = msgspec.json.Decoder(_MetadataList)


class _Stream(msgspec.Struct):
    name: str
    path: str
    store: Store[Any]
    observe: Callable[[Mapping[str, Any]], None]
    path_of: Callable[[str, str], str]
    heard: int = 0  # how many events kopf had brought at the last look
    missed_in_a_row: int = 0


class Healing:
    """The lists of Sandboxes, Nodes and NodeCapacities, and the read of the flags.

    `obstacle` says what could not be read that must be, None when it was.
    """

    def __init__(self, state: State, flags: FlagSource) -> None:
        self._state = state
        self._flags = flags
        self.access = Access(state.now_s)
        self.obstacle: str | None = None
        streams = state.streams
        self._streams = [
            _Stream("nodes", node_path(), streams.nodes, streams.observe_node, lambda _, name: node_path(name)),
            _Stream(
                "nodecapacities",
                capacity_path(),
                streams.capacities,
                streams.observe_capacity,
                lambda _, name: capacity_path(name),
            ),
            _Stream(
                "sandboxes",
                sandbox_path(),
                streams.sandboxes,
                lambda body: streams.observe_sandbox(body, listed=True),
                sandbox_path,
            ),
        ]

    def missed_in_a_row(self) -> int:
        """Return how many looks in a row found changes of a stream that brought no event since, the worst stream's."""
        return max(stream.missed_in_a_row for stream in self._streams)

    async def read_all(self) -> None:
        """Take in everything as it is now by consistent reads, Nodes first; retried until it succeeds."""
        for stream in self._streams:
            await self.patiently(partial(self._list, stream), stream.name)
        await self.patiently(self._read_flags, "the flags")

    async def run(self) -> None:
        """Look for missed changes for ever."""
        while True:
            interval = self._state.settings.healing_interval_seconds
            if self.access.is_refused:
                interval = min(interval, _REFUSED_INTERVAL_SECONDS)
            await asyncio.sleep(interval * self._state.rng.uniform(0.9, 1.1))
            # kopf tells of no ConfigMap that vanished while its watch was broken
            await self._try_to_read("the flags", self._read_flags)
            await self._try_to_read("pods", self._peek_at_pods)
            for stream in self._streams:
                try:
                    missed = await self._look(stream)
                except SandberthError as error:
                    LOG.info("The look for missed %s failed: %s", stream.name, error)
                    self.access.failed(stream.name, error)
                    continue
                except Exception:
                    LOG.exception("The look for missed %s failed; it is a net, and the streams go on.", stream.name)
                    continue
                self.access.answered(stream.name)
                heard, stream.heard = stream.heard, self._state.streams.heard[stream.name]
                is_silent = missed and heard == stream.heard  # one that is merely late still brings something
                stream.missed_in_a_row = stream.missed_in_a_row + 1 if is_silent else 0
                if missed:
                    LOG.warning("The stream of %s had missed %d changes.", stream.name, missed)
                    self._state.metrics.healed.labels(stream.name).inc(missed)

    async def patiently(self, read: Callable[[], Awaitable[None]], what: str) -> None:
        """Read until it succeeds; `obstacle` tells meanwhile why it does not."""
        pause = 0.2
        while True:
            try:
                await read()
            except SandberthError as error:
                self.obstacle = f"{what} cannot be read: {error}"
                LOG.warning("Cannot read %s yet: %s", what, error)
                await asyncio.sleep(pause * self._state.rng.uniform(0.8, 1.2))
                pause = min(pause * 2, 5.0)
            else:
                self.obstacle = None
                return

    async def _try_to_read(self, what: str, read: Callable[[], Awaitable[None]]) -> None:
        try:
            await read()
        except SandberthError as error:
            LOG.info("A look at %s failed: %s", what, error)
            self.access.failed(what, error)
        else:
            self.access.answered(what)

    async def _peek_at_pods(self) -> None:
        """Ask for one Pod: a watch that is open does not notice that its user has lost the right to it."""
        await self._state.api.client.list(pod_path(), {"limit": 1, "resourceVersion": "0"})

    async def _list(self, stream: _Stream) -> None:
        params: dict[str, str | int] = {"limit": _PAGE}
        listed: set[str] = set()
        while True:
            try:
                page = decoded(await self._state.api.client.list(stream.path, params))
            except ApiError as error:
                if error.not_found:
                    raise SandberthError(f"{stream.path} is not served: are the CRDs installed?") from error
                if error.gone and "continue" in params:
                    del params["continue"]
                    listed.clear()
                    continue
                raise
            for item in page.get("items") or ():
                listed.add(mapping_key(item).uid)
                stream.observe(item)
            token = page["metadata"].get("continue")
            if not token:
                break
            params["continue"] = token
        version = int(page["metadata"]["resourceVersion"])
        for known in stream.store:
            key = stream.store.key_of(known)
            if key.uid not in listed and key.resource_version <= version:
                stream.store.observe(known, deleted=True, in_stream=False)

    async def _look(self, stream: _Stream) -> int:
        """Hold one list of metadata against the store; return how much the stream had missed."""
        content = await self._state.api.client.list(stream.path, {"resourceVersion": "0"}, accept=_METADATA_LIST)
        listed = _DECODER.decode(content)
        suspects = self._differences(stream, listed)
        if not suspects:
            return 0
        await asyncio.sleep(_GRACE_SECONDS)  # what is merely under way has arrived by then
        missed = [item for item in self._differences(stream, listed) if item in suspects]
        for key in missed:
            body = await self._state.api.get(stream.path_of(key.namespace, key.name))
            known = stream.store.get(key.uid)
            if known is not None and (body is None or body["metadata"]["uid"] != key.uid):
                stream.store.observe(known, deleted=True, in_stream=False)
            if body is not None:
                stream.observe(body)
        return len(missed)

    def _differences(self, stream: _Stream, listed: _MetadataList) -> list[Key]:
        """Return what the list has newer than the store, and what the store has and the list, being newer, has not."""
        version = int(listed.metadata.resource_version or 0)
        present: set[str] = set()
        different: list[Key] = []
        for item in listed.items or ():
            metadata = item.metadata
            present.add(metadata.uid)
            key = Key(metadata.uid, metadata.namespace, metadata.name, int(metadata.resource_version))
            if not stream.store.has_seen(key):
                different.append(key)
        for known in stream.store:
            key = stream.store.key_of(known)
            if key.uid not in present and key.resource_version <= version:
                different.append(key)
        return different

    async def _read_flags(self) -> None:
        version = self._flags.version
        body = await self._state.api.get(configmap_path(self._state.settings.namespace, names.FLAGS_CONFIGMAP))
        if body is not None or self._flags.version == version:  # else it was made while we asked
            self._flags.observe(body)
