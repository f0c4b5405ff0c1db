"""Any sequence of decisions and events leaves every node within its room and the pools in order."""

from collections import Counter
from itertools import islice
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from sandberth.core.fit import Ask, shortage
from sandberth.core.fleet import Fleet, Node
from sandberth.core.ledger import Ledger, PodHolding
from sandberth.core.node import Allocatable
from sandberth.core.placement import Parameters, choose, place, rejection, score
from sandberth.core.resources import Requests, Resources
from sandberth.core.sampling import MAX_CARDS_PER_NODE, Sampler
from sandberth.core.views import View
from tests.builders import NOW_S, a_fleet, a_node, a_report, an_allocatable, settings_of

UIDS = st.sampled_from([f"uid-{number}" for number in range(6)])
NAMES = st.sampled_from(["n0", "n1", "n2", "n3"])
VIEWS = st.sampled_from(list(View))
SMALL = st.integers(0, 20)
PARAMETERS = st.builds(
    Parameters,
    sample_size=st.one_of(st.none(), st.integers(1, 6)),
    overcommit_percent=st.sampled_from([50, 100, 400]),
    alpha_percent=st.sampled_from([0, 50]),
    view=VIEWS,
    starting_cap=st.one_of(st.none(), st.integers(1, 4)),
    sampler=st.sampled_from(Sampler),
    projected_usage=st.booleans(),
)
ASKS = st.builds(
    lambda cpu, memory, *, divides: Ask(Resources(cpu, memory), Requests(cpu, memory), divides_cpu=divides),
    st.integers(1, 8),
    st.integers(1, 8),
    divides=st.booleans(),
)


@given(
    st.lists(st.tuples(st.integers(1, 20), st.integers(1, 20), SMALL), min_size=1, max_size=8),
    st.lists(st.tuples(ASKS, PARAMETERS, st.booleans()), max_size=30),
    st.integers(),
)
def test_no_setting_of_the_flags_overfills_a_node(
    nodes: list[tuple[int, int, int]], steps: list[tuple[Ask, Parameters, bool]], seed: int
) -> None:
    """Reports lie as they please: they may say that everything is empty, or full."""
    rng = Random(seed)
    fleet = a_fleet(
        *(
            a_node(f"n{number}", allocatable=an_allocatable(cpu, memory, pods=12))
            for number, (cpu, memory, _) in enumerate(nodes)
        )
    )
    for number, (_, _, reported) in enumerate(nodes):
        fleet.accept_report(a_report(f"uid-of-n{number}", 2, allocated=Resources(reported, reported)), NOW_S)
    placed: dict[str, list[tuple[Resources, Requests]]] = {uid: [] for uid in fleet.nodes}
    largest = 0

    for step, (ask, parameters, answers) in enumerate(steps):
        attempt_id = f"s{step}.1"
        decision = place(fleet, attempt_id, ask, parameters=parameters, rng=rng, now_s=NOW_S)
        if decision.chosen is not None:
            node = decision.chosen.node
            largest = max(largest, parameters.overcommit_percent)
            requests = ask.requests_at(parameters.overcommit_percent)
            placed[node.facts.uid].append((ask.nominal, requests))
            if answers:
                pod = PodHolding(f"pod-{step}", attempt_id, node.facts.name, ask.nominal, requests)
                fleet.ledger.create_answered(pod, step + 1)

    for uid, pods in placed.items():
        allocatable = fleet.nodes[uid].facts.allocatable
        assert sum(requests.cpu_millicores for _, requests in pods) <= allocatable.cpu_millicores
        assert sum(nominal.memory_bytes for nominal, _ in pods) <= allocatable.memory_bytes
        assert sum(nominal.cpu_millicores for nominal, _ in pods) * 100 <= largest * allocatable.cpu_millicores
        assert len(pods) <= allocatable.pods
    fleet.ledger.verify()


@given(
    st.lists(st.tuples(st.integers(1, 20), SMALL, SMALL), min_size=1, max_size=8),
    ASKS,
    PARAMETERS,
    st.integers(),
)
def test_the_chosen_node_fits_and_is_the_best_of_those_compared(
    nodes: list[tuple[int, int, int]], ask: Ask, parameters: Parameters, seed: int
) -> None:
    fleet = a_fleet(
        *(a_node(f"n{number}", allocatable=an_allocatable(cpu)) for number, (cpu, _, _) in enumerate(nodes))
    )
    for number, (_, allocated, used) in enumerate(nodes):
        uid = f"uid-of-n{number}"
        fleet.accept_report(a_report(uid, 2, allocated=Resources(allocated, 0), used=Resources(used, 0)), NOW_S)
    eligible = [node for node in fleet.nodes.values() if rejection(node, ask, frozenset(), parameters) is None]

    decision = choose(fleet, ask, parameters=parameters, rng=Random(seed), now_s=NOW_S)

    wanted = len(eligible) if parameters.sample_size is None else min(parameters.sample_size, len(eligible))
    assert decision.compared == len({id(candidate.node) for candidate in decision.candidates}) == wanted
    assert (decision.chosen is None) == (not eligible)
    if decision.chosen is None:
        assert sum(decision.rejected.values()) == len(nodes)
        return
    assert shortage(decision.chosen.node, ask, parameters.overcommit_percent) is None
    assert decision.chosen.score == min(candidate.score for candidate in decision.candidates)
    if parameters.sample_size is None:
        assert decision.chosen.score == min(naive_score(node, ask, parameters) for node in eligible)


