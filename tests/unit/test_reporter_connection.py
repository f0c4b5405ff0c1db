"""The connection with the standard library against a real server: what each answer, and each fault, turns into."""

import asyncio
import socket
import ssl
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from sandberth.core.errors import SandberthError
from sandberth.kube.errors import ApiError, Unreachable
from sandberth.kube.kubeconfig import ClusterAccess, StaticToken, TokenFile
from sandberth.kube.paths import MERGE_PATCH
from sandberth.reporter import connection as module
from sandberth.reporter.connection import Connection
from tests.certificates import Pair, self_signed
from tests.http_fake import HttpFake, Reply, Request, http_fake

SHORT = 0.5  # a timeout that a test waits for
LONG = 10.0


@pytest.fixture
def server() -> Iterator[HttpFake]:
    with http_fake() as fake:
        fake.answers["/one"] = Reply({"number": 1})
        yield fake


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Pair:
    return self_signed(tmp_path_factory.mktemp("pki"), "node-1")


def a_connection(server: HttpFake, timeout_seconds: float = LONG) -> Connection:
    return Connection(ClusterAccess(server.url, tokens=StaticToken("secret")), timeout_seconds)


async def test_a_request_carries_the_token_and_the_body(server: HttpFake) -> None:
    server.answers["/one"] = lambda request: Reply(request.body)

    answer = await a_connection(server).request("PATCH", "/one", {"a": [1, None]}, MERGE_PATCH)

    assert answer == b'{"a": [1, null]}'
    request = server.seen[0]
    assert request.method == "PATCH"
    assert request.headers["Authorization"] == "Bearer secret"
    assert request.headers["Content-Type"] == MERGE_PATCH


async def test_one_connection_serves_all_requests(server: HttpFake) -> None:
    server.answers["/chunks"] = Reply(b"x" * 10_000, chunked=True)
    connection = a_connection(server)

    answers = [await connection.request("GET", path) for path in ("/one", "/chunks", "/one")]

    assert [len(answer) for answer in answers] == [13, 10_000, 13]
    assert server.connections == 1


async def test_a_refusal_leaves_the_connection_in_use(server: HttpFake) -> None:
    server.answers["/no"] = Reply(b"Forbidden (user=x, verb=get)", 403, {"Retry-After": "7"})
    connection = a_connection(server)

    with pytest.raises(ApiError) as caught:
        await connection.request("GET", "/no")
    await connection.request("GET", "/one")

    assert (caught.value.status, caught.value.retry_after_seconds) == (403, 7.0)
    assert "Forbidden (user=x, verb=get)" in str(caught.value)
    assert server.connections == 1


async def test_a_connection_that_the_server_closed_is_opened_anew(server: HttpFake) -> None:
    server.answers["/last"] = Reply(b"bye", close=True)
    connection = a_connection(server)
    await connection.request("GET", "/last")
    await asyncio.sleep(0.1)  # the server's end of the connection arrives

    await connection.request("GET", "/one")

    assert server.connections == 2


async def test_a_connection_at_rest_for_long_is_opened_anew(server: HttpFake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_KEEP_ALIVE_SECONDS", 0.0)
    connection = a_connection(server)

    for _ in range(2):
        await connection.request("GET", "/one")

    assert server.connections == 2


@pytest.mark.parametrize("how", ["hang", "drip"])
async def test_a_server_that_is_too_slow_is_left_in_time(server: HttpFake, how: str) -> None:
    server.answers["/slow"] = Reply(b"x" * 1000, how=how)
    connection = a_connection(server, SHORT)
    began = time.monotonic()

    with pytest.raises(Unreachable, match="GET /slow: TimeoutError"):
        await connection.request("GET", "/slow")

    assert time.monotonic() - began < SHORT + 2
    assert await connection.request("GET", "/one") == b'{"number": 1}'


async def test_a_request_that_is_cancelled_ends_at_once(server: HttpFake) -> None:
    server.answers["/slow"] = Reply(how="hang")
    task = asyncio.create_task(a_connection(server).request("GET", "/slow"))
    await asyncio.to_thread(server.until_asked, "/slow")
    began = time.monotonic()

    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert time.monotonic() - began < 1


@pytest.mark.parametrize("reply", [Reply(b"x" * 1000, how="cut"), Reply(b"x" * 3000)])
async def test_an_answer_that_is_cut_or_too_large_is_no_answer(
    server: HttpFake, reply: Reply, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST_BYTES", 2000)
    server.answers["/odd"] = reply

    with pytest.raises(Unreachable):
        await a_connection(server).request("GET", "/odd")


async def test_nobody_listening_is_no_answer() -> None:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        access = ClusterAccess(f"http://127.0.0.1:{held.getsockname()[1]}")

        with pytest.raises(Unreachable, match="ConnectionRefusedError"):
            await Connection(access, LONG).request("GET", "/one")


async def test_a_token_that_was_renewed_is_read_again(server: HttpFake, tmp_path: Path) -> None:
    def answer(request: Request) -> Reply:
        return Reply(b"ok") if request.headers["Authorization"] == "Bearer new" else Reply(b"Unauthorized", 401)

    file = tmp_path / "token"
    file.write_text("old")
    tokens = TokenFile(file, clock=lambda: 0.0)
    tokens.reread()
    server.answers["/guarded"] = answer
    connection = Connection(ClusterAccess(server.url, tokens=tokens), LONG)

    with pytest.raises(ApiError):
        await connection.request("GET", "/guarded")
    file.write_text("new")

    assert await connection.request("GET", "/guarded") == b"ok"
    assert len(server.seen) == 3


async def test_the_path_of_the_servers_url_is_kept(server: HttpFake) -> None:
    server.answers["/clusters/a/one"] = Reply(b"here")

    answer = await Connection(ClusterAccess(f"{server.url}/clusters/a"), LONG).request("GET", "/one")

    assert answer == b"here"


async def test_a_proxy_is_refused_rather_than_passed_over(server: HttpFake) -> None:
    with pytest.raises(SandberthError, match="proxy"):
        Connection(ClusterAccess(server.url, proxy="http://proxy:3128"), LONG)


# --- TLS ---


async def test_a_certificate_verifies_by_its_own_name_at_any_address(pair: Pair) -> None:
    context = ssl.create_default_context(cafile=str(pair.certificate))
    with http_fake(pair) as server:
        server.answers["/one"] = Reply(b"ok")
        connection = Connection(ClusterAccess(server.url, context, server_hostname="node-1"), LONG)

        answers = [await connection.request("GET", "/one") for _ in range(3)]

        assert answers == [b"ok"] * 3
        assert server.connections == 1


@pytest.mark.parametrize("name", ["node-2", None])
async def test_a_certificate_for_another_name_is_refused(pair: Pair, name: str | None) -> None:
    context = ssl.create_default_context(cafile=str(pair.certificate))
    with http_fake(pair) as server:
        connection = Connection(ClusterAccess(server.url, context, server_hostname=name), LONG)

        with pytest.raises(Unreachable) as caught:
            await connection.request("GET", "/one")

        assert isinstance(caught.value.__cause__, ssl.SSLCertVerificationError)
        assert server.seen == []


async def test_a_certificate_of_another_authority_is_refused(pair: Pair) -> None:
    with http_fake(pair) as server:
        connection = Connection(ClusterAccess(server.url, ssl.create_default_context(), server_hostname="node-1"), LONG)

        with pytest.raises(Unreachable) as caught:
            await connection.request("GET", "/one")

        assert isinstance(caught.value.__cause__, ssl.SSLCertVerificationError)
