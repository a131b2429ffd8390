"""The annotation forewarn.dev/preemption-impact: what a new object does to running pods, for programs.

Written on CREATE, and on UPDATE where new pods come or others than before; a no-op apply changes nothing.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from hashlib import sha256
from threading import Lock
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from policies.config import Annotate
from policies.evaluator import impact_of
from policies.objects.fields import at
from policies.objects.subject import Operation

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

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


def text_of(impact: Mapping[str, object]) -> str:
    """Compact JSON; the keys in one order, so that the same impact gives the same bytes."""
    return json.dumps(impact, separators=(",", ":"), sort_keys=True)


def annotation(subject: Subject, cluster: ClusterSnapshot, config: Config, expired: Callable[[], bool]) -> str | None:
    """The annotation's text: empty where all fits, None where nothing new comes."""
    impact = impact_of(subject, cluster, config, expired)
    if impact is None:
        return None
    return text_of(impact.to_dict()) if impact.preempting or impact.pending or impact.rest else ""


class _Known(NamedTuple):
    text: str | None
    until: float


class Memory:
    """What was written on an object a moment ago: the API server calls again with the same object (reinvocation), and
    must get the same bytes though the cluster has moved on. Safe to use from any thread."""

    def __init__(self, clock: Callable[[], float], seconds: float = 30.0) -> None:
        self._clock, self._seconds = clock, seconds
        self._known: OrderedDict[str, _Known] = OrderedDict()
        self._lock = Lock()

    def recall(self, subject: Subject, work_out: Callable[[], str | None]) -> str | None:
        """The text for this object: as before, if it was asked for within the last seconds, else worked out."""
        key, now = _fingerprint(subject), self._clock()
        with self._lock:
            known = self._known.get(key)
        if known is not None and known.until > now:
            return known.text
        text = work_out()
        with self._lock:
            self._known[key] = _Known(text, now + self._seconds)
            while len(self._known) > _REMEMBERED:
                self._known.popitem(last=False)
        return text


def _fingerprint(subject: Subject) -> str:
    """What tells objects apart, but for our own annotation and what the API server adds between two calls."""
    spec: dict[str, Any] = {
        "operation": subject.operation,
        "ref": subject.ref,
        "generateName": at(subject.object, "metadata", "generateName"),
        "spec": _settled(subject.object),
        "old": at(subject.old or {}, "metadata", "resourceVersion"),
    }
    return sha256(json.dumps(spec, sort_keys=True, default=str).encode()).hexdigest()


def _settled(obj: ApiObject) -> Any:
    spec = at(obj, "spec")
    if obj.get("kind") != "Pod" or not isinstance(spec, dict):
        return spec
    return {key: value for key, value in spec.items() if key not in ("priority", "preemptionPolicy")}
