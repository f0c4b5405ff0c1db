"""Quantities: the grammar's corners, the rounding and the canonical text."""

import pytest

from sandberth.core.quantity import (
    QuantityError,
    count,
    cpu_millicores,
    format_bytes,
    format_cpu,
    whole_bytes,
)


@pytest.mark.parametrize(
    ("text", "millicores"),
    [
        ("1", 1000),
        ("0.5", 500),
        (".5", 500),
        ("5.", 5000),
        ("250m", 250),
        ("1e3", 1_000_000),
        ("1E3", 1_000_000),
        ("12e-3", 12),
        ("+2", 2000),
        ("-1.5", -1500),
        ("100u", 1),  # anything asked for is at least the unit
        ("1n", 1),
        ("1e-50", 1),
        ("1000u", 1),
        ("1001u", 2),
        ("0", 0),
        ("-0", 0),
        (2, 2000),
        (0.1, 100),
    ],
)
def test_cpu_is_counted_in_thousandths_rounded_up(text: str | float, millicores: int) -> None:
    assert cpu_millicores(text) == millicores


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("128974848", 128974848),
        ("129e6", 129_000_000),
        ("129M", 129_000_000),
        ("128974848000m", 128974848),
        ("123Mi", 128974848),
        ("1.5Gi", 1610612736),
        ("0.1Ki", 103),
        ("1E", 10**18),  # exa, not an exponent without digits
        ("1Ei", 2**60),
        ("16Ei", 2**64),  # beyond 63 bits, where Kubernetes would cap
        ("1m", 1),
        ("-1.5", -2),
    ],
)
def test_bytes_are_whole_and_as_large_as_they_say(text: str, size: int) -> None:
    assert whole_bytes(text) == size


@pytest.mark.parametrize(
    "text",
    [
        *("", ".", "+", "-", "1e", "1i", " 1", "1 ", "1 Gi", "1K", "1gi", "1GiB", "1.5e", "abc", "nan", "inf", "1_0"),
        *("1.2.3", "--1", "0x10", "\N{ARABIC-INDIC DIGIT ONE}", "1\n", "1e1e1", "1Kie3", "Ki"),
    ],
)
def test_what_kubernetes_refuses_is_refused_with_the_text(text: str) -> None:
    with pytest.raises(QuantityError) as raised:
        whole_bytes(text)

    assert raised.value.text == text


@pytest.mark.parametrize("value", [True, float("nan"), float("inf")])
def test_values_that_are_no_amounts_are_refused(value: float) -> None:
    whole_bytes(1)

    with pytest.raises(QuantityError):
        whole_bytes(value)


@pytest.mark.parametrize("value", ["1e999999999", "1e-999999999", "9" * 10_000, "1e" + "9" * 40])
def test_absurd_numbers_are_refused_at_once(value: str) -> None:
    with pytest.raises(QuantityError, match=r"exponent beyond|longer than"):
        cpu_millicores(value)


def test_an_integer_that_python_will_not_print_is_refused() -> None:
    with pytest.raises(QuantityError, match="more than"):
        cpu_millicores(10**5000)


def test_count_takes_whole_things() -> None:
    assert (count("110"), count("1k"), count("0.5")) == (110, 1000, 1)


@pytest.mark.parametrize(
    ("millicores", "text"), [(0, "0"), (250, "250m"), (2000, "2"), (1500, "1500m"), (2_000_000, "2k"), (-500, "-500m")]
)
def test_cpu_is_written_as_kubernetes_does(millicores: int, text: str) -> None:
    assert format_cpu(millicores) == text


@pytest.mark.parametrize(
    ("size", "text"),
    [
        *((0, "0"), (500, "500"), (1000, "1k"), (1500, "1500"), (1024, "1Ki"), (2**29, "512Mi")),
        *((3 * 2**29, "1536Mi"), (2**30, "1Gi"), (2**60, "1Ei"), (2**70, "1024Ei"), (-2048, "-2Ki")),
    ],
)
def test_bytes_are_written_as_kubernetes_does(size: int, text: str) -> None:
    assert format_bytes(size) == text
