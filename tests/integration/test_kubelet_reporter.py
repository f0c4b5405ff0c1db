"""The kubelet reporter as a process on the bed's API server: what a token that is bound to a Pod on a node may write.

The bed's nodes have no kubelets, so one is faked; the token, its node claim, RBAC and the policy are real.
"""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sandberth.cluster.kubeconfig import write_kubeconfig
from sandberth.cluster.local import LocalCluster
from sandberth.kube import names
from tests.certificates import Pair, self_signed
from tests.http_fake import HttpFake, Reply, http_fake
from tests.integration.bed import Objects, Program, wait_for
from tests.integration.conftest import Kubectl
from tests.integration.reports import Bed, uid_of
from tests.kubelet_documents import a_pod_document, a_pod_list, a_summary

pytestmark = pytest.mark.integration

OWN, OTHER = "node-4", "node-5"
Start = Callable[..., Program]


@pytest.fixture
def bed(cluster: LocalCluster, objects: Objects) -> Bed:
    return Bed(cluster, objects)


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Pair:
    return self_signed(tmp_path_factory.mktemp("pki"), OWN)


@pytest.fixture
def kubelet(pair: Pair) -> Iterator[HttpFake]:
    with http_fake(pair) as fake:
        pods = [a_pod_document("box", sandbox_uid="box-uid", nominal=("2", "1Gi")), a_pod_document("other")]
        fake.answers["/pods"] = Reply(a_pod_list(*pods), chunked=True)
        fake.answers["/stats/summary"] = Reply(a_summary(1_234_567_890, 2**30))
        yield fake


@pytest.fixture
def access(cluster: LocalCluster, objects: Objects, namespace: str, tmp_path: Path) -> Iterator[Path]:
    """A kubeconfig with a token of the reporter's account that is bound to a Pod on one node, as a DaemonSet's is."""
    name = f"reporter-{namespace}"
    restricted = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    pod = objects.create(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": names.NAMESPACE},
            "spec": {
                "nodeName": OWN,
                "serviceAccountName": names.REPORTER_SERVICE_ACCOUNT,
                "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
                "containers": [{"name": "reporter", "image": "sandberth:dev", "securityContext": restricted}],
            },
        }
    )
    bound = {"kind": "Pod", "apiVersion": "v1", "name": name, "uid": uid_of(pod)}
    with cluster.api() as api:
        answer = api.post(
            f"/api/v1/namespaces/{names.NAMESPACE}/serviceaccounts/{names.REPORTER_SERVICE_ACCOUNT}/token",
            {
                "apiVersion": "authentication.k8s.io/v1",
                "kind": "TokenRequest",
                "spec": {"expirationSeconds": 3600, "boundObjectRef": bound},
            },
        )
    file = tmp_path / "kubeconfig"
    write_kubeconfig(
        file,
        server=cluster.server,
        ca_file=cluster.ca_file,
        user="reporter",
        credentials={"token": answer["status"]["token"]},
    )
    yield file
    objects.delete("Pod", name, names.NAMESPACE)


@pytest.fixture
def start(access: Path, kubelet: HttpFake, pair: Pair, tmp_path: Path) -> Iterator[Start]:
    """Start the reporter of a node, with the token of the one that it is bound to."""
    started: list[Program] = []

    def run(node: str) -> Program:
        command = [sys.executable, "-m", "sandberth", "reporter", "--source", "kubelet", "--kubeconfig", str(access)]
        command += ["--node-name", node, "--kubelet-address", "127.0.0.1", "--kubelet-port", str(kubelet.port)]
        command += ["--kubelet-ca", str(pair.certificate), "--kubelet-server-name", OWN, "--interval", "300ms"]
        command += ["--metrics-host", "127.0.0.1", "--metrics-port", "0", "--allocatable-millicores", "192000"]
        started.append(Program([*command, "--allocatable-bytes", str(2**39)], tmp_path / f"{node}.log"))
        started[-1].start()
        return started[-1]

    yield run
    assert not any(program.stop() for program in started)


def test_a_node_is_reported_with_the_token_of_a_pod_on_it(bed: Bed, kubelet: HttpFake, start: Start) -> None:
    bed.ensure_capacity(OWN)

    start(OWN)

    first = bed.report_when(OWN, lambda report: report.interval_seconds == 0.3)
    later = bed.report_when(OWN, lambda report: report.version > first.version)
    assert later.epoch == first.epoch
    assert later.node_uid == bed.node_uid(OWN)
    assert later.pods == 2
    assert later.sandboxes == (f"box-uid.1 2000 {2**30}",)
    assert later.capacity is not None
    assert (later.capacity.cpu, later.capacity.memory) == ("192", "512Gi")
    assert later.used is not None
    assert (later.used.cpu, later.used.memory) == ("1235m", "1Gi")
    # Other tests hold this node's view against its real Pods, and what the last report lists counts.
    kubelet.answers["/pods"] = Reply(a_pod_list(), chunked=True)
    bed.report_when(OWN, lambda report: not report.sandboxes)


def test_another_node_is_refused_by_the_policy(bed: Bed, start: Start, objects: Objects) -> None:
    bed.ensure_capacity(OTHER)
    before = objects.get(names.NODECAPACITY_KIND, OTHER)

    program = start(OTHER)

    text = f'this token belongs to node "{OWN}", not to {OTHER}'
    wait_for(lambda: text in program.log.read_text(), what="the refusal")
    after = objects.get(names.NODECAPACITY_KIND, OTHER)
    assert before is not None
    assert after is not None
    assert after.get("status", {}).get("report") == before.get("status", {}).get("report")
    assert program.log.read_text().count(text) == 1


def test_the_account_may_read_kubelets_and_capacities_and_patch_their_status(kubectl: Kubectl) -> None:
    listed = kubectl(
        *("auth", "can-i", "--list", "--no-headers"),
        *("--as", f"system:serviceaccount:{names.NAMESPACE}:{names.REPORTER_SERVICE_ACCOUNT}"),
    ).stdout

    rights = [line.split() for line in listed.splitlines() if not line.startswith(" ")]
    own = {(words[0], words[-1]) for words in rights if not words[0].startswith("selfsubject")}
    assert own == {
        ("nodes/pods", "[get]"),
        ("nodes/stats", "[get]"),
        ("nodecapacities.sandberth.dev", "[get]"),
        ("nodecapacities.sandberth.dev/status", "[patch]"),
    }
