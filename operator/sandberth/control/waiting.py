"""Sandboxes without an eligible node, in the order in which they came, grouped by what they ask for.

When something changes that could help, only the first of each group is tried again, and each success brings on the
next: a thousand Sandboxes that wait for the same room cost one decision per change, not a thousand.
"""

import asyncio
from collections.abc import Callable, Hashable

_WAKE_DELAY_SECONDS = 0.05


class Waiting:
    """The waiting Sandboxes by UID; `enqueue` has one of them tried again."""

    def __init__(self, enqueue: Callable[[str], None]) -> None:
        self._enqueue = enqueue
        self._groups: dict[Hashable, dict[str, None]] = {}
        self._group_of: dict[str, Hashable] = {}
        self._wake_is_due = False

    def __len__(self) -> int:
        return len(self._group_of)

    def __contains__(self, uid: object) -> bool:
        return uid in self._group_of

    def add(self, uid: str, group: Hashable) -> None:
        """Have a Sandbox wait behind the others that ask for the same; one that waits already keeps its turn."""
        if self._group_of.get(uid) == group:
            return
        self.remove(uid)
        self._groups.setdefault(group, {})[uid] = None
        self._group_of[uid] = group

    def remove(self, uid: str) -> Hashable | None:
        """Forget a Sandbox that waits no more; return its group where it did wait.

        The next one is tried if this was the first: it may have taken a wake-up with it.
        """
        group = self._group_of.pop(uid, None)
        if group is None:
            return None
        members = self._groups[group]
        was_first = next(iter(members)) == uid
        del members[uid]
        if not members:
            del self._groups[group]
        elif was_first:
            self._try_first(group)
        return group

    def placed(self, uid: str) -> None:
        """A Sandbox found its node: the next that asks for the same may find one too."""
        group = self.remove(uid)
        if group is not None:
            self._try_first(group)

    def wake_soon(self) -> None:
        """Something changed that could help: wake, once for all the changes of a moment."""
        if not self._wake_is_due:
            self._wake_is_due = True
            asyncio.get_running_loop().call_later(_WAKE_DELAY_SECONDS, self.wake)

    def wake(self) -> None:
        """Try the first of each group."""
        self._wake_is_due = False
        for group in list(self._groups):
            self._try_first(group)

    def _try_first(self, group: Hashable) -> None:
        members = self._groups.get(group)
        if members:
            self._enqueue(next(iter(members)))
