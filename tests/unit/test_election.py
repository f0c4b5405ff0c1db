"""One replica's part in the election against a server that keeps one Lease and can refuse, hang, and lose answers."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from sandberth.control import election as elections
from sandberth.control.election import Election
from sandberth.control.leadership import Leadership
from sandberth.control.lease import Timing
from sandberth.control.metrics import Metrics
from sandberth.core.errors import SandberthError
from sandberth.kube.errors import ApiError, Unreachable

LOST = Unreachable("PUT", "/lease", TimeoutError())
FORBIDDEN = ApiError(403, "Forbidden", 'cannot get resource "leases"')


class LeaseServer:
    """One Lease; `faults` are what the next requests end in (None lets one through), LOST after it was carried out."""

    def __init__(self) -> None:
        self.lease: dict[str, Any] | None = None
        self.faults: list[SandberthError | None] = []
        self.writes = 0
        self._version = 0

    @property
    def holder(self) -> str:
        return str(self.lease["spec"]["holderIdentity"]) if self.lease else ""

    def hold(self, holder: str, seconds: int = 15, **spec: Any) -> None:
        self._store({"metadata": {}, "spec": {"holderIdentity": holder, "leaseDurationSeconds": seconds} | spec})

    async def get(self, _: str) -> dict[str, Any]:
        await asyncio.sleep(0)
        self._fail()
        if self.lease is None:
            raise ApiError(404, "NotFound", "no lease")
        return self.lease

    async def post(self, _: str, body: dict[str, Any]) -> dict[str, Any]:
        return await self._write(body, lambda: None if self.lease is None else "AlreadyExists")

    async def put(self, _: str, body: dict[str, Any]) -> dict[str, Any]:
        def refusal() -> str | None:
            current = self.lease or {"metadata": {}}
            same = body["metadata"]["resourceVersion"] == current["metadata"].get("resourceVersion")
            return None if same else "Conflict"

        return await self._write(body, refusal)

    async def _write(self, body: dict[str, Any], refusal: Callable[[], str | None]) -> dict[str, Any]:
        await asyncio.sleep(0)
        self.writes += 1
        lost = bool(self.faults) and self.faults[0] is LOST
        if not lost:
            self._fail()
        reason = refusal()
        if reason is not None:
            raise ApiError(409, reason, "somebody was faster")
        self._store(body)
        if lost:
            self._fail()
        assert self.lease is not None
        return self.lease

    def _store(self, body: dict[str, Any]) -> None:
        self._version += 1
        self.lease = {**body, "metadata": {**body["metadata"], "resourceVersion": str(self._version)}}

    def _fail(self) -> None:
        fault = self.faults.pop(0) if self.faults else None
        if fault is not None:
            raise fault


class Replica:
    """One process of the election, in a time of its own that passes only while it waits."""

    def __init__(self, server: LeaseServer, identity: str, seconds: float = 15.0) -> None:
        self.now_s = 1000.0
        self.left: list[str] = []
        self._sleeps_left = 0
        self.leadership = Leadership(elected=True, now_s=lambda: self.now_s)
        client: Any = server
        self.election = Election(
            client,
            "ns",
            self.leadership,
            Timing(seconds),
            Metrics(),
            identity=identity,
            leave=self.left.append,
            now_s=lambda: self.now_s,
            sleep=self._sleep,
        )

    async def turns(self, count: int) -> None:
        """Let it go on until it has waited so often, or has left."""
        self._sleeps_left = count
        with suppress(asyncio.CancelledError):
            await asyncio.create_task(self.election.run())

    async def _sleep(self, seconds: float) -> None:
        self.now_s += seconds
        self._sleeps_left -= 1
        if self._sleeps_left <= 0:
            raise asyncio.CancelledError


@pytest.fixture(autouse=True)
def no_watchdog(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(elections, "watch", lambda _: None)


@pytest.fixture
async def server() -> LeaseServer:
    return LeaseServer()


async def test_the_first_one_makes_the_lease_and_may_write(server: LeaseServer) -> None:
    replica = Replica(server, "one")
    assert not replica.leadership.holds

    await replica.turns(1)

    assert server.holder == "one"
    assert server.lease is not None
    assert server.lease["spec"]["leaseDurationSeconds"] == 15
    assert server.lease["spec"]["leaseTransitions"] == 0
    assert replica.leadership.holds


async def test_the_second_one_stands_by_while_the_first_renews(server: LeaseServer) -> None:
    one, two = Replica(server, "one"), Replica(server, "two")

    for _ in range(30):
        await one.turns(1)
        await two.turns(2)

    assert server.holder == "one"
    assert not two.leadership.holds
    assert two.left == one.left == []


async def test_the_second_one_takes_over_from_one_that_fell_silent_and_what_others_wrote_stays(
    server: LeaseServer,
) -> None:
    server.hold("gone", strategy="kept", leaseTransitions=4)
    two = Replica(server, "two")

    await two.turns(40)

    assert server.holder == "two"
    assert server.lease is not None
    assert (server.lease["spec"]["strategy"], server.lease["spec"]["leaseTransitions"]) == ("kept", 5)
    assert two.now_s - 1000.0 >= 15.0


async def test_of_two_that_are_fast_one_gets_the_lease(server: LeaseServer) -> None:
    server.hold("")
    one, two = Replica(server, "one"), Replica(server, "two")

    await asyncio.gather(one.turns(1), two.turns(1))

    assert server.writes == 2, "both tried"
    assert [one.leadership.holds, two.leadership.holds].count(True) == 1
    assert server.holder == ("one" if one.leadership.holds else "two")


async def test_a_lost_race_is_no_fault_and_the_loser_stands_by(server: LeaseServer) -> None:
    server.hold("")
    replica = Replica(server, "one")
    server.faults = [None, ApiError(409, "Conflict", "somebody was faster")]
    await replica.turns(1)
    server.hold("faster")

    await replica.turns(3)

    assert not replica.leadership.holds
    assert replica.election.trouble is None


async def test_a_take_whose_answer_is_lost_counts_from_when_it_was_sent(server: LeaseServer) -> None:
    replica = Replica(server, "one")
    server.faults = [None, LOST]

    await replica.turns(2)

    assert server.holder == "one"
    assert replica.leadership.holds
    assert replica.leadership.seconds_left < Timing(15.0).deadline_seconds


async def test_a_leader_that_cannot_renew_leaves_before_the_lease_can_be_taken(server: LeaseServer) -> None:
    replica = Replica(server, "one")
    await replica.turns(1)
    server.faults = [Unreachable("GET", "/lease", TimeoutError())] * 100

    await replica.turns(100)

    assert replica.left == ["the Lease could not be renewed in time"]
    assert not replica.leadership.holds
    assert replica.now_s - 1000.0 < 15.0


async def test_a_leader_whose_lease_is_anothers_leaves(server: LeaseServer) -> None:
    replica = Replica(server, "one")
    await replica.turns(1)
    server.hold("two")

    await replica.turns(5)

    assert replica.left == ["the Lease is held by two"]


async def test_a_refused_lease_is_told_until_it_is_not_refused_any_more(server: LeaseServer) -> None:
    server.hold("other")
    replica = Replica(server, "one")
    assert replica.election.trouble == "the Lease has not been read yet"

    await replica.turns(1)
    assert replica.election.trouble is None
    server.faults = [FORBIDDEN] * 2
    await replica.turns(2)
    assert 'cannot get resource "leases"' in (replica.election.trouble or "")
    await replica.turns(3)

    assert replica.election.trouble is None


async def test_an_api_server_that_is_away_is_no_trouble_of_a_standby(server: LeaseServer) -> None:
    server.hold("other")
    replica = Replica(server, "one")
    await replica.turns(1)
    server.faults = [Unreachable("GET", "/lease", TimeoutError())] * 5

    await replica.turns(5)

    assert replica.election.trouble is None


async def test_a_released_lease_is_free_at_once(server: LeaseServer) -> None:
    one, two = Replica(server, "one"), Replica(server, "two")
    await one.turns(1)
    await two.turns(1)

    one.leadership.end()
    await one.election.release()
    await two.turns(1)

    assert server.holder == "two"
    assert not one.leadership.holds


async def test_a_release_gives_up_nothing_that_is_anothers_by_now(server: LeaseServer) -> None:
    one = Replica(server, "one")
    await one.turns(1)
    server.hold("two")

    await one.election.release()

    assert server.holder == "two"


async def test_a_standby_releases_nothing_and_sends_nothing(server: LeaseServer) -> None:
    server.hold("other")
    replica = Replica(server, "one")
    await replica.turns(3)

    await replica.election.release()

    assert (server.holder, server.writes) == ("other", 0)


async def test_a_release_that_meets_the_last_renewal_is_tried_again(server: LeaseServer) -> None:
    one = Replica(server, "one")
    await one.turns(1)
    server.faults = [None, ApiError(409, "Conflict", "the renewal came in between")]

    await one.election.release()

    assert server.holder == ""
