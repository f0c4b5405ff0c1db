"""The ledger: every attempt counts once, from its reservation to the evidence of its end, in any order of events.

"Case n" refers to the faults of other systems that these tests keep out.
"""

import inspect
from collections.abc import Callable
from itertools import permutations

import pytest

from sandberth.core import account as account_module
from sandberth.core import ledger as ledger_module
from sandberth.core.account import Account, View
from sandberth.core.errors import LedgerError
from sandberth.core.ledger import Ledger
from sandberth.core.resources import ZERO, Resources
from tests.builders import GIB, NOW_S, a_pod, a_report, a_size, some_requests

NODE = "uid-of-node-a"
OTHER = "uid-of-node-b"
X = "sandbox.1"
SIZE = a_size()


@pytest.fixture
def ledger() -> Ledger:
    ledger = Ledger()
    ledger.node_appeared(NODE, "node-a")
    ledger.node_appeared(OTHER, "node-b")
    return ledger


def reserve(ledger: Ledger, attempt_id: str = X, node_uid: str = NODE, size: Resources = SIZE) -> None:
    ledger.reserve(attempt_id, node_uid, size, some_requests(size))


def held(ledger: Ledger, node_uid: str = NODE) -> Resources:
    ledger.verify()
    return ledger.account(node_uid).held


def reconciled(ledger: Ledger, node_uid: str = NODE) -> Resources:
    ledger.verify()
    return ledger.account(node_uid).reconciled


def optimistic(ledger: Ledger, node_uid: str = NODE) -> Resources:
    """Return the optimistic sum just after a report (a node without one has the reconciled sum in every view)."""
    return ledger.account(node_uid).accounted(View.OPTIMISTIC, NOW_S)


def report(ledger: Ledger, sequence: int = 1, *listed: str, node_uid: str = NODE, complete: bool = True) -> None:
    """Let a node report that it runs these attempts, one SIZE each."""
    total = Resources(len(listed) * SIZE.cpu_millicores, len(listed) * SIZE.memory_bytes)
    sandboxes = dict.fromkeys(listed, SIZE)
    assert ledger.accept_report(
        a_report(node_uid, sequence, allocated=total, sandboxes=sandboxes, complete=complete), NOW_S
    )


# --- reservations and answers ---


def test_release_returns_exactly_what_reserve_took(ledger: Ledger) -> None:
    reserve(ledger, size=a_size(777, 12_345))
    assert held(ledger) == a_size(777, 12_345)

    ledger.release(X)

    assert held(ledger) == ZERO
    assert ledger.attempt(X) is None
    assert ledger.account(NODE).in_progress == 0


def test_a_second_reservation_or_release_of_an_attempt_changes_nothing(ledger: Ledger) -> None:
    reserve(ledger)
    reserve(ledger)
    assert held(ledger) == SIZE

    ledger.release(X)
    ledger.release(X)

    assert held(ledger) == ZERO


def test_an_attempt_cannot_hold_room_on_two_nodes(ledger: Ledger) -> None:
    reserve(ledger)

    with pytest.raises(LedgerError, match="node-a"):
        reserve(ledger, node_uid=OTHER)

    assert held(ledger, OTHER) == ZERO


def test_a_reservation_on_an_unknown_node_is_a_key_error(ledger: Ledger) -> None:
    with pytest.raises(KeyError):
        reserve(ledger, node_uid="nobody")

    assert ledger.attempt(X) is None


def test_the_answer_takes_the_sizes_that_the_server_returned(ledger: Ledger) -> None:
    reserve(ledger)

    ledger.create_answered(a_pod(nominal=a_size(2_000)), 10)

    assert held(ledger) == a_size(2_000)


def test_the_answer_resizes_also_while_the_node_is_unknown(ledger: Ledger) -> None:
    reserve(ledger)
    ledger.node_vanished(NODE)

    ledger.create_answered(a_pod(nominal=a_size(2_000)), 10)
    ledger.node_appeared("new-uid", "node-a")

    assert held(ledger, "new-uid") == a_size(2_000)


def test_a_refusal_that_comes_after_the_pod_was_seen_keeps_the_room(ledger: Ledger) -> None:
    reserve(ledger)
    ledger.pod_observed(a_pod())

    ledger.release(X)

    assert held(ledger) == SIZE


