"""Best-of-K: draw K eligible nodes, score them by load, take the best, and reserve its room in the same step.

Source: E2B's placement (e2b-dev/infra, placement_best_of_K), with a fit check that no flag can switch off.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from operator import itemgetter
from random import Random
from types import MappingProxyType
from typing import NamedTuple

from sandberth.core.constraints import Rejection
from sandberth.core.figures import Figures, unpack
from sandberth.core.fit import Ask, shortage
from sandberth.core.fleet import Fleet, Node
from sandberth.core.sampling import Sampler
from sandberth.core.views import View

MAX_CANDIDATES = 10


@dataclass(frozen=True, slots=True)
class Parameters:
    """The knobs of a decision as plain values; `sample_size` None compares all eligible nodes."""

    sample_size: int | None = 3
    overcommit_percent: int = 400
    alpha_percent: int = 50
    view: View = View.METRICS
    starting_cap: int | None = None  # None: no cap; a node's own maxStarting replaces the number
    sampler: Sampler = Sampler.UNIFORM
    projected_usage: bool = False


class Candidate(NamedTuple):
    """One node as it was compared. `accounted_cpu` is in millicores; the lowest score wins."""

    node: Node
    score: float
    accounted_cpu: int
    in_progress: int
    report_age_seconds: float | None


class Decision(NamedTuple):
    """Why this node, or why none: how many were `compared`, and how many passed over for what.

    `candidates` are the best of those compared, best first, at most MAX_CANDIDATES.
    `rejected` counts the nodes that were looked at: all of them where none was chosen.
    `preferred` is None without a preferred node, else whether it was taken.
    """

    chosen: Candidate | None
    candidates: tuple[Candidate, ...] = ()
    compared: int = 0
    rejected: Mapping[Rejection, int] = MappingProxyType({})
    second_choice: bool = False
    preferred: bool | None = None
    preferred_rejection: Rejection | None = None  # with preferred False: None means that no such node exists


def place(
    fleet: Fleet,
    attempt_id: str,
    ask: Ask,
    *,
    excluded: frozenset[str] = frozenset(),
    parameters: Parameters,
    rng: Random,
    now_s: float,
) -> Decision:
    """Choose a node and reserve its room as one step: no await, so nobody can choose in between."""
    decision = choose(fleet, ask, excluded=excluded, parameters=parameters, rng=rng, now_s=now_s)
    if decision.chosen is not None:
        node = decision.chosen.node
        requests = ask.requests_at(node.overcommit_percent(parameters.overcommit_percent))
        fleet.ledger.reserve(attempt_id, node.facts.uid, ask.nominal, requests)
    return decision


def choose(
    fleet: Fleet,
    ask: Ask,
    *,
    excluded: frozenset[str] = frozenset(),
    parameters: Parameters,
    rng: Random,
    now_s: float,
) -> Decision:
    """Return the best of K eligible nodes; `excluded` holds UIDs of nodes that this Sandbox must not try now."""
    preferred: bool | None = None
    preferred_rejection: Rejection | None = None
    if ask.preferred_node is not None:
        wanted, preferred_rejection = _preferred(fleet, ask, excluded, parameters)
        if wanted is not None:
            candidates = _best([wanted], fleet, ask, parameters, now_s)
            return Decision(candidates[0], candidates, 1, second_choice=wanted[1].expired(now_s), preferred=True)
        preferred = False
    rejected = {why: count for why, count in fleet.barred.items() if count}
    # Where all nodes are compared, how they are picked makes no difference.
    sampler = Sampler.UNIFORM if parameters.sample_size is None else parameters.sampler
    may_be_ruled_out = ask.constraints.selective or bool(excluded)
    for pool in (fleet.fresh, fleet.second_choice):
        outdated: list[Node] = []
        eligible: list[tuple[Node, Figures]] = []
        for node in pool.sample(sampler, rng):
            why = _ruled_out(node, ask, excluded) if may_be_ruled_out or node.tainted else None
            if why is None:
                figures = unpack(node.account.block)
                if pool is fleet.fresh and figures.expired(now_s):
                    outdated.append(node)
                    continue
                why = _full(node, figures, ask, parameters)
            if why is not None:
                rejected[why] = rejected.get(why, 0) + 1  # and the node does not use up one of the K
                continue
            eligible.append((node, figures))
            if len(eligible) == parameters.sample_size:
                break
        for node in outdated:
            fleet.demote(node)
        if eligible:
            candidates = _best(eligible, fleet, ask, parameters, now_s)
            if sampler is Sampler.DECK and len(candidates) > 1:
                pool.remember(candidates[1].node, len(eligible))
            second_choice = pool is fleet.second_choice
            return Decision(
                candidates[0], candidates, len(eligible), rejected, second_choice, preferred, preferred_rejection
            )
    return Decision(None, rejected=rejected, preferred=preferred, preferred_rejection=preferred_rejection)


def _preferred(
    fleet: Fleet, ask: Ask, excluded: frozenset[str], parameters: Parameters
) -> tuple[tuple[Node, Figures] | None, Rejection | None]:
    """Return the preferred node where it is eligible, else why it is not; neither where no such node exists."""
    node = None if ask.preferred_node is None else fleet.by_name(ask.preferred_node)
    if node is None:
        return None, None
    why = rejection(node, ask, excluded, parameters)
    return (None, why) if why is not None else ((node, node.account.figures), None)


def rejection(node: Node, ask: Ask, excluded: frozenset[str], parameters: Parameters) -> Rejection | None:
    """Return why `node` cannot take `ask` now, or None where it is eligible."""
    return node.barred or _ruled_out(node, ask, excluded) or _full(node, node.account.figures, ask, parameters)


def _ruled_out(node: Node, ask: Ask, excluded: frozenset[str]) -> Rejection | None:
    if excluded and node.facts.uid in excluded:
        return Rejection.EXCLUDED
    return ask.constraints.rejection(node.facts)


def _full(node: Node, figures: Figures, ask: Ask, parameters: Parameters) -> Rejection | None:
    settings = node.settings
    if settings.max_sandboxes is not None and node.account.sandboxes >= settings.max_sandboxes:
        return Rejection.MAX_SANDBOXES
    if parameters.starting_cap is not None:
        cap = parameters.starting_cap if settings.max_starting is None else settings.max_starting
        if node.account.starting >= cap:
            return Rejection.STARTING
    return shortage(node, ask, node.overcommit_percent(parameters.overcommit_percent), figures)


def _best(
    eligible: list[tuple[Node, Figures]], fleet: Fleet, ask: Ask, parameters: Parameters, now_s: float
) -> tuple[Candidate, ...]:
    """Return the nodes with the lowest scores, best first.

    The order of `eligible` is random and the sort is stable, so the first of equal scores is a random one.
    """
    usage_fraction = fleet.ledger.usage_fraction if parameters.projected_usage else 0.0
    scored: list[tuple[float, float, Node, Figures]] = []
    for node, figures in eligible:
        accounted = figures.accounted_cpu(parameters.view, now_s)
        load = score(
            ask.nominal.cpu_millicores,
            accounted,
            figures.projected_cpu(now_s, usage_fraction),
            figures.allocatable_cpu,
            alpha_percent=parameters.alpha_percent,
            overcommit_percent=node.overcommit_percent(parameters.overcommit_percent),
        )
        scored.append((load, accounted, node, figures))
    scored.sort(key=itemgetter(0))
    return tuple(
        Candidate(node, load, int(accounted), int(figures.in_progress), figures.report_age_seconds(now_s))
        for load, accounted, node, figures in scored[:MAX_CANDIDATES]
    )


def score(
    asked_cpu: int,
    accounted_cpu: float,
    used_cpu: float,
    allocatable_cpu: float,
    *,
    alpha_percent: int,
    overcommit_percent: int,
) -> float:
    """Return (asked + accounted + alpha x used) / (R x allocatable), all in millicores; lower is emptier.

    Raises ZeroDivisionError for a node without CPU: such a node is never drawn.
    """
    load = 100 * (asked_cpu + accounted_cpu) + alpha_percent * used_cpu
    return load / (overcommit_percent * allocatable_cpu)
