"""Rules about selectors, PodDisruptionBudgets and Jobs: evictions that they block or fail with."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from forewarn.policies.base.findings import EVICTIONS_FAIL, Problem, Severity, Text, cut, grouped, plural, quote
from forewarn.policies.base.light import NamedTuple, later
from forewarn.policies.base.metering import TooLarge, charge
from forewarn.policies.inputs.manifests.deploy_order import is_recreated
from forewarn.policies.kubernetes.kinds import registry
from forewarn.policies.kubernetes.objects.fields import (
    NOTHING,
    ApiObject,
    InvalidObject,
    at,
    group_kind,
    int32,
    list_at,
    namespace_of,
    text,
)
from forewarn.policies.kubernetes.selectors import selector_or_error
from forewarn.policies.linting.rules.support.context import POD_OR_TEMPLATE, POD_SPECS, Context, Target, rule
from forewarn.policies.linting.rules.support.names import is_misspelt, is_part
from forewarn.policies.linting.rules.support.rule_text import (
    MAX_WORKLOADS,
    Comparisons,
    Labelled,
    diagnostics,
    namespace_of_others,
    naming,
    only_on_workload,
    selected,
    workloads_in,
)
from forewarn.policies.linting.rules.support.scalers import Scaler, scalers_of_workloads

if TYPE_CHECKING:
    from forewarn.policies.kubernetes.objects.disruption_budget import PodDisruptionBudget
    from forewarn.policies.kubernetes.objects.reviewed_object import ReviewedObject

    _Labelled = tuple[str, Mapping[str, str], str, str]
    """Namespace, labels of Pods, kind, name."""
    _ByLabel = Mapping[tuple[str, tuple[str, str] | None], Sequence[tuple[str, PodDisruptionBudget]]]


_MAX_LABELS_LENGTH: Final = 60
_BUDGETS: Final = {Target.OTHER: "PodDisruptionBudgets"}
_WITH_SELECTOR: Final = "Deployments, StatefulSets, DaemonSets and ReplicaSets"
_SELECT_PODS: Final = "set selector.matchLabels to labels of the workload's Pods"


@rule(*POD_SPECS, Target.OTHER, severity=Severity.WARNING, reads_parts=True, objects=_BUDGETS)
def empty_selector(subject: ReviewedObject, context: Context) -> Iterator[Problem]:
    """A label selector of a PodDisruptionBudget or a topology spread constraint is empty or absent.

    Why: an absent selector selects no Pod. For evictions, the selector `{}` selects all Pods of the namespace.
    kube-scheduler up to 1.37 usually ignores `{}`: the topology spread constraint does not spread the Pods, and
    preemption does not consider the PodDisruptionBudget.

    Example:

          Deployment web
          spec:
            selector:
              matchLabels:
                app: web
            template:
              metadata:
                labels:
                  app: web
              spec:
                topologySpreadConstraints:
                - maxSkew: 1
                  topologyKey: topology.kubernetes.io/zone
                  whenUnsatisfiable: DoNotSchedule
        -         labelSelector: {}
        +         labelSelector:
        +           matchLabels:
        +             app: web
          ---
          PodDisruptionBudget web
          spec:
            maxUnavailable: 1
        +   selector:
        +     matchLabels:
        +       app: web

    Fix: write the labels of the workload's Pods into the selector. If the PodDisruptionBudget is for all Pods of the
    namespace, suppress the finding.
    """
    if group_kind(subject.object) == registry.DISRUPTION_BUDGET:
        yield from _pdb_problems(subject, context)
    if subject.is_partial:
        return
    template = context.template(subject)
    for number, constraint in enumerate(list_at(template.spec, "topologySpreadConstraints") if template else ()):
        message = _fault_of_constraint(constraint, context) if isinstance(constraint, dict) else None
        if template and message:
            path = template.at("topologySpreadConstraints", number, *_present(constraint, "labelSelector"))
            counts_all = constraint.get("labelSelector") is not None and not _ignoring(context)
            severity = Severity.NOTE if counts_all else None
            yield Problem(message, path, _with_labels(template.object), severity=severity)


def _pdb_problems(subject: ReviewedObject, context: Context) -> Iterator[Problem]:
    spec = at(subject.object, "spec")
    if not isinstance(spec, dict):
        return
    is_removed = subject.object.get("apiVersion") != "policy/v1"  # there, the selector {} selects no Pod
    if subject.is_partial and ("selector" in spec or subject.whole != ("spec",)):
        return
    path = ("spec", *_present(spec, "selector"))
    if spec.get("selector") is None:
        if not _PATCH.search(subject.locate(()).file):
            yield Problem("no selector: the PodDisruptionBudget selects no Pod", path, _SELECT_PODS)
    elif _is_empty(spec["selector"]) and not is_removed:
        message = "selector {} selects all Pods of the namespace"
        if release := _ignoring(context):
            message += f"; preemption up to Kubernetes {release} ignores it"
        yield Problem(message, path, _SELECT_PODS, severity=Severity.NOTE)


_PATCH: Final = later(r"(?:^|[/._-])patch(?:[._-][^/]*)?\.ya?ml$")
"""Names of files with patches, whose object has further fields."""


def _fault_of_constraint(constraint: ApiObject, context: Context) -> str:
    """The problem of a topology spread constraint; "" if there is none."""
    if constraint.get("labelSelector") is None:
        return "topology spread constraint without labelSelector counts no Pod, and spreads none"
    if not _is_empty(constraint["labelSelector"]) or constraint.get("matchLabelKeys"):
        return ""
    if release := _ignoring(context):
        return f"labelSelector {{}} counts no Pod up to Kubernetes {release}: the constraint spreads no Pods"
    return "labelSelector {} counts all Pods of the namespace, not only those of the workload"


def _ignoring(context: Context) -> str:
    """The last release that ignores Pods that {} selects; "" if the given release counts them."""
    from forewarn.policies.kubernetes.releases.semantics import Semantics

    counts = context.minor is not None and Semantics(context.minor).empty_selectors_count
    return "" if counts else Semantics.empty_selectors_count.before


def _is_empty(selector: Any) -> bool:
    return isinstance(selector, dict) and not selector.get("matchLabels") and not selector.get("matchExpressions")


def _present(obj: ApiObject, field: str) -> tuple[str, ...]:
    """The path of a field; if the field is absent, the path of the object itself."""
    return (field,) if field in obj else ()


def _with_labels(pod: ApiObject) -> str:
    labels = at(pod, "metadata", "labels") or NOTHING
    shown = ", ".join(f"{key}: {value}" for key, value in labels.items()) if isinstance(labels, dict) else ""
    if not shown or len(shown) > _MAX_LABELS_LENGTH:
        return "set labelSelector.matchLabels to labels of the workload's Pods"
    return f"set labelSelector.matchLabels to labels of the Pods, such as {{{cut(shown, _MAX_LABELS_LENGTH)}}}"


_ALLOW_ONE: Final = {
    "maxUnavailable": "set maxUnavailable: 1",
    "minAvailable": "set maxUnavailable: 1, not minAvailable",
}
_SCALED: Final = (registry.DEPLOYMENT, registry.STATEFUL_SET, registry.ROLLOUT)


@rule(
    *POD_OR_TEMPLATE,
    Target.OTHER,
    Target.FILE,
    severity=Severity.WARNING,
    reads_parts=True,
    depends_on=("pods",),
    objects={**_BUDGETS, Target.FILE: "values of Helm charts"},
)
def evictions_blocked(subject: ReviewedObject, context: Context) -> Iterator[Problem]:
    """A PodDisruptionBudget allows no evictions, or several PodDisruptionBudgets select the same Pods.

    Why: the Eviction API rejects evictions of Ready Pods, and of running Pods that several PodDisruptionBudgets select.
    By default, `kubectl drain` then retries without end. kube-scheduler can still preempt these Pods.

    Details: the rule compares `minAvailable`, rounded up if it is a percentage, with the `replicas` of the selected
    workloads, if all are Deployments, StatefulSets or Rollouts that set `replicas`. The minimum of a
    HorizontalPodAutoscaler or of a ScaledObject counts, and the default of a variable as `replicas`. With `--cluster`,
    the rule also reads the PodDisruptionBudgets and Pods of the cluster. It compares PodDisruptionBudgets with each
    other only if they set `metadata.namespace`. A finding is a note if it holds only in some overlays of a
    kustomization, none of them for production. Of a Helm chart, the rule compares plain numbers in files of values, if
    the selectors of the PodDisruptionBudget and of the workload have the same text.

    Example:

          PodDisruptionBudget team/web
          spec:
        -   minAvailable: 2
        +   maxUnavailable: 1
            selector:
              matchLabels:
                app: web
          ---
          Deployment team/web
          spec:
            replicas: 2
            selector:
              matchLabels:
                app: web
            template:
              metadata:
                labels:
                  app: web
              spec:
                containers:
                - name: web
                  image: web

    Fix: replace `minAvailable` with `maxUnavailable: 1`, or run more replicas. Let one PodDisruptionBudget select each
    Pod.
    """
    if not subject.object:
        yield from diagnostics("evictions-blocked", context)
        return
    key = subject.effective_namespace, subject.ref.kind, subject.ref.name
    overlaps = context.once(_overlaps)
    if message := overlaps.problems.get(key):
        yield Problem(message, ("spec", "selector"), "let one PodDisruptionBudget select each Pod", harm=EVICTIONS_FAIL)
    elif overlaps.excess is not None:
        raise overlaps.excess
    if group_kind(subject.object) != registry.DISRUPTION_BUDGET:
        return

    from forewarn.policies.kubernetes.objects.workload import NO_EVICTION, evictable_from

    for field in ("maxUnavailable", "minAvailable"):
        value = at(subject.object, "spec", field)
        if (field, str(value)) in NO_EVICTION:
            message = f"{field} {value} allows no eviction: kubectl drain retries without end"
            fix = f"{_ALLOW_ONE[field]}, or suppress the finding"
            yield Problem(message, ("spec", field), fix, harm=EVICTIONS_FAIL)
    yield from _without_scale(subject, context)
    least = at(subject.object, "spec", "minAvailable")
    enough = evictable_from(least)
    if enough is None or subject.is_partial:
        return
    total, names, workload = _selected_workloads(subject, context)
    shown = f"{least}, rounded up," if isinstance(least, str) else f"{least}"
    if 0 < total < enough:
        message = f"minAvailable {shown} allows no eviction of the {plural(total, 'replica')} of "
        fix = f"{_ALLOW_ONE['minAvailable']}, or run at least {enough} replicas"
        yield Problem(Text(naming(message, names, len(names)), fix), ("spec", "minAvailable"), harm=EVICTIONS_FAIL)
    elif workload is not None and (when := _minimum_condition(workload, enough, context)):
        message = f"minAvailable {shown} allows no eviction {when}"
        yield Problem(message, ("spec", "minAvailable"), _ALLOW_ONE["minAvailable"], harm=EVICTIONS_FAIL)


def _without_scale(subject: ReviewedObject, context: Context) -> Iterator[Problem]:
    """Yield a number of Pods that depends on replicas of Jobs or DaemonSets, which have no scale subresource.

    Source: `getScaleController`. The error sets disruptionsAllowed to 0.
    """
    from forewarn.policies.kubernetes.objects.workload import NO_EVICTION

    spec = at(subject.object, "spec") or NOTHING
    field = "maxUnavailable" if at(spec, "maxUnavailable") is not None else "minAvailable"
    value = at(spec, field)
    is_relative = str(value).endswith("%") or (field == "maxUnavailable" and isinstance(value, int))
    if not is_relative or subject.is_partial or (field, str(value)) in NO_EVICTION:
        return
    for workload in _not_controlled(subject, context):
        if group_kind(workload.object) in (registry.JOB, registry.CRON_JOB, registry.DAEMON_SET):
            who = f"{workload.ref.kind} {cut(workload.ref.name, _MAX_NAME_LENGTH)}"
            message = f"{field} {value} allows no eviction: {who} has no scale subresource"
            yield Problem(message, ("spec", field), "set minAvailable to a number of Pods", harm=EVICTIONS_FAIL)
            return


def _minimum_condition(workload: ReviewedObject, enough: int, context: Context) -> str | None:
    """Return when a workload has fewer replicas than `enough`, as words; None if never, or if unknown."""
    replicas = at(workload.object, "spec", "replicas")
    for scaler in _scalers_of(workload, context):
        minimum = scaler.minimum
        if minimum is not None and replicas != 0 and max(minimum, 1) < enough:
            who = f"{scaler.subject.ref.kind} {cut(scaler.subject.ref.name, _MAX_NAME_LENGTH)}"
            return f"while {who} is at {scaler.limits[0][-1]} {minimum}"
    default = _DEFAULT.fullmatch(replicas) if isinstance(replicas, str) else None
    return f"while replicas has the default {default[1]}" if default and int(default[1]) < enough else None


_MAX_NAME_LENGTH: Final = 40
_SHOWN: Final = 3
"""Maximum number of PodDisruptionBudgets that a message names."""
_DEFAULT: Final = later(r"\$\{\w+:?[=-](\d{1,4})\}")
"""A variable of Flux or envsubst with a default."""


class _Overlaps(NamedTuple):
    """Overlapping PodDisruptionBudgets. `problems`: (namespace, kind, name) of those of the change set that select Pods
    with others, and of its workloads that only several stored ones select -> the problem. `excess`: why there may be
    more, or None.
    """

    problems: Mapping[tuple[str, str, str], str]
    excess: TooLarge | None = None


def _overlaps(context: Context) -> _Overlaps:
    """Find overlapping PodDisruptionBudgets. Source: pkg/registry/core/pod/storage/eviction.go,
    `getPodDisruptionBudgets`.
    """
    new = dict(_given(context))
    pdbs = {**context.cluster.objects.pdbs, **new} if context.cluster else new
    by_label = grouped(((key[0], pdb.selector.label), (key[1], pdb)) for key, pdb in pdbs.items() if pdb.selector)
    problems = dict[tuple[str, str, str], str]()
    try:
        for namespace, names, kind, name in _selecting(pdbs, by_label, context):
            own = [("PodDisruptionBudget", pdb) for pdb in names if (namespace, pdb) in new]
            workload = f" ({kind} {cut(name, _MAX_NAME_LENGTH)})" if own and name else ""
            count = len(names) - bool(own)
            which = f": PodDisruptionBudget{'s' * (count > 1)} "
            after = f" select{'s' * (count == 1)} them{' too' * bool(own)}"
            for found in own or [(kind, name)]:
                others = islice((pdb for pdb in names if found != ("PodDisruptionBudget", pdb)), _SHOWN)
                marked = [f"{pdb}{' (stored)' * ((namespace, pdb) not in new)}" for pdb in others]
                texts = (
                    naming(f"evictions of Pods fail{who}{which}", marked, count, after, _SHOWN)
                    for who in (workload, "")
                )
                problem = min(texts, key=lambda text: text.count("…"))  # without the workload rather than cut
                problems.setdefault((namespace, *found), problem)
    except TooLarge as excess:
        return _Overlaps(problems, excess.with_traceback(None))
    return _Overlaps(problems)


def _selecting(
    pdbs: Mapping[tuple[str, str], PodDisruptionBudget], by_label: _ByLabel, context: Context
) -> Iterator[tuple[str, Sequence[str], str, str]]:
    """Yield (namespace, names of the PodDisruptionBudgets that select them, kind, name) for the workloads and Pods that
    several select. If a selector with labels selects a workload alone, no Pod has
    the labels of several. Raises TooLarge.
    """
    used = set[tuple[str, str]]()
    known = dict[tuple[str, frozenset[tuple[str, str]]], Sequence[str]]()
    for namespace, labels, kind, name in _pods(pdbs, context):
        alike = namespace, frozenset(labels.items())
        is_new = alike not in known
        if is_new:
            candidates = [each for label in (None, *labels.items()) for each in by_label.get((namespace, label), ())]
            charge(1 + len(candidates))
            context.once(Comparisons).charge(len(candidates))
            known[alike] = sorted(name for name, pdb in candidates if pdb.selects(labels))
        names = known[alike]
        if kind:
            used.update((namespace, pdb) for pdb in names if at(pdbs[namespace, pdb].spec, "selector", "matchLabels"))
        elif any((namespace, pdb) in used for pdb in names):
            continue
        is_stored = context.cluster is not None and any(
            (namespace, pdb) in context.cluster.objects.pdbs for pdb in names
        )
        if len(names) > 1 and (is_new or is_stored):  # those of the change set have the problem already
            yield namespace, names, kind, name


def _given(context: Context) -> Iterator[tuple[tuple[str, str], PodDisruptionBudget]]:
    """Yield those of the change set that name their namespace, as others may be for several. Skips those that no
    kustomization lists if one lists others of the namespace.
    """
    placed = [each for each in context.of_kind(registry.DISRUPTION_BUDGET) if namespace_of(each.object)]
    built = {each.effective_namespace for each in placed if not each.is_left_out}
    for subject in placed:
        if not (subject.is_left_out and subject.effective_namespace in built):
            yield from _read(subject)


def _read(subject: ReviewedObject) -> Iterator[tuple[tuple[str, str], PodDisruptionBudget]]:
    from forewarn.policies.kubernetes.objects.disruption_budget import (
        PodDisruptionBudget,  # the linter starts without it
    )

    if subject.object.get("apiVersion") == "policy/v1" and not subject.is_partial:
        with suppress(InvalidObject):
            yield (subject.effective_namespace, subject.ref.name), PodDisruptionBudget.from_api(subject.object)


def _pods(pdbs: Mapping[tuple[str, str], PodDisruptionBudget], context: Context) -> Iterator[_Labelled]:
    """Yield the workloads and Pods of namespaces with several PodDisruptionBudgets, and Pods with labels that a
    selector requires, without a name.
    """
    for namespace in (name for name, number in Counter(namespace for namespace, _ in pdbs).items() if number > 1):
        for subject, _, labels in workloads_in([namespace], context):
            yield namespace, labels, subject.ref.kind, subject.ref.name
        pods = context.cluster.pods_of(namespace).values() if context.cluster else ()
        by_name = sorted(pods, key=lambda pod: pod.name)
        yield from ((namespace, pod.labels, "Pod", pod.name) for pod in by_name if not pod.terminal)
    for (namespace, _), pdb in pdbs.items():
        if pdb.selector and not pdb.spec["selector"].get("matchExpressions"):
            yield namespace, pdb.spec["selector"].get("matchLabels") or NOTHING, "", ""


class _Selected(NamedTuple):
    """The workloads that a selector selects. `total`: their replicas; 0 if a number is not known. `only`: the workload,
    if it is one.
    """

    total: int
    names: Sequence[str]
    only: ReviewedObject | None


def _selected_workloads(subject: ReviewedObject, context: Context) -> _Selected:
    selector = json.dumps(at(subject.object, "spec", "selector"), sort_keys=True, default=str)
    known, key = context.once(_known_selections), (subject.effective_namespace, selector, subject.locate(()).file)
    if key not in known:
        workloads = _not_controlled(subject, context)
        replicas = [_replicas(workload, context) for workload in workloads]
        total, is_known = sum(filter(None, replicas)), None not in replicas
        names = [f"{workload.ref.kind} {workload.ref.name}" for workload in workloads]
        known[key] = _Selected(total * is_known, names, workloads[0] if len(workloads) == 1 else None)
    return known[key]


def _replicas(workload: ReviewedObject, context: Context) -> int | None:
    """Return the replicas of a workload, which scalers raise to their minimum; None if unknown."""
    is_known = group_kind(workload.object) in _SCALED
    replicas = at(workload.object, "spec", "replicas") if is_known else None
    minimums = (scaler.minimum or 0 for scaler in _scalers_of(workload, context))
    if not isinstance(replicas, int):
        return None
    return max(replicas, 0, *minimums) if replicas else 0  # 0 disables a HorizontalPodAutoscaler


def _scalers_of(workload: ReviewedObject, context: Context) -> Iterator[Scaler]:
    scalers = context.once(scalers_of_workloads).get((workload.effective_namespace, workload.ref.name), ())
    own = [scaler for scaler in scalers[:_MAX_NAMESAKES] if _is_beside(scaler.subject, workload)]
    return (scaler for scaler in own or scalers if scaler.scales(workload))


def _is_beside(one: ReviewedObject, other: ReviewedObject) -> bool:
    """Report whether two objects are in one file: they belong together, even if other files have copies."""
    return one.locate(()).file == other.locate(()).file


_MAX_NAMESAKES: Final = 20
"""Maximum number of objects among which those of one file are searched."""


def _known_selections(_: Context) -> dict[tuple[str, ...], _Selected]:
    """What `_selected_workloads` has found, by namespace, selector and file."""
    return {}


def _not_controlled(subject: ReviewedObject, context: Context) -> list[ReviewedObject]:
    """The selected objects without a selected controller: `replicas` of a Deployment include its ReplicaSets and Pods.

    Empty if workloads of the namespace, which may have more replicas, are beyond the maximum.
    """
    selector, namespace = at(subject.object, "spec", "selector"), subject.effective_namespace
    if sum(1 for _ in workloads_in([namespace], context)) == MAX_WORKLOADS:
        return []
    subjects = [workload.subject for workload in selected(selector, [namespace], context)]
    if 1 < len(subjects) <= _MAX_NAMESAKES:
        own = {each.ref for each in subjects if _is_beside(each, subject)}
        subjects = [each for each in subjects if each.ref not in own or _is_beside(each, subject)]
    names = {(group_kind(subject.object), subject.ref.name) for subject in subjects}
    return [subject for subject in subjects if _controller(subject.object) not in names]


def _controller(obj: ApiObject) -> tuple[str, str] | None:
    if at(obj, "metadata", "ownerReferences") is None:
        return None
    from forewarn.policies.kubernetes.objects.pod import Owner  # the linter starts without it

    with suppress(InvalidObject):
        return (owner.group_kind, owner.name) if (owner := Owner.from_api(obj)) else None
    return None


_JOBS: Final = {registry.JOB: (), registry.CRON_JOB: registry.JOB_TEMPLATE}
"""Kind -> path of the Job in an object of this kind."""


@rule(Target.TEMPLATE, severity=Severity.NOTE, reads_parts=True, objects={Target.TEMPLATE: "Jobs, CronJobs"})
def job_fails_on_eviction(subject: ReviewedObject, context: Context) -> Iterator[Problem]:
    """A Job can fail if its Pods are evicted or preempted.

    Why: by default, a preempted or evicted Pod counts as failed. A Job usually fails if more Pods fail than
    `backoffLimit` (default: 6).

    Details: the rule reports, for example, `backoffLimit: 0`, more parallel Pods than `backoffLimit`, and a
    `podFailurePolicy` that fails the Job if a Pod is evicted.

    Example:

          Job team/report
          spec:
            backoffLimit: 0
        +   podFailurePolicy:
        +     rules:
        +     - action: Ignore
        +       onPodConditions:
        +       - type: DisruptionTarget
            template:
              spec:
                restartPolicy: Never
                containers:
                - name: c
                  image: report

    Fix: add `action: Ignore` for the Pod condition DisruptionTarget as the first rule of the `podFailurePolicy`. A
    `podFailurePolicy` needs `restartPolicy: Never` in the Pod template.
    """
    path = _JOBS.get(group_kind(subject.object))
    job = None if path is None else at(subject.object, *path) if path else subject.object
    if path is None or not isinstance(job, dict):
        return
    from forewarn.policies.kubernetes.objects.workload import IGNORE_DISRUPTIONS as FIX

    try:
        fault = _fault_of_job(job)
    except InvalidObject:
        return  # the API server rejects it
    if fault:
        message, field = fault
        never = text(job, "spec", "template", "spec", "restartPolicy") == "Never"
        yield Problem(message, (*path, "spec", field), FIX if never else f"{FIX}, with restartPolicy: Never")


@rule(Target.TEMPLATE, severity=Severity.ERROR, objects={Target.TEMPLATE: "Jobs"}, depends_on=("workloads",))
def job_field_changed(subject: ReviewedObject, context: Context) -> Iterator[Problem]:
    """An apply changes immutable fields of a Job, such as its Pod template.

    Why: kube-apiserver rejects the update, except for some fields of suspended Jobs.

    Details: the linter needs `--cluster`. The rule ignores Jobs with an annotation that lets Helm, Argo CD or Flux
    recreate them, such as hooks.

    Cluster:

        Job team/report
        spec:
          template:
            spec:
              restartPolicy: Never
              containers: [{name: c, image: "report:1"}]

    Bad:

        Job team/report
        spec:
          template:
            spec:
              restartPolicy: Never
              containers: [{name: c, image: "report:2"}]

    Good:

        Job team/report-2
        spec:
          template:
            spec:
              restartPolicy: Never
              containers: [{name: c, image: "report:2"}]

    Fix: delete the Job first, or give it another name.
    """
    if group_kind(subject.object) == registry.JOB:
        yield from _changed_fields(subject, context)


@rule(Target.TEMPLATE, severity=Severity.ERROR, objects={Target.TEMPLATE: _WITH_SELECTOR}, depends_on=("workloads",))
def workload_field_changed(subject: ReviewedObject, context: Context) -> Iterator[Problem]:
    """An apply changes immutable fields of a workload other than a Job, such as its selector.

    Why: kube-apiserver rejects the update. Immutable fields are `selector` of all these workloads, and `serviceName`,
    `volumeClaimTemplates` and `podManagementPolicy` of a StatefulSet.

    Details: the linter needs `--cluster`. The rule ignores workloads with an annotation that lets Helm, Argo CD or Flux
    recreate them, such as hooks. It also ignores selectors to which kustomize may add the missing labels.
    `forewarn diff` and `forewarn whatif apply` check these objects, too.

    Cluster:

        StatefulSet data/db
        spec:
          serviceName: db
          selector:
            matchLabels: {app: db}
          template:
            metadata:
              labels: {app: db}
            spec:
              containers: [{name: c, image: "db:1"}]

    Example:

          StatefulSet data/db
          spec:
        -   serviceName: db-headless
        +   serviceName: db
            selector:
              matchLabels: {app: db}
            template:
              metadata:
                labels: {app: db}
              spec:
                containers: [{name: c, image: "db:2"}]

    Fix: delete the workload first, or give it another name. `kubectl delete --cascade=orphan` keeps its Pods. A new
    StatefulSet with the same name and selector adopts them.
    """
    if group_kind(subject.object) != registry.JOB:
        yield from _changed_fields(subject, context)


def _changed_fields(subject: ReviewedObject, context: Context) -> Iterator[Problem]:
    if context.cluster is None or is_recreated(subject.object):
        return
    stored = context.cluster.workload(group_kind(subject.object), subject.effective_namespace, subject.ref.name)
    if stored is None:
        return
    from forewarn.policies.kubernetes.kube_apiserver.validation.workload import fix_of, validate_workload_update
    from forewarn.policies.kubernetes.objects.workload import applied_to, contains

    selectors = (at(obj, "spec", "selector") for obj in (stored.object, subject.object))
    with suppress(RecursionError):  # an object that is nested too deeply
        may_be_completed = contains(*selectors)  # kustomize adds labels to selectors, with `labels` for example
        new = applied_to(stored.object, subject.object)
        for fault in validate_workload_update(new, stored.object, context.cluster.semantics):
            if fault.path[:2] != ("spec", "selector") or not may_be_completed:
                yield Problem(str(fault), fault.path, fix_of(subject.ref.kind))


def _fault_of_job(job: ApiObject) -> tuple[str, str] | None:
    """Return the problem and the field of the Job's spec to report; None if there is none. Raises InvalidObject."""
    from forewarn.policies.kubernetes.objects.workload import backoff_limit, disruption_action, wanted_active

    action = disruption_action(job)
    if action == "FailJob":
        return ("eviction or preemption of one Pod fails the Job: a podFailurePolicy rule matches", "podFailurePolicy")
    if action == "Ignore":
        return None
    limit, at_once = backoff_limit(job), wanted_active(job, 0, 0)
    if limit == 0:
        return "eviction or preemption of one Pod fails the Job: backoffLimit is 0", "backoffLimit"
    if at_once > limit:
        fault = f"eviction or preemption of {limit + 1} of {at_once} Pods fails the Job: backoffLimit is {limit}"
        return fault, "parallelism"
    if int32(job, "spec", "backoffLimitPerIndex") == 0:
        return "eviction or preemption of one Pod fails its index: backoffLimitPerIndex is 0", "backoffLimitPerIndex"
    return None


