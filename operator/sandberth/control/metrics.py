"""What the operator counts, in the form that Prometheus reads."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram


class Metrics:
    """The metrics of one operator; every one has a registry of its own, so two can live in one process."""

    def __init__(self) -> None:
        registry = self.registry = CollectorRegistry()
        self.placements = Counter(
            "sandberth_placements", "Placement decisions.", ["view", "outcome"], registry=registry
        )
        self.placement_seconds = Histogram(
            "sandberth_placement_seconds",
            "Time of one decision, choosing and reserving.",
            registry=registry,
            buckets=(25e-6, 50e-6, 100e-6, 250e-6, 500e-6, 1e-3, 2.5e-3, 5e-3, 10e-3, 25e-3, 100e-3),
        )
        self.start_seconds = Histogram(
            "sandberth_start_seconds",
            "Time from the first sight of a Sandbox to its status Running.",
            registry=registry,
            buckets=(0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300),
        )
        self.creates = Counter(
            "sandberth_pod_creates", "Answers to Pod creates, by outcome.", ["outcome"], registry=registry
        )
        self.writes = Counter(
            "sandberth_api_writes", "Writes sent to the API server.", ["verb", "resource"], registry=registry
        )
        self.api_errors = Counter(
            "sandberth_api_errors",
            "Requests that failed, by reason.",
            ["verb", "resource", "reason"],
            registry=registry,
        )
        self.reports = Counter("sandberth_reports", "Node reports, by outcome.", ["outcome"], registry=registry)
        self.flag_problems = Counter(
            "sandberth_flag_problems", "Flag values not taken over or gone.", ["key", "kind"], registry=registry
        )
        self.flag = Gauge(
            "sandberth_flag", "1 for the value of each flag in force.", ["key", "value"], registry=registry
        )
        self.healed = Counter(
            "sandberth_healed_objects", "Changes that a stream missed and a list found.", ["stream"], registry=registry
        )
        self.leader = Gauge("sandberth_leader", "1 while this process may write, 0 on standby.", registry=registry)
        self.takeover_seconds = Gauge(
            "sandberth_takeover_seconds",
            "Time from the Lease to the first placement allowed, of this process; 0 before.",
            registry=registry,
        )
        self.lease_errors = Counter(
            "sandberth_lease_errors", "Reads and writes of the Lease that failed.", registry=registry
        )
        self.sandboxes = Gauge("sandberth_sandboxes", "Sandboxes known.", registry=registry)
        self.waiting = Gauge("sandberth_sandboxes_waiting", "Sandboxes without an eligible node.", registry=registry)
        self.queue_length = Gauge("sandberth_queue_length", "Objects that wait for a worker.", registry=registry)
        self.in_progress = Gauge("sandberth_creates_in_progress", "Creates without an answer.", registry=registry)
        self.zombies = Gauge(
            "sandberth_zombies", "Sandboxes reported by a node although their Pod is gone.", registry=registry
        )
        self.nodes = Gauge("sandberth_nodes", "Nodes, by eligibility.", ["state"], registry=registry)
        self.listener_errors = Gauge(
            "sandberth_listener_errors", "Changes that a part of the operator failed on.", ["stream"], registry=registry
        )
