"""Pods and answers in every order: every attempt counts once, from its reservation to the evidence of its end.

"Case n" refers to the faults of other systems that these tests keep out.
"""

from collections.abc import Callable
from itertools import permutations

import pytest

from sandberth.core.ledger import Ledger
from sandberth.core.resources import ZERO
from tests.builders import GIB, a_pod, a_size
from tests.unit.ledger.books import NODE, OTHER, SIZE, X, held, optimistic, reconciled, report, reserve


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


# --- Pods that are bound after they were made ---


def test_a_pinned_pod_that_is_bound_elsewhere_takes_its_room_along(ledger: Ledger) -> None:
    reserve(ledger)
    ledger.create_answered(a_pod(), 5)

    ledger.pod_observed(a_pod(node_name="node-b"))

    assert held(ledger) == ZERO
    assert held(ledger, OTHER) == SIZE


def test_an_answer_that_is_older_than_the_binding_moves_nothing_back(ledger: Ledger) -> None:
    reserve(ledger)
    ledger.pod_observed(a_pod(node_name="node-b"))

    ledger.create_answered(a_pod(), 5)

    assert held(ledger) == ZERO
    assert held(ledger, OTHER) == SIZE


def test_the_end_of_a_pod_is_remembered_where_it_ended_although_it_was_never_seen_there(ledger: Ledger) -> None:
    ledger.pod_observed(a_pod())

    for _ in range(2):
        ledger.pod_ended("pod-1", X, "node-b")

    assert held(ledger) == ZERO
    assert not ledger.account(NODE).tombstones
    report(ledger, 1, X, node_uid=OTHER)
    assert reconciled(ledger, OTHER) == ZERO


@pytest.mark.parametrize("outcome", ["refused", "ended too"])
def test_the_end_of_a_pod_elsewhere_ends_nothing_where_the_create_is_aimed(ledger: Ledger, outcome: str) -> None:
    """Another process had the Pod made there; what the node here lists of the attempt runs, and counts."""
    reserve(ledger)
    ledger.pod_observed(a_pod(pod_uid="of another", node_name="node-b"))
    ledger.pod_ended("of another", X, "node-b")

    if outcome == "refused":
        ledger.release(X)
    else:
        ledger.pods_passed(20)
        ledger.create_answered(a_pod(pod_uid="of another", node_name="node-b"), 10)
    report(ledger, 2, X)

    assert (held(ledger), reconciled(ledger)) == (ZERO, SIZE)
    ledger.verify()