@rule(Target.OTHER, severity=Severity.WARNING, depends_on=("pods",), objects=_BUDGETS)
def selector_without_pods(subject: ReviewedObject, context: Context) -> Iterator[Problem]:
    """The selector of a PodDisruptionBudget matches no Pod of the workloads in the input.

    Why: the PodDisruptionBudget protects no Pods. For example, `kubectl drain` can then evict all Pods of a workload on
    a node at once.

    Details: if no label value seems misspelled, and no workload has the name of the PodDisruptionBudget, the finding is
    a note, because a controller may create the Pods.

    Example:

          PodDisruptionBudget team/web
          spec:
            maxUnavailable: 1
            selector:
              matchLabels:
        -       app: webb
        +       app: web
          ---
          Deployment team/web
          spec:
            replicas: 2
            selector:
              matchLabels:
                app: web
            template:
              metadata:
                labels:
                  app: web
              spec:
                containers:
                - name: web
                  image: web

    Fix: write the labels of the workload's Pods into the selector.
    """
    if group_kind(subject.object) != registry.DISRUPTION_BUDGET:
        return
    selector, namespace = at(subject.object, "spec", "selector"), subject.effective_namespace
    labels = at(selector, "matchLabels")
    if not isinstance(labels, dict) or not labels or selected(selector, [namespace], context):
        return
    if not context.options.unread_names.isdisjoint(map(str, labels.values())):
        return
    yield from _other_namespace_problems(subject, selector, context)
    workloads = list(workloads_in([namespace], context))
    if not any(context.template(each.subject) for each in workloads) or _is_used(selector, namespace, context):
        return
    message = "selects no Pod of the workloads in this input"
    which, fix = only_on_workload(labels, workloads, context)
    if which:
        yield Problem(f"selects no Pod: {which}", ("spec", "selector", "matchLabels"), fix)
        return
    key, meant = next(_misspelt_labels(selector, workloads, namespace, context), ("", ""))
    if meant:
        from forewarn.policies.kubernetes.kube_apiserver.validation.object_meta import label_value

        if not label_value(meant):  # otherwise only the workload's label is wrong: value-rejected
            path = ("spec", "selector", "matchLabels", key)
            yield Problem(f"{message}. Did you mean {quote(meant)}?", path, f"write {key}: {meant}")
        return
    is_meant = any(each.labels and each.subject.ref.name == subject.ref.name for each in workloads)
    severity = None if is_meant else Severity.NOTE
    yield Problem(message, ("spec", "selector"), "write labels of the workload's Pods", severity=severity)