def naive_score(node: Node, ask: Ask, parameters: Parameters) -> float:
    """Return the score of a node that holds nothing of ours, from its report alone."""
    report = node.account.report
    assert report is not None
    assert report.used is not None
    held = 0 if parameters.view is View.RECONCILED else report.allocated.cpu_millicores
    return score(
        ask.nominal.cpu_millicores,
        held,
        report.used.cpu_millicores,
        node.facts.allocatable.cpu_millicores,
        alpha_percent=parameters.alpha_percent,
        overcommit_percent=parameters.overcommit_percent,
    )


@given(
    st.lists(st.integers(1, 40), min_size=1, max_size=12),
    st.integers(1, 4),
    st.integers(),
)
def test_a_hand_is_distinct_and_no_node_gets_more_cards_than_its_share(cpus: list[int], size: int, seed: int) -> None:
    fleet = a_fleet(*(a_node(f"n{i}", allocatable=an_allocatable(cpu)) for i, cpu in enumerate(cpus)))
    unit = max(min(cpus), max(cpus) / MAX_CARDS_PER_NODE)
    rng, decks, pool = Random(seed), 0, fleet.fresh
    seen: Counter[str] = Counter()

    for _ in range(60):
        before = pool._cards
        hand = [node.facts.name for node in islice(pool.deal(rng), size)]
        decks += pool._cards is not before
        seen.update(hand)
        assert len(set(hand)) == len(hand) == min(size, len(cpus))

    for number, cpu in enumerate(cpus):
        share = cpu / unit
        assert seen[f"n{number}"] <= decks * max(1, -(-share // 1))
        if size == 1:  # with one at a time no card is passed over
            assert seen[f"n{number}"] >= (decks - 1) * max(1, share // 1)


class Pools(RuleBasedStateMachine):
    """A fleet under any sequence of events; after each, every node is in exactly one place."""

    def __init__(self) -> None:
        super().__init__()
        self.fleet = Fleet(Ledger())
        self.present: dict[str, str] = {}  # name -> UID
        self.sequence = 0
        self.now_s = NOW_S
        self.rng = Random(0)

    @rule(
        uid=UIDS,
        ready=st.booleans(),
        cordoned=st.booleans(),
        cpu=st.sampled_from([0, 1, 4, 4]),
    )
    def observe(self, uid: str, ready: bool, cordoned: bool, cpu: int) -> None:
        name = f"n{int(uid[-1]) % 3}"
        allocatable = Allocatable(cpu, 100, 100, 10)
        self.fleet.observe_node(a_node(name, uid=uid, ready=ready, cordoned=cordoned, allocatable=allocatable))
        self.present[name] = uid

    @rule(uid=UIDS)
    def forget(self, uid: str) -> None:
        self.fleet.forget_node(uid)
        self.present = {name: present for name, present in self.present.items() if present != uid}

    @rule(uid=UIDS, newer=st.booleans())
    def report(self, uid: str, newer: bool) -> None:
        self.sequence += newer
        self.fleet.accept_report(a_report(uid, self.sequence), self.now_s)

    @rule(uid=UIDS, unschedulable=st.booleans())
    def set_settings(self, uid: str, unschedulable: bool) -> None:
        self.fleet.set_settings(uid, settings_of(unschedulable=unschedulable))

    @rule(passes=st.sampled_from([1, 150, 1_000]))
    def wait(self, passes: int) -> None:
        self.now_s += passes

    @rule(k=st.one_of(st.none(), st.integers(1, 2)), sampler=st.sampled_from(Sampler), number=st.integers(0, 10**9))
    def place(self, k: int | None, sampler: Sampler, number: int) -> None:
        ask = Ask(Resources(1, 1), Requests(1, 1))
        fresh = {
            uid
            for uid, node in self.fleet.nodes.items()
            if rejection(node, ask, frozenset(), Parameters()) is None and not node.account.figures.expired(self.now_s)
        }

        parameters = Parameters(sample_size=k, sampler=sampler)
        decision = choose(self.fleet, ask, parameters=parameters, rng=Random(number), now_s=self.now_s)

        if decision.chosen is None:
            assert sum(decision.rejected.values()) == len(self.fleet.nodes)
        else:
            assert decision.second_choice == (not fresh)
            assert decision.second_choice or decision.chosen.node.facts.uid in fresh
            assert len({id(candidate.node) for candidate in decision.candidates}) == decision.compared
            if decision.second_choice is False:
                assert decision.compared == (len(fresh) if k is None else min(k, len(fresh)))

    @rule()
    def demote_what_grew_old(self) -> None:
        for node in [node for node in self.fleet.fresh.draw(self.rng) if node.account.figures.expired(self.now_s)]:
            self.fleet.demote(node)

    @rule(number=st.integers(0, 10**9))
    def deal_all(self, number: int) -> None:
        for pool in (self.fleet.fresh, self.fleet.second_choice):
            assert Counter(map(id, pool.deal(Random(number)))) == Counter(map(id, pool.draw(self.rng)))

    @invariant()
    def every_node_is_in_exactly_one_place(self) -> None:
        fleet = self.fleet
        assert {node.facts.name: uid for uid, node in fleet.nodes.items()} == self.present
        fresh, second = list(fleet.fresh.draw(self.rng)), list(fleet.second_choice.draw(self.rng))
        barred = [node for node in fleet.nodes.values() if node.barred is not None]
        assert Counter(map(id, (*fresh, *second, *barred))) == Counter(map(id, fleet.nodes.values()))
        assert +fleet.barred == Counter(node.barred for node in barred if node.barred is not None)
        assert all(node.account.report is not None for node in fresh)
        for pool in (fleet.fresh, fleet.second_choice):
            for position, node in enumerate(pool._nodes):
                assert (node.pool, node.position) == (pool, position)
        assert {account.node_uid for account in fleet.ledger.accounts()} == set(fleet.nodes)


TestPools = Pools.TestCase
TestPools.settings = settings(max_examples=150, stateful_step_count=40)
