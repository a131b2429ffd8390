"""PodGroup and Workload of scheduling.k8s.io: Pods that kube-scheduler schedules, and may preempt, together.

Source: api `scheduling/v1beta1/types.go`; v1alpha3 has the same fields.
"""

from __future__ import annotations

from typing import Final

from forewarn.policies.base.light import NamedTuple
from forewarn.policies.kubernetes.objects.fields import NOTHING, ApiObject, at, int32, items, mapping, text
from forewarn.policies.kubernetes.objects.priority_class import PREEMPT_LOWER_PRIORITY
from forewarn.policies.kubernetes.objects.workload import class_names_of

INITIALLY_SCHEDULED: Final = "PodGroupInitiallyScheduled"
"""The condition of a PodGroup that kube-scheduler writes; it never changes from True to another status."""
_OTHER_FEATURES: Final = (
    ("schedulingConstraints", "scheduling constraints"),
    ("resourceClaims", "resource claims"),
    ("parentCompositePodGroupName", "a parent CompositePodGroup"),
)
"""Fields of other feature gates; kube-apiserver drops them at creation if their gate is off."""


class PodGroup(NamedTuple):
    """A stored PodGroup. `preempted_together`: whether the disruptionMode is `all`. `min_count`: of the policy gang; 0
    for basic.

    `class_names`: its PriorityClasses. `other_features`: its fields that need other feature gates. `spec`: as stored.
    """

    namespace: str
    name: str
    priority: int
    preempted_together: bool
    class_names: tuple[str, ...]
    min_count: int = 0
    preemption_policy: str = PREEMPT_LOWER_PRIORITY
    other_features: tuple[str, ...] = ()
    uid: str = ""
    initially_scheduled: bool = False
    spec: ApiObject = NOTHING

    @classmethod
    def from_api(cls, obj: ApiObject) -> PodGroup:
        """Read an API object. Raises InvalidObject."""
        return cls(
            namespace=text(obj, "metadata", "namespace", default="default"),
            name=text(obj, "metadata", "name"),
            priority=int32(obj, "spec", "priority") or 0,
            preempted_together=_all_at_once(obj),
            class_names=class_names_of(obj),
            min_count=max(int32(obj, "spec", "schedulingPolicy", "gang", "minCount") or 0, 0),
            preemption_policy=text(obj, "spec", "preemptionPolicy") or PREEMPT_LOWER_PRIORITY,
            other_features=tuple(words for field, words in _OTHER_FEATURES if at(obj, "spec", field)),
            uid=text(obj, "metadata", "uid"),
            initially_scheduled=any(
                text(condition, "type") == INITIALLY_SCHEDULED and text(condition, "status") == "True"
                for condition in items(obj, "status", "conditions")
            ),
            spec=mapping(obj, "spec"),
        )

    def to_api(self) -> ApiObject:
        return _to_api("PodGroup", self.namespace, self.name, self.spec)

    @property
    def key(self) -> str:
        """The PodGroup as `namespace/name`."""
        return f"{self.namespace}/{self.name}"

    def missing(self, count: int) -> int:
        """Return the number of Pods that a gang of `count` Pods lacks for minCount; 0 for the policy basic.

        Without them, kube-scheduler does not queue the gang's Pods (`count`: all Pods), or holds them at Permit
        (`count`: scheduled Pods). Source: upstream GangScheduling, `PreEnqueue` and `Permit`.
        """
        return max(self.min_count - count, 0)

    @property
    def pods_to_schedule(self) -> int:
        """The minimum number of Pods that must fit at the same time. Source: upstream `getMinCount`."""
        return self.min_count or 1


def _to_api(kind: str, namespace: str, name: str, spec: ApiObject) -> ApiObject:
    metadata = {"namespace": namespace, "name": name}
    return {"apiVersion": "scheduling.k8s.io/v1beta1", "kind": kind, "metadata": metadata, "spec": spec}


def _all_at_once(obj: ApiObject) -> bool:
    mode = at(obj, "spec", "disruptionMode")
    if isinstance(mode, str):  # v1alpha2
        return mode == "PodGroup"
    return at(obj, "spec", "disruptionMode", "all") is not None


class GroupTemplates(NamedTuple):
    """A stored Workload of scheduling.k8s.io, which contains templates of PodGroups.

    `class_names`: PriorityClasses in these.
    """

    namespace: str
    name: str
    class_names: tuple[str, ...]
    spec: ApiObject = NOTHING

    @classmethod
    def from_api(cls, obj: ApiObject) -> GroupTemplates:
        """Read an API object. Raises InvalidObject."""
        namespace = text(obj, "metadata", "namespace", default="default")
        return cls(namespace, text(obj, "metadata", "name"), class_names_of(obj), mapping(obj, "spec"))

    def to_api(self) -> ApiObject:
        return _to_api("Workload", self.namespace, self.name, self.spec)