def test_case_10_an_unknown_outcome_holds_room_until_success(ledger: Ledger) -> None:
    reserve(ledger)
    report(ledger, 1)
    report(ledger, 2)
    ledger.pods_passed(1_000)
    assert held(ledger) == SIZE

    ledger.create_answered(a_pod(), 1_001)

    assert held(ledger) == SIZE
    assert ledger.account(NODE).in_progress == 0


def test_case_10_an_unknown_outcome_holds_room_until_a_refusal(ledger: Ledger) -> None:
    reserve(ledger)
    report(ledger, 1)

    ledger.release(X)

    assert held(ledger) == ZERO


def test_case_11_a_retry_elsewhere_holds_room_there_alone(ledger: Ledger) -> None:
    reserve(ledger)
    ledger.release(X)

    reserve(ledger, "sandbox.2", OTHER)

    assert held(ledger) == ZERO
    assert held(ledger, OTHER) == SIZE


# --- Pods and answers in every order ---


def test_a_pod_seen_before_its_answer_counts_once(ledger: Ledger) -> None:
    report(ledger)
    reserve(ledger)

    ledger.pod_observed(a_pod())
    assert held(ledger) == SIZE
    assert ledger.account(NODE).in_progress == 1

    ledger.create_answered(a_pod(), 10)
    assert held(ledger) == SIZE
    assert ledger.account(NODE).in_progress == 0
    assert optimistic(ledger) == SIZE


@pytest.mark.parametrize("order", list(permutations(["answered", "observed", "ended", "answered again", "report"])))
def test_no_order_of_late_and_repeated_events_leaves_a_trace_once_the_pod_has_ended(
    ledger: Ledger, order: tuple[str, ...]
) -> None:
    report(ledger)
    reserve(ledger)

    def end() -> None:
        ledger.pod_ended("pod-1", X, "node-a")
        ledger.pods_passed(11)

    steps: dict[str, Callable[[], None]] = {
        "answered": lambda: ledger.create_answered(a_pod(), 10),
        "answered again": lambda: ledger.create_answered(a_pod(), 10),
        "observed": lambda: ledger.pod_observed(a_pod()) if "ended" not in done else None,
        "ended": end,
        "report": lambda: report(ledger, 2),
    }
    done: list[str] = []

    for step in order:
        steps[step]()
        done.append(step)
        ledger.verify()

    account = ledger.account(NODE)
    assert account.held == account.reconciled == ZERO
    assert (account.in_progress, account.starting, account.sandboxes) == (0, 0, 0)


def test_an_answer_after_the_end_does_not_bring_the_room_back(ledger: Ledger) -> None:
    reserve(ledger)
    ledger.pod_observed(a_pod())
    ledger.pod_ended("pod-1", X, "node-a")

    ledger.create_answered(a_pod(), 10)

    assert held(ledger) == ZERO


def test_an_open_create_keeps_its_room_when_a_pod_of_it_has_ended(ledger: Ledger) -> None:
    """The create timed out and was sent again: the first try's Pod ends, and the second try makes another."""
    reserve(ledger)
    ledger.pod_observed(a_pod(pod_uid="pod-1"))

    ledger.pod_ended("pod-1", X, "node-a")
    assert held(ledger) == SIZE
    assert (ledger.account(NODE).in_progress, ledger.account(NODE).starting) == (1, 1)

    ledger.create_answered(a_pod(pod_uid="pod-2"), 20)
    assert held(ledger) == SIZE

    ledger.pod_ended("pod-2", X, "node-a")
    assert held(ledger) == ZERO


def test_an_open_create_that_is_refused_after_its_pod_ended_leaves_nothing_for_an_old_report(ledger: Ledger) -> None:
    reserve(ledger)
    ledger.pod_observed(a_pod())
    ledger.pod_ended("pod-1", X, "node-a")

    ledger.release(X)
    report(ledger, 1, X)

    assert reconciled(ledger) == ZERO


