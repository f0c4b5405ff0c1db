"""The options of `sandberth simulate` as text: each function returns a value or raises ValueError, saying why."""

import re

from sandberth.core.views import View
from sandberth.sim.distributions import Distribution, parse_times


def times_or_none(text: str) -> Distribution | None:
    """Return a distribution, or None for "none"."""
    return None if text.strip() == "none" else parse_times(text)


def period_or_none(text: str) -> Distribution | None:
    """Return the time between two reports; one of 0 would never let time pass."""
    period = times_or_none(text)
    if period is not None and period.mean < 0.01:
        raise ValueError(f"{text!r} is below 0.01 s")
    return period


def seconds_or_end(text: str) -> float | None:
    """Return seconds, or None for "end"."""
    return None if text.strip() == "end" else _number(text, 0, 86_400)


def rate(text: str) -> tuple[float, bool]:
    """Return how many a second, and whether that is for each node."""
    number, slash, rest = text.strip().partition("/")
    if slash and rest != "node":
        raise ValueError(f"{text!r} is neither a number nor a number/node")
    return _number(number, 0, 1_000_000), bool(slash)


def sizes(text: str) -> tuple[float, ...]:
    """Return CPUs, separated by commas."""
    return tuple(_number(part, 0.001, 100_000) for part in text.split(","))


def sample_size(text: str) -> int | None:
    """Return K, or None for "all"."""
    if text.strip().lower() == "all":
        return None
    if not re.fullmatch(r"[0-9]{1,7}", text.strip()) or not 1 <= int(text) <= 1_000_000:
        raise ValueError(f"{text!r} is neither a whole number from 1 to 1000000 nor all")
    return int(text)


def views(text: str) -> tuple[View, ...]:
    """Return the views that are named, each once, in this order."""
    if text.strip() == "all":
        return tuple(View)
    names = list(dict.fromkeys(part.strip() for part in text.split(",")))
    for name in names:
        if name not in list(View):
            raise ValueError(f"{name!r} is none of {', '.join(View)}, all")
    return tuple(View(name) for name in names)


def _number(text: str, least: float, most: float) -> float:
    if not re.fullmatch(r"[0-9]*\.?[0-9]+", text.strip()) or not least <= float(text) <= most:
        raise ValueError(f"{text!r} is no number from {least:g} to {most:g}")
    return float(text)
