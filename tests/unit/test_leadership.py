"""The permission to write, and what a connection does without it."""

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest

from sandberth.control.leadership import Leadership, NotLeading
from sandberth.kube.client import Client
from tests.scripted_server import scripted_server

WATCHED = """
import sys, threading, time
from sandberth.control.leadership import Leadership, clock
from sandberth.control.watchdog import watch
leadership = Leadership(elected=True)
leadership.extend(clock() + 0.4)
watch(leadership)
if sys.argv[1] == "ends":
    leadership.end()
print("begun", flush=True)
time.sleep(1.5)
"""


def test_without_an_election_it_always_holds() -> None:
    leadership = Leadership(elected=False, now_s=lambda: 1e12)

    leadership.check()

    assert leadership.holds


def test_with_one_it_holds_until_the_moment_that_was_given_and_not_longer() -> None:
    now_s = 10.0
    leadership = Leadership(elected=True, now_s=lambda: now_s)
    with pytest.raises(NotLeading):
        leadership.check()

    leadership.extend(20.0)
    now_s = 19.9
    leadership.check()
    now_s = 20.0

    with pytest.raises(NotLeading):
        leadership.check()


def test_once_ended_nothing_brings_it_back() -> None:
    leadership = Leadership(elected=True, now_s=lambda: 0.0)
    leadership.extend(20.0)

    leadership.end()
    leadership.extend(40.0)

    assert not leadership.holds


async def test_a_write_without_permission_is_never_sent_and_reads_go_on() -> None:
    leadership = Leadership(elected=True)
    async with scripted_server() as server, Client(server.access, before_write=leadership.check) as client:
        for method in ("POST", "PUT", "PATCH", "DELETE"):
            with pytest.raises(NotLeading):
                await client.request(method, "/api/v1/pods", body={})
        server.answer({"kind": "PodList"})

        assert await client.get("/api/v1/pods") == {"kind": "PodList"}
        with pytest.raises(NotLeading):
            await client.post("/api/v1/pods", {})  # now over a connection that was kept

        assert [request.method for request in server.seen] == ["GET"]


async def test_a_write_that_waited_for_its_connection_is_judged_when_it_would_go_out() -> None:
    now_s = 0.0
    leadership = Leadership(elected=True, now_s=lambda: now_s)
    leadership.extend(10.0)
    async with (
        scripted_server() as server,
        Client(server.access, connections=1, before_write=leadership.check) as client,
    ):
        held = asyncio.create_task(client.watch_lines("/api/v1/pods").__anext__())
        await server.until_seen(1)
        write = asyncio.create_task(client.post("/api/v1/pods", {}))
        await asyncio.sleep(0)

        now_s = 11.0
        held.cancel()

        with pytest.raises(NotLeading):
            await write
        assert [request.method for request in server.seen] == ["GET"]


@pytest.mark.parametrize(("how", "code"), [("expires", 1), ("ends", 0)])
def test_a_process_that_hangs_is_ended_when_its_leadership_runs_out_but_not_when_it_was_given_up(
    how: str, code: int
) -> None:
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2] / "operator")}

    done = subprocess.run(
        [sys.executable, "-c", WATCHED, how], capture_output=True, text=True, check=False, timeout=30, env=environment
    )

    assert done.stdout == "begun\n"
    assert done.returncode == code
    assert ("was not renewed in time" in done.stderr) == (code == 1)