def test_an_open_create_keeps_its_room_where_it_is_aimed_while_a_pod_of_it_is_elsewhere(ledger: Ledger) -> None:
    """An operator before this one sent the same attempt to another node, and its Pod shows up only now."""
    reserve(ledger)
    ledger.pod_observed(a_pod(pod_uid="older", node_name="node-b"))
    assert held(ledger) == held(ledger, OTHER) == SIZE

    ledger.pod_ended("older", X, "node-b")
    assert (held(ledger), held(ledger, OTHER)) == (SIZE, ZERO)

    ledger.create_answered(a_pod(), 20)
    assert (held(ledger), held(ledger, OTHER)) == (SIZE, ZERO)


def test_adopting_the_pod_on_another_node_gives_the_reservation_back(ledger: Ledger) -> None:
    reserve(ledger)
    ledger.pod_observed(a_pod(pod_uid="older", node_name="node-b"))

    ledger.create_answered(a_pod(pod_uid="older", node_name="node-b"), 20)

    assert (held(ledger), held(ledger, OTHER)) == (ZERO, SIZE)
    assert ledger.account(OTHER).in_progress == 0


def test_a_refusal_closes_the_create_of_an_attempt_whose_pod_is_known(ledger: Ledger) -> None:
    reserve(ledger)
    ledger.pod_observed(a_pod())

    ledger.release(X)
    assert ledger.account(NODE).in_progress == 0

    ledger.pod_ended("pod-1", X, "node-a")
    assert held(ledger) == ZERO


def test_an_answer_that_names_an_earlier_pod_closes_the_create(ledger: Ledger) -> None:
    reserve(ledger)
    ledger.pod_observed(a_pod(pod_uid="pod-1"))
    ledger.pod_ended("pod-1", X, "node-a")
    ledger.pod_observed(a_pod(pod_uid="pod-2"))

    ledger.create_answered(a_pod(pod_uid="pod-1"), 10)
    ledger.pod_ended("pod-2", X, "node-a")

    assert held(ledger) == ZERO
    assert ledger.account(NODE).in_progress == 0


def test_a_refusal_leaves_what_the_report_lists_under_the_same_id_counted(ledger: Ledger) -> None:
    """A Pod that was force-deleted before this operator began still runs, and its attempt number is used again."""
    report(ledger, 1, X)
    reserve(ledger)

    ledger.release(X)

    assert reconciled(ledger) == SIZE


def test_a_late_answer_repeated_after_the_end_does_not_add_again(ledger: Ledger) -> None:
    reserve(ledger)
    ledger.create_answered(a_pod(), 10)
    ledger.pod_observed(a_pod())
    ledger.pod_ended("pod-1", X, "node-a")

    ledger.create_answered(a_pod(), 10)

    assert held(ledger) == ZERO


def test_an_answer_after_the_end_moves_no_sum_when_the_tombstone_has_gone(ledger: Ledger) -> None:
    reserve(ledger)
    ledger.pod_observed(a_pod())
    ledger.pod_ended("pod-1", X, "node-a")
    ledger.pods_passed(11)
    for sequence in range(1, 4):
        report(ledger, sequence, "foreign.1", "foreign.2")

    ledger.create_answered(a_pod(), 10)

    assert held(ledger) == ZERO
    assert optimistic(ledger) == a_size(2_000, 2 * GIB)


def test_the_answer_of_a_second_pod_of_an_ended_attempt_holds_room(ledger: Ledger) -> None:
    reserve(ledger)
    ledger.pod_observed(a_pod(pod_uid="pod-1"))
    ledger.pod_ended("pod-1", X, "node-a")

    ledger.create_answered(a_pod(pod_uid="pod-2"), 20)

    assert held(ledger) == SIZE


def test_the_answer_for_a_second_pod_ends_the_first_because_the_name_is_a_fence(ledger: Ledger) -> None:
    reserve(ledger)
    ledger.create_answered(a_pod(pod_uid="pod-1"), 10)

    ledger.create_answered(a_pod(pod_uid="pod-2"), 20)
    assert held(ledger) == SIZE
    ledger.pod_ended("pod-1", X, "node-a")
    assert held(ledger) == SIZE

    ledger.pod_ended("pod-2", X, "node-a")
    assert held(ledger) == ZERO


def test_a_late_answer_of_a_first_pod_leaves_the_second_alone(ledger: Ledger) -> None:
    reserve(ledger)
    ledger.pod_observed(a_pod(pod_uid="pod-1"))
    ledger.pod_ended("pod-1", X, "node-a")
    ledger.pod_observed(a_pod(pod_uid="pod-2"))
    ledger.pods_passed(30)

    ledger.create_answered(a_pod(pod_uid="pod-1"), 10)

    holding = ledger.attempt(X)
    assert holding is not None
    assert holding.pod_uid == "pod-2"
    assert held(ledger) == SIZE


