"""Free ports on the loopback interface, held until the program that wants them starts.

They come from below the kernel's ephemeral range: a port from inside it could become the source port of some client
while its program is stopped, and a fault test could then not start the program again.
"""

import random
import socket
from collections.abc import Collection, Iterable
from pathlib import Path

from sandberth.cluster.errors import ClusterError

LOOPBACK = "127.0.0.1"
_EPHEMERAL_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")
_LOWEST, _HIGHEST = 20_000, 65_535


def candidate_ports(ephemeral: tuple[int, int]) -> range:
    """Return the ports to choose from, given the first and last ephemeral port."""
    first, last = ephemeral
    if first - _LOWEST >= 1_000:
        return range(_LOWEST, first)
    if _HIGHEST - last >= 1_000:
        return range(last + 1, _HIGHEST + 1)
    return range(_LOWEST, _HIGHEST + 1)


class HeldPorts:
    """Ports that nobody else can bind until they are released, one name each."""

    def __init__(self, names: Iterable[str], avoid: Collection[int], rng: random.Random) -> None:
        self._sockets: dict[str, socket.socket] = {}
        self.numbers: dict[str, int] = {}
        candidates = list(candidate_ports(_ephemeral_range()))
        rng.shuffle(candidates)
        untried = (port for port in candidates if port not in avoid)
        try:
            for name in names:
                self._sockets[name] = _bind_first_free(untried)
                self.numbers[name] = self._sockets[name].getsockname()[1]
        except BaseException:
            self.release()
            raise

    def release(self, *names: str) -> None:
        """Let go of the named ports, or of all: their program starts now. Twice is fine."""
        for name in names or tuple(self._sockets):
            held = self._sockets.pop(name, None)
            if held is not None:
                held.close()


def accepts_connections(port: int) -> bool:
    """Tell whether a program listens on this loopback port."""
    try:
        with socket.create_connection((LOOPBACK, port), timeout=1):
            return True
    except OSError:
        return False


def _bind_first_free(ports: Iterable[int]) -> socket.socket:
    for port in ports:
        candidate = socket.socket()
        try:
            candidate.bind((LOOPBACK, port))  # without SO_REUSEADDR: exclusive also before anyone listens
        except OSError:
            candidate.close()
            continue
        return candidate
    raise ClusterError("no free port on 127.0.0.1")


def _ephemeral_range() -> tuple[int, int]:
    try:
        first, last = _EPHEMERAL_RANGE.read_text().split()
    except (OSError, ValueError):
        return (32_768, 60_999)
    return (int(first), int(last))
