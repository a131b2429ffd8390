"""The JSON Schemas of docs/reference/schemas. `tests/json_outputs.py` validates what commands print in tests."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from forewarn.policies.kubernetes.cluster.cache import Cache
from forewarn.policies.prediction.forecast.impact import Impact
from forewarn.policies.questions.application.predict import predict
from forewarn.webhook.admission.impact_annotation import ANNOTATION
from forewarn.webhook.admission.review import Hook
from forewarn.webhook.commands import review as command
from tests.builders import make_pod
from tests.in_process import forewarn
from tests.json_outputs import validator
from tests.webhook.admission.test_disclosure import STARVING, STATE
from tests.webhook.builders import decided, review

SCHEMAS = Path(__file__).parent.parent / "docs/reference/schemas"
sys.path.append(str(SCHEMAS.parents[1]))
from json_schemas import DOCUMENTS, OTHERS, forms_of, schema_of, section_of  # type: ignore[import-not-found]  # noqa: E402


@pytest.mark.parametrize("name", sorted(path.stem for path in SCHEMAS.glob("*.json")))
def test_a_schema_is_valid_and_allows_more_keys(name: str) -> None:
    schema = json.loads((SCHEMAS / f"{name}.json").read_text())
    Draft202012Validator.check_schema(schema)
    assert 'additionalProperties": false' not in json.dumps(schema)
    assert schema["title"].endswith(", version 1")


PLAIN = {"version", "id", "kind", "node", "notes", "object", "priority", "nominatedNode", "outcome", "standing"}
PLAIN |= {"minCount", "basis"}


@pytest.mark.parametrize("name", [name for name in DOCUMENTS if section_of(name) != OTHERS])
def test_a_schema_explains_its_keys(name: str) -> None:
    """In the key's own description, or in that of its type."""
    schema = schema_of(name)
    keys = {key: value for form in forms_of(schema, schema["$defs"]) for key, value in form["properties"].items()}
    explained = {
        key
        for key, value in keys.items()
        if "description" in value or any("description" in form for form in forms_of(value, schema["$defs"]))
    }
    assert set(keys) - explained <= PLAIN


def test_a_document_with_a_missing_or_wrong_or_unknown_key_does_not_fit() -> None:
    good = predict(Cache().snapshot(), make_pod("web").obj).to_dict()
    assert validator("predict").is_valid(good)
    for bad in ({**good, "pods": "3"}, {**good, "other": 1}, {key: good[key] for key in ("status", "clause")}):
        assert not validator("predict").is_valid(bad)
    assert validator("predict", closed=False).is_valid({**good, "other": 1})


@pytest.mark.parametrize("impact", [Impact((), 3, None, rest="unknown"), Impact((), 1, 5, why_not="a foreign plugin")])
def test_an_impact_without_prediction_fits(impact: Impact) -> None:
    assert list(validator("preemption-impact").iter_errors(impact.to_dict())) == []


def test_the_impact_annotation_and_its_audit_annotation_fit() -> None:
    (operation,) = decided(Hook.MUTATE, review(STARVING), state=STATE).response.patch
    audit = decided(Hook.VALIDATE, review(STARVING), state=STATE).response.audit["preemption-impact"]
    assert isinstance(operation.value, dict)
    for text in (operation.value[ANNOTATION], audit):
        assert list(validator("preemption-impact").iter_errors(json.loads(text))) == []


def test_the_review_of_a_pod_contains_the_details_of_each_finding(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "review.json"
    path.write_text(json.dumps(review(STARVING)))
    monkeypatch.setattr(command, "decide", lambda asked: decided(asked.hook, review(STARVING), state=STATE))
    done = forewarn("webhook", "review", "-f", path, "-o", "json")
    lines: list[dict[str, Any]] = [json.loads(line) for line in done.stdout.splitlines()]
    assert [line["phase"] for line in lines] == ["mutate", "validate"]
    details = {finding["rule"]: finding["detail"] for finding in lines[1]["findings"]}
    assert details["preempts-running-pods"]["victims"] == {
        "count": 2,
        "lowestPriority": 100,
        "highestPriority": 200,
        "graceSeconds": 30,
    }
    (warning,) = lines[1]["review"]["response"]["warnings"]
    assert "[preempts-running-pods]" in warning
