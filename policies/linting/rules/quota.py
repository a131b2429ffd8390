"""Rules about ResourceQuotas, and about Pods that ResourceQuotas or limitedResources reject."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from itertools import chain
from typing import TYPE_CHECKING, Final

from forewarn.policies.base.findings import Action, Path, Problem, Severity, Text, cut, grouped, listed, plural, quote
from forewarn.policies.base.light import later
from forewarn.policies.base.metering import charge, charging
from forewarn.policies.kubernetes.kinds.registry import (
    COUNT_PATHS,
    DAEMON_SET,
    DEFAULT_NAMESPACE,
    DEPLOYMENT,
    REPLICAS,
    RESOURCE_QUOTA,
)
from forewarn.policies.kubernetes.objects.fields import (
    at,
    group_kind,
    list_at,
    mapping,
    mapping_at,
    namespace_of,
    text_at,
)
from forewarn.policies.kubernetes.objects.priority_class import GKE, SYSTEM_NAMES
from forewarn.policies.kubernetes.options import LimitedResource, ScopeSelector
from forewarn.policies.linting.rules.support import rule_text
from forewarn.policies.linting.rules.support.context import POD_OR_TEMPLATE, Context, Phase, Target, rule
from forewarn.policies.linting.rules.support.details import UncoveredClass, UnknownClass
from forewarn.policies.linting.rules.support.names import meant_system_class, nearest, recommended_to
from forewarn.policies.linting.rules.support.predictions import Predicted
from forewarn.policies.linting.rules.support.scalers import scaler_of

if TYPE_CHECKING:
    from forewarn.policies.kubernetes.kube_apiserver.quota import Fault
    from forewarn.policies.kubernetes.objects.namespace import Namespace
    from forewarn.policies.kubernetes.objects.resource_quota import ResourceQuota
    from forewarn.policies.kubernetes.objects.reviewed_object import ReviewedObject
    from forewarn.policies.kubernetes.objects.workload import PodTemplate
    from forewarn.policies.linting.rules.support.quota_use import Use


@rule(Target.RESOURCE_QUOTA, severity=Severity.ERROR, action=Action.DENY)
def quota_scope_invalid(subject: ReviewedObject, context: Context) -> Iterator[Problem]:
    """kube-apiserver rejects this ResourceQuota, for example because of its scopes.

    Why: for example, a ResourceQuota with the scope PriorityClass cannot limit services or persistentvolumeclaims, and
    the operators `In` and `NotIn` require values.

    Example:

          ResourceQuota team/gold-quota
          spec:
            hard:
              pods: 10
        -     services: 5
            scopeSelector:
              matchExpressions:
              - scopeName: PriorityClass
                operator: In
                values: [gold]

    Fix: move such resources into a ResourceQuota without scopes, or correct the values of the operator.
    """
    # Imported here, because linting needs these modules only if the input has a ResourceQuota.
    from forewarn.policies.kubernetes.kube_apiserver.validation.object_meta import MAX_FAULTS
    from forewarn.policies.kubernetes.kube_apiserver.validation.resources import (
        validate_resource_quota,
        validate_resource_quota_update,
    )
    from forewarn.policies.kubernetes.kube_apiserver.validation.tables import fix_of

    context.quota_of(subject)
    quota = rule_text.completed(subject)
    faults = validate_resource_quota_update(quota, subject.old) if subject.old else validate_resource_quota(quota)
    reported = set[str]()
    for fault in faults[:MAX_FAULTS]:
        text = str(fault).rstrip(".")
        values = at(subject.object, *fault.path), *rule_text.shown_values(text)
        if any(rule_text.is_template_variable(value, subject, context, text) for value in values):
            continue
        message, fix, path = "", "", _present_path(subject, fault.path)
        if _NOT_STANDARD in text:
            message, fix = text.replace(f"{_NOT_STANDARD} for quota", _FULLY_QUALIFIED), _counted(str(path[-1]))
        if text.endswith(_UNSUPPORTED):
            message, fix, path = _unsupported(subject, fault.path)
        message = rule_text.api_text(message or text)
        if message not in reported:
            reported.add(message)
            yield Problem(message, path, fix or fix_of(fault), detail={"rejection": text})


_NOT_STANDARD: Final = "must be a standard resource"
_FULLY_QUALIFIED: Final = f"{_NOT_STANDARD} type or fully qualified"
_GROUPS: Final = {
    **dict.fromkeys(("deployments", "statefulsets", "daemonsets", "replicasets"), "apps"),
    **dict.fromkeys(("jobs", "cronjobs"), "batch"),
    "horizontalpodautoscalers": "autoscaling",
    "ingresses": "networking.k8s.io",
    "poddisruptionbudgets": "policy",
}


def _counted(name: str) -> str:
    """Return the fix for a name that is no resource of quotas: the number of objects, or a similar name."""
    kind, _, group = name.partition(".")
    if kind in _GROUPS and group in ("", _GROUPS[kind]):
        return f"write count/{kind}.{_GROUPS[kind]}"
    from forewarn.policies.kubernetes.kube_apiserver.validation.resources import QUOTA_RESOURCES

    return "write a resource of quotas" + nearest(name, QUOTA_RESOURCES)


_UNSUPPORTED: Final = "unsupported scope applied to resource"


def _present_path(subject: ReviewedObject, path: Path) -> Path:
    """Return the path of an error; for an absent field, the path of the field `operator` beside it if that exists."""
    if at(subject.object, *path) is not None:
        return path
    beside = (*path[:-1], "operator")
    return beside if at(subject.object, *beside) is not None else path


def _unsupported(subject: ReviewedObject, path: Path) -> tuple[str, str, Path]:
    """Return message, fix and path for resources that a scope does not support; empty texts for other errors."""
    from forewarn.policies.kubernetes.kube_apiserver.validation.resources import is_scope_valid_for

    value = at(subject.object, *path)
    entries = value if isinstance(value, list) else [value]
    scopes = [entry.get("scopeName") if isinstance(entry, dict) else entry for entry in entries]
    for scope in [scope for scope in scopes if isinstance(scope, str)]:
        limits = map(str, mapping(subject.object, "spec", "hard"))
        if names := [name for name in limits if not is_scope_valid_for(scope, name)]:
            start = f"a ResourceQuota with scope {cut(scope, _MAX_SCOPE_LENGTH)} cannot limit "
            fix = f"move {'it' if len(names) == 1 else 'them'} to a ResourceQuota without scopes"
            return rule_text.naming(start, names, len(names)), fix, ("spec", "hard", names[0])
    return "", "", path


_MAX_SCOPE_LENGTH: Final = 30
_CLASS: Final = "PriorityClass"
_SUGGESTIONS: Final = 3
"""Maximum number of unknown classes for which a message suggests a name."""
_SHOWN: Final = 16
_MAX_LENGTH_IN_SCOPE: Final = 50


@rule(Target.RESOURCE_QUOTA, severity=Severity.WARNING, action=Action.AUDIT, depends_on=("classes",))
def quota_matches_nothing(subject: ReviewedObject, context: Context) -> Iterator[Problem]:
    """A ResourceQuota, or a part of it, matches no Pod.

    Why: a ResourceQuota limits nothing if it selects only classes that do not exist, or if its PriorityClass scopes
    exclude each other. A ResourceQuota with the scope PriorityClass counts only Pods and the resources that they use.
    For example, it does not count count/deployments.apps. A ResourceQuota counts an extended resource such as
    nvidia.com/gpu only with the prefix `requests.`.

    Cluster:

        PriorityClass gold
        value: 1000

    Example:

          ResourceQuota team/gold-quota
          spec:
            hard:
              pods: 10
            scopeSelector:
              matchExpressions:
              - scopeName: PriorityClass
                operator: In
        -       values: [glod]
        +       values: [gold]

    Fix: use an existing class, remove one of the scopes that exclude each other, or count the resource in a
    ResourceQuota without scopes. Write `requests.nvidia.com/gpu`.
    """
    from forewarn.policies.linting.rules.support.quota_use import placed_selectors

    quota = context.quota_of(subject)
    yield from _without_prefix(subject, context)
    if not quota.scope_selectors or any(s.scope_name == "VolumeAttributesClass" for s in quota.scope_selectors):
        return
    unknown = 0
    for selector, path in placed_selectors(quota, subject):
        missing = list(_unknown_classes(selector, context))
        part = "scope" if len(missing) == len(selector.values) else "value"
        for index, name in missing:
            unknown += 1
            if rule_text.is_template_variable(name, subject, context):
                continue
            names = recommended_to(subject, context) if unknown <= _SUGGESTIONS else None
            fix = "create the class, or use one that exists"
            meant = meant_system_class(name, context)
            if not meant and names and context.phase is Phase.LINT:
                meant = names.meant(name)
            details = UnknownClass(
                name, f"; this {part} matches no Pod", names, fix, longest=_MAX_LENGTH_IN_SCOPE, meant=meant
            )
            yield Problem(details, (*path, "values", index), severity=None if meant else _note(context))
    if not unknown and _excludes_all(quota, context):
        selectors = [s for s in quota.scope_selectors if s.scope_name == _CLASS]
        shown = " and ".join(map(_shown, selectors[:_SUGGESTIONS])) + (" and others" * (len(selectors) > _SUGGESTIONS))
        message = f"no Pod matches all of its scopes: {shown}"
        yield Problem(message, ("spec", "scopeSelector"), "remove one of these scopes", severity=_note(context))
    yield from _never_charged(quota, context)


def _without_prefix(subject: ReviewedObject, context: Context) -> Iterator[Problem]:
    """Yield what no object is charged for: extended resources without `requests.`, kinds without their API group."""
    from forewarn.policies.kubernetes.kube_apiserver.validation.resources import is_device_class, is_extended

    hard = {*map(str, mapping(subject.object, "spec", "hard"))} if context.phase is Phase.LINT else set()
    for name in sorted(hard):
        counted = name.removeprefix("count/")
        if counted != name:
            right = f"count/{counted}.{_GROUPS[counted]}" if counted in _GROUPS else ""
            why = "the core API group has no such kind"
        else:
            is_of_others = ".storageclass.storage.k8s.io/" in name or is_device_class(name)
            right = f"requests.{name.removeprefix('limits.')}" if is_extended(name) and not is_of_others else ""
            why = f"Pods are charged for {cut(right, _MAX_SCOPE_LENGTH + len('requests.'))}"
        if right:
            fix = f"remove it, because {right} is set too" if right in hard else f"write {right}"
            yield Problem(f"{cut(name, _MAX_SCOPE_LENGTH)} limits nothing: {why}", ("spec", "hard", name), fix)


def _note(context: Context) -> Severity | None:
    """The severity of what may be meant; in admission, the configured action decides alone."""
    return Severity.NOTE if context.phase is Phase.LINT else None


def _unknown_classes(selector: ScopeSelector, context: Context) -> Iterator[tuple[int, str]]:
    if selector.scope_name == _CLASS and selector.operator == "In":
        for index, name in enumerate(charging(selector.values, 0.1)):
            if not context.is_known(name) and (context.classes_known or meant_system_class(name, context)):
                yield index, name


def _excludes_all(quota: ResourceQuota, context: Context) -> bool:
    """True if the PriorityClass scopes together match no class, named or known, and no Pod without a class."""
    from forewarn.policies.linting.rules.support.quota_use import is_readable

    selectors = [s for s in quota.scope_selectors if s.scope_name == _CLASS]
    if not all(map(is_readable, selectors)):
        return False  # quota-scope-invalid
    named = {value for selector in selectors for value in selector.values}
    unnamed = set() if context.classes_known else {"x"}
    while unnamed & named:
        unnamed = {name + "x" for name in unnamed}
    left = {"", *context.classes, *named, *unnamed}
    for selector in selectors:
        charge(1 + len(selector.values) // 8)
        if selector.operator == "DoesNotExist":
            left &= {""}
        elif selector.operator == "NotIn":
            left.difference_update(set(selector.values) - {""})
        elif selector.operator == "In":
            left &= {*selector.values} - {""}
        else:
            left.discard("")
    return not left


def _shown(selector: ScopeSelector) -> str:
    some = [cut(value, _MAX_LENGTH_IN_SCOPE) for value in selector.values[:_SHOWN]]
    some += ["…"] * (len(selector.values) > _SHOWN)
    values = f" [{' '.join(some)}]" if some else ""
    return f"{selector.scope_name} {selector.operator}{values}"


def _never_charged(quota: ResourceQuota, context: Context) -> Iterator[Problem]:
    """Yield a problem for each resource that a quota with scopes never counts, because Pods do not use the resource.

    Skips a resource that the API server rejects in combination with one of the scopes. `quota`: must have scopes.
    """
    from forewarn.policies.kubernetes.kube_apiserver.quota import matching_resources
    from forewarn.policies.kubernetes.kube_apiserver.validation.resources import is_scope_valid_for

    scopes = {selector.scope_name for selector in quota.scope_selectors}
    for name in sorted({*quota.spec_hard} - matching_resources(quota.spec_hard)):
        charge(1 + len(scopes))
        if all(is_scope_valid_for(scope, name) for scope in scopes):
            resource = cut(name, _MAX_LENGTH_IN_SCOPE)
            message = f"{resource} is never counted: a quota with scopes counts only Pods and what they use"
            fix = "limit it in a ResourceQuota without scopes"
            yield Problem(message, ("spec", "hard", name), fix, severity=_note(context))


_MAX_SELECTORS: Final = 16
_MAX_NAMES: Final = 500
"""Maximum number of scopes of a quota, and of classes in them, that are checked."""
_ANY_OTHER: Final = "any-class.that-nobody-names"
"""A placeholder for the classes that neither limitedResources nor the quota names."""


@rule(Target.RESOURCE_QUOTA, severity=Severity.WARNING, action=Action.WARN)
def limited_resources_loophole(subject: ReviewedObject, context: Context) -> Iterator[Problem]:
    """A ResourceQuota permits a class of `limitedResources` without naming it, or does not fully limit the class.

    Why: `matchScopes` requires only that a scope of a ResourceQuota matches. The scope `PriorityClass NotIn [batch]`
    matches every other class, and `PriorityClass Exists` every class. With a second scope, or without limits on pods,
    cpu or memory, a ResourceQuota may not limit all Pods of a class.

    Options:

        limitedResources:
        - resource: pods
          matchScopes:
          - scopeName: PriorityClass
            operator: In
            values: [gold]

    Example:

        - ResourceQuota team/all-but-batch
        + ResourceQuota team/gold-quota
          spec:
            hard:
        -     pods: 1000
        +     pods: 10
            scopeSelector:
              matchExpressions:
              - scopeName: PriorityClass
        -       operator: NotIn
        -       values: [batch]
        +       operator: In
        +       values: [gold]

    Fix: list the classes in a scope with `operator: In`, limit pods, cpu or memory, and use no other scope in the same
    ResourceQuota.
    """
    limited = [s for entry in context.options.limited_resources for s in entry.match_scopes if s.scope_name == _CLASS]
    if not limited:
        return
    from forewarn.policies.linting.rules.support.quota_use import placed_selectors

    quota = context.quota_of(subject)
    selectors = [(s, path) for s, path in placed_selectors(quota, subject) if s.scope_name == _CLASS]
    if len(selectors) > _MAX_SELECTORS or sum(len(s.values) for s, _ in selectors) > _MAX_NAMES:
        message = "too many PriorityClass scopes to check all of them for loopholes"
        yield Problem(message, ("spec", "scopeSelector"), f"name at most {_MAX_NAMES} classes in one ResourceQuota")
    names = 0
    for selector, path in selectors[:_MAX_SELECTORS]:
        names += len(selector.values)
        if names <= _MAX_NAMES:
            yield from _covered(quota, selector, path, limited)


def _covered(
    quota: ResourceQuota, selector: ScopeSelector, path: Path, limited: list[ScopeSelector]
) -> Iterator[Problem]:
    from forewarn.policies.linting.rules.support.quota_use import matches

    ours = [scope for scope in quota.scope_selectors if len(scope.values) <= _MAX_NAMES][:_MAX_SELECTORS]
    named = {value for scope in (*limited, *ours) for value in scope.values}
    for name in (*sorted(named), _ANY_OTHER):
        charge(2 * len(limited))
        if not any(matches(scope, name) for scope in limited) or not matches(selector, name):
            continue
        for why, remedy in _how_covered(quota, selector, name):
            is_in_quota = any(name in scope.values for scope in quota.scope_selectors)
            yield Problem(UncoveredClass("" if name == _ANY_OTHER else name, is_in_quota, why, remedy), path)
            return


def _how_covered(quota: ResourceQuota, selector: ScopeSelector, name: str) -> Iterator[tuple[str, str]]:
    """Yield reasons and fixes why this quota should not cover this class. `selector`: the covering scope."""
    from forewarn.policies.kubernetes.kube_apiserver.quota import matching_resources
    from forewarn.policies.linting.rules.support.quota_use import matches

    if not matching_resources(quota.spec_hard):
        yield "but limits nothing that Pods use", "limit pods, cpu or memory in spec.hard"
    elif selector.operator != "In":
        values = f" [{' '.join(selector.values)}]" if selector.values else ""
        yield f"without naming it ({selector.operator}{values})", "list the classes with operator: In"
    elif any(other.scope_name != _CLASS or not matches(other, name) for other in quota.scope_selectors):
        others = ", ".join(s.scope_name for s in quota.scope_selectors if s is not selector)
        yield f"but limits only some of its Pods, or none ({others})", "use one scope in this quota"


_COUNTS: Final[dict[str, Path]] = {**COUNT_PATHS, DAEMON_SET: ("spec", "template")}
_PODS: Final = ("pods", "count/pods")


@rule(
    *POD_OR_TEMPLATE,
    severity=Severity.ERROR,
    action=Action.WARN,
    depends_on=("quotas", "classes", "pods", "workloads", "nodes"),
)
def quota_exceeded(subject: ReviewedObject, context: Context) -> Iterator[Problem]:
    """New Pods exceed a ResourceQuota of their namespace.

    Why: kube-apiserver accepts a workload, but rejects its Pods that exceed the quota. For a Deployment, the reason is
    in Events of the ReplicaSet.

    Details: surge Pods of a rollout and default requests of a LimitRange also count. The linter ignores patches, and
    objects that were exported from a cluster.

    Cluster:

        PriorityClass gold
        value: 1000
        ---
        ResourceQuota team/gold-quota
        spec:
          hard:
            pods: 10
          scopeSelector:
            matchExpressions:
            - scopeName: PriorityClass
              operator: In
              values: [gold]
        status:
          hard:
            pods: 10
          used:
            pods: 4

    Example:

          Deployment team/web
          spec:
        -   replicas: 10
        +   replicas: 4
            selector: {matchLabels: {app: web}}
            template:
              metadata: {labels: {app: web}}
              spec:
                priorityClassName: gold
                containers:
                - name: web
                  image: web

    Fix: run fewer replicas, lower the requests, or raise the quota.
    """
    if not context.has_quotas(subject):
        return
    from forewarn.policies.linting.rules.support.quota_use import QuotaUse

    use = context.once(QuotaUse).use_by(subject)
    exceeds_without_old = use is not None and 0 < use.first <= use.arrivals.replicas
    beside_old = None if exceeds_without_old else context.once(QuotaUse).use_beside_old(subject)
    if use is not None and beside_old is not None:
        impact = context.once(Predicted).impact_of(subject)
        if impact is not None and impact.rejected and (not use.first or impact.rejected < impact.new):
            use = (use if use.first else beside_old)._replace(stops_after=impact.new - impact.rejected, present=0)
    if use is None or not use.first or not use.faults:
        return
    fault = use.faults[0]
    if fault.kind == "must-specify":
        return  # quota-requirement-missing
    noun = "Pods" if subject.ref.kind in ("Job", "CronJob", "DaemonSet") else "replicas"
    admitted = _admitted_later(subject, context, use)
    problem = _exceeded_message(use, fault, noun, admitted, in_files=context.cluster is None)
    text = Text(
        problem,
        _exceeded_fix(use, fault, group_kind(subject.object)),
        tuple(_exceeded_notes(subject, context, use, fault)),
        (_USED.sub("", problem), _USED.sub("", problem).partition(", ")[0]),
    )
    yield Problem(
        _with_move(text, fault.quota, subject, context),
        _COUNTS.get(group_kind(subject.object), REPLICAS) if use.template.is_template else (),
        detail={"quota": fault.quota, "resources": list(fault.resources), "pod": use.first, **use.arrivals._asdict()},
        severity=Severity.NOTE if _finishes(subject, use) or _is_assumed(subject, context) else None,
    )


def _with_move(text: Text, name: str, subject: ReviewedObject, context: Context) -> Text:
    """Return the text, with the kustomization that moves a quota from its own namespace to that of the object."""
    quota = context.once(_moved_quotas).get((subject.effective_namespace, name))
    if quota is None:
        return text
    (namespace, file), listed_file = quota.moved, os.path.normpath(quota.locate(()).file)
    caveat = f"{cut(file, _MAX_FILE_LENGTH)} moves it from namespace {cut(namespace, _MAX_QUOTA_LENGTH)}"
    return text._replace(fix=f"do not list {cut(listed_file, _MAX_FILE_LENGTH)} there, {text.fix}").with_caveat(caveat)


def _moved_quotas(context: Context) -> Mapping[tuple[str, str], ReviewedObject]:
    """Return the quotas that a kustomization moves to a namespace which also has quotas from another namespace, by
    namespace and name. A namespace whose only quota is moved gets it on purpose.
    """
    quotas = grouped((quota.effective_namespace, quota) for quota in context.of_kind(RESOURCE_QUOTA))
    mixed = (same for same in quotas.values() if len({quota.moved[:1] for quota in same}) > 1)
    return {(q.effective_namespace, q.ref.name): q for q in chain.from_iterable(mixed) if q.moved}


_MAX_FILE_LENGTH: Final = 100


def _is_assumed(subject: ReviewedObject, context: Context) -> bool:
    """Report whether only the default namespace relates an object with the quotas, which are in other files."""
    is_named = subject.effective_namespace != DEFAULT_NAMESPACE or namespace_of(subject.object) or subject.overlay
    files = (quota.locate(()).file for quota in context.of_kind(RESOURCE_QUOTA))
    return not (context.cluster or is_named) and subject.locate(()).file not in files


def _finishes(subject: ReviewedObject, use: Use) -> bool:
    """Report whether a rollout needs no surge Pod, because maxUnavailable lets old Pods terminate first."""
    if use.first <= use.arrivals.replicas or group_kind(subject.object) != DEPLOYMENT or use.stops_after is not None:
        return False
    from forewarn.policies.kubernetes.controllers.deployment import max_unavailable  # quotas are rare

    return max_unavailable(subject.object, use.arrivals.replicas) > 0


def _admitted_later(subject: ReviewedObject, context: Context, use: Use) -> int:
    """Return how many new Pods quotas admit after victims have terminated in the same namespace; 0 if no more."""
    if use.first > use.arrivals.replicas or use.stops_after is not None or not use.template.is_template:
        return 0
    impact = context.once(Predicted).impact_of(subject)
    admitted = 0 if impact is None or not impact.preempting else impact.new - impact.rejected
    return admitted if admitted > use.first - 1 and impact is not None and impact.new == use.arrivals.replicas else 0


def _exceeded_message(use: Use, fault: Fault, noun: str, later: int, *, in_files: bool) -> str:
    """The message, for example `ResourceQuota gold-quota (pods: 10, used: 4) admits 6 of 10 replicas`.

    `later`: see `_admitted_later`. `in_files`: without a cluster, so that all other objects count.
    """
    quota = use.quota_named(fault.quota)
    if quota is None or not fault.resources:
        return f"{rule_text.pods_of(use.template)} will be rejected: {rule_text.api_text(fault.message)}"
    name = next((count for count in _PODS if count in fault.resources), fault.resources[0])
    start = f"ResourceQuota {cut(quota.name, _MAX_QUOTA_LENGTH)} ({name}: {quota.hard[name]}"
    replicas, surge = use.arrivals
    used = use.quota_after(quota.name).used[name] if in_files else quota.used[name]
    if in_files and use.before is not use.at_start and use.first <= replicas:
        return f"{start}) is too small: all Pods of the input use {used}"
    subject = f"{start}, used: {used if use.first > replicas else quota.used[name]})"
    requested = "" if name in _PODS else _requested(use, name)
    if not use.template.is_template:
        return f"{subject} rejects the Pod{requested}"
    if use.stops_after is not None:
        return f"{subject} stops the rollout after {use.stops_after} of {replicas} new Pods"
    if use.first > replicas:
        return f"{subject} admits {use.first - replicas - 1} of {surge} surge Pods in a rollout{requested}"
    when = f" at first, {later} after preemption" if later else ""
    return f"{subject} admits {use.first - 1} of {replicas} {noun}{when}{requested}"


_MAX_QUOTA_LENGTH: Final = 40
_USED: Final = later(r" \([^)]*, used: [^)]*\)")


def _requested(use: Use, name: str) -> str:
    """A phrase with the amount that one Pod requests, for example `, each requests 2`."""
    from forewarn.policies.kubernetes.kube_apiserver.quota import PODS

    amount, given = PODS.usage(use.pod)[name], PODS.usage({"spec": use.template.spec})
    by_default = "" if given.get(name) == amount else " by LimitRange default"
    return f", {'each' if use.template.is_template else 'it'} requests {amount}{by_default}"


def _exceeded_notes(subject: ReviewedObject, context: Context, use: Use, fault: Fault) -> Iterator[str]:
    """Yield sentences that explain the used amount, if it differs from the amount in the cluster."""
    quota = use.quota_named(fault.quota)
    if quota is None or not fault.resources:
        return
    name = next((count for count in _PODS if count in fault.resources), fault.resources[0])
    if context.cluster and (earlier := use.earlier(quota.name, name)).nano > 0:
        yield f"Earlier objects of the input use {earlier}"
    if _finishes(subject, use):
        yield "The rollout continues with maxUnavailable"
    if use.present:
        yield f"{use.present} of its Pods already exist"


def _exceeded_fix(use: Use, fault: Fault, kind: str) -> str:
    if fault.kind == "status-unknown":
        return "retry when its status has the used amounts"
    if not fault.quota or not fault.resources:
        return "correct the quota"
    fitting = use.first - 1
    if use.stops_after is not None:
        return "raise it, or free a part"
    if use.template.is_template and fitting >= use.arrivals.replicas:
        surge = fitting - use.arrivals.replicas
        return f"set maxSurge {f'≤ {surge}' if surge else '0 and maxUnavailable 1'}, or raise the quota"
    if use.template.is_template and fitting:
        if kind == DAEMON_SET:
            return f"select at most {plural(fitting, 'node')}, or raise the quota"
        return f"set {_COUNTS.get(kind, REPLICAS)[-1]} ≤ {fitting}, or raise the quota"
    return "lower requests, or raise the quota"


@rule(*POD_OR_TEMPLATE, severity=Severity.ERROR, action=Action.WARN, depends_on=("quotas", "classes"))
def quota_requirement_missing(subject: ReviewedObject, context: Context) -> Iterator[Problem]:
    """A Pod or a template does not set requests or limits that a ResourceQuota of its namespace requires.

    Why: if a ResourceQuota for these Pods limits requests or limits of cpu or memory, kube-apiserver rejects Pods with
    a container that does not set them. A LimitRange, or `spec.resources` of the Pod, can also set them.

    Cluster:

        ResourceQuota team/compute
        spec:
          hard:
            requests.cpu: 8
            limits.memory: 32Gi
        status:
          hard:
            requests.cpu: 8
            limits.memory: 32Gi
          used:
            requests.cpu: 2
            limits.memory: 8Gi

    Example:

          Deployment team/web
          spec:
            selector: {matchLabels: {app: web}}
            template:
              metadata: {labels: {app: web}}
              spec:
                containers:
                - name: web
                  image: web
                  resources:
                    requests:
                      cpu: 500m
        +           limits:
        +             memory: 1Gi

    Fix: set the fields that the message names, in each container or for the Pod.
    """
    if not context.has_quotas(subject):
        return
    from forewarn.policies.linting.rules.support.quota_use import QuotaUse

    use = context.once(QuotaUse).use_by(subject)
    fault = use.faults[0] if use is not None and use.faults else None
    if use is None or fault is None or fault.kind != "must-specify":
        return
    lacking, named = fault.missing, {*chain.from_iterable(fault.missing.values())}
    fields = ("initContainers", "containers")
    places = {
        text_at(c, "name"): (field, i) for field in fields for i, c in enumerate(list_at(use.template.spec, field))
    }
    container = next((name for name in places if name in named), "")
    others = f" and {plural(len(named) - 1, 'other')}" if len(named) > 1 else ""
    start = f"ResourceQuota {cut(fault.quota, _MAX_QUOTA_LENGTH)} will reject {rule_text.pods_of(use.template)}"
    before = f"{start}: container {cut(container, _MAX_SCOPE_LENGTH)}{others} must specify "
    text = Text(
        rule_text.naming(before, [*lacking], len(lacking)),
        f"set {' and '.join(lacking)}, or add a LimitRange with defaults",
    )
    yield Problem(
        _with_move(text, fault.quota, subject, context),
        use.template.at(*places.get(container, fields[1:])),
        detail={"quota": fault.quota, "rejection": fault.message},
        severity=Severity.NOTE if _is_assumed(subject, context) else None,
    )


@rule(*POD_OR_TEMPLATE, severity=Severity.ERROR, action=Action.WARN, depends_on=("limitranges", "classes"))
def limit_range_default_too_low(subject: ReviewedObject, context: Context) -> Iterator[Problem]:
    """A LimitRange rejects a container: its default limit is lower than the request, or its bounds do not allow it.

    Why: kube-apiserver sets the default limit in containers without this limit, checks `min`, `max` and
    `maxLimitRequestRatio`, and then rejects the Pods. For a Deployment, the reason is in Events of the ReplicaSet.

    Details: the rule also reports other invalid requests and limits of Pods with defaults of LimitRanges. If the order
    of several LimitRanges decides, which is random, it is a warning.

    Cluster:

        LimitRange team/defaults
        spec:
          limits:
          - type: Container
            default:
              cpu: 2

    Example:

          Deployment team/web
          spec:
            selector: {matchLabels: {app: web}}
            template:
              metadata: {labels: {app: web}}
              spec:
                containers:
                - name: web
                  image: web
                  resources:
                    requests:
                      cpu: 3500m
        +           limits:
        +             cpu: 4

    Fix: set limits in the container, lower its requests, or change the LimitRange.
    """
    ranges = context.limit_ranges_of(subject.effective_namespace)
    template = context.template(subject) if ranges else None
    if template is None:
        return
    from forewarn.policies.kubernetes.cluster.admission import with_limit_range_defaults
    from forewarn.policies.kubernetes.kube_apiserver.validation.resources import fault_of_resources
    from forewarn.policies.kubernetes.objects.workload import is_fragment
    from forewarn.policies.linting.rules.support.quota_use import pod_of

    pod = None if is_fragment(subject.object, template) else pod_of(subject, template, context)
    own, semantics = {"spec": template.spec}, context.semantics
    turns = [[*ranges[number:], *ranges[:number]] for number in range(min(len(ranges), _MAX_TURNS))]
    wholes = [pod, *(with_limit_range_defaults(own, turn, semantics) for turn in turns[1:])] if pod else []
    errors = [fault_of_resources(own, whole, ranges) for whole in wholes]
    if error := next(filter(None, errors), None):
        rejects, severity, fix = "rejects", None, error.fix
        if None in errors:
            rejects, severity = "may reject", Severity.WARNING
            fix = f"{fix}, or let one LimitRange set defaults: their order is random"
        message = f"kube-apiserver {rejects} {rule_text.pods_of(template)}: {error.text}"
        yield Problem(message, template.at(*error.path[1:]), fix, severity=severity)


_MAX_TURNS: Final = 4
"""Maximum number of LimitRanges that are tried as the first one, because LimitRanger takes them in random order."""


@rule(*POD_OR_TEMPLATE, severity=Severity.ERROR, action=Action.DENY, depends_on=("quotas", "classes"))
def limited_class_without_quota(subject: ReviewedObject, context: Context) -> Iterator[Problem]:
    """No ResourceQuota of the namespace covers a PriorityClass, or a resource, that `limitedResources` limits.

    Why: kube-apiserver rejects Pods of a class that `limitedResources` limits, unless a ResourceQuota of the namespace
    covers the class. If you cannot set `limitedResources` in kube-apiserver, you can set it in forewarn's
    configuration.

    Details: forewarn reads `limitedResources` from its configuration, and from kube-apiserver's file if you pass it
    (`--admission-config`). Without a cluster and without a ResourceQuota in the input, the rule reports nothing.

    Options:

        limitedResources:
        - resource: pods
          matchScopes:
          - scopeName: PriorityClass
            operator: In
            values: [gold]

    Cluster:

        PriorityClass gold
        value: 1000

    Example:

        + ResourceQuota team/gold-quota
        + spec:
        +   hard:
        +     pods: 10
        +   scopeSelector:
        +     matchExpressions:
        +     - scopeName: PriorityClass
        +       operator: In
        +       values: [gold]
        + ---
          Deployment team/web
          spec:
            template:
              spec:
                priorityClassName: gold

    Fix: use another class, or add a ResourceQuota for this class to the namespace.
    """
    if not context.options.limited_resources or not (context.cluster or context.new_quotas):
        return
    from forewarn.policies.kubernetes.kube_apiserver.quota import FaultKind
    from forewarn.policies.linting.rules.support.quota_use import uncovered_of

    template = context.template(subject)
    for fault in uncovered_of(subject, context, context.options.limited_resources):
        assert template is not None
        by_class = fault.kind is FaultKind.UNCOVERED_SCOPE
        name = rule_text.class_to_be(template, subject.effective_namespace, context)
        named = quote(cut(name, _MAX_CLASS_LENGTH)) if name else "of these Pods"
        what = f"class {named}" if by_class else ", ".join(fault.resources)
        scope = f"with scope PriorityClass In [{name}]" if name else "with this scope"
        pods = rule_text.pods_of(template)
        yield Problem(
            f"{pods} will be rejected: no ResourceQuota in {subject.effective_namespace} covers {what}",
            template.at("priorityClassName" if by_class else "containers"),
            f"add one {scope if by_class else 'that limits it'}",
            detail={"rejection": fault.message},
        )


_MAX_CLASS_LENGTH: Final = 60
_GKE: Final = (
    LimitedResource("pods", match_scopes=(ScopeSelector("PriorityClass", "In", tuple(sorted(SYSTEM_NAMES))),)),
)
"""The limitedResources of GKE's API servers, which create a matching quota in kube-system.

