"""The deck: every node comes up equally often, in proportion to its size, however nodes come and go."""

from collections import Counter
from itertools import islice, permutations
from random import Random

import pytest

from sandberth.core.fleet import Fleet
from sandberth.core.sampling import MAX_CARDS_PER_NODE, Pool, Sampler
from tests.builders import a_fleet, a_node, an_allocatable


def a_fleet_of(*cpu_millicores: int) -> Fleet:
    return a_fleet(*(a_node(f"n{i}", allocatable=an_allocatable(cpu)) for i, cpu in enumerate(cpu_millicores)))


def hand(pool: Pool, size: int, rng: Random) -> list[str]:
    return [node.facts.name for node in islice(pool.deal(rng), size)]


def hands(pool: Pool, count: int, size: int, rng: Random) -> Counter[str]:
    return Counter(name for _ in range(count) for name in hand(pool, size, rng))


@pytest.mark.parametrize("count", [1, 2, 17])
def test_a_whole_deal_yields_every_node_once(count: int) -> None:
    pool, rng = a_fleet_of(*range(1_000, 1_000 * (count + 1), 1_000)).fresh, Random(0)

    for _ in range(20):
        assert sorted(hand(pool, 99, rng)) == sorted(f"n{number}" for number in range(count))


def test_an_empty_pool_deals_nothing() -> None:
    assert hand(Pool(), 3, Random(0)) == []


