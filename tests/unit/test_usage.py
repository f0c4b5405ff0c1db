"""What usage is projected by, and what comes of it."""

from random import Random

import pytest

from sandberth.core.account import Account
from sandberth.core.ledger import Ledger
from sandberth.core.placement import Parameters, choose
from sandberth.core.report import Report
from sandberth.core.resources import Requests
from sandberth.core.usage import UsageFraction
from sandberth.core.views import View
from tests.builders import NOW_S, a_fleet, a_node, a_pod, a_report, a_size, an_ask, some_requests

NODE = "uid-of-node-a"


@pytest.fixture
def ledger() -> Ledger:
    ledger = Ledger()
    ledger.node_appeared(NODE, "node-a")
    return ledger


@pytest.fixture
def account(ledger: Ledger) -> Account:
    return ledger.account(NODE)


def a_listing(used: int, *attempts: str, sequence: int = 1, allocated: int | None = None) -> Report:
    """Return a report of sandboxes of 1000 millicores each."""
    size = a_size(1_000 * len(attempts) if allocated is None else allocated)
    sandboxes = dict.fromkeys(attempts, a_size(1_000))
    return a_report(NODE, sequence, allocated=size, used=a_size(used), sandboxes=sandboxes)


def hold(ledger: Ledger, *attempts: str) -> None:
    for attempt in attempts:
        ledger.pod_observed(a_pod(attempt, pod_uid=f"pod-of-{attempt}", nominal=a_size(1_000)))


# --- projection ---


def test_what_came_since_the_report_is_taken_to_use_its_share(ledger: Ledger, account: Account) -> None:
    hold(ledger, "a.1", "b.1")
    ledger.accept_report(a_listing(1_200, "a.1", "b.1"), NOW_S)
    ledger.reserve("c.1", NODE, a_size(1_000), some_requests(a_size(1_000)))

    assert account.figures.projected_cpu(NOW_S) == 1_200
    assert account.figures.projected_cpu(NOW_S, 0.5) == 1_200 + 500
    assert account.figures.projected_cpu(NOW_S, 1.0) == 1_200 + 1_000


def test_what_went_since_the_report_no_longer_uses_its_share(ledger: Ledger, account: Account) -> None:
    hold(ledger, "a.1", "b.1")
    ledger.accept_report(a_listing(1_200, "a.1", "b.1"), NOW_S)
    ledger.pod_ended("pod-of-a.1", "a.1", "node-a")

    assert account.figures.projected_cpu(NOW_S, 0.5) == 700


def test_a_projection_is_never_below_nothing(ledger: Ledger, account: Account) -> None:
    hold(ledger, "a.1", "b.1")
    ledger.accept_report(a_listing(100, "a.1", "b.1"), NOW_S)
    ledger.pod_ended("pod-of-a.1", "a.1", "node-a")

    assert account.figures.projected_cpu(NOW_S, 1.0) == 0


def test_with_nothing_changed_the_projection_is_the_reported_usage(ledger: Ledger, account: Account) -> None:
    hold(ledger, "a.1")
    ledger.pod_observed(a_pod(None, pod_uid="foreign", nominal=a_size(3_000)))

    ledger.accept_report(a_listing(700, "a.1", "seen-by-the-node-alone.1", allocated=5_000), NOW_S)

    assert account.figures.projected_cpu(NOW_S, 1.0) == 700


def test_what_a_late_report_has_not_seen_is_projected(ledger: Ledger, account: Account) -> None:
    """Created, and deleted, between the snapshot and its arrival."""
    hold(ledger, "old.1", "young.1")
    ledger.pod_ended("pod-of-old.1", "old.1", "node-a")
    hold(ledger, "younger.1")

    ledger.accept_report(a_listing(900, "old.1"), NOW_S)

    assert account.figures.projected_cpu(NOW_S, 0.5) == 900 - 500 + 500 + 500


