"""Run the rules, and convert their problems to findings with the configured severity and action. An audit checks each
object of a cluster as an update without changes, then the cluster as a whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from functools import partial
from itertools import chain, islice
from typing import TYPE_CHECKING, Final

from forewarn.policies.base.disclosure import EXACT, OPEN, Audience, Disclose, Shown
from forewarn.policies.base.findings import (
    INCOMPLETE,
    NO_HARM,
    NO_OBJECT,
    Action,
    Finding,
    Problem,
    Severity,
    Text,
    cut,
    field_path,
    not_running,
)
from forewarn.policies.base.light import NamedTuple
from forewarn.policies.base.metering import MAX_WORK, CutShort, TooLarge, metered, never
from forewarn.policies.kubernetes.kinds import registry
from forewarn.policies.kubernetes.kube_apiserver.validation.decode import TYPED
from forewarn.policies.kubernetes.objects.fields import NOTHING, ApiObject, InvalidObject, at, group_kind, list_at
from forewarn.policies.kubernetes.objects.reviewed_object import ChangeSet, Operation, ReviewedObject
from forewarn.policies.kubernetes.objects.workload import is_fragment, lacks_images, parts_of, pod_template_of
from forewarn.policies.linting.rules import RULES
from forewarn.policies.linting.rules.file import parse_error, unknown_field
from forewarn.policies.linting.rules.pod.classes import class_not_allowed, is_class_use_unknown
from forewarn.policies.linting.rules.priority_class import removed_api_version
from forewarn.policies.linting.rules.rejected import is_variable_at, quantity_fix, value_rejected
from forewarn.policies.linting.rules.support.allowed_classes import audience_of
from forewarn.policies.linting.rules.support.context import ALL_SCHEDULED, POD_SPECS, Context, Phase, Rule, Target
from forewarn.policies.linting.rules.support.predictions import Predicted, Restarts, Simulations
from forewarn.policies.linting.rules.support.rule_text import KARPENTER, autoscaler_of, is_capitals, is_static_pod

if TYPE_CHECKING:
    from forewarn.policies.kubernetes.cluster.cache import ClusterSnapshot
    from forewarn.policies.kubernetes.kinds.class_paths import ClassPath
    from forewarn.policies.kubernetes.objects.namespace import Namespace
    from forewarn.policies.linting.config.model import Config
    from forewarn.policies.linting.rules.support.predictions import Recall
    from forewarn.policies.prediction.forecast.impact import Impact


__all__ = ["EvaluationRequest", "Phase", "count_open", "evaluate", "impact_of"]

_FILES: Final = ReviewedObject(NOTHING)
_CLUSTER: Final = ReviewedObject(NOTHING)
_OF_MANY: Final = (_FILES, _CLUSTER)
"""Placeholder subjects for all files, or the cluster. Their problems name the objects, without MAX_PROBLEMS."""
_NEVER: Final = datetime.min
_ALONE: Final = {
    registry.NAMESPACE: Target.NAMESPACE,
    registry.RESOURCE_QUOTA: Target.RESOURCE_QUOTA,
    registry.POD_GROUP: Target.POD_GROUP,
    registry.GROUP_TEMPLATES: Target.POD_GROUP,
}
MAX_PROBLEMS: Final = 10
"""Maximum number of problems of one rule for one object; further ones are only counted."""
_MAX_COUNTED: Final = 1_000
_MAX_CHARACTERS: Final = 2_000
"""Maximum characters of a message."""
_NOT_EVALUATED: Final = "not evaluated: "
_RULES_BY_TARGET: Final[Mapping[Target, tuple[Rule, ...]]] = {
    target: tuple(rule for rule in RULES if target in rule.TARGETS) for target in Target
}


class EvaluationRequest(NamedTuple):
    """The input of `evaluate`.

    - `cluster`: None if unknown. `evaluated`: the objects of the change set to evaluate (default: all); rules still
      read the other objects. `with_cluster_rules`: also evaluate the rules about the whole cluster, with `simulations`
      of restarts.
    - `expired`: returns true if the time is up. `max_work`: maximum units of work (`base/metering.py`); not checked if
      `expired` is `never`. Both limits apply to all rules. A rule that they stop results in the finding
      "not evaluated".
    - `predicted`: called after the rules, with each prediction that they used. `recall`: returns a prediction from a
      cache or computes it; None: no cache.
    - `disclose`: the names that `Finding.for_requester` contains; `Finding.text` contains all names. `shown`: returns
      how much of a prediction `Finding.for_requester` contains; called after the prediction.
    """

    change_set: ChangeSet
    cluster: ClusterSnapshot | None
    config: Config
    phase: Phase
    now: datetime
    expired: Callable[[], bool] = never
    predicted: Callable[[Impact], object] = lambda _: None
    recall: Recall | None = None
    disclose: Disclose = Disclose.NAMES
    shown: Callable[[], Shown] = lambda: EXACT
    evaluated: Sequence[ReviewedObject] | None = None
    with_cluster_rules: bool = False
    max_work: int = MAX_WORK
    simulations: Simulations | None = None


def evaluate(request: EvaluationRequest) -> list[Finding]:
    """Return the findings about a change set, without duplicates, in the order of the report."""
    change_set, config = request.change_set, request.config
    context = Context(
        change_set,
        request.cluster,
        config.options,
        request.phase,
        request.now,
        request.expired,
        _exempt(config, request.now),
        request.disclose,
        request.shown,
    )
    predictions = context.once(Predicted, request.recall)
    context.once(Restarts, request.simulations)
    with metered(request.expired, request.max_work):
        wholes = _OF_MANY if request.with_cluster_rules else _OF_MANY[:1]
        subjects = change_set.subjects if request.evaluated is None else request.evaluated
        subjects = (*wholes, *_parts(subjects, config.options.class_paths))
        findings = (finding for subject in subjects for finding in _evaluate(subject, context, config))
        by_order = {finding.order: finding for finding in findings}
    for impact in predictions.computed:
        request.predicted(impact)
    return [by_order[key] for key in sorted(by_order)]


def _exempt(config: Config, now: datetime) -> Callable[[Namespace], bool]:
    return lambda namespace: config.exemption(None, namespace, now) is not None


def impact_of(
    subject: ReviewedObject,
    cluster: ClusterSnapshot,
    config: Config,
    expired: Callable[[], bool] = never,
    recall: Recall | None = None,
) -> Impact | None:
    """The impact of an object's new Pods; None without new Pods, or if no nodes are known."""
    context = Context(ChangeSet((subject,)), cluster, config.options, Phase.VALIDATE, _NEVER, expired)
    with metered(expired):
        return context.once(Predicted, recall).impact_of(subject)


