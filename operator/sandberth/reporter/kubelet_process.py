"""The reporter of one node as a process of its own: `python -m sandberth.reporter.kubelet_process SETTINGS`.

The command line turns into this process when it has read its options, because what reads them (typer with pydantic)
would stay in memory, 10 MiB on every node. For the same reason no HTTP library and no models of whole objects are
loaded here.
"""

import asyncio
import os
import sys
from random import Random
from typing import NoReturn

import msgspec

from sandberth.core.errors import SandberthError
from sandberth.kube.kubeconfig import cluster_access
from sandberth.reporter.connection import Connection
from sandberth.reporter.kubelet import Kubelet, kubelet_access
from sandberth.reporter.kubelet_source import KubeletReporter
from sandberth.reporter.process import run_until_stopped, set_up_logging
from sandberth.reporter.settings import KubeletSettings
from sandberth.reporter.writing import HttpReportApi

_LONGEST_REQUEST_SECONDS = 10.0
_REQUESTS_AN_INTERVAL = 4  # so that one that hangs leaves time for the others


def become_process(settings: KubeletSettings) -> NoReturn:
    """Replace this process, whatever it has loaded, by the reporter; the process ID stays."""
    text = msgspec.json.encode(settings).decode()
    # -P: a file in the folder of whoever calls us does not take the place of a module.
    os.execv(sys.executable, [sys.executable, "-P", "-m", "sandberth.reporter.kubelet_process", text])  # noqa: S606


def main() -> NoReturn:
    """Report until SIGTERM or SIGINT, then leave with exit code 0; with 1 and one line where it cannot begin."""
    settings = msgspec.json.decode(sys.argv[1], type=KubeletSettings)
    set_up_logging()
    try:
        code = asyncio.run(_run(settings))
    except SandberthError as error:
        print(f"sandberth: {error}", file=sys.stderr)
        code = 1
    sys.exit(code)


async def _run(settings: KubeletSettings) -> int:
    request_seconds = min(_LONGEST_REQUEST_SECONDS, max(1.0, settings.interval_seconds / _REQUESTS_AN_INTERVAL))
    access = cluster_access(settings.kubeconfig or None)
    api = Connection(access, request_seconds)
    kubelet = Kubelet(Connection(kubelet_access(settings, access.tokens), request_seconds), pod_uid=settings.pod_uid)
    reporter = KubeletReporter(kubelet, HttpReportApi(api.request), settings, rng=Random())
    return await run_until_stopped(reporter, settings.metrics_host, settings.metrics_port)


if __name__ == "__main__":
    main()
