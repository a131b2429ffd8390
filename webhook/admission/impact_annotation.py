"""The annotation forewarn.dev/preemption-impact: the effect of a new object on running Pods, for programs.

`/mutate` writes the annotation on CREATE, and on UPDATE if the object gets new or different Pods; an update without
changes leaves the annotation. `/mutate` removes values from other writers: see `retained`.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Callable, Mapping
from hashlib import sha256
from threading import Lock
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from forewarn.policies.base.disclosure import OPEN, Audience
from forewarn.policies.base.findings import INCOMPLETE
from forewarn.policies.base.metering import never
from forewarn.policies.kubernetes.kinds.registry import POD
from forewarn.policies.kubernetes.objects.fields import NOTHING, ApiObject, at
from forewarn.policies.kubernetes.objects.reviewed_object import Operation, ReviewedObject
from forewarn.policies.linting.config.model import Annotate, Config
from forewarn.policies.linting.rules import RULES
from forewarn.policies.linting.rules.support.context import ALL_SCHEDULED
from forewarn.webhook.accuracy import FITS, Outcome
from forewarn.webhook.admission.lanes import Cost
from forewarn.webhook.admission.review import AdmissionRequest, dumps

if TYPE_CHECKING:
    from forewarn.policies.kubernetes.cluster.cache import ClusterSnapshot
    from forewarn.policies.prediction.forecast.impact import Impact

ANNOTATION: Final = "forewarn.dev/preemption-impact"
PATH: Final = ("metadata", "annotations", ANNOTATION)
AUDIT_KEY: Final = "preemption-impact"
PREDICTING: Final = frozenset(rule.ID for rule in RULES if rule.DEPENDS_ON.stored == ALL_SCHEDULED)
"""Ids of the rules about predictions."""
ABOUT_PREDICTIONS: Final = PREDICTING | {INCOMPLETE}
"""Ids of the findings that have the impact as their detail."""
ADDED: Final = frozenset({"managedFields", "uid", "creationTimestamp", "generation"})
"""Metadata that the API server sets between /mutate and /validate (rest.BeforeCreate), and that no rule reads."""
_REMEMBERED: Final = 512
_CHARACTERS: Final = 8 * 1024 * 1024
"""Maximum characters of all cached annotations."""
_IMPACTS: Final = 64
_PREDICTIONS: Final = 4_096
"""Maximum number of predictions in all cached impacts (2 kB each): one DaemonSet can have thousands."""
_SMALL: Final = 32 * 1024
"""Maximum bytes of an AdmissionReview whose Pod is expected to be cheap to evaluate."""


def cost_of(request: AdmissionRequest, cluster: ClusterSnapshot | None, config: Config, size: int) -> Cost:
    """Return the expected cost class of evaluating a request. `size`: bytes of the request body."""
    kind = request.kind.group_kind
    predicted = kind == POD or kind in config.options.pod_template_paths or kind == "autoscaling/Scale"
    if not predicted or cluster is None or not cluster.objects.nodes:
        return Cost.RULES
    return Cost.POD if kind == POD and size <= _SMALL and not _depends_on_other_pods(request.object) else Cost.PODS


def _depends_on_other_pods(pod: ApiObject) -> bool:
    spec = pod.get("spec")
    return isinstance(spec, dict) and bool(spec.get("affinity") or spec.get("topologySpreadConstraints"))


class Impacts:
    """A cache of impacts for the current cluster state: /validate needs the impact that /mutate has computed."""

    def __init__(self) -> None:
        self._of: tuple[ClusterSnapshot | None, OrderedDict[str, Impact | None]] = (None, OrderedDict())

    def impact_of(
        self,
        subject: ReviewedObject,
        cluster: ClusterSnapshot,
        work_out: Callable[[], Impact | None],
        /,
        time_is_up: Callable[[], bool] = never,
        is_last: bool = False,
    ) -> Impact | None:
        """Return the impact of an object on a cluster state, from the cache or from `work_out`.

        Incomplete impacts are not cached. `is_last`: whether no later call needs this impact.
        """
        state, cache = self._of
        if state is not cluster:
            cache = OrderedDict()
            self._of = cluster, cache
        if is_last and not cache:
            return work_out()
        fingerprint = _fingerprint(subject, alike=True)
        if fingerprint in cache:
            return cache[fingerprint]
        impact = work_out()
        if not (is_last or time_is_up()) and (impact is None or not impact.is_cut_short):
            cache[fingerprint] = impact
            while len(cache) > _IMPACTS or sum(len(each.predictions) for each in cache.values() if each) > _PREDICTIONS:
                cache.popitem(last=False)
        return impact


def outcome_of(impact: Impact) -> Outcome:
    """Return the outcome of a prediction as a label of metrics."""
    if impact.rest == "unknown":
        return Outcome.INCOMPLETE
    if impact.why_not:
        return Outcome.NOT_PREDICTED
    if impact.group is not None:
        return Outcome.NO_PREEMPTION if impact.group.outcome == FITS else Outcome(impact.group.outcome)
    return Outcome.PREEMPTS if impact.preempting else Outcome.PENDING if impact.pending else Outcome.NO_PREEMPTION


def wanted(subject: ReviewedObject, config: Config) -> bool:
    """Report whether forewarn annotates objects of this kind."""
    if subject.operation not in (Operation.CREATE, Operation.UPDATE):
        return False
    return config.annotate in (Annotate.ALL, "pods" if subject.object.get("kind") == "Pod" else "workloads")


def retained(subject: ReviewedObject, config: Config) -> str:
    """Return the annotation that an object may retain without a new prediction; "" for none.

    A new object retains none, because only `/mutate` may write the annotation. A stored object retains the
    annotation; if forewarn no longer annotates this kind, users may remove the annotation.
    """
    if subject.operation is not Operation.UPDATE:
        return ""
    before = at(subject.old or NOTHING, *PATH)
    taken_away = not wanted(subject, config) and at(subject.object, *PATH) is None
    return before if isinstance(before, str) and not taken_away else ""


def text_of(impact: Mapping[str, object], is_stale: bool = False) -> str:
    """Return an impact as JSON; equal impacts give equal bytes. `is_stale`: whether the cache is stale."""
    return json.dumps({**impact, "staleCache": True} if is_stale else impact, separators=(",", ":"), sort_keys=True)


def annotation(impact: Impact | None, is_stale: bool = False, audience: Audience = OPEN) -> str | None:
    """Return the text of the annotation: "" if all Pods fit, None without new Pods. `is_stale`: whether the cache is
    stale.

    All users with read access to the object can read the annotation, so `audience` is the object's namespace, not the
    requester.
    """
    if impact is None:
        return None
    if audience.shown.not_predicted:
        return text_of(impact.to_dict(audience))  # the same for every prediction
    has_effect = impact.preempting or impact.pending or impact.rest or impact.rejected
    return text_of(impact.to_dict(audience), is_stale) if has_effect else ""


class Written(NamedTuple):
    """An annotation that `/mutate` writes, with the fingerprint of its object."""

    fingerprint: str
    text: str


def written(subject: ReviewedObject, text: str) -> Written:
    return Written(_fingerprint(subject), text)


class _Written(NamedTuple):
    text: str
    until: float


class ReinvocationCache:
    """A cache of recent annotations: an object that `/mutate` gets again within seconds gets the same annotation.

    The API server calls `/mutate` again in the same admission if an in-tree plugin changes the object after the
    webhooks: Priority does so for an assigned class (apiserver mutating/dispatcher.go, Dispatch). If a later webhook
    changes other fields, the object counts as new.

    Each call has its own uid, and Pods of one controller may be equal, so only the annotation identifies a returning
    object. Thread-safe.
    """

    def __init__(self, clock: Callable[[], float], seconds: float = 30.0) -> None:
        self._clock, self._seconds = clock, seconds
        self._written: OrderedDict[str, _Written] = OrderedDict()
        self._characters = 0
        self._lock = Lock()

    def recall(self, subject: ReviewedObject, work_out: Callable[[], str | None]) -> str | None:
        """Return the object's annotation if forewarn has written it recently; otherwise the result of `work_out`."""
        return self.recent(subject) or work_out()

    def recent(self, subject: ReviewedObject) -> str | None:
        """Return the object's annotation if forewarn has written it recently; otherwise None."""
        if not (carried := at(subject.object, *PATH)):
            return None
        with self._lock:
            written = self._written.get(_fingerprint(subject))
        return written.text if written and written.until > self._clock() and written.text == carried else None

    def note(self, written: Written) -> None:
        """Record a written annotation, and remove the oldest records above the limit."""
        with self._lock:
            before = self._written.pop(written.fingerprint, None)
            self._written[written.fingerprint] = _Written(written.text, self._clock() + self._seconds)
            self._characters += len(written.text) - (len(before.text) if before else 0)
            while len(self._written) > _REMEMBERED or self._characters > _CHARACTERS:
                self._characters -= len(self._written.popitem(last=False)[1].text)


