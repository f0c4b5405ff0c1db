import random
import socket

import pytest

from sandberth.cluster.ports import LOOPBACK, HeldPorts, accepts_connections, candidate_ports


def test_a_held_port_can_be_bound_only_after_its_release() -> None:
    held = HeldPorts(["a", "b"], avoid=(), rng=random.Random())
    other = socket.socket()

    with pytest.raises(OSError, match="in use"):
        other.bind((LOOPBACK, held.numbers["a"]))
    held.release("a")
    other.bind((LOOPBACK, held.numbers["a"]))

    other.close()
    held.release()


def test_two_who_choose_alike_still_get_different_ports() -> None:
    first = HeldPorts(["a", "b"], avoid=(), rng=random.Random(1))
    second = HeldPorts(["a", "b"], avoid=(), rng=random.Random(1))

    assert set(first.numbers.values()).isdisjoint(second.numbers.values())

    first.release()
    second.release()


def test_the_ports_of_stopped_programs_are_avoided() -> None:
    first = HeldPorts(["a"], avoid=(), rng=random.Random(2))
    first.release()

    second = HeldPorts(["a"], avoid=first.numbers.values(), rng=random.Random(2))

    assert second.numbers != first.numbers
    second.release()


@pytest.mark.parametrize(
    ("ephemeral", "chosen"),
    [
        ((32_768, 60_999), range(20_000, 32_768)),
        ((15_000, 60_999), range(61_000, 65_536)),
        ((1_024, 65_535), range(20_000, 65_536)),
    ],
)
def test_ports_lie_outside_the_ephemeral_range_where_it_leaves_room(ephemeral: tuple[int, int], chosen: range) -> None:
    assert candidate_ports(ephemeral) == chosen


def test_a_held_port_accepts_no_connection() -> None:
    held = HeldPorts(["a"], avoid=(), rng=random.Random())

    assert not accepts_connections(held.numbers["a"])

    held.release()
