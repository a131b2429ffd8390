"""ResourceQuotas: scopes, their use by the Pods of a change set, object by object, and the Pods that exceed one."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from operator import itemgetter
from typing import TYPE_CHECKING, NamedTuple

from forewarn.policies.base.metering import CutShort, TooLarge
from forewarn.policies.inputs.manifests.deploy_order import is_hook
from forewarn.policies.kubernetes.cluster.admission import with_limit_range_defaults
from forewarn.policies.kubernetes.controllers.changes import Arrivals, arrivals, present
from forewarn.policies.kubernetes.controllers.job import is_finished
from forewarn.policies.kubernetes.controllers.own_pods import creates_pods_later
from forewarn.policies.kubernetes.kinds.registry import JOB, PRIORITY_CLASS, RESOURCE_QUOTA, ROLLOUT
from forewarn.policies.kubernetes.kube_apiserver.priority import Forbidden, Resolved, establish_priority, resolved_spec
from forewarn.policies.kubernetes.kube_apiserver.quota import (
    FaultKind,
    InvalidScope,
    Pods,
    check_request,
    first_rejected,
    given_back,
    matches_scope,
    uncovered,
)
from forewarn.policies.kubernetes.kube_apiserver.validation.decode import (
    POD_STRUCT,
    RESOURCE_QUOTA_STRUCT,
    decode_fault,
)
from forewarn.policies.kubernetes.objects.extent import check_extent, check_quota_extent, check_quotas
from forewarn.policies.kubernetes.objects.fields import (
    NOTHING,
    ApiObject,
    InvalidObject,
    at,
    group_kind,
    mapping_at,
    sequence,
)
from forewarn.policies.kubernetes.objects.pod import Owner
from forewarn.policies.kubernetes.objects.resource_quota import ResourceQuota
from forewarn.policies.kubernetes.objects.reviewed_object import Operation, ReviewedObject
from forewarn.policies.kubernetes.objects.workload import PodTemplate, is_fragment, pod_template_of
from forewarn.policies.kubernetes.quantity import ZERO, Quantity
from forewarn.policies.kubernetes.releases.semantics import Semantics
from forewarn.policies.linting.rules.support.context import Context, Phase
from forewarn.policies.linting.rules.support.rule_text import class_to_be

if TYPE_CHECKING:
    from forewarn.policies.base.findings import Path
    from forewarn.policies.kubernetes.kube_apiserver.quota import Fault
    from forewarn.policies.kubernetes.objects.resources import ResourceList
    from forewarn.policies.kubernetes.options import LimitedResource, ScopeSelector


def read_quota(subject: ReviewedObject) -> ResourceQuota:
    """Return the subject as a ResourceQuota. Raises InvalidObject if the API server could not decode the new or the
    stored quota.

    Rules call `Context.quota_of`, which parses each subject once.
    """
    check_quota_extent(subject.object.get("spec"))
    for obj in (subject.object, _readable(subject.old)):
        fault = decode_fault(obj, RESOURCE_QUOTA_STRUCT) if obj else None
        if fault is not None:
            raise InvalidObject(fault.text, fault.path, subject.ref)
    return ResourceQuota.from_api(subject.object)


def _readable(stored: ApiObject | None) -> ApiObject | None:
    """Return the stored quota; None if too large to evaluate, so that users can still make the quota smaller."""
    try:
        check_quota_extent((stored or {}).get("spec"))
    except TooLarge:
        return None
    return stored


def placed_selectors(quota: ResourceQuota, subject: ReviewedObject) -> Iterator[tuple[ScopeSelector, Path]]:
    """Yield the scopes of a quota, each with its path in the object."""
    scopes = len(sequence(subject.object, "spec", "scopes"))
    for index, selector in enumerate(quota.scope_selectors):
        if index < scopes:
            yield selector, ("spec", "scopes", index)
        else:
            yield selector, ("spec", "scopeSelector", "matchExpressions", index - scopes)


def is_readable(selector: ScopeSelector) -> bool:
    """Report whether the scope is valid for the API server."""
    with suppress(InvalidScope):
        matches_scope(selector, {"spec": {"priorityClassName": "x"}})
        return True
    return False


def matches(selector: ScopeSelector, class_name: str) -> bool:
    """True if a PriorityClass scope selects Pods with a class ("" for no class); an invalid scope selects none."""
    with suppress(InvalidScope):
        return matches_scope(selector, {"spec": {"priorityClassName": class_name}})
    return False


Quotas = tuple[ResourceQuota, ...]
"""The ResourceQuotas of a namespace."""


class Use(NamedTuple):
    """The use of quotas by one object's Pods.

    `first`: the number of the first rejected Pod, counted from 1 over `arrivals.replicas` and then `arrivals.surge`;
    0 for none. `faults`: the reasons. `before`: the quotas before this object; `at_start`: before the change set.
    `present`: number of running Pods of the object, which are part of the used amounts. `stops_after`: the number of
    new Pods after which a rollout stops; None if it does not. `lasting`: as `before`, but without Jobs, whose Pods
    finish, and without objects that the kustomization of the quota leaves out; () if not known.
    """

    pod: ApiObject
    template: PodTemplate
    arrivals: Arrivals
    first: int
    faults: tuple[Fault, ...]
    before: Quotas
    at_start: Quotas
    present: int = 0
    stops_after: int | None = None
    lasting: Quotas = ()

    def quota_named(self, name: str) -> ResourceQuota | None:
        """Return the quota with this name without the replicas of the object; None if there is none."""
        return next((quota for quota in self.before if quota.name == name), None)

    def quota_after(self, name: str) -> ResourceQuota:
        """Return the quota of this name with the replicas of the object."""
        quotas = _without(self.before, self.pod, -self.arrivals.replicas)
        return next(quota for quota in quotas if quota.name == name)

    def earlier(self, name: str, resource: str) -> Quantity:
        """Return the amount of a quota's resource that earlier objects of the change set use."""
        then, now = (next(q for q in quotas if q.name == name) for quotas in (self.at_start, self.before))
        return now.used[resource] - then.used[resource]


