"""Best-of-K: draw K eligible nodes, score them by load, take the best, and reserve its room in the same step.

Source: E2B's placement (e2b-dev/infra, placement_best_of_K), with a fit check that no flag can switch off.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from operator import itemgetter
from random import Random

from sandberth.core.account import View
from sandberth.core.constraints import Rejection
from sandberth.core.fit import Ask, shortage
from sandberth.core.fleet import Fleet, Node
from sandberth.core.sampling import Sampler

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


@dataclass(frozen=True, slots=True)
class Candidate:
    """One node as it was compared. `accounted_cpu` is in millicores; the lowest score wins."""

    node: Node
    score: float
    accounted_cpu: int
    in_progress: int
    report_age_seconds: float | None


@dataclass(frozen=True, slots=True)
class Decision:
    """Why this node, or why none: how many were `compared`, and how many passed over for what.

    `candidates` are the best of those compared, best first, at most MAX_CANDIDATES.
    `rejected` counts the nodes that were looked at: all of them where none was chosen.
    `preferred` is None without a preferred node, else whether it was taken.
    """

    chosen: Candidate | None
    candidates: tuple[Candidate, ...] = ()
    compared: int = 0
    rejected: Mapping[Rejection, int] = field(default_factory=dict)
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
        node = fleet.by_name(ask.preferred_node)
        preferred_rejection = None if node is None else rejection(node, ask, excluded, parameters)
        preferred = node is not None and preferred_rejection is None
        if node is not None and preferred:
            candidates = _best([node], fleet, ask, parameters, now_s)
            second_choice = fleet.expired(node, now_s)
            return Decision(candidates[0], candidates, 1, second_choice=second_choice, preferred=True)
    rejected = {why: count for why, count in fleet.barred.items() if count}
    # Where all nodes are compared, how they are picked makes no difference.
    sampler = Sampler.UNIFORM if parameters.sample_size is None else parameters.sampler
    for pool in (fleet.fresh, fleet.second_choice):
        outdated: list[Node] = []
        nodes: list[Node] = []
        for node in pool.sample(sampler, rng):
            if pool is fleet.fresh and fleet.expired(node, now_s):
                outdated.append(node)
            elif (why := rejection(node, ask, excluded, parameters)) is not None:
                rejected[why] = rejected.get(why, 0) + 1  # and the node does not use up one of the K
            else:
                nodes.append(node)
                if len(nodes) == parameters.sample_size:
                    break
        for node in outdated:
            fleet.demote(node)
        if nodes:
            candidates = _best(nodes, fleet, ask, parameters, now_s)
            return Decision(
                candidates[0],
                candidates,
                len(nodes),
                rejected,
                pool is fleet.second_choice,
                preferred,
                preferred_rejection,
            )
    return Decision(None, rejected=rejected, preferred=preferred, preferred_rejection=preferred_rejection)


def rejection(node: Node, ask: Ask, excluded: frozenset[str], parameters: Parameters) -> Rejection | None:
    """Return why `node` cannot take `ask` now, or None where it is eligible."""
    if node.barred is not None:
        return node.barred
    if excluded and node.facts.uid in excluded:
        return Rejection.EXCLUDED
    if (why := ask.constraints.rejection(node.facts)) is not None:
        return why
    settings, account = node.settings, node.account
    if settings.max_sandboxes is not None and account.sandboxes >= settings.max_sandboxes:
        return Rejection.MAX_SANDBOXES
    if parameters.starting_cap is not None:
        cap = parameters.starting_cap if settings.max_starting is None else settings.max_starting
        if account.starting >= cap:
            return Rejection.STARTING
    return shortage(node, ask, node.overcommit_percent(parameters.overcommit_percent))


def _best(nodes: list[Node], fleet: Fleet, ask: Ask, parameters: Parameters, now_s: float) -> tuple[Candidate, ...]:
    """Return the nodes with the lowest scores, best first.

    The order of `nodes` is random and the sort is stable, so the first of equal scores is a random one.
    """
    usage_fraction = fleet.ledger.usage_fraction if parameters.projected_usage else 0.0
    scored: list[tuple[float, int, Node]] = []
    for node in nodes:
        account = node.account
        accounted = account.accounted_cpu(parameters.view, now_s)
        load = score(
            ask.nominal.cpu_millicores,
            accounted,
            account.used_cpu(now_s, usage_fraction),
            node.facts.allocatable.cpu_millicores,
            alpha_percent=parameters.alpha_percent,
            overcommit_percent=node.overcommit_percent(parameters.overcommit_percent),
        )
        scored.append((load, accounted, node))
    scored.sort(key=itemgetter(0))
    return tuple(
        Candidate(node, load, accounted, node.account.in_progress, node.account.report_age_seconds(now_s))
        for load, accounted, node in scored[:MAX_CANDIDATES]
    )


def score(
    asked_cpu: int,
    accounted_cpu: int,
    used_cpu: float,
    allocatable_cpu: int,
    *,
    alpha_percent: int,
    overcommit_percent: int,
) -> float:
    """Return (asked + accounted + alpha x used) / (R x allocatable), all in millicores; lower is emptier.

    Raises ZeroDivisionError for a node without CPU: such a node is never drawn.
    """
    load = 100 * (asked_cpu + accounted_cpu) + alpha_percent * used_cpu
    return load / (overcommit_percent * allocatable_cpu)
