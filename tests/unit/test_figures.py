"""The block of numbers that a decision reads: always the account's, and good for any number."""

from random import Random

import pytest

from sandberth.core.account import Account
from sandberth.core.errors import LedgerError
from sandberth.core.figures import Figures, pack, unpack
from sandberth.core.ledger import Ledger
from sandberth.core.placement import Parameters, choose, place
from sandberth.core.resources import Requests, Resources
from sandberth.core.sampling import Sampler
from sandberth.core.views import View
from tests.builders import NOW_S, a_fleet, a_node, a_pod, a_report, a_size, an_ask, hold

NODE = "uid-of-node-a"


def test_figures_come_out_of_a_block_as_they_went_in() -> None:
    figures = Figures(*range(len(Figures._fields)))

    assert unpack(pack(*figures)) == figures


def test_a_new_account_has_no_report_and_no_room() -> None:
    figures = Account("uid", "node").figures

    assert figures == Figures()
    assert figures.expired(-1e12)
    assert figures.report_age_seconds(NOW_S) is None
    assert figures.projected_cpu(NOW_S, 1.0) == 0


@pytest.mark.parametrize("view", list(View))
def test_figures_say_of_every_view_what_the_account_says(view: View) -> None:
    fleet = a_fleet(a_node())
    ledger = fleet.ledger
    hold(fleet, "node-a", pod_uid="foreign", nominal=a_size(70))
    ledger.accept_report(a_report(sequence=2, allocated=a_size(700), sandboxes={"gone.1": a_size(9)}), NOW_S)
    ledger.reserve("open.1", NODE, a_size(20), Requests(5, 5))
    ledger.create_answered(a_pod("made.1", pod_uid="made", nominal=a_size(3)), 5)
    ledger.delete_answered("made.1")
    account = ledger.account(NODE)

    for now_s in (NOW_S, NOW_S + 201):
        assert account.figures.accounted_cpu(view, now_s) == account.accounted(view, now_s).cpu_millicores


def test_requests_beyond_any_machine_end_no_decision_and_are_given_back_exactly() -> None:
    """A quantity has up to 64 digits and as many more by its exponent."""
    fleet = a_fleet(a_node("n0"), a_node("n1"))
    before = fleet.ledger.account("uid-of-n0").figures
    huge = 10**130 + 1
    pod = a_pod(None, pod_uid="huge", node_name="n0", nominal=Resources(huge, huge), requests=Requests(huge, huge))
    fleet.ledger.pod_observed(pod)

    decision = choose(fleet, an_ask(), parameters=Parameters(None), rng=Random(0), now_s=NOW_S)

    assert decision.chosen is not None
    assert decision.chosen.node.facts.name == "n1"
    fleet.ledger.pod_ended("huge", None, "n0")
    assert fleet.ledger.account("uid-of-n0").figures == before


def test_verify_finds_a_block_that_was_not_made_anew() -> None:
    ledger = Ledger()
    account = ledger.node_appeared(NODE, "node-a")
    old = account.block
    ledger.pod_observed(a_pod())

    account.block = old

    with pytest.raises(LedgerError, match="out of date"):
        ledger.verify()


@pytest.mark.parametrize("sampler", list(Sampler))
def test_a_decision_follows_the_one_before_it(sampler: Sampler) -> None:
    fleet, parameters = a_fleet(a_node("n0"), a_node("n1")), Parameters(2, view=View.RECONCILED, sampler=sampler)

    for number in range(6):
        place(fleet, f"box-{number}.1", an_ask(), parameters=parameters, rng=Random(number), now_s=NOW_S)

    assert [account.figures.pods for account in fleet.ledger.accounts()] == [3, 3]
