"""The informer against a scripted server: it ends up in step after every fault, and tells what vanished meanwhile."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from random import Random
from typing import Any

import pytest

from sandberth.kube.client import Client
from sandberth.kube.errors import ApiError
from sandberth.kube.informer import Informer
from sandberth.kube.store import Store
from tests.scripted_server import ScriptedServer, document, line, scripted_server, status

PATH = "/api/v1/pods"
DEADLINE_SECONDS = 10.0


@dataclass(frozen=True)
class Thing:
    """What these tests decode: an object with a value."""

    uid: str
    namespace: str
    name: str
    resource_version: int
    value: str


def a_pod(name: str, version: int, value: Any = "") -> dict[str, Any]:
    metadata = {"uid": f"uid-{name}", "namespace": "team", "name": name, "resourceVersion": str(version)}
    return {"metadata": metadata, "value": value}


def a_list(*items: dict[str, Any], version: int, more: str = "") -> dict[str, Any]:
    metadata = {"resourceVersion": str(version)} | ({"continue": more} if more else {})
    return {"kind": "PodList", "metadata": metadata, "items": list(items)}


def a_bookmark(version: int) -> bytes:
    return line("BOOKMARK", {"metadata": {"resourceVersion": str(version)}})


def decode(content: bytes) -> Thing:
    item = json.loads(content)
    metadata = item["metadata"]
    if not isinstance(item["value"], str):
        raise TypeError("value")
    return Thing(
        metadata["uid"], metadata["namespace"], metadata["name"], int(metadata["resourceVersion"]), item["value"]
    )


class Follower:
    """An informer at work, its server, and what its store's listeners were told."""

    def __init__(self, server: ScriptedServer, informer: Informer[Thing]) -> None:
        self.server = server
        self.informer = informer
        self.store = informer.store
        self.told: list[str] = []
        self._changed = asyncio.Event()
        self.store.subscribe(self._listen)

    def _listen(self, old: Thing | None, new: Thing | None) -> None:
        sign = "+" if old is None else "-" if new is None else "~"
        thing = new or old
        assert thing is not None
        self.told.append(f"{sign}{thing.name}")
        self._changed.set()

    async def until_told(self, *expected: str) -> None:
        async with asyncio.timeout(DEADLINE_SECONDS):
            while len(self.told) < len(expected):
                self._changed.clear()
                await self._changed.wait()
        assert self.told == list(expected)

    async def until_passed(self, version: int) -> None:
        await until(lambda: self.store.resource_version >= version)


async def until(claim: Callable[[], bool]) -> None:
    """Return once the claim holds."""
    async with asyncio.timeout(DEADLINE_SECONDS):
        while not claim():  # noqa: ASYNC110 - nothing announces it
            await asyncio.sleep(0.001)


@asynccontextmanager
async def following(
    server: ScriptedServer, access_client: Client, *, idle_seconds: float = 5.0
) -> AsyncIterator[Follower]:
    informer = Informer(
        access_client, PATH, Store[Thing](), decode, rng=Random(0), page_size=2, idle_seconds=idle_seconds
    )
    follower = Follower(server, informer)
    task = asyncio.create_task(informer.run())
    try:
        yield follower
        assert not task.done()
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        assert task.cancelled()


@pytest.fixture
async def server() -> AsyncIterator[ScriptedServer]:
    async with scripted_server() as script:
        yield script


@pytest.fixture
async def client(server: ScriptedServer) -> AsyncIterator[Client]:
    async with Client(server.access) as opened:
        yield opened


async def test_it_lists_then_watches_from_there(server: ScriptedServer, client: Client) -> None:
    server.answer(a_list(a_pod("a", 1), version=10))
    server.watch(line("ADDED", a_pod("b", 11)), line("MODIFIED", a_pod("a", 12)), line("DELETED", a_pod("b", 13)))

    async with following(server, client) as follower:
        await follower.informer.synced()
        await follower.until_told("+a", "+b", "~a", "-b")

    watch = server.queries(watch=True)[0]
    assert watch["resourceVersion"] == "10"
    assert watch["allowWatchBookmarks"] == "true"
    assert 240 <= int(watch["timeoutSeconds"]) <= 300
    assert "resourceVersion" not in server.queries(watch=False)[0]


async def test_a_list_of_many_pages_is_taken_in_as_one(server: ScriptedServer, client: Client) -> None:
    server.answer(a_list(a_pod("a", 1), a_pod("b", 2), version=10, more="page 2"))
    server.answer(a_list(a_pod("c", 3), version=10))

    async with following(server, client) as follower:
        await follower.informer.synced()

    assert follower.told == ["+a", "+b", "+c"]
    assert [query.get("continue") for query in server.queries(watch=False)] == [None, "page 2"]
    assert {query["limit"] for query in server.queries(watch=False)} == {"2"}
    assert follower.informer.lists == 1


