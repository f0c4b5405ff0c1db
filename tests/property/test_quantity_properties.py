"""Quantities against the official client's parser, and back and forth."""

from decimal import ROUND_UP, Decimal, localcontext

from hypothesis import given
from hypothesis import strategies as st
from kubernetes.utils.quantity import parse_quantity

from sandberth.core.quantity import (
    QuantityError,
    cpu_millicores,
    format_bytes,
    format_cpu,
    whole_bytes,
)

SUFFIXES = ["", "n", "u", "m", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"]
numbers = st.from_regex(r"[+-]?(0|[1-9][0-9]{0,17})(\.[0-9]{1,12})?", fullmatch=True)
exponents = st.integers(-40, 40).flatmap(lambda power: st.sampled_from([f"e{power}", f"E{power}"]))
quantities = st.builds(str.__add__, numbers, st.one_of(st.sampled_from(SUFFIXES), exponents))


def oracle(text: str, factor: int) -> int:
    """Return what the official parser says, times the factor, rounded away from zero as Kubernetes does."""
    with localcontext() as context:
        context.prec = 300
        parsed: Decimal = parse_quantity(text)  # type: ignore[no-untyped-call]
        return int((parsed * factor).to_integral_value(ROUND_UP))


@given(quantities)
def test_every_quantity_means_what_the_official_client_reads(text: str) -> None:
    assert whole_bytes(text) == oracle(text, 1)
    assert cpu_millicores(text) == oracle(text, 1000)


@given(st.text(max_size=80))
def test_any_text_is_a_number_or_a_quantity_error(text: str) -> None:
    try:
        parsed: object = whole_bytes(text)
    except QuantityError as error:
        parsed = error

    assert isinstance(parsed, int | QuantityError)


@given(st.integers(-(2**80), 2**80))
def test_writing_and_reading_cpu_gives_it_back(millicores: int) -> None:
    assert cpu_millicores(format_cpu(millicores)) == millicores


@given(st.integers(-(2**80), 2**80))
def test_writing_and_reading_bytes_gives_them_back(size: int) -> None:
    assert whole_bytes(format_bytes(size)) == size


@given(st.decimals(allow_nan=False, allow_infinity=False, min_value=0, max_value=10**12, places=6))
def test_rounding_never_loses_anything(amount: Decimal) -> None:
    parsed = cpu_millicores(str(amount))

    assert 0 <= parsed - amount * 1000 < 1
