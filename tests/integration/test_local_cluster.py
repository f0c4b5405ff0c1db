"""The local bed itself: two beds side by side on one machine."""

import json
import os
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from sandberth.cluster import controlplane, running
from sandberth.cluster.errors import BedApiError, ProgramFailedError
from sandberth.cluster.local import LocalCluster, service_account_kubeconfig
from sandberth.cluster.nodes import is_usable
from sandberth.cluster.ports import HeldPorts
from sandberth.cluster.state import BedState

pytestmark = pytest.mark.integration

EXIT = "kwok.sandberth.test/exit"
EXIT_AFTER = "kwok.sandberth.test/exit-after"
FAIL_REASON = "kwok.sandberth.test/fail-reason"
PENDING = "kwok.sandberth.test/pending"
TERMINATE_AFTER = "kwok.sandberth.test/terminate-after"
READY = "kwok.sandberth.test/ready"
PODS = "/api/v1/namespaces/default/pods"


class SpokenProgress:
    """Remembers what a user would have read."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def say(self, line: str) -> None:
        self.lines.append(line)

    def step(self, label: str) -> Any:
        self.lines.append(label)
        return nullcontext()


@pytest.fixture(scope="module")
def beds() -> Iterator[tuple[LocalCluster, LocalCluster]]:
    names = [f"test-{os.getpid()}-{suffix}" for suffix in ("a", "b")]
    try:
        with ThreadPoolExecutor() as pool:
            first = pool.submit(LocalCluster.up, names[0], nodes=3, scheduler=True)
            second = pool.submit(LocalCluster.up, names[1], nodes=1, node_cpu="4", node_memory="8Gi", node_pods=7)
            started = (first.result(), second.result())
        yield started
    finally:
        for name in names:
            LocalCluster(name).down()


@pytest.fixture
def bed(beds: tuple[LocalCluster, LocalCluster]) -> LocalCluster:
    return beds[0]


@pytest.fixture
def spare() -> Iterator[str]:
    """The name of a bed that the test makes itself."""
    name = f"test-{os.getpid()}-spare"
    yield name
    LocalCluster(name).down()


def eventually(ask: Callable[[], Any], seconds: float = 20) -> Any:
    deadline = time.monotonic() + seconds
    while True:
        answer = ask()
        if answer:
            return answer
        assert time.monotonic() < deadline, "this has not come true in time"
        time.sleep(0.02)


def a_pod(name: str, node: str | None = "node-0", **annotations: str) -> dict[str, Any]:
    spec: dict[str, Any] = {
        "containers": [{"name": "main", "image": "nothing", "resources": {"requests": {"cpu": "1"}}}]
    }
    if node:
        spec["nodeName"] = node
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "annotations": annotations}, "spec": spec}


def create_pod(bed: LocalCluster, pod: dict[str, Any]) -> None:
    with bed.api() as api:
        api.post(PODS, pod)


def read(bed: LocalCluster, path: str) -> Any:
    """Return the object, None when there is none."""
    try:
        with bed.api() as api:
            return api.get(path)
    except BedApiError as error:
        if error.status == 404:
            return None
        raise


def pod_status(bed: LocalCluster, name: str) -> dict[str, Any]:
    status: dict[str, Any] = read(bed, f"{PODS}/{name}")["status"]
    return status


def reaches_phase(bed: LocalCluster, name: str, phase: str) -> dict[str, Any]:
    def ask() -> dict[str, Any] | None:
        status = pod_status(bed, name)
        return status if status["phase"] == phase else None

    reached: dict[str, Any] = eventually(ask)
    return reached


def kubectl(bed: LocalCluster, kubeconfig: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [str(bed.kubectl), f"--kubeconfig={kubeconfig}", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


def processes_naming(directory: Path) -> list[str]:
    found = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            command = entry.read_bytes()
        except OSError:
            continue
        if os.fsencode(f"{directory}/") in command:
            found.append(command.replace(b"\0", b" ").decode())
    return found


def target_of(link: Path) -> str:
    """Return what the descriptor is; "" for one that was closed meanwhile."""
    try:
        return str(link.readlink())
    except FileNotFoundError:
        return ""


def test_two_beds_started_at_once_share_no_port(beds: tuple[LocalCluster, LocalCluster]) -> None:
    states = [BedState.read(bed.directory / "state.json") for bed in beds]

    ports = [port for state in states if state for port in state.ports.values()]
    assert len(ports) == len(set(ports)) == 6
    assert all(bed.healthy() for bed in beds)


def test_nodes_are_ready_untainted_and_as_big_as_asked(beds: tuple[LocalCluster, LocalCluster]) -> None:
    many, few = (read(bed, "/api/v1/nodes")["items"] for bed in beds)

    assert [node["metadata"]["name"] for node in many] == ["node-0", "node-1", "node-2"]
    assert len(few) == 1
    assert all(is_usable(node) and "taints" not in node["spec"] for node in (*many, *few))
    assert few[0]["status"]["allocatable"] == {"cpu": "4", "memory": "8Gi", "pods": "7", "ephemeral-storage": "1Ti"}
    assert few[0]["status"]["capacity"] == few[0]["status"]["allocatable"]


def test_every_program_listens_on_loopback_alone(bed: LocalCluster) -> None:
    descriptors = (link for pid in bed.pids.values() for link in Path(f"/proc/{pid}/fd").iterdir())
    sockets = {target for target in map(target_of, descriptors) if target.startswith("socket:")}
    listening = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        for line in Path(table).read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and f"socket:[{fields[9]}]" in sockets:
                listening.add(fields[1].split(":")[0])

    assert listening == {"0100007F"}


def test_a_pod_with_a_node_name_runs(bed: LocalCluster) -> None:
    create_pod(bed, a_pod("runs"))

    status = reaches_phase(bed, "runs", "Running")
    assert status["podIP"]
    assert status["containerStatuses"][0]["state"].keys() == {"running"}
    assert {each["type"] for each in status["conditions"] if each["status"] == "True"} >= {"Ready", "PodScheduled"}


def test_the_scheduler_binds_a_pod_without_a_node_name(bed: LocalCluster) -> None:
    create_pod(bed, a_pod("scheduled", node=None))

    reaches_phase(bed, "scheduled", "Running")


@pytest.mark.parametrize(("code", "phase"), [("0", "Succeeded"), ("3", "Failed")])
def test_a_pod_ends_with_the_exit_code_it_announces(bed: LocalCluster, code: str, phase: str) -> None:
    create_pod(bed, a_pod(f"exits-{code}", **{EXIT: code, EXIT_AFTER: "100ms"}))

    status = reaches_phase(bed, f"exits-{code}", phase)
    assert status["containerStatuses"][0]["state"]["terminated"]["exitCode"] == int(code)


def test_a_refused_pod_fails_with_its_reason_and_never_runs(bed: LocalCluster) -> None:
    create_pod(bed, a_pod("refused", **{FAIL_REASON: "OutOfcpu"}))

    status = reaches_phase(bed, "refused", "Failed")
    assert status["reason"] == "OutOfcpu"
    assert "podIP" not in status
    assert "containerStatuses" not in status


def test_a_pod_that_shall_stay_pending_does(bed: LocalCluster) -> None:
    create_pod(bed, a_pod("pending", **{PENDING: "true"}))
    create_pod(bed, a_pod("after-pending"))
    reaches_phase(bed, "after-pending", "Running")

    assert pod_status(bed, "pending")["phase"] == "Pending"


def test_a_deletion_takes_as_long_as_asked(bed: LocalCluster) -> None:
    create_pod(bed, a_pod("slow", **{TERMINATE_AFTER: "2s"}))
    create_pod(bed, a_pod("quick"))
    for name in ("slow", "quick"):
        reaches_phase(bed, name, "Running")

    with bed.api() as api:
        api.request("DELETE", f"{PODS}/slow")
        api.request("DELETE", f"{PODS}/quick")

    eventually(lambda: read(bed, f"{PODS}/quick") is None)
    assert read(bed, f"{PODS}/slow")["metadata"]["deletionTimestamp"]
    eventually(lambda: read(bed, f"{PODS}/slow") is None)


def test_an_added_node_has_the_labels_and_taints_it_was_given(bed: LocalCluster) -> None:
    taint = {"key": "example.com/special", "value": "yes", "effect": "NoSchedule"}

    bed.add_node("extra", cpu="8", labels={"zone": "b"}, taints=[taint], extended={"example.com/gpu": "2"})

    node = read(bed, "/api/v1/nodes/extra")
    assert node["metadata"]["labels"]["zone"] == "b"
    assert node["spec"]["taints"] == [taint]
    assert node["status"]["allocatable"]["example.com/gpu"] == "2"


def test_a_node_loses_ready_for_as_long_as_its_annotation_says(bed: LocalCluster) -> None:
    bed.add_node("fails")
    kubectl(bed, bed.kubeconfig, "annotate", "node", "fails", f"{READY}=Unknown")
    eventually(lambda: not is_usable(read(bed, "/api/v1/nodes/fails")))

    kubectl(bed, bed.kubeconfig, "annotate", "node", "fails", f"{READY}-")

    eventually(lambda: is_usable(read(bed, "/api/v1/nodes/fails")))


def test_the_admin_kubeconfig_may_do_everything(bed: LocalCluster) -> None:
    answer = kubectl(bed, bed.kubeconfig, "auth", "can-i", "*", "*", "--all-namespaces")

    assert (answer.stdout.strip(), answer.returncode) == ("yes", 0)


def test_a_service_account_may_do_only_what_rbac_allows_and_its_writes_are_audited(
    bed: LocalCluster, tmp_path: Path
) -> None:
    for arguments in (
        ("create", "namespace", "sandberth-system"),
        ("create", "serviceaccount", "sandberth-operator", "--namespace=sandberth-system"),
        ("create", "role", "maps", "--verb=create,get", "--resource=configmaps", "--namespace=sandberth-system"),
        (
            "create",
            "rolebinding",
            "maps",
            "--role=maps",
            "--serviceaccount=sandberth-system:sandberth-operator",
            "--namespace=sandberth-system",
        ),
    ):
        assert kubectl(bed, bed.kubeconfig, *arguments).returncode == 0

    config = service_account_kubeconfig(bed, "sandberth-system", "sandberth-operator", tmp_path / "operator")

    allowed = kubectl(bed, config, "create", "configmap", "mine")
    denied = kubectl(bed, config, "create", "secret", "generic", "mine")
    assert allowed.returncode == 0, allowed.stderr
    assert "forbidden" in denied.stderr
    events = [json.loads(line) for line in bed.audit_log.read_text().splitlines()]
    assert {event["user"]["username"] for event in events} == {
        "system:serviceaccount:sandberth-system:sandberth-operator"
    }
    assert [(event["verb"], event["objectRef"]["resource"]) for event in events] == [
        ("create", "configmaps"),
        ("create", "secrets"),
    ]


def test_a_token_for_an_account_that_is_not_there_is_refused(bed: LocalCluster, tmp_path: Path) -> None:
    with pytest.raises(BedApiError) as refused:
        service_account_kubeconfig(bed, "default", "nobody", tmp_path / "config")

    assert refused.value.status == 404


@pytest.mark.parametrize("program", ["kube-apiserver", "etcd"])
@pytest.mark.parametrize("crash", [False, True], ids=["stopped", "crashed"])
def test_a_restarted_server_keeps_its_address_and_data(
    beds: tuple[LocalCluster, LocalCluster], program: str, crash: bool
) -> None:
    bed = beds[1]
    server = bed.server
    name = f"kept-{program}-{crash}".lower()
    with bed.api() as api:
        api.post("/api/v1/namespaces", {"metadata": {"name": name}})

    bed.stop_program(program, crash=crash)
    stopped = not bed.healthy() and program not in bed.pids
    bed.start_program(program)

    assert stopped
    assert eventually(bed.healthy)
    assert bed.server == server
    assert read(bed, f"/api/v1/namespaces/{name}")


def test_up_reuses_a_healthy_bed_and_says_where_it_differs(bed: LocalCluster) -> None:
    progress = SpokenProgress()
    pids = bed.pids

    again = LocalCluster.up(bed.name, nodes=50, scheduler=True, progress=progress)

    assert again.pids == pids
    assert any("nodes is 3, not 50" in line for line in progress.lines)
    assert not any("scheduler" in line for line in progress.lines)


def test_up_replaces_a_half_dead_bed_and_down_leaves_nothing(spare: str) -> None:
    bed = LocalCluster.up(spare, nodes=0)
    before = set(bed.pids.values())
    bed.stop_program("kwok", crash=True)

    bed = LocalCluster.up(spare, nodes=1)

    assert before.isdisjoint(bed.pids.values())
    assert bed.healthy()
    bed.down()
    assert not bed.directory.exists()
    assert processes_naming(bed.directory) == []
    bed.down()


def test_an_up_that_fails_names_the_log_and_leaves_no_process(spare: str, monkeypatch: pytest.MonkeyPatch) -> None:
    arguments = controlplane.arguments

    def broken(program: str, *rest: Any, **options: Any) -> list[str]:
        flags = arguments(program, *rest, **options)
        return [*flags, "--no-such-flag"] if program == "kube-controller-manager" else flags

    monkeypatch.setattr(running, "arguments", broken)

    with pytest.raises(
        ProgramFailedError, match=r"kube-controller-manager ended .*kube-controller-manager\.log"
    ) as failed:
        LocalCluster.up(spare, nodes=1)

    bed = LocalCluster(spare)
    assert "no-such-flag" in failed.value.log.read_text()
    assert processes_naming(bed.directory) == []
    assert LocalCluster.find(spare) is None


def test_a_port_that_is_taken_at_the_last_moment_is_replaced(spare: str, monkeypatch: pytest.MonkeyPatch) -> None:
    taken = socket.socket()
    release = HeldPorts.release

    def lose_the_race(held: HeldPorts, *names: str) -> None:
        release(held, *names)
        if names == ("kube-apiserver",) and taken.getsockname()[1] == 0:
            taken.bind(("127.0.0.1", held.numbers["kube-apiserver"]))
            taken.listen()

    monkeypatch.setattr(HeldPorts, "release", lose_the_race)
    with taken:
        bed = LocalCluster.up(spare, nodes=1)

        assert not bed.server.endswith(f":{taken.getsockname()[1]}")
        assert bed.healthy()
