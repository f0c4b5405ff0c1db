"""Sandboxes without an eligible node, in the order in which they came, grouped by what they ask for.

When something changes that could help, only the first of each group is tried again, and each success brings on the
next: a thousand Sandboxes that wait for the same room cost one decision per change, not a thousand.
"""

from collections.abc import Callable, Hashable


class Waiting:
    """The waiting Sandboxes by UID; `enqueue` has one of them tried again."""

    def __init__(self, enqueue: Callable[[str], None]) -> None:
        self._enqueue = enqueue
        self._groups: dict[Hashable, dict[str, None]] = {}
        self._group_of: dict[str, Hashable] = {}

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
        """Forget a Sandbox that waits no more; return its group where it did wait."""
        group = self._group_of.pop(uid, None)
        if group is None:
            return None
        members = self._groups[group]
        del members[uid]
        if not members:
            del self._groups[group]
        return group

    def is_first(self, uid: str) -> bool:
        """Return whether it is this Sandbox's turn: nobody who asks for the same waits before it."""
        group = self._group_of.get(uid)
        return group is None or next(iter(self._groups[group])) == uid

    def placed(self, uid: str) -> None:
        """A Sandbox found its node: the next that asks for the same may find one too."""
        group = self.remove(uid)
        if group is not None:
            self._try_first(group)

    def wake(self) -> None:
        """Something changed that could help: try the first of each group."""
        for group in list(self._groups):
            self._try_first(group)

    def _try_first(self, group: Hashable) -> None:
        members = self._groups.get(group)
        if members:
            self._enqueue(next(iter(members)))
