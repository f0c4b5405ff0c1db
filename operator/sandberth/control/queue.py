"""A coalescing work queue: a key that is added many times is worked on once, and never twice at the same time."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)

LOG = logging.getLogger(__name__)
_FIRST_BACKOFF_SECONDS = 0.2
_LAST_BACKOFF_SECONDS = 30.0


class WorkQueue(Generic[K]):
    """Keys to work on, now or at a later moment of the event loop's clock.

    A key added while it is worked on is worked on once more afterwards, so no change is lost. Work that raises is
    logged and tried again with a growing pause: a fault in one object never stops the others.
    """

    def __init__(self, work: Callable[[K], Awaitable[None]]) -> None:
        self._work = work
        self._ready: asyncio.Queue[K | None] = asyncio.Queue()  # wakes one worker a key, not all of them; None closes
        self._queued: set[K] = set()
        self._running: set[K] = set()
        self._again: set[K] = set()
        self._timers: dict[K, asyncio.TimerHandle] = {}
        self._failures: dict[K, int] = {}
        self._is_closed = False
        self.failures = 0

    def __len__(self) -> int:
        return self._ready.qsize()

    @property
    def is_idle(self) -> bool:
        """Whether nothing is queued or running; keys that wait for a later moment do not count."""
        return self._ready.empty() and not self._running

    def add(self, key: K) -> None:
        """Have the key worked on as soon as a worker is free."""
        self._cancel_timer(key)
        if key in self._running:
            self._again.add(key)
        elif key not in self._queued:
            self._queued.add(key)
            self._ready.put_nowait(key)

    def add_after(self, key: K, seconds: float) -> None:
        """Have the key worked on in `seconds`, or earlier where an earlier moment was asked for."""
        if seconds <= 0:
            self.add(key)
            return
        loop = asyncio.get_running_loop()
        moment = loop.time() + seconds
        timer = self._timers.get(key)
        if timer is not None:
            if timer.when() <= moment:
                return
            timer.cancel()
        self._timers[key] = loop.call_at(moment, self._ring, key)

    async def run(self, workers: int) -> None:
        """Work until cancelled."""
        async with asyncio.TaskGroup() as group:
            for _ in range(workers):
                group.create_task(self._worker())

    def close(self) -> None:
        """Take up nothing more: `run` returns once what is under way is done."""
        self._is_closed = True
        self._ready.put_nowait(None)

    def _ring(self, key: K) -> None:
        self._timers.pop(key, None)
        self.add(key)

    def _cancel_timer(self, key: K) -> None:
        timer = self._timers.pop(key, None)
        if timer is not None:
            timer.cancel()

    async def _worker(self) -> None:
        while True:
            key = await self._ready.get()
            if key is None or self._is_closed:
                self._ready.put_nowait(None)  # for the next worker
                return
            self._queued.discard(key)
            self._running.add(key)
            try:
                await self._work(key)
                self._failures.pop(key, None)
            except Exception:
                LOG.exception("Work on %s failed; it is tried again.", key)
                self._retry(key)
            finally:
                self._running.discard(key)
                if key in self._again:
                    self._again.discard(key)
                    self.add(key)

    def _retry(self, key: K) -> None:
        count = self._failures[key] = self._failures.get(key, 0) + 1
        self.failures += 1
        pause = min(_LAST_BACKOFF_SECONDS, _FIRST_BACKOFF_SECONDS * 2 ** min(count - 1, 10))
        asyncio.get_running_loop().call_later(pause, self.add, key)
