"""Two operators, one Lease: the leader is stopped, killed, frozen or cut off, and the other one goes on.

Takeover times are printed (`pytest -rP`); the bounds here leave room for a busy machine.
"""

import random
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from threading import Thread

import pytest

from sandberth.cluster.local import LocalCluster
from sandberth.kube import names
from tests.integration.bed import AuditLog, Object, Objects, OperatorProgram, operator_program, wait_for
from tests.integration.boxes import Boxes, attempt_of, views_are_the_pods
from tests.integration.relay import relayed
from tests.integration.test_restart import apply_burst

pytestmark = pytest.mark.integration

LEASE_SECONDS = 5
BURST_LEASE_SECONDS = 15  # the default: on a busy machine a burst keeps the API server from answering for seconds
BURST = 100
BUSY_SECONDS = 5.0  # what a busy machine may add to each bound


in_a_burst = pytest.mark.parametrize("replicas", [BURST_LEASE_SECONDS], indirect=True, ids=["15s"])


class Replicas:
    """Two operators that take part in one election."""

    def __init__(self, cluster: LocalCluster, folder: Path, objects: Objects, lease_seconds: int) -> None:
        self.objects = objects
        self.programs: list[OperatorProgram] = []
        for name in ("a", "b"):
            (folder / name).mkdir()
            self.programs.append(operator_program(cluster, folder / name, lease_duration=f"{lease_seconds}s"))

    def start(self) -> None:
        for program in self.programs:
            program.start()
        for program in self.programs:
            program.wait_ready()
        self.leader()

    def leader(self, seconds: float = 30) -> OperatorProgram:
        """Wait until one of them is at work; return it."""
        return wait_for(lambda: [p for p in self.programs if is_at_work(p)], seconds, "a leader")[0]

    def other(self, program: OperatorProgram) -> OperatorProgram:
        return next(other for other in self.programs if other is not program)

    def revive(self, but: OperatorProgram | None = None) -> None:
        """Start those again that have left, as the kubelet does."""
        for program in self.programs:
            if program is not but and program.process is not None and program.process.poll() is not None:
                program.start()

    def all_run(self, boxes: Boxes, count: int) -> None:
        def run() -> bool:
            self.revive()
            return boxes.phases() == {"Running": count}

        wait_for(run, 90, f"all {count} run")

    def lease(self) -> Object:
        lease = self.objects.get("Lease", names.OPERATOR_LEASE, names.NAMESPACE)
        assert lease is not None
        spec: Object = lease["spec"]
        return spec

    def end(self) -> None:
        for program in self.programs:
            program.kill()
        self.objects.delete("Lease", names.OPERATOR_LEASE, names.NAMESPACE)


def is_at_work(program: OperatorProgram) -> bool:
    """Return whether an operator runs, leads, and has begun to place."""
    if program.process is None or program.process.poll() is not None:
        return False
    log = program.log.read_text()[program.started_at :]
    try:
        return "At work." in log and "sandberth_leader 1.0" in program.metrics()
    except OSError:
        return False


@pytest.fixture
def replicas(
    request: pytest.FixtureRequest, cluster: LocalCluster, operator: OperatorProgram, objects: Objects, tmp_path: Path
) -> Iterator[Replicas]:
    """Two replicas, ready, one leading; the bed's own operator, which asks nobody, rests meanwhile."""
    operator.stop()
    pair = Replicas(cluster, tmp_path, objects, getattr(request, "param", LEASE_SECONDS))
    try:
        pair.start()
        yield pair
    finally:
        pair.end()
        operator.restart()


@pytest.fixture
def boxes(objects: Objects, operator: OperatorProgram, home: str) -> Boxes:
    return Boxes(objects, home)


def takeover_seconds(replicas: Replicas, boxes: Boxes, leader: OperatorProgram, what: str, began: float) -> float:
    """Return the time from `began` until the other replica has placed a Sandbox that was applied meanwhile."""
    boxes.apply("after")
    standby = replicas.other(leader)
    wait_for(lambda: boxes.status("after").get("nodeName"), 60, "placed by the other")
    seconds = time.monotonic() - began
    assert is_at_work(standby)
    print(f"takeover after {what}: {seconds:.2f} s (lease {LEASE_SECONDS} s)")
    return seconds