@pytest.mark.parametrize(("count", "size"), [(10, 3), (10, 1), (12, 3), (7, 5), (100, 3), (5, 4)])
def test_equal_nodes_come_up_equally_often(count: int, size: int) -> None:
    """After whole decks the counts are level; in between they differ by one, or two where a hand spans two decks."""
    pool, rng, seen = a_fleet_of(*[8_000] * count).fresh, Random(1), Counter[str]()

    for _ in range(20):
        for _ in range(count):
            seen.update(hand(pool, size, rng))
            assert max(seen.values()) - min(seen[f"n{number}"] for number in range(count)) <= 2
        assert set(seen.values()) == {sum(seen.values()) // count}


def test_every_order_of_a_deck_is_equally_likely() -> None:
    """A chi-square test at 23 degrees of freedom; 49.7 is its 0.1 % bound."""
    pool, rng, rounds = a_fleet_of(*[8_000] * 4).fresh, Random(20260715), 24_000

    seen = Counter(tuple(hand(pool, 4, rng)) for _ in range(rounds))

    assert set(seen) == set(permutations(["n0", "n1", "n2", "n3"]))
    assert sum((count - rounds / 24) ** 2 / (rounds / 24) for count in seen.values()) < 49.7


def test_larger_nodes_come_up_in_proportion_to_their_cpu() -> None:
    pool, rng = a_fleet_of(*[48_000, 96_000, 192_000] * 10).fresh, Random(2)

    seen = hands(pool, 7_000, 3, rng)  # 70 cards a deck: 300 decks

    for number in range(30):
        assert seen[f"n{number}"] == pytest.approx(300 * (1, 2, 4)[number % 3], rel=0.02)


def test_a_share_of_a_card_counts_over_many_decks() -> None:
    pool, rng = a_fleet_of(*[48_000, 64_000] * 5).fresh, Random(3)

    seen = hands(pool, 10_000, 1, rng)

    small, large = (sum(seen[f"n{number}"] for number in range(start, 10, 2)) for start in (0, 1))
    assert large / small == pytest.approx(64 / 48, rel=0.03)


def test_a_dwarf_among_giants_makes_no_large_deck_and_keeps_the_others_in_proportion() -> None:
    pool, rng = a_fleet_of(1, *[48_000, 96_000, 192_000] * 10).fresh, Random(4)

    seen = hands(pool, 20_000, 1, rng)

    cards = 1 + 10 * (4 + 8 + 16)
    assert seen["n0"] == pytest.approx(20_000 / cards, rel=0.1)
    assert seen["n3"] == pytest.approx(20_000 * MAX_CARDS_PER_NODE / cards, rel=0.1)
    assert seen["n1"] == pytest.approx(20_000 * 4 / cards, rel=0.1)


def test_a_second_card_of_a_node_waits_for_the_next_hand() -> None:
    pool, rng = a_fleet_of(1_000, 1_000, 4_000).fresh, Random(5)

    for _ in range(500):
        assert len(set(hand(pool, 2, rng))) == 2
    assert hands(pool, 6_000, 1, rng)["n2"] == pytest.approx(4_000, abs=5)


def test_a_node_that_left_is_dealt_no_more_and_one_that_came_is_dealt_from_the_next_deck() -> None:
    fleet, rng = a_fleet_of(*[8_000] * 10), Random(6)
    hand(fleet.fresh, 2, rng)

    fleet.observe_node(a_node("n3", cordoned=True))
    fleet.demote(fleet.nodes["uid-of-n4"])
    fleet.forget_node("uid-of-n5")
    fleet.observe_node(a_node("n6", uid="another"))  # without a report: second choice
    came = a_fleet(a_node("came")).nodes["uid-of-came"]
    came.pool = None
    fleet.fresh.add(came)

    seen = hands(fleet.fresh, 70, 1, rng)
    assert set(seen) == {"n0", "n1", "n2", "n7", "n8", "n9", "came"}
    assert max(seen.values()) - min(seen.values()) <= 2


def test_a_node_that_returns_before_its_card_came_up_has_not_got_two() -> None:
    fleet, rng = a_fleet_of(*[8_000] * 10), Random(7)
    first = hand(fleet.fresh, 1, rng)
    for name in (f"n{number}" for number in range(10)):
        fleet.observe_node(a_node(name, cordoned=True))
        fleet.observe_node(a_node(name))

    rest = [hand(fleet.fresh, 1, rng)[0] for _ in range(9)]

    assert sorted(first + rest) == sorted(f"n{number}" for number in range(10))


def test_any_one_node_is_found_in_a_deal_and_no_node_is_looked_at_twice() -> None:
    """Where the node that is wanted has no card left, the next deck has it."""
    pool, rng = a_fleet_of(*[8_000, 24_000] * 25).fresh, Random(8)
    for _ in range(200):
        looked_at = []
        for node in pool.deal(rng):
            looked_at.append(node.facts.name)
            if looked_at[-1] == "n7":
                break

        assert looked_at[-1] == "n7"
        assert len(set(looked_at)) == len(looked_at)


def test_one_seed_deals_one_sequence() -> None:
    def sequence(seed: int) -> list[list[str]]:
        pool, rng = a_fleet_of(1_000, 2_000, 3_500, 500, 1_000).fresh, Random(seed)
        return [hand(pool, 2, rng) for _ in range(50)]

    assert sequence(9) == sequence(9)
    assert sequence(9) != sequence(10)


def test_a_pool_is_sampled_as_the_sampler_says() -> None:
    pool, rng = a_fleet_of(*[8_000] * 30).fresh, Random(11)

    dealt = Counter(next(pool.sample(Sampler.DECK, rng)).facts.name for _ in range(30))
    drawn = Counter(next(pool.sample(Sampler.UNIFORM, rng)).facts.name for _ in range(30))

    assert set(dealt.values()) == {1}
    assert max(drawn.values()) > 1


# --- the remembered node ---


def test_the_next_deal_begins_with_the_remembered_node_and_one_alone_does() -> None:
    fleet, rng = a_fleet_of(*[8_000] * 10), Random(9)

    fleet.fresh.remember(fleet.nodes["uid-of-n7"], 3)

    first = hand(fleet.fresh, 10, rng)
    assert first[0] == "n7"
    assert sorted(first) == sorted(f"n{number}" for number in range(10))
    assert {hand(fleet.fresh, 1, rng)[0] for _ in range(10)} == set(first)


@pytest.mark.parametrize("size", [1, 2])
def test_where_few_are_compared_all_are_new(size: int) -> None:
    fleet = a_fleet_of(*[8_000] * 10)

    fleet.fresh.remember(fleet.nodes["uid-of-n7"], size)

    assert hand(fleet.fresh, size, Random(0)) == hand(a_fleet_of(*[8_000] * 10).fresh, size, Random(0))


def test_a_remembered_node_that_left_is_not_dealt() -> None:
    fleet, rng = a_fleet_of(*[8_000] * 4), Random(10)
    fleet.fresh.remember(fleet.nodes["uid-of-n1"], 3)

    fleet.observe_node(a_node("n1", cordoned=True))

    assert sorted(hand(fleet.fresh, 4, rng)) == ["n0", "n2", "n3"]


def test_a_remembered_node_costs_no_card() -> None:
    """Each of twelve nodes is compared anew once a deck: six decisions of two new cards, and the runner-up beside."""
    fleet, rng = a_fleet_of(*[8_000] * 12), Random(11)
    new: Counter[str] = Counter()

    for _ in range(60):
        remembered = fleet.fresh._remembered
        dealt = list(islice(fleet.fresh.deal(rng), 3))
        new.update(node.facts.name for node in dealt if node is not remembered)
        fleet.fresh.remember(dealt[1], 3)

    assert max(new.values()) - min(new.values()) <= 2
    assert sum(new.values()) == 3 + 59 * 2
