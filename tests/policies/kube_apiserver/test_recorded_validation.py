"""Validation of new objects against recorded answers of kube-apiserver (tests/e2e/test_validation.py)."""

from __future__ import annotations

import json
from itertools import chain
from typing import TYPE_CHECKING, Any

import pytest

from forewarn.policies.kubernetes.kube_apiserver.validation.object_meta import not_supported
from forewarn.policies.kubernetes.kube_apiserver.validation.tables import NO_FIX, fix_of, validate
from forewarn.policies.kubernetes.objects.fields import InvalidObject
from forewarn.policies.kubernetes.releases.semantics import Semantics
from tests.policies.kube_apiserver.verdicts import RECORDED, Recorded, fields_of
from tests.work import steps

if TYPE_CHECKING:
    from collections.abc import Callable

    from forewarn.policies.kubernetes.kube_apiserver.validation.object_meta import FieldError

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


def test_each_error_has_a_fix_of_its_own() -> None:
    without = {
        str(fault)
        for text in chain.from_iterable(recorded.objects.values())
        for fault in _faults(json.loads(text))
        if fix_of(fault) == NO_FIX
    }
    assert {fault.rpartition(": ")[2] for fault in without} <= {"may not be '..'", "segment[1] may not be empty"}


def _faults(obj: dict[str, Any]) -> list[FieldError]:
    try:
        return validate(obj, Semantics())
    except InvalidObject:
        return []


@pytest.mark.parametrize(
    ("policies", "fix"),
    [
        (("OnFailure", "Never"), "set restartPolicy: Never or OnFailure"),
        (("Always", "OnFailure", "Never"), "use a supported value"),
    ],
)
def test_a_fix_leaves_out_no_supported_value(policies: tuple[str, ...], fix: str) -> None:
    assert fix_of(not_supported(("spec", "restartPolicy"), "Sometimes", policies)) == fix


def test_each_kind_is_accepted_and_rejected() -> None:
    for kind, texts in recorded.objects.items():
        answers = [fields for text in texts for fields in recorded.answers[text].values()]
        assert [] in answers, kind
        assert any(answers), kind


@pytest.mark.parametrize(
    "spec",
    [
        lambda count: {"schedulingGates": [{"name": f"g{number}"} for number in range(count)]},
        lambda count: {
            "topologySpreadConstraints": [
                {
                    "maxSkew": 1,
                    "topologyKey": f"k{number}",
                    "whenUnsatisfiable": "ScheduleAnyway",
                    "labelSelector": {},
                    "matchLabelKeys": [f"a{number}"],
                }
                for number in range(count)
            ]
        },
        lambda count: {"tolerations": [{"operator": "Exists"}] * count},
    ],
    ids=["gates", "constraints", "tolerations"],
)
def test_long_lists_take_linear_time(spec: Callable[[int], dict[str, Any]]) -> None:
    few, many = (
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "a"},
            "spec": {"containers": [{"name": "a", "image": "a"}], **spec(count)},
        }
        for count in (100, 400)
    )
    assert fields_of(many, Semantics()) == []
    least, most = (steps(lambda: fields_of(pod, Semantics())) for pod in (few, many))  # noqa: B023
    assert most < 5 * least
