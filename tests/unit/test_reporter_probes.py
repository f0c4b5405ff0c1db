"""The reporter's own server: answers to probes and scrapes, and patience with whoever asks strangely."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress

import pytest

from sandberth.reporter import probes as module
from sandberth.reporter.probes import Probes, exposition


class State:
    """What the checks answer."""

    def __init__(self) -> None:
        self.alive: str | None = None
        self.ready: str | None = "nothing yet"


@pytest.fixture
def state() -> State:
    return State()


@pytest.fixture
async def probes(state: State) -> AsyncIterator[Probes]:
    server = Probes(
        alive=lambda: state.alive, ready=lambda: state.ready, metrics=lambda: exposition(written=3, failed=1, pods=7)
    )
    await server.start("127.0.0.1", 0)
    yield server
    await server.stop()


async def ask(port: int, request: bytes) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request)
    try:
        async with asyncio.timeout(10):
            return await reader.read()
    finally:
        writer.close()


def get(path: str, method: str = "GET") -> bytes:
    return f"{method} {path} HTTP/1.1\r\nHost: x\r\nUser-Agent: kube-probe\r\n\r\n".encode()


async def test_probes_follow_their_checks(probes: Probes, state: State) -> None:
    live, ready = await ask(probes.port, get("/livez")), await ask(probes.port, get("/readyz?verbose"))
    state.alive, state.ready = "stuck", None
    dead, well = await ask(probes.port, get("/livez")), await ask(probes.port, get("/readyz"))

    assert live.startswith(b"HTTP/1.1 200 OK\r\n")
    assert live.endswith(b"\r\n\r\nok\n")
    assert ready.startswith(b"HTTP/1.1 503 ")
    assert ready.endswith(b"nothing yet\n")
    assert dead.startswith(b"HTTP/1.1 503 ")
    assert well.startswith(b"HTTP/1.1 200 ")


async def test_metrics_are_prometheus_text(probes: Probes) -> None:
    head, _, body = (await ask(probes.port, get("/metrics"))).partition(b"\r\n\r\n")

    assert b"Content-Type: text/plain; version=0.0.4" in head
    assert f"Content-Length: {len(body)}".encode() in head
    assert b'sandberth_reporter_reports_total{outcome="written"} 3\n' in body
    assert b'sandberth_reporter_reports_total{outcome="failed"} 1\n' in body
    assert b"sandberth_reporter_pods 7\n" in body


async def test_other_paths_and_methods_are_refused(probes: Probes) -> None:
    assert (await ask(probes.port, get("/"))).startswith(b"HTTP/1.1 404 ")
    assert (await ask(probes.port, get("/livez", "POST"))).startswith(b"HTTP/1.1 405 ")
    assert (await ask(probes.port, get("/livez", "HEAD"))).endswith(b"\r\n\r\n")


@pytest.mark.parametrize("request_text", [b"x" * 100_000, b"\x00\xff\r\n\r\n"])
async def test_what_is_no_request_harms_nobody(probes: Probes, request_text: bytes) -> None:
    with suppress(ConnectionError):
        await ask(probes.port, request_text)

    assert (await ask(probes.port, get("/livez"))).startswith(b"HTTP/1.1 200 ")


async def test_silent_clients_are_sent_away(probes: Probes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_REQUEST_SECONDS", 0.1)

    assert await ask(probes.port, b"GET /livez HTTP/1.1\r\n") == b""


async def test_a_crowd_of_silent_clients_is_turned_away(probes: Probes) -> None:
    crowd = [await asyncio.open_connection("127.0.0.1", probes.port) for _ in range(32)]
    try:
        async with asyncio.timeout(10):
            reader, writer = await asyncio.open_connection("127.0.0.1", probes.port)
            assert await reader.read() == b""
            writer.close()
    finally:
        for _, each in crowd:
            each.close()
