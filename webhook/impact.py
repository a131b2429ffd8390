"""The annotation forewarn.dev/preemption-impact: what a new object does to running pods, for programs.

Written on CREATE, and on UPDATE where new pods come or others than before; a no-op apply changes nothing. What anybody
else writes there does not stay: see `kept`.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Mapping
from hashlib import sha256
from threading import Lock
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from policies.config import Annotate
from policies.evaluator import impact_of
from policies.objects.fields import NOTHING, at
from policies.objects.subject import Operation

if TYPE_CHECKING:
    from collections.abc import Callable

    from policies.cluster import ClusterSnapshot
    from policies.config import Config
    from policies.objects.fields import ApiObject
    from policies.objects.subject import Subject
    from policies.rules.impact import Impact

ANNOTATION: Final = "forewarn.dev/preemption-impact"
PATH: Final = ("metadata", "annotations", ANNOTATION)
AUDIT_KEY: Final = "preemption-impact"
RULES: Final = frozenset({"preempts-running-pods", "fits-nowhere", "rollout-preempts-itself"})
"""Whose findings carry the impact as their detail."""
_REMEMBERED: Final = 512


def takes_long(cluster: ClusterSnapshot | None, kind: str, config: Config) -> bool:
    """Whether an object of this `group/Kind` is predicted, which takes milliseconds: not a thing for the event loop."""
    predicted = kind == "/Pod" or kind in config.options.pod_template_paths or kind == "autoscaling/Scale"
    return predicted and cluster is not None and bool(cluster.objects.nodes)


def outcome_of(impact: Impact) -> str:
    """What a prediction came to, for metrics."""
    if impact.cut_short:
        return "cut-short"
    return "preempts" if impact.preempting else "pending" if impact.pending else "nobody goes"


def wanted(subject: Subject, config: Config) -> bool:
    """Whether objects of this kind are annotated at all."""
    if subject.operation not in (Operation.CREATE, Operation.UPDATE):
        return False
    kind = "pods" if subject.object.get("kind") == "Pod" else "workloads"
    return config.annotate in (Annotate.ALL, kind)


def kept(subject: Subject, config: Config) -> str:
    """What an object may carry where nothing is worked out; empty: nothing. Only `/mutate` writes the annotation.

    A new object has none, whatever it was sent with. A stored one keeps what it has; where its kind is not annotated,
    that may be taken away.
    """
    if subject.operation is not Operation.UPDATE:
        return ""
    before = at(subject.old or NOTHING, *PATH)
    taken_away = not wanted(subject, config) and at(subject.object, *PATH) is None
    return before if isinstance(before, str) and not taken_away else ""


def text_of(impact: Mapping[str, object], late: bool = False) -> str:
    """Compact JSON; the keys in one order, so that the same impact gives the same bytes. `late`: by an old cache."""
    told = {**impact, "late": True} if late else impact
    return json.dumps(told, separators=(",", ":"), sort_keys=True)


def annotation(
    subject: Subject, cluster: ClusterSnapshot, config: Config, expired: Callable[[], bool], late: bool = False
) -> str | None:
    """The annotation's text: empty where all fits, None where nothing new comes. `late`: the cache is old."""
    impact = impact_of(subject, cluster, config, expired)
    if impact is None:
        return None
    return text_of(impact.to_dict(), late) if impact.preempting or impact.pending or impact.rest else ""


class _Written(NamedTuple):
    text: str
    until: float


class Memory:
    """What was written on an object a moment ago; it stays when that comes back, though the cluster has moved on.

    The API server calls again in the same admission where an in-tree plugin changes what the webhooks left: Priority
    does, when it reads the numbers of a class that was assigned (apiserver mutating/dispatcher.go, Dispatch). What else
    a later webhook changed makes it another object, which is predicted anew.

    Each call has a uid of its own, and pods of one controller are alike to the byte: that an object comes back is known
    only by the annotation that it carries. One without it is new. Safe to use from any thread.
    """

    def __init__(self, clock: Callable[[], float], seconds: float = 30.0) -> None:
        self._clock, self._seconds = clock, seconds
        self._written: OrderedDict[str, _Written] = OrderedDict()
        self._lock = Lock()

    def recall(self, subject: Subject, work_out: Callable[[], str | None]) -> str | None:
        """The text for this object: what it carries if that was written a moment ago, else what is worked out."""
        carried = at(subject.object, *PATH)
        if carried and self._recently(subject) == carried:
            return str(carried)
        text = work_out()
        if text:
            with self._lock:
                self._written[_fingerprint(subject)] = _Written(text, self._clock() + self._seconds)
                while len(self._written) > _REMEMBERED:
                    self._written.popitem(last=False)
        return text

    def _recently(self, subject: Subject) -> str | None:
        with self._lock:
            written = self._written.get(_fingerprint(subject))
        return written.text if written and written.until > self._clock() else None


def _fingerprint(subject: Subject) -> str:
    """What tells objects apart, but for our own annotation and what the API server adds between two calls."""
    obj = subject.object
    metadata = _without(at(obj, "metadata"), "managedFields")
    annotations = _without(metadata.pop("annotations", None), ANNOTATION)
    told = {
        "operation": subject.operation,
        "ref": subject.ref,
        "object": {**obj, "metadata": metadata, "spec": _settled(obj)},
        "annotations": annotations,
        "old": at(subject.old or {}, "metadata", "resourceVersion"),
    }
    return sha256(json.dumps(told, sort_keys=True, default=str).encode()).hexdigest()


def _settled(obj: ApiObject) -> Any:
    spec = at(obj, "spec")
    return _without(spec, "priority", "preemptionPolicy") if obj.get("kind") == "Pod" else spec


def _without(value: Any, *keys: str) -> dict[str, Any]:
    return {key: item for key, item in value.items() if key not in keys} if isinstance(value, Mapping) else {}
