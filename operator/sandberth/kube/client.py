"""One user's connection to one API server: requests, and watches as lines.

No retries and no caching: the callers decide what an error means for them. The exceptions are an expired token,
because a request answered with 401 was not executed, and what aiohttp does by itself: it repeats a GET, PUT or DELETE
once (never a POST or PATCH) when a connection kept alive turns out to be closed.
"""

import json
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Any, Literal, Self, overload
from urllib.parse import quote, urlencode

import aiohttp
import orjson
from yarl import URL

from sandberth import __version__
from sandberth.kube.errors import ApiError, Unreachable
from sandberth.kube.kubeconfig import ClusterAccess
from sandberth.kube.paths import JSON, MERGE_PATCH

Params = Mapping[str, str | int]

_CONNECT_SECONDS = 10.0
_KEEP_ALIVE_SECONDS = 60.0  # below the 90 s after which an API server closes idle connections


def decoded(content: bytes) -> Any:
    """Return what a JSON text says. Raises ValueError for what is none, RecursionError for too many levels."""
    try:
        return orjson.loads(content)
    except orjson.JSONDecodeError:
        return json.loads(content)  # it takes what orjson does not: more than 1,024 levels


class Client:
    """An open connection pool; use it as an async context manager.

    Every method raises ApiError when the server said no, and Unreachable when no whole answer came: a write may then
    have been executed. `before_write` is called when a write has its connection and would go out next, so however long
    it had to wait: what it raises keeps the write back.
    """

    def __init__(
        self,
        access: ClusterAccess,
        *,
        connections: int = 100,
        timeout_seconds: float = 30.0,
        before_write: Callable[[], None] | None = None,
    ) -> None:
        self.access = access
        self._before_write = before_write
        self._connections = connections
        self._limits = aiohttp.ClientTimeout(total=timeout_seconds, sock_connect=_CONNECT_SECONDS)
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(
                limit=self._connections,
                keepalive_timeout=_KEEP_ALIVE_SECONDS,
                ssl=self.access.tls or True,
            ),
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=self._limits,
            trace_configs=[_guard(self._before_write)] if self._before_write is not None else None,
            headers={
                "Accept-Encoding": "identity",  # compressing lists costs the server more than the bytes are worth
                "User-Agent": f"sandberth/{__version__}",
            },
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._session is not None:
            await self._session.close()

    @overload
    async def request(
        self,
        method: str,
        path: str,
        *,
        params: Params | None = None,
        body: Any = None,
        content_type: str = JSON,
        timeout_seconds: float | None = None,
        accept: str = JSON,
        raw: Literal[False] = False,
    ) -> dict[str, Any]: ...

    @overload
    async def request(
        self,
        method: str,
        path: str,
        *,
        params: Params | None = None,
        body: Any = None,
        content_type: str = JSON,
        timeout_seconds: float | None = None,
        accept: str = JSON,
        raw: Literal[True],
    ) -> bytes: ...

    async def request(
        self,
        method: str,
        path: str,
        *,
        params: Params | None = None,
        body: Any = None,
        content_type: str = JSON,
        timeout_seconds: float | None = None,
        accept: str = JSON,
        raw: bool = False,
    ) -> dict[str, Any] | bytes:
        """Send one request; return the decoded answer, or its bytes with `raw`."""
        limits = self._limits if timeout_seconds is None else _total_timeout(timeout_seconds)
        async with self._answer(
            method, path, params, limits=limits, body=body, content_type=content_type, accept=accept
        ) as response:
            content = await response.read()
        if raw:
            return content
        try:
            document: dict[str, Any] = decoded(content)
        except (ValueError, RecursionError) as error:
            raise Unreachable(method, path, error) from error
        return document

    async def get(self, path: str, params: Params | None = None) -> dict[str, Any]:
        """Return one object. Without a resourceVersion in `params` the read is consistent."""
        return await self.request("GET", path, params=params)

    async def list(
        self, path: str, params: Params | None = None, *, timeout_seconds: float | None = 60.0, accept: str = JSON
    ) -> bytes:
        """Return one page of a list as JSON, undecoded: what of it is needed differs from kind to kind."""
        return await self.request("GET", path, params=params, timeout_seconds=timeout_seconds, raw=True, accept=accept)

    async def post(self, path: str, body: Any, params: Params | None = None) -> dict[str, Any]:
        """Create an object; return it as stored."""
        return await self.request("POST", path, params=params, body=body)

    async def put(self, path: str, body: Any, params: Params | None = None) -> dict[str, Any]:
        """Replace an object; with a resourceVersion in it, only that version of it."""
        return await self.request("PUT", path, params=params, body=body)

    async def patch(
        self, path: str, body: Any, content_type: str = MERGE_PATCH, params: Params | None = None
    ) -> dict[str, Any]:
        """Change parts of an object; return it as stored."""
        return await self.request("PATCH", path, params=params, body=body, content_type=content_type)

    async def delete(
        self,
        path: str,
        *,
        uid: str | None = None,
        resource_version: int | None = None,
        grace_period_seconds: int | None = None,
        propagation: str | None = None,
    ) -> dict[str, Any]:
        """Delete an object, with `uid` only the one of that UID: another gives ApiError with `.conflict`.

        The same holds for `resource_version`: an object that has changed since then stays.
        """
        options: dict[str, Any] = {"apiVersion": "v1", "kind": "DeleteOptions"}
        preconditions = {} if uid is None else {"uid": uid}
        if resource_version is not None:
            preconditions["resourceVersion"] = str(resource_version)
        if preconditions:
            options["preconditions"] = preconditions
        if grace_period_seconds is not None:
            options["gracePeriodSeconds"] = grace_period_seconds
        if propagation is not None:
            options["propagationPolicy"] = propagation
        return await self.request("DELETE", path, body=options)

    async def watch_lines(
        self, path: str, params: Params | None = None, *, idle_seconds: float = 90.0
    ) -> AsyncGenerator[bytes, None]:
        """Yield the documents of a watch, one JSON text each, until the server ends it.

        Nothing at all for `idle_seconds` raises Unreachable. A last line without its end is dropped: the stream broke
        inside it. Wrap the iterator in `contextlib.aclosing`, so that leaving early closes the connection at once.
        """
        limits = aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_SECONDS, sock_read=idle_seconds)
        query: Params = {**(params or {}), "watch": "true"}
        async with self._answer("GET", path, query, limits=limits) as response:
            begun: list[bytes] = []  # the pieces of a line whose end has not come yet
            async for chunk in response.content.iter_any():
                head, *rest = chunk.split(b"\n")
                begun.append(head)
                if rest:
                    yield b"".join(begun)
                    *whole, last = rest
                    for line in whole:
                        yield line
                    begun = [last]

    @asynccontextmanager
    async def _answer(
        self,
        method: str,
        path: str,
        params: Params | None,
        *,
        limits: aiohttp.ClientTimeout,
        body: Any = None,
        content_type: str = JSON,
        accept: str = JSON,
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """Send a request and give its answer while it is open; translate every failure."""
        if self._session is None:
            raise RuntimeError("use the client inside `async with`")
        query = f"?{urlencode(params, quote_via=quote)}" if params else ""
        url = URL(f"{self.access.server}{path}{query}", encoded=True)
        content = None if body is None else orjson.dumps(body)
        headers = {"Accept": accept} if body is None else {"Accept": accept, "Content-Type": content_type}
        token = self.access.tokens.token()
        try:
            for attempt in (1, 2):
                if token is not None:
                    headers["Authorization"] = f"Bearer {token}"
                async with self._session.request(
                    method,
                    url,
                    data=content,
                    headers=headers,
                    timeout=limits,
                    allow_redirects=False,
                    trace_request_ctx=method,
                    proxy=self.access.proxy,
                    server_hostname=self.access.server_hostname,
                ) as response:
                    if response.status < 300:
                        yield response
                        return
                    error = ApiError.from_response(
                        response.status, await response.read(), response.headers.get("Retry-After")
                    )
                if error.status != 401 or attempt == 2 or (fresh := self.access.tokens.reread()) == token:
                    raise error
                token = fresh
        except (aiohttp.ClientError, OSError) as error:
            raise Unreachable(method, path, error) from error


def _total_timeout(seconds: float) -> aiohttp.ClientTimeout:
    return aiohttp.ClientTimeout(total=seconds, sock_connect=_CONNECT_SECONDS)


def _guard(before_write: Callable[[], None]) -> aiohttp.TraceConfig:
    async def connected(_: aiohttp.ClientSession, context: Any, __: object) -> None:
        if context.trace_request_ctx != "GET":
            before_write()

    config = aiohttp.TraceConfig()
    config.on_connection_create_end.append(connected)
    config.on_connection_reuseconn.append(connected)
    return config