def test_case_7_two_live_pods_with_one_attempt_id_both_hold_room(ledger: Ledger) -> None:
    ledger.pod_observed(a_pod(pod_uid="pod-1"))
    ledger.pod_observed(a_pod(pod_uid="copied-label", nominal=a_size(500, GIB)))
    ledger.pod_observed(a_pod(pod_uid="pod-1"))
    assert held(ledger) == a_size(1_500, 2 * GIB)

    ledger.pod_ended("copied-label", X, "node-a")
    assert held(ledger) == SIZE

    ledger.pod_ended("pod-1", X, "node-a")
    assert held(ledger) == ZERO


def test_case_7_an_empty_attempt_id_is_none(ledger: Ledger) -> None:
    ledger.pod_observed(a_pod("", pod_uid="pod-1"))
    ledger.pod_observed(a_pod("", pod_uid="pod-2"))
    ledger.create_answered(a_pod("", pod_uid="pod-3"), 1)
    ledger.pod_ended("pod-4", "", "node-a")

    assert held(ledger) == a_size(2_000, 2 * GIB)
    assert not ledger.account(NODE).tombstones


def test_a_terminal_pod_at_first_sight_holds_nothing_and_cannot_come_back_by_a_report(ledger: Ledger) -> None:
    ledger.pod_ended("pod-1", X, "node-a")

    report(ledger, 1, X)

    assert reconciled(ledger) == ZERO


def test_a_terminal_pod_at_first_sight_leaves_the_reservation_to_its_answer(ledger: Ledger) -> None:
    reserve(ledger)
    ledger.pod_ended("pod-1", X, "node-a")
    ledger.pods_passed(12)
    assert held(ledger) == SIZE

    ledger.create_answered(a_pod(), 10)

    assert held(ledger) == ZERO
    assert ledger.account(NODE).in_progress == 0


def test_a_created_attempt_holds_room_until_the_cache_has_passed_it(ledger: Ledger) -> None:
    reserve(ledger)
    ledger.create_answered(a_pod(), 10)

    ledger.pods_passed(9)
    assert held(ledger) == SIZE

    ledger.pods_passed(10)
    assert held(ledger) == ZERO


def test_a_pod_that_the_cache_has_shown_outlives_every_version(ledger: Ledger) -> None:
    reserve(ledger)
    ledger.create_answered(a_pod(), 10)
    ledger.pod_observed(a_pod())

    ledger.pods_passed(1_000)

    assert held(ledger) == SIZE


def test_an_older_version_does_not_take_the_cache_back(ledger: Ledger) -> None:
    ledger.pods_passed(20)
    ledger.pods_passed(5)
    reserve(ledger)

    ledger.create_answered(a_pod(), 15)

    assert held(ledger) == ZERO


def test_a_repeated_answer_of_an_older_version_does_not_shorten_the_hold(ledger: Ledger) -> None:
    reserve(ledger)
    ledger.create_answered(a_pod(), 50)
    ledger.create_answered(a_pod(), 10)

    ledger.pods_passed(20)

    assert held(ledger) == SIZE


def test_a_consistent_read_without_the_pod_ends_a_created_attempt_alone(ledger: Ledger) -> None:
    reserve(ledger)
    ledger.attempt_absent(X)
    assert held(ledger) == SIZE

    ledger.create_answered(a_pod(), 10)
    ledger.attempt_absent(X)
    ledger.attempt_absent(X)

    assert held(ledger) == ZERO


def test_case_8_a_pod_that_dies_before_any_report_leaves_nothing(ledger: Ledger) -> None:
    reserve(ledger)
    ledger.create_answered(a_pod(), 10)
    ledger.pod_observed(a_pod())

    ledger.pod_ended("pod-1", X, "node-a")

    assert reconciled(ledger) == ZERO


