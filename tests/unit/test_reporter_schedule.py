"""When ticks come: at once, on time, skipped rather than queued, and out of turn when asked."""

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any

from sandberth.reporter.schedule import Schedule, slot_of
from sandberth.reporter.settings import Phase

DEADLINE_SECONDS = 10.0
LONG_SECONDS = 1000.0  # an interval that no test outlives: what comes then comes for another reason


class Ticks:
    """What a schedule called, with the loop's time of each call."""

    def __init__(self, on_tick: Callable[[int], Coroutine[Any, Any, None]] | None = None) -> None:
        self.slots: list[frozenset[int] | None] = []
        self.times: list[float] = []
        self._on_tick = on_tick
        self._called = asyncio.Event()

    async def __call__(self, slots: frozenset[int] | None) -> None:
        self.slots.append(slots)
        self.times.append(asyncio.get_running_loop().time())
        self._called.set()
        if self._on_tick is not None:
            await self._on_tick(len(self.slots))

    async def until(self, count: int) -> None:
        async with asyncio.timeout(DEADLINE_SECONDS):
            while len(self.slots) < count:
                self._called.clear()
                await self._called.wait()


async def while_running(schedule: Schedule, ticks: Ticks, act: Coroutine[Any, Any, None]) -> None:
    task = asyncio.create_task(schedule.run(ticks))
    try:
        await act
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def test_the_first_tick_comes_at_once_and_is_for_all() -> None:
    ticks = Ticks()

    await while_running(Schedule(LONG_SECONDS), ticks, ticks.until(1))

    assert ticks.slots == [None]


async def test_sync_ticks_are_an_interval_apart_and_for_all() -> None:
    ticks = Ticks()

    await while_running(Schedule(0.05), ticks, ticks.until(4))

    assert ticks.slots[1:4] == [frozenset({0})] * 3
    assert ticks.times[3] - ticks.times[0] >= 3 * 0.05 - 0.01


async def test_a_trigger_ticks_for_all_now() -> None:
    schedule, ticks = Schedule(LONG_SECONDS), Ticks()

    async def act() -> None:
        await ticks.until(1)
        schedule.trigger()
        await ticks.until(2)

    await while_running(schedule, ticks, act())

    assert ticks.slots == [None, None]


async def test_a_trigger_during_a_tick_is_not_lost() -> None:
    async def trigger_in_the_first(number: int) -> None:
        if number == 1:
            schedule.trigger()

    schedule, ticks = Schedule(LONG_SECONDS), Ticks(trigger_in_the_first)

    await while_running(schedule, ticks, ticks.until(2))

    assert ticks.slots == [None, None]


async def test_newcomers_get_a_tick_of_their_own() -> None:
    schedule, ticks = Schedule(LONG_SECONDS), Ticks()

    async def act() -> None:
        await ticks.until(1)
        schedule.wake()
        await ticks.until(2)

    await while_running(schedule, ticks, act())

    assert ticks.slots == [None, frozenset()]


async def test_a_slow_tick_skips_the_ticks_that_it_covers() -> None:
    async def be_slow_once(number: int) -> None:
        if number == 2:
            await asyncio.sleep(0.35)  # covers three more ticks of 0.1 s

    ticks = Ticks(be_slow_once)

    await while_running(Schedule(0.1), ticks, ticks.until(4))

    starts = [round((time - ticks.times[0]) / 0.1, 1) for time in ticks.times]
    assert starts[2] >= 4.9  # not at 2, 3 and 4, and not right after the slow one
    assert int(starts[3] + 0.1) > int(starts[2] + 0.1)


async def test_staggered_slots_all_come_once_an_interval() -> None:
    schedule, ticks = Schedule(1.0, Phase.STAGGERED), Ticks()

    await while_running(schedule, ticks, ticks.until(4))

    assert schedule.slots == 10
    handled = [slot for slots in ticks.slots[1:] if slots is not None for slot in sorted(slots)]
    assert handled == list(range(1, len(handled) + 1))


async def test_a_slow_staggered_tick_leaves_no_slot_out() -> None:
    async def be_slow_once(number: int) -> None:
        if number == 2:
            await asyncio.sleep(0.35)

    schedule, ticks = Schedule(1.0, Phase.STAGGERED), Ticks(be_slow_once)

    await while_running(schedule, ticks, ticks.until(3))

    assert ticks.slots[1] is not None
    assert ticks.slots[2] is not None
    assert len(ticks.slots[2]) >= 3
    assert not ticks.slots[1] & ticks.slots[2]


def test_slots_are_the_same_in_every_process_and_spread_the_nodes() -> None:
    slots = [slot_of(f"node-{number}", 100) for number in range(1000)]

    assert slot_of("node-1", 100) == 79
    assert len(set(slots)) > 90


def test_sync_has_one_slot_and_short_intervals_are_not_cut_too_fine() -> None:
    assert Schedule(20).slots == 1
    assert Schedule(20, Phase.STAGGERED).slots == 100
    assert Schedule(0.1, Phase.STAGGERED).slots == 1
