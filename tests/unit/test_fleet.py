"""The fleet: every node is in one pool or barred, and a draw is a uniformly random permutation."""

from collections import Counter
from itertools import permutations
from random import Random

import pytest

from sandberth.core.constraints import Rejection
from sandberth.core.fleet import Fleet, Node
from sandberth.core.ledger import Ledger
from sandberth.core.node import NodeFacts
from sandberth.core.sampling import Pool
from tests.builders import NOW_S, a_fleet, a_node, a_pod, a_report, a_size, an_allocatable, hold, settings_of

NODE = "uid-of-node-a"


def where(fleet: Fleet, uid: str = NODE) -> str:
    node = fleet.nodes[uid]
    if node.barred is not None:
        return node.barred.value
    return "fresh" if node.pool is fleet.fresh else "second choice"


def a_pool(count: int) -> Pool:
    fleet = a_fleet(*(a_node(f"n{number}") for number in range(count)))
    return fleet.fresh


def names(pool: Pool, seed: int = 0) -> list[str]:
    return [node.facts.name for node in pool.draw(Random(seed))]


# --- pools ---


@pytest.mark.parametrize("count", [0, 1, 2, 17])
def test_a_draw_yields_every_node_once(count: int) -> None:
    pool = a_pool(count) if count else Pool()

    assert sorted(names(pool)) == sorted(f"n{number}" for number in range(count))


def test_a_draw_that_is_broken_off_loses_nothing() -> None:
    pool = a_pool(9)
    for seed in range(50):
        drawn = pool.draw(Random(seed))
        next(drawn)
        next(drawn)

    assert sorted(names(pool)) == sorted(f"n{number}" for number in range(9))


def test_every_order_of_a_draw_is_equally_likely() -> None:
    """A chi-square test at 23 degrees of freedom; 49.7 is its 0.1 % bound."""
    pool, rng = a_pool(4), Random(20260715)
    rounds = 24_000

    seen = Counter(tuple(node.facts.name for node in pool.draw(rng)) for _ in range(rounds))

    expected = rounds / 24
    assert set(seen) == set(permutations(["n0", "n1", "n2", "n3"]))
    assert sum((count - expected) ** 2 / expected for count in seen.values()) < 49.7


def test_every_node_is_equally_likely_among_the_first_three() -> None:
    """A chi-square test at 19 degrees of freedom; 43.8 is its 0.1 % bound (drawing without replacement lowers it)."""
    pool, rng = a_pool(20), Random(7)
    rounds = 10_000

    seen: Counter[str] = Counter()
    for _ in range(rounds):
        drawn = pool.draw(rng)
        seen.update(next(drawn).facts.name for _ in range(3))

    expected = rounds * 3 / 20
    assert sum((seen[f"n{number}"] - expected) ** 2 / expected for number in range(20)) < 43.8


@pytest.mark.parametrize("gone", [0, 4, 8])
def test_a_removed_node_is_drawn_no_more_and_the_others_keep_their_places(gone: int) -> None:
    pool = a_pool(9)
    nodes = {node.facts.name: node for node in pool.draw(Random(1))}

    pool.remove(nodes[f"n{gone}"])
    assert len(pool) == 8
    pool.remove(nodes["n1"])

    assert sorted(names(pool)) == sorted(set(nodes) - {f"n{gone}", "n1"})
    assert nodes["n1"].pool is None


# --- where a node stands ---


def test_a_node_is_second_choice_until_it_reports() -> None:
    fleet = a_fleet(reported=False)
    assert where(fleet) == "second choice"

    fleet.accept_report(a_report(), NOW_S)

    assert where(fleet) == "fresh"
    assert (len(fleet.fresh), len(fleet.second_choice)) == (1, 0)


@pytest.mark.parametrize(
    ("facts", "barred"),
    [
        (a_node(ready=False), Rejection.NODE_NOT_READY),
        (a_node(cordoned=True), Rejection.CORDONED),
        (a_node(allocatable=an_allocatable(0)), Rejection.NO_ALLOCATABLE_CPU),
        (a_node(allocatable=an_allocatable(-1)), Rejection.NO_ALLOCATABLE_CPU),
        (a_node(ready=False, cordoned=True), Rejection.NODE_NOT_READY),
    ],
)
def test_what_cannot_be_chosen_is_in_no_pool_and_comes_back(facts: NodeFacts, barred: Rejection) -> None:
    fleet = a_fleet()

    assert fleet.observe_node(facts)
    assert where(fleet) == barred
    assert fleet.barred[barred] == 1
    assert len(fleet.fresh) + len(fleet.second_choice) == 0

    assert fleet.observe_node(a_node())
    assert where(fleet) == "fresh"
    assert not +fleet.barred


