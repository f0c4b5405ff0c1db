"""kopf as the shell: four thin handlers that hand objects to their streams, and not one write.

Only `on.event` handlers are used: they cost no annotation, no finalizer and no Event (measured by the audit log).
Pods, the hot stream, come through our own informer instead.
"""

import logging
import random
from collections.abc import Callable, Iterator
from typing import Any

import aiohttp
import kopf

from sandberth import __version__
from sandberth.control.flag_source import FlagSource
from sandberth.control.settings import Settings
from sandberth.control.streams import Streams
from sandberth.kube import names
from sandberth.kube.kubeconfig import ClusterAccess


class _Endless:
    """Pauses between retries that never run out: kopf leaves the process when they do."""

    def __iter__(self) -> Iterator[float]:
        yield from (0.1, 0.3, 0.6)
        while True:
            yield random.uniform(0.8, 1.2)


class _NoDiffs(kopf.DiffBaseStorage):
    """Keeps no last-handled state: without changing handlers nothing reads it."""

    def build(self, **_: Any) -> kopf.BodyEssence:
        return kopf.BodyEssence()

    def fetch(self, **_: Any) -> None:
        return None

    def store(self, **_: Any) -> None:
        return None


class _NoProgress(kopf.ProgressStorage):
    """Keeps no handling progress: `on.event` has none."""

    def fetch(self, **_: Any) -> None:
        return None

    def store(self, **_: Any) -> None:
        return None

    def purge(self, **_: Any) -> None:
        return None

    def touch(self, **_: Any) -> None:
        return None

    def clear(self, *, essence: kopf.BodyEssence) -> kopf.BodyEssence:
        return essence


def settings_for(settings: Settings) -> kopf.OperatorSettings:
    """Return kopf's settings: no writes, no peering, no scanning, and retries without end."""
    result = kopf.OperatorSettings()
    result.persistence.diffbase_storage = _NoDiffs()
    result.persistence.progress_storage = _NoProgress()
    result.persistence.consistency_timeout = 0
    result.persistence.finalizer = f"{names.GROUP}/unused"
    result.posting.enabled = False
    result.scanning.disabled = True
    result.peering.standalone = True
    result.queueing.worker_limit = None
    result.queueing.idle_timeout = 1
    result.queueing.exit_timeout = 1
    result.watching.inactivity_timeout = 70
    result.watching.server_timeout = 300
    result.watching.connect_timeout = 10
    result.watching.field_selectors["", "v1", "configmaps"] = (
        f"metadata.namespace={settings.namespace},metadata.name={names.FLAGS_CONFIGMAP}"
    )
    result.networking.request_timeout = 30
    result.networking.error_backoffs = _Endless()
    result.process.ultimate_exiting_timeout = 20
    return result


def registry_for(streams: Streams, flags: FlagSource, access: ClusterAccess) -> kopf.OperatorRegistry:
    """Return the handlers, bound to one operator's streams."""
    registry = kopf.OperatorRegistry()

    @kopf.on.login(registry=registry)
    async def login(**_: Any) -> kopf.AiohttpSession:
        # kopf closes the session it is given and logs in again at a 401: the token is read anew each time.
        token = access.tokens.reread()
        headers = {"User-Agent": f"sandberth/{__version__} kopf"}
        if token is not None:
            headers["Authorization"] = f"Bearer {token}"
        connector = aiohttp.TCPConnector(limit=0, ssl=access.tls if access.tls is not None else True)
        session = aiohttp.ClientSession(connector=connector, headers=headers)
        return kopf.AiohttpSession(server=access.server, aiohttp_session=session)

    @kopf.on.event(names.GROUP, names.VERSION, names.SANDBOXES, registry=registry, id="sandbox")
    async def sandbox_changed(type: str | None, body: kopf.Body, **_: Any) -> None:  # noqa: A002
        streams.heard["sandboxes"] += 1
        streams.observe_sandbox(body, deleted=type == "DELETED", listed=type is None)

    @kopf.on.event(names.GROUP, names.VERSION, names.NODECAPACITIES, registry=registry, id="nodecapacity")
    async def capacity_changed(type: str | None, body: kopf.Body, **_: Any) -> None:  # noqa: A002
        streams.heard["nodecapacities"] += 1
        streams.observe_capacity(dict(body), deleted=type == "DELETED")

    @kopf.on.event("", "v1", "nodes", registry=registry, id="node")
    async def node_changed(type: str | None, body: kopf.Body, **_: Any) -> None:  # noqa: A002
        streams.heard["nodes"] += 1
        streams.observe_node(dict(body), deleted=type == "DELETED")

    @kopf.on.event("", "v1", "configmaps", registry=registry, id="flags")
    async def flags_changed(type: str | None, body: kopf.Body, **_: Any) -> None:  # noqa: A002
        if type == "DELETED":
            flags.deleted(body)
        else:
            flags.observe(body)

    return registry


async def run(
    streams: Streams,
    flags: FlagSource,
    access: ClusterAccess,
    settings: Settings,
    started: Callable[[], None],
) -> None:
    """Serve the streams until cancelled; returning is a failure for the caller to act on.

    `started` is called once kopf has set its signal handlers, which are not wanted here.
    """
    logging.getLogger("kopf.objects").setLevel(logging.WARNING)
    tasks = await kopf.spawn_tasks(
        registry=registry_for(streams, flags, access),
        settings=settings_for(settings),
        standalone=True,
        clusterwide=True,
        # Of no use without peering. Kopf's own would ask for a user name, which a container's UID need not have.
        identity="sandberth",  # type: ignore[arg-type]
    )
    started()
    await kopf.run_tasks(tasks)
