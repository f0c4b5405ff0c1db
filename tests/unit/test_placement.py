"""Best-of-K: who is compared, who wins, and what is said about the others."""

from collections import Counter
from dataclasses import replace
from random import Random

import pytest

from sandberth.core.constraints import Constraints, Rejection, Requirement, Term, Toleration
from sandberth.core.fit import Ask
from sandberth.core.fleet import Fleet
from sandberth.core.node import NodeFacts, Taint
from sandberth.core.placement import Decision, Parameters, choose, place, score
from sandberth.core.resources import Requests
from sandberth.core.sampling import Sampler
from sandberth.core.views import View
from tests.builders import (
    GIB,
    NOW_S,
    a_fleet,
    a_node,
    a_pod,
    a_report,
    a_size,
    an_allocatable,
    an_ask,
    hold,
    settings_of,
)

ALL = Parameters(sample_size=None, view=View.RECONCILED)
METRICS = Parameters(view=View.METRICS)


def nodes(count: int) -> list[NodeFacts]:
    return [a_node(f"n{number}") for number in range(count)]


def decide(
    fleet: Fleet,
    ask: Ask | None = None,
    parameters: Parameters = ALL,
    *,
    excluded: frozenset[str] = frozenset(),
    seed: int = 0,
    now_s: float = NOW_S,
) -> Decision:
    return choose(fleet, ask or an_ask(), excluded=excluded, parameters=parameters, rng=Random(seed), now_s=now_s)


def chosen_name(decision: Decision) -> str | None:
    return None if decision.chosen is None else decision.chosen.node.facts.name


# --- the score ---


def test_the_score_is_the_load_with_weighted_usage_over_the_overcommitted_cpu() -> None:
    assert score(1_000, 2_000, 1_000, 4_000, alpha_percent=50, overcommit_percent=400) == 3_500 / 16_000
    assert score(1_000, 0, 9_999, 4_000, alpha_percent=0, overcommit_percent=100) == 0.25


@pytest.mark.parametrize(
    ("view", "expected"),
    [(View.METRICS, "n0"), (View.IN_PROGRESS, "n1"), (View.OPTIMISTIC, "n1"), (View.RECONCILED, "n1")],
)
def test_a_reservation_weighs_in_every_view_but_metrics(view: View, expected: str) -> None:
    fleet = a_fleet(*nodes(2))
    fleet.accept_report(a_report("uid-of-n1", 2, allocated=a_size(100)), NOW_S)
    fleet.ledger.reserve("pending.1", "uid-of-n0", a_size(500), Requests(500))

    assert chosen_name(decide(fleet, parameters=Parameters(sample_size=None, view=view))) == expected


def test_case_24_a_flip_of_the_view_changes_the_next_choice_and_nothing_in_the_ledger() -> None:
    fleet = a_fleet(*nodes(2))
    fleet.accept_report(a_report("uid-of-n1", 2, allocated=a_size(100)), NOW_S)
    fleet.ledger.pod_observed(a_pod(node_name="n0"))
    before = [repr(node.account) for node in fleet.nodes.values()]

    chosen = [chosen_name(decide(fleet, parameters=replace(ALL, view=view))) for view in (*View, *View)]

    assert chosen == ["n0", "n0", "n0", "n1"] * 2
    assert [repr(node.account) for node in fleet.nodes.values()] == before


def test_usage_decides_between_equal_sums_by_its_weight() -> None:
    fleet = a_fleet(*nodes(2))
    fleet.accept_report(a_report("uid-of-n0", 2, used=a_size(900)), NOW_S)
    fleet.accept_report(a_report("uid-of-n1", 2, used=a_size(100), allocated=a_size(200)), NOW_S)

    assert chosen_name(decide(fleet, parameters=Parameters(None, alpha_percent=50))) == "n1"
    assert chosen_name(decide(fleet, parameters=Parameters(None, alpha_percent=0))) == "n0"


