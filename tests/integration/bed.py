"""The bed as tests use it: objects by kind, the operator as a process of its own, and what the audit log saw."""

import base64
import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import yaml
from kubernetes import client, config
from kubernetes.client.exceptions import ApiException
from kubernetes.dynamic import DynamicClient

from sandberth.cluster.local import LocalCluster, service_account_kubeconfig
from sandberth.kube import names

Object = dict[str, Any]
T = TypeVar("T")

CREDENTIAL = "authentication.kubernetes.io/credential-id"
API_VERSIONS = {
    names.SANDBOX_KIND: names.API_VERSION,
    names.NODECAPACITY_KIND: names.API_VERSION,
    "ResourceQuota": "v1",
    "LimitRange": "v1",
    "RuntimeClass": "node.k8s.io/v1",
    "StorageClass": "storage.k8s.io/v1",
    "Lease": "coordination.k8s.io/v1",
}


def wait_for(claim: Callable[[], T], seconds: float = 20, what: str = "") -> T:
    """Return the first true value of `claim`. Fails after `seconds`; nothing here waits for a fixed time."""
    deadline = time.monotonic() + seconds
    while True:
        value = claim()
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError(f"not true within {seconds} s: {what or claim}; last: {value!r}")
        time.sleep(0.02)


class Objects:
    """The bed's objects as the administrator sees them, through the official client."""

    def __init__(self, cluster: LocalCluster, cache: Path) -> None:
        configuration = client.Configuration()
        config.load_kube_config(str(cluster.kubeconfig), client_configuration=configuration)  # type: ignore[no-untyped-call]
        self._client = DynamicClient(  # type: ignore[no-untyped-call]
            client.ApiClient(configuration), cache_file=str(cache)
        )

    def _kind(self, kind: str) -> Any:
        return self._client.resources.get(api_version=API_VERSIONS.get(kind, "v1"), kind=kind)

    def create(self, body: Object) -> Object:
        metadata = body["metadata"]
        result: Object = self._kind(body["kind"]).create(body=body, namespace=metadata.get("namespace")).to_dict()
        return result

    def get(self, kind: str, name: str, namespace: str | None = None) -> Object | None:
        try:
            result: Object = self._kind(kind).get(name=name, namespace=namespace).to_dict()
        except ApiException as error:
            if error.status == 404:
                return None
            raise
        return result

    def list(self, kind: str, namespace: str | None = None, **query: Any) -> list[Object]:
        result: list[Object] = self._kind(kind).get(namespace=namespace, **query).to_dict()["items"]
        return result

    def patch(
        self, kind: str, name: str, body: Object, namespace: str | None = None, *, status: bool = False
    ) -> Object:
        resource = self._kind(kind)
        target = resource.status if status else resource
        result: Object = target.patch(
            name=name, namespace=namespace, body=body, content_type="application/merge-patch+json"
        ).to_dict()
        return result

    def delete(self, kind: str, name: str, namespace: str | None = None, **options: Any) -> None:
        try:
            self._kind(kind).delete(name=name, namespace=namespace, body=options or None)
        except ApiException as error:
            if error.status != 404:
                raise


@dataclass
class Program:
    """A Sandberth command as a process of its own, with the rights of its service account."""

    command: list[str]
    log: Path
    process: subprocess.Popen[bytes] | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    started_at: int = 0  # where in the log the newest start begins

    def start(self) -> None:
        assert self.process is None or self.process.poll() is not None
        self.started_at = len(self.log.read_text()) if self.log.exists() else 0
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                self.command, stdout=log, stderr=log, env={**os.environ, **self.environment}
            )

    def kill(self) -> None:
        """SIGKILL: no chance to tidy up."""
        self._end(signal.SIGKILL)

    def stop(self) -> int:
        """SIGTERM, as Kubernetes sends it; return the exit code."""
        return self._end(signal.SIGTERM)

    def _end(self, number: signal.Signals) -> int:
        if self.process is None:
            return 0
        if self.process.poll() is None:
            self.process.send_signal(number)
        return self.process.wait(timeout=30)


