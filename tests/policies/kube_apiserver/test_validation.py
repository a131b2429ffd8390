"""Objects are decoded and validated as upstream does, and every fault knows the field that it is about."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forewarn.policies.base.findings import cut
from forewarn.policies.kubernetes.kube_apiserver.validation.decode import (
    POD_STRUCT,
    PRIORITY_CLASS_STRUCT,
    RESOURCE_QUOTA_STRUCT,
    decode_fault,
)
from forewarn.policies.kubernetes.kube_apiserver.validation.object_meta import (
    FieldError,
    Named,
    aggregate,
    dns1123_label,
    dns1123_subdomain,
    go_json,
    go_quote,
    invalid,
    label_value,
    mask_trailing_dash,
    qualified_name,
)
from forewarn.policies.kubernetes.kube_apiserver.validation.resources import (
    is_scope_valid_for,
    validate_resource_quota,
    validate_resource_quota_update,
)
from forewarn.policies.kubernetes.objects.fields import at
from tests.cases import cases
from tests.recorded.validation import validate_pod_create, validate_pod_update

META = {"name": "x", "namespace": "team"}
IMMUTABLE = "spec: Forbidden: pod updates may not change fields other than"


def quota(**spec: Any) -> dict[str, Any]:
    return {"metadata": META, "spec": {"hard": {"pods": "1"}, **spec}}


def pod(**spec: Any) -> dict[str, Any]:
    return {"metadata": META, "spec": {"containers": [{"name": "c", "image": "x"}], **spec}}


def texts(errors: list[FieldError]) -> list[str]:
    return [str(error) for error in errors]


def expressions(*given: dict[str, Any]) -> dict[str, Any]:
    return {"matchExpressions": [*given]}


@pytest.mark.parametrize(
    ("struct", "obj", "path", "text"),
    [
        (
            PRIORITY_CLASS_STRUCT,
            {"value": "1"},
            ("value",),
            "string into Go struct field PriorityClass.value of type int32",
        ),
        (
            PRIORITY_CLASS_STRUCT,
            {"value": 2**31},
            ("value",),
            "number 2147483648 into Go struct field PriorityClass.value",
        ),
        (PRIORITY_CLASS_STRUCT, {"value": True}, ("value",), "bool into Go struct field PriorityClass.value"),
        (
            RESOURCE_QUOTA_STRUCT,
            {"spec": {"scopes": ["a", 1]}},
            ("spec", "scopes", 1),
            "number into Go struct field ResourceQuotaSpec.spec.scopes of type v1.ResourceQuotaScope",
        ),
        (
            POD_STRUCT,
            {"spec": {"containers": [{"resources": {"limits": []}}]}},
            ("spec", "containers", 0, "resources", "limits"),
            "array into Go struct field ResourceRequirements.spec.containers.resources.limits of type v1.ResourceList",
        ),
        (
            POD_STRUCT,
            {"metadata": {"labels": {"a": 1}}},
            ("metadata", "labels", "a"),
            "ObjectMeta.metadata.labels of type string",
        ),
        (POD_STRUCT, {"spec": 3}, ("spec",), "number into Go struct field Pod.spec of type v1.PodSpec"),
    ],
)
def test_a_wrong_type_is_told_in_the_words_of_encoding_json(
    struct: Any, obj: dict[str, Any], path: tuple[str | int, ...], text: str
) -> None:
    fault = decode_fault(obj, struct)
    assert fault is not None
    assert fault.path == path
    assert text in fault.text


def test_what_cannot_be_parsed_comes_before_what_has_a_wrong_type() -> None:
    given = {"metadata": {"name": 1}, "spec": {"overhead": {"cpu": "x"}, "priority": "x"}}
    fault = decode_fault(given, POD_STRUCT)
    assert fault is not None
    assert fault.path == ("spec", "overhead", "cpu")
    late = decode_fault({"metadata": {"name": 1, "deletionTimestamp": "soon"}}, POD_STRUCT)
    assert late is not None
    assert late.text.startswith('parsing time "soon" as "2006-01-02T15:04:05Z07:00"')


def test_null_is_absent_everywhere() -> None:
    given = {"metadata": None, "spec": {"containers": [None], "priority": None, "overhead": {"cpu": None}}}
    assert decode_fault(given, POD_STRUCT) is None


@pytest.mark.parametrize(
    ("faults", "expected"),
    [
        (dns1123_label("a.b"), ["must not contain dots"]),
        (dns1123_label("a" * 64), ["must be no more than 63 characters"]),
        (dns1123_subdomain("a" * 254), ["must be no more than 253 characters"]),
        (dns1123_subdomain("ok-1.example"), []),
        (label_value("x" * 64), ["must be no more than 63 bytes"]),
        (label_value(""), []),
        (qualified_name("/x"), ["prefix part must be non-empty"]),
        (qualified_name("example.com/Ok_1"), []),
    ],
)
def test_names_are_judged(faults: list[str], expected: list[str]) -> None:
    assert faults == expected


def test_a_prefix_is_judged_with_two_characters_off_and_one_on() -> None:
    assert mask_trailing_dash("web-") == "wea"
    assert mask_trailing_dash("web") == "web"
    assert mask_trailing_dash("-") == "-"


@pytest.mark.parametrize(
    ("text", "quoted"),
    [
        ('a"b', r'"a\"b"'),
        ("a\tb", r'"a\tb"'),
        ("é", '"é"'),
        ("\x00", r'"\x00"'),
        ("\u200b", r'"\u200b"'),
        ("\\", r'"\\"'),
    ],
)
def test_plain_text_is_quoted_as_go_quotes_it(text: str, quoted: str) -> None:
    assert go_quote(text) == quoted


def test_values_are_printed_as_go_prints_json() -> None:
    assert go_json({"a": [None, "<&>"]}) == r'{"a":[null,"\u003c\u0026\u003e"]}'
    assert invalid(("a",), "<", "x").text == 'Invalid value: "<": x'
    assert invalid(("a",), Named("<"), "x").text == r'Invalid value: "\u003c": x'


@given(st.lists(st.sampled_from("abc"), min_size=1))
def test_faults_are_told_once_and_in_order(names: list[str]) -> None:
    text = aggregate([FieldError((name,), "bad") for name in names])
    unique = list(dict.fromkeys(names))
    expected = ", ".join(f"{name}: bad" for name in unique)
    assert text == (expected if len(unique) == 1 else f"[{expected}]")


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({}, []),
        ({"hard": {"cpu": "-1"}}, ['spec.hard[cpu]: Invalid value: "-1": must be greater than or equal to 0']),
        ({"hard": {"pods": "500m"}}, ['spec.hard[pods]: Invalid value: "500m": must be an integer']),
        ({"hard": {"requests.nvidia.com/gpu": "1"}, "scopes": ["PriorityClass"]}, []),
        (
            {"hard": {"gpu": "1"}},
            [
                'spec.hard[gpu]: Invalid value: "gpu": must be a standard resource type or fully qualified',
                'spec.hard[gpu]: Invalid value: "gpu": must be a standard resource for quota',
            ],
        ),
        (
            {"hard": {"ephemeral-storage": "1"}, "scopes": ["PriorityClass"]},
            ['spec.scopes: Invalid value: ["PriorityClass"]: unsupported scope applied to resource'],
        ),
        (
            {"scopes": ["BestEffort", "NotBestEffort"]},
            ['spec.scopes: Invalid value: ["BestEffort","NotBestEffort"]: conflicting scopes'],
        ),
        ({"scopes": ["Bogus"]}, ['spec.scopes: Invalid value: ["Bogus"]: unsupported scope']),
        (
            {"scopeSelector": expressions({"scopeName": "PriorityClass", "operator": "In"})},
            [
                (
                    "spec.scopeSelector.matchExpressions.values: Required value: must be at least one value when "
                    "`operator` is 'In' or 'NotIn' for scope selector"
                )
            ],
        ),
        (
            {"scopeSelector": expressions({"scopeName": "PriorityClass", "operator": "Exists", "values": ["a"]})},
            [
                (
                    'spec.scopeSelector.matchExpressions.values: Invalid value: ["a"]: must be no value when '
                    "`operator` is 'Exist' or 'DoesNotExist' for scope selector"
                )
            ],
        ),
        (
            {"scopeSelector": expressions({"scopeName": "PriorityClass", "operator": "exists"})},
            ['spec.scopeSelector.matchExpressions.operator: Invalid value: "exists": not a valid selector operator'],
        ),
        (
            {
                "hard": {"services": "1"},
                "scopeSelector": expressions({"scopeName": "PriorityClass", "operator": "Exists"}),
            },
            [
                (
                    "spec.scopeSelector.matchExpressions: Invalid value: "
                    '{"MatchExpressions":[{"ScopeName":"PriorityClass","Operator":"Exists","Values":null}]}: '
                    "unsupported scope applied to resource"
                )
            ],
        ),
        (
            {
                "scopeSelector": expressions(
                    {"scopeName": "Terminating", "operator": "Exists"},
                    {"scopeName": "NotTerminating", "operator": "Exists"},
                )
            },
            ["spec.scopeSelector.matchExpressions: Invalid value: null: conflicting scopes"],
        ),
    ],
)
def test_a_quota_is_judged(spec: dict[str, Any], expected: list[str]) -> None:
    errors = validate_resource_quota(quota(**spec))
    assert texts(errors) == expected


def test_only_exists_goes_with_scopes_that_are_no_selectors() -> None:
    given = expressions({"scopeName": "BestEffort", "operator": "In", "values": ["x"]})
    (error,) = validate_resource_quota(quota(scopeSelector=given))
    assert error.path == ("spec", "scopeSelector", "matchExpressions", 0, "operator")
    assert error.text.startswith("Invalid value: \"In\": must be 'Exists' when scope is any of")


def test_scopes_of_a_quota_do_not_change_and_its_selector_may() -> None:
    old = quota(scopes=["PriorityClass"])
    selector = expressions({"scopeName": "PriorityClass", "operator": "Exists"})
    assert texts(validate_resource_quota_update(quota(scopes=["PriorityClass"], scopeSelector=selector), old)) == []
    assert texts(validate_resource_quota_update(quota(), old)) == [
        "spec.scopes: Invalid value: null: field is immutable"
    ]


@given(st.sampled_from(["pods", "cpu", "limits.memory"]))
def test_best_effort_goes_with_nothing_but_pods(resource: str) -> None:
    assert is_scope_valid_for("PriorityClass", resource)
    assert is_scope_valid_for("BestEffort", resource) == (resource == "pods")
    assert not is_scope_valid_for("VolumeAttributesClass", resource)


FAULTY = pod(
    containers=[
        {"name": "c", "image": "x", "resources": {"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}},
        {"name": "c", "image": "x", "resources": {"requests": {"nvidia.com/gpu": "1"}, "limits": {"gpu": "1"}}},
        {"name": "d", "image": "x", "resources": {"limits": {"hugepages-2Mi": "1"}}},
    ],
    activeDeadlineSeconds=0,
    preemptionPolicy="Sometimes",
    resources={"limits": {"ephemeral-storage": "1", "cpu": "500m"}},
)


def test_every_fault_of_a_pod_is_told_and_points_at_its_field() -> None:
    errors = validate_pod_create(FAULTY)
    found = {error.path for error in errors}
    assert {
        ("spec", "containers", 0, "resources", "requests", "cpu"),
        ("spec", "containers", 1, "name"),
        ("spec", "containers", 1, "resources", "limits"),
        ("spec", "containers", 1, "resources", "limits", "gpu"),
        ("spec", "containers", 2, "resources"),
        ("spec", "containers", 2, "resources", "limits", "hugepages-2Mi"),
        ("spec", "resources", "limits", "ephemeral-storage"),
        ("spec", "containers", 0, "resources", "limits", "cpu"),
        ("spec", "activeDeadlineSeconds"),
        ("spec", "preemptionPolicy"),
    } <= found
    known = [error for error in errors if error.path[:2] == ("spec", "containers") and error.path[-1] != "requests"]
    assert all(at(FAULTY, *error.path[:3]) is not None for error in known)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({}, ""),
        ({"containers": [{"name": "c", "image": "y"}]}, ""),
        ({"tolerations": [{"operator": "Exists"}]}, ""),
        ({"schedulerName": "default-scheduler"}, ""),
        ({"priority": 5}, IMMUTABLE),
        ({"priorityClassName": "gold"}, IMMUTABLE),
        ({"overhead": {"cpu": "1"}}, IMMUTABLE),
        ({"containers": []}, "spec.containers: Required value"),
        ({"activeDeadlineSeconds": 60}, ""),
    ],
)
def test_a_pod_may_change_only_little(change: dict[str, Any], expected: str) -> None:
    assert "".join(texts(validate_pod_update(pod(**change), pod())))[: len(expected) or None] == expected


def test_a_deadline_only_comes_closer() -> None:
    old = pod(activeDeadlineSeconds=60)
    assert texts(validate_pod_update(pod(activeDeadlineSeconds=30), old)) == []
    later = "spec.activeDeadlineSeconds: Invalid value: 90: must be less than or equal to previous value"
    assert texts(validate_pod_update(pod(activeDeadlineSeconds=90), old)) == [later]
    gone = "spec.activeDeadlineSeconds: Invalid value: null: must not update from a positive integer to nil value"
    assert texts(validate_pod_update(pod(), old))[0] == gone


VALUES = st.recursive(st.text(max_size=400) | st.integers() | st.booleans(), lambda inner: st.lists(inner, max_size=9))


@settings(max_examples=cases(30))
@given(st.dictionaries(st.text(max_size=30), VALUES, max_size=9))
def test_what_is_shown_of_a_value_is_how_its_json_begins(value: dict[str, Any]) -> None:
    whole = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    for char in "<>&\u2028\u2029":
        whole = whole.replace(char, f"\\u{ord(char):04x}")
    assert str(invalid(("x",), value, "odd")) == f"x: Invalid value: {cut(whole, 2048)}: odd"


def test_what_is_not_shown_of_a_value_is_not_looked_at() -> None:
    """A quota's selector of 460 kB was gone through once for each resource that it does not go with: 0.1 s."""
    looked_at = 0

    class Looked(Mapping[str, str]):
        def __getitem__(self, key: str) -> str:
            nonlocal looked_at
            looked_at += 1
            return "x" * 100

        def __iter__(self) -> Iterator[str]:
            return iter(map(str, range(64)))

        def __len__(self) -> int:
            return 64

    invalid(("x",), [Looked()] * 64, "odd")
    assert looked_at == 64, "of the first mapping alone"