def count_open(
    change_set: ChangeSet,
    config: Config,
    cluster: ClusterSnapshot | None,
    now: datetime,
    evaluated: Sequence[ReviewedObject] | None = None,
) -> int:
    """Return how many objects class-not-allowed cannot evaluate: it depends on the user or on unknown labels."""
    if not config.options.allowed_classes:
        return 0
    context = Context(change_set, cluster, config.options, Phase.LINT, now, lambda: False, _exempt(config, now))
    count = 0
    for subject in change_set.subjects if evaluated is None else evaluated:
        with suppress(InvalidObject):
            is_checked = _target(subject, context) in class_not_allowed.TARGETS
            count += is_checked and is_class_use_unknown(subject, context)
    return count


def _evaluate(subject: ReviewedObject, context: Context, config: Config) -> list[Finding]:
    """The findings about one object. An unreadable field is reported once, by a rule that names it, if there is one."""
    findings: list[Finding] = []
    faults: list[InvalidObject] = []
    reader = partial(audience_of, subject, context)
    try:
        target = _target(subject, context)
        rules = () if target is None else _enabled_rules(target, context.phase, config)
        if subject.is_partial:
            rules = tuple(rule for rule in rules if _checks_parts(rule[0], subject))
    except InvalidObject as fault:
        target, rules, faults = None, (), [fault.with_traceback(None)]
    is_one = not _is_template_of_many(subject)
    for rule, severity, action in rules:
        try:
            problems = rule.check(subject, context)
            first = next(problems, None)
            if first is None:
                continue
            problems = chain((first,), problems)
            if is_one:
                problems = _bounded(problems)
            found = (_finding(subject, p, rule.ID, severity, action, reader) for p in problems)
            findings += map(_with_rejection, found) if target in POD_SPECS else found
        except CutShort as why:
            action = _unevaluated_action(action, why, subject, config)
            why.with_traceback(None)  # avoids a reference cycle if it is cached
            unevaluated = _finding(subject, _unevaluated(why), rule.ID, severity, action)
            findings.append(unevaluated._replace(not_evaluated=True))
        except InvalidObject as fault:
            faults.append(fault.with_traceback(None))  # its frames refer to this list: a reference cycle
    if subject.is_partial:
        return findings
    if context.phase is Phase.LINT:
        try:
            _check_resources(subject.effective_namespace, context, subject.object)
        except InvalidObject as fault:
            faults.append(fault.with_traceback(None))
    named = {finding.path for finding in findings}
    findings += (f for fault in faults for f in _unreadable(subject, fault, config, context) if f.path not in named)
    return findings