def test_case_9_a_delete_answered_before_the_create_leaves_no_trace_in_the_optimistic_sum(ledger: Ledger) -> None:
    report(ledger, 1, "foreign.1")
    reserve(ledger)

    ledger.delete_answered(X)
    ledger.create_answered(a_pod(), 10)
    assert held(ledger) == SIZE
    ledger.pods_passed(11)

    assert optimistic(ledger) == SIZE
    assert held(ledger) == ZERO


def test_case_12_a_new_pod_under_the_old_name_is_another_holding(ledger: Ledger) -> None:
    ledger.pod_observed(a_pod("old.1", pod_uid="pod-1", nominal=a_size(3_000)))

    ledger.pod_observed(a_pod("new.1", pod_uid="pod-2"))
    ledger.pod_ended("pod-1", "old.1", "node-a")

    assert held(ledger) == SIZE


@pytest.mark.parametrize(("attempt_id", "node_name"), [(X, "node-a"), (None, ""), (None, "node-b")])
def test_case_13_the_uid_alone_ends_a_pod_whatever_else_is_known_of_it(
    ledger: Ledger, attempt_id: str | None, node_name: str
) -> None:
    ledger.pod_observed(a_pod())

    ledger.pod_ended("pod-1", attempt_id, node_name)

    assert held(ledger) == ZERO
    assert X in ledger.account(NODE).tombstones


def test_case_16_updates_of_a_pod_change_nothing_but_its_size(ledger: Ledger) -> None:
    reserve(ledger)
    ledger.create_answered(a_pod(starting=True), 10)
    for _ in range(3):
        ledger.pod_observed(a_pod(starting=True))
    assert held(ledger) == SIZE
    assert ledger.account(NODE).starting == 1

    ledger.pod_observed(a_pod(nominal=a_size(3_000)))

    assert held(ledger) == a_size(3_000)
    assert ledger.account(NODE).starting == 0


def test_case_17_a_pod_on_another_node_than_expected_leaves_the_first(ledger: Ledger) -> None:
    report(ledger, 1, "foreign.1")
    report(ledger, 1, "foreign.2", node_uid=OTHER)
    reserve(ledger)
    ledger.create_answered(a_pod(), 10)

    ledger.pod_observed(a_pod(node_name="node-b"))
    assert held(ledger) == ZERO
    assert held(ledger, OTHER) == SIZE
    assert optimistic(ledger) == SIZE
    assert optimistic(ledger, OTHER) == a_size(2_000, 2 * GIB)

    ledger.pod_ended("pod-1", X, "node-b")
    assert held(ledger, OTHER) == ZERO
    assert optimistic(ledger, OTHER) == SIZE


def test_a_pod_that_moves_to_an_unknown_node_waits_for_it(ledger: Ledger) -> None:
    ledger.pod_observed(a_pod())

    ledger.pod_observed(a_pod(node_name="node-c"))
    assert held(ledger) == ZERO

    ledger.node_appeared("uid-of-node-c", "node-c")
    assert held(ledger, "uid-of-node-c") == SIZE


def test_foreign_pods_hold_their_requests_and_are_no_sandboxes(ledger: Ledger) -> None:
    ledger.pod_observed(a_pod(None, pod_uid="foreign", starting=True))
    account = ledger.account(NODE)
    assert held(ledger) == SIZE
    assert (account.sandboxes, account.starting) == (0, 0)

    ledger.pod_observed(a_pod(None, pod_uid="foreign", starting=False))
    ledger.pod_ended("foreign", None, "node-a")

    assert held(ledger) == ZERO
    assert account.starting == 0


# --- nodes ---


def test_pods_of_an_unknown_node_are_there_when_it_appears(ledger: Ledger) -> None:
    ledger.pod_observed(a_pod(node_name="node-c"))
    ledger.pod_observed(a_pod(None, pod_uid="foreign", node_name="node-c"))
    ledger.pod_observed(a_pod("gone.1", pod_uid="gone", node_name="node-c"))
    ledger.pod_ended("gone", "gone.1", "node-c")

    ledger.node_appeared("uid-of-node-c", "node-c")

    assert held(ledger, "uid-of-node-c") == a_size(2_000, 2 * GIB)


