"""One account: its four sums, ports and small figures."""

import pytest

from sandberth.core.account import MAX_TOMBSTONES, Account, Holding
from sandberth.core.ledger import Ledger
from sandberth.core.report import Freshness
from sandberth.core.resources import ZERO, Requests, Resources
from sandberth.core.views import View
from tests.builders import GIB, NOW_S, a_pod, a_report, a_size, some_requests

NODE = "uid-of-node-a"


@pytest.fixture
def ledger() -> Ledger:
    ledger = Ledger()
    ledger.node_appeared(NODE, "node-a")
    return ledger


@pytest.fixture
def account(ledger: Ledger) -> Account:
    return ledger.account(NODE)


def sums(account: Account, now_s: float = NOW_S) -> dict[View, int]:
    return {view: account.accounted(view, now_s).cpu_millicores for view in View}


def test_each_view_adds_what_its_name_says(ledger: Ledger, account: Account) -> None:
    ledger.pod_observed(a_pod("old.1", pod_uid="old", nominal=a_size(100)))
    ledger.accept_report(a_report(NODE, allocated=a_size(700), sandboxes={"old.1": a_size(100)}), NOW_S)
    ledger.reserve("pending.1", NODE, a_size(20), some_requests(a_size(20)))
    ledger.reserve("made.1", NODE, a_size(3), some_requests(a_size(3)))
    ledger.create_answered(a_pod("made.1", pod_uid="made", nominal=a_size(3)), 5)

    assert sums(account) == {
        View.METRICS: 700,
        View.IN_PROGRESS: 720,
        View.OPTIMISTIC: 723,
        View.RECONCILED: 123,
    }


def test_memory_moves_with_cpu_in_every_view(ledger: Ledger, account: Account) -> None:
    ledger.accept_report(a_report(NODE, allocated=Resources(0, 7)), NOW_S)
    ledger.reserve("pending.1", NODE, Resources(0, 20), Requests())

    assert account.accounted(View.OPTIMISTIC, NOW_S) == Resources(0, 27)
    assert account.accounted(View.RECONCILED, NOW_S) == Resources(0, 20)


@pytest.mark.parametrize("view", list(View))
def test_without_a_report_every_view_is_the_reconciled_one(ledger: Ledger, account: Account, view: View) -> None:
    ledger.pod_observed(a_pod())

    assert account.accounted(view, NOW_S) == a_size()


@pytest.mark.parametrize("view", list(View))
def test_with_a_stale_report_every_view_is_the_reconciled_one(ledger: Ledger, account: Account, view: View) -> None:
    ledger.accept_report(a_report(NODE, allocated=a_size(9_000)), NOW_S)
    ledger.pod_observed(a_pod())

    assert account.accounted(view, NOW_S + 201) == a_size()
    assert (account.accounted(view, NOW_S + 200) == a_size()) == (view is View.RECONCILED)


def test_reading_a_view_changes_nothing(ledger: Ledger, account: Account) -> None:
    ledger.accept_report(a_report(NODE, sandboxes={"foreign.1": a_size()}), NOW_S)
    ledger.reserve("pending.1", NODE, a_size(), some_requests(a_size()))
    before = repr(account)

    sums(account)
    sums(account, NOW_S + 10_000)

    assert repr(account) == before


def test_usage_counts_while_the_report_is_fresh(ledger: Ledger, account: Account) -> None:
    assert account.figures.projected_cpu(NOW_S) == 0
    ledger.accept_report(a_report(NODE, used=a_size(800)), NOW_S)

    assert [account.figures.projected_cpu(NOW_S + age) for age in (0, 60, 60.1)] == [800, 800, 0]


def test_usage_that_was_not_reported_counts_as_none(ledger: Ledger, account: Account) -> None:
    ledger.accept_report(a_report(NODE, used=None), NOW_S)

    assert account.figures.projected_cpu(NOW_S) == 0


def test_age_and_freshness_go_by_our_own_clock_since_the_report_was_seen(ledger: Ledger, account: Account) -> None:
    assert (account.freshness(NOW_S), account.report_age_seconds(NOW_S)) == (Freshness.NO_REPORT, None)

    ledger.accept_report(a_report(NODE), NOW_S)

    assert account.report_age_seconds(NOW_S + 30) == 30
    assert account.freshness(NOW_S + 30) is Freshness.FRESH


