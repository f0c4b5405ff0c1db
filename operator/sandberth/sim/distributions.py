"""Times as the command line writes them (`X`, `A-B`, `exp:X`, `lognormal:X,S`), drawn so that any machine agrees.

Every draw takes one `random()` and is rounded to a microsecond: the last bit of a logarithm may differ between
machines, a microsecond does not.
"""

import math
import re
from dataclasses import dataclass
from random import Random
from statistics import NormalDist

MICROSECONDS = 1_000_000
MAX_SECONDS = 1e6

_NUMBER = r"[0-9]+(?:\.[0-9]+)?|\.[0-9]+"
_FORMS = (
    ("fixed", re.compile(f"({_NUMBER})")),
    ("uniform", re.compile(f"({_NUMBER})-({_NUMBER})")),
    ("exp", re.compile(f"exp:({_NUMBER})")),
    ("lognormal", re.compile(f"lognormal:({_NUMBER}),({_NUMBER})")),
)
_NORMAL = NormalDist()
_SMALLEST = 2.0**-54


@dataclass(frozen=True, slots=True)
class Distribution:
    """A distribution of times in seconds: `first` is the value, the lower end, the mean, or the median."""

    kind: str
    first: float
    second: float = 0.0

    @property
    def is_zero(self) -> bool:
        """Whether every draw is 0."""
        return self.kind in {"fixed", "exp"} and self.first == 0

    @property
    def mean(self) -> float:
        """The mean in seconds."""
        if self.kind == "uniform":
            return (self.first + self.second) / 2
        if self.kind == "lognormal":
            return self.first * math.exp(self.second**2 / 2)
        return self.first

    def draw(self, rng: Random) -> int:
        """Return one time in microseconds."""
        share = rng.random()
        if self.kind == "uniform":
            seconds = self.first + (self.second - self.first) * share
        elif self.kind == "exp":
            seconds = -self.first * math.log(1.0 - share)
        elif self.kind == "lognormal":
            seconds = self.first * math.exp(self.second * _NORMAL.inv_cdf(max(share, _SMALLEST)))
        else:
            seconds = self.first
        return round(seconds * MICROSECONDS)

    def __str__(self) -> str:
        if self.kind == "uniform":
            return f"{self.first:g}-{self.second:g}"
        if self.kind == "lognormal":
            return f"lognormal:{self.first:g},{self.second:g}"
        return f"exp:{self.first:g}" if self.kind == "exp" else f"{self.first:g}"


def fixed(seconds: float) -> Distribution:
    """Return the distribution that is always `seconds`."""
    return Distribution("fixed", seconds)


def parse_times(text: str) -> Distribution:
    """Return the distribution that `text` names. Raises ValueError for anything else."""
    for kind, form in _FORMS:
        if (match := form.fullmatch(text.strip())) is not None:
            numbers = [float(number) for number in match.groups()]
            if max(numbers) > MAX_SECONDS or (kind == "lognormal" and numbers[1] > 5):
                raise ValueError(f"{text!r} is too large")
            if kind == "uniform" and numbers[0] > numbers[1]:
                raise ValueError(f"{text!r} ends before it begins")
            return Distribution(kind, *numbers)
    raise ValueError(f"{text!r} is no time in seconds such as 1, 0.5-2, exp:60 or lognormal:1,0.5")
