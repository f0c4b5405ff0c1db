"""Reports: their order, and how long they are trusted."""

import pytest

from sandberth.core.report import Freshness
from tests.builders import a_report


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
    report = a_report(interval_seconds=20.0)

    assert report.freshness(age_seconds) is freshness


def test_each_report_is_aged_by_its_own_interval() -> None:
    assert a_report(interval_seconds=1.0).freshness(11.0) is Freshness.STALE
    assert a_report(interval_seconds=60.0).freshness(11.0) is Freshness.FRESH


@pytest.mark.parametrize("interval_seconds", [0.0, -5.0])
def test_an_interval_that_makes_no_sense_counts_as_one_second(interval_seconds: float) -> None:
    report = a_report(interval_seconds=interval_seconds)

    assert report.freshness(3.0) is Freshness.FRESH
    assert report.freshness(10.5) is Freshness.STALE


def test_the_epoch_goes_before_the_sequence() -> None:
    assert a_report(epoch=2, sequence=1).version > a_report(epoch=1, sequence=9).version
    assert a_report(epoch=1, sequence=10).version > a_report(epoch=1, sequence=9).version
