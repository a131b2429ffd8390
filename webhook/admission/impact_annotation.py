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

import orjson

from policies.config import Annotate
from policies.disclosure import OPEN, Audience
from policies.kinds import POD
from policies.metering import never
from policies.objects.fields import NOTHING, at
from policies.objects.reviewed_object import Operation
from policies.rules import RULES
from policies.rules.support.context import ALL_SCHEDULED
from webhook.admission.lanes import Cost

if TYPE_CHECKING:
    from collections.abc import Callable

    from policies.cluster import ClusterSnapshot
    from policies.config import Config
    from policies.objects.fields import ApiObject
    from policies.objects.reviewed_object import ReviewedObject
    from policies.rules.support.impact import Impact
    from webhook.admission.review import AdmissionRequest

ANNOTATION: Final = "forewarn.dev/preemption-impact"
PATH: Final = ("metadata", "annotations", ANNOTATION)
AUDIT_KEY: Final = "preemption-impact"
PREDICTING: Final = frozenset(rule.ID for rule in RULES if rule.DEPENDS_ON.stored == ALL_SCHEDULED)
"""Whose findings carry the impact as their detail."""
_ADDED: Final = ("managedFields", "uid", "creationTimestamp", "generation")
"""What the API server writes into a new object between /mutate and /validate (rest.BeforeCreate)."""
_REMEMBERED: Final = 512
_CHARACTERS: Final = 8 * 1024 * 1024
"""Of all annotations that are remembered."""
_IMPACTS: Final = 64
_PREDICTIONS: Final = 4_096
"""In all impacts that are kept, some 2 kB each: a DaemonSet alone can bring thousands."""
_SMALL: Final = 32 * 1024
"""Bytes of the review of a pod that is expected to be cheap."""


def cost_of(request: AdmissionRequest, cluster: ClusterSnapshot | None, config: Config, size: int) -> Cost:
    """What a request is expected to cost. `size`: bytes of its body."""
    kind = request.kind.group_kind
    predicted = kind == POD or kind in config.options.pod_template_paths or kind == "autoscaling/Scale"
    if not predicted or cluster is None or not cluster.objects.nodes:
        return Cost.RULES
    return Cost.POD if kind == POD and size <= _SMALL and not _looks_at_others(request.object) else Cost.PODS


def _looks_at_others(pod: ApiObject) -> bool:
    spec = pod.get("spec")
    return isinstance(spec, dict) and bool(spec.get("affinity") or spec.get("topologySpreadConstraints"))


class Impacts:
    """Impacts worked out for the cluster state of the moment: /validate asks what /mutate has asked already."""

    def __init__(self) -> None:
        self._of: tuple[ClusterSnapshot | None, OrderedDict[str, Impact | None]] = (None, OrderedDict())

    def of(
        self,
        subject: ReviewedObject,
        cluster: ClusterSnapshot,
        work_out: Callable[[], Impact | None],
        /,
        time_is_up: Callable[[], bool] = never,
    ) -> Impact | None:
        """The impact of an object on a state; worked out if it is not known.

        One that was cut short is not kept, nor is any if its time was up before it was complete.
        """
        state, known = self._of
        if state is not cluster:
            known = OrderedDict()
            self._of = cluster, known
        fingerprint = _fingerprint(subject, alike=True)
        if fingerprint in known:
            return known[fingerprint]
        impact = work_out()
        if not time_is_up() and (impact is None or not impact.is_cut_short):
            known[fingerprint] = impact
            while len(known) > _IMPACTS or sum(map(_weight, known.values())) > _PREDICTIONS:
                known.popitem(last=False)
        return impact


def _weight(impact: Impact | None) -> int:
    return len(impact.predictions) if impact else 0


def outcome_of(impact: Impact) -> str:
    """Outcome of a prediction, for metrics."""
    if impact.rest == "unknown":
        return "incomplete"
    if impact.why_not:
        return "not-predicted"
    return "preempts" if impact.preempting else "pending" if impact.pending else "no-preemption"


def wanted(subject: ReviewedObject, config: Config) -> bool:
    """Whether objects of this kind are annotated at all."""
    if subject.operation not in (Operation.CREATE, Operation.UPDATE):
        return False
    kind = "pods" if subject.object.get("kind") == "Pod" else "workloads"
    return config.annotate in (Annotate.ALL, kind)


def kept(subject: ReviewedObject, config: Config) -> str:
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
    told = {**impact, "staleCache": True} if late else impact
    return json.dumps(told, separators=(",", ":"), sort_keys=True)


