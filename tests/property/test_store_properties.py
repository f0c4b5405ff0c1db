"""The store under reordered, repeated and stale inputs ends where the true history ends."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from sandberth.kube.store import Store

NAMES = ("a", "b", "c")


@dataclass(frozen=True)
class Thing:
    """An object with the attributes that the store reads."""

    uid: str
    name: str
    resource_version: int
    namespace: str = ""


Snapshot = dict[str, Thing]  # uid -> state


class History:
    """A server's true history: at each version one object is made, changed or deleted."""

    def __init__(self, choices: list[tuple[str, bool]]) -> None:
        self.events: list[tuple[Thing, bool]] = []  # (state, deleted)
        self.snapshots: list[Snapshot] = [{}]  # index = resourceVersion
        for version, (name, deletes) in enumerate(choices, start=1):
            present = dict(self.snapshots[-1])
            holder = next((thing for thing in present.values() if thing.name == name), None)
            thing = Thing(holder.uid if holder else f"{name}-{version}", name, version)
            deleted = deletes and holder is not None
            if deleted:
                del present[thing.uid]
            else:
                present[thing.uid] = thing
            self.events.append((thing, deleted))
            self.snapshots.append(present)


histories = st.lists(st.tuples(st.sampled_from(NAMES), st.booleans()), min_size=1, max_size=30).map(History)


class Replica:
    """The sum of what a listener was told; it fails where the telling makes no sense."""

    def __init__(self, store: Store[Thing]) -> None:
        self.things: Snapshot = {}
        self.ended: set[str] = set()
        store.subscribe(self.take)

    def take(self, old: Thing | None, new: Thing | None) -> None:
        known = old or new
        assert known is not None
        assert self.things.get(known.uid) == old
        if new is None:
            del self.things[known.uid]
            self.ended.add(known.uid)
            return
        assert new.uid not in self.ended, "a deleted object was revived"
        assert old is None or new.resource_version > old.resource_version
        self.things[new.uid] = new
        names = [thing.name for thing in self.things.values()]
        assert len(names) == len(set(names)), "a name has two holders"


def shuffled_inputs(store: Store[Thing], history: History, rng: Random) -> list[Callable[[], None]]:
    """Return every event, some twice, and some old lists, in any order."""
    events = [*history.events, *rng.choices(history.events, k=len(history.events))]
    versions = rng.sample(range(len(history.snapshots)), k=len(history.snapshots) // 3)
    inputs: list[Callable[[], None]] = [
        *(partial(store.observe, thing, deleted=deleted) for thing, deleted in events),
        *(partial(store.replace, list(history.snapshots[version].values()), version) for version in versions),
    ]
    rng.shuffle(inputs)
    return inputs


@given(history=histories, seed=st.integers())
def test_any_order_of_events_and_lists_ends_in_the_last_list(history: History, seed: int) -> None:
    store: Store[Thing] = Store()
    replica = Replica(store)
    last = len(history.snapshots) - 1

    for put_in in shuffled_inputs(store, history, Random(seed)):
        put_in()
    store.replace(history.snapshots[last].values(), last)

    assert store.listener_errors == 0
    assert replica.things == history.snapshots[last]
    assert {thing.uid: thing for thing in store} == history.snapshots[last]
    for name in NAMES:
        holder = store.by_name("", name)
        assert holder == next((thing for thing in replica.things.values() if thing.name == name), None)


@given(history=histories, seed=st.integers())
def test_any_order_of_all_events_ends_where_the_history_ends(history: History, seed: int) -> None:
    store: Store[Thing] = Store()
    replica = Replica(store)
    events = history.events * 2
    Random(seed).shuffle(events)

    for thing, deleted in events:
        store.observe(thing, deleted=deleted)

    assert store.listener_errors == 0
    assert replica.things == history.snapshots[-1]
    assert store.resource_version == len(history.events)


@given(history=histories, data=st.data())
def test_a_stream_that_skips_a_gap_and_lists_again_tells_every_end(history: History, data: st.DataObject) -> None:
    gap_from = data.draw(st.integers(0, len(history.events)))
    gap_to = data.draw(st.integers(gap_from, len(history.events)))
    store: Store[Thing] = Store()
    replica = Replica(store)

    for thing, deleted in history.events[:gap_from]:
        store.observe(thing, deleted=deleted)
    store.replace(history.snapshots[gap_to].values(), gap_to)
    at_the_list = dict(replica.things)
    for thing, deleted in history.events[gap_to:]:
        store.observe(thing, deleted=deleted)

    assert at_the_list == history.snapshots[gap_to]
    assert replica.things == history.snapshots[-1]
    assert store.listener_errors == 0
