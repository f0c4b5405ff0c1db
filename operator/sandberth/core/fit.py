"""Whether a Sandbox fits on a node: by reservations and Pods alone, never by a report.

Two sums must hold: Sandberth's own (nominal sizes, CPU overcommitted by R, memory never) and the kubelet's
(effective requests of all Pods). No flag of the accounting changes either, so none can overfill a node.
"""

from dataclasses import dataclass

from sandberth.core.constraints import Constraints, Rejection
from sandberth.core.figures import Figures
from sandberth.core.fleet import Node
from sandberth.core.resources import Requests, Resources

UNCONSTRAINED = Constraints()


@dataclass(frozen=True, slots=True)
class Ask:
    """What one Sandbox needs of a node.

    With `divides_cpu` its CPU request is its nominal size divided by the node's R: that is how a node overcommitted
    to 400 % really fits four times its CPU. Otherwise `requests` stand as they are.
    """

    nominal: Resources
    requests: Requests
    divides_cpu: bool = False
    constraints: Constraints = UNCONSTRAINED
    preferred_node: str | None = None

    def requests_at(self, overcommit_percent: int) -> Requests:
        """Return the effective requests on a node with this R."""
        if not self.divides_cpu:
            return self.requests
        requests = self.requests
        return Requests(
            divided_cpu(self.nominal.cpu_millicores, overcommit_percent),
            requests.memory_bytes,
            requests.ephemeral_storage_bytes,
            requests.extended,
            requests.host_ports,
        )


def divided_cpu(nominal_millicores: int, overcommit_percent: int) -> int:
    """Return the CPU request in millicores for a nominal size: nominal / max(1, R), rounded down, at least 1."""
    return max(1, nominal_millicores * 100 // max(100, overcommit_percent))


def shortage(node: Node, ask: Ask, overcommit_percent: int, figures: Figures | None = None) -> Rejection | None:
    """Return what `node` lacks for `ask` with R = `overcommit_percent`, or None where it fits.

    `figures` are the node's, where they have been read already.
    """
    figures = figures or node.account.figures
    nominal, requests = ask.nominal, ask.requests
    cpu = divided_cpu(nominal.cpu_millicores, overcommit_percent) if ask.divides_cpu else requests.cpu_millicores
    if (figures.held_cpu + nominal.cpu_millicores) * 100 > overcommit_percent * figures.allocatable_cpu:
        return Rejection.OVERCOMMIT
    if figures.requested_cpu + cpu > figures.allocatable_cpu:
        return Rejection.CPU
    memory = max(figures.held_memory + nominal.memory_bytes, figures.requested_memory + requests.memory_bytes)
    if memory > figures.allocatable_memory:
        return Rejection.MEMORY
    if figures.pods + 1 > figures.allocatable_pods:
        return Rejection.PODS
    return _rarer_shortage(node, requests)


def _rarer_shortage(node: Node, requests: Requests) -> Rejection | None:
    if not (requests.ephemeral_storage_bytes or requests.extended or requests.host_ports):
        return None
    account, allocatable = node.account, node.facts.allocatable
    if (
        requests.ephemeral_storage_bytes
        and account.requested_ephemeral_storage + requests.ephemeral_storage_bytes > allocatable.ephemeral_storage_bytes
    ):
        return Rejection.EPHEMERAL_STORAGE
    for name, amount in requests.extended:
        if amount and account.requested_extended[name] + amount > allocatable.extended.get(name, 0):
            return Rejection.EXTENDED
    for address, protocol, port in requests.host_ports:
        if account.host_port_taken(address, protocol, port):
            return Rejection.HOST_PORT
    return None
