"""One burst: Sandboxes applied on schedule, waited for, counted, deleted."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import orjson

from sandberth.demo.display import Advance
from sandberth.demo.parameters import Parameters
from sandberth.demo.tally import Tally, tally
from sandberth.kube import names
from sandberth.kube.client import Client
from sandberth.kube.paths import node_path, pod_path, sandbox_path

NAMESPACE = "demo"
READY_SECONDS = 60.0
_GONE_SECONDS = 120.0
_POLL_SECONDS = 0.5
_DELETES_AT_ONCE = 16


def sandbox_manifest(number: int) -> dict[str, Any]:
    """Return one of the article's sandboxes: 1 vCPU, 1 GiB."""
    return {
        "apiVersion": names.API_VERSION,
        "kind": names.SANDBOX_KIND,
        "metadata": {"name": f"sandbox-{number:05}", "namespace": NAMESPACE},
        "spec": {
            "image": "busybox:1.36",
            "command": ["sleep", "infinity"],
            "resources": {"cpu": "1", "memory": "1Gi"},
        },
    }


async def run_on_schedule(jobs: Sequence[Callable[[], Awaitable[object]]], rate: float, advance: Advance) -> float:
    """Start job n at n / `rate` seconds, done or not the ones before it; return the worst delay of a start.

    Raises the first job's error, after cancelling the others.
    """
    clock = asyncio.get_running_loop().time
    start, worst, done = clock(), 0.0, 0

    async def run(job: Callable[[], Awaitable[object]]) -> None:
        nonlocal done
        await job()
        done += 1
        advance(done)

    try:
        async with asyncio.TaskGroup() as tasks:
            for number, job in enumerate(jobs):
                due = start + number / rate
                await asyncio.sleep(max(0.0, due - clock()))
                worst = max(worst, clock() - due)
                tasks.create_task(run(job))
    except ExceptionGroup as group:
        raise group.exceptions[0] from group
    return worst


async def apply_all(client: Client, parameters: Parameters, advance: Advance) -> float:
    """Create the Sandboxes; return by how many seconds the latest was late."""

    def job(number: int) -> Callable[[], Awaitable[object]]:
        return lambda: client.post(sandbox_path(NAMESPACE), sandbox_manifest(number))

    return await run_on_schedule([job(number) for number in range(parameters.count)], parameters.rate, advance)


async def wait_until_running(client: Client, count: int, advance: Advance) -> None:
    """Return when `count` Sandboxes are Running, or after READY_SECONDS: the tally then says how many are."""
    clock = asyncio.get_running_loop().time
    deadline = clock() + READY_SECONDS
    while clock() < deadline:
        phases = [each.get("status", {}).get("phase") for each in await listed(client, sandbox_path(NAMESPACE))]
        running = phases.count(names.Phase.RUNNING)
        advance(running)
        if running >= count:
            return
        await asyncio.sleep(_POLL_SECONDS)


async def count_all(client: Client) -> Tally:
    """Return who runs where."""
    nodes = await listed(client, node_path())
    sandboxes = await listed(client, sandbox_path(NAMESPACE))
    return tally(nodes, sandboxes, await listed(client, pod_path()))


async def delete_all(client: Client, advance: Advance) -> bool:
    """Delete the Sandboxes; return whether they and their Pods are gone before we lost patience."""
    clock = asyncio.get_running_loop().time
    deadline = clock() + _GONE_SECONDS
    total = len(await listed(client, pod_path(NAMESPACE)))
    places = asyncio.Semaphore(_DELETES_AT_ONCE)

    async def delete(name: str) -> None:
        async with places:
            await client.delete(sandbox_path(NAMESPACE, name))

    # One by one, as kubectl does: the server works on a whole collection in one thread.
    sandboxes = await listed(client, sandbox_path(NAMESPACE))
    await asyncio.gather(*(delete(each["metadata"]["name"]) for each in sandboxes))
    while clock() < deadline:
        left = len(await listed(client, pod_path(NAMESPACE)))
        advance(total - left)
        if not left and not await listed(client, sandbox_path(NAMESPACE)):
            return True
        await asyncio.sleep(_POLL_SECONDS)
    return False


async def listed(client: Client, path: str) -> list[dict[str, Any]]:
    """Return the objects of a list, from the API server's cache."""
    items: list[dict[str, Any]] = orjson.loads(await client.list(path))["items"]
    return items
