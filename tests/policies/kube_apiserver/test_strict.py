"""Fields that no object of a kind has: found where the API server finds them, in its words."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forewarn.policies.cli import main
from forewarn.policies.kube_apiserver.validation.strict import (
    fields_of,
    strict_error,
    type_of,
    unknown_field_texts,
    unknown_fields,
)
from forewarn.policies.releases.minors import CHECKED_WITH

if TYPE_CHECKING:
    from pathlib import Path


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


def test_dry_run_answers_as_kubectl_prints_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "a.json"
    path.write_text(json.dumps(deployment(priorityClassName="x")))
    assert main(["dry-run", "-f", str(path)]) == 1
    error = 'strict decoding error: unknown field "spec.priorityClassName"'
    said = f'error when creating "{path}": Deployment in version "v1" cannot be handled as a Deployment: {error}'
    assert capsys.readouterr().err == f"Error from server (BadRequest): {said}\n"
    assert main(["dry-run", "-f", str(path), "--validate", "warn"]) == 3
    assert 'Warning: unknown field "spec.priorityClassName"' in capsys.readouterr().err
    assert main(["dry-run", "-f", str(path), "--validate", "ignore"]) == 3
    assert "unknown" not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("flags", "status"), [([], 3), (["--kubernetes-version", "1.35"], 3), (["--kubernetes-version", "1.36"], 1)]
)
def test_dry_run_refuses_what_the_release_that_was_named_does_not_know(
    flags: list[str], status: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "a.json"
    path.write_text(json.dumps(deployment(template={"spec": {"workloadRef": {"name": "w"}}})))
    assert main(["dry-run", "-f", str(path), *flags]) == status
    assert ('unknown field "spec.template.spec.workloadRef"' in capsys.readouterr().err) == (status == 1)


def test_dry_run_goes_by_what_the_cluster_says_that_it_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, dump = tmp_path / "a.json", tmp_path / "version.json"
    path.write_text(json.dumps(deployment(template={"spec": {"workloadRef": {}}})))
    for version, status in (("v1.35.8", 3), ("v1.36.3", 1), ("v1.99.0", 3)):
        dump.write_text(json.dumps({"serverVersion": {"gitVersion": version}}))
        assert main(["dry-run", "-f", str(path), "--cluster", str(dump)]) == status, version
    assert "workloadRef" in capsys.readouterr().err


def test_a_wrong_type_is_told_before_unknown_fields(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "a.yaml"
    path.write_text("apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {priority: x, priorityClass: y}\n")
    assert main(["dry-run", "-f", str(path)]) == 1
    error = capsys.readouterr().err
    assert "cannot unmarshal string" in error
    assert "strict" not in error