def _checks_parts(rule: Rule, subject: ReviewedObject) -> bool:
    """Report whether a rule checks a part of an object. Only rules about fields and versions check a patch."""
    return rule.READS_PARTS and (rule in (unknown_field, removed_api_version) or not subject.is_patch)


def _check_resources(namespace: str, context: Context, obj: ApiObject) -> None:
    """Raise InvalidObject for invalid requests or limits. Ignores objects whose requests may differ in the cluster:
    patches, and Pods that get defaults of LimitRanges, which a rule checks.
    """
    template = pod_template_of(obj, registry.POD_TEMPLATE_PATHS)
    if template is None or lacks_images(template) or is_fragment(obj, template):
        return
    if not template.is_template and _may_have_defaults(namespace, context):
        return
    parts = (template.spec, *list_at(template.spec, "containers"), *list_at(template.spec, "initContainers"))
    if any(at(part, "resources", "limits") or _requests_others(part) for part in parts):
        from forewarn.policies.kubernetes.kube_apiserver.validation.resources import check_resources

        check_resources(obj)


def _may_have_defaults(namespace: str, context: Context) -> bool:
    with suppress(TooLarge):  # a LimitRange is too large for the cache
        return bool(context.limit_ranges_of(namespace))
    return True


def _requests_others(part: ApiObject) -> bool:
    requests = at(part, "resources", "requests")
    return isinstance(requests, Mapping) and not requests.keys() <= {"cpu", "memory"}


def _is_template_of_many(subject: ReviewedObject) -> bool:
    return subject is _FILES or subject is _CLUSTER


def _parts(subjects: Sequence[ReviewedObject], paths: Mapping[str, tuple[ClassPath, ...]]) -> Iterator[ReviewedObject]:
    """The subjects; after each custom resource, also its parts that name a PriorityClass."""
    for subject in subjects:
        yield subject
        for part in parts_of(subject.object, paths):
            yield subject._replace(part=part)


def _bounded(problems: Iterator[Problem]) -> Iterator[Problem]:
    """The first MAX_PROBLEMS problems, and one more with the number of others."""
    number = 0
    for number, problem in enumerate(islice(problems, MAX_PROBLEMS), 1):  # noqa: B007  (read after the loop)
        yield problem
    more = sum(1 for _ in islice(problems, _MAX_COUNTED)) if number == MAX_PROBLEMS else 0
    if more:
        count = f"more than {_MAX_COUNTED}" if more == _MAX_COUNTED else str(more)
        yield Problem(f"{count} more like these in this object", remediation="fix the reported ones first")


