"""Requests to one server over one kept connection, with the standard library alone.

A report takes three requests. For those http.client costs a process on every node 9 MiB and no dependency, where an
asynchronous HTTP library costs 25 MiB. It blocks, so each request runs in a thread of its own: a daemon, because at
the end of the process nobody waits for a server that hangs. Nothing is retried here but a request that was answered
with 401, once, with the token as its file holds it now.
"""

import asyncio
import http.client
import select
import socket
import ssl
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final, NamedTuple, TypeVar
from urllib.parse import urlsplit

import msgspec

from sandberth import __version__
from sandberth.core.errors import SandberthError
from sandberth.kube.errors import ApiError, Unreachable
from sandberth.kube.kubeconfig import ClusterAccess
from sandberth.kube.paths import JSON

T = TypeVar("T")

MOST_BYTES: Final = 64 * 2**20  # of one answer: 100 pods are about 1 MiB
_KEEP_ALIVE_SECONDS: Final = 60.0  # below the 90 s after which API server and kubelet close idle connections


class _Answer(NamedTuple):
    status: int
    body: bytes
    retry_after: str | None


class Connection:
    """Sends one request at a time; every one ends within `timeout_seconds`, two when the token was refused."""

    def __init__(self, access: ClusterAccess, timeout_seconds: float) -> None:
        if access.proxy:
            raise SandberthError(f"{access.server} is behind the proxy {access.proxy}, which is not supported here")
        url = urlsplit(access.server)
        self._host = url.hostname or ""
        self._port = url.port or (443 if url.scheme == "https" else 80)
        self._prefix = url.path.rstrip("/")
        self._access = access
        self._timeout_seconds = timeout_seconds
        self._connection: http.client.HTTPConnection | None = None
        self._used_at = 0.0

    async def request(self, method: str, path: str, body: Any = None, content_type: str = JSON) -> bytes:
        """Return the body of the answer. Raises ApiError and Unreachable, as `kube.client.Client` does."""
        content = None if body is None else msgspec.json.encode(body)
        token = self._access.tokens.token()
        for attempt in (1, 2):
            answer = await self._answer(method, path, content, content_type, token)
            if answer.status < 300:
                return answer.body
            error = ApiError.from_response(answer.status, answer.body, answer.retry_after)
            if error.status != 401 or attempt == 2 or (fresh := self._access.tokens.reread()) == token:
                raise error
            token = fresh
        raise AssertionError("the last attempt returns or raises")

    async def _answer(
        self, method: str, path: str, content: bytes | None, content_type: str, token: str | None
    ) -> _Answer:
        headers = {"Accept": JSON, "User-Agent": f"sandberth/{__version__}"}
        if content is not None:
            headers["Content-Type"] = content_type
        if token is not None:
            headers["Authorization"] = f"Bearer {token}"
        connection = self._take()
        is_whole = False
        try:
            async with asyncio.timeout(self._timeout_seconds):
                answer = await _in_thread(
                    lambda: _exchange(connection, method, self._prefix + path, content, headers), f"{method} {path}"
                )
            is_whole = True
        except (OSError, http.client.HTTPException) as error:  # TimeoutError is an OSError
            raise Unreachable(method, path, error) from error
        finally:
            if is_whole:
                self._used_at = time.monotonic()
            else:
                self._connection = None
                _break(connection)
        return answer

    def _take(self) -> http.client.HTTPConnection:
        """Return the kept connection, or a new one where it is old or the server has closed it."""
        kept = self._connection
        if kept is not None and kept.sock is not None:
            if time.monotonic() - self._used_at < _KEEP_ALIVE_SECONDS and not _has_news(kept.sock):
                return kept
            kept.close()
        self._connection = self._connect()
        return self._connection

    def _connect(self) -> http.client.HTTPConnection:
        if self._access.tls is None:
            return http.client.HTTPConnection(self._host, self._port, timeout=self._timeout_seconds)
        return _TlsConnection(
            self._host, self._port, self._timeout_seconds, self._access.tls, self._access.server_hostname
        )


class _TlsConnection(http.client.HTTPConnection):
    """HTTPS whose certificate may be for another name than the host's address."""

    def __init__(
        self, host: str, port: int, timeout_seconds: float, context: ssl.SSLContext, server_hostname: str | None
    ) -> None:
        super().__init__(host, port, timeout=timeout_seconds)
        self._context = context
        self._server_hostname = server_hostname or host

    def connect(self) -> None:
        super().connect()
        self.sock = self._context.wrap_socket(self.sock, server_hostname=self._server_hostname)


def _exchange(
    connection: http.client.HTTPConnection, method: str, path: str, content: bytes | None, headers: dict[str, str]
) -> _Answer:
    connection.request(method, path, body=content, headers=headers)
    response = connection.getresponse()
    body = response.read(MOST_BYTES + 1)
    if len(body) > MOST_BYTES:
        raise http.client.HTTPException(f"the answer is larger than {MOST_BYTES // 2**20} MiB")
    if response.length:  # a read with a limit does not mind an early end by itself
        raise http.client.HTTPException(f"the answer ended {response.length} bytes early")
    return _Answer(response.status, body, response.headers.get("Retry-After"))


def _has_news(sock: socket.socket) -> bool:
    """Return whether a connection at rest can be read: nothing is due, so the server has closed it or is about to."""
    poll = select.poll()
    poll.register(sock, select.POLLIN)
    return bool(poll.poll(0))


def _break(connection: http.client.HTTPConnection) -> None:
    """End what a thread may still be doing with the connection.

    It is not closed from here: its number could be another connection's by the time the thread looks at it again.
    """
    if connection.sock is not None:
        with suppress(OSError):
            connection.sock.shutdown(socket.SHUT_RDWR)


async def _in_thread(call: Callable[[], T], name: str) -> T:
    """Return what a blocking call returns. When this is cancelled the call goes on, and what it returns is dropped."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()

    def settle(result: T | None, error: Exception | None) -> None:
        if not future.done():
            if error is None:
                future.set_result(result)  # type: ignore[arg-type]
            else:
                future.set_exception(error)

    def run() -> None:
        result, error = None, None
        try:
            result = call()
        except Exception as caught:  # noqa: BLE001 - it is raised where it is waited for
            error = caught
        with suppress(RuntimeError):  # the loop has ended meanwhile
            loop.call_soon_threadsafe(settle, result, error)

    threading.Thread(target=run, name=name, daemon=True).start()
    return await future
