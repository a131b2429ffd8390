"""Values are those that kubectl sends: cases recorded with sigs.k8s.io/yaml v1.6.0 behind apimachinery's decoder."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from forewarn.policies.inputs.manifests.documents import Document, Fault
from forewarn.policies.inputs.manifests.reading import read, values
from forewarn.policies.inputs.manifests.yaml.nodes import compose
from forewarn.policies.inputs.manifests.yaml.source import UNUSUAL, Construction, quick_value
from tests.cases import each

CASES = [json.loads(line) for line in (Path(__file__).parent / "cases" / "yaml.jsonl").read_text().splitlines()]


def _data(case: dict[str, Any]) -> bytes:
    return base64.b64decode(case["base64"]) if "base64" in case else case["text"].encode()


def _read(data: bytes) -> tuple[list[Any], bool]:
    found = []
    try:
        for value, _ in values(data, "f.yaml"):
            found.append(value)
    except Fault:
        return found, True
    return found, False


@each(lambda: ((case,) for case in CASES))
def test_a_text_reads_as_kubectl_reads_it(case: dict[str, Any]) -> None:
    documents, rejected = _read(_data(case))
    # The text of JSON tells 1, 1.0 and true apart, which == does not.
    assert (json.dumps(documents, sort_keys=True), rejected) == (
        json.dumps(case["documents"], sort_keys=True),
        case.get("refused", False),
    )


def test_the_table_has_what_it_is_for() -> None:
    assert len(CASES) > 350
    assert sum(case.get("refused", False) for case in CASES) > 60


@each(lambda: ((case,) for case in CASES))
def test_the_quick_way_never_disagrees_with_the_careful_one(case: dict[str, Any]) -> None:
    document = Document(_data(case), "f.yaml")
    quick = quick_value(document)
    if quick is not UNUSUAL:
        careful = Construction(compose(document)[0])
        assert json.dumps(quick) == json.dumps(careful.value)
        assert not careful.repeated


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.text(st.characters(max_codepoint=0xD7FF), max_size=12),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text("abcxyz .:-1ñ", max_size=6), inner, max_size=4),
    max_leaves=12,
)


@given(JSON)
def test_json_text_is_yaml_of_the_same_value(value: Any) -> None:
    text = json.dumps({"v": value}, ensure_ascii=True)
    found = [v for v, _ in values(b" \n" + text.encode(), "f.yaml")]
    assert json.dumps(found) == json.dumps([{"v": value}])


@given(JSON, st.booleans())
def test_what_a_yaml_writer_quotes_comes_back(value: Any, flow: bool) -> None:
    text = yaml.safe_dump({"v": value}, default_flow_style=flow, default_style='"', allow_unicode=False)
    assert [v for v, _ in values(text.encode(), "f.yaml")] == [yaml.safe_load(text)]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"v": 1.0}', "1"),
        ('{"v": 1e3}', "1000"),
        ('{"v": 1.5}', "1.5"),
        ('{"v": 1e20}', "100000000000000000000"),
        ('{"v": 1e21}', "1e+21"),
        ('{"v": 9223372036854775807}', "9223372036854775807"),
        ('{"v": 9223372036854775808}', "9223372036854776000"),
        ('{"v": "\\ud800x"}', '"\\ufffdx"'),
        ('{"v": "\\ud83d\\ude00"}', '"\\ud83d\\ude00"'),
        ('{"v": 1, "v": 2}', "2"),
    ],
)
def test_numbers_and_strings_of_json_come_as_kubectl_sends_them(text: str, value: str) -> None:
    reading = read(f'{{"apiVersion": "v1", "kind": "Pod", "x": {text}}}', "f.json", {"/Pod"})
    assert json.dumps(reading.subjects[0].object["x"]["v"]) == value


@pytest.mark.parametrize("text", ['{"a": 1e999999}', '{"a": .inf}', '{"a": "x', '{"a": 1}}', '{"a": [}', "{"])
def test_what_is_no_json_is_a_fault_of_a_json_file(text: str) -> None:
    assert [diagnostic.rule for diagnostic in read(text, "f.json", {"/Pod"}).diagnostics] == ["parse-error"]


@pytest.mark.parametrize(("text", "value"), [("{a: 01,}", 1), ('{"a": NaN}', "NaN"), ('{"a": "x\n y"}', "x y")])
def test_what_is_json_but_for_details_is_read_as_yaml(text: str, value: object) -> None:
    reading = read(f'{{"apiVersion": "v1", "kind": "Pod", "x": {text}}}', "f.json", {"/Pod"})
    assert (reading.subjects[0].object["x"]["a"], reading.diagnostics) == (value, ())


def test_a_number_of_ten_thousand_digits_is_read_in_no_time() -> None:
    assert [v for v, _ in values(b"a: " + b"9" * 10_000 + b"\n", "f.yaml")] == [{"a": "9" * 10_000}]
    assert read('{"a": ' + "9" * 10_000 + "}", "f.json", {"/Pod"}).diagnostics[0].rule == "parse-error"
