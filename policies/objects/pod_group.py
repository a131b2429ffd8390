"""PodGroup and Workload of scheduling.k8s.io: pods that are scheduled, and maybe preempted, together.

Their effect on scheduling is not modelled: a view has what tells where it plays a part. Source: api
`scheduling/v1beta1/types.go`; what is read is the same in v1alpha3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from policies.class_paths import GROUPS
from policies.objects.fields import at, int32, text
from policies.objects.workload import class_names_of

if TYPE_CHECKING:
    from policies.objects.fields import ApiObject


class PodGroup(NamedTuple):
    """A group of pods. `preempted_together`: its disruptionMode is `all`."""

    namespace: str
    name: str
    priority: int
    preempted_together: bool
    class_names: tuple[str, ...]

    @classmethod
    def from_api(cls, obj: ApiObject) -> PodGroup:
        """Read an API object. Raises InvalidObject."""
        return cls(
            text(obj, "metadata", "namespace", default="default"),
            text(obj, "metadata", "name"),
            int32(obj, "spec", "priority") or 0,
            at(obj, "spec", "disruptionMode", "all") is not None,
            class_names_of(obj, GROUPS),
        )


class GroupTemplates(NamedTuple):
    """A Workload: templates of pod groups."""

    namespace: str
    name: str
    class_names: tuple[str, ...]

    @classmethod
    def from_api(cls, obj: ApiObject) -> GroupTemplates:
        """Read an API object. Raises InvalidObject."""
        namespace = text(obj, "metadata", "namespace", default="default")
        return cls(namespace, text(obj, "metadata", "name"), class_names_of(obj, GROUPS))
