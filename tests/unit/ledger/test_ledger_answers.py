"""Reservations and the answers to creates.

"Case n" refers to the faults of other systems that these tests keep out.
"""

import pytest

from sandberth.core.errors import LedgerError
from sandberth.core.ledger import Ledger
from sandberth.core.resources import ZERO
from tests.builders import a_pod, a_size
from tests.unit.ledger.books import NODE, OTHER, SIZE, X, held, report, reserve


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
