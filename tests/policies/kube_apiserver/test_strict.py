"""Fields that no object of a kind has: found where the API server finds them, in its words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forewarn.policies.kubernetes.kube_apiserver.validation.decode import fields_of, type_of, unknown_fields
from forewarn.policies.kubernetes.releases.minors import CHECKED_WITH
from tests.recorded.validation import strict_error, unknown_field_texts

if TYPE_CHECKING:
    pass


def deployment(**spec: Any) -> dict[str, Any]:
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "spec": spec}


POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "p", "labels": {"any": "thing"}, "annotations": {"x/y": "z"}},
    "spec": {
        "containers": [{"name": "c", "env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "x"}}}]}],
        "nodeSelector": {"what": "ever"},
        "priorityClassName": "gold",
        "resources": {"requests": {"example.com/gpu": 1}},
        "volumes": [{"name": "v", "configMap": {"items": [{"key": "k", "path": "p"}]}}],
    },
}


def test_what_is_known_is_let_pass() -> None:
    assert strict_error(POD) == ""
    assert strict_error(deployment(replicas=1, template={"metadata": {}, "spec": POD["spec"]})) == ""


@pytest.mark.parametrize(
    ("obj", "fields"),
    [
        (deployment(priorityClassName="x"), ["spec.priorityClassName"]),
        (deployment(template={"spec": {"priorityClass": "x", "containers": [{}, {"nam": 1}]}}),
         ["spec.template.spec.containers[1].nam", "spec.template.spec.priorityClass"]),
        ({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "globaldefault": True}, ["globaldefault"]),
        ({"apiVersion": "v1", "kind": "ResourceQuota", "spec": {"scopeSelectors": {}}}, ["spec.scopeSelectors"]),
        ({"apiVersion": "v1", "kind": "Pod", "b": 1, "a": 1, "B": 1, "ä": 1, 'q"': 1}, ["B", "a", "b", 'q\\"', "ä"]),
        ({"apiVersion": "v1", "kind": "Pod", "spec": {"containers": {"nam": 1}, "volumes": "x"}}, []),
        ({"apiVersion": "scheduling.k8s.io/v1beta1", "kind": "PodGroup",
          "spec": {"schedulingPolicy": {"basic": {"a": 1}}, "disruptionMode": {"all": {"b": {}}, "single": {}}}},
         ["spec.disruptionMode.all.b", "spec.schedulingPolicy.basic.a"]),
        ({"apiVersion": "v1", "kind": "Pod", "$patch": "delete"}, []),
        ({"apiVersion": "apps/v1beta1", "kind": "Deployment", "x": 1}, []),
        ({"apiVersion": "example.com/v1", "kind": "Pod", "x": 1}, []),
        ({"apiVersion": "v1", "kind": ["Pod"], "x": 1}, []),
    ],
)  # fmt: skip
def test_what_is_unknown_is_named_in_the_order_in_which_kubectl_sends_it(
    obj: dict[str, Any], fields: list[str]
) -> None:
    assert unknown_field_texts(obj) == [f'unknown field "{field}"' for field in fields]


def test_a_hundred_fields_are_named_and_no_more() -> None:
    error = strict_error({"apiVersion": "v1", "kind": "Pod", **{f"x{n:03}": 1 for n in range(300)}})
    assert error.count("unknown field") == 100
    assert error.startswith('strict decoding error: unknown field "x000", unknown field "x001"')


def test_a_field_is_known_from_its_minor_on() -> None:
    pod = {"apiVersion": "v1", "kind": "Pod", "spec": {"workloadRef": {}, "schedulingGroup": {}}}
    found = {minor: [str(u.path[-1]) for u in unknown_fields(pod, minor)] for minor in CHECKED_WITH}
    assert found == {
        34: ["workloadRef", "schedulingGroup"],
        35: ["schedulingGroup"],
        36: ["workloadRef"],
        37: ["workloadRef"],
    }
    assert list(unknown_fields(pod)) == []


@given(st.recursive(st.none() | st.integers() | st.text(), lambda c: st.lists(c) | st.dictionaries(st.text(), c)))
def test_no_value_is_too_strange(value: Any) -> None:
    for key in ("spec", "metadata", "status"):
        strict_error({"apiVersion": "v1", "kind": "Pod", key: value})
        list(unknown_fields(deployment(template=value, **({key: value} if key != "template" else {}))))


def test_every_type_that_a_field_holds_is_there() -> None:
    to_do, seen = ["Pod", "CronJob", "StatefulSet", "PriorityClass", "Namespace", "LimitRange"], set[str]()
    while to_do:
        name = to_do.pop()
        if name not in seen:
            seen.add(name)
            to_do += [inner for _, _, inner in fields_of(name).nested]
    assert len(seen) > 100
    assert type_of(POD) == "Pod"