def _unevaluated(why: CutShort) -> Problem:
    """Return the problem that a rule was not evaluated. Names only the object, quotas of its namespace, and a limit."""
    if isinstance(why, TooLarge):
        return Problem(f"{_NOT_EVALUATED}{why}", remediation=why.excess.fix, detail=why.detail)
    return Problem(f"{_NOT_EVALUATED}{why}", remediation="try again")


def _unevaluated_action(action: Action, why: CutShort, subject: ReviewedObject, config: Config) -> Action:
    """Return the action for a rule that was not evaluated.

    If time was used up, a denial becomes a warning. If a limit stopped the rule, a denial remains, so that padding
    cannot bypass a rule; but updates of stored objects that request no more resources are only audited.
    """
    if not isinstance(why, TooLarge):
        return Action.WARN if action is Action.DENY else action
    return Action.AUDIT if action is Action.DENY and _adds_nothing(subject, config) else action


def _adds_nothing(subject: ReviewedObject, config: Config) -> bool:
    """Report whether an update leaves `spec` unchanged, or only removes Pods."""
    if subject.operation is not Operation.UPDATE or subject.old is None:
        return False
    if subject.object.get("spec") == subject.old.get("spec"):
        return True
    from forewarn.policies.kubernetes.controllers.changes import creates_no_pods  # only when something is too large

    with suppress(CutShort, InvalidObject):
        return creates_no_pods(subject, config.options.pod_template_paths, fewer=True)
    return False


_RULES_IN_FORCE: Final[dict[tuple[int, Target, Phase], tuple[Config, Sequence[tuple[Rule, Severity, Action]]]]] = {}
_MAX_IN_FORCE: Final = 64


def _enabled_rules(target: Target, phase: Phase, config: Config) -> Sequence[tuple[Rule, Severity, Action]]:
    """The enabled rules for a target, each with the severity and action of its findings. Cached by configuration."""
    key = id(config), target, phase
    in_force = _RULES_IN_FORCE.get(key)
    if in_force is None or in_force[0] is not config:
        if len(_RULES_IN_FORCE) >= _MAX_IN_FORCE:
            _RULES_IN_FORCE.clear()
        in_force = _RULES_IN_FORCE[key] = config, tuple(_enabled(target, phase, config))
    return in_force[1]


def _enabled(target: Target, phase: Phase, config: Config) -> Iterator[tuple[Rule, Severity, Action]]:
    foreign = (rule for rule in config.foreign if target in rule.TARGETS)
    for rule in (*_RULES_BY_TARGET[target], *foreign):
        severity, action = config.severity(rule), config.action(rule, target)
        default = rule.SEVERITY if phase is Phase.LINT else rule.ACTION
        if action is not Action.OFF and default is not None and config.runs(rule):
            yield rule, severity or Severity.ERROR, action


def strictest_action(kind: str, operation: Operation, config: Config) -> Action:
    """Return the strictest action of the webhook's rules for an object of this kind (`group/Kind`)."""
    target = _target_of(kind, operation) or Target.TEMPLATE
    actions = {action for _, _, action in _enabled_rules(target, Phase.VALIDATE, config)}
    if operation is Operation.DELETE and kind != registry.PRIORITY_CLASS:
        actions = {Action.WARN if action is Action.DENY else action for action in actions}
    return next((action for action in (Action.DENY, Action.WARN) if action in actions), Action.AUDIT)


def _target(subject: ReviewedObject, context: Context) -> Target | None:
    """Return the target whose rules apply to an object; None if no rules apply. Raises InvalidObject."""
    if subject.part:
        return Target.PART if subject.object else Target.UNRENDERED
    if _is_template_of_many(subject):
        return Target.FILE if subject is _FILES else Target.CLUSTER
    kind = group_kind(subject.object or subject.old or NOTHING)
    deleted = subject.operation is Operation.DELETE
    if subject.subresource or subject.operation is Operation.CONNECT or (deleted and kind != registry.PRIORITY_CLASS):
        return None
    if kind == registry.LIMIT_RANGE:
        from forewarn.policies.kubernetes.objects.resource_quota import LimitRange

        LimitRange.from_api(subject.object)  # no rule checks it, but rules about other objects use it
    kinds = _target_of(kind, subject.operation)
    if kinds is Target.POD and context.phase is Phase.LINT and is_static_pod(subject):
        return Target.STATIC_POD
    return kinds or (Target.TEMPLATE if _has_template(subject, context) else Target.OTHER)


