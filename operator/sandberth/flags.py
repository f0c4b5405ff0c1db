"""The feature flags: one frozen set, read from the ConfigMap `sandberth-flags`, swapped as a whole.

A key that is absent has its default. A value that cannot be read leaves its key at the last good value, whatever the
other keys say: a typo must not change the behaviour of a running cluster.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from sandberth.core.placement import Parameters
from sandberth.core.sampling import Sampler
from sandberth.core.views import View

_TRUE = frozenset({"true", "1", "yes", "on"})
_FALSE = frozenset({"false", "0", "no", "off"})


def _boolean(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    text = str(value).strip().lower()
    if text in _TRUE:
        return True
    if text in _FALSE:
        return False
    raise ValueError("must be one of true, false, 1, 0, yes, no, on, off")


def _integer(value: Any) -> int:
    if isinstance(value, int):
        return value
    text = str(value).strip()
    if not re.fullmatch(r"[+-]?[0-9]{1,100}", text):
        raise ValueError("must be a whole number")
    return int(text)


def _sample_size(value: Any) -> Any:
    if isinstance(value, str) and value.strip().lower() == "all":
        return "all"
    try:
        return _integer(value)
    except ValueError:
        raise ValueError('must be a whole number from 1, or "all"') from None


def _word(value: Any) -> str:
    return str(value).strip().lower()


Switch = Annotated[bool, BeforeValidator(_boolean)]
Percent = Annotated[int, BeforeValidator(_integer)]
Count = Annotated[int, BeforeValidator(_integer)]


def _key(field_name: str) -> str:
    return field_name.replace("_", "-")


class Flags(BaseModel):
    """Every switch, with the value that holds when the ConfigMap is absent."""

    model_config = ConfigDict(frozen=True, alias_generator=_key, populate_by_name=True)

    sandbox_placement_optimistic_resource_accounting: Switch = Field(
        False, description="count sandboxes in progress, finished creates and deletes in the score at once"
    )
    sandbox_placement_id_reconciliation: Switch = Field(
        False, description="count every sandbox exactly once, by ID; wins over the one above"
    )
    best_of_k_sample_size: Annotated[
        Annotated[int, Field(ge=1, le=1_000_000)] | Literal["all"], BeforeValidator(_sample_size)
    ] = Field(3, description='nodes compared for a placement (K), or "all"')
    best_of_k_max_overcommit: Percent = Field(400, ge=1, le=10_000, description="CPU overcommitment (R) in percent")
    best_of_k_alpha: Percent = Field(50, ge=0, le=10_000, description="weight of the reported CPU usage in percent")
    best_of_k_too_many_starting: Switch = Field(False, description="cap the sandboxes that start on a node at once")
    max_starting_instances_per_node: Count = Field(3, ge=1, le=1_000_000, description="that cap")
    best_of_k_sampler: Annotated[Literal["uniform", "deck"], BeforeValidator(_word)] = Field(
        "uniform", description="how the K nodes are drawn: uniform or deck"
    )
    best_of_k_projected_usage: Switch = Field(False, description="project the usage between two reports")

    @property
    def view(self) -> View:
        """The sum of the ledger that the score uses."""
        if self.sandbox_placement_id_reconciliation:
            return View.RECONCILED
        return View.OPTIMISTIC if self.sandbox_placement_optimistic_resource_accounting else View.METRICS

    @property
    def parameters(self) -> Parameters:
        """The flags as the core takes them."""
        return Parameters(
            sample_size=None if self.best_of_k_sample_size == "all" else self.best_of_k_sample_size,
            overcommit_percent=self.best_of_k_max_overcommit,
            alpha_percent=self.best_of_k_alpha,
            view=self.view,
            starting_cap=self.max_starting_instances_per_node if self.best_of_k_too_many_starting else None,
            sampler=Sampler(self.best_of_k_sampler),
            projected_usage=self.best_of_k_projected_usage,
        )

    def by_key(self) -> dict[str, str]:
        """Return every key of the ConfigMap with its value in force, spelled as a ConfigMap would."""
        return {
            key: str(value).lower() if isinstance(value, bool) else str(value)
            for key, value in self.model_dump(by_alias=True).items()
        }


KEYS = frozenset(_key(name) for name in Flags.model_fields)


@dataclass(frozen=True, slots=True)
class Problem:
    """One value that was not taken over: its key keeps the last good one."""

    key: str
    value: str
    message: str


@dataclass(frozen=True, slots=True)
class Reading:
    """What one version of the ConfigMap means: the flags in force, and what to tell the administrator.

    `returned` names the keys that went back to their default because they are no longer there.
    """

    flags: Flags
    problems: tuple[Problem, ...] = ()
    unknown: tuple[str, ...] = ()
    returned: tuple[str, ...] = ()


def read(data: Mapping[str, str] | None, last_good: Flags) -> Reading:
    """Read the ConfigMap's data; None stands for a ConfigMap that does not exist."""
    present = {key: value for key, value in (data or {}).items() if key in KEYS}
    problems = [Problem(key, present[key], message) for key, message in _bad_values(present).items()]
    bad = {problem.key for problem in problems}
    kept = last_good.model_dump(by_alias=True)
    values: dict[str, Any] = {key: value for key, value in present.items() if key not in bad}
    values |= {key: kept[key] for key in bad}
    flags = Flags.model_validate(values)
    in_force = flags.model_dump(by_alias=True)
    returned = tuple(sorted(key for key in KEYS - present.keys() if kept[key] != in_force[key]))
    unknown = tuple(sorted(key for key in (data or {}) if key not in KEYS))
    return Reading(flags, tuple(sorted(problems, key=lambda p: p.key)), unknown, returned)


def _bad_values(values: Mapping[str, str]) -> dict[str, str]:
    """Return key -> why for each value that does not validate."""
    try:
        Flags.model_validate(values)
    except ValidationError as error:
        return {str(item["loc"][0]): item["msg"].removeprefix("Value error, ") for item in reversed(error.errors())}
    return {}
