"""A server on loopback that answers as scripted: for the faults that a real API server won't produce on demand."""

import asyncio
import json
import ssl
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, Self

from aiohttp import web
from aiohttp.test_utils import TestServer

from sandberth.kube.kubeconfig import ClusterAccess

Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]


class ScriptedServer:
    """Gives each request the next answer of its queue (`watches` or `requests`); with none left a watch hangs."""

    def __init__(self) -> None:
        self.requests: deque[Answer] = deque()
        self.watches: deque[Answer] = deque()
        self.seen: list[web.Request] = []
        self.bodies: list[Any] = []
        self.url = ""
        self._over = asyncio.Event()
        self._arrival = asyncio.Condition()

    @property
    def access(self) -> ClusterAccess:
        return ClusterAccess(self.url)

    def queries(self, *, watch: bool) -> list[dict[str, str]]:
        """Return the query of each list, or of each watch, in order."""
        return [dict(request.query) for request in self.seen if ("watch" in request.query) is watch]

    async def until_seen(self, count: int) -> None:
        """Return once that many requests have arrived."""
        async with self._arrival:
            await self._arrival.wait_for(lambda: len(self.seen) >= count)

    async def hang(self) -> None:
        """Keep a request open until the server closes."""
        await self._over.wait()

    def close(self) -> None:
        self._over.set()

    async def handle(self, request: web.Request) -> web.StreamResponse:
        content = await request.read()
        async with self._arrival:
            self.seen.append(request)
            self.bodies.append(json.loads(content) if content else None)
            self._arrival.notify_all()
        if "watch" in request.query:
            answer = self.watches.popleft() if self.watches else stream(self, then="hang")
        else:
            answer = self.requests.popleft() if self.requests else document({"kind": "Unscripted"}, status=500)
        return await answer(request)

    def watch(self, *chunks: bytes, then: str = "end") -> Self:
        """Script the next watch; `then` is end, hang or reset (the connection)."""
        self.watches.append(stream(self, *chunks, then=then))
        return self

    def answer(self, body: Any, *, status: int = 200, headers: Mapping[str, str] | None = None) -> Self:
        """Script the next answer that is no watch."""
        self.requests.append(document(body, status=status, headers=headers))
        return self


@asynccontextmanager
async def scripted_server(context: ssl.SSLContext | None = None) -> AsyncIterator[ScriptedServer]:
    """Give a server that is listening, over TLS with a context."""
    script = ScriptedServer()
    app = web.Application(client_max_size=64 * 2**20)
    app.router.add_route("*", "/{path:.*}", script.handle)
    server = TestServer(app, host="127.0.0.1", scheme="https" if context else "http")
    await server.start_server(ssl=context, shutdown_timeout=1)
    script.url = str(server.make_url("")).rstrip("/")
    try:
        yield script
    finally:
        script.close()
        await server.close()


def document(body: Any, *, status: int = 200, headers: Mapping[str, str] | None = None) -> Answer:
    """Answer with JSON, or with bytes as they are."""

    async def send(_: web.Request) -> web.Response:
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        return web.Response(body=content, status=status, headers=headers, content_type="application/json")

    return send


def status(code: int, reason: str, message: str = "scripted", **details: Any) -> dict[str, Any]:
    """Return a Status object."""
    return {"kind": "Status", "code": code, "reason": reason, "message": message, "details": details}


def stream(script: ScriptedServer, *chunks: bytes, then: str) -> Answer:
    """Send the chunks one by one as they are, then end, hang or break."""

    async def send(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        for chunk in chunks:
            await response.write(chunk)
        if then == "hang":
            await script.hang()
        elif then == "reset":
            transport = request.transport
            assert transport is not None
            transport.close()
        return response

    return send


def line(kind: str, item: Any) -> bytes:
    """Return one event of a watch."""
    return json.dumps({"type": kind, "object": item}).encode() + b"\n"