def test_case_14_a_node_added_again_under_its_name_gets_its_pods_and_reservations_back(ledger: Ledger) -> None:
    ledger.pod_observed(a_pod("seen.1", pod_uid="seen"))
    reserve(ledger)

    ledger.node_vanished(NODE)
    ledger.node_appeared("new-uid", "node-a")

    account = ledger.account("new-uid")
    assert held(ledger, "new-uid") == a_size(2_000, 2 * GIB)
    assert (account.sandboxes, account.in_progress) == (2, 1)
    with pytest.raises(KeyError):
        ledger.account(NODE)

    ledger.release(X)
    ledger.pod_ended("seen", "seen.1", "node-a")
    assert held(ledger, "new-uid") == ZERO
    assert account.in_progress == 0


def test_case_14_a_new_node_replaces_the_old_one_before_its_end_is_told(ledger: Ledger) -> None:
    reserve(ledger)

    ledger.node_appeared("new-uid", "node-a")
    ledger.node_vanished(NODE)

    assert held(ledger, "new-uid") == SIZE
    assert {account.node_uid for account in ledger.accounts()} == {"new-uid", OTHER}


def test_case_14_reports_of_the_old_node_are_ignored(ledger: Ledger) -> None:
    ledger.node_vanished(NODE)
    ledger.node_appeared("new-uid", "node-a")

    assert not ledger.accept_report(a_report(NODE, 9), NOW_S)


def test_a_reservation_is_released_while_its_node_is_away(ledger: Ledger) -> None:
    reserve(ledger)
    ledger.node_vanished(NODE)

    ledger.release(X)
    ledger.node_appeared("new-uid", "node-a")

    assert held(ledger, "new-uid") == ZERO


def test_a_node_that_appears_or_vanishes_twice_changes_nothing(ledger: Ledger) -> None:
    reserve(ledger)
    assert ledger.node_appeared(NODE, "node-a") is ledger.account(NODE)
    assert held(ledger) == SIZE

    ledger.node_vanished(NODE)
    ledger.node_vanished(NODE)
    ledger.node_appeared("new-uid", "node-a")

    assert held(ledger, "new-uid") == SIZE


# --- reports ---


def test_case_1_a_report_from_before_the_create_does_not_lose_the_attempt(ledger: Ledger) -> None:
    reserve(ledger)
    ledger.create_answered(a_pod(), 10)

    report(ledger, 1)

    assert reconciled(ledger) == SIZE


def test_case_2_a_report_that_overtakes_the_answer_does_not_count_twice(ledger: Ledger) -> None:
    reserve(ledger)
    report(ledger, 1, X)
    assert reconciled(ledger) == SIZE

    ledger.create_answered(a_pod(), 10)
    ledger.pod_observed(a_pod())

    assert reconciled(ledger) == SIZE


def test_case_3_a_delete_answered_after_the_exit_was_reported_subtracts_nothing_twice(ledger: Ledger) -> None:
    report(ledger, 1, X, "foreign.1")
    ledger.pod_observed(a_pod())
    ledger.pod_observed(a_pod("foreign.1", pod_uid="foreign"))
    ledger.pod_ended("pod-1", X, "node-a")
    report(ledger, 2, "foreign.1")

    ledger.delete_answered(X)

    assert optimistic(ledger) == reconciled(ledger) == SIZE


def test_case_15_what_is_listed_at_a_start_is_not_taken_for_new(ledger: Ledger) -> None:
    report(ledger, 1, X)

    ledger.pod_observed(a_pod())

    account = ledger.account(NODE)
    assert optimistic(ledger) == reconciled(ledger) == SIZE
    assert (account.in_progress, account.starting) == (0, 0)


def test_case_18_and_20_no_rule_reads_a_clock() -> None:
    sources = inspect.getsource(ledger_module) + inspect.getsource(account_module)

    assert not any(word in sources for word in ("import time", "datetime", "monotonic(", "reported_at"))


def test_case_18_nothing_is_released_by_time(ledger: Ledger) -> None:
    reserve(ledger)
    ledger.accept_report(a_report(NODE, 1), NOW_S)

    ledger.accept_report(a_report(NODE, 2), NOW_S + 10**9)

    assert held(ledger) == SIZE
    assert ledger.account(NODE).accounted(View.RECONCILED, NOW_S + 10**12) == SIZE


def test_case_19_a_reporter_that_starts_again_goes_on_with_the_survivors(ledger: Ledger) -> None:
    report(ledger, 7, X, "foreign.1")
    ledger.pod_observed(a_pod())

    accepted = ledger.accept_report(
        a_report(NODE, 1, epoch=2, allocated=SIZE, sandboxes={X: SIZE}),
        NOW_S,
    )

    assert accepted
    assert reconciled(ledger) == SIZE


