"""Keeps a Store in step with the API server: list, watch, and list again with a diff whenever the watch lost its place.

It never gives up and never raises: failures are counted, logged once in a row, and tried again with growing pauses.
Unlike kopf it reports what vanished during a gap, and survives every error that a server can send.
"""

import asyncio
import logging
import time
from collections.abc import Callable
from contextlib import aclosing
from random import Random
from typing import Generic, TypeVar

import msgspec

from sandberth.core.errors import SandberthError
from sandberth.kube.client import Client, Params
from sandberth.kube.errors import ApiError, Unreachable
from sandberth.kube.store import Store

T = TypeVar("T")

LOG = logging.getLogger(__name__)
_PAGE_SIZE = 500
_FIRST_PAUSE_SECONDS = 0.1
_LONGEST_PAUSE_SECONDS = 2.0  # so long after an outage the stream may still be down
_LONGEST_RETRY_AFTER_SECONDS = 30.0
_SHORT_WATCH_SECONDS = 1.0
_REPORTED_LIMIT = 1000
_CATCH_UP_SECONDS = 0.5
_CATCH_UP_LOOK_SECONDS = 0.02


class _ListMetadata(msgspec.Struct, rename="camel"):
    resource_version: str
    continue_token: str = msgspec.field(default="", name="continue")


class _Page(msgspec.Struct):
    metadata: _ListMetadata
    items: list[msgspec.Raw] | None = None


class _Event(msgspec.Struct):
    type: str
    object: msgspec.Raw


class _Metadata(msgspec.Struct, rename="camel"):
    uid: str = ""
    namespace: str = ""
    name: str = ""
    resource_version: str = ""


class _Header(msgspec.Struct):
    """What can still be read of an object that cannot be decoded, and all there is to a bookmark."""

    metadata: _Metadata


_PAGES = msgspec.json.Decoder(_Page)
_EVENTS = msgspec.json.Decoder(_Event)
_HEADERS = msgspec.json.Decoder(_Header)


class BrokenStream(SandberthError):  # noqa: N818 - named for what happened to the watch
    """A watch sent an error or what cannot be read, so changes may be missing: list again."""