def _fingerprint(subject: ReviewedObject, *, alike: bool = False) -> str:
    """Return a digest of the object without forewarn's annotation, and without fields that the API server sets between
    two calls, for example `uid`.

    `alike`: whether to omit a generated name as well, which a Pod gets between /mutate and /validate.
    """
    obj, ref = subject.object, subject.ref
    metadata = _without(at(obj, "metadata"), *ADDED)
    if alike and metadata.get("generateName") and _is_nameless(subject):
        metadata.pop("name", None)
        ref = ref._replace(name="")
    annotations = _without(metadata.pop("annotations", None), ANNOTATION)
    fields = {
        "operation": subject.operation,
        "ref": ref,
        "object": {**obj, "metadata": metadata, "spec": _settled(obj), "status": _status(subject)},
        "annotations": annotations,
        "old": at(subject.old or {}, "metadata", "resourceVersion"),
    }
    return sha256(dumps(fields, str, sort_keys=True)).hexdigest()


def _settled(obj: ApiObject) -> Any:
    spec = at(obj, "spec")
    return _without(spec, "priority", "preemptionPolicy") if obj.get("kind") == "Pod" else spec


def _without(value: Any, *keys: str) -> dict[str, Any]:
    return {key: item for key, item in value.items() if key not in keys} if isinstance(value, Mapping) else {}


def _is_nameless(subject: ReviewedObject) -> bool:
    """Report whether a new Pod's impact does not depend on its name. The names of ephemeral claims contain it."""
    volumes = at(subject.object, "spec", "volumes")
    ephemeral = any(at(volume, "ephemeral") is not None for volume in volumes) if isinstance(volumes, list) else True
    is_new = subject.operation is Operation.CREATE and subject.object.get("kind") == "Pod"
    return is_new and not (volumes and ephemeral)


def _status(subject: ReviewedObject) -> object:
    """Return the status without fields that every new Pod has; None if empty. Source: `PrepareForCreate`."""
    status = at(subject.object, "status")
    if subject.operation is not Operation.CREATE or not isinstance(status, dict):
        return status or None
    left = _without(status, "qosClass")
    return {key: value for key, value in left.items() if (key, value) != ("phase", "Pending")} or None
