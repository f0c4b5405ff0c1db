"""The permission to write: asked for before every write, and gone by the clock, whatever else the process does."""

import asyncio
import time
from collections.abc import Callable
from math import inf

from sandberth.core.errors import SandberthError


class NotLeading(SandberthError):  # noqa: N818 - a state, not a fault
    """This process may not write (any more); the request was not sent."""


def clock() -> float:
    """Return seconds that pass also while the machine is suspended, which the monotonic clock would miss."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class Leadership:
    """Whether this process may write now. Without an election it always may; with one, not before `extend`."""

    def __init__(self, *, elected: bool, now_s: Callable[[], float] = clock) -> None:
        self.is_elected = elected
        self._now_s = now_s
        self._valid_until_s = -inf if elected else inf
        self._is_over = False
        self._begun = asyncio.Event()
        if not elected:
            self._begun.set()

    @property
    def holds(self) -> bool:
        """Whether a write may be sent at this moment."""
        return self.seconds_left > 0

    @property
    def seconds_left(self) -> float:
        """How long this process may write on if nothing is renewed; 0 or less when it may not."""
        return -inf if self._is_over else self._valid_until_s - self._now_s()

    @property
    def is_over(self) -> bool:
        """Whether it was given up in good order."""
        return self._is_over

    async def begun(self) -> None:
        """Return once this process leads for the first time."""
        await self._begun.wait()

    def extend(self, valid_until_s: float) -> None:
        """The Lease was written: this process may write until then."""
        self._valid_until_s = valid_until_s
        self._begun.set()

    def end(self) -> None:
        """Let nothing be written from here on, for ever."""
        self._is_over = True

    def check(self) -> None:
        """Raise NotLeading unless this process may write."""
        if not self.holds:
            raise NotLeading("this operator does not lead; nothing was sent")
