"""The API reporter as a process with the rights of its service account, on the bed's API server.

The operator may or may not run beside it, so every NodeCapacity is made here unless it is there already. Pods of
Sandboxes are made by hand, on a node that takes no others.
"""

import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import pytest

from sandberth.cluster.local import LocalCluster
from sandberth.core.quantity import cpu_millicores, whole_bytes
from sandberth.kube import names
from sandberth.kube.nodecapacity import Report
from sandberth.kube.reportlines import parse_line
from tests.integration.bed import Objects, Program, reporter_program, wait_for
from tests.integration.reports import Bed

pytestmark = pytest.mark.integration

StartReporter = Callable[..., Program]
GIB = 2**30
LONG = "1h"  # only the first tick and triggers


@pytest.fixture
def bed(cluster: LocalCluster, objects: Objects) -> Bed:
    return Bed(cluster, objects)


@pytest.fixture
def own_node(bed: Bed, home: str) -> Iterator[str]:
    """A node that takes no Pods but those that name it; its name is new, so nothing is left of an earlier one."""
    name = f"node-of-{home}"
    bed.add_node(name)
    yield name
    for pod in bed.objects.list("Pod", home):
        bed.objects.delete("Pod", pod["metadata"]["name"], home)
    wait_for(lambda: not bed.objects.list("Pod", home), what="the node is empty")
    bed.objects.delete("Node", name)


@pytest.fixture
def start_reporter(cluster: LocalCluster, tmp_path: Path) -> Iterator[StartReporter]:
    """Start a reporter with these options; all are stopped at the end."""
    started: list[Program] = []

    def start(*options: str) -> Program:
        folder = tmp_path / f"reporter-{len(started)}"
        folder.mkdir()
        program = reporter_program(
            cluster, folder, "--metrics-host", "127.0.0.1", "--metrics-port", "0", "--usage", "none", *options
        )
        program.start()
        started.append(program)
        return program

    yield start
    codes = [program.stop() for program in started]
    assert not any(codes), [program.log.read_text()[-2000:] for program in started]


def trigger(program: Program) -> None:
    assert program.process is not None
    program.process.send_signal(signal.SIGUSR1)


def test_every_node_is_reported_once_an_interval(bed: Bed, start_reporter: StartReporter) -> None:
    nodes = [f"node-{number}" for number in range(10)]
    for node in nodes:
        bed.ensure_capacity(node)

    start_reporter("--interval", "500ms", "--usage", "metrics")

    first = {node: bed.report_when(node, lambda report: report.interval_seconds == 0.5) for node in nodes}
    for node in nodes:
        epoch, sequence = first[node].version
        later = bed.report_when(node, lambda report, past=sequence: report.sequence > past)  # type: ignore[misc]
        assert later.epoch == epoch
        assert later.node_uid == bed.node_uid(node)
        assert later.capacity is not None
        assert (later.capacity.cpu, later.capacity.memory) == ("192", "512Gi")
        assert later.used is None  # the bed serves no metrics.k8s.io
        assert later.complete


def test_requests_stand_in_for_usage(bed: Bed, start_reporter: StartReporter, home: str, own_node: str) -> None:
    bed.ensure_capacity(own_node)
    bed.add_pod(home, "other", own_node, "750m")

    start_reporter("--interval", LONG, "--usage", "requests")

    report = bed.report_when(own_node, lambda report: report.used is not None)
    assert report.used == report.requested == report.allocated
    assert (report.allocated.cpu, report.allocated.memory, report.pods) == ("750m", "1Gi", 1)


def test_of_two_reporters_the_older_leaves_the_nodes_to_the_younger(bed: Bed, start_reporter: StartReporter) -> None:
    bed.ensure_capacity("node-0")
    older = start_reporter("--interval", "300ms")
    first = bed.report_when("node-0", lambda report: report.interval_seconds == 0.3)

    start_reporter("--interval", "400ms")

    taken = bed.report_when("node-0", lambda report: report.interval_seconds == 0.4)
    assert taken.epoch == first.epoch + 1
    wait_for(lambda: "Another reporter has taken over node node-0" in older.log.read_text())
    later = bed.report_when("node-0", lambda report: report.sequence > taken.sequence + 3)
    assert (later.epoch, later.interval_seconds) == (taken.epoch, 0.4)
    assert older.log.read_text().count("has taken over node node-0") == 1


