"""Dry-run of PodGroups, Workloads and Pods of a group: what kube-apiserver 1.36 and 1.37 answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forewarn.policies.kubernetes.cluster.cache import Cache, ClusterSnapshot
from forewarn.policies.kubernetes.kinds.registry import BY_GROUP_KIND, GROUP_TEMPLATES, POD_GROUP
from forewarn.policies.kubernetes.kube_apiserver.validation.decode import fields_of, type_of
from forewarn.policies.kubernetes.kube_apiserver.validation.pod import group_versions
from forewarn.policies.kubernetes.objects.reviewed_object import Operation, ReviewedObject
from forewarn.policies.kubernetes.options import Options
from forewarn.policies.kubernetes.releases.semantics import Semantics
from tests.cases import cases, each
from tests.policies.kube_apiserver.test_dry_run import json_values, pod, priority_class, quota
from tests.policies.recorded import load
from tests.recorded.batch import answer_case
from tests.recorded.dry_run import Answer, dry_run

if TYPE_CHECKING:
    from collections.abc import Iterator

ON = Semantics(37).with_gates(GenericWorkload=True)
WITH_POLICY = ON.with_gates(PodGroupPreemptionPolicy=True)
ALPHA = Semantics(36).with_gates(GenericWorkload=True)
RECORDED = {"groups-admission.expected": ON, "groups-admission-preemptionpolicy.expected": WITH_POLICY}
GANG = {"schedulingPolicy": {"gang": {"minCount": 2}}}


def cluster_of(*objects: dict[str, Any], semantics: Semantics = ON) -> ClusterSnapshot:
    cache = Cache(semantics=semantics)
    for obj in objects:
        cache.add(obj)
    return cache.snapshot()


def group(version: str = "v1beta1", **spec: Any) -> dict[str, Any]:
    header = {"apiVersion": f"scheduling.k8s.io/{version}", "kind": "PodGroup"}
    return {**header, "metadata": {"name": "g", "namespace": "team"}, "spec": {**GANG, **spec}}


def workload(*templates: dict[str, Any], version: str = "v1beta1", **spec: Any) -> dict[str, Any]:
    spec = {"podGroupTemplates": [{"name": f"t{i}", **GANG, **t} for i, t in enumerate(templates)], **spec}
    header = {"apiVersion": f"scheduling.k8s.io/{version}", "kind": "Workload"}
    return {**header, "metadata": {"name": "w", "namespace": "team"}, "spec": spec}


def answer(obj: dict[str, Any], old: dict[str, Any] | None = None, semantics: Semantics = ON) -> Answer:
    operation = Operation.CREATE if old is None else Operation.UPDATE
    classes = priority_class("gold", 100), priority_class("top", 10**9)
    return dry_run(ReviewedObject(obj, operation, old), cluster_of(*classes, semantics=semantics))


def fault(obj: dict[str, Any], old: dict[str, Any] | None = None, semantics: Semantics = ON) -> str:
    """What follows `is invalid: `."""
    rejected = answer(obj, old, semantics)
    assert rejected.code == 422
    return rejected.message.partition(" is invalid: ")[2]


def recorded() -> Iterator[tuple[dict[str, Any], dict[str, Any], Semantics]]:
    known = {case["id"]: case for case in load("groups-admission.cases.jsonl.gz")}
    for file, semantics in RECORDED.items():
        for expected in load(f"{file}.jsonl.gz"):
            yield expected, known[expected["id"]], semantics


@each(recorded)
def test_the_verdict_is_the_recorded_one(expected: dict[str, Any], case: dict[str, Any], semantics: Semantics) -> None:
    found = answer_case(case, options=Options(), semantics=semantics)
    compared = {"allowed", "code", "reason", "stored", *(["message"] if expected["code"] != 400 else [])}
    assert {key: found.get(key) for key in compared & expected.keys()} == {
        key: expected[key] for key in compared & expected.keys()
    }


def test_kube_apiserver_rejects_groups_if_the_gate_is_off() -> None:
    off = Semantics(37).with_gates(GenericWorkload=False)
    for obj in (group(), workload({})):
        assert answer(obj, semantics=off).message == (
            f'no matches for kind "{obj["kind"]}" in version "scheduling.k8s.io/v1beta1"'
        )
        assert answer(obj, semantics=Semantics(37)).code == 201  # unknown


@pytest.mark.parametrize(("minor", "served"), [(34, []), (35, []), (36, ["v1alpha2"]), (37, ["v1alpha3", "v1beta1"])])
def test_each_minor_serves_its_versions(minor: int, served: list[str]) -> None:
    codes = {
        version: dry_run(ReviewedObject(obj), cluster_of(), Options(minor=minor)).code
        for version, obj in ((v, group(v)) for v in ("v1alpha2", "v1alpha3", "v1beta1", "v1beta7"))
    }
    assert [version for version, code in codes.items() if code == 201] == served


def test_a_version_of_1_35_is_not_evaluated() -> None:
    assert answer(workload({}, version="v1alpha1")).stored is None


def test_1_36_ignores_priority_and_disruption_mode_without_their_gate() -> None:
    given = group("v1alpha2", priorityClassName="ghost", priority=5, disruptionMode="PodGroup")
    assert answer(given, semantics=ALPHA).stored == {"podGroupTemplateRef": None, **GANG}


def test_1_36_resolves_the_priority_with_the_gate() -> None:
    gated = ALPHA.with_gates(GangScheduling=True, WorkloadAwarePreemption=True)
    stored = answer(group("v1alpha2", priorityClassName="gold"), semantics=gated).stored
    resolved = {"disruptionMode": "Pod", "priorityClassName": "gold", "priority": 100}
    assert stored == {"podGroupTemplateRef": None, **GANG, **resolved}
    assert answer(group("v1alpha2", priorityClassName="ghost"), semantics=gated).code == 403
    assert fault(group("v1alpha2", disruptionMode="All"), semantics=gated) == (
        'spec.disruptionMode: Unsupported value: "All": supported values: "Pod", "PodGroup"'
    )
    old = group("v1alpha2", disruptionMode="Pod", priority=0)
    assert fault(group("v1alpha2", disruptionMode="PodGroup", priority=0), old, gated) == (
        "spec.disruptionMode: Invalid value: null: field is immutable"
    )


def test_1_36_never_changes_a_policy_or_a_template() -> None:
    changed: dict[str, Any] = {"schedulingPolicy": {"gang": {"minCount": 3}}}
    immutable = "Invalid value: null: field is immutable"
    assert fault(group("v1alpha2", **changed), group("v1alpha2"), ALPHA) == f"spec.schedulingPolicy: {immutable}"
    assert answer(group(**changed), group()).allowed
    old, new = workload({}, version="v1alpha2"), workload(changed, version="v1alpha2")
    assert fault(new, old, ALPHA) == f"spec.podGroupTemplates: {immutable}"
    assert fault(workload(version="v1alpha2"), semantics=ALPHA) == "spec.podGroupTemplates: Required value"


def test_1_36_checks_the_reference_to_a_template() -> None:
    assert fault(group("v1alpha2", podGroupTemplateRef={}), semantics=ALPHA) == (
        'spec.podGroupTemplateRef: Invalid value: "": must specify one of: `workload`'
    )
    reference = {"workload": {"workloadName": "w"}}
    assert fault(group("v1alpha2", podGroupTemplateRef=reference), semantics=ALPHA) == (
        "spec.podGroupTemplateRef.workload.podGroupTemplateName: Required value"
    )


def test_fields_of_a_gate_stay_in_an_object_that_has_them() -> None:
    constraints: dict[str, Any] = {"schedulingConstraints": {"topology": [{"key": "zone"}]}}
    assert "schedulingConstraints" not in (answer(group(**constraints)).stored or {})
    kept = answer(group(**constraints), group(**constraints)).stored
    assert (kept or {})["schedulingConstraints"] == constraints["schedulingConstraints"]
    changed = group(schedulingConstraints={"topology": []})
    assert fault(changed, group(**constraints)) == "spec.schedulingConstraints: Forbidden"
    old = group(preemptionPolicy="Never")
    assert fault(group(preemptionPolicy="PreemptLowerPriority"), old) == (
        "[spec.preemptionPolicy: Forbidden, spec.preemptionPolicy: Invalid value: null: field is immutable]"
    )


def test_templates_are_matched_by_name() -> None:
    first, second = {"name": "a"}, {"name": "b", "disruptionMode": {"all": {}}}
    assert answer(workload(second, first), workload(first, second)).allowed
    changed = workload({"name": "b"}, first)
    assert fault(changed, workload(first, second)) == (
        "spec.podGroupTemplates[0].disruptionMode: Invalid value: null: field is immutable"
    )


def test_a_quota_counts_groups() -> None:
    full = quota({"count/podgroups.scheduling.k8s.io": "1"}, {"count/podgroups.scheduling.k8s.io": "1"})
    rejected = dry_run(ReviewedObject(group()), cluster_of(full))
    assert rejected.message.startswith('podgroups.scheduling.k8s.io "g" is forbidden: exceeded quota: q')
    assert dry_run(ReviewedObject(workload({})), cluster_of(full)).code == 201


def test_a_group_of_the_cluster_exists() -> None:
    stored = group(priority=100, priorityClassName="gold", disruptionMode={"all": {}})
    cluster = cluster_of(stored)
    assert dry_run(ReviewedObject(group()), cluster).code == 409


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({}, "podGroupName: Invalid value: null: must specify one of: `podGroupName`"),
        ({"podGroupName": "A"}, 'podGroupName: Invalid value: "A": a lowercase RFC 1123 subdomain'),
    ],
)
def test_a_pod_names_its_group_properly(given: dict[str, Any], problem: str) -> None:
    grouped = pod(schedulingGroup=given)
    assert f"spec.schedulingGroup.{problem}" in fault(grouped)
    off = Semantics(37).with_gates(GenericWorkload=False)
    assert answer(grouped, semantics=off).code == 201  # kube-apiserver drops the field
    assert dry_run(ReviewedObject(grouped), cluster_of(), Options(minor=35)).code == 201


def test_a_pod_never_changes_its_group() -> None:
    grouped = pod(schedulingGroup={"podGroupName": "g"})
    assert answer(grouped, grouped).allowed
    assert "pod updates may not change fields" in fault(grouped, pod())


@pytest.mark.parametrize("kind", [POD_GROUP, GROUP_TEMPLATES])
@pytest.mark.parametrize("version", ["v1alpha2", "v1beta1"])
def test_the_fields_are_those_of_the_openapi(kind: str, version: str) -> None:
    api_version = f"scheduling.k8s.io/{version}"
    name = type_of({"apiVersion": api_version, "kind": BY_GROUP_KIND[kind].kind})
    known = group_versions()[api_version]
    spec = f"{name.removesuffix('Spec')}Spec"
    assert known.tags(kind).fields.keys() == fields_of(spec, known.minors[0]).known


@settings(max_examples=cases(150), deadline=None)
@given(
    st.sampled_from([group(), workload({}), group("v1alpha2"), workload({}, version="v1alpha2")]),
    st.dictionaries(
        st.sampled_from([
            "schedulingPolicy", "disruptionMode", "priority", "priorityClassName", "workloadRef", "resourceClaims",
            "podGroupTemplates", "compositePodGroupTemplates", "controllerRef", "schedulingConstraints",
        ]),
        json_values,
        max_size=3,
    ),
    st.booleans(),
)  # fmt: skip
def test_it_never_raises_for_what_a_group_holds(obj: dict[str, Any], spec: dict[str, Any], is_update: bool) -> None:
    changed = {**obj, "spec": {**obj["spec"], **spec}}
    for new, old in ((changed, obj), (obj, changed)):
        found = answer(new, old if is_update else None, WITH_POLICY)
        assert found.allowed == (found.code < 300) == (not found.message)
