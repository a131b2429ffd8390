"""The JSON documents of result types."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, NamedTuple

import pytest

from forewarn.policies.base.documents import Document, Exact, in_json, json_of, optional_in_json, to_dict

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from forewarn.policies.base.documents import Always, Hidden, Inlined, Spelled


class Size(IntEnum):
    LARGE = 1

    def __str__(self) -> str:
        return "large"


class Part(NamedTuple):
    part_name: str
    comment: str = ""
    notes: Always[Sequence[str]] = ()


class Whole(NamedTuple):
    secret: Hidden[str]
    part: Inlined[Part]
    old_name: Spelled[str]
    class_: str
    violated_pdbs: int
    no_part: Inlined[Part | None] = None
    number: int | None = None
    texts: Sequence[str] = ()
    more: Mapping[str, int] | None = None
    is_true: bool = False

    @in_json
    def computed(self) -> list[Size]:
        return [Size.LARGE]

    @optional_in_json
    def absent(self) -> str | None:
        return self.texts[0] if self.texts else None

    @property
    def other(self) -> str:
        return "not in JSON"


REQUIRED = {
    "partName": "p",
    "notes": [],
    "old_name": "o",
    "class": "c",
    "violatedPDBs": 2,
    "isTrue": False,
    "computed": ["large"],
}


@pytest.mark.parametrize(
    ("given", "keys"),
    [
        ({}, {}),
        ({"number": 0}, {"number": 0}),
        ({"texts": ["t"]}, {"texts": ["t"], "absent": "t"}),
        ({"texts": []}, {}),
        ({"more": {}}, {"more": {}}),
        ({"more": {1: 2}}, {"more": {"1": 2}}),
        ({"no_part": Part("q", "why", ["n"])}, {"partName": "q", "comment": "why", "notes": ["n"]}),
    ],
)
def test_the_keys_of_a_result(given: dict[str, Any], keys: dict[str, Any]) -> None:
    assert to_dict(Whole("s", Part("p"), "o", "c", 2, **given)) == REQUIRED | keys


def test_the_keys_are_in_the_order_of_the_fields_then_of_the_properties() -> None:
    assert list(to_dict(Whole("s", Part("p"), "o", "c", 2))) == list(REQUIRED)


@dataclass(frozen=True)
class Base(Document):
    head: str

    @in_json
    def number(self) -> float:
        return 1.23456


@dataclass(frozen=True)
class Child(Base):
    hidden: Hidden[str] = ""
    text: str = ""


def test_a_dataclass_has_the_keys_of_its_parent() -> None:
    assert Child("h").to_dict() == {"head": "h", "number": 1.2346}
    assert Child("h", "x", "t").to_dict() == {"head": "h", "text": "t", "number": 1.2346}


@pytest.mark.parametrize(
    ("value", "data"),
    [(0.123456, 0.1235), (Exact(0.123456), 0.123456), ((1, [2]), [1, [2]]), ({1: 0.00001}, {"1": 0.0}), (None, None)],
)
def test_values_in_json(value: object, data: object) -> None:
    assert json_of(value) == data
