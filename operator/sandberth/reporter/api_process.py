"""The api reporter as a process."""

import logging
import sys
from pathlib import Path
from typing import NoReturn

import uvloop

from sandberth.kube.client import Client
from sandberth.kube.kubeconfig import cluster_access
from sandberth.reporter.api_source import ApiReporter
from sandberth.reporter.process import run_until_stopped, set_up_logging
from sandberth.reporter.settings import ReporterSettings


def run_process(settings: ReporterSettings, *, kubeconfig: Path | None, host: str, port: int) -> NoReturn:
    """Report until SIGTERM or SIGINT, then leave with exit code 0."""
    set_up_logging()
    logging.getLogger("aiohttp").setLevel(logging.WARNING)
    sys.exit(uvloop.run(_run(settings, kubeconfig, host, port)))


async def _run(settings: ReporterSettings, kubeconfig: Path | None, host: str, port: int) -> int:
    async with Client(cluster_access(kubeconfig)) as client:
        return await run_until_stopped(ApiReporter(client, settings), host, port)
