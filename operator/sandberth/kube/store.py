"""What one stream of objects has shown so far: the newest state of every UID, and who wants to hear of changes.

Every source enters through `observe` (events, and answers to own writes) or `replace` (lists), in any order and any
number of times; a state that is not newer than what was seen is dropped. There is no I/O and no `await` here.
"""

import logging
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Generic, NamedTuple, TypeVar

T = TypeVar("T")
Listener = Callable[[T | None, T | None], None]

LOG = logging.getLogger(__name__)
_TOMBSTONES = 16_384


class Key(NamedTuple):
    """What identifies one state of one object."""

    uid: str
    namespace: str
    name: str
    resource_version: int


def attribute_key(item: Any) -> Key:
    """Return the key of an object with attributes uid, namespace, name and resource_version."""
    return Key(item.uid, item.namespace, item.name, item.resource_version)


def mapping_key(item: Any) -> Key:
    """Return the key of a Kubernetes object as decoded from JSON; namespace is "" where it has none."""
    metadata = item["metadata"]
    return Key(metadata["uid"], metadata.get("namespace") or "", metadata["name"], int(metadata["resourceVersion"]))


class Store(Generic[T]):
    """The newest known state of each object, keyed by UID.

    Listeners get (old, new) synchronously and in order: (None, new) for the first sight of a UID, (old, None) when
    it is gone. A listener that raises is logged and counted; the state and the other listeners go on.
    """

    def __init__(self, key: Callable[[T], Key] = attribute_key, *, tombstones: int = _TOMBSTONES) -> None:
        self._key = key
        self._items: dict[str, T] = {}
        self._versions: dict[str, int] = {}  # uid of a present object -> newest resourceVersion seen
        self._uids: dict[tuple[str, str], str] = {}  # (namespace, name) -> uid
        self._tombstones: dict[str, int] = {}  # uid seen gone -> resourceVersion up to which it is stale
        self._tombstone_limit = tombstones
        self._listeners: list[Listener[T]] = []
        self._passed = 0
        self.listener_errors = 0

    def __len__(self) -> int:
        return len(self._items)

    def __iter__(self) -> Iterator[T]:
        return iter(list(self._items.values()))

    def __contains__(self, uid: object) -> bool:
        return uid in self._items

    @property
    def resource_version(self) -> int:
        """The version that the stream has passed: every change up to it has been observed. 0 before the first."""
        return self._passed

    def get(self, uid: str) -> T | None:
        """Return the object of that UID, None if it is not (or no longer) known."""
        return self._items.get(uid)

    def by_name(self, namespace: str, name: str) -> T | None:
        """Return the object that holds the name now; namespace is "" for cluster-scoped ones."""
        uid = self._uids.get((namespace, name))
        return None if uid is None else self._items[uid]

    def key_of(self, item: T) -> Key:
        """Return what identifies this state of an object."""
        return self._key(item)

    def has_seen(self, key: Key) -> bool:
        """Return whether this state, or a later one of the same object (its end included), was taken in."""
        return key.resource_version <= self._seen_version(key.uid)

    def subscribe(self, listener: Listener[T]) -> Callable[[], None]:
        """Call `listener(old, new)` at each change from now on; call the result to stop."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def bookmark(self, resource_version: int) -> None:
        """Note that the stream has passed a version without further changes."""
        self._passed = max(self._passed, resource_version)

    def observe(self, item: T, *, deleted: bool = False, in_stream: bool = True) -> None:
        """Take in one state, whatever its source; stale and repeated ones have no effect.

        Pass `in_stream=False` for what did not come in the order of the stream (the answer to an own write): it says
        nothing about what the stream has passed.
        """
        key = self._key(item)
        if deleted:
            self._take_deletion(key)
        else:
            self._take_state(key, item)
        if in_stream:
            self.bookmark(key.resource_version)

    def replace(self, items: Iterable[T], resource_version: int) -> None:
        """Take in a complete list read at `resource_version`.

        What the list lacks is gone, unless its known state is newer than the list.
        """
        states = [(self._key(item), item) for item in items]
        listed = {key.uid for key, _ in states}
        vanished = [uid for uid, version in self._versions.items() if uid not in listed and version <= resource_version]
        for uid in vanished:
            self._remove(uid, resource_version)
        for key, item in states:
            self._take_state(key, item)
        self.bookmark(resource_version)

    def _take_state(self, key: Key, item: T) -> None:
        if key.resource_version <= self._seen_version(key.uid):
            return
        holder = self._uids.get((key.namespace, key.name))
        if holder is not None and holder != key.uid:
            if key.resource_version < self._versions[holder]:
                # The name has a younger holder, so this object was gone before it came.
                self._bury(key.uid, key.resource_version)
                return
            self._remove(holder, key.resource_version)
        old = self._items.get(key.uid)
        self._tombstones.pop(key.uid, None)  # with a label selector an object may leave and come back
        self._items[key.uid] = item
        self._versions[key.uid] = key.resource_version
        self._uids[key.namespace, key.name] = key.uid
        self._tell(old, item)

    def _take_deletion(self, key: Key) -> None:
        known = self._versions.get(key.uid)
        if known is None:
            self._bury(key.uid, key.resource_version)
        elif key.resource_version >= known:  # equal: sources exist that report a deletion with the last state
            self._remove(key.uid, key.resource_version)

    def _remove(self, uid: str, resource_version: int) -> None:
        old = self._items.pop(uid)
        del self._versions[uid]
        key = self._key(old)
        del self._uids[key.namespace, key.name]
        self._bury(uid, resource_version)
        self._tell(old, None)

    def _bury(self, uid: str, resource_version: int) -> None:
        self._tombstones[uid] = max(resource_version, self._tombstones.pop(uid, 0))
        if len(self._tombstones) > self._tombstone_limit:
            del self._tombstones[next(iter(self._tombstones))]

    def _seen_version(self, uid: str) -> int:
        known = self._versions.get(uid)
        return self._tombstones.get(uid, 0) if known is None else known

    def _tell(self, old: T | None, new: T | None) -> None:
        for listener in tuple(self._listeners):
            try:
                listener(old, new)
            except Exception:
                self.listener_errors += 1
                LOG.exception("A listener failed on a change; the store goes on.")