async def test_an_expired_page_starts_the_list_anew(server: ScriptedServer, client: Client) -> None:
    server.answer(a_list(a_pod("a", 1), version=10, more="page 2"))
    server.answer(status(410, "Expired"), status=410)
    server.answer(a_list(a_pod("b", 15), version=20))

    async with following(server, client) as follower:
        await follower.informer.synced()

    assert follower.told == ["+b"]
    assert [query.get("continue") for query in server.queries(watch=False)] == [None, "page 2", None]


async def test_an_empty_cluster_is_in_step_too(server: ScriptedServer, client: Client) -> None:
    server.answer({"metadata": {"resourceVersion": "7"}, "items": None})

    async with following(server, client) as follower:
        await follower.informer.synced()

    assert follower.store.resource_version == 7


async def test_bookmarks_move_the_place_to_watch_from(server: ScriptedServer, client: Client) -> None:
    server.answer(a_list(version=10))
    server.watch(a_bookmark(50))
    server.watch(line("ADDED", a_pod("a", 51)), then="hang")

    async with following(server, client) as follower:
        await follower.until_told("+a")

    assert [query["resourceVersion"] for query in server.queries(watch=True)] == ["10", "50"]
    assert follower.store.resource_version == 51
    assert follower.informer.lists == 1


@pytest.mark.parametrize("how", ["in the stream", "as an answer", "error 500 in the stream"])
async def test_a_lost_place_is_healed_by_a_list_that_tells_deletions(
    server: ScriptedServer, client: Client, how: str
) -> None:
    server.answer(a_list(a_pod("a", 1), a_pod("b", 2), version=10))
    if how == "as an answer":
        server.watches.append(document(status(410, "Expired"), status=410))
    else:
        failure = status(410, "Expired") if how == "in the stream" else status(500, "InternalError")
        server.watch(line("ERROR", failure), then="hang")
    server.answer(a_list(a_pod("b", 2), a_pod("c", 15), version=20))

    async with following(server, client) as follower:
        await follower.until_told("+a", "+b", "-a", "+c")
        await server.until_seen(4)

    assert server.queries(watch=True)[-1]["resourceVersion"] == "20"


async def test_an_object_deleted_while_the_list_is_read_is_told_by_the_watch(
    server: ScriptedServer, client: Client
) -> None:
    server.answer(a_list(a_pod("a", 1), a_pod("b", 2), version=10))
    server.watch(line("ERROR", status(410, "Expired")))
    server.answer(a_list(a_pod("a", 1), version=20, more="page 2")).answer(a_list(a_pod("b", 2), version=20))
    server.watch(line("DELETED", a_pod("a", 21)), then="hang")

    async with following(server, client) as follower:
        await follower.until_told("+a", "+b", "-a")


async def test_a_connection_cut_inside_a_line_goes_on_from_the_last_event(
    server: ScriptedServer, client: Client
) -> None:
    server.answer(a_list(version=10))
    server.watch(line("ADDED", a_pod("a", 11)), line("ADDED", a_pod("b", 12))[:40], then="reset")
    server.watch(line("ADDED", a_pod("b", 12)), then="hang")

    async with following(server, client) as follower:
        await follower.until_told("+a", "+b")

    assert [query["resourceVersion"] for query in server.queries(watch=True)] == ["10", "11"]
    assert follower.informer.lists == 1


async def test_a_silent_watch_is_opened_again_from_the_same_place(server: ScriptedServer, client: Client) -> None:
    server.answer(a_list(version=10))
    server.watch(then="hang")
    server.watch(line("ADDED", a_pod("a", 11)), then="hang")

    async with following(server, client, idle_seconds=0.2) as follower:
        await follower.until_told("+a")

    assert [query["resourceVersion"] for query in server.queries(watch=True)][:2] == ["10", "10"]


async def test_server_errors_are_waited_out(server: ScriptedServer, client: Client) -> None:
    for _ in range(2):
        server.answer(status(500, "InternalError"), status=500)
    server.answer(a_list(version=10))
    server.watches.append(document(status(503, "ServiceUnavailable"), status=503))
    server.watch(line("ADDED", a_pod("a", 11)), then="hang")

    async with following(server, client) as follower:
        assert not follower.informer.is_synced
        await follower.until_told("+a")

    assert follower.informer.errors == 3
    assert follower.informer.lists == 1


async def test_a_forbidden_watch_lists_again_until_it_is_allowed(server: ScriptedServer, client: Client) -> None:
    server.answer(a_list(version=10)).answer(a_list(a_pod("a", 11), version=12))
    server.watches.append(document(status(403, "Forbidden"), status=403))

    async with following(server, client) as follower:
        await follower.until_told("+a")


async def test_a_line_that_is_no_json_is_healed_by_a_list(server: ScriptedServer, client: Client) -> None:
    server.answer(a_list(a_pod("a", 1), version=10))
    server.watch(b'{"type": garbage}\n', then="hang")
    server.answer(a_list(version=20))

    async with following(server, client) as follower:
        await follower.until_told("+a", "-a")