Source: open-policy-agent/gatekeeper#1120, openservicemesh/osm#4408, fluxcd/flux2#3879.
"""
_GKE_QUOTA: Final = ("kube-system", "gcp-critical-pods")
_MAX_NAMESPACE_LENGTH: Final = 24
_GKE_LABEL: Final = "cloud.google.com/gke-nodepool"


@rule(*POD_OR_TEMPLATE, severity=Severity.WARNING, action=Action.WARN, depends_on=("quotas", "nodes"))
def system_class_blocked_by_quota(subject: ReviewedObject, context: Context) -> Iterator[Problem]:
    """kube-apiserver probably rejects Pods of a system class in this namespace.

    Why: GKE admits Pods of system-cluster-critical and system-node-critical only in namespaces with a ResourceQuota for
    these classes. GKE creates one in kube-system, but not in your namespaces. kube-apiserver's message is "insufficient
    quota to match these scopes".

    Details: for GKE, set `preset: gke` in the configuration, or pass `lint --preset gke`. In a cluster, the rule
    usually recognizes GKE.

    Cluster:

        ResourceQuota kube-system/gcp-critical-pods
        spec:
          hard:
            pods: 1G
          scopeSelector:
            matchExpressions:
            - scopeName: PriorityClass
              operator: In
              values: [system-node-critical, system-cluster-critical]
        ---
        PriorityClass infrastructure
        value: 1000000

    Example (also system-class-outside-kube-system):

          DaemonSet monitoring/agent
          spec:
            template:
              spec:
        -       priorityClassName: system-node-critical
        +       priorityClassName: infrastructure

    Fix: use a PriorityClass of your own, or add a ResourceQuota for the system class to the namespace.
    """
    template = context.template(subject)
    name = rule_text.class_to_be(template, subject.effective_namespace, context) if template else ""
    if template is None or name not in SYSTEM_NAMES or subject.ref.namespace == "kube-system":
        return
    limited, is_gke = context.options.limited_resources, _is_gke(context)
    if not limited and not is_gke:
        return
    from forewarn.policies.linting.rules.support.quota_use import uncovered_of

    quotas_known = context.cluster is not None or context.new_quotas
    by_configuration = bool(limited) and bool(uncovered_of(subject, context, limited))
    if by_configuration and quotas_known:
        return  # limited-class-without-quota
    by_gke = is_gke and bool(uncovered_of(subject, context, _GKE))
    if by_configuration or by_gke:
        who = "limitedResources require" if by_configuration else "GKE requires"
        what = "Pods are" if template.is_template else "the Pod is"
        namespace = cut(subject.ref.namespace or "default", _MAX_NAMESPACE_LENGTH)
        yield Problem(
            f"{who} a ResourceQuota for {name}; {what} rejected unless namespace {namespace} has one",
            template.at("priorityClassName"),
            "use another class, or add a ResourceQuota for this one",
        )


def _is_gke(context: Context) -> bool:
    cluster = context.cluster
    if cluster is None or context.options.preset == GKE:
        return context.options.preset == GKE
    nodes = cluster.objects.nodes.values()
    return _GKE_QUOTA in cluster.resource_quotas or any(_GKE_LABEL in node.labels for node in nodes)


@rule(
    Target.OTHER,
    severity=Severity.WARNING,
    depends_on=("quotas", "pods"),
    objects={Target.OTHER: "HorizontalPodAutoscalers, ScaledObjects"},
)
def autoscaler_exceeds_quota(subject: ReviewedObject, context: Context) -> Iterator[Problem]:
    """A HorizontalPodAutoscaler, or a ScaledObject of KEDA, may scale a workload beyond a ResourceQuota.

    Why: under load, kube-apiserver rejects the Pods that exceed the quota.

    Details: the workload must be in the input. The rule ignores `maxSurge`, Pods of Jobs, which finish, and
    objects that no kustomization lists if one lists the quota.

    Example:

          ResourceQuota team/team
          spec:
            hard:
              pods: 5
          ---
          Deployment team/web
          spec:
            replicas: 2
            selector: {matchLabels: {app: web}}
            template:
              metadata: {labels: {app: web}}
              spec:
                containers:
                - name: web
                  image: web
          ---
          apiVersion: autoscaling/v2
          kind: HorizontalPodAutoscaler
          metadata:
            name: web
            namespace: team
          spec:
        -   maxReplicas: 10
        +   maxReplicas: 5
            scaleTargetRef:
              apiVersion: apps/v1
              kind: Deployment
              name: web

    Fix: lower `maxReplicas`, or raise the quota.
    """
    scaler = scaler_of(subject)
    if scaler is None or scaler.maximum is None or not context.has_quotas(subject):
        return
    from forewarn.policies.kubernetes.kube_apiserver.quota import first_rejected
    from forewarn.policies.linting.rules.support.quota_use import QuotaUse

    for workload in filter(scaler.scales, context.of_kind(scaler.kind)):
        use = context.once(QuotaUse).use_by(workload)
        if use is None or (use.first and use.first <= use.arrivals.replicas):
            continue  # quota-exceeded
        first, check_ = first_rejected(
            use.pod, use.lasting or use.before, replicas=max(scaler.maximum - use.present, 0)
        )
        if first and check_.faults and check_.faults[0].resources:
            quota = cut(check_.faults[0].quota, _MAX_QUOTA_LENGTH)
            path, admitted = scaler.limits[1], first - 1 + use.present
            message = f"ResourceQuota {quota} admits {admitted} of {scaler.maximum} replicas ({path[-1]})"
            text = Text(message, f"set {path[-1]} ≤ {admitted}, or raise the quota")
            yield Problem(_with_move(text, check_.faults[0].quota, workload, context), path)


_INJECTORS: Final = (
    ("linkerd.io/inject",),
    ("sidecar.istio.io/inject", "istio-injection"),
    ("vault.hashicorp.com/agent-inject",),
    ("consul.hashicorp.com/connect-inject",),
    ("dapr.io/enabled",),
)
"""For each webhook, the labels or annotations of Pods and Namespaces with which it injects containers."""
_INJECTED: Final = ("true", "enabled", "ingress")
_COMPUTE: Final = frozenset(f"{kind}{name}" for kind in ("", "requests.", "limits.") for name in ("cpu", "memory"))


@rule(Target.TEMPLATE, severity=Severity.NOTE, depends_on=("quotas", "namespaces", "limitranges", "classes"))
def injected_containers_not_counted(subject: ReviewedObject, context: Context) -> Iterator[Problem]:
    """A webhook injects containers into Pods that a ResourceQuota limits.

    Why: if a ResourceQuota limits requests or limits, kube-apiserver rejects Pods with a container that does not set
    them, also one that a webhook injects. forewarn does not know the injected containers.

    Details: the rule knows annotations and labels of Linkerd, Istio, Vault, Consul and Dapr, also those of the
    Namespace if the Pod has none. It ignores namespaces with a LimitRange, and quotas whose scopes do not match.

    Cluster:

        ResourceQuota team/quota
        spec:
          hard:
            limits.cpu: 4

    Example:

          Deployment team/web
          spec:
            selector:
              matchLabels:
                app: web
            template:
              metadata:
                labels:
                  app: web
        -       annotations:
        -         linkerd.io/inject: enabled
              spec:
                containers:
                - name: web
                  image: web
                  resources:
                    limits:
                      cpu: 100m

    Fix: set requests and limits of the injected containers, or create a LimitRange with defaults.
    """
    template = context.template(subject) if context.has_quotas(subject) else None
    name = subject.effective_namespace
    if template is None or context.limit_ranges_of(name):
        return
    by = _injector(template, context.namespace(name))
    if by is None:
        return
    from forewarn.policies.kubernetes.kube_apiserver.quota import matches_scope
    from forewarn.policies.linting.rules.support.quota_use import QuotaUse

    limited = set[str]()
    use = context.once(QuotaUse).use_by(subject)
    for quota in use.before if use else ():
        if use and all(matches_scope(selector, use.pod) for selector in quota.scope_selectors):
            limited |= _COMPUTE & quota.spec_hard.keys()
    if limited:
        message = (
            f"containers that {by} adds are not counted; a ResourceQuota requires {listed(sorted(limited), 2)} of each"
        )
        fix = "set resources of the injected containers, or create a LimitRange with defaults"
        yield Problem(message, template.at("containers"), fix)


def _injector(template: PodTemplate, namespace: Namespace | None) -> str | None:
    """Return the label or annotation with which a webhook injects containers; None if none does.

    Those of a Pod override those of its Namespace.
    """
    places = [mapping_at(template.object, "metadata", part) for part in ("annotations", "labels")]
    places += [namespace.annotations, namespace.labels] if namespace else []
    for names in _INJECTORS:
        by, value = next(((name, place[name]) for place in places for name in names if name in place), (None, None))
        if value in _INJECTED:
            return by
    return None
