"""The store: what is stale is dropped, what vanished is told, and a name never has two holders."""

from dataclasses import dataclass

import pytest

from sandberth.kube.store import Key, Store, mapping_key


@dataclass(frozen=True)
class Thing:
    """An object with the attributes that the store reads."""

    uid: str
    resource_version: int
    name: str = ""
    namespace: str = "team"


def a_thing(uid: str = "u1", version: int = 1, name: str | None = None) -> Thing:
    return Thing(uid, version, name or f"name-of-{uid}")


class Journal(list[str]):
    """What a listener was told, one short text a call."""

    def __call__(self, old: Thing | None, new: Thing | None) -> None:
        self.append(" ".join(f"{thing.uid}@{thing.resource_version}" if thing else "-" for thing in (old, new)))


@pytest.fixture
def store() -> Store[Thing]:
    return Store()


@pytest.fixture
def journal(store: Store[Thing]) -> Journal:
    journal = Journal()
    store.subscribe(journal)
    return journal


def test_listeners_hear_of_the_first_sight_the_change_and_the_end(store: Store[Thing], journal: Journal) -> None:
    store.observe(a_thing(version=1))
    store.observe(a_thing(version=2))
    store.observe(a_thing(version=3), deleted=True)

    assert journal == ["- u1@1", "u1@1 u1@2", "u1@2 -"]
    assert len(store) == 0


def test_what_is_not_newer_is_dropped(store: Store[Thing], journal: Journal) -> None:
    store.observe(a_thing(version=5))
    store.observe(a_thing(version=5))
    store.observe(a_thing(version=4))
    store.observe(a_thing(version=4), deleted=True)

    assert journal == ["- u1@5"]
    assert store.get("u1") == a_thing(version=5)


def test_a_replayed_state_does_not_revive_a_deleted_object(store: Store[Thing], journal: Journal) -> None:
    store.observe(a_thing(version=1))
    store.observe(a_thing(version=3), deleted=True)
    store.observe(a_thing(version=1))
    store.observe(a_thing(version=2))
    store.replace([a_thing(version=2)], 2)

    assert journal == ["- u1@1", "u1@1 -"]
    assert "u1" not in store


def test_a_deletion_is_remembered_also_for_what_was_never_seen(store: Store[Thing], journal: Journal) -> None:
    store.observe(a_thing(version=3), deleted=True)
    store.observe(a_thing(version=2))

    assert journal == []


def test_an_object_that_left_a_selection_may_come_back(store: Store[Thing], journal: Journal) -> None:
    store.observe(a_thing(version=1))
    store.observe(a_thing(version=2), deleted=True)
    store.observe(a_thing(version=3))

    assert journal == ["- u1@1", "u1@1 -", "- u1@3"]


def test_a_new_holder_of_a_name_ends_the_old_one_first(store: Store[Thing], journal: Journal) -> None:
    store.observe(a_thing("u1", 1, "one"))
    store.observe(a_thing("u2", 5, "one"))
    store.observe(a_thing("u1", 4, "one"), deleted=True)  # the event that came late

    assert journal == ["- u1@1", "u1@1 -", "- u2@5"]
    assert store.by_name("team", "one") == a_thing("u2", 5, "one")


def test_an_earlier_holder_of_a_name_is_gone_when_it_comes_late(store: Store[Thing], journal: Journal) -> None:
    store.observe(a_thing("u2", 5, "one"))
    store.observe(a_thing("u1", 1, "one"))
    store.observe(a_thing("u2", 6, "one"), deleted=True)
    store.observe(a_thing("u1", 1, "one"))

    assert journal == ["- u2@5", "u2@5 -"]
    assert store.by_name("team", "one") is None


def test_names_are_held_per_namespace(store: Store[Thing]) -> None:
    store.observe(Thing("u1", 1, "one", "a"))
    store.observe(Thing("u2", 2, "one", "b"))

    assert store.by_name("a", "one") == Thing("u1", 1, "one", "a")
    assert len(list(store)) == 2


def test_a_list_tells_what_vanished_before_what_is_new(store: Store[Thing], journal: Journal) -> None:
    store.replace([a_thing("u1", 1), a_thing("u2", 2)], 10)
    journal.clear()

    store.replace([a_thing("u2", 12), a_thing("u3", 11)], 20)

    assert journal == ["u1@1 -", "u2@2 u2@12", "- u3@11"]


def test_an_older_list_does_not_delete_what_is_newer(store: Store[Thing], journal: Journal) -> None:
    store.observe(a_thing(version=15))

    store.replace([], 10)

    assert journal == ["- u1@15"]
    assert store.resource_version == 15


def test_a_list_at_the_very_version_of_an_object_knows_of_it(store: Store[Thing], journal: Journal) -> None:
    store.observe(a_thing(version=10))

    store.replace([], 10)

    assert journal == ["- u1@10", "u1@10 -"]


def test_the_version_passed_is_the_newest_of_events_bookmarks_and_lists(store: Store[Thing]) -> None:
    passed = [store.resource_version]
    store.observe(a_thing(version=3))
    passed.append(store.resource_version)
    store.bookmark(9)
    store.bookmark(7)
    passed.append(store.resource_version)
    store.replace([], 12)
    passed.append(store.resource_version)

    assert passed == [0, 3, 9, 12]


def test_the_answer_to_an_own_write_says_nothing_about_the_stream(store: Store[Thing]) -> None:
    store.observe(a_thing(version=30), in_stream=False)

    assert store.get("u1") is not None
    assert store.resource_version == 0


def test_a_listener_that_fails_stops_neither_the_store_nor_the_others(store: Store[Thing]) -> None:
    def fail(old: Thing | None, new: Thing | None) -> None:
        raise RuntimeError

    later = Journal()
    store.subscribe(fail)
    store.subscribe(later)

    store.replace([a_thing("u1", 1), a_thing("u2", 2)], 2)

    assert later == ["- u1@1", "- u2@2"]
    assert store.listener_errors == 2


def test_a_listener_can_leave(store: Store[Thing]) -> None:
    journal = Journal()
    leave = store.subscribe(journal)

    leave()
    store.observe(a_thing())

    assert journal == []


def test_the_memory_of_deleted_objects_is_bounded() -> None:
    store: Store[Thing] = Store(tombstones=2)
    for index in range(3):
        store.observe(a_thing(f"u{index}", 10 + index), deleted=True)

    for index in range(3):
        store.observe(a_thing(f"u{index}", 1))

    assert [thing.uid for thing in store] == ["u0"]


def test_kubernetes_objects_are_keyed_by_their_metadata() -> None:
    item = {"metadata": {"uid": "u1", "name": "node-1", "resourceVersion": "12"}}

    assert mapping_key(item) == Key("u1", "", "node-1", 12)