class OperatorProgram(Program):
    """`sandberth operator`; `log` tells its port."""

    @property
    def credential(self) -> str:
        """What the audit log calls its token: several operators are one user."""
        access = yaml.safe_load(self.log.with_name("operator.kubeconfig").read_text())
        payload = access["users"][0]["user"]["token"].split(".")[1]
        return "JTI=" + str(json.loads(base64.urlsafe_b64decode(payload + "=="))["jti"])

    def wait_ready(self) -> None:
        wait_for(lambda: self.probe("readyz") == 200, 30, f"operator ready, see {self.log}")

    def restart(self) -> None:
        self.start()
        self.wait_ready()

    @property
    def port(self) -> int | None:
        """The port of the newest start; None until the log says it."""
        lines = [line for line in self.log.read_text()[self.started_at :].splitlines() if "Probes and metrics" in line]
        return int(lines[-1].rstrip(".").rsplit(" ", 1)[1]) if lines else None

    def probe(self, path: str) -> int | None:
        return self.ask(path)[0]

    def ask(self, path: str) -> tuple[int | None, str]:
        """Return the answer to a probe with its text, None while there is none."""
        assert self.process is not None
        assert self.process.poll() is None, self.log.read_text()[-3000:]
        if self.port is None:
            return None, ""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/{path}", timeout=2) as answer:
                return int(answer.status), answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()
        except OSError:
            return None, ""

    def metrics(self) -> str:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/metrics", timeout=5) as answer:
            text: str = answer.read().decode()
        return text


def operator_program(
    cluster: LocalCluster,
    folder: Path,
    *options: str,
    lease_duration: str = "0",
    account: str = names.OPERATOR_SERVICE_ACCOUNT,
) -> OperatorProgram:
    """Return an operator that is to be started; by default it leads without an election, so a restart is instant."""
    access = folder / "operator.kubeconfig"
    service_account_kubeconfig(cluster, names.NAMESPACE, account, access)
    command = [sys.executable, "-m", "sandberth", "operator", "--kubeconfig", str(access)]
    command += ["--metrics-host", "127.0.0.1", "--metrics-port", "0", "--lease-duration", lease_duration, *options]
    return OperatorProgram(command, folder / "operator.log")


def reporter_program(cluster: LocalCluster, folder: Path, *options: str) -> Program:
    access = folder / "reporter.kubeconfig"
    service_account_kubeconfig(cluster, names.NAMESPACE, names.API_REPORTER_SERVICE_ACCOUNT, access)
    command = [sys.executable, "-m", "sandberth", "reporter", "--source", "api", "--kubeconfig", str(access), *options]
    return Program(command, folder / "reporter.log")


@dataclass(frozen=True)
class Write:
    """One write of a service account of Sandberth, from the audit log."""

    user: str
    verb: str
    resource: str
    code: int
    namespace: str
    name: str
    credential: str


class AuditLog:
    """What Sandberth's service accounts wrote; `since` an offset that `position` gave."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def position(self) -> int:
        return self._path.stat().st_size if self._path.exists() else 0

    def writes(self, since: int = 0, user: str = names.OPERATOR_SERVICE_ACCOUNT) -> list[Write]:
        if not self._path.exists():
            return []
        with self._path.open("rb") as log:
            log.seek(since)
            events = [json.loads(line) for line in log.read().splitlines() if line.endswith(b"}")]
        found = []
        for event in events:
            account = event["user"]["username"].rpartition(":")[2]
            reference = event.get("objectRef", {})
            resource = reference.get("resource", "")
            if reference.get("subresource"):
                resource += f"/{reference['subresource']}"
            if account == user:
                code = event.get("responseStatus", {}).get("code", 0)
                namespace, name = reference.get("namespace", ""), reference.get("name", "")
                token = (event["user"].get("extra") or {}).get(CREDENTIAL, [""])[0]
                found.append(Write(account, event["verb"], resource, code, namespace, name, token))
        return found

    def count(self, since: int = 0) -> Counter[tuple[str, str]]:
        return Counter((write.verb, write.resource) for write in self.writes(since))
