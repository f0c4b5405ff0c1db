"""What one kubelet says of its node: its pods, and what the node uses.

Two of the kubelet's own endpoints, each with a fine-grained right of its own (Kubernetes 1.33): /pods needs
nodes/pods, /stats/summary needs nodes/stats. Nothing here needs nodes/proxy, which would also run commands in pods.
"""

import logging
import ssl
from typing import Final, NamedTuple

import msgspec

from sandberth.core.errors import SandberthError
from sandberth.core.resources import Resources
from sandberth.kube.errors import ApiError, Unreachable
from sandberth.kube.kubeconfig import SERVICE_ACCOUNT, ClusterAccess, TokenSource
from sandberth.kube.podmodel import Pod
from sandberth.kube.pods import PodFacts, pod_facts
from sandberth.reporter.connection import Connection
from sandberth.reporter.settings import KubeletSettings

LOG = logging.getLogger(__name__)

PODS_PATH: Final = "/pods"
STATS_PATH: Final = "/stats/summary?only_cpu_and_memory=true"
_MIRROR_ANNOTATION: Final = "kubernetes.io/config.mirror"
_RIGHTS: Final = {PODS_PATH: "nodes/pods", STATS_PATH: "nodes/stats"}


class KubeletError(SandberthError):
    """The kubelet gave no answer that a report can be made from; `cause` is the kind of trouble, the same each time."""

    def __init__(self, cause: str, message: str) -> None:
        super().__init__(f"the kubelet: {message}")
        self.cause = cause


class KubeletPods(NamedTuple):
    """The pods of the node at one instant; `unreadable` are those that are not among them."""

    pods: tuple[PodFacts, ...]
    unreadable: tuple[str, ...]


class _PodList(msgspec.Struct, gc=False):
    kind: str
    items: list[msgspec.Raw] | None = None


class _Slim(msgspec.Struct, rename="camel", gc=False):
    pass


class _Cpu(_Slim):
    usage_nano_cores: int | None = None


class _Memory(_Slim):
    working_set_bytes: int | None = None


class _Node(_Slim):
    cpu: _Cpu | None = None
    memory: _Memory | None = None


class _Summary(_Slim):
    node: _Node


_LIST_DECODER = msgspec.json.Decoder(_PodList)
_POD_DECODER = msgspec.json.Decoder(Pod)
_SUMMARY_DECODER = msgspec.json.Decoder(_Summary)


class Kubelet:
    """The kubelet of one node. Every method raises KubeletError where it gave no whole answer."""

    def __init__(self, connection: Connection, *, pod_uid: str = "") -> None:
        self._connection = connection
        self._pod_uid = pod_uid

    async def pods(self) -> KubeletPods:
        """Return every pod that the kubelet holds, ended and refused ones included, static ones once.

        With a `pod_uid`, the reporter's own, a list without it is an error: a kubelet that has just started answers
        before it knows its pods.
        """
        return read_pods(await self._get(PODS_PATH), self._pod_uid)

    async def usage(self) -> Resources | None:
        """Return what the node uses: CPU over the kubelet's last sampling period, memory as its working set.

        None where the kubelet has not sampled yet.
        """
        return read_usage(await self._get(STATS_PATH))

    async def _get(self, path: str) -> bytes:
        try:
            return await self._connection.request("GET", path)
        except ApiError as error:
            raise KubeletError(f"{path} {error.status}", _refusal(path, error)) from error
        except Unreachable as error:
            cause = error.__cause__
            if isinstance(cause, ssl.SSLCertVerificationError):
                hint = "--kubelet-ca names the authority that it is to be verified with"
                raise KubeletError("certificate", f"its certificate does not verify: {cause}; {hint}") from error
            raise KubeletError(type(cause).__name__, f"no answer ({error})") from error


def read_pods(content: bytes, pod_uid: str = "") -> KubeletPods:
    """Return the pods of an answer to /pods. Raises KubeletError on what is no whole list."""
    try:
        answer = _LIST_DECODER.decode(content)
    except (msgspec.MsgspecError, ValueError) as error:
        raise KubeletError("list", f"{PODS_PATH} is no list of pods: {error}") from error
    if answer.kind != "PodList":
        raise KubeletError("list", f"{PODS_PATH} is no list of pods but {answer.kind!r:.80}")
    found: list[tuple[PodFacts, bool]] = []  # and whether it is a mirror
    unreadable = []
    for item in answer.items or ():
        try:
            pod = _POD_DECODER.decode(item)
            found.append((pod_facts(pod), _MIRROR_ANNOTATION in (pod.metadata.annotations or {})))
        except (msgspec.MsgspecError, ValueError) as error:
            unreadable.append(str(error))
    if pod_uid and all(pod.uid != pod_uid for pod, _ in found):
        raise KubeletError("starting", "it does not list this very pod, so it has not taken in its pods yet")
    # A static pod and the mirror that shows it in the API have one name and hold one room; kubelets list the former.
    originals = {(pod.namespace, pod.name) for pod, is_mirror in found if not is_mirror}
    pods = (pod for pod, is_mirror in found if not is_mirror or (pod.namespace, pod.name) not in originals)
    return KubeletPods(tuple(pods), tuple(unreadable))


def read_usage(content: bytes) -> Resources | None:
    """Return the node's usage from an answer to /stats/summary, rounded up. Raises KubeletError on what is none."""
    try:
        node = _SUMMARY_DECODER.decode(content).node
    except (msgspec.MsgspecError, ValueError) as error:
        raise KubeletError("summary", f"/stats/summary is no summary: {error}") from error
    cpu = node.cpu.usage_nano_cores if node.cpu else None
    memory = node.memory.working_set_bytes if node.memory else None
    if cpu is None or memory is None:
        return None
    return Resources(-(-max(0, cpu) // 1_000_000), max(0, memory))


def kubelet_access(settings: KubeletSettings, tokens: TokenSource) -> ClusterAccess:
    """Return where the node's kubelet is and what its certificate is verified with.

    Raises KubeletError for an authority that cannot be read.
    """
    host = f"[{settings.address}]" if ":" in settings.address else settings.address
    return ClusterAccess(
        server=f"https://{host}:{settings.port}",
        tls=_tls(settings.authority, is_verified=not settings.insecure_tls),
        tokens=tokens,
        server_hostname=settings.server_name or None,
    )


def _tls(authority: str, *, is_verified: bool) -> ssl.SSLContext:
    if not is_verified:
        LOG.warning("The kubelet's certificate is not verified (--kubelet-insecure-tls).")
        context = ssl.create_default_context()
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        return context
    file = authority or str(SERVICE_ACCOUNT / "ca.crt")
    try:
        return ssl.create_default_context(cafile=file)
    except (OSError, ssl.SSLError) as error:
        raise KubeletError("authority", f"the authority {file} cannot be used: {error}") from error


def _refusal(path: str, error: ApiError) -> str:
    if error.status == 401:
        return f"401, it does not accept the token of this service account ({error.message})"
    if error.status == 403:
        return f"403, this service account lacks the right to get {_RIGHTS[path]} ({error.message})"
    return str(error)
