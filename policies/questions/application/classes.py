"""PriorityClasses: which may preempt which, and the steps of a change."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from forewarn.policies.base.documents import Inlined, inlined_in_json
from forewarn.policies.kubernetes.cluster.cache import ClusterSnapshot, Result, head_of
from forewarn.policies.kubernetes.kinds.registry import PRIORITY_CLASS
from forewarn.policies.kubernetes.objects.fields import group_kind
from forewarn.policies.kubernetes.objects.priority_class import PriorityClass
from forewarn.policies.prediction.simulation.scenario import not_simulated, world_of
from forewarn.policies.questions.application.class_plan_answer import document_of
from forewarn.policies.questions.application.cluster import Cluster, Progress, snapshot_of
from forewarn.policies.questions.application.manifests import Manifest, applied, manifests_of
from forewarn.policies.questions.application.places import Places
from forewarn.policies.questions.whatif import MAX_UNTIL
from forewarn.policies.questions.whatif.class_plan import Plan, plan, wanted
from forewarn.policies.questions.whatif.comparison import placeholders_of
from forewarn.policies.questions.whatif.priority_levels import Classes, priority_levels

if TYPE_CHECKING:
    from collections.abc import Sequence

    from forewarn.policies.base.documents.answer import AnswerDocument


def classes(cluster: Cluster | ClusterSnapshot) -> Classes:
    """Return each PriorityClass, the requests of its Pods, and the number of Pods that a new Pod may preempt."""
    return priority_levels(snapshot_of(cluster))


@dataclass(frozen=True, slots=True)
class ClassPlanRequest:
    """A change of PriorityClasses: manifests of PriorityClasses and workloads, and names of classes to delete."""

    files: Sequence[Manifest] = ()
    delete: Sequence[str] = ()
    namespace: str = "default"


@dataclass(frozen=True, repr=False)
class ClassPlan(Result):
    """The steps of a change of PriorityClasses, each simulated after the previous one."""

    plan: Inlined[Plan]

    @inlined_in_json
    def document(self) -> AnswerDocument:
        return document_of(self.plan)


def plan_classes(cluster: Cluster, request: ClassPlanRequest, *, progress: Progress | None = None) -> ClassPlan:
    """Order a change of PriorityClasses into steps, and simulate each. Raises SourceError and InvalidObject."""
    places, cache = Places(), cluster.cache
    with places.locating():
        objects = [arrival.object for arrival in applied(manifests_of(request.files), request.namespace, places)]
        new = [PriorityClass.from_api(obj) for obj in objects if group_kind(obj) == PRIORITY_CLASS]
        others = [obj for obj in objects if group_kind(obj) != PRIORITY_CLASS]
        change = wanted(cluster.snapshot, new, others, request.delete)
        steps = plan(cluster.snapshot, world_of(cache, (), until=MAX_UNTIL), change, progress)
    placeholders = placeholders_of(steps.answer, cluster.snapshot.pods.values(), cluster.config.options)
    steps = steps._replace(
        answer=steps.answer._replace(placeholders=placeholders),
        not_modelled=[*steps.not_modelled, *not_simulated(cache)],
    )
    return ClassPlan(head_of(cluster.snapshot, steps.answer.after.summary.assumes), steps)