def test_case_19_a_reporter_that_starts_again_and_lists_nothing_frees_no_pod(ledger: Ledger) -> None:
    report(ledger, 7, X, "foreign.1")
    ledger.pod_observed(a_pod())

    ledger.accept_report(a_report(NODE, 1, epoch=2), NOW_S)

    assert reconciled(ledger) == SIZE


@pytest.mark.parametrize(("epoch", "sequence"), [(2, 5), (2, 4), (1, 99)])
def test_a_report_that_is_not_newer_is_dropped(ledger: Ledger, epoch: int, sequence: int) -> None:
    ledger.accept_report(a_report(NODE, 5, epoch=2), NOW_S)

    taken = ledger.accept_report(a_report(NODE, sequence, epoch=epoch, sandboxes={"y.1": SIZE}), NOW_S)

    assert not taken
    assert reconciled(ledger) == ZERO


def test_a_report_of_a_node_that_is_not_known_is_dropped(ledger: Ledger) -> None:
    assert not ledger.accept_report(a_report("nobody"), NOW_S)


def test_a_new_object_is_a_new_history_and_the_old_one_is_retired(ledger: Ledger) -> None:
    assert ledger.accept_report(a_report(NODE, 50, history="old"), NOW_S)

    assert ledger.accept_report(a_report(NODE, 1, history="new"), NOW_S)
    assert not ledger.accept_report(a_report(NODE, 51, history="old"), NOW_S)
    assert ledger.accept_report(a_report(NODE, 2, history="new"), NOW_S)


def test_case_26_an_incomplete_list_moves_the_totals_and_no_member(ledger: Ledger) -> None:
    report(ledger, 1, "foreign.1")

    report(ledger, 2, "foreign.2", "foreign.3", complete=False)

    account = ledger.account(NODE)
    assert set(account.reported_only) == {"foreign.1"}
    assert account.accounted(View.METRICS, NOW_S) == a_size(2_000, 2 * GIB)


def test_case_25_a_sandbox_of_another_replica_counts_by_the_report_until_its_pod_is_seen(ledger: Ledger) -> None:
    report(ledger, 1, X)
    assert reconciled(ledger) == SIZE
    assert held(ledger) == ZERO

    ledger.pod_observed(a_pod())
    assert reconciled(ledger) == held(ledger) == SIZE

    ledger.pod_ended("pod-1", X, "node-a")
    report(ledger, 2, X)
    assert reconciled(ledger) == ZERO


def test_an_attempt_held_on_one_node_does_not_count_on_another_that_lists_it(ledger: Ledger) -> None:
    reserve(ledger)

    report(ledger, 1, X, node_uid=OTHER)

    assert reconciled(ledger, OTHER) == ZERO


def test_a_sandbox_still_listed_by_the_third_report_after_its_end_is_a_zombie(ledger: Ledger) -> None:
    ledger.pod_observed(a_pod())
    ledger.pod_ended("pod-1", X, "node-a")
    account = ledger.account(NODE)

    report(ledger, 1, X)
    report(ledger, 2, X)
    assert (account.zombies, reconciled(ledger)) == (0, ZERO)

    report(ledger, 3, X)
    assert (account.zombies, reconciled(ledger)) == (1, SIZE)

    ledger.pod_ended("pod-1", X, "node-a")  # its object goes only now
    assert (account.zombies, reconciled(ledger)) == (1, SIZE)

    report(ledger, 4)
    assert (account.zombies, reconciled(ledger)) == (0, ZERO)


def test_a_zombie_whose_pod_shows_up_again_is_none(ledger: Ledger) -> None:
    ledger.pod_ended("pod-1", X, "node-a")
    for sequence in (1, 2, 3):
        report(ledger, sequence, X)

    ledger.pod_observed(a_pod())

    assert ledger.account(NODE).zombies == 0
    assert reconciled(ledger) == SIZE


