"""The ledger against a naive model: plain sets of who holds what, summed anew after every step.

The model knows the events alone. It keeps for each attempt what the rules of membership need, in the words of the
rules: a reservation holds until its create is answered, whatever its Pods do meanwhile; a Pod holds from its answer
or its first sight until it is seen to end, or the cache has passed its version without it; a listed ID holds where
nothing else is known of it.
"""

from collections import defaultdict
from dataclasses import dataclass, field

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, rule

from sandberth.core.ledger import Ledger, PodHolding
from sandberth.core.resources import Requests, Resources
from sandberth.core.views import View
from tests.builders import NOW_S, a_report

NAMES = ("a", "b", "c")
NAME = st.sampled_from(NAMES)
SIZES = st.builds(Resources, st.integers(1, 9), st.integers(1, 9))
LISTED = Resources(1_000, 1_000)  # what a report says of any sandbox: easy to tell from our own sums


@dataclass
class Attempt:
    """One try of ours: its create is sent, then made or refused by the server; news of that come in any order."""

    attempt_id: str
    node_name: str
    asked: Resources
    pod_uid: str
    size: Resources
    version: int = 0  # of the created Pod; 0 while the server has not made it
    refused: bool = False
    answered: bool = False
    seen: bool = False
    ended: bool = False  # seen to end by the cache
    removed: bool = False  # its delete was answered

    @property
    def holds(self) -> bool:
        """An open create holds room even after a Pod of it came and went: another try may make another Pod."""
        return not self.answered or not (self.ended or self.refused)


@dataclass
class Model:
    """Who holds what by the rules, in plain dictionaries."""

    node_uids: dict[str, str] = field(default_factory=dict)
    attempts: dict[str, Attempt] = field(default_factory=dict)
    foreign: dict[str, tuple[str, Resources]] = field(default_factory=dict)
    totals: dict[str, Resources] = field(default_factory=dict)  # node name -> of the last report
    listed: dict[str, set[str]] = field(default_factory=dict)  # node name -> IDs that only the last list knows
    last_list: dict[str, list[str]] = field(default_factory=dict)  # node name -> the last complete list
    listings: dict[str, dict[str, int]] = field(default_factory=lambda: defaultdict(dict))  # since the end
    absences: dict[str, dict[str, int]] = field(default_factory=lambda: defaultdict(dict))
    shifts: dict[str, list[tuple[int, int]]] = field(default_factory=lambda: defaultdict(list))  # since the report

    def shift(self, name: str, size: Resources, sign: int) -> None:
        if name in self.node_uids:
            self.shifts[name].append((sign * size.cpu_millicores, sign * size.memory_bytes))

    def bury(self, attempt_id: str, name: str) -> None:
        if name in self.node_uids and attempt_id not in self.listings[name]:
            self.listings[name][attempt_id] = self.absences[name][attempt_id] = 0
            self.listed.get(name, set()).discard(attempt_id)

    def forget_history(self, name: str) -> None:
        for of_node in (self.totals, self.listed, self.last_list, self.listings, self.absences, self.shifts):
            of_node.pop(name, None)


def total(sizes: list[Resources]) -> Resources:
    return Resources(sum(size.cpu_millicores for size in sizes), sum(size.memory_bytes for size in sizes))