def _target_of(kind: str, operation: Operation) -> Target | None:
    """Return the target for a kind; None if the target depends on the object."""
    if kind == registry.PRIORITY_CLASS:
        return Target.DELETED_PRIORITY_CLASS if operation is Operation.DELETE else Target.PRIORITY_CLASS
    if kind == registry.POD:
        return Target.UPDATED_POD if operation is Operation.UPDATE else Target.POD
    return _ALONE.get(kind)


def _has_template(subject: ReviewedObject, context: Context) -> bool:
    """Report whether an object has a Pod template. Raises InvalidObject.

    Also true if a template prints the Pod template, and if the object is too large for the cache: its rules then report
    that they were not evaluated.
    """
    try:
        is_printed = subject.is_partial and group_kind(subject.object) in context.options.pod_template_paths
        return is_printed or context.template(subject) is not None
    except TooLarge:
        return True


def _unreadable(subject: ReviewedObject, fault: InvalidObject, config: Config, context: Context) -> Iterator[Finding]:
    """Yield a finding for a field that rules cannot read; only in the linter.

    In the webhook, the API server has already decoded the object.
    """
    rule = parse_error if isinstance(fault, TooLarge) else value_rejected
    severity = config.linter_severity(rule)
    if context.phase is not Phase.LINT or severity is None:
        return
    if isinstance(fault, TooLarge):
        unevaluated = _finding(subject, _unevaluated(fault), rule.ID, Severity.WARNING, Action.WARN)
        yield unevaluated._replace(not_evaluated=True)
    elif not is_variable_at(subject, fault.path, fault.problem, context) and not is_capitals(
        at(subject.object, *fault.path)
    ):
        is_amount = "quantit" in fault.problem
        typed = quantity_fix(fault.path, str(at(subject.object, *fault.path))) if is_amount else TYPED
        problem = Problem(f"{field_path(fault.path)}: {fault.problem}", fault.path, fault.fix or typed)
        yield _finding(subject, problem, rule.ID, severity, Action.WARN)


def _finding(
    subject: ReviewedObject,
    problem: Problem,
    rule: str,
    severity: Severity,
    action: Action,
    reader: Callable[[], Audience] = lambda: OPEN,
) -> Finding:
    """The finding for a problem, with the full text and the text for the requester."""
    message, detail, harm, limited = problem.message, problem.detail, problem.harm, None
    if isinstance(message, str):
        full = Text(message, problem.remediation)
    elif isinstance(message, Text):
        full = message
    else:
        from forewarn.policies.linting.rules.support.details import harm_of
        from forewarn.policies.linting.rules.wording import document_of, text_of  # only if there is such a problem

        harm, later = harm_of(message), subject.ref.kind == "CronJob"
        full, detail, audience = text_of(message, OPEN, runs_later=later), document_of(message), reader()
        limited = full if audience is OPEN else text_of(message, audience, runs_later=later)
    if problem.is_incomplete:
        rule, action = INCOMPLETE, Action.WARN if action is Action.DENY else action
    return Finding(
        location=problem.location or subject.locate(problem.path),
        severity=severity if problem.severity is None else max(severity, problem.severity),
        rule=rule,
        object=problem.object or (NO_OBJECT if _is_template_of_many(subject) else subject.ref),
        text=full.limited(_MAX_CHARACTERS),
        action=Action.AUDIT if problem.severity is Severity.NOTE else action,
        path=cut(field_path(problem.path), _MAX_CHARACTERS),
        detail=detail,
        for_requester=None if limited in (None, full) else limited.limited(_MAX_CHARACTERS),
        not_evaluated=problem.is_incomplete,
        harm=harm,
        overlay=subject.overlay,
    )