def test_a_report_does_not_bring_a_barred_node_into_a_pool() -> None:
    fleet = a_fleet(a_node(cordoned=True), reported=False)

    fleet.accept_report(a_report(), NOW_S)

    assert where(fleet) == "Cordoned"
    assert fleet.barred[Rejection.CORDONED] == 1


def test_settings_disable_a_node_and_enable_it_again() -> None:
    fleet = a_fleet()

    assert fleet.set_settings(NODE, settings_of(unschedulable=True))
    assert not fleet.set_settings(NODE, settings_of(unschedulable=True))
    assert where(fleet) == "Disabled"

    assert fleet.set_settings(NODE, settings_of())
    assert where(fleet) == "fresh"


def test_settings_of_an_unknown_node_say_nothing() -> None:
    assert not a_fleet().set_settings("nobody", settings_of(unschedulable=True))


def test_an_old_report_makes_a_node_second_choice_until_the_next() -> None:
    fleet = a_fleet()
    node = fleet.nodes[NODE]
    assert not node.account.figures.expired(NOW_S + 200)
    assert node.account.figures.expired(NOW_S + 201)

    fleet.demote(node)
    assert where(fleet) == "second choice"

    fleet.accept_report(a_report(sequence=2), NOW_S + 300)
    assert where(fleet) == "fresh"


def test_a_report_that_is_not_newer_leaves_a_node_where_it_is() -> None:
    fleet = a_fleet()
    fleet.demote(fleet.nodes[NODE])

    assert not fleet.accept_report(a_report(sequence=1), NOW_S)
    assert not fleet.accept_report(a_report("nobody"), NOW_S)

    assert where(fleet) == "second choice"


def test_a_forgotten_node_is_nowhere_and_its_pods_wait_for_its_return() -> None:
    fleet = a_fleet()
    fleet.ledger.pod_observed(a_pod())

    fleet.forget_node(NODE)
    fleet.forget_node(NODE)

    assert fleet.by_name("node-a") is None
    assert not fleet.nodes
    assert len(fleet.fresh) + len(fleet.second_choice) == 0
    fleet.observe_node(a_node(uid="new-uid"))
    assert fleet.nodes["new-uid"].account.held == a_size()


def test_case_14_a_node_of_the_same_name_replaces_the_old_one_at_once() -> None:
    fleet = a_fleet()

    fleet.observe_node(a_node(uid="new-uid"))
    fleet.forget_node(NODE)

    node = fleet.by_name("node-a")
    assert node is not None
    assert node.facts.uid == "new-uid"
    assert set(fleet.nodes) == {"new-uid"}
    assert where(fleet, "new-uid") == "second choice"


def test_a_node_seen_unchanged_is_no_change() -> None:
    fleet = Fleet(Ledger())

    assert fleet.observe_node(a_node())
    assert not fleet.observe_node(a_node())
    assert fleet.nodes[NODE].changes == 0


def test_changes_grow_with_the_node_its_settings_and_the_pods_that_leave() -> None:
    fleet = a_fleet()
    node: Node = fleet.nodes[NODE]
    hold(fleet, node, pod_uid="p", nominal=a_size())
    assert node.changes == 0

    fleet.observe_node(a_node(labels={"zone": "b"}))
    fleet.set_settings(NODE, settings_of(max_sandboxes=3))
    fleet.ledger.pod_ended("p", None, "node-a")
    fleet.accept_report(a_report(sequence=2), NOW_S)

    assert node.changes == 3


def test_the_administrators_overcommitment_replaces_the_flag() -> None:
    fleet = a_fleet()
    node = fleet.nodes[NODE]
    assert node.overcommit_percent(400) == 400

    fleet.set_settings(NODE, settings_of(overcommit_percent=150))

    assert node.overcommit_percent(400) == 150
