"""The decisions about a Lease: who may take it when, by one's own clock alone, and when a holder must be gone."""

import pytest

from sandberth.control.lease import Candidate, Leave, Read, Record, Step, Timing, Wait, Write

TIMING = Timing(15.0)


def a_candidate(identity: str = "me") -> Candidate:
    return Candidate(identity, TIMING)


def a_record(version: int = 1, holder: str = "other", duration: float = 15.0) -> Record:
    return Record(str(version), holder, duration)


def a_leader(at_s: float = 100.0) -> Candidate:
    candidate = a_candidate()
    candidate.seen(None, at_s)
    candidate.written(a_record(1, "me"), at_s)
    return candidate


def step_after_look(candidate: Candidate, record: Record | None, now_s: float) -> Step:
    """Return what a candidate does that has just seen this."""
    step = candidate.next(now_s)
    assert step == Read(), step
    candidate.seen(record, now_s)
    return candidate.next(now_s)


# --- a candidate ---


def test_the_first_thing_is_a_look() -> None:
    assert a_candidate().next(0.0) == Read()


@pytest.mark.parametrize("record", [None, a_record(holder="")])
def test_a_lease_that_is_absent_or_given_up_is_taken_at_once(record: Record | None) -> None:
    assert step_after_look(a_candidate(), record, 50.0) == Write(record)


def test_a_lease_that_somebody_holds_is_looked_at_every_second() -> None:
    candidate = a_candidate()

    assert step_after_look(candidate, a_record(), 50.0) == Wait(1.0)
    assert candidate.next(50.5) == Wait(0.5)
    assert candidate.next(51.0) == Read()


def test_a_lease_expires_when_it_was_seen_unchanged_for_its_duration_and_not_a_moment_earlier() -> None:
    candidate = a_candidate()
    step_after_look(candidate, a_record(), 50.0)

    last = step_after_look(candidate, a_record(), 64.75)

    assert last == Wait(0.25)
    assert step_after_look(candidate, a_record(), 65.0) == Write(a_record())


def test_every_change_starts_the_time_anew_whatever_the_lease_says_about_time() -> None:
    candidate = a_candidate()
    step_after_look(candidate, a_record(1), 50.0)
    step_after_look(candidate, a_record(2), 64.0)

    assert isinstance(step_after_look(candidate, a_record(2), 78.9), Wait)
    assert step_after_look(candidate, a_record(2), 79.0) == Write(a_record(2))


def test_the_duration_that_counts_is_the_holders() -> None:
    candidate = a_candidate()
    step_after_look(candidate, a_record(duration=60.0), 50.0)

    assert isinstance(step_after_look(candidate, a_record(duration=60.0), 109.0), Wait)
    assert isinstance(step_after_look(candidate, a_record(duration=60.0), 110.0), Write)


def test_a_lease_deleted_under_its_holder_is_given_as_long_as_one_that_fell_silent() -> None:
    candidate = a_candidate()
    step_after_look(candidate, a_record(), 50.0)

    assert isinstance(step_after_look(candidate, None, 55.0), Wait)
    assert isinstance(step_after_look(candidate, None, 69.0), Wait)
    assert step_after_look(candidate, None, 70.0) == Write(None)


def test_a_candidate_whose_clock_jumped_looks_before_it_takes_anything() -> None:
    candidate = a_candidate()
    step_after_look(candidate, a_record(1), 50.0)

    assert candidate.next(5000.0) == Read()
    candidate.seen(a_record(2), 5000.0)
    assert candidate.next(5000.0) == Wait(1.0)


def test_one_that_was_faster_is_waited_for() -> None:
    candidate = a_candidate()
    assert isinstance(step_after_look(candidate, a_record(1, ""), 50.0), Write)

    candidate.failed(50.1)

    assert isinstance(candidate.next(50.1), Wait)
    assert step_after_look(candidate, a_record(2, "faster"), 50.6) == Wait(1.0)
    assert not candidate.leads


def test_a_take_without_an_answer_that_was_carried_out_is_done_again_before_it_counts() -> None:
    candidate = a_candidate()
    step_after_look(candidate, a_record(1, ""), 50.0)
    candidate.failed(53.0)

    step = step_after_look(candidate, a_record(2, "me"), 53.5)

    assert step == Write(a_record(2, "me"))
    assert not candidate.leads


# --- a leader ---


def test_a_leader_may_write_for_less_than_the_duration_counted_from_before_it_sent() -> None:
    leader = a_leader(at_s=100.0)

    assert leader.valid_until_s == 100.0 + TIMING.deadline_seconds
    assert TIMING.deadline_seconds < TIMING.duration_seconds


def test_a_leader_renews_over_the_version_that_it_wrote() -> None:
    leader = a_leader(at_s=100.0)

    assert leader.next(100.0) == Wait(2.5)
    assert leader.next(102.5) == Write(a_record(1, "me"))


def test_a_renewal_extends_from_its_own_start() -> None:
    leader = a_leader(at_s=100.0)

    leader.written(a_record(2, "me"), 103.0)

    assert leader.valid_until_s == pytest.approx(115.0)


def test_a_leader_tries_again_until_its_deadline_and_then_leaves() -> None:
    leader = a_leader(at_s=100.0)
    tries = 0

    now_s = 100.0
    while not isinstance(step := leader.next(now_s), Leave):
        if isinstance(step, Wait):
            now_s += step.seconds
        else:
            tries += 1
            now_s += TIMING.call_seconds  # no answer
            leader.failed(now_s)

    assert tries >= 2
    assert now_s < 100.0 + TIMING.deadline_seconds + TIMING.call_seconds


def test_a_leader_never_waits_past_its_deadline() -> None:
    leader = a_leader(at_s=100.0)
    leader.failed(111.75)

    assert leader.next(111.75) == Wait(0.25)
    assert isinstance(leader.next(112.0), Leave)


def test_a_leader_that_wakes_after_its_deadline_leaves_before_anything_else() -> None:
    leader = a_leader(at_s=100.0)

    assert isinstance(leader.next(3600.0), Leave)


@pytest.mark.parametrize("holder", ["other", ""])
def test_a_leader_that_finds_the_lease_with_another_leaves(holder: str) -> None:
    leader = a_leader(at_s=100.0)
    leader.failed(103.0)

    assert isinstance(step_after_look(leader, a_record(9, holder), 103.6), Leave)


def test_a_leader_makes_a_deleted_lease_again() -> None:
    leader = a_leader(at_s=100.0)
    leader.failed(103.0)

    assert step_after_look(leader, None, 103.6) == Write(None)


@pytest.mark.parametrize("duration", [3.0, 5.0, 15.0, 60.0])
def test_a_hung_request_leaves_time_for_another_before_the_deadline(duration: float) -> None:
    timing = Timing(duration)

    second = timing.renew_seconds + timing.call_seconds + timing.retry_seconds

    assert second + duration / 10 <= timing.deadline_seconds
    assert timing.deadline_seconds < duration


def test_two_candidates_never_write_at_the_same_time_whatever_is_lost() -> None:
    """Leader and standby share one clock here only so that the test can compare; neither is told the other's."""
    leader, standby = a_leader(at_s=100.0), a_candidate("other")
    standby.seen(a_record(1, "me"), 100.2)  # the renewal was stored after it was sent, and seen after that

    now_s = 100.2
    while not isinstance(standby.next(now_s), Write):
        now_s += 0.05
        if standby.next(now_s) == Read():
            standby.seen(a_record(1, "me"), now_s)

    assert now_s > leader.valid_until_s
