"""What the parts of one run share: the clock, the true nodes, the replicas, and the comparison of both sides."""

from dataclasses import dataclass
from random import Random

from sandberth.core.views import View
from sandberth.sim.clock import Clock
from sandberth.sim.node import TrueNode
from sandberth.sim.replica import Replica
from sandberth.sim.settings import Settings
from sandberth.sim.workload import stream


@dataclass(slots=True)
class Tally:
    """Counts of one run. `undercount` counts events after which a replica counted a node too low."""

    asked: int = 0
    waiting: int = 0  # sandboxes without room
    starting: int = 0  # sandboxes that have a place and do not run yet, or no more
    ended: int = 0
    refused: int = 0
    failed: int = 0  # attempts that ended with their node
    undercount: int = 0
    overcount_max: int = 0  # millicores


class World:
    """One run's state."""

    def __init__(self, settings: Settings, view: View, run: int) -> None:
        self.settings, self.view, self.run = settings, view, run
        self.clock = Clock()
        self.tally = Tally()
        noise = self.stream("noise")
        self.nodes = [
            TrueNode(
                index,
                round(settings.node_cpu[index % len(settings.node_cpu)] * 1000),
                int(noise.random() * (settings.noise + 1)) * 1000,
                settings.overcommit,
            )
            for index in range(settings.nodes)
        ]
        parameters = settings.parameters(view)
        self.replicas = [Replica(parameters, self.stream(f"replica {i}")) for i in range(settings.replicas)]

    def stream(self, name: str) -> Random:
        """Return this run's random numbers for one purpose."""
        return stream(self.settings.seed, self.run, name)

    def compare(self, node: TrueNode) -> None:
        """Compare what every replica counts on a node with what it holds or may still get."""
        if not node.is_up:
            return
        now_s = self.clock.now_s
        for replica in self.replicas:
            counted = replica.accounted_cpu(node, now_s)
            if counted is None or counted == node.need_cpu:
                continue
            if counted < node.need_cpu:
                self.tally.undercount += 1
            elif counted - node.need_cpu > self.tally.overcount_max:
                self.tally.overcount_max = counted - node.need_cpu
