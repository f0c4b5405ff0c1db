"""Sandboxes over the quota of their namespace, in the order of their tries.

A change that could help has the first one tried; one that gets in, or leaves, brings on the next.
"""

from collections.abc import Callable


class QuotaLines:
    """One line for each namespace; `try_now` has a Sandbox tried at once."""

    def __init__(self, try_now: Callable[[str], None]) -> None:
        self._try_now = try_now
        self._lines: dict[str, dict[str, None]] = {}  # namespace -> UIDs in the order of their tries

    def __len__(self) -> int:
        return sum(map(len, self._lines.values()))

    def refused(self, namespace: str, uid: str) -> None:
        """Put a Sandbox behind the others: it may be too large where they are not."""
        line = self._lines.setdefault(namespace, {})
        line.pop(uid, None)
        line[uid] = None

    def room(self, namespace: str) -> None:
        """A Pod of this namespace ended or was let in: the Sandbox that is next may be within the quota now."""
        line = self._lines.get(namespace)
        if line:
            self._try_now(next(iter(line)))

    def left(self, namespace: str, uid: str) -> None:
        """Forget a Sandbox that got in or is refused for another cause, and have the next one tried."""
        line = self._lines.get(namespace)
        if line is None or uid not in line:
            return
        del line[uid]
        if line:
            self.room(namespace)
        else:
            del self._lines[namespace]

    def gone(self, uid: str) -> None:
        """Forget a Sandbox that does not exist any more, whatever its namespace was."""
        for namespace in [name for name, line in self._lines.items() if uid in line]:
            self.left(namespace, uid)
