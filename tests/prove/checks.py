"""The invariants, held against the world and against what the operator can know.

I1 never under, I2 nothing counted twice, I3 nothing counted without a reason, I4 never negative, I7 rest,
I10 one node for each attempt. I5, I6, I8 and I9 are steps of the schedule that check themselves.
"""

from collections.abc import Iterable
from dataclasses import fields
from typing import Any

from sandberth.core.account import Account
from sandberth.core.errors import LedgerError
from sandberth.core.ledger import Ledger
from sandberth.core.resources import Resources
from sandberth.core.views import View
from tests.prove.knowledge import ZOMBIE_AT, Knowledge
from tests.prove.side import Box, Side
from tests.prove.world import Pod, World, total

BESIDE = "reservation of "


class Broken(AssertionError):  # noqa: N818 - an invariant that is
    """An invariant does not hold. `invariant` is its name: I1 is an undercount."""

    def __init__(self, invariant: str, text: str) -> None:
        super().__init__(f"{invariant}: {text}")
        self.invariant = invariant


def check(world: World, side: Side, boxes: Iterable[Box]) -> None:
    """Hold every account against what is true and against what can be known. Raises Broken."""
    known = side.knowledge
    if side.fault is not None:
        raise side.fault
    pending = {box.attempt.attempt_id: box for box in boxes if box.attempt is not None}
    homes: dict[str, str] = {}
    for name, node_uid in known.nodes.items():
        try:
            account = side.ledger.account(node_uid)
        except KeyError:
            raise Broken("I1", f"{node_uid} has no account") from None
        _nothing_without_a_reason(side, account, pending, homes)
        _never_under(world, side, account, pending)
        if account.reported_only:
            for attempt_id in account.reported_only:
                if not known.counts_by_report(node_uid, attempt_id):
                    raise Broken("I3", f"{attempt_id} counts on {name} by a report that must not make it count")
                if attempt_id in account.holdings:
                    raise Broken("I2", f"{attempt_id} counts twice on {name}")


def _nothing_without_a_reason(side: Side, account: Account, pending: dict[str, Box], homes: dict[str, str]) -> None:
    """Check that every holding stands for an open create or a Pod that may live, and that the sums are theirs."""
    cpu = memory = 0
    name = account.node_name
    for key, holding in account.holdings.items():
        if holding.attempt_id is not None and homes.setdefault(holding.attempt_id, name) != name:
            raise Broken("I10", f"{key} holds room on {name} and on {homes[holding.attempt_id]}")
        if holding.pod_uid is None:
            box = pending.get(key.removeprefix(BESIDE))
            asked = None if box is None or box.attempt is None else box.attempt.body["pod"]
            if asked is None or asked.node_name != name:
                raise Broken("I3", f"{key} holds room on {name} without an open create or a Pod")
            size = asked.size
        else:
            pod = side.knowledge.alive(holding.pod_uid)
            if pod is None or pod.node_name != name:
                raise Broken("I3", f"{key} holds room on {name} for a Pod that was seen to end: {holding.pod_uid}")
            size = pod.nominal
        cpu += size.cpu_millicores
        memory += size.memory_bytes
    if (account.held_cpu, account.held_memory) != (cpu, memory):
        raise Broken("I2", f"{name} holds {account.held}, its members are {cpu}, {memory}")
    if account.requested_cpu < 0 or account.requested_memory < 0 or cpu < 0 or memory < 0:
        raise Broken("I4", f"{name} has a negative sum")


def _never_under(world: World, side: Side, account: Account, pending: dict[str, Box]) -> None:
    """Check that what is present, and what may still come, is a member."""
    known, name, keys = side.knowledge, account.node_name, account.holdings
    for pod in world.pods.values():
        if _where(pod, known) != name or pod.terminal or pod.uid in keys or pod.attempt_id in keys:
            continue
        if f"{BESIDE}{pod.attempt_id}" in keys:
            continue
        if pod.expected or pod.uid in known.pods:
            raise Broken("I1", f"{pod.uid} of {pod.attempt_id} is on {name} and holds no room")
    for aimed, box in pending.items():
        if box.attempt is None or box.attempt.body["pod"].node_name != name:
            continue
        if aimed not in keys and BESIDE + aimed not in keys:
            raise Broken("I1", f"the create of {aimed} may still succeed on {name} and holds no room")
    machine = world.machines[name]
    listed = known.lists.get(account.node_uid)
    if listed and machine.uid == account.node_uid:
        for attempt_id, _ in machine.running.values():
            if (
                attempt_id in listed
                and attempt_id not in keys
                and attempt_id not in account.reported_only
                and known.counts_by_report(account.node_uid, attempt_id)
                and (account.node_uid, attempt_id) not in known.overruled
            ):
                raise Broken("I1", f"{attempt_id} runs on {name}, is listed, and does not count")


def _where(pod: Pod, known: Knowledge) -> str:
    """Return the node where a Pod must count: where it was last seen, else where it was to go."""
    shown = known.pods.get(pod.uid)
    return pod.aimed_at if shown is None else shown.node_name


def check_sums(side: Side) -> None:
    """Have the ledger check its own sums; no view is ever negative."""
    try:
        side.ledger.verify()
    except LedgerError as error:
        raise Broken("I2", str(error)) from error
    for account in side.ledger.accounts():
        for view in View:
            amount = account.accounted(view, side.now_s)
            if amount.cpu_millicores < 0 or amount.memory_bytes < 0:
                raise Broken("I4", f"{account.node_name}: {view.value} is {amount}")


def check_rest(world: World, side: Side) -> None:
    """Nothing is under way and every node has just reported: the ledger is the truth, in every view (I7)."""
    check_sums(side)
    ledger = side.ledger
    for account in ledger.accounts():
        machine = world.machines[account.node_name]
        truth = total([size for _, size in machine.running.values()])
        for view in View:
            if account.accounted(view, side.now_s) != truth:
                raise Broken(
                    "I7", f"{machine.name} runs {truth}; {view.value} is {account.accounted(view, side.now_s)}"
                )
        if account.in_progress or (account.tombstones and not account.reported_only):
            raise Broken("I7", f"{machine.name}: something is left: {account}")
        for attempt_id, tombstone in account.tombstones.items():
            if attempt_id not in account.reported_only or tombstone.listed < ZOMBIE_AT:
                raise Broken("I7", f"{machine.name}: the end of {attempt_id} is still remembered")
    if ledger._unseen or any(name in side.knowledge.nodes for name in ledger._homeless):
        raise Broken("I7", "room is held that belongs to nobody")
    live = {uid for uid, pod in world.by_uid.items() if not pod.terminal}
    if set(ledger._pods) != live or any(holding.pod_uid is None for holding in ledger._attempts.values()):
        raise Broken("I7", f"the ledger knows {set(ledger._pods)}, there are {live}")


def picture(ledger: Ledger) -> Any:
    """Return every field of a ledger as plain values that can be compared later."""
    return {
        "accounts": {account.node_uid: _plain(account) for account in ledger.accounts()},
        "node_uids": dict(ledger._node_uids),
        "homeless": {name: {key: _plain(h) for key, h in held.items()} for name, held in ledger._homeless.items()},
        "attempts": {key: id(holding) for key, holding in ledger._attempts.items()},
        "pods": {key: id(holding) for key, holding in ledger._pods.items()},
        "unseen": set(ledger._unseen),
        "passed": ledger._pods_version,
    }


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, set):
        return set(value)
    if hasattr(value, "__dataclass_fields__") and not isinstance(value, Resources):
        return {field.name: _plain(getattr(value, field.name)) for field in fields(value)}
    return value
