"""What a simulation is made of. Times are in seconds; None stands for "none" or "never".

The fields are the options of `sandberth simulate`; their defaults are the scenario `article`.
"""

from dataclasses import asdict, dataclass
from typing import Any

from sandberth.core.placement import Parameters
from sandberth.core.sampling import Sampler
from sandberth.core.views import View
from sandberth.sim.distributions import Distribution, fixed

DEFAULT_INTERVAL_SECONDS = 20.0
_AT_ONCE, _FOR_EVER = fixed(0), fixed(0)
_EVERY_20_S, _AFTER_A_MILLISECOND, _SOON = fixed(20), fixed(0.001), fixed(0.2)


@dataclass(frozen=True, slots=True)
class Settings:
    """One simulation: `repeat` runs of every view in `accounting`, all of them on the same workloads."""

    scenario: str = "article"
    nodes: int = 10
    node_cpu: tuple[float, ...] = (192,)  # repeated over the nodes
    duration: float = 25
    rate: float = 20  # sandboxes a second
    rate_is_per_node: bool = False
    arrivals: str = "even"  # or poisson
    burst: int = 0  # sandboxes at the start, spread over `burst_seconds`
    burst_seconds: float = 1
    heartbeat: Distribution | None = _EVERY_20_S
    heartbeat_phase: str = "sync"  # or staggered
    create_latency: Distribution = _AFTER_A_MILLISECOND  # of a delete, too
    sandbox_cpu: tuple[float, ...] = (1,)  # one of them, each as likely
    lifetime: Distribution = _FOR_EVER  # 0: for ever
    self_exit: float = 0  # share of the sandboxes that end by themselves, before their lifetime does
    exit_watch_delay: Distribution | None = _SOON  # None: no watch on Pods
    usage_ratio: float = 1
    replicas: int = 1
    share_delay: Distribution | None = None  # None: replicas see each other's sandboxes in reports alone
    node_failures: int = 0  # nodes that fail in a run, each once
    failure_detection: float = 40
    node_repair: float = 60
    report_loss: float = 0
    report_delay: Distribution = _AT_ONCE
    noise: int = 4  # CPUs of other pods on each node: a whole number from 0 to this, as in the article's benchmark
    sample_size: int | None = 3  # None: all
    overcommit: int = 400
    alpha: int = 50
    sampler: Sampler = Sampler.UNIFORM
    projected_usage: bool = False
    too_many_starting: bool = False
    max_starting: int = 3
    measure_after: float | None = None  # None: measured once, at the end
    accounting: tuple[View, ...] = tuple(View)
    seed: int = 0
    repeat: int = 1

    @property
    def sandboxes_per_second(self) -> float:
        """The rate of all nodes together."""
        return self.rate * self.nodes if self.rate_is_per_node else self.rate

    @property
    def interval_seconds(self) -> float:
        """What a report says of its own period."""
        mean = self.heartbeat.mean if self.heartbeat is not None else 0.0
        return mean or DEFAULT_INTERVAL_SECONDS

    @property
    def expected_sandboxes(self) -> int:
        """About how many sandboxes one run starts."""
        return self.burst + round(self.sandboxes_per_second * self.duration)

    def parameters(self, view: View) -> Parameters:
        """Return the knobs of a decision in `view`."""
        return Parameters(
            sample_size=self.sample_size,
            overcommit_percent=self.overcommit,
            alpha_percent=self.alpha,
            view=view,
            starting_cap=self.max_starting if self.too_many_starting else None,
            sampler=self.sampler,
            projected_usage=self.projected_usage,
        )

    def as_json(self) -> dict[str, Any]:
        """Return the settings as the command line spells them; `rate` is that of all nodes together."""
        values: dict[str, Any] = {}
        for name, value in asdict(self).items():
            original = getattr(self, name)
            values[name] = _plain(original) if not isinstance(value, tuple) else [_plain(each) for each in original]
        values["rate"] = _plain(self.sandboxes_per_second)
        del values["rate_is_per_node"]
        values["sample_size"] = "all" if self.sample_size is None else self.sample_size
        for name in ("heartbeat", "exit_watch_delay", "share_delay"):
            values[name] = values[name] or "none"
        return values


def _plain(value: Any) -> Any:
    if isinstance(value, Distribution):
        return str(value)
    if isinstance(value, View | Sampler):
        return value.value
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value
