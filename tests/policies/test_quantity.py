"""Quantities read, add and print as apimachinery does."""

import pytest

from policies.quantity import InvalidQuantity, parse_quantity


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
    ],
)
def test_a_quantity_prints_in_its_canonical_form(text: str, printed: str) -> None:
    assert str(parse_quantity(text)) == printed


@pytest.mark.parametrize(
    "text", ["", "1K", "1_000", "NaN", "Infinity", "1 Gi", "1ki", "1.2.3", "0x10", "--1", "1e", True, None]
)
def test_what_is_no_quantity_is_refused(text: object) -> None:
    with pytest.raises(InvalidQuantity):
        parse_quantity(text)


def test_a_sum_keeps_the_notation_of_its_first_operand_that_is_not_zero() -> None:
    assert str(parse_quantity("1Gi") + parse_quantity("1M")) == "1074741824"
    assert str(parse_quantity("0") + parse_quantity("1Gi")) == "1Gi"
    assert str(parse_quantity("1Gi") + parse_quantity("1024Mi")) == "2Gi"
