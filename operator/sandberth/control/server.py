"""The operator's own HTTP server: /livez, /readyz, /metrics."""

from collections.abc import Callable

from aiohttp import web
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST

from sandberth.core.errors import SandberthError

Check = Callable[[], str | None]  # what is wrong, None when nothing is


class Server:
    """Answers probes from two checks, and scrapes from a registry; `port` is the one it got."""

    def __init__(self, registry: CollectorRegistry, *, alive: Check, ready: Check, refresh: Callable[[], None]) -> None:
        self._registry = registry
        self._refresh = refresh
        app = web.Application()
        app.router.add_get("/livez", lambda _: _answer(alive()))
        app.router.add_get("/readyz", lambda _: _answer(ready()))
        app.router.add_get("/metrics", self._metrics)
        self._runner = web.AppRunner(app, access_log=None)
        self.port = 0

    async def start(self, host: str, port: int) -> None:
        """Listen; port 0 takes any free one. Raises SandberthError where the port is taken."""
        await self._runner.setup()
        site = web.TCPSite(self._runner, host, port)
        try:
            await site.start()
        except OSError as error:
            raise SandberthError(
                f"cannot listen on {host}:{port}; --metrics-port names another port: {error}"
            ) from error
        self.port = self._runner.addresses[0][1]

    async def stop(self) -> None:
        """Close the server."""
        await self._runner.cleanup()

    async def _metrics(self, _: web.Request) -> web.Response:
        self._refresh()
        return web.Response(body=generate_latest(self._registry), headers={"Content-Type": CONTENT_TYPE_LATEST})


async def _answer(wrong: str | None) -> web.Response:
    return web.Response(text="ok\n" if wrong is None else f"{wrong}\n", status=200 if wrong is None else 503)