def test_two_replicas_are_ready_and_one_of_them_leads(replicas: Replicas) -> None:
    leader = replicas.leader()
    standby = replicas.other(leader)

    assert standby.probe("readyz") == 200
    assert standby.probe("livez") == 200
    assert "sandberth_leader 0.0" in standby.metrics()
    assert replicas.lease()["leaseDurationSeconds"] == LEASE_SECONDS
    assert replicas.lease()["holderIdentity"]


def test_a_leader_that_is_stopped_gives_the_lease_up_and_the_other_goes_on_within_seconds(
    replicas: Replicas, boxes: Boxes
) -> None:
    leader = replicas.leader()
    began = time.monotonic()

    assert leader.stop() == 0

    assert takeover_seconds(replicas, boxes, leader, "SIGTERM", began) < 3 + BUSY_SECONDS


def test_after_a_kill_the_other_goes_on_when_the_lease_is_over(replicas: Replicas, boxes: Boxes) -> None:
    leader = replicas.leader()
    began = time.monotonic()

    leader.kill()

    seconds = takeover_seconds(replicas, boxes, leader, "SIGKILL", began)
    assert LEASE_SECONDS / 2 < seconds < LEASE_SECONDS + 5 + BUSY_SECONDS


def test_a_leader_whose_network_is_cut_leaves_before_the_other_goes_on(
    cluster: LocalCluster, replicas: Replicas, boxes: Boxes, audit: AuditLog
) -> None:
    replicas.end()
    relay = relayed(replicas.programs[0].log.with_name("operator.kubeconfig"))
    replicas.programs[0].restart()
    wait_for(lambda: is_at_work(replicas.programs[0]), 30, "it leads")
    replicas.programs[1].restart()
    leader, standby = replicas.programs
    began = time.monotonic()

    relay.cut()
    boxes.apply("meanwhile")

    assert leader.process is not None
    assert leader.process.wait(30) == 1
    left = time.monotonic() - began
    assert not is_at_work(standby), "the other had not begun when the leader left"
    seconds = takeover_seconds(replicas, boxes, leader, f"a cut network (the leader left after {left:.2f} s)", began)
    assert seconds < LEASE_SECONDS + 5 + BUSY_SECONDS
    boxes.all_run(2)
    relay.close()


@in_a_burst
def test_a_leader_that_was_frozen_writes_nothing_when_it_wakes_and_leaves(
    replicas: Replicas, boxes: Boxes, audit: AuditLog, objects: Objects
) -> None:
    leader = replicas.leader()
    assert leader.process is not None
    burst = Thread(target=apply_burst, args=(boxes, BURST))
    burst.start()
    wait_for(lambda: boxes.phases()["Running"] >= 10, 60, "the burst is under way")

    leader.process.send_signal(signal.SIGSTOP)
    wait_for(lambda: is_at_work(replicas.other(leader)), 60, "the other leads")
    position = audit.position()
    leader.process.send_signal(signal.SIGCONT)

    assert leader.process.wait(10) == 1
    burst.join()
    boxes.apply("later")

    def is_placed() -> bool:
        replicas.revive(but=leader)
        return bool(boxes.status("later").get("nodeName"))

    wait_for(is_placed, 60, "the other works")
    assert {write.credential for write in audit.writes(position)} == {replicas.other(leader).credential}
    replicas.all_run(boxes, BURST + 1)
    assert boxes.one_pod_each()
    assert {attempt_of(pod) for pod in objects.list("Pod", boxes.namespace)} == {1}
    views_are_the_pods(objects)


@in_a_burst
def test_both_replicas_killed_again_and_again_in_a_burst_make_one_pod_for_each_sandbox(
    replicas: Replicas, boxes: Boxes, objects: Objects
) -> None:
    rng = random.Random(5)
    burst = Thread(target=apply_burst, args=(boxes, BURST))
    burst.start()

    for turn in range(6):
        time.sleep(rng.uniform(0.05, 1.0))  # the moment of the kill, not a wait for anything
        victims = replicas.programs if turn % 3 == 2 else [rng.choice(replicas.programs)]
        for victim in victims:
            victim.kill()
        for victim in victims:
            victim.start()
    burst.join()

    replicas.all_run(boxes, BURST)
    assert boxes.one_pod_each()
    assert [attempt_of(pod) for pod in objects.list("Pod", boxes.namespace)] == [1] * BURST
    views_are_the_pods(objects)
