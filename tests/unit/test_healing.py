"""Reading everything at a start and at a takeover: what vanished meanwhile goes, and what cannot be read is named."""

import asyncio
from collections.abc import AsyncIterator
from random import Random
from typing import Any

import pytest

from sandberth.control.api import Api
from sandberth.control.flag_source import FlagSource
from sandberth.control.healing import Healing
from sandberth.control.metrics import Metrics
from sandberth.control.settings import Settings
from sandberth.control.state import State
from sandberth.kube.client import Client
from tests.scripted_server import ScriptedServer, scripted_server, status


@pytest.fixture
async def server() -> AsyncIterator[ScriptedServer]:
    async with scripted_server() as script:
        yield script


@pytest.fixture
async def state(server: ScriptedServer) -> AsyncIterator[State]:
    async with Client(server.access) as client:
        metrics = Metrics()
        yield State(Settings(), Api(client, metrics), metrics, rng=Random(0))


@pytest.fixture
async def healing(state: State) -> Healing:
    return Healing(state, FlagSource(state, lambda: None))


def a_sandbox(name: str, version: int) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "team", "uid": f"uid-{name}", "resourceVersion": str(version)}
    return {"metadata": metadata, "spec": {}, "status": {}}


def a_list(*items: dict[str, Any], version: int, more: str = "") -> dict[str, Any]:
    return {"metadata": {"resourceVersion": str(version), "continue": more}, "items": list(items)}


def names_of(state: State) -> set[str]:
    return {seen.name for seen in state.streams.sandboxes}


async def test_what_vanished_unseen_is_gone_after_everything_was_read(
    server: ScriptedServer, state: State, healing: Healing
) -> None:
    for name, version in (("stays", 5), ("gone", 6), ("younger", 40)):
        state.streams.observe_sandbox(a_sandbox(name, version))
    server.answer(a_list(version=30)).answer(a_list(version=30))
    server.answer(a_list(a_sandbox("stays", 5), version=30, more="next")).answer(
        a_list(a_sandbox("new", 20), version=30)
    )
    server.answer(status(404, "NotFound"), status=404)

    await healing.read_all()

    assert names_of(state) == {"stays", "new", "younger"}
    assert state.streams.unverified == {"uid-new"}


async def test_what_was_seen_on_pages_of_a_list_that_expired_does_not_count(
    server: ScriptedServer, state: State, healing: Healing
) -> None:
    state.streams.observe_sandbox(a_sandbox("gone", 5))
    server.answer(a_list(version=30)).answer(a_list(version=30))
    server.answer(a_list(a_sandbox("gone", 5), version=30, more="next"))
    server.answer(status(410, "Expired"), status=410)
    server.answer(a_list(version=50))
    server.answer(status(404, "NotFound"), status=404)

    await healing.read_all()

    assert names_of(state) == set()


async def test_doubted_sandboxes_are_all_that_are_known(state: State) -> None:
    state.streams.observe_sandbox(a_sandbox("one", 5))
    assert state.streams.unverified == set()

    state.streams.doubt_sandboxes()

    assert state.streams.unverified == {"uid-one"}


async def test_what_cannot_be_read_is_named_until_it_is(server: ScriptedServer, state: State, healing: Healing) -> None:
    server.answer(status(404, "NotFound"), status=404)
    reading = asyncio.create_task(healing.read_all())
    async with asyncio.timeout(10):
        while healing.obstacle is None:  # noqa: ASYNC110 - nothing announces it
            await asyncio.sleep(0.01)

    assert "nodes cannot be read" in healing.obstacle

    for _ in range(3):
        server.answer(a_list(version=30))
    server.answer(status(404, "NotFound"), status=404)
    await asyncio.wait_for(reading, 10)
    assert healing.obstacle is None
