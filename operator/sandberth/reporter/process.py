"""The reporter as a process: logging, signals, and a prompt end.

SIGUSR1 reports all nodes at once, and the interval starts anew there: an experiment begins on fresh reports.
"""

import asyncio
import contextlib
import logging
import signal
import sys
from pathlib import Path

import uvloop

from sandberth.kube.client import Client
from sandberth.kube.kubeconfig import cluster_access
from sandberth.reporter.api_source import ApiReporter
from sandberth.reporter.probes import Probes
from sandberth.reporter.settings import ReporterSettings

LOG = logging.getLogger(__name__)


def run_process(settings: ReporterSettings, *, kubeconfig: Path | None, host: str, port: int) -> None:
    """Report until SIGTERM or SIGINT, then leave with exit code 0."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s", force=True)
    logging.getLogger("aiohttp").setLevel(logging.WARNING)
    sys.exit(uvloop.run(_run(settings, kubeconfig, host, port)))


async def _run(settings: ReporterSettings, kubeconfig: Path | None, host: str, port: int) -> int:
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    async with Client(cluster_access(kubeconfig)) as client:
        reporter = ApiReporter(client, settings)
        loop.add_signal_handler(signal.SIGUSR1, reporter.trigger)
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stopped.set)
        probes = await _probes(reporter, host, port)
        running = asyncio.create_task(reporter.run(), name="reporter")
        stopping = asyncio.create_task(stopped.wait(), name="signal")
        await asyncio.wait({running, stopping}, return_when=asyncio.FIRST_COMPLETED)
        code = 0
        if not stopped.is_set():
            LOG.critical("The reporter cannot go on and leaves; it is to be started again.", exc_info=_error(running))
            code = 1
        for task in (running, stopping):
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError, Exception):
                await task
        if probes is not None:
            await probes.stop()
    return code


async def _probes(reporter: ApiReporter, host: str, port: int) -> Probes | None:
    """Start to answer probes; a port that is taken is no reason not to report, and in a Pod the probe notices."""
    probes = Probes(reporter)
    try:
        await probes.start(host, port)
    except OSError as error:
        LOG.warning("Neither probes nor metrics: %s", error)
        await probes.stop()
        return None
    LOG.info("Probes and metrics on port %d.", probes.port)
    return probes


def _error(task: asyncio.Task[None]) -> BaseException | None:
    return None if task.cancelled() else task.exception()
