"""What nodes do by themselves: they report, in step or not, and some of them fail and come back."""

from sandberth.core.report import Report
from sandberth.sim.distributions import MICROSECONDS
from sandberth.sim.lifecycle import Lifecycle
from sandberth.sim.node import Attempt, TrueNode
from sandberth.sim.world import World


class Weather:
    """Reports and failures of one run."""

    def __init__(self, world: World, lifecycle: Lifecycle) -> None:
        self._world, self._clock, self._settings = world, world.clock, world.settings
        self._lifecycle = lifecycle
        self._heartbeat = world.settings.heartbeat
        self._beats = world.stream("heartbeats")
        self._losses = world.stream("report losses")
        self._delays = world.stream("report delays")

    def start(self) -> None:
        """Bring all nodes up, each with one report at the start, and plan what comes."""
        for node in self._world.nodes:
            self._appear(node)
        heartbeat = self._heartbeat
        if heartbeat is not None and self._settings.heartbeat_phase == "sync":
            self._clock.after(heartbeat.draw(self._beats), self._beat_together)
        elif heartbeat is not None:
            for node in self._world.nodes:
                share = self._beats.random()
                self._clock.after(round(share * heartbeat.draw(self._beats)), self._beat_alone, node)
        failures = self._world.stream("failures")
        healthy = list(self._world.nodes)
        for _ in range(min(self._settings.node_failures, len(healthy))):
            node = healthy.pop(int(failures.random() * len(healthy)))
            self._clock.at(round(failures.random() * self._settings.duration * MICROSECONDS), self._fail, node)

    # --- reports ---

    def _beat_together(self, _: None) -> None:
        assert self._heartbeat is not None  # noqa: S101
        for node in self._world.nodes:
            self._send(node)
        self._clock.after(max(1, self._heartbeat.draw(self._beats)), self._beat_together)

    def _beat_alone(self, node: TrueNode) -> None:
        assert self._heartbeat is not None  # noqa: S101
        self._send(node)
        self._clock.after(max(1, self._heartbeat.draw(self._beats)), self._beat_alone, node)

    def _send(self, node: TrueNode) -> None:
        is_lost = self._losses.random() < self._settings.report_loss
        delay_us = self._settings.report_delay.draw(self._delays)
        if node.is_up and not is_lost:
            self._clock.after(delay_us, self._arrive, (node, self._snapshot(node)))

    def _snapshot(self, node: TrueNode) -> Report:
        return node.report(self._settings.usage_ratio, self._settings.interval_seconds)

    def _arrive(self, message: tuple[TrueNode, Report]) -> None:
        node, report = message
        for replica in self._world.replicas:
            replica.report_arrived(report, self._clock.now_s)
        if node.unseen_ends and report.node_uid == node.uid:
            self._lifecycle.listing_arrived(node, report.sandboxes)
        self._world.compare(node)

    # --- failures ---

    def _appear(self, node: TrueNode) -> None:
        for replica in self._world.replicas:
            replica.node_appeared(node)
        self._arrive((node, self._snapshot(node)))

    def _fail(self, node: TrueNode) -> None:
        """A node dies with all that runs on it; nobody knows yet."""
        node.is_up = False
        for attempt in node.assigned.values():
            self._lifecycle.lose(attempt)
        node.present = {}
        node.sandbox_cpu = 0
        self._clock.after(round(self._settings.failure_detection * MICROSECONDS), self._notice, node)

    def _notice(self, node: TrueNode) -> None:
        """The operator sees that the Node is gone; another one of that name comes after the repair."""
        lost: list[Attempt] = list(node.assigned.values())
        for replica in self._world.replicas:
            replica.node_vanished(node)
        node.assigned, node.unseen_ends = {}, {}
        self._clock.after(round(self._settings.node_repair * MICROSECONDS), self._return, node)
        self._lifecycle.node_lost(lost)

    def _return(self, node: TrueNode) -> None:
        node.incarnation += 1
        node.sequence = 0
        node.need_cpu = node.noise_millicores
        node.is_up = True
        self._appear(node)