class QuotaUse:
    """The ResourceQuotas of a change set's namespaces, and their use by its objects."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._at_start: dict[str, Quotas] = {}
        self._places: dict[int, int] = {}
        """`id` of a subject -> its position in the order of the apply."""
        self._charged: dict[str, list[tuple[int, Quotas]]] = {}
        """Namespace -> (position of a subject that is charged to its quotas, the quotas after this subject)."""

    def use_by(self, subject: ReviewedObject) -> Use | None:
        """The use of quotas by one object; None without quotas or without new Pods. Raises InvalidObject."""
        use = self._uses.get(id(subject))
        if isinstance(use, Exception):
            raise use
        return use

    def let_in(self, subject: ReviewedObject) -> int | None:
        """Return the number of an object's new Pods that the quotas allow; None for all, or if unknown."""
        limited = self._context.options.limited_resources
        try:
            if limited and uncovered_of(subject, self._context, limited):
                return 0
            use = self.use_by(subject)
        except (CutShort, InvalidObject, InvalidScope) as fault:
            fault.with_traceback(None)  # it is kept, and its frames know it: a circle
            return None
        if use is None or not use.first or any(fault.kind is FaultKind.STATUS_UNKNOWN for fault in use.faults):
            return None
        return max(use.first - 1 - use.present, 0)

    def use_beside_old(self, subject: ReviewedObject) -> Use | None:
        """Return the quota use if an object's Pods exceed one while its old Pods exist; None if not, or unknown."""
        try:
            use = self.use_by(subject)
            if use is None or not use.present:  # else the quotas admit them beside old Pods, or it has none
                return None
            first, check = first_rejected(use.pod, use.before, replicas=sum(use.arrivals))
        except (CutShort, InvalidObject, InvalidScope) as fault:
            fault.with_traceback(None)
            return None
        return use._replace(first=first, faults=check.faults) if first else None

    def quotas_before(self, subject: ReviewedObject, namespace: str) -> Quotas:
        """Return a namespace's quotas with the use of the Pods of earlier objects. Raises InvalidObject, CutShort."""
        return self._up_to(self._place(subject) - 1, namespace)

    def _place(self, subject: ReviewedObject) -> int:
        return self._places.get(id(subject), -1) if self._uses else -1

    def _up_to(self, place: int, namespace: str) -> Quotas:
        """Return a namespace's quotas behind the subject with this number."""
        quotas = self.quotas_of(namespace)
        charged = self._charged.get(namespace, []) if quotas else []
        behind = bisect_right(charged, place, key=itemgetter(0))
        return charged[behind - 1][1] if behind else quotas

    def quotas_of(self, namespace: str) -> Quotas:
        """Return the quotas of a namespace before the change set's Pods, including the quotas that the change set
        defines.

        A stored quota without status limits nothing, as in kube-apiserver; one of the change set has the limits of its
        spec. Raises TooLarge.
        """
        if namespace not in self._at_start:
            quotas = self._context.cluster.quotas_of(namespace) if self._context.cluster else ()
            defined = self._defined.get(namespace, {})
            check_quotas(defined.values())
            check_quotas(quotas)
            stored = {quota.name: quota for quota in quotas}
            for name, quota in defined.items():
                used = stored[name].used if name in stored else self._used_by_stored_pods(quota)
                hard = quota.spec_hard or quota.hard
                stored[name] = replace(quota, hard=hard, used={**dict.fromkeys(hard, ZERO), **used})
            self._at_start[namespace] = tuple(stored[name] for name in sorted(stored))
        return self._at_start[namespace]

    def _used_by_stored_pods(self, quota: ResourceQuota) -> ResourceList:
        """Return the use of a new quota by the Pods of the cluster; without a cluster, by the status in the file."""
        to_be = None if self._is_alone else self._context.cluster_to_be
        counted = to_be.resource_quotas.get((quota.namespace, quota.name)) if to_be else None
        return quota.used if counted is None else counted.used

    @cached_property
    def _defined(self) -> Mapping[str, Mapping[str, ResourceQuota]]:
        """The quotas that the change set defines, by namespace and name. Ignores unreadable ones."""
        quotas: dict[str, dict[str, ResourceQuota]] = {}
        for subject in self._context.of_kind(RESOURCE_QUOTA):
            with suppress(InvalidObject):
                check_quota_extent(subject.object.get("spec"))
                quota = ResourceQuota.from_api(subject.object)
                namespace = subject.effective_namespace
                quotas.setdefault(namespace, {})[quota.name] = replace(quota, namespace=namespace)
        return quotas

    @cached_property
    def _uses(self) -> Mapping[int, Use | InvalidObject | TooLarge]:
        """The use or error of each subject, by the subject's `id`, because subjects can be equal."""
        uses: dict[int, Use | InvalidObject | TooLarge] = {}
        current: dict[str, Quotas] = {}
        classes = {id(subject) for subject in self._context.of_kind(PRIORITY_CLASS)}
        for place, subject in enumerate(self._context.change_set.subjects):
            self._places[id(subject)] = place
            if subject.operation is Operation.DELETE or subject.subresource or id(subject) in classes:
                continue
            namespace = subject.effective_namespace
            try:
                quotas = (self._context.cluster and current.get(namespace)) or self.quotas_of(namespace)
                use = self._use(subject, quotas) if quotas else None
            except (InvalidObject, TooLarge) as fault:
                uses[id(subject)] = fault.with_traceback(None)
                continue
            if use is not None:
                uses[id(subject)], quotas = use
                if creates_pods_later(subject.object):
                    continue
                current[namespace] = quotas
                self._charged.setdefault(namespace, []).append((place, current[namespace]))
        if self._context.cluster is None:
            self._count_others(uses)
        return uses

    def _count_others(self, uses: dict[int, Use | InvalidObject | TooLarge]) -> None:
        """Add the Pods of all other objects to the uses of those that exceed no quota alone: files have no order, so
        that the quotas admit none of them, or all.
        """
        using, totals, lasting = list[tuple[int, Use, str, int, int]](), dict[str, Quotas](), dict[str, Quotas]()
        built = {quota.effective_namespace for quota in self._context.of_kind(RESOURCE_QUOTA) if not quota.is_left_out}
        for subject in self._context.change_set.subjects:
            if isinstance(use := uses.get(id(subject)), Use):
                is_met = not use.faults or use.faults[0].kind is FaultKind.EXCEEDED
                count = use.arrivals.replicas if is_met and not creates_pods_later(subject.object) else 0
                namespace = subject.effective_namespace
                ends = group_kind(subject.object) == JOB or (subject.is_left_out and namespace in built)
                using.append((id(subject), use, namespace, count, 0 if ends else count))
                for sums in (totals,) if ends else (totals, lasting):
                    sums[namespace] = _without(sums.get(namespace, use.at_start), use.pod, min(use.present - count, 0))
        for key, use, namespace, count, own in using:
            if not 0 < use.first <= use.arrivals.replicas:
                others = _without(totals[namespace], use.pod, count)
                first, faults, _ = _place(use.pod, others, use.arrivals)
                first = 1 if 0 < first <= use.arrivals.replicas else first
                beside = _without(lasting.get(namespace, use.at_start), use.pod, own)
                uses[key] = use._replace(first=first, faults=faults, before=others, lasting=beside)

    def _use(self, subject: ReviewedObject, quotas: Quotas) -> tuple[Use, Quotas] | None:
        """The use of quotas by a subject's Pods, and the quotas after the subject; None without Pods or quotas."""
        context = self._context
        template = context.template(subject)
        if group_kind(subject.object) == ROLLOUT and context.cluster is None:  # else its Pods are used amounts
            template = pod_template_of(subject.object, {ROLLOUT: ("spec", "template")})
        if template is None or (not template.is_template and subject.operation is Operation.UPDATE):
            return None
        if context.phase is Phase.LINT and (_runs(subject) or is_fragment(subject.object, template)):
            return None
        if self._is_created_by(subject):
            return None
        pod = pod_of(subject, template, context)
        if pod is None:
            return None
        at_start = self.quotas_of(subject.effective_namespace)
        metadata = {**(subject.object.get("metadata") or NOTHING), "namespace": subject.effective_namespace}
        old, named, coming = None, {**subject.object, "metadata": metadata}, Arrivals()
        if template.is_template:
            old = self._stored(subject)
            coming = arrivals(named, template.object, old, context.cluster_to_be)
        if old is not None and template == pod_template_of(old, context.options.pod_template_paths):
            coming = coming._replace(surge=0)  # no rollout
        if old is None or self._is_alone:  # what fits beside its present pods fits: they need not be looked for
            first, faults, after = _place(pod, quotas, coming)
            if old is None or not first:
                return Use(pod, template, coming, first, faults, quotas, at_start), after
        present_pods = present(named, old, template.object, context.cluster_to_be)
        first, faults, after = _place(pod, _without(quotas, self._old_pod(subject, old), present_pods), coming)
        return Use(pod, template, coming, first, faults, quotas, at_start, present_pods), after

    @property
    def _is_alone(self) -> bool:
        return len(self._context.change_set.subjects) == 1

    def _stored(self, subject: ReviewedObject) -> ApiObject | None:
        """Return the stored workload that the subject updates; None for a new one, and for the next run of a hook."""
        cluster, kind = self._context.cluster, group_kind(subject.object)
        stored = cluster.workload(kind, subject.effective_namespace, subject.ref.name) if cluster else None
        if subject.old or stored is None:
            return subject.old
        return None if kind == JOB and is_hook(subject.object) and is_finished(stored.object) else stored.object

    def _old_pod(self, subject: ReviewedObject, old: ApiObject | None) -> ApiObject | None:
        """Return a Pod of the stored workload, as ResourceQuota sees the Pod; None if unknown."""
        with suppress(InvalidObject):
            template = pod_template_of(old, self._context.options.pod_template_paths) if old is not None else None
            return pod_of(subject, template, self._context) if template else None
        return None

    def _is_created_by(self, subject: ReviewedObject) -> bool:
        """Report whether another object of the change set owns this object, and thus counts its Pods."""
        owner = Owner.from_api(subject.object)
        return owner is not None and (owner.group_kind, subject.effective_namespace, owner.name) in self._identities

    @cached_property
    def _identities(self) -> frozenset[tuple[str, str, str]]:
        subjects = self._context.change_set.subjects
        return frozenset(
            (group_kind(subject.object), subject.effective_namespace, subject.ref.name) for subject in subjects
        )