def test_unconfirmed_counts_created_attempts_that_the_report_does_not_list(ledger: Ledger, account: Account) -> None:
    ledger.reserve("pending.1", NODE, ZERO, Requests())
    ledger.pod_observed(a_pod("listed.1", pod_uid="p1"))
    ledger.pod_observed(a_pod("unlisted.1", pod_uid="p2"))
    ledger.pod_observed(a_pod(None, pod_uid="p3"))
    assert account.unconfirmed() == 2

    ledger.accept_report(a_report(NODE, sandboxes={"listed.1": a_size()}), NOW_S)

    assert account.unconfirmed() == 1


@pytest.mark.parametrize(
    ("taken", "asked", "clash"),
    [
        (("0.0.0.0", "TCP", 80), ("0.0.0.0", "TCP", 80), True),
        (("0.0.0.0", "TCP", 80), ("10.0.0.1", "TCP", 80), True),
        (("10.0.0.1", "TCP", 80), ("0.0.0.0", "TCP", 80), True),
        (("10.0.0.1", "TCP", 80), ("10.0.0.1", "TCP", 80), True),
        (("10.0.0.1", "TCP", 80), ("10.0.0.2", "TCP", 80), False),
        (("0.0.0.0", "TCP", 80), ("0.0.0.0", "UDP", 80), False),
        (("0.0.0.0", "TCP", 80), ("0.0.0.0", "TCP", 81), False),
    ],
)
def test_host_ports_clash_on_one_address_or_the_wildcard(
    ledger: Ledger, account: Account, taken: tuple[str, str, int], asked: tuple[str, str, int], clash: bool
) -> None:
    ledger.pod_observed(a_pod(requests=Requests(host_ports=(taken,))))

    assert account.host_port_taken(*asked) is clash


def test_a_host_port_is_free_when_its_last_pod_has_gone(ledger: Ledger, account: Account) -> None:
    requests = Requests(host_ports=(("0.0.0.0", "TCP", 80),))
    ledger.pod_observed(a_pod("a.1", pod_uid="p1", requests=requests))
    ledger.pod_observed(a_pod("b.1", pod_uid="p2", requests=requests))

    ledger.pod_ended("p1", "a.1", "node-a")
    assert account.host_port_taken("0.0.0.0", "TCP", 80)

    ledger.pod_ended("p2", "b.1", "node-a")
    assert not account.host_port_taken("0.0.0.0", "TCP", 80)
    assert account.host_ports == {}


def test_changes_grow_when_room_may_have_come_free_and_not_when_it_is_taken(ledger: Ledger, account: Account) -> None:
    ledger.pod_observed(a_pod())
    ledger.pod_observed(a_pod(starting=True))
    assert account.changes == 0

    ledger.pod_observed(a_pod(nominal=a_size(1)))
    ledger.pod_ended("pod-1", "sandbox.1", "node-a")

    assert account.changes == 2


def test_the_oldest_tombstones_go_first() -> None:
    account = Account(NODE, "node-a")

    for number in range(MAX_TOMBSTONES + 2):
        account.bury(f"s.{number}", None)

    assert len(account.tombstones) == MAX_TOMBSTONES
    assert "s.1" not in account.tombstones
    assert "s.2" in account.tombstones


def test_a_removed_holding_gives_back_every_resource() -> None:
    account = Account(NODE, "node-a")
    requests = Requests(5, 6, 7, (("vendor/gpu", 2),), (("0.0.0.0", "TCP", 80),))
    holding = Holding("s.1", "s.1", "node-a", a_size(8, 9 * GIB), requests, starting=True, answered=False)
    account.add(holding)
    assert (account.requested_cpu, account.requested_memory, account.requested_ephemeral_storage) == (5, 6, 7)
    assert account.requested_extended["vendor/gpu"] == 2
    assert (account.in_progress_cpu, account.in_progress_memory) == (8, 9 * GIB)

    account.remove(holding)

    assert (account.requested_cpu, account.requested_memory, account.requested_ephemeral_storage) == (0, 0, 0)
    assert account.requested_extended["vendor/gpu"] == 0
    assert (account.in_progress_cpu, account.in_progress_memory, account.in_progress) == (0, 0, 0)
    assert (account.held, account.starting, account.sandboxes) == (ZERO, 0, 0)
