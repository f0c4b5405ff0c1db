"""The API client against a scripted server: what each answer, and each missing answer, turns into."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path

import pytest

from sandberth import __version__
from sandberth.kube.client import Client
from sandberth.kube.errors import ApiError, Unreachable
from sandberth.kube.kubeconfig import ClusterAccess, StaticToken, TokenFile
from sandberth.kube.paths import JSON_PATCH, MERGE_PATCH, path_of
from tests.scripted_server import ScriptedServer, document, scripted_server, status

POD = "/api/v1/namespaces/team/pods/one"


@pytest.fixture
async def server() -> AsyncIterator[ScriptedServer]:
    async with scripted_server() as script:
        yield script


@pytest.fixture
async def client(server: ScriptedServer) -> AsyncIterator[Client]:
    async with Client(server.access) as opened:
        yield opened


def test_path_of_names_collections_objects_and_subresources() -> None:
    assert path_of("", "v1", "pods") == "/api/v1/pods"
    assert path_of("", "v1", "pods", namespace="team", name="one") == POD
    assert (
        path_of("sandberth.dev", "v1alpha1", "sandboxes", namespace="team", name="one", subresource="status")
        == "/apis/sandberth.dev/v1alpha1/namespaces/team/sandboxes/one/status"
    )


def test_path_of_quotes_what_would_leave_its_place() -> None:
    assert path_of("", "v1", "pods", namespace="a/b", name="c?d#e") == "/api/v1/namespaces/a%2Fb/pods/c%3Fd%23e"


async def test_get_returns_the_object_and_tells_who_asks(server: ScriptedServer, client: Client) -> None:
    server.answer({"kind": "Pod"})

    found = await client.get(POD)

    assert found == {"kind": "Pod"}
    assert server.seen[0].headers["User-Agent"] == f"sandberth/{__version__}"
    assert server.seen[0].path == POD


async def test_parameters_arrive_unchanged_whatever_they_hold(server: ScriptedServer, client: Client) -> None:
    server.answer(b"{}")
    token = "a+b/c=&d %20é"

    await client.list("/api/v1/pods", {"continue": token, "limit": 500})

    assert dict(server.seen[0].query) == {"continue": token, "limit": "500"}


async def test_post_put_and_patch_send_their_body_and_type(server: ScriptedServer, client: Client) -> None:
    for _ in range(4):
        server.answer({})

    await client.post(POD, {"a": 1}, {"fieldValidation": "Strict"})
    await client.put(POD, {"b": 2})
    await client.patch(POD, {"c": 3})
    await client.patch(POD, [{"op": "test"}], JSON_PATCH)

    assert server.bodies == [{"a": 1}, {"b": 2}, {"c": 3}, [{"op": "test"}]]
    assert [request.method for request in server.seen] == ["POST", "PUT", "PATCH", "PATCH"]
    assert [request.content_type for request in server.seen[2:]] == [MERGE_PATCH, JSON_PATCH]
    assert server.seen[0].query["fieldValidation"] == "Strict"


async def test_delete_names_the_uid_that_it_means(server: ScriptedServer, client: Client) -> None:
    server.answer({"kind": "Status", "status": "Success"})

    await client.delete(POD, uid="u-1", grace_period_seconds=0, propagation="Background")

    assert server.bodies[0] == {
        "apiVersion": "v1",
        "kind": "DeleteOptions",
        "preconditions": {"uid": "u-1"},
        "gracePeriodSeconds": 0,
        "propagationPolicy": "Background",
    }


@pytest.mark.parametrize(
    ("code", "reason", "refused"),
    [
        (409, "AlreadyExists", True),
        (403, "Forbidden", True),
        (422, "Invalid", True),
        (404, "NotFound", True),
        (413, "RequestEntityTooLarge", True),
        (418, "", True),  # a webhook may deny with any code and no reason
        (500, "Forbidden", True),  # the reason decides, not the code
        (409, "Conflict", False),
        (429, "TooManyRequests", False),
        (403, "ServerTimeout", False),
        (500, "InternalError", False),
        (502, "", False),
        (401, "Unauthorized", False),
    ],
)
async def test_a_status_is_either_a_refusal_or_transient(
    server: ScriptedServer, client: Client, code: int, reason: str, refused: bool
) -> None:
    server.answer(status(code, reason), status=code)

    with pytest.raises(ApiError) as raised:
        await client.post(POD, {})

    assert (raised.value.status, raised.value.reason, raised.value.message) == (code, reason, "scripted")
    assert raised.value.is_definite_refusal is refused
    assert raised.value.is_transient is not refused


async def test_already_exists_is_no_conflict(server: ScriptedServer, client: Client) -> None:
    server.answer(status(409, "AlreadyExists", name="one"), status=409)

    with pytest.raises(ApiError) as raised:
        await client.post(POD, {})

    assert raised.value.already_exists
    assert not raised.value.conflict
    assert raised.value.details == {"name": "one"}


async def test_the_pause_asked_for_is_kept(server: ScriptedServer, client: Client) -> None:
    server.answer(status(429, "TooManyRequests"), status=429, headers={"Retry-After": "7"})
    server.answer(status(500, "ServerTimeout", retryAfterSeconds=3), status=500)
    server.answer(b"busy", status=503, headers={"Retry-After": "Wed, 21 Oct 2026 07:28:00 GMT"})

    pauses = []
    for _ in range(3):
        with pytest.raises(ApiError) as raised:
            await client.get(POD)
        pauses.append(raised.value.retry_after_seconds)

    assert pauses == [7, 3, None]


async def test_an_answer_that_is_no_status_keeps_its_text(server: ScriptedServer, client: Client) -> None:
    server.answer(b"<html>upstream went away</html>", status=502)

    with pytest.raises(ApiError, match="upstream went away") as raised:
        await client.get(POD)

    assert raised.value.reason == ""


async def test_a_redirect_is_an_error_and_is_not_followed(server: ScriptedServer, client: Client) -> None:
    server.answer(b"", status=302, headers={"Location": "/elsewhere"})

    with pytest.raises(ApiError):
        await client.get(POD)

    assert len(server.seen) == 1


async def test_a_success_that_is_no_json_leaves_the_outcome_unknown(server: ScriptedServer, client: Client) -> None:
    server.answer(b"<html>login</html>")

    with pytest.raises(Unreachable):
        await client.post(POD, {})


async def test_nobody_listening_is_unreachable() -> None:
    async with Client(ClusterAccess("http://127.0.0.1:9")) as client:
        with pytest.raises(Unreachable, match="POST /api/v1"):
            await client.post(POD, {})


async def test_a_server_that_does_not_answer_is_unreachable(server: ScriptedServer) -> None:
    server.watch(then="hang")

    async with Client(server.access, timeout_seconds=0.05) as client:
        with pytest.raises(Unreachable):
            await client.get(POD, {"watch": "hangs"})


async def test_a_connection_cut_before_the_answer_is_unreachable(server: ScriptedServer, client: Client) -> None:
    server.watch(b'{"kind"', then="reset")

    with pytest.raises(Unreachable):
        await client.get(POD, {"watch": "cut"})


async def test_an_expired_token_is_read_again_and_the_request_repeated(server: ScriptedServer, tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("old")
    tokens = TokenFile(file, clock=lambda: 0.0)
    tokens.token()
    file.write_text("new\n")
    server.answer(status(401, "Unauthorized"), status=401).answer({"kind": "Pod"})

    async with Client(ClusterAccess(server.url, tokens=tokens)) as client:
        found = await client.post(POD, {"n": 1})

    assert found == {"kind": "Pod"}
    assert [request.headers["Authorization"] for request in server.seen] == ["Bearer old", "Bearer new"]
    assert server.bodies == [{"n": 1}, {"n": 1}]


async def test_the_same_token_is_not_tried_twice(server: ScriptedServer) -> None:
    server.answer(status(401, "Unauthorized"), status=401)

    async with Client(ClusterAccess(server.url, tokens=StaticToken("old"))) as client:
        with pytest.raises(ApiError) as raised:
            await client.get(POD)

    assert raised.value.status == 401
    assert len(server.seen) == 1


async def lines_of(client: Client, idle_seconds: float = 5.0) -> AsyncIterator[bytes]:
    async with aclosing(client.watch_lines("/api/v1/pods", {"a": "b"}, idle_seconds=idle_seconds)) as lines:
        async for item in lines:
            yield item


async def collect(source: AsyncIterator[bytes], lines: list[bytes]) -> None:
    async for item in source:
        lines.append(item)  # noqa: PERF401 - a comprehension would lose them with the error


async def test_watch_lines_do_not_depend_on_how_the_bytes_arrive(server: ScriptedServer, client: Client) -> None:
    server.watch(b'{"n":1}\n{"n"', b":2", b"}\n", b'{"n":3}\n{"n":4}\n')

    lines = [line async for line in lines_of(client)]

    assert lines == [b'{"n":1}', b'{"n":2}', b'{"n":3}', b'{"n":4}']
    assert dict(server.seen[0].query) == {"a": "b", "watch": "true"}


async def test_a_watch_line_may_be_megabytes_long(server: ScriptedServer, client: Client) -> None:
    huge = b"x" * 3_000_000
    server.watch(b"short\n" + huge + b"\nshort\n")

    lines = [line async for line in lines_of(client)]

    assert lines == [b"short", huge, b"short"]


async def test_a_line_without_its_end_is_dropped(server: ScriptedServer, client: Client) -> None:
    server.watch(b"whole\nbroken")

    assert [line async for line in lines_of(client)] == [b"whole"]


async def test_a_watch_cut_inside_a_line_gives_the_whole_lines_first(server: ScriptedServer, client: Client) -> None:
    server.watch(b"whole\nbroken", then="reset")
    lines: list[bytes] = []

    with pytest.raises(Unreachable):
        await collect(lines_of(client), lines)

    assert lines == [b"whole"]


async def test_a_silent_watch_is_unreachable_after_its_idle_time(server: ScriptedServer, client: Client) -> None:
    server.watch(b"whole\n", then="hang")
    lines: list[bytes] = []

    with pytest.raises(Unreachable):
        await collect(lines_of(client, idle_seconds=0.1), lines)

    assert lines == [b"whole"]


async def test_a_watch_refused_with_410_says_that_it_is_gone(server: ScriptedServer, client: Client) -> None:
    server.watches.append(document(status(410, "Expired"), status=410))

    with pytest.raises(ApiError) as raised:
        [line async for line in lines_of(client)]

    assert raised.value.gone


async def test_many_requests_share_the_pool(server: ScriptedServer) -> None:
    for _ in range(50):
        server.answer({})

    async with Client(server.access, connections=5) as client:
        await asyncio.gather(*(client.get(POD) for _ in range(50)))

    peers = {request.transport.get_extra_info("peername") for request in server.seen if request.transport}
    assert len(server.seen) == 50
    assert len(peers) <= 5
