"""Workloads: objects with a Pod template, their templates, and the fields of Jobs.

Source for Jobs: pkg/controller/job/job_controller.go, pkg/apis/batch/v1/defaults.go.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from forewarn.policies.base.light import NamedTuple, later
from forewarn.policies.kubernetes.kinds.class_paths import GROUPS, RELEASE_NAMESPACES, ClassPath, found_at
from forewarn.policies.kubernetes.kinds.registry import POD, POD_TEMPLATE_PATHS
from forewarn.policies.kubernetes.objects.fields import (
    NOTHING,
    OBJECT,
    InvalidObject,
    at,
    group_kind,
    int32,
    items,
    json_type,
    mapping,
    objects_at,
    ref_of,
    string_map,
    text,
)
from forewarn.policies.kubernetes.selectors import InvalidSelector, LabelSelector, Requirement, parse_label_selector

if TYPE_CHECKING:
    from forewarn.policies.base.findings import ObjectRef, Path
    from forewarn.policies.kubernetes.objects.fields import ApiObject


class PodTemplate(NamedTuple):
    """A Pod, or a Pod template, and its path in the object that contains it.

    `named`: the path of a PriorityClass name that stands alone, without a Pod template; `spec` then contains only the
    name. `namespace`: of the Pods, if it differs from that of the object. `is_guess`: the name is at a key that usually
    has a PriorityClass, in an object or text of an unknown kind. `used_by`: what uses the name, if it is a value of a
    chart: `the Deployment in templates/web.yaml`.
    """

    object: ApiObject
    path: Path
    is_template: bool
    named: Path = ()
    namespace: str = ""
    is_guess: bool = False
    used_by: str = ""

    @property
    def spec(self) -> ApiObject:
        """The Pod spec; empty if absent."""
        value = self.object.get("spec")
        return value if isinstance(value, OBJECT) else NOTHING

    def at(self, *path: str | int) -> Path:
        return self.named or (*self.path, "spec", *path)


def pod_template_of(obj: ApiObject, paths: Mapping[str, tuple[str, ...]]) -> PodTemplate | None:
    """Return the Pod template of a workload, or the Pod itself; None for other kinds, or if the template is absent.

    `paths`: `group/Kind` -> path of the template (`options.POD_TEMPLATE_PATHS` and configured ones). Raises
    InvalidObject if the template has a wrong type.
    """
    kind = group_kind(obj)
    if kind == POD:
        return PodTemplate(obj, (), is_template=False)
    path = paths.get(kind)
    if path is None:
        return None
    template: Any = at(obj, *path)
    if template is None:
        return None
    for value, where in ((template, path), (at(template, "spec"), (*path, "spec"))):
        if value is not None and not isinstance(value, OBJECT):
            raise InvalidObject(f"must be an object, not {json_type(value)}", where, ref_of(obj))
    return PodTemplate(template, path, is_template=True)


def is_fragment(obj: ApiObject, template: PodTemplate) -> bool:
    """Report whether an object lacks what kube-apiserver requires of a workload, so that it only changes another one:
    a patch of a kustomization that no file names.
    """
    if not template.is_template:
        return False
    lacks_selector = group_kind(obj).startswith("apps/") and at(obj, "spec", "selector") is None
    is_labelled = bool(at(template.object, "metadata", "labels")) and at(obj, "spec", "replicas") is not None
    return (lacks_selector and not is_labelled) or lacks_images(template)


def lacks_images(template: PodTemplate) -> bool:
    """Report whether no container of a template names an image."""
    return not any("image" in container for container in objects_at(template.spec, "containers"))


def parts_of(obj: ApiObject, paths: Mapping[str, tuple[ClassPath, ...]]) -> Iterator[PodTemplate]:
    """Yield the Pod templates in a custom resource; for a PriorityClass name alone, a template with only this name.

    `paths`: `group/Kind` -> paths of templates and names.
    """
    left, kind = _MAX, group_kind(obj)
    if kind not in paths:
        return
    release = at(obj, *RELEASE_NAMESPACES.get(kind, ("",)))
    namespace = release if isinstance(release, str) else ""
    for path in paths[kind]:
        for where, value in found_at(obj, path.steps):
            left -= 1
            if left < 0:
                return
            if path.is_name and isinstance(value, str) and value:
                spec = {"spec": {"priorityClassName": value}}
                yield PodTemplate(spec, where, is_template=True, named=where, namespace=namespace)
            elif not path.is_name and isinstance(value, dict) and isinstance(value.get("spec"), dict):
                yield PodTemplate(value, where, is_template=True)


def class_names_of(group: ApiObject) -> tuple[str, ...]:
    """Return the distinct PriorityClass names in a PodGroup or Workload of scheduling.k8s.io."""
    names = (part.spec.get("priorityClassName") for part in parts_of(group, GROUPS))
    return tuple(dict.fromkeys(name for name in names if isinstance(name, str) and name))


OF_QUANTITIES: Final = frozenset(("requests", "limits", "overhead", "divisor", "sizeLimit"))
"""The fields of Pods and claims with quantities."""


def contains(stored: Any, applied: Any, *, is_quantity: bool = False) -> bool:
    """Report whether a stored value contains all given fields; it may have additional ones (defaults).

    Different notations of a quantity are equal: `1000m` and `1`. `is_quantity`: whether the values are quantities.
    """
    if isinstance(applied, Mapping):
        return isinstance(stored or NOTHING, Mapping) and all(
            contains((stored or NOTHING).get(key), value, is_quantity=is_quantity or key in OF_QUANTITIES)
            for key, value in applied.items()
        )
    if isinstance(applied, list) and isinstance(stored, list):
        return len(applied) == len(stored) and all(map(contains, stored, applied))
    if stored == applied or (not stored and not applied):
        return True
    if not is_quantity:
        return False
    from forewarn.policies.kubernetes.quantity import InvalidQuantity, parse_quantity  # deferred: saves time

    try:
        return parse_quantity(stored) == parse_quantity(applied)
    except InvalidQuantity:
        return False


_MERGED_BY_NAME: Final = ("containers", "initContainers", "ephemeralContainers", "volumes", "env")
_RETAINS_KEYS: Final = ("strategy", "volumes")
"""Fields whose objects keep only the keys of the manifest. Source: `patchStrategy:"retainKeys"` in k8s.io/api."""


_OF_STORED_CLAIMS: Final = ("apiVersion", "kind", "status")
"""Fields of claim templates that kube-apiserver sets."""
LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
"""The annotation with the manifest of the previous `kubectl apply`."""
_MAX_ANNOTATION_LENGTH: Final = 256 * 1024
"""Maximum bytes of all annotations of an object. Source: apimachinery `TotalAnnotationSizeLimitB`."""


def last_applied(stored: ApiObject) -> ApiObject:
    """Return the manifest of the previous `kubectl apply`; empty if unknown. Raises InvalidObject if kubectl cannot
    read it. Source: kubectl `GetOriginalConfiguration`.
    """
    value = mapping(stored, "metadata", "annotations").get(LAST_APPLIED) or "{}"
    manifest = _parsed(value) if isinstance(value, str) and len(value) <= _MAX_ANNOTATION_LENGTH else None
    if not isinstance(manifest, dict):
        path, fix = ("metadata", "annotations", LAST_APPLIED), "kubectl apply edit-last-applied"
        raise InvalidObject("not a manifest in JSON", path, ref_of(stored), fix)
    return manifest


@lru_cache(maxsize=1)  # consecutive calls are often about the same object
def _parsed(value: str) -> Any:
    with suppress(ValueError, RecursionError):
        return json.loads(value)
    return None


def applied_to(stored: ApiObject, applied: ApiObject, before: ApiObject = NOTHING) -> ApiObject:
    """Return a stored workload after `kubectl apply` of a manifest.

    Fields and containers that only `stored` has stay, such as defaults and the replicas that an autoscaler has set.
    Those that the manifest of the previous apply has are removed: `last_applied`, or else `before`. If neither is
    known, as with Helm, only containers are. Fields that a snapshot lacks because it is redacted change only if the two
    manifests differ.
    Source: k8s.io/apimachinery/pkg/util/strategicpatch, `CreateThreeWayMergePatch`.
    """
    with suppress(InvalidObject):  # `not_admitted` reports it
        before = last_applied(stored) or before or _with_containers(stored, applied)
    containers = _index_by_name(at(stored, "spec", "template", "spec", "containers")) or {}
    is_redacted = bool(containers) and not any("image" in container for container in containers.values())
    result: ApiObject = _merged(stored, applied, before, "", is_redacted=is_redacted)
    return result


def _with_containers(stored: ApiObject, applied: ApiObject) -> ApiObject:
    """Return the names of the stored containers, for each kind of container that `applied` has."""
    path, result = (*POD_TEMPLATE_PATHS.get(group_kind(stored), ()), "spec"), dict[str, Any]()
    for field in ("containers", "initContainers"):
        if at(applied, *path, field):
            result[field] = [{"name": name} for name in _index_by_name(at(stored, *path, field)) or ()]
    for key in reversed(path if result else ()):
        result = {key: result}
    return result


def _merged(stored: Any, applied: Any, before: Any, name: str, *, is_redacted: bool) -> Any:
    """Return the value of the field `name` after an apply."""
    if isinstance(stored, Mapping) and isinstance(applied, Mapping):
        old = before if isinstance(before, Mapping) else NOTHING
        return _merged_fields(stored, applied, old, name, is_redacted=is_redacted)
    if (
        name in _MERGED_BY_NAME
        and (one := _index_by_name(stored)) is not None
        and (other := _index_by_name(applied)) is not None
    ):
        old = _index_by_name(before) or NOTHING
        kept = {key: value for key, value in one.items() if key in other or key not in old}
        each = name if name in _RETAINS_KEYS else ""
        return [
            _merged(one.get(key), value, old.get(key), each, is_redacted=is_redacted)
            for key, value in {**kept, **other}.items()  # the order of the stored list
        ]
    is_same = stored is not None and contains(stored, applied, is_quantity=name in OF_QUANTITIES)
    return stored if is_same and not (name == "volumeClaimTemplates" and _lacks(applied, stored)) else applied


def _merged_fields(stored: ApiObject, applied: ApiObject, old: ApiObject, name: str, *, is_redacted: bool) -> ApiObject:
    from forewarn.policies.kubernetes.objects.redaction import is_omitted  # deferred: saves time

    def is_hidden(key: str) -> bool:
        return is_redacted and key not in stored and is_omitted(name, key)

    new = {
        key: value
        for key, value in applied.items()
        if value is not None and not (is_hidden(key) and old.get(key) == value)
    }
    stays = name not in _RETAINS_KEYS
    kept = {key: value for key, value in stored.items() if key in new or (stays and key not in old)}
    for key, value in new.items():
        part = name if name in OF_QUANTITIES else key
        kept[key] = _merged(stored.get(key), value, old.get(key), part, is_redacted=is_redacted)
    return kept


def _lacks(applied: Any, stored: Any) -> bool:
    """Report whether claims lack stored fields without a default, such as storageClassName: an apply removes these."""
    if isinstance(stored, Mapping):
        kept = applied if isinstance(applied, Mapping) else NOTHING
        return any(_lacks(kept.get(key), value) for key, value in stored.items() if key not in _OF_STORED_CLAIMS)
    if isinstance(stored, list) and isinstance(applied, list):
        return any(map(_lacks, applied, stored))
    return bool(stored) and not applied and stored != "Filesystem"  # the default of volumeMode


def _index_by_name(value: Any) -> dict[str, Any] | None:
    """Return name -> element of a list; None unless each element has a unique name."""
    if not isinstance(value, list) or not all(isinstance(item, Mapping) for item in value):
        return None
    found = {item["name"]: item for item in value if isinstance(item.get("name"), str)}
    return found if len(found) == len(value) else None


_MAX: Final = 10_000
"""Maximum number of parts of one object that are read."""
_COUNTS: Final = ("observedGeneration", "replicas", "currentNumberScheduled", "active")
_OF_A_JOB: Final = (*_COUNTS, "startTime", "completionTime", "succeeded", "failed", "completedIndexes")
_OF_OTHERS: Final = (*_COUNTS, "lastScheduleTime")
_OF_JOBS: Final = ("Complete", "Failed", "SuccessCriteriaMet", "FailureTarget", "Suspended")
"""Conditions of Jobs that are read."""
REPLICA_FAILURE: Final = "ReplicaFailure"
"""The condition of Deployments and ReplicaSets whose Pods kube-apiserver rejects."""
_OF_CONDITIONS: Final = ("type", "status", "message", "lastTransitionTime")
"""Fields of conditions that are read; of Jobs, the first two."""


class Workload(NamedTuple):
    """A stored workload without managedFields, to save memory, and of the status only with Pod counts, conditions of
    Jobs, the condition ReplicaFailure, and the last schedule of CronJobs.

    `controller`: (`group/Kind`, name) of the workload that created it; ("", "") without one.
    """

    ref: ObjectRef
    object: ApiObject
    controller: tuple[str, str] = ("", "")

    @classmethod
    def from_api(cls, obj: ApiObject) -> Workload:
        """Read the API object of a workload. Raises InvalidObject."""
        from forewarn.policies.kubernetes.objects.pod import Owner, once  # deferred: saves time

        owner = Owner.from_api(obj)
        status = _retained_status(obj)
        kept = {key: value for key, value in obj.items() if key != "status"} | ({"status": status} if status else {})
        return cls(ref_of(obj, "default"), _bounded(kept), (once(owner.group_kind), owner.name) if owner else ("", ""))


def _bounded(obj: dict[str, Any]) -> ApiObject:
    """Return the limited object without managedFields. The annotation of kubectl apply, which repeats the object, does
    not count.
    """
    from forewarn.policies.kubernetes.objects.extent import TooLargeToRetain, bounded  # deferred: saves time

    metadata: Any = obj.get("metadata")
    applied = at(obj, "metadata", "annotations", LAST_APPLIED)
    if isinstance(metadata, Mapping):
        obj["metadata"] = {key: value for key, value in metadata.items() if key != "managedFields"}
    if not isinstance(applied, str):
        return bounded(obj)
    annotations = {key: value for key, value in metadata["annotations"].items() if key != LAST_APPLIED}
    kept = bounded(obj | {"metadata": obj["metadata"] | {"annotations": annotations}})
    with suppress(TooLargeToRetain):
        annotations = kept["metadata"]["annotations"] | {LAST_APPLIED: applied[: _MAX_ANNOTATION_LENGTH + 1]}
        return kept | {"metadata": kept["metadata"] | {"annotations": annotations}}
    return kept


def _retained_status(obj: ApiObject) -> dict[str, Any]:
    status = obj.get("status")
    if not isinstance(status, Mapping):
        return {}
    is_job = obj.get("kind") == "Job"
    wanted = _OF_JOBS if is_job else (REPLICA_FAILURE,)
    true = [
        {key: condition[key] for key in _OF_CONDITIONS[: 2 if is_job else None] if key in condition}
        for condition in objects_at(status, "conditions")
        if condition.get("status") == "True" and condition.get("type") in wanted
    ]
    kept = {key: status[key] for key in (_OF_A_JOB if is_job else _OF_OTHERS) if key in status}
    return kept | ({"conditions": true[: len(wanted)]} if true else {})


def replica_failure(obj: ApiObject) -> ApiObject | None:
    """Return the condition ReplicaFailure, if it is true. Raises InvalidObject."""
    failing = (REPLICA_FAILURE, "True")
    return next(
        (each for each in items(obj, "status", "conditions") if (each.get("type"), each.get("status")) == failing), None
    )


IGNORE_DISRUPTIONS: Final = "ignore DisruptionTarget in the first podFailurePolicy rule"
"""A fix for Jobs that fail because of preempted or evicted Pods."""
NO_EVICTION: Final = (("maxUnavailable", "0"), ("maxUnavailable", "0%"), ("minAvailable", "100%"))
"""Fields of a PodDisruptionBudget, as texts, with which no Pod can be evicted."""
_PERCENTAGE: Final = later(r"[0-9]{1,3}%", re.ASCII)
_DEFAULT_BACKOFF_LIMIT: Final = 6
DEFAULT_DEADLINE: Final = 600
"""The default of progressDeadlineSeconds. Source: `SetDefaults_Deployment`."""
_MAX_INT32: Final = 2**31 - 1
_JOB_CONTROLLER: Final = "kubernetes.io/job-controller"
_SIGNALLED: Final = (143, 137)
"""Exit codes of containers after SIGTERM and SIGKILL."""


def evictable_from(least: object) -> int | None:
    """Return the least number of replicas of which `minAvailable`, a percentage rounded up, permits one eviction; None
    if there is none.
    """
    if isinstance(least, int) and not isinstance(least, bool):
        return least + 1
    share = int(least[:-1]) if isinstance(least, str) and _PERCENTAGE.fullmatch(least) else 100
    return -(-100 // (100 - share)) if share < 100 else None


def disruption_action(job: ApiObject) -> str | None:
    """Return the action of the first podFailurePolicy rule that a disrupted Pod can match; None without one.

    Assumes that SIGTERM or SIGKILL ends the containers.
    """
    for rule in items(job, "spec", "podFailurePolicy", "rules"):
        codes, operator = at(rule, "onExitCodes", "values"), text(rule, "onExitCodes", "operator")
        listed = [code in codes for code in _SIGNALLED] if isinstance(codes, list) else []
        if matches_disruption(rule) or (any(listed) if operator == "In" else listed and not all(listed)):
            return text(rule, "action")
    return None


def matches_disruption(rule: ApiObject) -> bool:
    """Report whether a podFailurePolicy rule matches the condition DisruptionTarget. Source: `matchOnPodConditions`."""
    return any(
        at(pattern, "type") == "DisruptionTarget" and text(pattern, "status", default="True") == "True"
        for pattern in items(rule, "onPodConditions")
    )


def is_managed_elsewhere(job: ApiObject) -> bool:
    """Report whether another controller creates the Pods of a Job. Source: `managedByExternalController`."""
    return text(job, "spec", "managedBy", default=_JOB_CONTROLLER) != _JOB_CONTROLLER


def backoff_limit(job: ApiObject) -> int:
    """Return how many Pod failures a Job tolerates. Raises InvalidObject. Source: `SetDefaults_Job`."""
    limit = int32(job, "spec", "backoffLimit")
    if limit is not None:
        return limit
    return _DEFAULT_BACKOFF_LIMIT if int32(job, "spec", "backoffLimitPerIndex") is None else _MAX_INT32


def wanted_active(job: ApiObject, succeeded: int, active: int) -> int:
    """Return the number of Pods that a Job should run now. Source: `manageJob`. Raises InvalidObject.

    `succeeded`: number of succeeded Pods. `active`: number of active Pods.
    """
    given, completions = int32(job, "spec", "parallelism"), int32(job, "spec", "completions")
    parallelism = 1 if given is None else max(given, 0)
    if completions is None and given is None:
        completions = 1
    if completions is None:
        return active if succeeded else parallelism
    return max(min(completions - succeeded, parallelism), 0)


def fails_with_one_pod(job: ApiObject) -> bool:
    """Report whether the eviction of one Pod fails a Job that had no failures. Raises InvalidObject."""
    action = disruption_action(job)
    if action in ("FailJob", "Ignore"):
        return action == "FailJob"
    return backoff_limit(job) == 0


def selector_of(obj: ApiObject) -> LabelSelector:
    """Return the Pod selector of a workload. Raises InvalidObject."""
    if group_kind(obj) == "/ReplicationController":
        labels = string_map(obj, "spec", "selector")
        return LabelSelector(tuple(Requirement(key, "In", frozenset([value])) for key, value in labels.items()))
    try:
        return parse_label_selector(at(obj, "spec", "selector")) or LabelSelector()
    except InvalidSelector as error:
        raise InvalidObject(str(error), ("spec", "selector"), ref_of(obj)) from None