def test_a_report_that_lists_not_all_stands_for_its_arrival(ledger: Ledger, account: Account) -> None:
    hold(ledger, "a.1", "b.1")
    ledger.accept_report(a_report(NODE, used=a_size(900), complete=False), NOW_S)
    assert account.figures.projected_cpu(NOW_S, 1.0) == 900

    hold(ledger, "c.1")

    assert account.figures.projected_cpu(NOW_S, 1.0) == 1_900


@pytest.mark.parametrize(("fraction", "used"), [(0.0, 0), (0.5, 1_000), (1.0, 2_000)])
def test_after_three_intervals_the_report_counts_no_more_and_the_share_of_all_that_is_held_does(
    ledger: Ledger, account: Account, fraction: float, used: int
) -> None:
    hold(ledger, "a.1", "b.1")
    ledger.accept_report(a_listing(700, "a.1", "b.1"), NOW_S)

    assert account.figures.projected_cpu(NOW_S + 60.1, fraction) == used


def test_nothing_is_projected_from_a_report_without_usage(ledger: Ledger, account: Account) -> None:
    ledger.accept_report(a_report(NODE), NOW_S)
    hold(ledger, "a.1")

    assert account.figures.projected_cpu(NOW_S, 1.0) == 0


def test_the_flag_makes_the_score_count_the_projection() -> None:
    fleet = a_fleet(*(a_node(f"n{number}") for number in range(2)))
    for number, used in enumerate((900, 1_000)):
        report = a_report(f"uid-of-n{number}", 2, used=a_size(used))
        fleet.accept_report(report, NOW_S)
    fleet.ledger.reserve("s.1", "uid-of-n0", a_size(1_000), Requests())

    def score_of(*, projected: bool) -> float:
        parameters = Parameters(None, view=View.METRICS, projected_usage=projected)
        decision = choose(fleet, an_ask(1_000), parameters=parameters, rng=Random(0), now_s=NOW_S)
        return next(c.score for c in decision.candidates if c.node.facts.name == "n0")

    assert score_of(projected=False) == (1_000 + 450) / 32_000
    assert score_of(projected=True) == (1_000 + 950) / 32_000


# --- learning ---


def learnt(*reports: Report) -> float:
    fraction = UsageFraction()
    for report in reports:
        fraction.learn(report)
    return fraction.value


def test_a_sandbox_is_taken_to_use_all_of_its_size_until_a_report_lists_one() -> None:
    assert learnt() == 1.0
    assert learnt(a_listing(0, allocated=3_000)) == 1.0
    assert learnt(a_report(allocated=a_size(1_000), sandboxes={"a.1": a_size()})) == 1.0


def test_the_first_report_is_taken_at_its_word() -> None:
    assert learnt(a_listing(300, "a.1")) == pytest.approx(0.3)


@pytest.mark.parametrize(("used", "fraction"), [(5_000, 1.0), (-5, 0.0), (0, 0.0)])
def test_the_fraction_stays_between_nothing_and_all(used: int, fraction: float) -> None:
    assert learnt(a_listing(used, "a.1")) == fraction


def test_a_listing_of_nothing_allocated_says_nothing() -> None:
    assert learnt(a_listing(10, "a.1", allocated=0)) == 1.0


def test_full_nodes_say_more_than_nearly_empty_ones() -> None:
    full = a_listing(3_000, *(f"s{number}.1" for number in range(10)))
    empty = a_listing(1_000, "a.1")

    assert learnt(*[full, empty] * 200) == pytest.approx(4_000 / 11_000, rel=0.02)


def test_the_fraction_follows_what_the_reports_say() -> None:
    before, after = a_listing(200, "a.1"), a_listing(600, "a.1")

    values = [learnt(*[before] * 100, *[after] * count) for count in (0, 1, 20, 300)]

    assert values == sorted(values)
    assert values[0] == pytest.approx(0.2)
    assert values[-1] == pytest.approx(0.6)


def test_the_ledger_learns_from_the_reports_that_it_takes(ledger: Ledger) -> None:
    ledger.accept_report(a_listing(300, "a.1", sequence=5), NOW_S)
    ledger.accept_report(a_listing(900, "a.1", sequence=4), NOW_S)

    assert ledger.usage_fraction == pytest.approx(0.3)
