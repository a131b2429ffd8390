"""Scalars at their limits, and those that mislead; what a table of recorded texts does not hold."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from forewarn.policies.inputs.manifests.documents import Document, Fault
from forewarn.policies.inputs.manifests.json_text import JsonReader, NotJson, skip
from forewarn.policies.inputs.manifests.yaml.nodes import Scalar, compose
from forewarn.policies.inputs.manifests.yaml.scalars import (
    Unreadable,
    _base_60,
    _doubt,
    as_integer,
    doubtful,
    key_of,
    may_surprise,
    resolve,
    value_of,
)
from forewarn.policies.inputs.manifests.yaml.source import Construction, scalar_value

TAG = "tag:yaml.org,2002:"


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0b" + "1" * 64, 2**64 - 1),
        ("0b-101", -5),
        ("0b+11", 3),
        ("0b-1" + "0" * 63, -(2**63)),
        ("0b+" + "1" * 63, 2**63 - 1),
        ("0b+1" + "0" * 63, "0b+1" + "0" * 63),
        ("0b-1" + "0" * 62 + "1", "0b-1" + "0" * 62 + "1"),
        ("18446744073709551615", 2**64 - 1),
        ("-9223372036854775808", -(2**63)),
    ],
)
def test_numbers_end_where_they_end_for_kubectl(text: str, value: object) -> None:
    assert resolve(text) == value
    assert type(resolve(text)) is type(value)


def test_the_shortest_digits_make_the_integer() -> None:
    assert [as_integer(n) for n in (1e15, 1e16, 1.5e16, 2.0**63, 1e20)] == [
        10**15,
        10**16,
        15 * 10**15,
        9223372036854775808 // 1000 * 1000 + 1000,
        10**20,
    ]
    assert isinstance(as_integer(1e21), float)


@pytest.mark.parametrize(
    ("text", "tag", "value"),
    [
        ("2001-01-01", "timestamp", "2001-01-01"),
        ("1", "float", 1),
        (str(2**63 - 1), "float", 9223372036854776000),
        ("1", "int", 1),
        ("YQ==", "binary", "a"),
        ("Y\r\nQ==", "binary", "a"),
        ("1", "str", "1"),
    ],
)
def test_a_tag_says_what_a_scalar_is(text: str, tag: str, value: object) -> None:
    assert value_of(text, TAG + tag, True) == value


@pytest.mark.parametrize(
    ("text", "tag", "says"),
    [
        ("2001-01-01", "int", "cannot decode !!str `2001-01-01` as a !!int"),
        ("a", "timestamp", "as a !!timestamp"),
        ("1", "bool", "cannot decode !!int `1` as a !!bool"),
        (str(2**63), "float", "cannot decode !!int"),
        ("true", "float", "cannot decode !!bool"),
        ("Y!Q==", "binary", "invalid base64"),
        ("a" * 70, "int", f"cannot decode !!str `{'a' * 60}` as"),
    ],
)
def test_a_tag_that_does_not_fit_is_refused(text: str, tag: str, says: str) -> None:
    with pytest.raises(Unreadable) as fault:
        value_of(text, TAG + tag, True)
    assert says in str(fault.value)


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("1e300", ".inf"),
        ("-1e300", "-.inf"),
        (".nan", ".nan"),
        ("1.5", "1.5"),
        ("0.1", "0.1"),
        ("16777217.0", "1.6777216e+07"),
    ],
)
def test_a_number_as_a_key_has_single_precision(text: str, key: str) -> None:
    assert key_of(text, None, True) == key


@pytest.mark.parametrize(("text", "says"), [("~", "~ cannot be a key"), ("", "an empty key cannot be a key")])
def test_nothing_is_no_key(text: str, says: str) -> None:
    with pytest.raises(Unreadable, match=says):
        key_of(text, None, True)


def test_a_scalar_may_be_as_long_as_a_request() -> None:
    most = 3 * 1024 * 1024
    assert scalar_value(Scalar("1" + "a" * (most - 1), None, True, 5, 6)) == "1" + "a" * (most - 1)
    assert len(Construction(Scalar("a" * most, None, True, 0, 1)).value) == most
    for text in ("1" + "a" * most, "a" * (most + 1)):
        with pytest.raises(Fault, match=f"a value of {most + 1} characters") as fault:
            Construction(Scalar(text, None, True, 5, 6))
        assert fault.value.start == 5


@pytest.mark.parametrize(
    ("text", "what"), [(b"? [a]\n: b\n", "a list"), (b"? {a: b}\n: c\n", "a mapping"), (b"? &a [b]\n: c\n", "a list")]
)
def test_a_collection_is_no_key(text: bytes, what: str) -> None:
    root, _ = compose(Document(text, "f.yaml"))
    with pytest.raises(Fault, match=f"{what} cannot be a key"):
        Construction(root)


@pytest.mark.parametrize(
    ("text", "may"),
    [
        ("yes", True),
        ("Off", True),
        ("web", False),
        ("7", False),
        ("07", True),
        ("10", False),
        ("010", True),
        ("0o7", True),
        ("1_0", True),
        ("1:30", True),
        ("1e3", True),
        ("1.5", False),
    ],
)
def test_what_may_surprise_is_seen(text: str, may: bool) -> None:
    assert may_surprise(text) is may


def test_what_is_hundreds_of_digits_long_is_no_slip() -> None:
    assert _doubt("0" + "7" * 99, "", False)
    assert not _doubt("0" + "7" * 100, "", False)


@pytest.mark.parametrize(
    ("text", "number"), [("1:30", 90), ("-1:30", -90), ("+2:00:01", 7201), ("1:30.5", 90.5), ("1_0:01", 601)]
)
def test_base_60_is_counted(text: str, number: float) -> None:
    assert _base_60(text) == number
    assert type(_base_60(text)) is type(number)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("1:30\n", []),
        ("1:30: a\nb: c\n", []),
        ("value: 1:30\nb: 1:31\n", ["1:30"]),
        ("mode: 0644\nvalue: 010\nb: 011\n", ["010", "011"]),
        ("value: [1:30, {a: 1:31}, 1:32]\n", ["1:30", "1:32"]),
        ("labels: {a: 1:30}\n", ["1:30"]),
        ("- 010: 011\n- 012\n", ["010", "011", "012"]),
    ],
)
def test_each_scalar_is_doubted_once_in_its_field(text: str, found: list[str]) -> None:
    root, _ = compose(Document(text.encode(), "f.yaml"))
    assert root is not None
    assert [scalar.text for scalar, _ in doubtful(root)] == found


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("9223372036854775807", 9223372036854775807),
        ("9223372036854775808", 9223372036854776000),
        ("-9223372036854775808", -9223372036854775808),
        ("-9223372036854775809", -9223372036854776000),
        ("100000000000000000000", 10**20),
        ("1" * 22, float("1" * 22)),
    ],
)
def test_an_integer_of_json_that_is_too_large_comes_as_a_number(text: str, value: Any) -> None:
    found, end = JsonReader(text).value(0)
    assert (found, type(found), end) == (value, type(value), len(text))


@pytest.mark.parametrize(
    ("text", "start", "kind", "says", "span"),
    [
        ("NaN", 0, NotJson, "no number is written NaN", (0, 1)),
        ("  [1,]", 2, NotJson, "invalid JSON", None),
        ("[1", 0, NotJson, "invalid JSON", None),
        ("  [" + "1" * 400 + ".0]", 2, Fault, f"invalid JSON: {'1' * 40} does not fit", (2, 3)),
        ("  " + "[" * 100_000, 2, Fault, "nested too deeply", (2, 3)),
    ],
)
def test_what_is_wrong_with_json_is_shown_where_it_is(
    text: str, start: int, kind: type[Fault], says: str, span: tuple[int, int] | None
) -> None:
    with pytest.raises(Fault) as fault:
        JsonReader(text).value(start)
    assert type(fault.value) is kind
    assert says in fault.value.message
    assert fault.value.end == fault.value.start + 1
    assert span is None or (fault.value.start, fault.value.end) == span


def test_json_says_whether_a_key_comes_again() -> None:
    reader = JsonReader('{"a": 1, "a": 2} {"a": {"b": 1}} []')
    seen = []
    position = 0
    while position < len(reader.text):
        start = skip(reader.text, position)
        _, position = reader.value(start)
        seen.append(reader.repeats(start))
    assert seen == [True, False, False]


def test_pyyaml_resolves_and_rejects_as_ever_though_its_patterns_are_compiled_later() -> None:
    program = """
import datetime, re
compile_before = re.compile
import forewarn.policies.inputs.manifests.yaml
import yaml
assert re.compile is compile_before and isinstance(re.compile("a"), re.Pattern)
assert not isinstance(yaml.reader.Reader.NON_PRINTABLE, re.Pattern)
assert yaml.safe_load("[2001-02-03, yes, 0x1F, 1.5, ~, .inf, a]") == [
    datetime.date(2001, 2, 3), True, 31, 1.5, None, float("inf"), "a"
]
assert yaml.safe_dump(["yes", "1", "a"]) == "- 'yes'\\n- '1'\\n- a\\n"
try:
    yaml.safe_load("a: \\x01")
except yaml.reader.ReaderError:
    pass
else:
    raise AssertionError("accepted")
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)
