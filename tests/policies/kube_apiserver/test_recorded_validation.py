"""Validation of new objects against recorded answers of kube-apiserver (tests/e2e/test_validation.py)."""

from __future__ import annotations

import json

import pytest

from forewarn.policies.kubernetes.releases.semantics import Semantics
from tests.policies.kube_apiserver.verdicts import RECORDED, Recorded, fields_of

recorded = Recorded.read(RECORDED)


@pytest.mark.parametrize("kind", recorded.objects)
def test_the_same_fields_are_rejected(kind: str) -> None:
    wrong = [
        f"1.{minor}: kube-apiserver {fields}, forewarn {ours}: {text}"
        for text in recorded.objects[kind]
        for minor, fields in recorded.answers[text].items()
        if (ours := fields_of(json.loads(text), Semantics(int(minor.removeprefix("1."))))) != fields
    ]
    assert not wrong, "\n".join(wrong)


def test_each_kind_is_accepted_and_rejected() -> None:
    for kind, texts in recorded.objects.items():
        answers = [fields for text in texts for fields in recorded.answers[text].values()]
        assert [] in answers, kind
        assert any(answers), kind