def annotation(impact: Impact | None, late: bool = False, audience: Audience = OPEN) -> str | None:
    """The annotation's text: empty where all fits, None where nothing new comes. `late`: the cache is old.

    Whoever may read the object reads it: `audience` is somebody of the object's namespace, whoever asked.
    """
    if impact is None:
        return None
    if audience.shown.not_predicted:
        return text_of(impact.to_dict(audience))  # the same whatever would happen
    return text_of(impact.to_dict(audience), late) if impact.preempting or impact.pending or impact.rest else ""


class Written(NamedTuple):
    """What is written on an object."""

    fingerprint: str
    text: str


def written(subject: ReviewedObject, text: str) -> Written:
    """This text on this object."""
    return Written(_fingerprint(subject), text)


class _Written(NamedTuple):
    text: str
    until: float


class ReinvocationCache:
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
        self._characters = 0
        self._lock = Lock()

    def recall(self, subject: ReviewedObject, work_out: Callable[[], str | None]) -> str | None:
        """The text for this object: what it carries if that was written a moment ago, else what is worked out."""
        return self.recent(subject) or work_out()

    def recent(self, subject: ReviewedObject) -> str | None:
        """What the object carries, if that was written a moment ago."""
        carried = at(subject.object, *PATH)
        return str(carried) if carried and self._recently(subject) == carried else None

    def note(self, written: Written) -> None:
        """This is written now."""
        with self._lock:
            before = self._written.pop(written.fingerprint, None)
            self._written[written.fingerprint] = _Written(written.text, self._clock() + self._seconds)
            self._characters += len(written.text) - (len(before.text) if before else 0)
            while len(self._written) > _REMEMBERED or self._characters > _CHARACTERS:
                self._characters -= len(self._written.popitem(last=False)[1].text)

    def _recently(self, subject: ReviewedObject) -> str | None:
        with self._lock:
            written = self._written.get(_fingerprint(subject))
        return written.text if written and written.until > self._clock() else None


def _fingerprint(subject: ReviewedObject, *, alike: bool = False) -> str:
    """What tells objects apart, but for our own annotation and what the API server adds between two calls.

    `alike`: pods whose names the API server makes are one where their names are all that differs; between /mutate and
    /validate they get them.
    """
    obj, ref = subject.object, subject.ref
    metadata = _without(at(obj, "metadata"), *_ADDED)
    if alike and metadata.get("generateName") and _is_nameless(subject):
        metadata.pop("name", None)
        ref = ref._replace(name="")
    annotations = _without(metadata.pop("annotations", None), ANNOTATION)
    told = {
        "operation": subject.operation,
        "ref": ref,
        "object": {**obj, "metadata": metadata, "spec": _settled(obj), "status": _status(subject)},
        "annotations": annotations,
        "old": at(subject.old or {}, "metadata", "resourceVersion"),
    }
    return sha256(_dumps(told)).hexdigest()


def _dumps(value: object) -> bytes:
    try:
        return orjson.dumps(value, option=orjson.OPT_SORT_KEYS | orjson.OPT_NON_STR_KEYS, default=str)
    except TypeError:
        return json.dumps(value, sort_keys=True, default=str).encode()  # lone surrogates, numbers beyond 64 bits


def _settled(obj: ApiObject) -> Any:
    spec = at(obj, "spec")
    return _without(spec, "priority", "preemptionPolicy") if obj.get("kind") == "Pod" else spec


def _without(value: Any, *keys: str) -> dict[str, Any]:
    return {key: item for key, item in value.items() if key not in keys} if isinstance(value, Mapping) else {}


def _is_nameless(subject: ReviewedObject) -> bool:
    """Whether nothing depends on the name of a new pod; the claims of ephemeral volumes are found by it."""
    volumes = at(subject.object, "spec", "volumes")
    ephemeral = any(at(volume, "ephemeral") is not None for volume in volumes) if isinstance(volumes, list) else True
    is_new = subject.operation is Operation.CREATE and subject.object.get("kind") == "Pod"
    return is_new and not (volumes and ephemeral)


def _status(subject: ReviewedObject) -> object:
    """The status, less what the API server gives every new pod. Source: pkg/registry/core/pod, `PrepareForCreate`."""
    status = at(subject.object, "status")
    if subject.operation is not Operation.CREATE or not isinstance(status, dict):
        return status or None
    left = _without(status, "qosClass")
    return {key: value for key, value in left.items() if (key, value) != ("phase", "Pending")} or None