async def test_an_object_of_megabytes_is_an_object_like_any(server: ScriptedServer, client: Client) -> None:
    server.answer(a_list(version=10))
    server.watch(line("ADDED", a_pod("a", 11, "x" * 2_000_000)), line("ADDED", a_pod("b", 12)), then="hang")

    async with following(server, client) as follower:
        await follower.until_told("+a", "+b")

    found = follower.store.get("uid-a")
    assert found is not None
    assert len(found.value) == 2_000_000


async def test_one_bad_object_is_left_out_and_the_stream_goes_on(
    server: ScriptedServer, client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    server.answer(a_list(a_pod("bad", 1, 666), a_pod("a", 2), version=10))
    server.watch(line("MODIFIED", a_pod("bad", 11, 667)), line("ADDED", a_pod("b", 12)), then="hang")

    async with following(server, client) as follower:
        await follower.until_told("+a", "+b")

    assert follower.informer.undecodable == 2
    assert [record.message for record in caplog.records if "team/bad" in record.message] == [
        "An object of /api/v1/pods cannot be read and is left out: team/bad: value"
    ]


async def test_a_known_object_that_turns_bad_stays_until_it_is_deleted(server: ScriptedServer, client: Client) -> None:
    server.answer(a_list(a_pod("a", 1), version=10))
    server.watch(line("MODIFIED", a_pod("a", 11, 666)), line("ERROR", status(410, "Expired")))
    server.answer(a_list(a_pod("a", 11, 666), version=20))
    server.watch(line("DELETED", a_pod("a", 21, 666)), line("ADDED", a_pod("b", 22)), then="hang")

    async with following(server, client) as follower:
        await follower.until_told("+a", "-a", "+b")

    assert follower.informer.lists == 2


async def test_watches_that_end_at_once_are_not_opened_in_a_hot_loop(server: ScriptedServer, client: Client) -> None:
    server.answer(a_list(version=10))
    for _ in range(3):
        server.watch()
    server.watch(a_bookmark(11), then="hang")

    async with following(server, client) as follower:
        await follower.until_passed(11)

    assert follower.informer.errors == 3
    assert follower.informer.lists == 1


@pytest.mark.parametrize("in_stream", [True, False])
async def test_after_an_outage_an_answer_starts_the_pauses_anew(
    server: ScriptedServer, client: Client, monkeypatch: pytest.MonkeyPatch, in_stream: bool
) -> None:
    pauses: list[float] = []
    sleep = asyncio.sleep

    async def note(seconds: float) -> None:
        pauses.append(seconds)
        await sleep(0)

    monkeypatch.setattr("sandberth.kube.informer.asyncio.sleep", note)
    server.answer(a_list(version=10)).answer(a_list(a_pod("a", 11), version=20))
    for _ in range(6):
        server.watch()
    if in_stream:
        server.watch(line("ERROR", status(410, "Expired")))
    else:
        server.watches.append(document(status(410, "Expired"), status=410))

    async with following(server, client) as follower:
        await follower.until_told("+a")

    assert pauses[5] > 1.0
    assert pauses[6] <= 0.1


async def test_activity_is_any_answer_even_an_error(server: ScriptedServer, client: Client) -> None:
    now = 100.0
    informer = Informer(client, PATH, Store[Thing](), decode, clock=lambda: now)
    server.answer(status(403, "Forbidden"), status=403)
    now = 150.0
    silent = informer.seconds_since_activity()

    task = asyncio.create_task(informer.run())
    await until(lambda: informer.errors == 1)
    answered = informer.seconds_since_activity()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)

    assert (silent, answered) == (50.0, 0.0)


async def test_cancelling_leaves_no_task_behind(server: ScriptedServer, client: Client) -> None:
    server.answer(a_list(version=10))
    server.watch(a_bookmark(11), then="hang")

    async with following(server, client) as follower:
        before = asyncio.all_tasks()
        await follower.until_passed(11)

    await until(lambda: not {task for task in asyncio.all_tasks() - before if "informer" in repr(task)})


async def test_catching_up_waits_for_the_changes_that_were_stored_before(
    server: ScriptedServer, client: Client
) -> None:
    server.answer(a_list(version=10)).watch(line("ADDED", a_pod("one", 20)))
    async with following(server, client) as follower:
        await follower.until_passed(20)
        server.answer(a_list(version=20))

        await follower.informer.catch_up()

        assert follower.informer.lists == 1


async def test_catching_up_lists_where_the_stream_says_nothing(server: ScriptedServer, client: Client) -> None:
    server.answer(a_list(a_pod("goes", 5), version=10))
    async with following(server, client) as follower:
        await follower.until_told("+goes")
        server.answer(a_list(version=30)).answer(a_list(a_pod("new", 25), version=30))

        await follower.informer.catch_up()

        assert follower.told == ["+goes", "-goes", "+new"]
        assert follower.store.resource_version == 30


async def test_catching_up_fails_where_the_server_does_not_answer(server: ScriptedServer, client: Client) -> None:
    server.answer(a_list(version=10))
    async with following(server, client) as follower:
        await follower.until_passed(10)
        server.answer(status(503, "ServiceUnavailable"), status=503)

        with pytest.raises(ApiError):
            await follower.informer.catch_up()