def test_a_tombstone_outlives_one_absence_and_not_two(ledger: Ledger) -> None:
    ledger.pod_ended("pod-1", X, "node-a")
    report(ledger, 1)
    report(ledger, 2, X)
    assert reconciled(ledger) == ZERO

    report(ledger, 3)
    assert X in ledger.account(NODE).tombstones

    report(ledger, 4)
    assert X not in ledger.account(NODE).tombstones


def test_an_incomplete_list_is_no_absence(ledger: Ledger) -> None:
    ledger.pod_ended("pod-1", X, "node-a")

    for sequence in (1, 2, 3):
        report(ledger, sequence, complete=False)

    assert X in ledger.account(NODE).tombstones


def test_case_28_all_tombstones_go_at_once_when_all_have_expired(ledger: Ledger) -> None:
    for number in range(5):
        ledger.pod_ended(f"pod-{number}", f"sandbox-{number}.1", "node-a")

    report(ledger, 1)
    report(ledger, 2)

    assert not ledger.account(NODE).tombstones


# --- the optimistic sum ---


def test_every_add_has_its_remove_without_a_report_in_between(ledger: Ledger) -> None:
    report(ledger, 1, "foreign.1")
    reserve(ledger)
    assert optimistic(ledger) == a_size(2_000, 2 * GIB)
    ledger.create_answered(a_pod(), 10)
    ledger.create_answered(a_pod(), 10)
    ledger.pod_observed(a_pod())
    assert optimistic(ledger) == a_size(2_000, 2 * GIB)

    ledger.delete_answered(X)
    ledger.delete_answered(X)
    assert optimistic(ledger) == SIZE
    assert held(ledger) == SIZE

    ledger.pod_ended("pod-1", X, "node-a")
    ledger.pod_ended("pod-1", X, "node-a")
    assert optimistic(ledger) == SIZE
    assert held(ledger) == ZERO


@pytest.mark.parametrize("end", ["ended", "passed", "absent", "deleted"])
def test_case_6_every_way_to_end_removes_optimistically(ledger: Ledger, end: str) -> None:
    report(ledger, 1, "foreign.1")
    reserve(ledger)
    ledger.create_answered(a_pod(), 10)

    match end:
        case "ended":
            ledger.pod_ended("pod-1", X, "node-a")
        case "passed":
            ledger.pods_passed(10)
        case "absent":
            ledger.attempt_absent(X)
        case _:
            ledger.delete_answered(X)

    assert optimistic(ledger) == SIZE


def test_a_resize_between_add_and_remove_leaves_nothing_behind(ledger: Ledger) -> None:
    report(ledger, 1, "foreign.1")
    reserve(ledger)
    ledger.create_answered(a_pod(), 10)
    ledger.pod_observed(a_pod(nominal=a_size(3_000, 2 * GIB)))
    assert optimistic(ledger) == a_size(4_000, 3 * GIB)

    ledger.pod_ended("pod-1", X, "node-a")

    assert optimistic(ledger) == SIZE


def test_each_report_starts_the_optimistic_sum_anew(ledger: Ledger) -> None:
    report(ledger, 1)
    reserve(ledger)
    ledger.create_answered(a_pod(), 10)

    report(ledger, 2, X)

    assert optimistic(ledger) == SIZE


def test_case_4_a_remove_that_a_report_took_in_already_stops_at_zero(ledger: Ledger) -> None:
    report(ledger, 1)
    ledger.pod_observed(a_pod())

    ledger.pod_ended("pod-1", X, "node-a")

    assert optimistic(ledger) == ZERO


def test_case_5_one_resource_at_zero_does_not_hold_back_the_other(ledger: Ledger) -> None:
    ledger.accept_report(a_report(NODE, 1, allocated=Resources(5_000, 1)), NOW_S)
    ledger.pod_observed(a_pod())

    ledger.pod_ended("pod-1", X, "node-a")

    assert optimistic(ledger) == Resources(4_000, 0)


def test_a_pod_that_another_operator_made_is_not_added(ledger: Ledger) -> None:
    report(ledger, 1)

    ledger.pod_observed(a_pod())

    assert optimistic(ledger) == ZERO
    assert reconciled(ledger) == SIZE


def test_verify_finds_a_sum_that_drifted(ledger: Ledger) -> None:
    reserve(ledger)
    account: Account = ledger.account(NODE)
    account.held_cpu += 1

    with pytest.raises(LedgerError, match="held"):
        ledger.verify()
