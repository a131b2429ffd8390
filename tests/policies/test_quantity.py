"""Quantities read, add and print as apimachinery does."""

import contextlib
import json
from pathlib import Path

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from forewarn.policies.kubernetes.quantity import ZERO, InvalidQuantity, Quantity, format_units, parse_quantity
from tests.cases import each

DATA = json.loads((Path(__file__).parent / "data" / "quantities.json").read_text())
SUFFIXES = ["", "m", "u", "n", "k", "M", "G", "T", "Ki", "Mi", "Gi", "e3", "e-3", "E6"]

texts = st.builds(
    lambda sign, whole, fraction, suffix: f"{sign}{whole}{fraction}{suffix}",
    st.sampled_from(["", "-"]),
    st.integers(0, 10**9),
    st.sampled_from(["", ".5", ".25", ".001", ".999999"]),
    st.sampled_from(SUFFIXES),
)


@each(lambda: DATA["parsed"])
def test_a_text_is_read_and_printed_as_upstream_does(text: str, printed: str | None, detail: str) -> None:
    if printed is None:
        with pytest.raises(InvalidQuantity) as rejected:
            parse_quantity(text)
        assert str(rejected.value) == detail
    else:
        quantity = parse_quantity(text)
        assert (str(quantity), str(quantity.round_up_to_milli())) == (printed, detail)


@each(lambda: DATA["sums"])
def test_a_sum_prints_as_upstream_prints_it(parts: list[str], printed: str) -> None:
    assert str(sum(map(parse_quantity, parts), ZERO)) == printed


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("1", "1"),
        ("0.5", "500m"),
        ("1.5Gi", "1536Mi"),
        ("1024Ki", "1Mi"),
        ("1e3", "1e3"),
        ("2000m", "2"),
        ("0.1n", "1n"),
        ("-2k", "-2k"),
        ("100Ki", "100Ki"),
        ("0.5Ki", "512"),
        ("1.500", "1.500"),
        (1, "1"),
        (0.25, "250m"),
        (None, "0"),
        (" 1 ", "1"),
    ],
)
def test_a_quantity_prints_in_its_canonical_form(text: object, printed: str) -> None:
    assert str(parse_quantity(text)) == printed


@pytest.mark.parametrize(
    "text", ["", "1K", "1_000", "NaN", "Infinity", "1 Gi", "1ki", "1.2.3", "0x10", "--1", "1e", "1\n", True, {}, []]
)
def test_what_is_no_quantity_is_refused(text: object) -> None:
    with pytest.raises(InvalidQuantity):
        parse_quantity(text)


@pytest.mark.parametrize("text", ["9" * 5000, "1" + "0" * 5000, "0." + "0" * 5000 + "1", "1e999999999", "1e-99999999"])
def test_a_hostile_number_is_refused_at_once(text: str) -> None:
    with pytest.raises(InvalidQuantity):
        parse_quantity(text)


def test_a_sum_keeps_the_notation_of_its_first_operand_that_is_not_zero() -> None:
    assert str(parse_quantity("1Gi") + parse_quantity("1M")) == "1074741824"
    assert str(parse_quantity("0") + parse_quantity("1Gi")) == "1Gi"
    assert str(parse_quantity("1Gi") + parse_quantity("1024Mi")) == "2Gi"


@given(texts)
@example("531.25Ki")
def test_printing_loses_nothing(text: str) -> None:
    """But for the notation: 531.25Ki prints as 544000, which has no suffix and reads as a decimal number.

    And but for a thousand E: there is no suffix above it, and upstream prints 1000E as 1.
    """
    quantity = parse_quantity(text)
    assume(abs(quantity.nano) < 10**30)
    again = parse_quantity(str(quantity))
    assert again == quantity
    assert str(parse_quantity(str(again))) == str(again)


@given(texts, texts, texts)
def test_addition_is_that_of_numbers(first: str, second: str, third: str) -> None:
    a, b, c = map(parse_quantity, (first, second, third))
    assert a + b == b + a
    assert (a + b) + c == a + (b + c)
    assert a + b - b == a
    assert (a < b) == (a.nano < b.nano)
    assert hash(a) == hash(Quantity(a.nano))


@given(texts)
def test_values_round_away_from_zero(text: str) -> None:
    quantity = parse_quantity(text)
    assert abs(quantity.value) * 10**9 >= abs(quantity.nano) > (abs(quantity.value) - 1) * 10**9
    assert abs(quantity.milli_value) * 10**6 >= abs(quantity.nano)
    assert quantity.round_up_to_milli().round_up_to_milli() == quantity.round_up_to_milli()


@given(st.text())
def test_any_text_is_read_or_refused(text: str) -> None:
    with contextlib.suppress(InvalidQuantity):
        parse_quantity(text)


@pytest.mark.parametrize(
    ("quantity", "text"),
    [
        ("1422500m", "1,422.5"),
        ("900", "900"),
        ("1682", "1,682"),
        ("100m", "0.1"),
        ("4Gi", "4Gi"),
        ("2k", "2,000"),
        ("0", "0"),
    ],
)
def test_amounts_in_units(quantity: str, text: str) -> None:
    assert format_units(parse_quantity(quantity)) == text