def _misspelt_labels(
    selector: ApiObject, workloads: Sequence[Labelled], namespace: str, context: Context
) -> Iterator[tuple[str, str]]:
    """Yield the keys of a selector whose value is a misspelling of the label of a workload that the rest selects, each
    with this label.
    """
    labels = selector["matchLabels"]
    for key, value in labels.items():
        rest = {**selector, "matchLabels": {k: v for k, v in labels.items() if k != key}}
        others = workloads if len(labels) == 1 else selected(rest, [namespace], context)
        context.once(Comparisons).charge(_COSTLY * len(others))
        is_only = len(labels) > 1 and len(others) == 1
        for label in (workload.labels.get(key) for workload in others if isinstance(value, str)):
            if label and (is_misspelt(value, label) or (is_only and is_part(value, label))):
                yield key, label


def _other_namespace_problems(subject: ReviewedObject, selector: Any, context: Context) -> Iterator[Problem]:
    """Yield the namespace of the only workloads that a PodDisruptionBudget without Pods in its own would select."""
    own = namespace_of(subject.object)
    if not own or next(workloads_in([own], context), None) is not None:
        return
    if place := namespace_of_others(selector, own, context):
        ours, theirs = cut(own, _MAX_NAME_LENGTH), cut(place, _MAX_NAME_LENGTH)
        message = f"selects no Pod in namespace {ours}; its workload is in {theirs}"
        yield Problem(message, ("metadata", "namespace"), f"set namespace: {place}")


_COSTLY: Final = 10
"""How many comparisons of a selector take as long as the search for a misspelling."""


def _is_used(selector: Any, namespace: str, context: Context) -> bool:
    """Report whether Pods of the cluster match a selector."""
    parsed, error = selector_or_error(selector)
    return bool(error) or any(
        parsed and pod.namespace == namespace and parsed.matches(pod.labels) for pod in context.pods
    )
