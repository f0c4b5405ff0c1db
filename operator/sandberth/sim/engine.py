"""One run of one view, from the first sandbox to what it came to."""

from collections.abc import Callable
from dataclasses import dataclass

from sandberth.core.views import View
from sandberth.sim.distributions import MICROSECONDS
from sandberth.sim.lifecycle import Lifecycle
from sandberth.sim.measures import Evenness, averaged, evenness
from sandberth.sim.settings import Settings
from sandberth.sim.weather import Weather
from sandberth.sim.world import Tally, World

Tick = Callable[[float], None]


@dataclass(frozen=True, slots=True)
class Moment:
    """The spread at one time, for the picture."""

    seconds: float
    cv_count: float
    cv_allocated: float


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one run came to; `counts` are the sandboxes of each node at the end."""

    view: View
    run: int
    evenness: Evenness
    counts: tuple[int, ...]
    tally: Tally
    history: tuple[Moment, ...] = ()  # of the first run alone


def simulate(settings: Settings, view: View, run: int, tick: Tick | None = None) -> Outcome:
    """Let one run happen; `tick` is told the seconds of virtual time now and then.

    A run ends after its duration; where sandboxes live for ever, not before every one that has a place runs.
    """
    world = World(settings, view, run)
    lifecycle = Lifecycle(world)
    observer = _Observer(world)
    Weather(world, lifecycle).start()
    lifecycle.start()
    observer.start()
    live_for_ever = settings.lifetime.is_zero
    world.clock.run(round(settings.duration * MICROSECONDS), lambda: live_for_ever and world.tally.starting > 0, tick)
    final = observer.look()
    return Outcome(
        view,
        run,
        averaged(observer.looks) if observer.looks else final,
        tuple(len(node.present) for node in world.nodes),
        world.tally,
        tuple(observer.history),
    )


class _Observer:
    """Looks at the true nodes, every second where that is wanted."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.looks: list[Evenness] = []
        self.history: list[Moment] = []

    def start(self) -> None:
        after_s = self._world.settings.measure_after
        if self._world.run == 0:
            self._world.clock.at(0, self._second)
        elif after_s is not None:
            self._world.clock.at(round(after_s * MICROSECONDS), self._second)

    def look(self) -> Evenness:
        nodes = [node for node in self._world.nodes if node.is_up]
        seen = evenness([len(node.present) for node in nodes], [node.allocated_fraction for node in nodes])
        is_new = not self.history or self.history[-1].seconds < self._world.clock.now_s
        if self._world.run == 0 and is_new:
            self.history.append(Moment(self._world.clock.now_s, seen.cv_count, seen.cv_allocated))
        return seen

    def _second(self, _: None) -> None:
        seen = self.look()
        after_s = self._world.settings.measure_after
        if after_s is not None and self._world.clock.now_s >= after_s:
            self.looks.append(seen)
        self._world.clock.after(MICROSECONDS, self._second)
