"""What a kubelet's answers mean: which pods hold what, what is used, and what is no answer at all."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from sandberth.core.resources import Resources
from sandberth.kube.kubeconfig import StaticToken
from sandberth.reporter.connection import Connection
from sandberth.reporter.kubelet import Kubelet, KubeletError, kubelet_access, read_pods, read_usage
from sandberth.reporter.settings import KubeletSettings
from sandberth.reporter.snapshot import take_snapshot
from tests.certificates import Pair, self_signed
from tests.http_fake import HttpFake, Reply, http_fake
from tests.kubelet_documents import Document, a_pod_document, a_pod_list, a_summary

MIB = 2**20


def encoded(document: Any) -> bytes:
    return json.dumps(document).encode()


def requested(*pods: Document) -> tuple[int, int, int]:
    """Return millicores, MiB and the number of pods that these hold together."""
    snapshot = take_snapshot(read_pods(encoded(a_pod_list(*pods))).pods)
    return snapshot.requested.cpu_millicores, snapshot.requested.memory_bytes // MIB, snapshot.pods


def a_container(cpu: str, memory: str, **more: Any) -> Document:
    return {"name": f"c-{cpu}-{memory}", "resources": {"requests": {"cpu": cpu, "memory": memory}}, **more}


STATIC = {"kubernetes.io/config.source": "file", "kubernetes.io/config.hash": "uid-static"}
MIRROR = {"kubernetes.io/config.source": "api", "kubernetes.io/config.mirror": "uid-static"}
REJECTED = {"reason": "OutOfcpu", "message": "Pod was rejected", "containerStatuses": []}

TABLE: dict[str, tuple[list[Document], tuple[int, int, int]]] = {
    "nothing": ([], (0, 0, 0)),
    "one pod": ([a_pod_document("a", cpu="250m", memory="64Mi")], (250, 64, 1)),
    "containers together": (
        [
            a_pod_document(
                "a", spec={"containers": [a_container("100m", "10Mi"), a_container("200m", "20Mi")]}, status={}
            )
        ],
        (300, 30, 1),
    ),
    "a large init container": (
        [
            a_pod_document(
                "a", spec={"containers": [a_container("1", "10Mi")], "initContainers": [a_container("3", "5Mi")]}
            )
        ],
        (3000, 10, 1),
    ),
    "a sidecar runs beside the others": (
        [
            a_pod_document(
                "a",
                spec={
                    "containers": [a_container("1", "10Mi")],
                    "initContainers": [
                        a_container("500m", "100Mi", restartPolicy="Always"),
                        a_container("1200m", "1Mi"),
                    ],
                },
            )
        ],
        (1700, 110, 1),
    ),
    "overhead": (
        [
            a_pod_document(
                "a", spec={"containers": [a_container("1", "10Mi")], "overhead": {"cpu": "250m", "memory": "120Mi"}}
            )
        ],
        (1250, 130, 1),
    ),
    "a limit stands for the request": (
        [a_pod_document("a", spec={"containers": [{"name": "c", "resources": {"limits": {"cpu": "2"}}}]})],
        (2000, 0, 1),
    ),
    "best effort": ([a_pod_document("a", spec={"containers": [{"name": "c", "resources": {}}]})], (0, 0, 1)),
    "a static pod": ([a_pod_document("static", cpu="100m", annotations=STATIC)], (100, 16, 1)),
    "a static pod and its mirror": (
        [
            a_pod_document("static", cpu="100m", annotations=STATIC),
            a_pod_document("static", cpu="100m", annotations=MIRROR),
        ],
        (100, 16, 1),
    ),
    "a mirror whose static pod is not listed": (
        [a_pod_document("static", cpu="100m", annotations=MIRROR)],
        (100, 16, 1),
    ),
    "succeeded": ([a_pod_document("a", phase="Succeeded"), a_pod_document("b")], (250, 16, 1)),
    "failed": ([a_pod_document("a", phase="Failed")], (0, 0, 0)),
    "rejected": ([a_pod_document("a", phase="Failed", status=REJECTED), a_pod_document("b")], (250, 16, 1)),
    "pending": ([a_pod_document("a", phase="Pending", status={"containerStatuses": []})], (250, 16, 1)),
    "of an unknown phase": ([a_pod_document("a", phase="Unknown")], (250, 16, 1)),
    "growing in place": (
        [a_pod_document("a", cpu="1", spec={"containers": [a_container("3", "16Mi") | {"name": "main"}]})],
        (3000, 16, 1),
    ),
    "shrinking in place": (
        [a_pod_document("a", cpu="3", spec={"containers": [a_container("1", "16Mi") | {"name": "main"}]})],
        (3000, 16, 1),
    ),
}


@pytest.mark.parametrize("case", TABLE)
def test_pods_hold_what_the_kubelet_counts(case: str) -> None:
    pods, expected = TABLE[case]

    assert requested(*pods) == expected


def test_a_static_pod_needs_no_version_and_no_time_of_creation() -> None:
    pod = a_pod_document("static", annotations=STATIC)
    del pod["metadata"]["resourceVersion"]
    pod["metadata"]["creationTimestamp"] = None

    assert requested(pod) == (250, 16, 1)


def test_sandboxes_are_listed_by_attempt_with_their_nominal_size() -> None:
    pods = [a_pod_document("box", sandbox_uid="box-uid", nominal=("2", "1Gi")), a_pod_document("other")]

    snapshot = take_snapshot(read_pods(encoded(a_pod_list(*pods))).pods)

    assert snapshot.sandboxes == (f"box-uid.1 2000 {2**30}",)
    assert snapshot.allocated == Resources(2250, 2**30 + 16 * MIB)


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (b"", "no list of pods"),
        (b"<html>", "no list of pods"),
        (b'{"kind": "PodList", "items": [{]}', "no list of pods"),
        (b'{"items": []}', "no list of pods"),
        (b'{"kind": "Status", "code": 500}', "but 'Status'"),
    ],
)
def test_what_is_no_list_is_an_error_and_not_an_empty_node(content: bytes, text: str) -> None:
    with pytest.raises(KubeletError, match=text):
        read_pods(content)


def test_a_pod_that_cannot_be_read_is_named_and_the_others_count() -> None:
    odd = a_pod_document("odd", cpu="plenty")
    none = {"metadata": {"name": "none"}}

    found = read_pods(encoded(a_pod_list(odd, a_pod_document("a"), none)))

    assert [pod.name for pod in found.pods] == ["a"]
    assert len(found.unreadable) == 2
    assert "'plenty' is not a quantity" in found.unreadable[0]


def test_a_kubelet_that_does_not_list_the_reporters_own_pod_is_not_believed() -> None:
    content = encoded(a_pod_list(a_pod_document("static", annotations=STATIC)))

    with pytest.raises(KubeletError, match="has not taken in its pods yet") as caught:
        read_pods(content, "uid-reporter")

    assert caught.value.cause == "starting"
    assert len(read_pods(content, "uid-static").pods) == 1


# --- usage ---


def test_usage_is_the_nodes_own_rounded_up() -> None:
    assert read_usage(encoded(a_summary(1_000_000_001, 12_345, pods=3))) == Resources(1001, 12_345)


@pytest.mark.parametrize(
    "document", [a_summary(None), a_summary(1, None), {"node": {}}, {"node": {"cpu": None, "memory": None}}]
)
def test_usage_that_is_not_sampled_yet_is_unknown(document: Document) -> None:
    assert read_usage(encoded(document)) is None


@pytest.mark.parametrize("content", [b"", b"{}", b'{"node": {"cpu": {"usageNanoCores": "x"}}}'])
def test_what_is_no_summary_is_an_error(content: bytes) -> None:
    with pytest.raises(KubeletError, match="no summary"):
        read_usage(content)


# --- over TLS ---


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Pair:
    return self_signed(tmp_path_factory.mktemp("pki"), "node-1")


@pytest.fixture
def server(pair: Pair) -> Iterator[HttpFake]:
    with http_fake(pair) as fake:
        fake.answers["/pods"] = Reply(a_pod_list(a_pod_document("a")), chunked=True)
        fake.answers["/stats/summary"] = Reply(a_summary(pods=1))
        yield fake


def a_kubelet(server: HttpFake, authority: str = "", *, insecure: bool = False) -> Kubelet:
    settings = KubeletSettings(
        node_name="node-1",
        address="127.0.0.1",
        port=server.port,
        authority=authority,
        server_name="node-1",
        insecure_tls=insecure,
    )
    return Kubelet(Connection(kubelet_access(settings, StaticToken("secret")), 10))


async def test_the_nodes_own_certificate_is_the_authority(server: HttpFake, pair: Pair) -> None:
    kubelet = a_kubelet(server, str(pair.certificate))

    usage, pods = await kubelet.usage(), await kubelet.pods()

    assert usage is not None
    assert [pod.name for pod in pods.pods] == ["a"]
    assert [request.path for request in server.seen] == ["/stats/summary?only_cpu_and_memory=true", "/pods"]
    assert {request.headers["Authorization"] for request in server.seen} == {"Bearer secret"}
    assert server.connections == 1


async def test_no_token_is_sent_to_a_kubelet_that_does_not_verify(
    server: HttpFake, tmp_path_factory: pytest.TempPathFactory
) -> None:
    stranger = self_signed(tmp_path_factory.mktemp("stranger"), "node-1")

    with pytest.raises(KubeletError, match=r"its certificate does not verify: .*--kubelet-ca") as caught:
        await a_kubelet(server, str(stranger.certificate)).pods()

    assert caught.value.cause == "certificate"
    assert server.seen == []


async def test_verification_is_left_out_only_when_told_and_said(
    server: HttpFake, caplog: pytest.LogCaptureFixture
) -> None:
    pods = await a_kubelet(server, insecure=True).pods()

    assert len(pods.pods) == 1
    assert "The kubelet's certificate is not verified" in caplog.text


def test_an_authority_that_is_missing_is_named(server: HttpFake) -> None:
    with pytest.raises(KubeletError, match=r"the authority /nowhere/ca\.crt cannot be used"):
        a_kubelet(server, "/nowhere/ca.crt")


@pytest.mark.parametrize(
    ("status", "text"),
    [
        (401, "401, it does not accept the token"),
        (403, r"403, this service account lacks the right to get nodes/pods .*Forbidden"),
        (500, "500 without a reason: Forbidden"),
    ],
)
async def test_a_refusal_says_what_is_missing(server: HttpFake, pair: Pair, status: int, text: str) -> None:
    server.answers["/pods"] = Reply(b"Forbidden (user=reporter)", status)

    with pytest.raises(KubeletError, match=text):
        await a_kubelet(server, str(pair.certificate)).pods()


async def test_an_address_of_version_6_gets_its_brackets() -> None:
    settings = KubeletSettings(node_name="node-1", address="fd00::7", insecure_tls=True)

    assert kubelet_access(settings, StaticToken()).server == "https://[fd00::7]:10250"
