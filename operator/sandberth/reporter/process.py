"""A reporter as a process, whatever its source: logging, signals, probes, and a prompt end.

SIGUSR1 reports at once, and the interval starts anew there: an experiment begins on fresh reports.
"""

import asyncio
import contextlib
import logging
import signal
from typing import Protocol

from sandberth.reporter.probes import Probes

LOG = logging.getLogger(__name__)


class Reporter(Protocol):
    """What a process needs of a reporter."""

    def trigger(self) -> None:
        """Report now."""

    async def run(self) -> None:
        """Report until cancelled."""

    def not_alive(self) -> str | None:
        """Return why only a restart would help, None where nothing is wrong."""

    def not_ready(self) -> str | None:
        """Return why nothing is reported yet, None where reports are written."""

    def metrics(self) -> str:
        """Return the metrics in the text format of Prometheus."""


def set_up_logging() -> None:
    """Log to stderr, one line an event."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s", force=True)


async def run_until_stopped(reporter: Reporter, host: str, port: int) -> int:
    """Report until SIGTERM or SIGINT, then return exit code 0; 1 where the reporter cannot go on."""
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
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


async def _probes(reporter: Reporter, host: str, port: int) -> Probes | None:
    """Start to answer probes; a port that is taken is no reason not to report, and in a Pod the probe notices."""
    probes = Probes(alive=reporter.not_alive, ready=reporter.not_ready, metrics=reporter.metrics)
    try:
        await probes.start(host, port)
    except OSError as error:
        LOG.warning("Neither probes nor metrics: %s", error)
        return None
    LOG.info("Probes and metrics on port %d.", probes.port)
    return probes


def _error(task: asyncio.Task[None]) -> BaseException | None:
    return None if task.cancelled() else task.exception()
