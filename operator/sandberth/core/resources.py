"""Amounts of the resources that placement counts, as exact integers.

Integers make undo exact: what a release gives back is what the reservation took. Parsing Kubernetes quantities
is `sandberth.core.quantity`; the sum over the containers of a pod is `sandberth.core.requests`.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Resources:
    """CPU and memory. A difference may be negative: that is how overcommitment shows."""

    cpu_millicores: int
    memory_bytes: int

    def __add__(self, other: "Resources") -> "Resources":
        return Resources(self.cpu_millicores + other.cpu_millicores, self.memory_bytes + other.memory_bytes)

    def __sub__(self, other: "Resources") -> "Resources":
        return Resources(self.cpu_millicores - other.cpu_millicores, self.memory_bytes - other.memory_bytes)


ZERO = Resources(0, 0)


@dataclass(frozen=True, slots=True)
class Requests:
    """The kubelet's whole sum for one pod, the host ports it binds included.

    `extended` holds every other countable resource (devices, huge pages) sorted by name; `host_ports` holds
    (host IP, protocol, port), where the wildcard address is always written "0.0.0.0".
    """

    cpu_millicores: int = 0
    memory_bytes: int = 0
    ephemeral_storage_bytes: int = 0
    extended: tuple[tuple[str, int], ...] = ()
    host_ports: tuple[tuple[str, str, int], ...] = ()

    @property
    def size(self) -> Resources:
        """CPU and memory alone."""
        return Resources(self.cpu_millicores, self.memory_bytes)
