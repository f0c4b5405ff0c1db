"""The bed itself: its nodes, the fences around them, and that no test reaches any other cluster."""

import os
import socket
from pathlib import Path

import pytest
import yaml

from sandberth.cluster.kind import hostsettings
from sandberth.kube import names
from tests.kind.bed import ForeignClusterError, KindBed, a_sandbox, own_context

DOCUMENTATION_ADDRESS = "192.0.2.1"  # RFC 5737: nobody's, so a try that leaves the node harms nobody
UNUSED_SERVICE_ADDRESS = "10.96.213.77"
UNUSED_POD_ADDRESS = "10.244.199.3"
TRY = """
import socket, sys, time
began = time.monotonic()
try:
    socket.create_connection((sys.argv[1], int(sys.argv[2])), timeout=8)
    print("connected")
except OSError as error:
    print(error.__class__.__name__, time.monotonic() - began < 4)
"""


def test_every_node_is_ready_and_runs_a_kubelet(bed: KindBed) -> None:
    nodes = bed.list("Node")

    assert {node["metadata"]["name"] for node in nodes} == {bed.control_plane, *bed.workers}
    assert len(bed.workers) == 2
    for node in nodes:
        ready = {each["type"]: each["status"] for each in node["status"]["conditions"]}["Ready"]
        assert ready == "True"
        assert node["status"]["nodeInfo"]["kubeletVersion"].startswith("v1.")


def test_every_node_is_reported(bed: KindBed) -> None:
    reports = {each["metadata"]["name"]: each["status"]["report"] for each in bed.list(names.NODECAPACITY_KIND)}

    assert {node["metadata"]["name"]: node["metadata"]["uid"] for node in bed.list("Node")} == {
        name: report["nodeUID"] for name, report in reports.items()
    }


def test_a_context_that_is_not_the_beds_is_refused(bed: KindBed, tmp_path: Path) -> None:
    foreign = yaml.safe_load(bed.cluster.kubeconfig.read_text())
    foreign["current-context"] = "production"
    other = tmp_path / "kubeconfig"
    other.write_text(yaml.safe_dump(foreign))

    with pytest.raises(ForeignClusterError, match=rf"against {bed.context} only; .* points at production"):
        own_context(other, bed.cluster.cluster)


def test_a_kubeconfig_that_leads_to_another_machine_is_refused(bed: KindBed, tmp_path: Path) -> None:
    foreign = yaml.safe_load(bed.cluster.kubeconfig.read_text())
    foreign["clusters"][0]["cluster"]["server"] = "https://192.0.2.1:6443"
    other = tmp_path / "kubeconfig"
    other.write_text(yaml.safe_dump(foreign))

    with pytest.raises(ForeignClusterError, match=f"more than {bed.context} on this machine"):
        own_context(other, bed.cluster.cluster)


@pytest.mark.parametrize("option", ["--context=other", "--kubeconfig=/tmp/other", "--server=https://192.0.2.1"])
def test_kubectl_is_not_led_to_another_cluster(bed: KindBed, option: str) -> None:
    with pytest.raises(ForeignClusterError, match=f"is bound to {bed.context}"):
        bed.kubectl("get", "nodes", option)


def test_the_environment_does_not_say_which_cluster(bed: KindBed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", "/nonexistent")

    assert bed.control_plane in bed.kubectl("get", "nodes", "--output=name").stdout


@pytest.mark.parametrize(
    ("address", "port"), [(DOCUMENTATION_ADDRESS, 443), (UNUSED_SERVICE_ADDRESS, 80), (UNUSED_POD_ADDRESS, 80)]
)
def test_a_sandbox_is_refused_at_once_what_is_not_in_the_cluster(
    bed: KindBed, namespace: str, address: str, port: int
) -> None:
    bed.apply(a_sandbox(), namespace)
    bed.wait_for_phase("box", namespace=namespace)

    answer = bed.exec("box", "python3", "-c", TRY, address, str(port), namespace=namespace).split()

    assert answer[0] in ("ConnectionRefusedError", "OSError")  # refused, or no route
    assert answer[1] == "True"


def test_a_service_without_endpoints_is_refused_at_once(bed: KindBed, namespace: str) -> None:
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "empty"}}
    bed.apply([service | {"spec": {"selector": {"app": "nobody"}, "ports": [{"port": 80}]}}, a_sandbox()], namespace)
    bed.wait_for_phase("box", namespace=namespace)

    answer = bed.exec("box", "python3", "-c", TRY, f"empty.{namespace}.svc", "80", namespace=namespace).split()

    assert answer == ["ConnectionRefusedError", "True"]


def test_a_sandbox_reaches_the_api_server_by_its_service(bed: KindBed, namespace: str) -> None:
    bed.apply(a_sandbox(), namespace)
    bed.wait_for_phase("box", namespace=namespace)

    assert bed.exec("box", "python3", "-c", TRY, "kubernetes.default.svc", "443", namespace=namespace) == "connected\n"


def test_nothing_in_a_node_leaves_the_node_for_beyond_this_machine(bed: KindBed) -> None:
    for node in (bed.control_plane, *bed.workers):
        script = f"timeout 5 bash -c '</dev/tcp/{DOCUMENTATION_ADDRESS}/443'; echo $?"
        assert bed.on_node(node, "bash", "-c", script).stdout == "1\n"  # 124 would be the end of the 5 s
        routes = bed.on_node(node, "ip", "-4", "route").stdout
        assert "unreachable 10.244.0.0/16" in routes
        for chain in ("OUTPUT", "FORWARD"):
            assert f"-A {chain} -j FENCE" in bed.on_node(node, "iptables", "-S", chain).stdout
        assert (
            bed.on_node(node, "iptables", "-S", "FENCE")
            .stdout.splitlines()[-1]
            .startswith("-A FENCE -o eth0 -j REJECT")
        )


@pytest.mark.skipif(os.geteuid() != 0, reason="the rules of this machine are read by root alone")
def test_this_machine_refuses_what_a_node_without_a_fence_would_send(bed: KindBed) -> None:
    assert bed.cluster.network.is_fenced()

    (worker, *_) = bed.workers
    bed.on_node(worker, "iptables", "-I", "OUTPUT", "-d", DOCUMENTATION_ADDRESS, "-j", "ACCEPT")
    try:
        script = f"timeout 5 bash -c '</dev/tcp/{DOCUMENTATION_ADDRESS}/443'; echo $?"
        assert bed.on_node(worker, "bash", "-c", script).stdout == "1\n"
    finally:
        bed.on_node(worker, "iptables", "-D", "OUTPUT", "-d", DOCUMENTATION_ADDRESS, "-j", "ACCEPT")


def test_nobody_outside_this_machine_is_served(bed: KindBed) -> None:
    published = bed.docker.run("port", bed.control_plane).split()
    addresses = [each.rpartition(":")[0] for each in published if ":" in each]

    assert addresses == ["127.0.0.1"]
    port = int(published[-1].rpartition(":")[2])
    with socket.create_connection(("127.0.0.1", port), timeout=5):
        pass


def test_what_kubelets_change_on_this_machine_is_noted_for_later(bed: KindBed) -> None:
    assert hostsettings.note_path().is_file()