def test_unequal_nodes_are_compared_by_their_shares() -> None:
    fleet = a_fleet(a_node("small", allocatable=an_allocatable(4_000)), a_node("big"))
    hold(fleet, "small", pod_uid="p1", nominal=a_size(1_000))
    hold(fleet, "big", pod_uid="p2", nominal=a_size(1_800))

    assert chosen_name(decide(fleet)) == "big"


def test_each_node_is_scored_by_its_own_overcommitment() -> None:
    fleet = a_fleet(*nodes(2))
    hold(fleet, "n0", pod_uid="p", nominal=a_size(100))
    fleet.set_settings("uid-of-n1", settings_of(overcommit_percent=100))

    assert chosen_name(decide(fleet)) == "n0"


# --- the sample ---


def test_comparing_all_finds_the_least_loaded_node() -> None:
    fleet = a_fleet(*nodes(40))
    for number in range(40):
        hold(fleet, f"n{number}", pod_uid=f"p{number}", nominal=a_size(100 + (number * 7 + 11) % 40))

    for seed in range(10):
        decision = decide(fleet, seed=seed)
        assert decision.chosen is not None
        assert decision.chosen.score == min(candidate.score for candidate in decision.candidates)
        assert decision.chosen.accounted_cpu == 100
        assert (decision.compared, len(decision.candidates)) == (40, 10)


@pytest.mark.parametrize(("sample_size", "compared"), [(1, 1), (3, 3), (5, 5), (99, 5)])
def test_k_different_nodes_are_compared_best_first(sample_size: int, compared: int) -> None:
    fleet = a_fleet(*nodes(5))
    for number in range(5):
        hold(fleet, f"n{number}", pod_uid=f"p{number}", nominal=a_size(100 * number))

    decision = decide(fleet, parameters=replace(ALL, sample_size=sample_size))

    assert len({candidate.node.facts.uid for candidate in decision.candidates}) == compared
    assert list(decision.candidates) == sorted(decision.candidates, key=lambda candidate: candidate.score)
    assert decision.chosen is decision.candidates[0]


def test_ineligible_nodes_do_not_use_up_the_sample() -> None:
    full = [a_node(f"full{number}", allocatable=an_allocatable(pods=0)) for number in range(200)]
    fleet = a_fleet(*full, *nodes(3))

    for seed in range(20):
        decision = decide(fleet, parameters=Parameters(3), seed=seed)
        assert {candidate.node.facts.name for candidate in decision.candidates} == {"n0", "n1", "n2"}


def test_case_29_equal_scores_are_decided_by_chance() -> None:
    """A chi-square test at 4 degrees of freedom; 18.5 is its 0.1 % bound."""
    fleet, rng, rounds = a_fleet(*nodes(5)), Random(11), 5_000

    for parameters in (Parameters(3), Parameters(None)):
        wins = Counter(
            chosen_name(choose(fleet, an_ask(), parameters=parameters, rng=rng, now_s=NOW_S)) for _ in range(rounds)
        )
        assert sum((wins[f"n{number}"] - 1_000) ** 2 / 1_000 for number in range(5)) < 18.5


def test_one_seed_gives_one_sequence_of_choices() -> None:
    def sequence() -> list[str | None]:
        fleet, rng = a_fleet(*nodes(10)), Random(5)
        return [
            chosen_name(place(fleet, f"s.{number}", an_ask(), parameters=ALL, rng=rng, now_s=NOW_S))
            for number in range(30)
        ]

    assert sequence() == sequence()


