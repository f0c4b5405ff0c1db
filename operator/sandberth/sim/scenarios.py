"""The named scenarios: each is a set of defaults, and every option of the command line overrides one of them."""

from dataclasses import dataclass, field
from typing import Any

from sandberth.core.sampling import Sampler
from sandberth.sim.distributions import Distribution, fixed
from sandberth.sim.settings import Settings


@dataclass(frozen=True, slots=True)
class Scenario:
    """What a scenario shows, and in what it differs from the article's benchmark."""

    purpose: str
    differences: dict[str, Any] = field(default_factory=dict)

    def settings(self, name: str) -> Settings:
        """Return the scenario's settings."""
        return Settings(scenario=name, **self.differences)


_CHURN: dict[str, Any] = {
    "duration": 600,
    "rate": 2,
    "rate_is_per_node": True,
    "arrivals": "poisson",
    "heartbeat_phase": "staggered",
    "lifetime": Distribution("exp", 60),
    "measure_after": 120,
}
_STORM: dict[str, Any] = {
    **_CHURN,
    "create_latency": Distribution("lognormal", 1, 0.5),
    "report_loss": 0.1,
    "report_delay": Distribution("uniform", 0.5, 2),
    "self_exit": 0.1,
    "projected_usage": True,
}

SCENARIOS: dict[str, Scenario] = {
    "article": Scenario("the article's benchmark: 500 sandboxes in 25 s on 10 nodes that report at 20 s, all at once"),
    "no-reports": Scenario("the same without any report after the first", {"heartbeat": None}),
    "burst": Scenario(
        "500 sandboxes within one second, create latency 1 s, then nothing",
        {"burst": 500, "rate": 0, "create_latency": fixed(1)},
    ),
    "churn": Scenario("sandboxes come (2/s a node) and go (60 s on average) for 600 s; staggered reports", _CHURN),
    "storm": Scenario(
        "churn with slow creates (1 s), 10 % of the reports lost and the others 0.5-2 s late, 10 % self-exits", _STORM
    ),
    "unequal": Scenario(
        "churn on 99 nodes of 48, 96 and 192 CPUs, sandboxes of 1, 2, 4 and 8, dealt from a deck by capacity",
        {
            **_CHURN,
            "nodes": 99,
            "node_cpu": (48, 96, 192),
            "sandbox_cpu": (1, 2, 4, 8),
            "rate": 8 / 15,  # of 3.75 CPUs on average: 2 CPUs a second for each node, as in churn
            "sampler": Sampler.DECK,
            "projected_usage": True,
        },
    ),
    "chaos": Scenario(
        "storm with two replicas, unequal nodes and sizes, 30 % of the reports lost, three node failures",
        {
            **_STORM,
            "nodes": 20,
            "node_cpu": (96, 192),
            "sandbox_cpu": (1, 2, 4),
            "rate": 1,
            "create_latency": Distribution("lognormal", 1, 1),
            "report_loss": 0.3,
            "report_delay": Distribution("uniform", 0.5, 5),
            "self_exit": 0.3,
            "replicas": 2,
            "share_delay": fixed(0.1),
            "node_failures": 3,
        },
    ),
}
