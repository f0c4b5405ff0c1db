"""The story from the bed's start to its end: one burst for each setting, each on fresh reports."""

import asyncio
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from sandberth.cluster.errors import ClusterError
from sandberth.cluster.local import LocalCluster
from sandberth.cluster.places import beds_directory, is_locked, locked
from sandberth.demo import burst
from sandberth.demo.display import Display
from sandberth.demo.parameters import SETTINGS, Parameters
from sandberth.demo.stage import raise_stage, refresh_reports, set_flags
from sandberth.demo.statistics import Outcome, failures
from sandberth.kube.client import Client
from sandberth.kube.kubeconfig import cluster_access
from sandberth.kube.paths import sandbox_path

Show = Callable[[Outcome], None]


def tell(parameters: Parameters, display: Display, show: Show) -> tuple[list[Outcome], list[str]]:
    """Run the story; return the outcomes and what is wrong with them. `show` is called after each burst.

    A bed of the demo's name that is there already is replaced. With `keep` the new one stays, with the Sandboxes of the
    last setting; else it is taken down, on errors and on Ctrl-C too. Where something is wrong, its logs stay.
    Raises ClusterError, or an error of the API.
    """
    lock = beds_directory() / f".{parameters.bed}.demo.lock"
    if is_locked(lock):
        raise ClusterError(f"another demo is under way in bed {parameters.bed}")
    with locked(lock):
        if LocalCluster(parameters.bed).directory.exists():
            with display.step(f"taking down what an earlier run left of bed {parameters.bed}"):
                LocalCluster(parameters.bed).down()
        wrong: list[str] = []
        completed = False
        try:
            outcomes = list(_play(parameters, display, show))
            wrong = failures(outcomes) if parameters.check else []
            completed = True
        finally:
            if not (completed and parameters.keep):
                with _undisturbed(), display.step("taking the bed down"):
                    LocalCluster(parameters.bed).down(keep_logs=not completed or bool(wrong))
            lock.unlink(missing_ok=True)
    return outcomes, wrong


def _play(parameters: Parameters, display: Display, show: Show) -> Iterator[Outcome]:
    bed = raise_stage(parameters, display)
    for position, setting in enumerate(parameters.settings):
        with display.step(f"{setting}: setting the flags, and reporting all nodes afresh"):
            set_flags(bed, SETTINGS[setting])
            refresh_reports(bed)
        outcome = asyncio.run(_burst(bed, parameters, setting, display))
        show(outcome)
        yield outcome
        if position + 1 < len(parameters.settings):
            asyncio.run(_clear(bed, setting, display))


async def _burst(bed: LocalCluster, parameters: Parameters, setting: str, display: Display) -> Outcome:
    async with Client(cluster_access(bed.kubeconfig)) as client:
        began = time.monotonic()
        label = f"{setting}: applying {parameters.count} Sandboxes, {parameters.rate:g} a second"
        with display.count(label, parameters.count) as advance:
            late = await burst.apply_all(client, parameters, advance)
        with display.count(f"{setting}: waiting until all are Running", parameters.count) as advance:
            await burst.wait_until_running(client, parameters.count, advance)
        seconds = time.monotonic() - began
        found = await burst.count_all(client)
    nodes = sorted(found.counts, key=lambda name: (len(name), name))  # node-2 before node-10
    return Outcome(
        setting=setting,
        nodes=tuple(nodes),
        counts=tuple(found.counts[node] for node in nodes),
        allocated_fractions=tuple(found.allocated_fractions[node] for node in nodes),
        asked=parameters.count,
        running=found.running,
        seconds=seconds,
        applied_late_seconds=late,
        faults=found.faults,
    )


async def _clear(bed: LocalCluster, setting: str, display: Display) -> None:
    async with Client(cluster_access(bed.kubeconfig)) as client:
        total = len(await burst.listed(client, sandbox_path(burst.NAMESPACE)))
        with display.count(f"{setting}: deleting them", total) as advance:
            gone = await burst.delete_all(client, advance)
    if not gone:
        raise ClusterError(f"the Sandboxes of setting {setting} are not gone two minutes after their deletion")


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Finish what is being stopped: a second Ctrl-C would leave half of it running."""
    previous: dict[signal.Signals, Any] = {
        number: signal.signal(number, signal.SIG_IGN) for number in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