class Informer(Generic[T]):
    """One stream of objects of one collection path, fed into a store.

    The counters only grow. `decode` turns one object's JSON into what the store keeps; what it cannot decode is
    counted in `undecodable` and left out, an earlier version stays.
    """

    def __init__(
        self,
        client: Client,
        path: str,
        store: Store[T],
        decode: Callable[[bytes], T],
        *,
        params: Params | None = None,
        rng: Random | None = None,
        page_size: int = _PAGE_SIZE,
        idle_seconds: float = 90.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.store = store
        self.lists = 0
        self.watches = 0
        self.events = 0
        self.errors = 0
        self.undecodable = 0
        self._client = client
        self._path = path
        self._decode = decode
        self._params = dict(params or {})
        self._rng = rng or Random()
        self._page_size = page_size
        self._idle_seconds = idle_seconds
        self._clock = clock
        self._position: str | None = None  # the resourceVersion to watch from; None = list first
        self._failures = 0  # in a row
        self._was_unreachable = False
        self._synced = asyncio.Event()
        self._active_at = clock()
        self._reported: set[str] = set()

    @property
    def is_synced(self) -> bool:
        """Whether one whole list has been taken in."""
        return self._synced.is_set()

    async def synced(self) -> None:
        """Return once one whole list has been taken in."""
        await self._synced.wait()

    async def catch_up(self) -> None:
        """Return once every change stored before this call has been taken in. Raises ApiError or Unreachable.

        A stream without changes says nothing for up to a minute, so it is not waited for for long: a list tells.
        """
        content = await self._client.list(self._path, {**self._params, "limit": 1})
        version = _number(_PAGES.decode(content).metadata.resource_version)
        patience = _CATCH_UP_SECONDS
        while self.store.resource_version < version:
            if patience <= 0:
                await self._list()
                return
            await asyncio.sleep(_CATCH_UP_LOOK_SECONDS)
            patience -= _CATCH_UP_LOOK_SECONDS

    def seconds_since_activity(self) -> float:
        """Return how long the server has been silent: no line, no list, not even an error as an answer."""
        return self._clock() - self._active_at

    async def run(self) -> None:
        """Follow the stream until cancelled."""
        while True:
            try:
                if self._position is None:
                    self._position = await self._list()
                await self._watch(self._position)
            except Exception as error:  # noqa: BLE001 - whatever it is, the stream goes on
                await self._recover(error)

    async def _recover(self, error: Exception) -> None:
        """Decide whether the place in the stream is lost, and pause."""
        self.errors += 1
        self._failures += 1
        retry_after = 0.0
        if isinstance(error, ApiError):
            self._active_at = self._clock()
            retry_after = min(error.retry_after_seconds or 0.0, _LONGEST_RETRY_AFTER_SECONDS)
        is_unreachable = isinstance(error, Unreachable)
        if self._was_unreachable and not is_unreachable:
            self._failures = 1  # the server is back, and its first word is often 410: don't wait as long again
        self._was_unreachable = is_unreachable
        if not (isinstance(error, SandberthError) and _keeps_place(error)):
            self._position = None
        longest = min(_FIRST_PAUSE_SECONDS * 2 ** min(self._failures - 1, 10), _LONGEST_PAUSE_SECONDS)
        pause = max(longest * self._rng.uniform(0.5, 1.0), retry_after)
        is_bug = not isinstance(error, SandberthError)
        LOG.log(
            logging.WARNING if self._failures == 1 else logging.DEBUG,
            "The stream of %s broke (%s); next try in %.1f s.",
            self._path,
            error,
            pause,
            exc_info=is_bug,
        )
        await asyncio.sleep(pause)

    async def _list(self) -> str:
        """Take in a consistent list, page by page; return its resourceVersion. An expired page starts it anew."""
        items: list[T] = []
        params: dict[str, str | int] = {**self._params, "limit": self._page_size}
        while True:
            content = await self._client.list(self._path, params)
            self._active_at = self._clock()
            try:
                page = _PAGES.decode(content)
            except msgspec.MsgspecError as error:
                raise BrokenStream(f"no list: {error}") from error
            for raw in page.items or ():
                item = self._decoded_or_known(bytes(raw))
                if item is not None:
                    items.append(item)
            if not page.metadata.continue_token:
                break
            params["continue"] = page.metadata.continue_token
        self.store.replace(items, _number(page.metadata.resource_version))
        self.lists += 1
        self._synced.set()
        return page.metadata.resource_version

    async def _watch(self, position: str) -> None:
        """Follow the changes after `position` until the server ends the watch."""
        params: dict[str, str | int] = {
            **self._params,
            "resourceVersion": position,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": self._rng.randint(240, 300),
        }
        self.watches += 1
        opened_at = self._clock()
        lines = self._client.watch_lines(self._path, params, idle_seconds=self._idle_seconds)
        seen = 0
        async with aclosing(lines):
            async for line in lines:
                self._active_at = self._clock()
                if line:
                    self._take(line)
                    seen += 1
                    self._failures = 0
        if not seen and self._clock() - opened_at < _SHORT_WATCH_SECONDS:
            raise Unreachable("GET", self._path, EOFError("the watch ended at once"))
        self._failures = 0

    def _take(self, line: bytes) -> None:
        """Take in one event of the watch and move the position past it."""
        try:
            event = _EVENTS.decode(line)
            content = bytes(event.object)
            if event.type == "ERROR":
                raise BrokenStream(str(ApiError.from_status(msgspec.json.decode(content, type=dict))))
            header = _HEADERS.decode(content).metadata
            version = _number(header.resource_version)
        except msgspec.MsgspecError as error:
            raise BrokenStream(f"no event: {error}") from error
        if event.type != "BOOKMARK":
            self.events += 1
            item = self._decoded_or_known(content)
            if item is not None:
                self.store.observe(item, deleted=event.type == "DELETED")
        self.store.bookmark(version)
        self._position = header.resource_version

    def _decoded_or_known(self, content: bytes) -> T | None:
        """Return the object, or the version of it that is known where this one cannot be decoded.

        The known version keeps a list from reporting the object as deleted, and lets a deletion through.
        """
        try:
            return self._decode(content)
        except Exception as error:  # noqa: BLE001 - one bad object must not stop the stream
            return self._known_instead(content, error)

    def _known_instead(self, content: bytes, error: Exception) -> T | None:
        self.undecodable += 1
        try:
            metadata = _HEADERS.decode(content).metadata
        except msgspec.MsgspecError:
            metadata = _Metadata(name="(unreadable)")
        label = f"{metadata.namespace}/{metadata.name}"
        if label not in self._reported and len(self._reported) < _REPORTED_LIMIT:
            self._reported.add(label)
            LOG.warning("An object of %s cannot be read and is left out: %s: %s", self._path, label, error)
        return self.store.get(metadata.uid)


def _keeps_place(error: SandberthError) -> bool:
    """Tell whether the watch may go on where it was: nothing was lost, the server just did not answer well."""
    if isinstance(error, BrokenStream):
        return False
    return not isinstance(error, ApiError) or (error.is_transient and not error.gone)


def _number(resource_version: str) -> int:
    if not (resource_version.isascii() and resource_version.isdecimal()):
        raise BrokenStream(f"the resourceVersion {resource_version!r} is not a number")
    return int(resource_version)