def _with_rejection(finding: Finding) -> Finding:
    """Return a finding about an object with Pods; an error without another harm means that its Pods do not run."""
    is_rejection = finding.severity is Severity.ERROR and finding.harm == NO_HARM
    return finding._replace(harm=not_running()) if is_rejection else finding


_OF_ARRIVALS: Final = frozenset(
    rule.ID
    for rule in RULES
    if Target.CLUSTER not in rule.TARGETS and (rule.DEPENDS_ON.stored == ALL_SCHEDULED or rule.ID == "quota-exceeded")
)
"""Rules about new objects and their scheduling, which do not apply to stored objects."""


def stored_objects(cluster: ClusterSnapshot) -> Iterator[ReviewedObject]:
    """Yield the stored objects of a cluster as updates without changes.

    PriorityClasses, Namespaces, ResourceQuotas, PodDisruptionBudgets, PodGroups and top-level workloads. Pods are not
    included: their templates are, and rules about the whole cluster check Pods.
    """
    for _, priority_class in sorted(cluster.priority_classes.items()):
        yield _unchanged(priority_class.to_api())
    for _, namespace in sorted(cluster.namespaces.items()):
        metadata = {"name": namespace.name, "labels": namespace.labels, "annotations": namespace.annotations}
        yield _unchanged({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
    objects = cluster.objects
    for stored in (cluster.resource_quotas, objects.pdbs, objects.pod_groups, objects.group_templates):
        yield from (_unchanged(stored[key].to_api()) for key in sorted(stored))
    for _, workload in sorted(cluster.workloads.items()):
        if not any(workload.controller):
            yield _unchanged(workload.object)


def audit_request(
    cluster: ClusterSnapshot, config: Config, now: datetime, others: Iterable[ApiObject] = ()
) -> EvaluationRequest:
    """Return the request to check all objects of a cluster and `others`, and the cluster as a whole."""
    change_set = ChangeSet((*stored_objects(cluster), *map(_unchanged, others)))
    config = with_autoscaler(config, cluster)
    return EvaluationRequest(change_set, cluster, config, Phase.LINT, now, with_cluster_rules=True)


def with_autoscaler(config: Config, cluster: ClusterSnapshot) -> Config:
    """Return the configuration, which notes whether the cluster's autoscaler has a cutoff; Karpenter has none."""
    return config._replace(options=config.options._replace(has_cutoff=autoscaler_of(cluster) != KARPENTER))


def audit(request: EvaluationRequest) -> list[Finding]:
    """Return the findings of a cluster, the most severe first. `request`: see `audit_request`."""
    disabled = request.config.disabled_rules | _OF_ARRIVALS
    return _worst_first(evaluate(request._replace(config=request.config._replace(disabled_rules=disabled))))


def unsuppressed(
    findings: list[Finding], subjects: Sequence[ReviewedObject], config: Config, now: datetime
) -> tuple[list[Finding], int]:
    """Return the findings that are not suppressed, the most severe first, and the number of suppressed ones."""
    from forewarn.policies.linting.evaluation.suppressions import (
        annotation_suppressions,
        configuration_suppressions,
        suppress,
    )

    suppressions = [*annotation_suppressions(subjects), *configuration_suppressions(config.options.ignored)]
    if not suppressions:
        return findings, 0
    left, suppressed = suppress(findings, suppressions, config.linter_severity, now.date(), with_cluster=True)
    return _worst_first(left), suppressed


def _worst_first(findings: list[Finding]) -> list[Finding]:
    return sorted(findings, key=lambda f: (f.damage, f.rule, f.object, f.message, f.path))


def _unchanged(obj: ApiObject) -> ReviewedObject:
    return ReviewedObject(obj, Operation.UPDATE, old=obj)
