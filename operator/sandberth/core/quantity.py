"""Kubernetes quantities: "250m", "1.5Gi", "12e3" to whole numbers and back.

The grammar and the rounding are those of Kubernetes: what is smaller than the unit counts as one whole unit (away
from zero). Not taken over is its silent cap at 2**63 - 1: here a number is as large as it says.

Source: k8s.io/apimachinery/pkg/api/resource (ParseQuantity, MilliValue, Value, CanonicalizeBytes).
"""

import re
from functools import lru_cache
from typing import Final

_LENGTH_LIMIT: Final = 64
_EXPONENT_LIMIT: Final = 64
_GRAMMAR = re.compile(
    r"(?P<sign>[+-]?)(?P<whole>[0-9]*)(?:\.(?P<fraction>[0-9]*))?(?:[eE](?P<exponent>[+-]?[0-9]+)|(?P<suffix>[A-Za-z]*))"
)
_DECIMAL: Final = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY: Final = {"Ki": 1, "Mi": 2, "Gi": 3, "Ti": 4, "Pi": 5, "Ei": 6}
_DECIMAL_SUFFIXES: Final = ("", "k", "M", "G", "T", "P", "E")
_BINARY_SUFFIXES: Final = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")


class QuantityError(ValueError):
    """The text is no quantity; `text` is what was given."""

    def __init__(self, text: str, message: str) -> None:
        super().__init__(f"{text[:_LENGTH_LIMIT]!r} {message}")
        self.text = text


def cpu_millicores(value: str | float) -> int:
    """Return thousandths of a core, rounded up. Raises QuantityError."""
    return _scaled(value if isinstance(value, str) else _text(value), 3)


def whole_bytes(value: str | float) -> int:
    """Return bytes, rounded up. Raises QuantityError."""
    return _scaled(value if isinstance(value, str) else _text(value), 0)


def count(value: str | float) -> int:
    """Return a number of things (pods, devices), rounded up. Raises QuantityError."""
    return whole_bytes(value)


def format_cpu(millicores: int) -> str:
    """Return the canonical text: 250 -> "250m", 2000 -> "2"."""
    if millicores % 1000:
        return f"{millicores}m"
    return _canonical(millicores // 1000, 1000, _DECIMAL_SUFFIXES)


def format_bytes(amount: int) -> str:
    """Return the canonical text: 1073741824 -> "1Gi", 1500 -> "1500"; below 1024 Kubernetes counts in tens."""
    if -1024 < amount < 1024:
        return _canonical(amount, 1000, _DECIMAL_SUFFIXES)
    return _canonical(amount, 1024, _BINARY_SUFFIXES)


def _text(value: float) -> str:
    if isinstance(value, bool):
        raise QuantityError(str(value), "is a boolean, not a quantity")
    try:
        return str(value)
    except ValueError as error:  # Python refuses to print integers of thousands of digits
        raise QuantityError("an integer", f"of more than {_LENGTH_LIMIT} digits") from error


@lru_cache(maxsize=8192)
def _scaled(text: str, power: int) -> int:
    """Return the quantity times 10**power, rounded away from zero."""
    if len(text) > _LENGTH_LIMIT:
        raise QuantityError(text, f"is longer than {_LENGTH_LIMIT} characters")
    match = _GRAMMAR.fullmatch(text)
    if match is None or not (match["whole"] or match["fraction"]):
        raise QuantityError(text, "is not a quantity such as 2, 500m, 1.5Gi or 12e3")
    fraction = match["fraction"] or ""
    number = int(match["whole"] + fraction)
    suffix = match["suffix"] or ""
    power -= len(fraction)
    if match["exponent"] is not None:
        exponent = int(match["exponent"])
        if abs(exponent) > _EXPONENT_LIMIT:
            raise QuantityError(text, f"has an exponent beyond {_EXPONENT_LIMIT}")
        power += exponent
    elif suffix in _BINARY:
        number *= 1024 ** _BINARY[suffix]
    elif suffix in _DECIMAL:
        power += _DECIMAL[suffix]
    else:
        raise QuantityError(text, f"has the unknown suffix {suffix!r}; known are n u m k M G T P E, Ki to Ei")
    factor: int = 10 ** abs(power)
    scaled = number * factor if power >= 0 else -(-number // factor)
    return -scaled if match["sign"] == "-" else scaled


def _canonical(amount: int, base: int, suffixes: tuple[str, ...]) -> str:
    """Write the amount with the largest suffix that leaves it a whole number."""
    index = 0
    while amount and amount % base == 0 and index + 1 < len(suffixes):
        amount //= base
        index += 1
    return f"{amount}{suffixes[index]}"
