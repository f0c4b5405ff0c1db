"""What the operator believes every node holds: one set of attempts, counted once each, by ID.

Membership changes on evidence only, never by time:

- a reservation holds room until its create is answered; an unknown outcome keeps it, also when a Pod of the attempt
  has come and gone meanwhile, because a create that was sent twice can make a second one;
- a Pod object bound to the node holds room until it is gone or terminal, whatever a report says;
- an ID that only the last complete report knows holds room unless it is a tombstone (its Pod was seen to end).

The answer to a delete gives nothing back; it moves the optimistic sum alone, as the article has it.
Every map is keyed by UID. Node names are looked up to find the Node that a Pod is bound to, nothing else.

Source: E2B's optimistic accounting (e2b-dev/infra #2201), extended to a set of IDs.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from sandberth.core.account import Account, Holding
from sandberth.core.errors import LedgerError
from sandberth.core.report import Report
from sandberth.core.resources import ZERO, Requests, Resources
from sandberth.core.usage import UsageFraction

ABSENCES_THAT_END_A_TOMBSTONE = 2
LISTINGS_THAT_MAKE_A_ZOMBIE = 3
RESERVATION = "reservation of "  # begins the key of room kept beside a Pod of the same attempt on another node


@dataclass(frozen=True, slots=True)
class PodHolding:
    """A Pod that is bound to a node and not terminal; `attempt_id` is None for Pods that are not ours."""

    pod_uid: str
    attempt_id: str | None
    node_name: str
    nominal: Resources
    requests: Requests
    starting: bool = False


class Ledger:
    """The holdings of all nodes. Every operation is idempotent: the same evidence twice counts once."""

    def __init__(self) -> None:
        self._accounts: dict[str, Account] = {}  # Node UID -> account
        self._node_uids: dict[str, str] = {}  # Node name -> UID of the current Node
        self._homeless: dict[str, dict[str, Holding]] = {}  # name of an unknown node -> holdings by key
        self._attempts: dict[str, Holding] = {}
        self._pods: dict[str, Holding] = {}  # Pod UID -> holding
        self._unseen: dict[str, Holding] = {}  # holding key -> created, but not yet shown by the Pod cache
        self._pods_version = 0
        self._usage = UsageFraction()

    # --- reading ---

    def account(self, node_uid: str) -> Account:
        """Return the account of a Node. Raises KeyError for a Node that is not known."""
        return self._accounts[node_uid]

    def accounts(self) -> Iterator[Account]:
        """Return the accounts of all known Nodes."""
        return iter(self._accounts.values())

    def attempt(self, attempt_id: str) -> Holding | None:
        """Return the room that an attempt of ours holds, or None."""
        return self._attempts.get(attempt_id)

    @property
    def usage_fraction(self) -> float:
        """Return the share of its size that a sandbox uses on average, in [0, 1], as the reports have shown it."""
        return self._usage.value

    # --- nodes ---

    def node_appeared(self, node_uid: str, node_name: str) -> Account:
        """Open the account of a Node and give it the holdings that name it; a Node of the same name is replaced."""
        account = self._accounts.get(node_uid)
        if account is not None:
            return account
        if (previous := self._node_uids.get(node_name)) is not None:
            self.node_vanished(previous)
        account = self._accounts[node_uid] = Account(node_uid, node_name)
        self._node_uids[node_name] = node_uid
        for holding in self._homeless.pop(node_name, {}).values():
            account.add(holding)
        return account

    def node_vanished(self, node_uid: str) -> None:
        """Close the account of a Node. Its Pods stay known: a Node that returns under the name gets them back."""
        account = self._accounts.pop(node_uid, None)
        if account is None:
            return
        if self._node_uids.get(account.node_name) == node_uid:
            del self._node_uids[account.node_name]
        if account.holdings:
            self._homeless.setdefault(account.node_name, {}).update(account.holdings)

    # --- attempts ---

    def reserve(self, attempt_id: str, node_uid: str, nominal: Resources, requests: Requests) -> None:
        """Hold room before the create is sent. Raises LedgerError where the attempt holds room elsewhere."""
        account = self._accounts[node_uid]
        existing = self._attempts.get(attempt_id)
        if existing is not None:
            if existing.node_name == account.node_name:
                return
            raise LedgerError(f"attempt {attempt_id} holds room on {existing.node_name} already")
        tombstone = account.tombstones.get(attempt_id)
        ended_pod_uid = None if tombstone is None else tombstone.pod_uid
        self._reserve(attempt_id, account.node_name, nominal, requests, ended_pod_uid)

    def release(self, attempt_id: str) -> None:
        """Give a reservation back after a definite refusal; an attempt whose Pod is known keeps its room.

        What the last report lists under the ID counts again, unless it was seen to end.
        """
        holding = self._attempts.get(attempt_id)
        if holding is None:
            return
        if holding.pod_uid is not None:
            self._close(holding, ours=False)
            return
        self._drop(holding)
        account = self._account_of(holding)
        if holding.ended_pod_uid is not None and not holding.ended_elsewhere:
            self._bury(attempt_id, holding.node_name, holding.ended_pod_uid)
        elif account is not None and attempt_id in account.listed:
            account.set_reported_only({**account.reported_only, attempt_id: account.listed[attempt_id]})

    def create_answered(self, pod: PodHolding, resource_version: int) -> None:
        """The create of an attempt succeeded, or its Pod was found by name: the room is the Pod's from here.

        An answer that comes after its Pod was seen to end holds no room, and ends what was held for it.
        """
        if not pod.attempt_id:
            return
        former = self._attempts.get(pod.attempt_id)
        if pod.pod_uid not in self._pods and self._has_ended(pod, former, resource_version):
            if former is not None and former.pod_uid is None:
                self._end(former)
                self._bury(pod.attempt_id, pod.node_name, pod.pod_uid)
            elif former is not None:
                self._close(former, ours=False)
            return
        if former is not None and former.pod_uid not in {None, pod.pod_uid}:
            self._end(former)  # the name is the fence: our create succeeded, so the Pod before it is gone
        holding = self._hold(pod, answered=False)
        if not holding.pod_seen:
            self._resize(holding, pod)
            holding.created_version = max(holding.created_version, resource_version)
            self._unseen[holding.key] = holding
        self._close(holding, ours=True)

    def delete_answered(self, attempt_id: str) -> None:
        """The delete of an attempt's Pod was accepted: the optimistic sum drops it, its room stays held."""
        holding = self._attempts.get(attempt_id)
        if holding is not None:
            self._remove_optimistically(holding)

    # --- Pods ---

    def pod_observed(self, pod: PodHolding) -> None:
        """The Pod cache shows a bound Pod that is not terminal."""
        holding = self._hold(pod, answered=True)
        holding.pod_seen = True
        self._unseen.pop(holding.key, None)
        self._resize(holding, pod)
        account = self._account_of(holding)
        if account is not None:
            account.set_starting(holding, starting=pod.starting)
        else:
            holding.starting = pod.starting

    def pod_ended(self, pod_uid: str, attempt_id: str | None, node_name: str) -> None:
        """The Pod is gone or terminal: its room is free, and an older report cannot bring it back.

        Where the create is still open, the room stays the reservation's until that is answered. A Pod may have been
        bound elsewhere and ended before that was seen: its node is to be told of the end.
        """
        holding = self._pods.get(pod_uid)
        if holding is not None and attempt_id == holding.attempt_id and node_name not in {"", holding.node_name}:
            self._move(holding, node_name)
        if holding is not None and holding.reservation is not None:
            self._reopen(holding, holding.reservation)
        elif holding is not None:
            self._end(holding)
        elif attempt_id and attempt_id not in self._attempts:
            self._bury(attempt_id, node_name, pod_uid)

    def attempt_absent(self, attempt_id: str) -> None:
        """A consistent read found no Pod of a created attempt: it ended without being seen."""
        holding = self._attempts.get(attempt_id)
        if holding is not None and holding.answered:
            self._end(holding)

    def pods_passed(self, resource_version: int) -> None:
        """The Pod cache has everything up to `resource_version`: what it should have shown by then has ended."""
        self._pods_version = max(self._pods_version, resource_version)
        for holding in [h for h in self._unseen.values() if h.created_version <= self._pods_version]:
            self._end(holding)

    # --- reports ---

    def accept_report(self, report: Report, now_s: float) -> bool:
        """Take a report in; False for one of another Node, of a past history, or not newer than the last."""
        account = self._accounts.get(report.node_uid)
        if account is None or report.history in account.retired_histories:
            return False
        last = account.report
        if last is not None:
            if last.history != report.history:
                account.retired_histories.add(last.history)
            elif report.version <= last.version:
                return False
        account.take_report(report, now_s)
        if report.complete:
            self._apply_listing(account, report)
        account.set_accounted_at_report(_accounted_at(report, account))
        self._usage.learn(report)
        return True

    def _apply_listing(self, account: Account, report: Report) -> None:
        reported_only: dict[str, Resources] = {}
        for attempt_id, size in report.sandboxes.items():
            tombstone = account.tombstones.get(attempt_id)
            if tombstone is not None:
                tombstone.listed += 1
                tombstone.absent = 0
                if tombstone.listed >= LISTINGS_THAT_MAKE_A_ZOMBIE:
                    reported_only[attempt_id] = size
            elif attempt_id not in self._attempts:
                reported_only[attempt_id] = size
        for attempt_id in list(account.tombstones):
            if attempt_id not in report.sandboxes:
                tombstone = account.tombstones[attempt_id]
                tombstone.absent += 1
                if tombstone.absent >= ABSENCES_THAT_END_A_TOMBSTONE:
                    del account.tombstones[attempt_id]
        account.listed = report.sandboxes
        account.set_reported_only(reported_only)

    # --- inner workings ---

    def _account_of(self, holding: Holding) -> Account | None:
        node_uid = self._node_uids.get(holding.node_name)
        return None if node_uid is None else self._accounts[node_uid]

    def _has_ended(self, pod: PodHolding, former: Holding | None, resource_version: int) -> bool:
        """Return whether the Pod cache shows that a Pod it does not hold has come and gone."""
        if resource_version <= self._pods_version or (former is not None and former.ended_pod_uid == pod.pod_uid):
            return True
        node_uid = self._node_uids.get(pod.node_name)
        tombstone = None if node_uid is None else self._accounts[node_uid].tombstones.get(pod.attempt_id or "")
        return tombstone is not None and tombstone.pod_uid == pod.pod_uid

    def _hold(self, pod: PodHolding, *, answered: bool) -> Holding:
        """Return the one holding that stands for this Pod, moved to the Pod's node where it stood elsewhere.

        The answer to a create moves nothing that the Pod cache has shown: the Pod may have been bound elsewhere since.
        Two live Pods may carry the ID of one attempt (anybody can copy a label): both hold room, the second by its UID.
        """
        holding = self._pods.get(pod.pod_uid)
        attempt_id = pod.attempt_id or None
        if holding is None and attempt_id is not None:
            holding = self._attempts.get(attempt_id)
            if holding is not None and holding.pod_uid is not None:
                holding, attempt_id = None, None
        if holding is None:
            holding = Holding(
                attempt_id or pod.pod_uid,
                attempt_id,
                pod.node_name,
                pod.nominal,
                pod.requests,
                starting=pod.starting,
                answered=answered,
            )
            if attempt_id is not None:
                self._attempts[attempt_id] = holding
            self._attach(holding)
        elif holding.node_name != pod.node_name and (answered or not holding.pod_seen):
            self._move(holding, pod.node_name)
            self._keep_reservation(holding)
        if holding.pod_uid is None:
            holding.pod_uid = pod.pod_uid
            self._pods[pod.pod_uid] = holding
        return holding

    def _resize(self, holding: Holding, pod: PodHolding) -> None:
        account = self._account_of(holding)
        if account is not None:
            account.resize(holding, pod.nominal, pod.requests)
        else:
            holding.nominal, holding.requests = pod.nominal, pod.requests

    def _move(self, holding: Holding, node_name: str) -> None:
        """Take a holding to another node, with what the optimistic sum has of it."""
        if (account := self._account_of(holding)) is not None and holding.counts_optimistically:
            account.shift_delta(holding.nominal, -1)
        self._detach(holding)
        holding.node_name = node_name
        self._attach(holding)
        if (account := self._account_of(holding)) is not None and holding.counts_optimistically:
            account.shift_delta(holding.nominal, 1)

    def _attach(self, holding: Holding) -> None:
        account = self._account_of(holding)
        if account is None:
            self._homeless.setdefault(holding.node_name, {})[holding.key] = holding
            return
        if holding.attempt_id is not None:
            account.disinter(holding.attempt_id)
        account.add(holding)

    def _detach(self, holding: Holding) -> None:
        account = self._account_of(holding)
        if account is not None:
            account.remove(holding)
            return
        homeless = self._homeless[holding.node_name]
        del homeless[holding.key]
        if not homeless:
            del self._homeless[holding.node_name]

    def _remove_optimistically(self, holding: Holding) -> None:
        account = self._account_of(holding)
        if account is not None and holding.counts_optimistically:
            account.shift_delta(holding.nominal, -1)
        holding.optimistically_removed = True

    def _end(self, holding: Holding) -> None:
        self._remove_optimistically(holding)
        self._drop(holding)
        if holding.attempt_id is not None and not (holding.pod_uid is None and holding.ended_elsewhere):
            self._bury(holding.attempt_id, holding.node_name, holding.pod_uid or holding.ended_pod_uid)

    def _close(self, holding: Holding, *, ours: bool) -> None:
        """The create of an attempt is answered: its room is its Pod's alone, added optimistically if we made it."""
        holding.reservation = None
        self._drop_beside(holding)
        if holding.answered:
            return
        holding.answered = True
        account = self._account_of(holding)
        if account is not None:
            account.settle(holding)
            if not ours and holding.counts_optimistically:
                account.shift_delta(holding.nominal, -1)

    def _keep_reservation(self, holding: Holding) -> None:
        """Hold room where the create is aimed at, too: it is open, and a Pod of the attempt showed up elsewhere."""
        if holding.reservation is None or holding.beside is not None:
            return
        node_name, nominal, requests = holding.reservation
        key = RESERVATION + holding.key
        holding.beside = Holding(key, None, node_name, nominal, requests, starting=True, answered=False)
        self._attach(holding.beside)

    def _drop_beside(self, holding: Holding) -> None:
        if holding.beside is not None:
            self._detach(holding.beside)
            holding.beside = None

    def _reopen(self, holding: Holding, reservation: tuple[str, Resources, Requests]) -> None:
        """Take its Pod from an attempt whose create is open; what is left is the reservation, where it was made."""
        self._drop(holding)
        node_name, nominal, requests = reservation
        self._reserve(holding.key, node_name, nominal, requests, holding.pod_uid)
        if holding.node_name != node_name:
            self._attempts[holding.key].ended_elsewhere = True
            self._bury(holding.key, holding.node_name, holding.pod_uid)

    def _reserve(
        self, attempt_id: str, node_name: str, nominal: Resources, requests: Requests, ended_pod_uid: str | None
    ) -> None:
        holding = self._attempts[attempt_id] = Holding(
            attempt_id,
            attempt_id,
            node_name,
            nominal,
            requests,
            starting=True,
            answered=False,
            reservation=(node_name, nominal, requests),
            ended_pod_uid=ended_pod_uid,
        )
        self._attach(holding)

    def _bury(self, attempt_id: str, node_name: str, pod_uid: str | None) -> None:
        node_uid = self._node_uids.get(node_name)
        if node_uid is not None:
            self._accounts[node_uid].bury(attempt_id, pod_uid)

    def _drop(self, holding: Holding) -> None:
        self._detach(holding)
        self._drop_beside(holding)
        if holding.attempt_id is not None:
            self._attempts.pop(holding.attempt_id, None)
        self._unseen.pop(holding.key, None)
        if holding.pod_uid is not None:
            self._pods.pop(holding.pod_uid, None)

    def verify(self) -> None:
        """Check every running sum against its holdings. Raises LedgerError at the first that differs."""
        for account in self._accounts.values():
            fresh = Account(account.node_uid, account.node_name)
            for holding in account.holdings.values():
                fresh.add(holding)
            for name in (
                "held",
                "sandboxes",
                "starting",
                "in_progress",
                "in_progress_cpu",
                "in_progress_memory",
                "requested_cpu",
                "requested_memory",
                "requested_ephemeral_storage",
                "host_ports",
            ):
                running, expected = getattr(account, name), getattr(fresh, name)
                if running != expected:
                    raise LedgerError(f"{account.node_name}: {name} is {running}, its holdings say {expected}")
            if +account.requested_extended != +fresh.requested_extended:
                raise LedgerError(f"{account.node_name}: extended resources differ from the holdings")
            reported = sum((size for size in account.reported_only.values()), ZERO)
            if reported != account.reconciled - account.held:
                raise LedgerError(f"{account.node_name}: what only the report knows is summed wrongly")
            if account.block != account.packed():
                raise LedgerError(f"{account.node_name}: the figures for decisions are {account.figures}, out of date")


def _accounted_at(report: Report, account: Account) -> int:
    """Return the reconciled CPU sum, in millicores, at the instant of the report that was just taken in.

    Sandboxes come and go between the snapshot and its arrival: those that it lists count, others do not. A report that
    lists only some stands for its arrival.
    """
    if not report.complete:
        return account.reconciled.cpu_millicores
    ours = sum(item.nominal.cpu_millicores for item in account.holdings.values() if item.attempt_id is not None)
    return account.held_cpu - ours + sum(size.cpu_millicores for size in report.sandboxes.values())
