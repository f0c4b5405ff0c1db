"""Who waits for room, and whose turn it is when something changes."""

import asyncio

import pytest

from sandberth.control.waiting import Waiting


@pytest.fixture
def tried() -> list[str]:
    return []


@pytest.fixture
def waiting(tried: list[str]) -> Waiting:
    return Waiting(tried.append)


def test_waking_tries_only_the_first_of_each_group(waiting: Waiting, tried: list[str]) -> None:
    for uid, group in (("a", "small"), ("b", "small"), ("c", "large")):
        waiting.add(uid, group)

    waiting.wake()

    assert tried == ["a", "c"]


def test_a_success_brings_on_the_next_that_asks_for_the_same(waiting: Waiting, tried: list[str]) -> None:
    for uid, group in (("a", "small"), ("b", "small"), ("c", "large")):
        waiting.add(uid, group)

    waiting.placed("a")

    assert set(tried) == {"b"}
    assert "a" not in waiting
    assert len(waiting) == 2


def test_a_success_out_of_turn_has_the_first_tried(waiting: Waiting, tried: list[str]) -> None:
    for uid in "abc":
        waiting.add(uid, "small")

    waiting.placed("b")

    assert tried == ["a"]


def test_a_sandbox_that_waits_already_keeps_its_turn(waiting: Waiting, tried: list[str]) -> None:
    waiting.add("a", "small")
    waiting.add("b", "small")

    waiting.add("a", "small")
    waiting.wake()

    assert tried == ["a"]


def test_a_sandbox_that_asks_for_something_else_now_waits_behind_the_others(waiting: Waiting, tried: list[str]) -> None:
    waiting.add("a", "large")
    waiting.add("b", "small")

    waiting.add("b", "large")
    waiting.wake()

    assert tried == ["a"]
    assert len(waiting) == 2


def test_the_first_takes_no_wake_up_with_it_when_it_leaves(waiting: Waiting, tried: list[str]) -> None:
    waiting.add("a", "small")
    waiting.add("b", "small")
    waiting.wake()

    waiting.remove("a")  # deleted before it was tried

    assert tried == ["a", "b"]


def test_one_that_leaves_out_of_turn_has_nobody_tried(waiting: Waiting, tried: list[str]) -> None:
    waiting.add("a", "small")
    waiting.add("b", "small")

    waiting.remove("b")
    waiting.remove("never seen")

    assert tried == []


def test_nothing_is_left_of_sandboxes_that_went(waiting: Waiting) -> None:
    for number in range(100):
        waiting.add(str(number), number % 7)
    for number in range(100):
        waiting.remove(str(number))

    assert len(waiting) == 0
    assert not waiting._groups


async def test_many_changes_of_a_moment_wake_once() -> None:
    tried: asyncio.Queue[str] = asyncio.Queue()
    waiting = Waiting(tried.put_nowait)
    waiting.add("a", "small")

    for _ in range(100):
        waiting.wake_soon()
    at_once = tried.qsize()
    first = await tried.get()
    waiting.wake_soon()
    second = await tried.get()

    assert (at_once, first, second, tried.qsize()) == (0, "a", "a", 0)