def test_placing_with_all_nodes_compared_deals_evenly() -> None:
    fleet, rng = a_fleet(*nodes(10)), Random(0)

    for number in range(100):
        place(fleet, f"s{number}.1", an_ask(100, GIB // 8), parameters=ALL, rng=rng, now_s=NOW_S)

    assert {account.sandboxes for account in fleet.ledger.accounts()} == {10}


# --- choose and reserve ---


def test_place_reserves_what_the_node_will_count() -> None:
    fleet = a_fleet()
    fleet.set_settings("uid-of-node-a", settings_of(overcommit_percent=200))

    decision = place(fleet, "s.1", an_ask(1_000, divides_cpu=True), parameters=Parameters(), rng=Random(0), now_s=NOW_S)

    account = fleet.nodes["uid-of-node-a"].account
    assert decision.chosen is not None
    assert (account.held, account.requested_cpu) == (a_size(1_000), 500)
    assert (account.in_progress, account.starting) == (1, 1)


def test_choosing_alone_reserves_nothing() -> None:
    fleet = a_fleet()

    decide(fleet)

    assert fleet.nodes["uid-of-node-a"].account.sandboxes == 0


def test_no_room_is_an_answer_and_reserves_nothing() -> None:
    fleet = a_fleet(*nodes(2))

    decision = place(fleet, "s.1", an_ask(10**9), parameters=Parameters(), rng=Random(0), now_s=NOW_S)

    assert decision.chosen is None
    assert decision.rejected == {Rejection.OVERCOMMIT: 2}
    assert fleet.ledger.attempt("s.1") is None


# --- who is out ---


def test_when_none_is_chosen_every_node_is_counted_once_by_reason() -> None:
    fleet = a_fleet(
        a_node("not-ready", ready=False),
        a_node("cordoned", cordoned=True),
        a_node("no-cpu", allocatable=an_allocatable(0)),
        a_node("tainted", taints=(Taint("k", "", "NoExecute"),)),
        a_node("wrong-label"),
        a_node("excluded", labels={"pick": "me"}),
        a_node("small", labels={"pick": "me"}, allocatable=an_allocatable(memory_bytes=1)),
        a_node("disabled"),
        a_node("never-reported", labels={"pick": "me"}, allocatable=an_allocatable(pods=0)),
    )
    fleet.set_settings("uid-of-disabled", settings_of(unschedulable=True))
    fleet.demote(fleet.nodes["uid-of-small"])
    ask = an_ask(constraints=Constraints(node_selector=(("pick", "me"),)))

    decision = decide(fleet, ask, excluded=frozenset({"uid-of-excluded"}))

    assert decision.chosen is None
    assert decision.rejected == {
        Rejection.NODE_NOT_READY: 1,
        Rejection.CORDONED: 1,
        Rejection.NO_ALLOCATABLE_CPU: 1,
        Rejection.DISABLED: 1,
        Rejection.TAINTED: 1,
        Rejection.NODE_SELECTOR: 1,
        Rejection.EXCLUDED: 1,
        Rejection.MEMORY: 1,
        Rejection.PODS: 1,
    }


def test_expired_reports_do_not_count_a_node_twice() -> None:
    fleet = a_fleet(*nodes(4))

    decision = decide(fleet, an_ask(10**9), now_s=NOW_S + 10_000)

    assert decision.rejected == {Rejection.OVERCOMMIT: 4}


def test_tolerations_and_affinity_open_a_node() -> None:
    fleet = a_fleet(a_node("n0"), a_node("gpu", taints=(Taint("gpu", "", "NoSchedule"),), labels={"gpu": "1"}))
    wanted = Term((Requirement("gpu", "Exists"),))
    tolerant = Constraints(affinity=(wanted,), tolerations=(Toleration("gpu", "Exists"),))

    assert chosen_name(decide(fleet, an_ask(constraints=tolerant))) == "gpu"
    assert chosen_name(decide(fleet, an_ask(constraints=Constraints(affinity=(wanted,))))) is None


def test_an_excluded_node_is_never_chosen() -> None:
    fleet = a_fleet(*nodes(3))

    for seed in range(20):
        decision = decide(fleet, excluded=frozenset({"uid-of-n0", "uid-of-n2"}), seed=seed)
        assert chosen_name(decision) == "n1"


def test_the_starting_cap_counts_starting_sandboxes_of_ours_alone() -> None:
    fleet = a_fleet()
    capped = replace(ALL, starting_cap=2)
    fleet.ledger.pod_observed(a_pod(None, pod_uid="foreign", starting=True))
    fleet.ledger.pod_observed(a_pod("running.1", pod_uid="p1", starting=False))
    fleet.ledger.pod_observed(a_pod("pending.1", pod_uid="p2", starting=True))
    assert chosen_name(decide(fleet, parameters=capped)) == "node-a"

    fleet.ledger.reserve("s.1", "uid-of-node-a", a_size(), Requests(1))
    assert decide(fleet, parameters=capped).rejected == {Rejection.STARTING: 1}
    assert chosen_name(decide(fleet, parameters=ALL)) == "node-a"

    fleet.ledger.pod_observed(a_pod("pending.1", pod_uid="p2", starting=False))
    assert chosen_name(decide(fleet, parameters=capped)) == "node-a"


@pytest.mark.parametrize(("cap", "own", "fits"), [(1, 2, True), (5, 1, False), (None, 1, True), (2, None, True)])
def test_a_nodes_own_starting_cap_replaces_the_number_where_the_cap_is_on(
    cap: int | None, own: int | None, fits: bool
) -> None:
    fleet = a_fleet()
    fleet.set_settings("uid-of-node-a", settings_of(max_starting=own))
    fleet.ledger.reserve("s.1", "uid-of-node-a", a_size(), Requests(1))

    assert (decide(fleet, parameters=replace(ALL, starting_cap=cap)).chosen is not None) is fits


@pytest.mark.parametrize(("limit", "fits"), [(0, False), (1, False), (2, True), (None, True)])
def test_a_node_takes_no_more_sandboxes_than_its_administrator_allows(limit: int | None, fits: bool) -> None:
    fleet = a_fleet()
    fleet.set_settings("uid-of-node-a", settings_of(max_sandboxes=limit))
    fleet.ledger.pod_observed(a_pod())
    fleet.ledger.pod_observed(a_pod(None, pod_uid="foreign"))

    decision = decide(fleet)

    assert (decision.chosen is not None) is fits
    assert fits or decision.rejected == {Rejection.MAX_SANDBOXES: 1}


# --- second choice ---


def test_a_node_without_a_report_is_chosen_only_when_no_fresh_one_is_eligible() -> None:
    fleet = a_fleet(a_node("n0"))
    fleet.observe_node(a_node("silent"))
    hold(fleet, "n0", pod_uid="p", nominal=a_size(7_000))

    for seed in range(10):
        decision = decide(fleet, seed=seed)
        assert (chosen_name(decision), decision.second_choice) == ("n0", False)

    decision = decide(fleet, excluded=frozenset({"uid-of-n0"}))
    assert (chosen_name(decision), decision.second_choice) == ("silent", True)


def test_a_stale_node_is_second_choice_and_fresh_again_with_its_next_report() -> None:
    fleet = a_fleet(*nodes(2))
    later = NOW_S + 1_000
    fleet.accept_report(a_report("uid-of-n0", 2, allocated=a_size(30_000)), later)

    for seed in range(10):
        assert chosen_name(decide(fleet, parameters=METRICS, now_s=later, seed=seed)) == "n0"
    assert len(fleet.second_choice) == 1

    fleet.accept_report(a_report("uid-of-n1", 2), later)
    assert chosen_name(decide(fleet, parameters=Parameters(None), now_s=later)) == "n1"


def test_second_choice_counts_the_reconciled_sum_in_the_metrics_view() -> None:
    fleet = a_fleet(*nodes(2), reported=False)
    hold(fleet, "n0", pod_uid="p", nominal=a_size(500))

    decision = decide(fleet, parameters=Parameters(None))

    assert [candidate.accounted_cpu for candidate in decision.candidates] == [0, 500]
    assert decision.second_choice
    assert decision.candidates[0].report_age_seconds is None


def test_the_sample_is_filled_from_fresh_nodes_alone() -> None:
    fleet = a_fleet(a_node("n0"))
    fleet.observe_node(a_node("silent"))

    assert len(decide(fleet).candidates) == 1


# --- the preferred node ---


def test_the_preferred_node_is_taken_although_others_are_emptier() -> None:
    fleet = a_fleet(*nodes(5))
    hold(fleet, "n3", pod_uid="p", nominal=a_size(5_000))

    decision = decide(fleet, an_ask(preferred_node="n3"))

    assert (chosen_name(decision), decision.preferred, decision.preferred_rejection) == ("n3", True, None)
    assert len(decision.candidates) == 1


@pytest.mark.parametrize(
    ("facts", "why"),
    [
        (a_node("wanted", cordoned=True), Rejection.CORDONED),
        (a_node("wanted", allocatable=an_allocatable(0)), Rejection.NO_ALLOCATABLE_CPU),
        (a_node("wanted", allocatable=an_allocatable(memory_bytes=1)), Rejection.MEMORY),
        (a_node("wanted", taints=(Taint("k", "", "NoSchedule"),)), Rejection.TAINTED),
    ],
)
def test_a_preferred_node_that_is_not_eligible_says_why_and_another_is_taken(facts: NodeFacts, why: Rejection) -> None:
    fleet = a_fleet(facts, a_node("n0"))

    decision = decide(fleet, an_ask(preferred_node="wanted"))

    assert (chosen_name(decision), decision.preferred, decision.preferred_rejection) == ("n0", False, why)


def test_a_preferred_node_that_does_not_exist_has_no_reason() -> None:
    decision = decide(a_fleet(), an_ask(preferred_node="nobody"))

    assert (chosen_name(decision), decision.preferred, decision.preferred_rejection) == ("node-a", False, None)


def test_a_preferred_node_that_is_excluded_is_not_taken() -> None:
    decision = decide(a_fleet(*nodes(2)), an_ask(preferred_node="n0"), excluded=frozenset({"uid-of-n0"}))

    assert (chosen_name(decision), decision.preferred_rejection) == ("n1", Rejection.EXCLUDED)


def test_a_preferred_node_is_named_also_when_nothing_is_eligible() -> None:
    decision = decide(a_fleet(), an_ask(10**9, preferred_node="node-a"))

    assert decision.chosen is None
    assert (decision.preferred, decision.preferred_rejection) == (False, Rejection.OVERCOMMIT)


def test_without_a_preferred_node_nothing_is_said_of_one() -> None:
    assert decide(a_fleet()).preferred is None


def test_from_a_deck_a_node_that_looks_empty_is_chosen_once_a_deck_and_no_more() -> None:
    """Its report stands still: by chance alone it would be chosen whenever it is among the three."""
    fleet = a_fleet(*nodes(30))
    for number in range(1, 30):
        fleet.accept_report(a_report(f"uid-of-n{number}", 2, allocated=a_size(5_000)), NOW_S)
    rng, chosen = Random(0), Counter[str]()

    for _ in range(300):  # two new cards each: 20 decks
        parameters = Parameters(3, view=View.METRICS, sampler=Sampler.DECK)
        decision = choose(fleet, an_ask(), parameters=parameters, rng=rng, now_s=NOW_S)
        chosen.update([chosen_name(decision) or "none"])

    assert chosen["n0"] == pytest.approx(20, abs=1)


def test_from_a_deck_the_runner_up_is_compared_again() -> None:
    fleet, rng = a_fleet(*nodes(30)), Random(0)
    parameters = Parameters(3, sampler=Sampler.DECK)
    runner_up = None

    for _ in range(50):
        decision = choose(fleet, an_ask(), parameters=parameters, rng=rng, now_s=NOW_S)
        if runner_up is not None:
            assert runner_up in [candidate.node for candidate in decision.candidates]
        runner_up = decision.candidates[1].node
