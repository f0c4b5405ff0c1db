"""The work queue: coalescing, one worker a key, timers, and faults that stay with their key."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

import pytest

from sandberth.control import queue as queues
from sandberth.control.queue import WorkQueue


class Gate:
    """Work that waits to be let go, so that a test decides what happens meanwhile."""

    def __init__(self) -> None:
        self.started: asyncio.Queue[str] = asyncio.Queue()
        self.open = asyncio.Semaphore(0)
        self.done: list[str] = []
        self.running: Counter[str] = Counter()
        self.most_at_once = 0

    async def __call__(self, key: str) -> None:
        self.running[key] += 1
        self.most_at_once = max(self.most_at_once, *self.running.values())
        self.started.put_nowait(key)
        await self.open.acquire()
        self.running[key] -= 1
        self.done.append(key)


@asynccontextmanager
async def running(work: Callable[[str], Awaitable[None]], workers: int = 4) -> AsyncIterator[WorkQueue[str]]:
    queue: WorkQueue[str] = WorkQueue(work)
    task = asyncio.create_task(queue.run(workers))
    try:
        yield queue
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def test_a_key_added_many_times_is_worked_on_once() -> None:
    gate = Gate()
    queue: WorkQueue[str] = WorkQueue(gate)

    for _ in range(10):
        queue.add("a")

    assert len(queue) == 1


async def test_a_key_added_while_it_is_worked_on_is_worked_on_once_more_and_never_twice_at_once() -> None:
    gate = Gate()
    async with running(gate) as queue:
        queue.add("a")
        await gate.started.get()

        for _ in range(5):
            queue.add("a")
        gate.open.release()
        await gate.started.get()
        gate.open.release()
        queue.add("b")
        while await gate.started.get() != "b":
            pass

        assert gate.done == ["a", "a"]
        assert gate.most_at_once == 1


async def test_a_key_that_waits_for_long_does_not_hold_up_the_others() -> None:
    gate = Gate()
    async with running(gate, workers=2) as queue:
        queue.add("slow")
        await gate.started.get()

        queue.add("other")

        assert await asyncio.wait_for(gate.started.get(), 5) == "other"


async def test_of_two_timers_the_earlier_counts() -> None:
    gate = Gate()
    async with running(gate) as queue:
        queue.add_after("a", 3600)
        queue.add_after("a", 0.01)
        queue.add_after("a", 7200)

        assert await asyncio.wait_for(gate.started.get(), 5) == "a"


async def test_work_at_once_takes_the_timers_place() -> None:
    gate = Gate()
    async with running(gate) as queue:
        queue.add_after("a", 3600)
        queue.add("a")
        await gate.started.get()

        assert not queue._timers


async def test_no_time_left_means_at_once() -> None:
    gate = Gate()
    async with running(gate) as queue:
        queue.add_after("a", 0)
        queue.add_after("b", -5)

        assert {await gate.started.get(), await gate.started.get()} == {"a", "b"}


async def test_work_that_raises_is_tried_again_and_stops_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queues, "_FIRST_BACKOFF_SECONDS", 0.001)
    seen: Counter[str] = Counter()
    finished: asyncio.Queue[str] = asyncio.Queue()

    async def work(key: str) -> None:
        seen[key] += 1
        if key == "bad" and seen[key] < 4:
            raise ValueError(key)
        finished.put_nowait(key)

    async with running(work, workers=1) as queue:
        queue.add("bad")
        queue.add("good")

        assert await asyncio.wait_for(finished.get(), 5) == "good"
        assert await asyncio.wait_for(finished.get(), 5) == "bad"
        await asyncio.sleep(0)
        assert queue.failures == 3
        assert not queue._failures, "a success forgets the failures"


async def test_the_queue_is_idle_only_when_nothing_is_queued_or_worked_on() -> None:
    gate = Gate()
    async with running(gate) as queue:
        assert queue.is_idle
        queue.add("a")
        assert not queue.is_idle
        await gate.started.get()
        assert len(queue) == 0
        assert not queue.is_idle


async def test_a_closed_queue_finishes_what_is_under_way_and_takes_up_nothing_more() -> None:
    gate = Gate()
    queue: WorkQueue[str] = WorkQueue(gate)
    task = asyncio.create_task(queue.run(3))
    queue.add("under way")
    await gate.started.get()

    queue.close()
    queue.add("later")
    gate.open.release()
    await asyncio.wait_for(task, 5)

    assert gate.done == ["under way"]
