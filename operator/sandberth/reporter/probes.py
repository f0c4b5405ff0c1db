"""The reporter's own HTTP server: /livez, /readyz, /metrics."""

from aiohttp import web

from sandberth.reporter.api_source import ApiReporter

_SILENT_SECONDS = 300.0


class Probes:
    """Answers probes and scrapes of one reporter."""

    def __init__(self, reporter: ApiReporter) -> None:
        self._reporter = reporter
        app = web.Application()
        app.router.add_get("/livez", self._livez)
        app.router.add_get("/readyz", self._readyz)
        app.router.add_get("/metrics", self._metrics)
        self._runner = web.AppRunner(app, access_log=None)
        self.port = 0

    async def start(self, host: str, port: int) -> None:
        """Listen; port 0 takes any free one. Raises OSError where the port is taken."""
        await self._runner.setup()
        await web.TCPSite(self._runner, host, port).start()
        self.port = self._runner.addresses[0][1]

    async def stop(self) -> None:
        """Close the server."""
        await self._runner.cleanup()

    async def _livez(self, _: web.Request) -> web.Response:
        silence = self._reporter.pods.seconds_since_activity()
        if silence > _SILENT_SECONDS:
            return web.Response(text=f"the stream of pods has been silent for {silence:.0f} s\n", status=503)
        return web.Response(text="ok\n")

    async def _readyz(self, _: web.Request) -> web.Response:
        if not self._reporter.is_synced:
            return web.Response(text="Pods, Nodes and NodeCapacities are not listed yet\n", status=503)
        return web.Response(text="ok\n")

    async def _metrics(self, _: web.Request) -> web.Response:
        reporter = self._reporter
        lines = (
            "# HELP sandberth_reporter_reports_total Reports, by outcome.",
            "# TYPE sandberth_reporter_reports_total counter",
            f'sandberth_reporter_reports_total{{outcome="written"}} {reporter.written}',
            f'sandberth_reporter_reports_total{{outcome="failed"}} {reporter.failed}',
            "# HELP sandberth_reporter_pods Pods known.",
            "# TYPE sandberth_reporter_pods gauge",
            f"sandberth_reporter_pods {len(reporter.pods.store)}",
        )
        return web.Response(
            body=("\n".join(lines) + "\n").encode(),
            headers={"Content-Type": "text/plain; version=0.0.4; charset=utf-8"},
        )