def test_another_object_is_a_new_history_and_is_reported_at_once(bed: Bed, start_reporter: StartReporter) -> None:
    old = bed.ensure_capacity("node-1")
    start_reporter("--interval", LONG)
    bed.report_when("node-1", lambda report: report.interval_seconds == 3600)

    bed.remove_capacity("node-1")
    new = bed.ensure_capacity("node-1")

    assert new != old
    assert bed.report_when("node-1", lambda report: report.interval_seconds == 3600).version == (1, 1)


def test_a_node_that_comes_back_is_reported_under_its_new_uid(
    bed: Bed, start_reporter: StartReporter, own_node: str
) -> None:
    bed.ensure_capacity(own_node)
    start_reporter("--interval", "200ms")
    old_uid = bed.report_when(own_node, lambda report: report.interval_seconds == 0.2).node_uid

    bed.objects.delete("Node", own_node)
    new_uid = bed.add_node(own_node)
    bed.remove_capacity(own_node)  # the garbage collector takes its time
    bed.ensure_capacity(own_node)

    assert new_uid != old_uid
    report = bed.report_when(own_node, lambda report: report.node_uid == new_uid)
    assert report.epoch == 1


def test_a_signal_reports_at_once(bed: Bed, start_reporter: StartReporter) -> None:
    bed.ensure_capacity("node-2")
    reporter = start_reporter("--interval", LONG)
    first = bed.report_when("node-2", lambda report: report.interval_seconds == 3600)

    trigger(reporter)

    assert bed.report_when("node-2", lambda report: report.version > first.version).epoch == first.epoch


def test_a_report_that_somebody_removed_comes_back(bed: Bed, start_reporter: StartReporter) -> None:
    bed.ensure_capacity("node-3")
    start_reporter("--interval", "300ms")
    first = bed.report_when("node-3", lambda report: report.interval_seconds == 0.3)

    bed.objects.patch(names.NODECAPACITY_KIND, "node-3", {"status": {"report": None}}, status=True)

    assert bed.report_when("node-3", lambda report: report.epoch > first.epoch).interval_seconds == 0.3


def test_list_and_totals_are_one_snapshot_while_pods_come_and_go(
    bed: Bed, start_reporter: StartReporter, home: str, own_node: str
) -> None:
    rng = Random(3)
    bed.ensure_capacity(own_node)
    bed.add_pod(home, "other", own_node, "750m")
    start_reporter("--interval", "100ms")
    bed.report_when(own_node, lambda report: report.pods == 1)
    seen: set[tuple[int, int]] = set()
    sizes: dict[str, str] = {}

    for number in range(30):
        name = f"box-{number}"
        uid = bed.add_sandbox(home, name)
        sizes[uid] = str(rng.randint(1, 4))
        bed.add_pod(home, name, own_node, "250m", owner_uid=uid, nominal=sizes[uid])
        if rng.random() < 0.4:
            bed.objects.delete("Pod", name, home)
            del sizes[uid]
        report = bed.report_when(own_node, lambda report: report.version not in seen)
        seen.add(report.version)
        assert_one_snapshot(report)

    def is_final(report: Report) -> bool:
        return {parse_line(line).attempt_id for line in report.sandboxes} == {f"{uid}.1" for uid in sizes}

    final = bed.report_when(own_node, is_final, "all that is left is listed")
    assert_one_snapshot(final)
    assert {line.split(" ")[0]: line.split(" ")[1] for line in final.sandboxes} == {
        f"{uid}.1": f"{size}000" for uid, size in sizes.items()
    }


def assert_one_snapshot(report: Report) -> None:
    """One other pod of 750m and 1Gi, and everything else is in the list."""
    entries = [parse_line(line) for line in report.sandboxes]
    assert cpu_millicores(report.allocated.cpu) == 750 + sum(entry.cpu_millicores for entry in entries)
    assert whole_bytes(report.allocated.memory) == GIB + sum(entry.memory_bytes for entry in entries)
    assert report.requested is not None
    assert cpu_millicores(report.requested.cpu) == 750 + 250 * len(entries)
    assert report.pods == 1 + len(entries)
