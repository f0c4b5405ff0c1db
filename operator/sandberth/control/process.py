"""The operator as a process: logging, the event loop, and a prompt end at SIGTERM."""

import asyncio
import contextlib
import json
import logging
import os
import signal
import sys
import time

import uvloop

from sandberth.control.application import Operator
from sandberth.control.leadership import Leadership
from sandberth.control.lease import Timing
from sandberth.control.settings import Settings
from sandberth.core.errors import SandberthError
from sandberth.kube.client import Client
from sandberth.kube.kubeconfig import cluster_access

LOG = logging.getLogger(__name__)
_GRACE_SECONDS = 1.0
_LEASE_CONNECTIONS = 2
# The API server stores templates nested up to 10,000 levels, and kopf reads every Sandbox of a stream or none: one such
# object must not end the stream. (The JSON parser of the standard library needs 3 MB of stack for that.)
_RECURSION_LIMIT = 50_000


class JsonFormatter(logging.Formatter):
    """One JSON object a line."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the record as JSON."""
        entry = {
            "time": time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created)) + f".{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            entry["error"] = self.formatException(record.exc_info)
        return json.dumps(entry, ensure_ascii=False)


def set_up_logging(*, json_logs: bool) -> None:
    """Log to stderr, as text or as JSON."""
    handler = logging.StreamHandler()
    text = logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s")
    handler.setFormatter(JsonFormatter() if json_logs else text)
    logging.basicConfig(level=logging.INFO, handlers=[handler], force=True)
    for noisy in ("kopf", "aiohttp"):
        logging.getLogger(noisy).setLevel(logging.WARNING)


def run_process(settings: Settings, *, json_logs: bool = False) -> None:
    """Run an operator until SIGTERM or SIGINT; exit code 1 where a part of it failed."""
    sys.setrecursionlimit(_RECURSION_LIMIT)
    set_up_logging(json_logs=json_logs)
    sys.exit(uvloop.run(_run(settings)))


async def _run(settings: Settings) -> int:
    access = cluster_access(settings.kubeconfig)
    stopped = asyncio.Event()
    leadership = Leadership(elected=settings.lease_duration_seconds > 0)
    lease_limit = Timing(settings.lease_duration_seconds).call_seconds
    async with (
        Client(access, before_write=leadership.check) as client,
        Client(access, connections=_LEASE_CONNECTIONS, timeout_seconds=lease_limit) as lease_client,
    ):
        operator = Operator(
            settings,
            access,
            client,
            leadership=leadership,
            lease_client=lease_client,
            on_kopf_started=lambda: _stop_on_signals(stopped),
        )
        _stop_on_signals(stopped)
        running = asyncio.create_task(operator.run(), name="operator")
        stopping = asyncio.create_task(stopped.wait(), name="signal")
        await asyncio.wait({running, stopping}, return_when=asyncio.FIRST_COMPLETED)
        if not stopped.is_set():
            stopping.cancel()
            await operator.step_down()
            return _failure(running)
        LOG.info("Stopping.")
        await operator.step_down()
        running.cancel()
        with contextlib.suppress(asyncio.CancelledError, Exception):
            await asyncio.wait({running}, timeout=_GRACE_SECONDS)
        if not running.done():
            # Every step is safe to be cut off, and kopf takes many seconds to stop by itself.
            logging.shutdown()
            os._exit(0)
    return 0


def _failure(running: asyncio.Task[None]) -> int:
    error = running.exception()
    if isinstance(error, SandberthError):
        LOG.critical("The operator leaves: %s", error)
        return 1
    LOG.critical("The operator cannot go on and leaves; it is to be started again.", exc_info=error)
    return 1


def _stop_on_signals(stopped: asyncio.Event) -> None:
    """Set our own handlers; kopf sets its own at its start, so this is called once more after it."""
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopped.set)
