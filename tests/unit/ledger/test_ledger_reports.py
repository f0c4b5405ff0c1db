"""Reports: their order, what they list, tombstones and zombies; and the optimistic sum between two of them.

"Case n" refers to the faults of other systems that these tests keep out.
"""

import inspect

import pytest

from sandberth.core import account as account_module
from sandberth.core import ledger as ledger_module
from sandberth.core.account import Account
from sandberth.core.errors import LedgerError
from sandberth.core.ledger import Ledger
from sandberth.core.resources import ZERO, Resources
from sandberth.core.views import View
from tests.builders import GIB, NOW_S, a_pod, a_report, a_size
from tests.unit.ledger.books import NODE, OTHER, SIZE, X, held, optimistic, reconciled, report, reserve

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
