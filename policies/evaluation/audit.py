"""Audit a cluster with every rule: each object as an update without changes, then the cluster as a whole."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

from forewarn.policies.disclosure import Disclose
from forewarn.policies.evaluation.evaluator import EvaluationRequest, Phase, evaluate
from forewarn.policies.metering import MAX_WORK, never
from forewarn.policies.objects.reviewed_object import ChangeSet, Operation, ReviewedObject
from forewarn.policies.rules import RULES
from forewarn.policies.rules.support.context import ALL_SCHEDULED, Target

if TYPE_CHECKING:
    from datetime import datetime

    from forewarn.policies.cluster.cache import ClusterSnapshot
    from forewarn.policies.config import Config
    from forewarn.policies.findings import Finding
    from forewarn.policies.objects.fields import ApiObject
    from forewarn.policies.objects.namespace import Namespace
    from forewarn.policies.rules.support.restarts import Simulations

_OF_ARRIVALS: Final = frozenset(
    rule.ID
    for rule in RULES
    if Target.CLUSTER not in rule.TARGETS and (rule.DEPENDS_ON.stored == ALL_SCHEDULED or rule.ID == "quota-exceeded")
)
"""Rules about new objects and their scheduling, which do not apply to stored objects."""


def stored_objects(cluster: ClusterSnapshot) -> Iterator[ReviewedObject]:
    """Yield the stored objects of a cluster as updates without changes.

    PriorityClasses, Namespaces, ResourceQuotas, PodGroups and top-level workloads. Pods are not included: their
    templates are, and rules about the whole cluster check Pods.
    """
    for _, priority_class in sorted(cluster.priority_classes.items()):
        yield _unchanged(priority_class.to_api())
    for _, namespace in sorted(cluster.namespaces.items()):
        yield _unchanged(_as_object(namespace))
    for _, quota in sorted(cluster.resource_quotas.items()):
        yield _unchanged(quota.to_api())
    for _, group in sorted(cluster.objects.pod_groups.items()):
        yield _unchanged(group.to_api())
    for _, templates in sorted(cluster.objects.group_templates.items()):
        yield _unchanged(templates.to_api())
    for _, workload in sorted(cluster.workloads.items()):
        if not any(workload.controller):
            yield _unchanged(workload.object)


def audit(
    cluster: ClusterSnapshot,
    subjects: tuple[ReviewedObject, ...],
    config: Config,
    *,
    now: datetime,
    expired: Callable[[], bool] = never,
    max_work: int = MAX_WORK,
    disclose: Disclose = Disclose.NAMES,
    simulations: Simulations | None = None,
) -> list[Finding]:
    """Return the findings of a cluster, the most severe first.

    `subjects`: the result of `stored_objects`. `expired`, `max_work`, `disclose`, `simulations`: as in
    `EvaluationRequest`.
    """
    enabled = config._replace(disabled_rules=config.disabled_rules | _OF_ARRIVALS)
    findings = evaluate(
        EvaluationRequest(
            ChangeSet(subjects),
            cluster,
            enabled,
            phase=Phase.LINT,
            now=now,
            expired=expired,
            with_cluster_rules=True,
            max_work=max_work,
            disclose=disclose,
            simulations=simulations,
        )
    )
    return _worst_first(findings)


def unsuppressed(
    findings: list[Finding], subjects: Sequence[ReviewedObject], config: Config, now: datetime
) -> tuple[list[Finding], int]:
    """Return (the findings that nothing suppresses, the most severe first; the number of the others)."""
    from forewarn.policies.evaluation.suppressions import of_annotations, of_configuration, suppress

    suppressions = [*of_annotations(subjects), *of_configuration(config.options.ignored)]
    if not suppressions:
        return findings, 0
    left, suppressed = suppress(findings, suppressions, config.linter_severity, now.date(), with_cluster=True)
    return _worst_first(left), suppressed


def _worst_first(findings: list[Finding]) -> list[Finding]:
    return sorted(findings, key=lambda f: (f.severity, f.rule, f.object, f.message, f.path))


def _unchanged(obj: ApiObject) -> ReviewedObject:
    return ReviewedObject(obj, Operation.UPDATE, old=obj)


def _as_object(namespace: Namespace) -> ApiObject:
    metadata = {"name": namespace.name, "labels": namespace.labels, "annotations": namespace.annotations}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}