def _runs(subject: ReviewedObject) -> bool:
    """Report whether an object was exported from a cluster: its use is then already part of the used amounts."""
    if subject.operation is Operation.UPDATE:
        return False
    fields = mapping_at(subject.object, "status").keys() & {"phase", "observedGeneration", "replicas", "active"}
    return bool(fields or at(subject.object, "metadata", "resourceVersion") or at(subject.object, "spec", "nodeName"))


def pod_of(subject: ReviewedObject, template: PodTemplate, context: Context, class_name: str = "") -> ApiObject | None:
    """Return a Pod of a subject as ResourceQuota sees the Pod, after LimitRanger and Priority; None if Priority
    rejects the Pod.

    `class_name`: use this class instead of the Pod's class. Raises InvalidObject if the API server could not decode
    the Pod.
    """
    name = class_name or class_to_be(template, subject.effective_namespace, context)
    try:
        resolved = (
            Resolved(name, 0, "")
            if name and name not in context.classes and (context.is_known(name) or not context.classes_complete)
            else establish_priority(name, context.classes)
        )
    except Forbidden:
        return None
    check_extent(template.spec)
    fault = decode_fault({**template.object, "kind": "Pod"}, POD_STRUCT)
    if fault is not None:
        raise InvalidObject(fault.text, (*template.path, *fault.path), subject.ref)
    metadata = {**(template.object.get("metadata") or NOTHING), "namespace": subject.effective_namespace}
    quality = None if template.is_template else at(template.object, "status", "qosClass")
    pod = {"metadata": metadata, "spec": resolved_spec(template.spec, resolved), "status": {"qosClass": quality}}
    if context.phase is Phase.VALIDATE and not template.is_template:
        return pod  # it has been through LimitRanger
    semantics = Semantics() if context.cluster is None else context.cluster.semantics
    return with_limit_range_defaults(pod, context.limit_ranges_of(subject.effective_namespace), semantics)


