"""A relay of TCP connections that can be cut like a cable: no packet passes any more, and nobody is told."""

import asyncio
from contextlib import suppress
from pathlib import Path
from threading import Thread

import yaml


class Relay:
    """Listens on loopback and passes everything on to another port of it; `cut` is for good."""

    def __init__(self, target_port: int) -> None:
        self.port = 0
        self._target_port = target_port
        self._loop = asyncio.new_event_loop()
        self._passes = True
        self._thread = Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._listen(), self._loop).result(10)

    def cut(self) -> None:
        self._passes = False

    def close(self) -> None:
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)

    async def _end(self) -> None:
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    async def _listen(self) -> None:
        server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, asyncio.CancelledError):
            there = await asyncio.open_connection("127.0.0.1", self._target_port)
            await asyncio.gather(self._pass(reader, there[1]), self._pass(there[0], writer))

    async def _pass(self, source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        while chunk := await source.read(65536):
            if self._passes:
                target.write(chunk)
                await target.drain()
        if self._passes:
            target.close()


def relayed(kubeconfig: Path) -> Relay:
    """Return a relay to the API server of a kubeconfig, which from now on leads through it."""
    document = yaml.safe_load(kubeconfig.read_text())
    cluster = document["clusters"][0]["cluster"]
    relay = Relay(int(cluster["server"].rpartition(":")[2]))
    cluster["server"] = f"https://127.0.0.1:{relay.port}"
    kubeconfig.write_text(yaml.safe_dump(document))
    return relay
