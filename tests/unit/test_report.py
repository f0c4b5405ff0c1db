"""Reports: their order, and how long they are trusted."""

import pytest

from sandberth.core.account import Account
from sandberth.core.report import Freshness
from tests.builders import NOW_S, a_report


def freshness_after(age_seconds: float, interval_seconds: float) -> Freshness:
    account = Account("uid-of-node-a", "node-a")
    account.take_report(a_report(interval_seconds=interval_seconds), NOW_S)
    return account.freshness(NOW_S + age_seconds)


@pytest.mark.parametrize(
    ("age_seconds", "freshness"),
    [
        (0.0, Freshness.FRESH),
        (60.0, Freshness.FRESH),
        (60.1, Freshness.USAGE_EXPIRED),
        (200.0, Freshness.USAGE_EXPIRED),
        (200.1, Freshness.STALE),
        (-1.0, Freshness.FRESH),
    ],
)
def test_usage_expires_after_three_intervals_and_the_report_after_ten(age_seconds: float, freshness: Freshness) -> None:
    assert freshness_after(age_seconds, 20.0) is freshness


def test_each_report_is_aged_by_its_own_interval() -> None:
    assert freshness_after(11.0, 1.0) is Freshness.STALE
    assert freshness_after(11.0, 60.0) is Freshness.FRESH


@pytest.mark.parametrize("interval_seconds", [0.0, -5.0])
def test_an_interval_that_makes_no_sense_counts_as_one_second(interval_seconds: float) -> None:
    assert freshness_after(3.0, interval_seconds) is Freshness.FRESH
    assert freshness_after(10.5, interval_seconds) is Freshness.STALE


def test_the_epoch_goes_before_the_sequence() -> None:
    assert a_report(epoch=2, sequence=1).version > a_report(epoch=1, sequence=9).version
    assert a_report(epoch=1, sequence=10).version > a_report(epoch=1, sequence=9).version