def _without(quotas: Quotas, pod: ApiObject | None, count: int) -> Quotas:
    """Return the quotas without the use of `count` Pods like `pod`; with it if `count` is negative."""
    if pod is None or not count:
        return quotas
    used = {name: Quantity(q.nano * count, q.format) for name, q in Pods().usage(pod).items()}
    return given_back(quotas, pod, used)


def _place(pod: ApiObject, quotas: Quotas, coming: Arrivals) -> tuple[int, tuple[Fault, ...], Quotas]:
    """Return the number of the first rejected Pod (0 for none), the reasons, and the quotas after the other Pods."""
    if not coming.replicas:
        faults = check_request(pod, quotas).faults
        return 0, tuple(fault for fault in faults if fault.kind is FaultKind.MUST_SPECIFY), quotas
    first, check = first_rejected(pod, quotas, replicas=coming.replicas)
    if first or not coming.surge:
        return first, check.faults, check.quotas
    beyond, more = first_rejected(pod, check.quotas, replicas=coming.surge)
    return (coming.replicas + beyond if beyond else 0), more.faults, check.quotas


def uncovered_of(
    subject: ReviewedObject, context: Context, limited: Sequence[LimitedResource], class_name: str = ""
) -> list[Fault]:
    """Return the resources that `limited` limits for a subject's Pods and that no quota covers. Raises InvalidObject.

    `limited`: the limitedResources of kube-apiserver's ResourceQuota plugin. `class_name`: use this class instead of
    the Pods' class.
    """
    template = context.template(subject)
    pod = pod_of(subject, template, context, class_name) if template else None
    if pod is None:
        return []
    return uncovered(pod, context.once(QuotaUse).quotas_of(subject.effective_namespace), limited)
