"""The rules about PodGroups, beyond their examples."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from forewarn.policies.base.findings import Finding
from forewarn.policies.kubernetes.cluster.cache import Cache, ClusterSnapshot
from forewarn.policies.kubernetes.objects.reviewed_object import ChangeSet, Operation, ReviewedObject
from forewarn.policies.kubernetes.options import Options
from forewarn.policies.kubernetes.releases.semantics import Semantics
from forewarn.policies.linting.config.model import Config
from forewarn.policies.linting.evaluation.evaluator import EvaluationRequest, Phase, audit, audit_request, evaluate
from tests.policies.kube_apiserver.test_dry_run import pod, priority_class
from tests.policies.kube_apiserver.test_pod_groups import group, workload

NOW = datetime(2026, 1, 1, tzinfo=UTC)
GOLD, SILVER = priority_class("gold", 100), priority_class("silver", 10)


def job(parallelism: int = 2, kind: str = "Job", **spec: Any) -> dict[str, Any]:
    template = {"spec": {"schedulingGroup": {"podGroupName": "g"}, "containers": [{"name": "c", "image": "x"}], **spec}}
    job: dict[str, Any] = {"parallelism": parallelism, "template": template}
    header = {"apiVersion": "batch/v1", "kind": kind, "metadata": {"name": "j", "namespace": "team"}}
    return {**header, "spec": job if kind == "Job" else {"jobTemplate": {"spec": job}}}


def cluster_of(*objects: dict[str, Any], **gates: bool) -> ClusterSnapshot:
    cache = Cache(semantics=Semantics(37).with_gates(**gates))
    for obj in objects:
        cache.add(obj)
    return cache.snapshot()


def found(
    *objects: dict[str, Any], cluster: ClusterSnapshot | None = None, options: Options | None = None, old: Any = None
) -> list[Finding]:
    operation = Operation.CREATE if old is None else Operation.UPDATE
    subjects = tuple(ReviewedObject(obj, operation, old) for obj in objects)
    config = Config(options=options or Options())
    findings = evaluate(EvaluationRequest(ChangeSet(subjects), cluster, config, Phase.LINT, NOW))
    return [f for f in findings if f.rule.startswith(("pod-group", "group-priority", "unknown-"))]


def rules(*objects: dict[str, Any], **given: Any) -> list[str]:
    return [finding.rule for finding in found(*objects, **given)]


MISMATCH = ["pod-group-priority-mismatch"]


def test_a_member_needs_the_priority_of_its_group() -> None:
    assert rules(GOLD, SILVER, group(priorityClassName="gold"), job(priorityClassName="silver")) == MISMATCH
    assert rules(GOLD, SILVER, group(priorityClassName="gold"), job(priorityClassName="gold")) == []
    assert (
        rules(GOLD, priority_class("brass", 100), group(priorityClassName="gold"), job(priorityClassName="brass")) == []
    )
    basic = group(priorityClassName="gold", schedulingPolicy={"basic": {}})
    assert rules(GOLD, basic, pod(schedulingGroup={"podGroupName": "g"})) == MISMATCH
    assert rules(GOLD, basic, pod(schedulingGroup={"podGroupName": "h"})) == []
    (mismatch,) = found(GOLD, group(priorityClassName="gold"), job())
    assert mismatch.text.problem == 'priority 0 differs from PodGroup "g" (100); its Pods will not be scheduled'
    assert mismatch.remediation == 'use priorityClassName "gold"'
    assert "feature gate GenericWorkload" in mismatch.message


def test_a_default_counts_if_it_is_known() -> None:
    default = priority_class("std", 100, globalDefault=True)
    assert rules(GOLD, default, group(priorityClassName="gold"), job()) == []
    assert rules(group(), job()) == []  # both get the same, whatever it is
    assert rules(group(), job(priorityClassName="gold"), options=Options(known_classes=("gold",))) == []


def test_a_stored_group_counts() -> None:
    stored = group(priorityClassName="gold", priority=100)
    assert rules(job(), cluster=cluster_of(GOLD, stored)) == MISMATCH
    assert rules(job(), cluster=cluster_of(GOLD, stored, GenericWorkload=False)) == []
    # The class was created again with another value.
    assert rules(job(priorityClassName="gold"), cluster=cluster_of(priority_class("gold", 5), stored)) == MISMATCH


def test_1_36_does_not_compare_priorities() -> None:
    assert rules(GOLD, group("v1alpha2", priorityClassName="gold"), job()) == []
    assert rules(GOLD, group("v1alpha3", priorityClassName="gold"), job()) == MISMATCH


def test_a_gang_needs_its_pods() -> None:
    gang = group(schedulingPolicy={"gang": {"minCount": 5}})
    assert rules(gang, job(4)) == ["pod-group-too-small"]
    assert rules(gang, job(5)) == []
    assert rules(gang, job(2), {**job(3), "metadata": {"name": "k", "namespace": "team"}}) == []
    assert rules(gang, job(2), {**job(3), "metadata": {"name": "k", "namespace": "other"}}) == ["pod-group-too-small"]
    assert rules(gang, job(4, kind="CronJob")) == ["pod-group-too-small"]
    assert rules(gang) == []  # its Pods come from elsewhere
    members = [pod(f"p{i}", schedulingGroup={"podGroupName": "g"}) for i in range(4)]
    assert rules(gang, *members) == ["pod-group-too-small"]
    assert rules(gang, members[0], cluster=cluster_of(*members)) == ["pod-group-too-small"]
    assert rules(gang, pod("p4", schedulingGroup={"podGroupName": "g"}), cluster=cluster_of(*members)) == []
    assert rules(group(schedulingPolicy={"basic": {}}), job(1)) == []


def test_stored_pods_of_the_input_count_once() -> None:
    gang = group(schedulingPolicy={"gang": {"minCount": 5}})
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "1", "controller": True}
    stored = [pod(f"j-{i}", schedulingGroup={"podGroupName": "g"}) for i in range(4)]
    bare = pod("bare", schedulingGroup={"podGroupName": "g"})
    for each in stored:
        each["metadata"]["ownerReferences"] = [owner]
    assert rules(gang, job(4), cluster=cluster_of(*stored)) == ["pod-group-too-small"]
    assert rules(gang, bare, cluster=cluster_of(*stored[1:], bare)) == ["pod-group-too-small"]
    assert rules(gang, job(4), cluster=cluster_of(*stored, bare)) == []


def test_gates_count_without_a_cluster() -> None:
    never = priority_class("quiet", 5, preemptionPolicy="Never")
    quiet = group(priorityClassName="quiet")
    assert rules(never, quiet) == []
    assert rules(never, quiet, options=Options(gates=(("PodGroupPreemptionPolicy", True),))) == ["pod-group-invalid"]
    gang = group(schedulingPolicy={"gang": {"minCount": 5}})
    assert rules(gang, job(4), options=Options(gates=(("GenericWorkload", False),))) == []


def test_members_that_cannot_be_counted_are_no_problem() -> None:
    gang = group(schedulingPolicy={"gang": {"minCount": 5}})
    template = job()["spec"]["template"]
    daemons = {"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "d", "namespace": "team"}}
    assert rules(gang, job(1), {**daemons, "spec": {"template": template}}) == []
    jobs = {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": {"name": "s", "namespace": "team"}}
    replicated = [{"template": {"spec": {"template": template}}}]
    assert rules(gang, {**jobs, "spec": {"replicatedJobs": replicated}}) == []
    suspended = job(1)
    suspended["spec"]["suspend"] = True
    assert rules(gang, suspended) == []


def test_a_missing_group_is_a_note_if_all_groups_are_known() -> None:
    closed = Options(closed=True)
    assert rules(job()) == []
    assert rules(job(), options=closed) == ["pod-group-missing"]
    assert rules(job(), group(), options=closed) == []
    assert rules(job(), cluster=cluster_of()) == ["pod-group-missing"]
    assert rules(job(), cluster=cluster_of(group())) == []
    assert rules(job(), cluster=cluster_of(GenericWorkload=False)) == []
    unlisted = Cache()
    unlisted.listed = set()
    assert rules(job(), cluster=unlisted.snapshot()) == []


@pytest.mark.parametrize(
    ("obj", "message"),
    [
        (group(schedulingPolicy={}), 'spec.schedulingPolicy: Invalid value: "": must specify one of: `basic`, `gang`'),
        (
            group(priority="high"),
            "spec.priority: cannot unmarshal string into Go struct field PodGroupSpec.spec.priority",
        ),
        (workload({"priority": 1}, {}), "spec: Invalid value: null: detected multiple priority configurations"),
        (group("v1alpha2", schedulingPolicy={"gang": {}}), "spec.schedulingPolicy.gang.minCount: Required value"),
        (job(schedulingGroup={}), "spec.template.spec.schedulingGroup.podGroupName: Invalid value: null"),
        (pod(schedulingGroup={"podGroupName": ""}), 'spec.schedulingGroup.podGroupName: Invalid value: ""'),
    ],
)
def test_what_kube_apiserver_rejects_is_an_error(obj: dict[str, Any], message: str) -> None:
    (finding,) = found(obj)
    assert (finding.rule, finding.message.startswith(message)) == ("pod-group-invalid", True)


def test_a_priority_must_be_that_of_the_class() -> None:
    (finding,) = found(GOLD, group(priorityClassName="gold", priority=5))
    assert finding.message.startswith("spec.priority: priority set in the pod group (5) must match the priority")
    assert rules(GOLD, group(priorityClassName="gold", priority=100)) == []
    assert rules(group(priority=100)) == []  # the default is not known


def test_a_system_class_and_a_missing_class_are_reported_once() -> None:
    assert rules(group(priorityClassName="system-node-critical")) == ["group-priority-too-high"]
    assert rules(GOLD, group(priorityClassName="golf")) == ["unknown-priority-class"]
    assert rules(GOLD, workload({"priorityClassName": "golf"})) == ["unknown-priority-class"]
    assert rules(group(priorityClassName="gold", priority=10**9 + 1)) == ["pod-group-invalid"]


def test_an_update_of_an_immutable_field_is_an_error() -> None:
    changed = group(disruptionMode={"all": {}})
    (finding,) = found(changed, old=group())
    assert finding.message == "spec.disruptionMode: Invalid value: null: field is immutable"
    assert finding.remediation == "restore the field, or delete the object and create it again"
    assert rules(group(schedulingPolicy={"gang": {"minCount": 9}}), old=group()) == []


def test_templates_of_composite_groups_are_not_checked() -> None:
    assert rules(workload(podGroupTemplates=[], compositePodGroupTemplates=[{"name": "c"}])) == []


def test_a_class_that_only_groups_use_is_used() -> None:
    cluster = cluster_of(GOLD, SILVER, group(priorityClassName="gold", priority=100))
    findings = audit(audit_request(cluster, Config(), NOW))
    assert [f.object.name for f in findings if f.rule == "unused-priority-class"] == ["silver"]


def test_an_audit_checks_stored_groups() -> None:
    cluster = cluster_of(workload({"priorityClassName": "ghost"}), group(priorityClassName="ghost", priority=5))
    findings = audit(audit_request(cluster, Config(), NOW))
    unknown = {f.object.kind for f in findings if f.rule == "unknown-priority-class"}
    assert unknown == {"PodGroup", "Workload"}
