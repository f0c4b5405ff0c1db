"""Nodes that come, go, and come back under their name.

"Case n" refers to the faults of other systems that these tests keep out.
"""

import pytest

from sandberth.core.ledger import Ledger
from sandberth.core.resources import ZERO
from tests.builders import GIB, NOW_S, a_pod, a_report, a_size
from tests.unit.ledger.books import NODE, OTHER, SIZE, X, held, reserve


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
