"""Whole runs: small ones, so that each says one thing about the production ledger in virtual time."""

from dataclasses import replace

import pytest

from sandberth.core.views import View
from sandberth.sim.distributions import fixed, parse_times
from sandberth.sim.engine import Outcome, simulate
from sandberth.sim.scenarios import SCENARIOS
from sandberth.sim.settings import Settings

CHURN = Settings(
    nodes=5,
    duration=90,
    rate=10,
    arrivals="poisson",
    heartbeat_phase="staggered",
    create_latency=parse_times("lognormal:1,0.5"),
    lifetime=parse_times("exp:20"),
    self_exit=0.2,
    report_delay=parse_times("0.5-2"),
    measure_after=30,
)


def run(settings: Settings, view: View = View.RECONCILED, number: int = 0) -> Outcome:
    return simulate(settings, view, number)


@pytest.mark.parametrize("view", View)
@pytest.mark.parametrize(
    "settings",
    [
        Settings(),
        CHURN,
        replace(CHURN, exit_watch_delay=None),
        replace(CHURN, replicas=3, share_delay=fixed(0.1)),
        replace(CHURN, replicas=2),
        replace(CHURN, node_cpu=(4, 2), overcommit=200),
        replace(CHURN, too_many_starting=True, max_starting=1),
    ],
)
def test_every_sandbox_that_was_asked_for_runs_waits_starts_or_has_ended(settings: Settings, view: View) -> None:
    outcome = run(settings, view)

    tally = outcome.tally
    assert tally.asked > 400
    assert sum(outcome.counts) + tally.waiting + tally.starting + tally.ended == tally.asked


def test_where_sandboxes_live_for_ever_the_run_ends_when_all_were_created() -> None:
    outcome = run(replace(Settings(), create_latency=fixed(30)))

    assert sum(outcome.counts) == 500
    assert outcome.tally.starting == 0


@pytest.mark.parametrize("view", View)
def test_the_same_seed_gives_the_same_run_and_another_does_not(view: View) -> None:
    assert run(CHURN, view) == run(CHURN, view)
    assert run(CHURN, view).counts != run(replace(CHURN, seed=1), view).counts


def test_the_herd_is_there_without_accounting_and_gone_with_it() -> None:
    spread = {view: run(Settings(), view).evenness.cv_count for view in View}

    assert spread[View.METRICS] > 0.35
    assert spread[View.IN_PROGRESS] > 0.35
    assert spread[View.OPTIMISTIC] < 0.03
    assert spread[View.RECONCILED] < 0.03


def test_in_progress_counts_where_creates_are_slow() -> None:
    slow = replace(Settings(), create_latency=fixed(1), rate=0, burst=500)

    assert run(slow, View.METRICS).evenness.cv_count > 0.8
    assert run(slow, View.IN_PROGRESS).evenness.cv_count < 0.05


@pytest.mark.parametrize("number", range(3))
def test_the_reconciled_view_never_counts_too_little_and_the_optimistic_one_does(number: int) -> None:
    assert run(CHURN, View.RECONCILED, number).tally.undercount == 0
    assert run(CHURN, View.OPTIMISTIC, number).tally.undercount > 0


@pytest.mark.parametrize("watch", [fixed(0.2), None])
@pytest.mark.parametrize("failures", [0, 2])
def test_it_does_not_whatever_the_watch_and_the_nodes_do(watch: object, failures: int) -> None:
    settings = replace(CHURN, exit_watch_delay=watch, node_failures=failures, failure_detection=5, node_repair=5)  # type: ignore[arg-type]

    assert run(settings).tally.undercount == 0


def test_without_a_watch_ends_are_seen_later_and_more_is_counted_than_is_there() -> None:
    seen, unseen = run(CHURN), run(replace(CHURN, exit_watch_delay=None))

    assert unseen.tally.overcount_max > seen.tally.overcount_max


def test_a_lost_report_leaves_the_optimistic_view_and_none_leaves_it_blind() -> None:
    settings = replace(CHURN, report_loss=1.0)

    assert run(settings, View.METRICS).evenness.cv_allocated > 2 * run(settings).evenness.cv_allocated


def test_replicas_that_do_not_see_each_other_herd_and_count_too_little() -> None:
    blind = run(replace(CHURN, replicas=4, create_latency=fixed(0.01)))
    sharing = run(replace(CHURN, replicas=4, create_latency=fixed(0.01), share_delay=fixed(0.01)))

    assert blind.evenness.cv_allocated > 2 * sharing.evenness.cv_allocated
    assert blind.tally.undercount > sharing.tally.undercount > 0
    assert blind.tally.overcount_max > 2 * sharing.tally.overcount_max


def test_a_full_fleet_refuses_and_what_waits_gets_room_when_some_is_free() -> None:
    full = run(replace(Settings(), nodes=2, node_cpu=(10,), noise=0))
    churning = run(replace(Settings(), nodes=2, node_cpu=(10,), noise=0, lifetime=fixed(5)))

    assert full.counts == (40, 40)
    assert (full.tally.refused, full.tally.waiting) == (420, 420)
    assert churning.tally.ended > 80


def test_a_capped_node_refuses_what_would_start_too_many() -> None:
    capped = replace(Settings(), create_latency=fixed(1), too_many_starting=True, max_starting=1)

    assert run(capped).tally.refused > 100
    assert run(replace(capped, max_starting=100)).tally.refused == 0


def test_what_ran_on_a_node_that_failed_runs_elsewhere_and_the_node_comes_back() -> None:
    settings = replace(Settings(), duration=100, rate=4, node_failures=3, failure_detection=5, node_repair=5)

    outcome = run(replace(settings, seed=2))

    assert outcome.tally.failed > 0
    assert sum(outcome.counts) + outcome.tally.starting == outcome.tally.asked
    assert outcome.tally.undercount == 0
    assert min(outcome.counts) > 0


def test_the_spread_over_time_is_kept_for_the_first_run_alone() -> None:
    assert [moment.seconds for moment in run(Settings()).history] == [float(second) for second in range(26)]
    assert run(Settings(), number=1).history == ()


@pytest.mark.parametrize("name", SCENARIOS)
def test_every_scenario_runs_and_is_as_its_name_says(name: str) -> None:
    settings = SCENARIOS[name].settings(name)

    short = replace(settings, duration=min(settings.duration, 60), nodes=min(settings.nodes, 12))
    outcome = run(replace(short, measure_after=None))

    assert settings.scenario == name
    assert outcome.tally.asked > 0
    assert outcome.evenness.cv_allocated < 0.3


def test_the_defaults_are_those_of_the_flags() -> None:
    from sandberth.flags import Flags  # noqa: PLC0415

    assert Settings().parameters(View.METRICS) == Flags().parameters
