"""PodGroup and Workload of scheduling.k8s.io: Pods that kube-scheduler schedules, and may preempt, together.

Source: api `scheduling/v1beta1/types.go`; v1alpha3 has the same fields.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from forewarn.policies.kubernetes.objects.fields import ApiObject, at, int32, items, mapping, text
from forewarn.policies.kubernetes.objects.priority_class import PREEMPT_LOWER_PRIORITY
from forewarn.policies.kubernetes.objects.view import NAME, NAMESPACE, Namespaced, View, by, text_or_default
from forewarn.policies.kubernetes.objects.workload import class_names_of

INITIALLY_SCHEDULED: Final = "PodGroupInitiallyScheduled"
"""The condition of a PodGroup that kube-scheduler writes; it never changes from True to another status."""
_OTHER_FEATURES: Final = (
    ("schedulingConstraints", "scheduling constraints"),
    ("resourceClaims", "resource claims"),
    ("parentCompositePodGroupName", "a parent CompositePodGroup"),
)
"""Fields of other feature gates; kube-apiserver drops them at creation if their gate is off."""


def _to_api(kind: str, namespace: str, name: str, spec: ApiObject) -> ApiObject:
    metadata = {"namespace": namespace, "name": name}
    return {"apiVersion": "scheduling.k8s.io/v1beta1", "kind": kind, "metadata": metadata, "spec": spec}


def _all_at_once(obj: ApiObject) -> bool:
    mode = at(obj, "spec", "disruptionMode")
    if isinstance(mode, str):  # v1alpha2
        return mode == "PodGroup"
    return at(obj, "spec", "disruptionMode", "all") is not None


def _min_count(obj: ApiObject) -> int:
    return max(int32(obj, "spec", "schedulingPolicy", "gang", "minCount") or 0, 0)


def _other_features(obj: ApiObject) -> tuple[str, ...]:
    return tuple(words for name, words in _OTHER_FEATURES if at(obj, "spec", name))


def _is_initially_scheduled(obj: ApiObject) -> bool:
    return any(
        text(condition, "type") == INITIALLY_SCHEDULED and text(condition, "status") == "True"
        for condition in items(obj, "status", "conditions")
    )


_PREEMPTION_POLICY: Final = by(text_or_default, "spec", "preemptionPolicy", default=PREEMPT_LOWER_PRIORITY)


@dataclass(frozen=True, slots=True)
class PodGroup(Namespaced, View):
    """A stored PodGroup. `preempted_together`: whether the disruptionMode is `all`. `min_count`: of the policy gang; 0
    for basic.

    `class_names`: its PriorityClasses. `other_features`: its fields that need other feature gates. `spec`: as stored.
    """

    namespace: str = field(metadata=NAMESPACE)
    name: str = field(metadata=NAME)
    priority: int = field(metadata=by(lambda obj: int32(obj, "spec", "priority") or 0))
    preempted_together: bool = field(metadata=by(_all_at_once))
    class_names: tuple[str, ...] = field(metadata=by(class_names_of))
    min_count: int = field(default=0, metadata=by(_min_count))
    preemption_policy: str = field(default=PREEMPT_LOWER_PRIORITY, metadata=_PREEMPTION_POLICY)
    other_features: tuple[str, ...] = field(default=(), metadata=by(_other_features))
    uid: str = field(default="", metadata=by(text, "metadata", "uid"))
    initially_scheduled: bool = field(default=False, metadata=by(_is_initially_scheduled))
    spec: ApiObject = field(default_factory=dict, metadata=by(mapping, "spec"))

    def to_api(self) -> ApiObject:
        return _to_api("PodGroup", self.namespace, self.name, self.spec)

    def missing(self, count: int) -> int:
        """Return how many more Pods a gang of `count` Pods needs to reach minCount; 0 for the policy basic.

        PreEnqueue passes the number of all Pods: if more are needed, the gang is not queued. Permit passes the number
        of scheduled Pods: if more are needed, it holds these. Source: upstream GangScheduling, `PreEnqueue` and
        `Permit`.
        """
        return max(self.min_count - count, 0)

    @property
    def pods_to_schedule(self) -> int:
        """The minimum number of Pods that must fit at the same time. Source: upstream `getMinCount`."""
        return self.min_count or 1


@dataclass(frozen=True, slots=True)
class GroupTemplates(View):
    """A stored Workload of scheduling.k8s.io, which contains templates of PodGroups.

    `class_names`: the PriorityClasses in the templates.
    """

    namespace: str = field(metadata=NAMESPACE)
    name: str = field(metadata=NAME)
    class_names: tuple[str, ...] = field(metadata=by(class_names_of))
    spec: ApiObject = field(default_factory=dict, metadata=by(mapping, "spec"))

    def to_api(self) -> ApiObject:
        return _to_api("Workload", self.namespace, self.name, self.spec)