class LedgerMachine(RuleBasedStateMachine):
    """Creates, answers, Pod events, reports and nodes in any order, late, repeated or lost."""

    attempts: Bundle[str] = Bundle("attempts")
    foreigners: Bundle[str] = Bundle("foreigners")

    def __init__(self) -> None:
        super().__init__()
        self.ledger = Ledger()
        self.model = Model()
        self.counter = 0
        self.version = 0  # of the server
        self.passed = 0  # by the Pod cache
        self.told = 0  # to the ledger, which hears of it with delay, and at the latest before an answer
        self.sequences: dict[str, int] = defaultdict(int)
        for name in NAMES[:2]:
            self.node_appears(name)

    def next(self) -> int:
        self.counter += 1
        return self.counter

    # --- nodes ---

    @rule(name=NAME)
    def node_appears(self, name: str) -> None:
        """A Node comes, or takes the place of one of the same name before that one's end is told."""
        uid = f"node-{self.next()}"
        self.ledger.node_appeared(uid, name)
        self.ledger.node_appeared(uid, name)
        self.model.forget_history(name)
        self.model.node_uids[name] = uid

    @rule(name=NAME)
    def node_vanishes(self, name: str) -> None:
        uid = self.model.node_uids.pop(name, "nobody")
        self.ledger.node_vanished(uid)
        self.ledger.node_vanished(uid)
        self.model.forget_history(name)

    # --- our own creates and deletes ---

    @rule(target=attempts, name=st.sampled_from(NAMES[:2]), size=SIZES)
    def reserve(self, name: str, size: Resources) -> str:
        number = self.next()
        attempt = Attempt(f"s{number}.1", name, size, f"pod-{number}", size)
        uid = self.model.node_uids.get(name)
        if uid is None:
            attempt.refused = attempt.answered = True
        else:
            for _ in range(2):
                self.ledger.reserve(attempt.attempt_id, uid, size, requests_of(size))
        self.model.attempts[attempt.attempt_id] = attempt
        return attempt.attempt_id

    @rule(attempt_id=attempts, takes=st.booleans())
    def server_decides(self, attempt_id: str, takes: bool) -> None:
        """The create is carried out or refused; nobody hears of it yet."""
        attempt = self.model.attempts[attempt_id]
        if not attempt.version and not attempt.refused:
            if takes:
                self.version += 1
                attempt.version = self.version
            else:
                attempt.refused = True

    @rule(attempt_id=attempts)
    def create_is_answered(self, attempt_id: str) -> None:
        """The answer arrives, for the first time or again."""
        attempt = self.model.attempts[attempt_id]
        if attempt.refused:
            name = attempt.node_name
            if not attempt.answered and attempt_id in self.model.last_list.get(name, ()):
                self.model.listed[name].add(attempt_id)
            attempt.answered = True
            self.ledger.release(attempt_id)
        elif attempt.version:
            self.cache_is_at(self.passed)
            self.ledger.create_answered(self.pod(attempt), attempt.version)
            if not attempt.ended and not attempt.seen and attempt.version <= self.passed:
                self.end(attempt, shifts=attempt.answered)
                attempt.answered = True
            elif attempt.ended and not attempt.answered:
                attempt.answered = True
                self.end(attempt, shifts=False)
            elif not attempt.ended and not attempt.answered:
                attempt.answered = True
                if not attempt.removed:
                    self.model.shift(attempt.node_name, attempt.size, 1)

    @rule(attempt_id=attempts)
    def delete_is_answered(self, attempt_id: str) -> None:
        attempt = self.model.attempts[attempt_id]
        self.ledger.delete_answered(attempt_id)
        if attempt.holds:
            if attempt.answered and not attempt.removed:
                self.model.shift(attempt.node_name, attempt.size, -1)
            attempt.removed = True

    # --- the Pod cache ---

    @rule(attempt_id=attempts, again=st.booleans())
    def pod_is_observed(self, attempt_id: str, again: bool) -> None:
        attempt = self.model.attempts[attempt_id]
        if attempt.version and not attempt.ended and (again or attempt.version > self.passed):
            attempt.seen = True
            self.ledger.pod_observed(self.pod(attempt))
            self.passed = max(self.passed, attempt.version)  # the ledger hears of it later

    @rule(attempt_id=attempts, size=SIZES)
    def pod_is_resized(self, attempt_id: str, size: Resources) -> None:
        attempt = self.model.attempts[attempt_id]
        if attempt.seen and not attempt.ended:
            if attempt.answered and not attempt.removed:
                self.model.shift(
                    attempt.node_name, Resources(-attempt.size.cpu_millicores, -attempt.size.memory_bytes), 1
                )
                self.model.shift(attempt.node_name, size, 1)
            attempt.size = size
            self.ledger.pod_observed(self.pod(attempt))

    @rule(attempt_id=attempts)
    def pod_ends(self, attempt_id: str) -> None:
        """The Pod is terminal or gone: told once or twice, and only of a Pod that the cache has shown."""
        attempt = self.model.attempts[attempt_id]
        if attempt.seen:
            for _ in range(2):
                self.ledger.pod_ended(attempt.pod_uid, attempt_id, attempt.node_name)
            if attempt.ended and attempt.answered:
                self.model.bury(attempt_id, attempt.node_name)
            elif attempt.answered:
                self.end(attempt, shifts=True)
            else:  # the create is open: what is left is the reservation
                attempt.ended, attempt.removed, attempt.size = True, attempt.ended and attempt.removed, attempt.asked

    @rule(back=st.integers(0, 3))
    def cache_passes(self, back: int) -> None:
        """The cache has everything up to a version, without showing what it has not shown so far."""
        self.passed = max(self.passed, self.version - back)
        self.cache_is_at(self.version - back)

    def cache_is_at(self, version: int) -> None:
        self.told = max(self.told, version)
        self.ledger.pods_passed(version)
        for attempt in self.model.attempts.values():
            if attempt.answered and not attempt.seen and not attempt.ended and 0 < attempt.version <= self.told:
                self.end(attempt, shifts=True)

    @rule(target=foreigners, name=NAME, size=SIZES)
    def foreign_pod_comes(self, name: str, size: Resources) -> str:
        uid = f"foreign-{self.next()}"
        self.model.foreign[uid] = (name, size)
        self.ledger.pod_observed(PodHolding(uid, None, name, size, requests_of(size)))
        return uid

    @rule(uid=foreigners, size=SIZES)
    def foreign_pod_is_resized(self, uid: str, size: Resources) -> None:
        if uid in self.model.foreign:
            name = self.model.foreign[uid][0]
            self.model.foreign[uid] = (name, size)
            self.ledger.pod_observed(PodHolding(uid, None, name, size, requests_of(size)))

    @rule(uid=consumes(foreigners))
    def foreign_pod_ends(self, uid: str) -> None:
        name, _ = self.model.foreign.pop(uid)
        self.ledger.pod_ended(uid, None, name)
        self.ledger.pod_ended(uid, None, name)

    # --- reports ---

    @rule(name=NAME, listed=st.lists(st.one_of(attempts, st.sampled_from(["x.1", "y.1"])), unique=True, max_size=6))
    def complete_report(self, name: str, listed: list[str]) -> None:
        """A node lists whatever it likes of its own: what runs, what is gone, what nobody knows."""
        uid = self.model.node_uids.get(name)
        if uid is None:
            return
        known = self.model.attempts
        listed = [attempt_id for attempt_id in listed if attempt_id not in known or known[attempt_id].node_name == name]
        self.sequences[uid] += 1
        report = a_report(uid, self.sequences[uid], allocated=Resources(5, 7), sandboxes=dict.fromkeys(listed, LISTED))
        assert self.ledger.accept_report(report, NOW_S)
        assert not self.ledger.accept_report(report, NOW_S)
        self.adopt(name, Resources(5, 7))
        tombs, absences, only = self.model.listings[name], self.model.absences[name], set()
        for attempt_id in listed:
            if attempt_id in tombs:
                tombs[attempt_id] += 1
                absences[attempt_id] = 0
                if tombs[attempt_id] >= 3:
                    only.add(attempt_id)
            elif attempt_id not in known or not known[attempt_id].holds:
                only.add(attempt_id)
        for attempt_id in set(tombs) - set(listed):
            absences[attempt_id] += 1
            if absences[attempt_id] == 2:
                del tombs[attempt_id], absences[attempt_id]
        self.model.listed[name], self.model.last_list[name] = only, listed

    @rule(name=NAME, older=st.booleans())
    def incomplete_report(self, name: str, older: bool) -> None:
        uid = self.model.node_uids.get(name)
        if uid is None:
            return
        self.sequences[uid] += not older
        report = a_report(
            uid, self.sequences[uid], allocated=Resources(3, 3), sandboxes={"z.1": LISTED}, complete=False
        )
        if self.ledger.accept_report(report, NOW_S):
            self.adopt(name, Resources(3, 3))

    # --- what must hold after every step ---

    @invariant()
    def the_ledger_holds_what_the_model_holds(self) -> None:
        self.ledger.verify()
        model = self.model
        assert {account.node_name: account.node_uid for account in self.ledger.accounts()} == model.node_uids
        for name, uid in model.node_uids.items():
            account = self.ledger.account(uid)
            own = [attempt for attempt in model.attempts.values() if attempt.holds and attempt.node_name == name]
            pending = [attempt.size for attempt in own if not attempt.answered]
            foreign = [size for node_name, size in model.foreign.values() if node_name == name]
            held = total([attempt.size for attempt in own] + foreign)
            only = model.listed.get(name, set())
            assert set(account.holdings) == {attempt.attempt_id for attempt in own} | {
                pod for pod, (node_name, _) in model.foreign.items() if node_name == name
            }
            assert account.held == held
            assert (account.requested_cpu, account.requested_memory) == (held.cpu_millicores, held.memory_bytes)
            assert (account.sandboxes, account.in_progress) == (len(own), len(pending))
            assert set(account.reported_only) == only
            assert set(account.tombstones) == set(model.listings[name])
            assert account.reconciled == held + total([LISTED] * len(only))
            self.check_views(name, account.reconciled, total(pending))

    def check_views(self, name: str, reconciled: Resources, pending: Resources) -> None:
        account = self.ledger.account(self.model.node_uids[name])
        before = repr(account)
        sums = {view: account.accounted(view, NOW_S) for view in View}
        assert repr(account) == before
        reported = self.model.totals.get(name)
        if reported is None:
            assert set(sums.values()) == {reconciled}
            return
        shifted = Resources(
            pending.cpu_millicores + sum(cpu for cpu, _ in self.model.shifts[name]),
            pending.memory_bytes + sum(memory for _, memory in self.model.shifts[name]),
        )
        optimistic = reported + shifted
        assert sums == {
            View.METRICS: reported,
            View.IN_PROGRESS: reported + pending,
            View.OPTIMISTIC: Resources(max(0, optimistic.cpu_millicores), max(0, optimistic.memory_bytes)),
            View.RECONCILED: reconciled,
        }

    def teardown(self) -> None:
        """When every create is answered and every Pod has ended, nothing is left."""
        self.version += 1
        for attempt in list(self.model.attempts.values()):
            self.server_decides(attempt.attempt_id, takes=True)
            self.pod_is_observed(attempt.attempt_id, again=True)
            self.create_is_answered(attempt.attempt_id)
            if attempt.seen and not attempt.ended:
                self.pod_ends(attempt.attempt_id)
        for uid in list(self.model.foreign):
            self.foreign_pod_ends(uid)
        for name in NAMES:
            self.complete_report(name, [])

        self.the_ledger_holds_what_the_model_holds()
        for account in self.ledger.accounts():
            assert not account.holdings
            assert account.reconciled == Resources(0, 0)
        assert not self.ledger._attempts
        assert not self.ledger._pods
        assert not self.ledger._unseen
        assert not self.ledger._homeless

    # --- the model's own steps ---

    def pod(self, attempt: Attempt) -> PodHolding:
        size = attempt.size
        return PodHolding(attempt.pod_uid, attempt.attempt_id, attempt.node_name, size, requests_of(size))

    def end(self, attempt: Attempt, *, shifts: bool) -> None:
        attempt.ended = True
        if shifts and not attempt.removed:
            self.model.shift(attempt.node_name, attempt.size, -1)
        self.model.bury(attempt.attempt_id, attempt.node_name)

    def adopt(self, name: str, allocated: Resources) -> None:
        self.model.totals[name] = allocated
        self.model.shifts[name].clear()


def requests_of(size: Resources) -> Requests:
    return Requests(size.cpu_millicores, size.memory_bytes)


TestLedger = LedgerMachine.TestCase
TestLedger.settings = settings(max_examples=250, stateful_step_count=30)
