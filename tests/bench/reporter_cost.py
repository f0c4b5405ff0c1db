"""What the kubelet reporter costs a node: `python -m tests.bench.reporter_cost --pods 100`.

It runs the real command against a kubelet and an API server that are faked in this process, over TLS, with pods as
large as real ones, more often than once in 20 s so that it is over soon. CPU is that of the reporter's process alone;
millicores are for one report in 20 s.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import yaml

from tests.certificates import Pair, self_signed
from tests.http_fake import HttpFake, Reply, Request, http_fake
from tests.kubelet_documents import a_pod_document, a_pod_list, a_summary

INTERVAL_SECONDS = 20.0
CAPACITY = "/apis/sandberth.dev/v1alpha1/nodecapacities/node-1"
WARM_UP = 5  # reports that are not counted


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--pods", type=int, default=100)
    parser.add_argument("--reports", type=int, default=60)
    parser.add_argument("--interval", default="200ms")
    options = parser.parse_args()
    print(json.dumps(measure(options.pods, options.reports, options.interval)))


def measure(pods: int, reports: int, interval: str = "200ms") -> dict[str, float]:
    """Return memory in MiB and CPU in milliseconds a report, and in millicores of one report in 20 s."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        pair = self_signed(folder, "node-1", "127.0.0.1")
        with http_fake(pair) as kubelet, http_fake(pair) as api:
            list_bytes = kubelet_of(kubelet, pods)
            writes = api_of(api)
            command = [
                sys.executable,
                "-m",
                "sandberth",
                *arguments(folder, pair, kubelet, api),
                "--interval",
                interval,
            ]
            with subprocess.Popen(command, stderr=subprocess.DEVNULL) as process:
                try:
                    start_seconds = _cpu_seconds(process.pid, api, WARM_UP)
                    end_seconds = _cpu_seconds(process.pid, api, WARM_UP + reports)
                    status = Path(f"/proc/{process.pid}/status").read_text()
                finally:
                    process.terminate()
    cpu_ms = (end_seconds - start_seconds) * 1000 / reports
    fields = dict(line.split(":", 1) for line in status.splitlines())
    return {
        "pods": pods,
        "list_kib": round(list_bytes / 1024),
        "reports": len(writes),
        "rss_mib": round(int(fields["VmRSS"].split()[0]) / 1024, 1),
        "peak_rss_mib": round(int(fields["VmHWM"].split()[0]) / 1024, 1),
        "cpu_ms_per_report": round(cpu_ms, 2),
        "millicores": round(cpu_ms / INTERVAL_SECONDS, 2),
    }


def kubelet_of(fake: HttpFake, pods: int) -> int:
    """Have the fake answer as a kubelet with that many pods, all of Sandboxes; return the length of its list."""
    documents = [a_pod_document(f"box-{number}", sandbox_uid=f"{number:036}") for number in range(pods)]
    content = json.dumps(a_pod_list(*documents)).encode()
    fake.answers["/pods"] = Reply(content, chunked=True)
    fake.answers["/stats/summary"] = Reply(json.dumps(a_summary(pods=pods)).encode(), chunked=True)
    return len(content)


def api_of(fake: HttpFake) -> list[Any]:
    """Have the fake answer as an API server with one NodeCapacity; return the list that its patches go to."""
    writes: list[Any] = []
    owner = {"apiVersion": "v1", "kind": "Node", "name": "node-1", "uid": "node-uid"}
    metadata = {"name": "node-1", "uid": "capacity-uid", "resourceVersion": "1", "ownerReferences": [owner]}

    def patched(request: Request) -> Reply:
        writes.append(request.body)
        return Reply(request.body)

    fake.answers[CAPACITY] = Reply({"metadata": metadata})
    fake.answers[f"{CAPACITY}/status"] = patched
    return writes


def arguments(folder: Path, pair: Pair, kubelet: HttpFake, api: HttpFake) -> list[str]:
    """Return how to call the command against both fakes."""
    document = {
        "current-context": "fake",
        "contexts": [{"name": "fake", "context": {"cluster": "fake", "user": "fake"}}],
        "clusters": [{"name": "fake", "cluster": {"server": api.url, "certificate-authority": str(pair.certificate)}}],
        "users": [{"name": "fake", "user": {"token": "a-token"}}],
    }
    (folder / "kubeconfig").write_text(yaml.safe_dump(document))
    return [
        *("reporter", "--source", "kubelet", "--node-name", "node-1", "--kubeconfig", str(folder / "kubeconfig")),
        *("--kubelet-address", "127.0.0.1", "--kubelet-port", str(kubelet.port)),
        *("--kubelet-ca", str(pair.certificate), "--kubelet-server-name", "node-1"),
        *("--metrics-host", "127.0.0.1", "--metrics-port", "0"),
    ]


def _cpu_seconds(pid: int, api: HttpFake, writes: int) -> float:
    """Return what the process has used when that many reports have come."""
    api.until_asked(f"{CAPACITY}/status", writes, 120)
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    main()
