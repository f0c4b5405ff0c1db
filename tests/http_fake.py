"""A server on loopback, in threads of this process, for clients that block: answers by path, over TLS if wanted."""

import json
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, cast

from tests.certificates import Pair


@dataclass(frozen=True)
class Request:
    """One request as it came."""

    method: str
    path: str
    headers: dict[str, str]
    body: Any


@dataclass(frozen=True)
class Reply:
    """What to answer. `how`: hang until the server closes, drip a byte every 0.1 s, or cut the body in half."""

    body: Any = b""
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    chunked: bool = False
    close: bool = False  # the connection, after the answer and without saying so
    how: str = ""


Answer = Reply | Callable[[Request], Reply]


class HttpFake:
    """Answers each path as scripted, any other with 404, and remembers what was asked."""

    def __init__(self, pair: Pair | None = None) -> None:
        self.answers: dict[str, Answer] = {}
        self.seen: list[Request] = []
        self.connections = 0
        self.over = threading.Event()
        self._arrived = threading.Condition()
        self._server = _Server(("127.0.0.1", 0), _Handler)
        self._server.fake = self
        if pair is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*pair)
            # The handshake is the first read's matter, in the thread of the connection.
            self._server.socket = context.wrap_socket(
                self._server.socket, server_side=True, do_handshake_on_connect=False
            )
        self.port = int(self._server.server_address[1])
        self.url = f"{'http' if pair is None else 'https'}://127.0.0.1:{self.port}"

    def serve(self) -> None:
        self._server.serve_forever(poll_interval=0.02)

    def close(self) -> None:
        self.over.set()
        self._server.shutdown()
        self._server.server_close()

    def asked(self, path: str) -> list[Request]:
        """Return the requests for that path, whatever their query."""
        return [request for request in self.seen if _bare(request.path) == path]

    def until_asked(self, path: str, count: int = 1, seconds: float = 60.0) -> list[Request]:
        with self._arrived:
            assert self._arrived.wait_for(lambda: len(self.asked(path)) >= count, seconds), self.seen
        return self.asked(path)

    def reply_to(self, request: Request) -> Reply:
        with self._arrived:
            self.seen.append(request)
            self._arrived.notify_all()
        answer = self.answers.get(_bare(request.path), Reply(b"404 page not found", 404))
        return answer(request) if callable(answer) else answer


def _bare(path: str) -> str:
    return path.partition("?")[0]


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    fake: HttpFake


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    @property
    def fake(self) -> HttpFake:
        return cast("_Server", self.server).fake

    def handle(self) -> None:
        self.fake.connections += 1
        with suppress(OSError):  # the client has left, or does not trust the certificate
            super().handle()

    def finish(self) -> None:
        with suppress(OSError):
            super().finish()

    def log_message(self, *_: Any) -> None:
        pass

    def do_GET(self) -> None:
        self._serve()

    def do_PATCH(self) -> None:
        self._serve()

    def _serve(self) -> None:
        content = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        document = json.loads(content) if content else None
        reply = self.fake.reply_to(Request(self.command, self.path, dict(self.headers), document))
        if reply.how == "hang":
            self.fake.over.wait(30)
        else:
            self._send(reply)
        if reply.close or reply.how:
            self.close_connection = True

    def _send(self, reply: Reply) -> None:
        body = reply.body if isinstance(reply.body, bytes) else json.dumps(reply.body).encode()
        self.send_response(reply.status)
        for name, value in reply.headers.items():
            self.send_header(name, value)
        if reply.chunked:
            self.send_header("Transfer-Encoding", "chunked")
        else:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if reply.how == "drip":
            for index in range(len(body)):
                self.wfile.write(body[index : index + 1])
                if self.fake.over.wait(0.1):
                    return
        elif reply.chunked:
            for start in range(0, len(body), 4096):
                piece = body[start : start + 4096]
                self.wfile.write(b"%x\r\n%b\r\n" % (len(piece), piece))
            self.wfile.write(b"0\r\n\r\n")
        else:
            self.wfile.write(body[: len(body) // 2] if reply.how == "cut" else body)


@contextmanager
def http_fake(pair: Pair | None = None) -> Iterator[HttpFake]:
    """Give a server that is listening, over TLS with a certificate and its key."""
    fake = HttpFake(pair)
    thread = threading.Thread(target=fake.serve, daemon=True)
    thread.start()
    try:
        yield fake
    finally:
        fake.close()
        thread.join(5)
