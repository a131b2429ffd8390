"""Pod, as far as rules and the scheduler read it."""

from __future__ import annotations

from dataclasses import dataclass
from sys import intern
from typing import TYPE_CHECKING, NamedTuple

from policies.objects.fields import int32, sequence, text, timestamp

if TYPE_CHECKING:
    from policies.objects.fields import ApiObject


class Owner(NamedTuple):
    """The controller of an object (`metadata.ownerReferences` with controller: true)."""

    kind: str
    name: str
    uid: str

    @classmethod
    def from_api(cls, obj: ApiObject) -> Owner | None:
        """The controller of this object, None where it has none. Source: apimachinery `GetControllerOf`."""
        for reference in sequence(obj, "metadata", "ownerReferences"):
            if isinstance(reference, dict) and reference.get("controller"):
                kind, name, uid = (intern(text(reference, key)) for key in ("kind", "name", "uid"))
                return cls(kind, name, uid)
        return None


@dataclass(frozen=True, slots=True)
class Pod:
    """A pod in a cluster. `priority` None: never resolved (it counts as 0)."""

    namespace: str
    name: str
    uid: str = ""
    phase: str = ""
    node_name: str = ""
    priority: int | None = None
    priority_class_name: str = ""
    preemption_policy: str = ""
    start_time: int | None = None
    owner: Owner | None = None

    @classmethod
    def from_api(cls, obj: ApiObject) -> Pod:
        """Read an API object. Raises InvalidObject."""
        return cls(
            namespace=intern(text(obj, "metadata", "namespace", default="default")),
            name=text(obj, "metadata", "name"),
            uid=text(obj, "metadata", "uid"),
            phase=intern(text(obj, "status", "phase")),
            node_name=intern(text(obj, "spec", "nodeName")),
            priority=int32(obj, "spec", "priority"),
            priority_class_name=intern(text(obj, "spec", "priorityClassName")),
            preemption_policy=intern(text(obj, "spec", "preemptionPolicy")),
            start_time=timestamp(obj, "status", "startTime"),
            owner=Owner.from_api(obj),
        )

    def to_api(self) -> ApiObject:
        """The fields of its priority as an API object: what an update is compared with."""
        spec: dict[str, object] = {"priorityClassName": self.priority_class_name, "priority": self.priority}
        if self.preemption_policy:
            spec["preemptionPolicy"] = self.preemption_policy
        metadata = {"name": self.name, "namespace": self.namespace}
        return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}

    @property
    def terminal(self) -> bool:
        """Whether it has run to its end: it holds no resources and the scheduler does not see it."""
        return self.phase in ("Succeeded", "Failed")
