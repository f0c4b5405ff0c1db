"""A reporter's own HTTP server: /livez, /readyz, /metrics.

The few lines of HTTP that probes and scrapes need, so that the process on every node loads no HTTP library for them:
GET and HEAD, one request a connection, and nothing of a request is read but its first line.
"""

import asyncio
from collections.abc import Callable
from typing import Final

_REQUEST_SECONDS: Final = 5.0
_REQUEST_BYTES: Final = 8192
_MOST_CONNECTIONS: Final = 32
_TEXT: Final = "text/plain; charset=utf-8"
_PROMETHEUS: Final = "text/plain; version=0.0.4; charset=utf-8"
_REASONS: Final = {200: "OK", 404: "Not Found", 405: "Method Not Allowed", 503: "Service Unavailable"}

Check = Callable[[], str | None]  # what is wrong, None when nothing is


def exposition(*, written: int, failed: int, pods: int) -> str:
    """Return a reporter's metrics in the text format of Prometheus."""
    lines = (
        "# HELP sandberth_reporter_reports_total Reports, by outcome.",
        "# TYPE sandberth_reporter_reports_total counter",
        f'sandberth_reporter_reports_total{{outcome="written"}} {written}',
        f'sandberth_reporter_reports_total{{outcome="failed"}} {failed}',
        "# HELP sandberth_reporter_pods Pods known.",
        "# TYPE sandberth_reporter_pods gauge",
        f"sandberth_reporter_pods {pods}",
    )
    return "\n".join(lines) + "\n"


class Probes:
    """Answers probes from two checks, and scrapes from a text; `port` is the one it got."""

    def __init__(self, *, alive: Check, ready: Check, metrics: Callable[[], str]) -> None:
        self._alive = alive
        self._ready = ready
        self._metrics = metrics
        self._server: asyncio.Server | None = None
        self._connections = 0
        self.port = 0

    async def start(self, host: str, port: int) -> None:
        """Listen; port 0 takes any free one. Raises OSError where the port is taken."""
        self._server = await asyncio.start_server(self._serve, host, port, limit=_REQUEST_BYTES)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """Close the server; answers that are under way are not waited for."""
        if self._server is not None:
            self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._connections += 1
        try:
            if self._connections <= _MOST_CONNECTIONS:
                async with asyncio.timeout(_REQUEST_SECONDS):
                    head = await reader.readuntil(b"\r\n\r\n")
                    writer.write(self._answer(head))
                    await writer.drain()
        except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, OSError):
            pass  # whoever asked has left, or asks what is no request; TimeoutError is an OSError
        finally:
            self._connections -= 1
            writer.close()

    def _answer(self, head: bytes) -> bytes:
        method, _, rest = head.decode("latin-1").partition(" ")
        path = rest.partition(" ")[0].partition("?")[0]
        status, content_type, text = 200, _TEXT, "ok\n"
        if method not in {"GET", "HEAD"}:
            status, text = 405, "GET only\n"
        elif path == "/metrics":
            content_type, text = _PROMETHEUS, self._metrics()
        elif path in {"/livez", "/readyz"}:
            wrong = self._alive() if path == "/livez" else self._ready()
            if wrong is not None:
                status, text = 503, f"{wrong}\n"
        else:
            status, text = 404, "not found\n"
        body = text.encode()
        lines = (
            f"HTTP/1.1 {status} {_REASONS[status]}",
            f"Content-Type: {content_type}",
            f"Content-Length: {len(body)}",
            "Connection: close",
        )
        return "\r\n".join((*lines, "", "")).encode() + (b"" if method == "HEAD" else body)
