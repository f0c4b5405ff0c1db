"""When to report: one tick an interval for all nodes, or the nodes spread over the interval.

Time is a monotonic clock. A tick that takes longer than the interval costs the ticks that it covers; none is queued.
"""

import asyncio
import logging
import time
import zlib
from collections.abc import Awaitable, Callable

from sandberth.reporter.settings import Phase

LOG = logging.getLogger(__name__)
Tick = Callable[[frozenset[int] | None], Awaitable[None]]

_MOST_SLOTS = 100
_SHORTEST_SLOT_SECONDS = 0.1


def slot_of(node_name: str, slots: int) -> int:
    """Return a node's place in the interval; the same in every process."""
    return zlib.crc32(node_name.encode()) % slots


class Schedule:
    """Calls a tick with the slots that are due; None is all of them, an empty set is newcomers only."""

    def __init__(
        self,
        interval_seconds: float,
        phase: Phase = Phase.SYNC,
        clock: Callable[[], float] = time.monotonic,
        *,
        early_seconds: float = 0.0,
    ) -> None:
        most = min(_MOST_SLOTS, int(interval_seconds / _SHORTEST_SLOT_SECONDS))
        self.slots = max(1, most) if phase is Phase.STAGGERED else 1
        self._slot_seconds = interval_seconds / self.slots
        self._clock = clock
        self._early_seconds = early_seconds
        self._is_triggered = False
        self._has_newcomers = False
        self._stirred = asyncio.Event()
        self._is_slow = False

    def trigger(self) -> None:
        """Make all slots due now, or after the tick that is under way; the interval starts anew there."""
        self._is_triggered = True
        self._stirred.set()

    def wake(self) -> None:
        """Call the tick soon, for nodes that were never reported; the interval goes on as it was."""
        self._has_newcomers = True
        self._stirred.set()

    async def run(self, tick: Tick) -> None:
        """Tick for all at once, then on time, until cancelled.

        The second tick comes `early_seconds` before its time, and the later ones an interval apart from there: so
        processes that were started together do not stay together.
        """
        early_seconds = self._early_seconds
        while True:
            self._is_triggered = self._has_newcomers = False
            start = self._clock() - early_seconds
            early_seconds = 0.0
            await tick(None)
            await self._follow(start, tick)

    async def _follow(self, start: float, tick: Tick) -> None:
        """Tick at every slot after `start`, until triggered."""
        index = 0  # slots since the start that have had their tick
        while True:
            following = int((self._clock() - start) / self._slot_seconds) + 1
            self._tell_pace(following - index)
            await self._wait(start + following * self._slot_seconds)
            if self._is_triggered:
                return
            if self._has_newcomers:
                self._has_newcomers = False
                await tick(frozenset())
                continue
            await tick(frozenset(number % self.slots for number in range(index + 1, following + 1)))
            index = following

    async def _wait(self, deadline: float) -> None:
        """Return at the deadline, or when there is something to do before it."""
        self._stirred.clear()
        if self._is_triggered or self._has_newcomers:
            return
        try:
            async with asyncio.timeout(max(0.0, deadline - self._clock())):
                await self._stirred.wait()
        except TimeoutError:
            pass

    def _tell_pace(self, slots: int) -> None:
        is_slow = slots > self.slots
        if is_slow and not self._is_slow:
            LOG.warning("A tick takes longer than the interval; ticks are skipped.")
        elif self._is_slow and not is_slow:
            LOG.info("Ticks are on time again.")
        self._is_slow = is_slow
