"""Virtual time: a heap of what is to happen, in microseconds; what is due at once happens in the order it was asked."""

import heapq
from collections.abc import Callable
from typing import Any

from sandberth.sim.distributions import MICROSECONDS

TICK_EVENTS = 20_000


class Clock:
    """The time of one run and its events."""

    def __init__(self) -> None:
        self.now_us = 0
        self._events: list[tuple[int, int, Callable[[Any], None], Any]] = []
        self._asked = 0

    @property
    def now_s(self) -> float:
        """Seconds since the start."""
        return self.now_us / MICROSECONDS

    def at(self, at_us: int, act: Callable[[Any], None], subject: Any = None) -> None:
        """Let `act(subject)` happen at `at_us`, or as soon as time allows."""
        self._asked += 1
        heapq.heappush(self._events, (at_us, self._asked, act, subject))

    def after(self, delay_us: int, act: Callable[[Any], None], subject: Any = None) -> None:
        """Let `act(subject)` happen `delay_us` from now."""
        self.at(self.now_us + delay_us, act, subject)

    def run(self, end_us: int, busy: Callable[[], bool], tick: Callable[[float], None] | None) -> None:
        """Let everything happen up to `end_us`, and longer while `busy()`."""
        events, count = self._events, 0
        while events:
            if events[0][0] > end_us and not busy():
                break
            self.now_us, _, act, subject = heapq.heappop(events)
            act(subject)
            count += 1
            if tick is not None and not count % TICK_EVENTS:
                tick(self.now_s)
        self.now_us = max(self.now_us, end_us)
