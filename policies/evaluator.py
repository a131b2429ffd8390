"""Runs the rules: the only caller of them. What they yield becomes findings, with the severity and action in force."""

from __future__ import annotations

from datetime import datetime
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Final

from policies.disclosure import EXACT, OPEN, Disclose, Shown
from policies.findings import NO_OBJECT, Action, Finding, Problem, RequesterText, Severity, cut, field_path, written
from policies.kinds import LIMIT_RANGE, NAMESPACE, POD, PRIORITY_CLASS, RESOURCE_QUOTA
from policies.metering import MOST_WORK, CutShort, TooLarge, metered, never
from policies.objects.fields import NOTHING, InvalidObject, group_kind
from policies.objects.reviewed_object import ChangeSet, Operation, ReviewedObject
from policies.objects.workload import parts_of
from policies.rules import RULES
from policies.rules.file import parse_error
from policies.rules.pod import class_not_allowed
from policies.rules.support.audience import audience_of
from policies.rules.support.context import Context, Phase, Target
from policies.rules.support.impact import Predicted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from policies.class_paths import ClassPath
    from policies.cluster import ClusterSnapshot
    from policies.config import Config
    from policies.disclosure import Audience
    from policies.objects.namespace import Namespace
    from policies.rules.support.context import Rule
    from policies.rules.support.impact import Impact, Recall

__all__ = ["Phase", "count_open", "evaluate", "impact_of"]

_FILES: Final = ReviewedObject(NOTHING)
_CLUSTER: Final = ReviewedObject(NOTHING)
_OF_MANY: Final = (_FILES, _CLUSTER)
"""What stands for more than one object: what is said of it names its own, and is as long as it has to be."""
_NEVER: Final = datetime.min
_ALONE: Final = {NAMESPACE: Target.NAMESPACE, RESOURCE_QUOTA: Target.RESOURCE_QUOTA}
MOST_PROBLEMS: Final = 10
"""Of one rule with one object; the rest is counted."""
_MOST_COUNTED: Final = 1_000
_MOST_CHARACTERS: Final = 2_000
"""Of a message."""
_NOT_EVALUATED: Final = "not evaluated: "
_RULES_BY_TARGET: Final[Mapping[Target, tuple[Rule, ...]]] = {
    target: tuple(rule for rule in RULES if target in rule.TARGETS) for target in Target
}


def evaluate(
    change_set: ChangeSet,
    cluster: ClusterSnapshot | None,
    config: Config,
    *,
    phase: Phase,
    now: datetime,
    expired: Callable[[], bool] = never,
    predicted: Callable[[Impact], object] = lambda _: None,
    recall: Recall | None = None,
    disclose: Disclose = Disclose.NAMES,
    shown: Callable[[], Shown] = lambda: EXACT,
    judged: Sequence[ReviewedObject] | None = None,
    whole_cluster: bool = False,
    most_work: int = MOST_WORK,
) -> list[Finding]:
    """Everything there is to say about an apply, in the order of the report and each thing once.

    `cluster` None: not known. `expired`: whether the time for what takes long (predictions) is used up; rules that only
    look things up always answer. `predicted` is told of every impact that was worked out, or recalled. `disclose`: what
    findings tell who asked (`Finding.for_requester`); their own texts name everything. `shown`: how much of a
    prediction findings tell; called when a text is written, which is after the prediction. `judged`: the objects of the
    change set that are judged; the others are there for what they define and use. `whole_cluster`: judge what the
    cluster is as a whole too. `most_work`: units (`policies.metering`) after which it is cut short whatever the time.
    """
    context = Context(change_set, cluster, config.options, phase, now, expired, _exempt(config, now), disclose, shown)
    predictions = context.once(Predicted, recall)
    with metered(expired, most_work):
        wholes = _OF_MANY if whole_cluster else _OF_MANY[:1]
        subjects = change_set.subjects if judged is None else judged
        subjects = (*wholes, *_parts(subjects, config.options.class_paths))
        findings = (finding for subject in subjects for finding in _judge(subject, context, config))
        found = {finding.order: finding for finding in findings}
    for impact in predictions.found:
        predicted(impact)
    return [found[key] for key in sorted(found)]


def _exempt(config: Config, now: datetime) -> Callable[[Namespace], bool]:
    """Whether everything in a namespace is exempt, whoever asks."""
    return lambda namespace: config.exemption(None, namespace, now) is not None


def impact_of(
    subject: ReviewedObject,
    cluster: ClusterSnapshot,
    config: Config,
    expired: Callable[[], bool] = never,
    recall: Recall | None = None,
) -> Impact | None:
    """What a subject's new pods would do to running ones; None where nothing new comes or no nodes are known."""
    context = Context(ChangeSet((subject,)), cluster, config.options, Phase.VALIDATE, _NEVER, expired)
    with metered(expired):
        return context.once(Predicted, recall).of(subject)


def count_open(
    change_set: ChangeSet,
    config: Config,
    cluster: ClusterSnapshot | None,
    now: datetime,
    judged: Sequence[ReviewedObject] | None = None,
) -> int:
    """How many objects class-not-allowed leaves unjudged: it depends on who applies them, or on unknown labels."""
    if not config.options.allowed_classes:
        return 0
    context = Context(change_set, cluster, config.options, Phase.LINT, now, lambda: False, _exempt(config, now))
    return sum(1 for subject in (change_set.subjects if judged is None else judged) if _is_open(subject, context))


def _is_open(subject: ReviewedObject, context: Context) -> bool:
    try:
        target = _target(subject, context)
        return target in class_not_allowed.TARGETS and class_not_allowed.is_open(subject, context)
    except InvalidObject:
        return False


def _judge(subject: ReviewedObject, context: Context, config: Config) -> list[Finding]:
    """What the rules say about one subject; a field that cannot be read is told once, by a rule where one names it."""
    findings: list[Finding] = []
    faults: list[InvalidObject] = []
    reader = partial(audience_of, subject, context)
    try:
        target = _target(subject, context)
        rules = () if target is None else tuple(_in_force(target, context.phase, config))
    except InvalidObject as fault:
        target, rules, faults = None, (), [fault.with_traceback(None)]
    for rule, severity, action in rules:
        try:
            problems = rule.check(subject, context)
            if not _stands_for_many(subject):
                problems = _bounded(problems)
            findings += (_finding(subject, p, rule.ID, severity, action, reader) for p in problems)
        except CutShort as why:
            action = _of_unevaluated(action, why, subject, config)
            why.with_traceback(None)  # one that is kept and raised again has frames that know it: a circle
            found = _finding(subject, _unevaluated(why), rule.ID, severity, action)
            findings.append(found._replace(not_evaluated=True))
        except InvalidObject as fault:
            faults.append(fault.with_traceback(None))  # its frames know this list: a circle
    named = {finding.path for finding in findings}
    findings += (
        f for fault in faults for f in _unreadable(subject, fault, config, context.phase) if f.path not in named
    )
    return findings


def _stands_for_many(subject: ReviewedObject) -> bool:
    return subject is _FILES or subject is _CLUSTER


def _parts(subjects: Sequence[ReviewedObject], paths: Mapping[str, tuple[ClassPath, ...]]) -> Iterator[ReviewedObject]:
    """The subjects, and behind a custom resource each place in it that names a class."""
    for subject in subjects:
        yield subject
        for part in parts_of(subject.object, paths):
            yield subject._replace(part=part)


def _bounded(problems: Iterator[Problem]) -> Iterator[Problem]:
    """The first problems that a rule has with one object, and how many more there are."""
    yield from islice(problems, MOST_PROBLEMS)
    more = sum(1 for _ in islice(problems, _MOST_COUNTED))
    if more:
        count = f"more than {_MOST_COUNTED}" if more == _MOST_COUNTED else str(more)
        yield Problem(f"{count} more like these in this object", remediation="fix the reported ones first")


def _unevaluated(why: CutShort) -> Problem:
    """That a rule was not evaluated. Its texts name nothing but the object, its namespace's quotas and a bound."""
    if isinstance(why, TooLarge):
        return Problem(f"{_NOT_EVALUATED}{why}", remediation=why.excess.fix, detail=why.detail)
    return Problem(f"{_NOT_EVALUATED}{why}", remediation="try again")


def _of_unevaluated(action: Action, why: CutShort, subject: ReviewedObject, config: Config) -> Action:
    """What becomes of an object that a rule did not evaluate.

    If time was up, a denial is a warning. If a bound stopped the rule, it stays a denial: padding must not get past
    one. An object that was stored before may still be changed where that asks for no more.
    """
    if not isinstance(why, TooLarge):
        return Action.WARN if action is Action.DENY else action
    return Action.AUDIT if action is Action.DENY and _asks_for_no_more(subject, config) else action


def _asks_for_no_more(subject: ReviewedObject, config: Config) -> bool:
    """Whether an update leaves what is evaluated of an object as it is, or takes Pods away."""
    if subject.operation is not Operation.UPDATE or subject.old is None:
        return False
    if subject.object.get("spec") == subject.old.get("spec"):
        return True
    from policies.controllers.changes import asks_for_no_pods  # only when something is too large

    try:
        return asks_for_no_pods(subject, config.options.pod_template_paths, fewer=True)
    except (CutShort, InvalidObject):
        return False


def _in_force(target: Target, phase: Phase, config: Config) -> Iterator[tuple[Rule, Severity, Action]]:
    """The rules to run, each with what becomes of its findings."""
    foreign = (rule for rule in config.foreign if target in rule.TARGETS)
    for rule in (*_RULES_BY_TARGET[target], *foreign):
        severity, action = config.severity(rule), config.action(rule, target)
        heard = rule.SEVERITY if phase is Phase.LINT else rule.ACTION
        if action is not Action.OFF and heard is not None and config.hears(rule):
            yield rule, severity or Severity.ERROR, action


def may_deny(kind: str, operation: Operation, config: Config) -> bool:
    """Whether a rule in force at the webhook could deny an object of this kind (`group/Kind`)."""
    if operation is Operation.DELETE and kind != PRIORITY_CLASS:
        return False
    target = _target_of(kind, operation) or Target.TEMPLATE
    return any(action is Action.DENY for _, _, action in _in_force(target, Phase.VALIDATE, config))


def _target(subject: ReviewedObject, context: Context) -> Target | None:
    """Which rules look at a subject; None: none of them. Raises InvalidObject."""
    if subject.part:
        return Target.PART if subject.object else Target.UNRENDERED
    if _stands_for_many(subject):
        return Target.FILE if subject is _FILES else Target.CLUSTER
    kind = group_kind(subject.object or subject.old or NOTHING)
    deleted = subject.operation is Operation.DELETE
    if subject.subresource or subject.operation is Operation.CONNECT or (deleted and kind != PRIORITY_CLASS):
        return None
    if kind == LIMIT_RANGE:
        from policies.objects.limit_range import LimitRange

        LimitRange.from_api(subject.object)  # no rule is about it, but others count with it
    known = _target_of(kind, subject.operation)
    return known or (Target.TEMPLATE if _holds_a_template(subject, context) else Target.OTHER)


def _target_of(kind: str, operation: Operation) -> Target | None:
    """What rules call a kind; None: that depends on the object."""
    if kind == PRIORITY_CLASS:
        return Target.DELETED_PRIORITY_CLASS if operation is Operation.DELETE else Target.PRIORITY_CLASS
    if kind == POD:
        return Target.UPDATED_POD if operation is Operation.UPDATE else Target.POD
    return _ALONE.get(kind)


def _holds_a_template(subject: ReviewedObject, context: Context) -> bool:
    """Whether a subject has a pod template. One that is stored and not kept counts: rules say that it is not evaluated.
    Raises InvalidObject."""
    try:
        return context.template(subject) is not None
    except TooLarge:
        return True


def _unreadable(subject: ReviewedObject, fault: InvalidObject, config: Config, phase: Phase) -> Iterator[Finding]:
    """A field that no rule can make sense of. At the webhook the API server has decoded the object before us."""
    severity = config.severity(parse_error)
    if phase is Phase.LINT and severity is not None and config.hears(parse_error):
        problem = Problem(f"{field_path(fault.path)}: {fault.problem}", fault.path, "write a value of this type")
        yield _finding(subject, problem, parse_error.ID, severity, Action.WARN)


def _finding(
    subject: ReviewedObject,
    problem: Problem,
    rule: str,
    severity: Severity,
    action: Action,
    reader: Callable[[], Audience] = lambda: OPEN,
) -> Finding:
    """A problem as a finding, in full and in the words for who asked: here, so that no rule can forget it."""
    full = told = RequesterText(written(problem.message, OPEN), written(problem.remediation, OPEN))
    if full != (problem.message, problem.remediation):  # written for its reader
        audience = reader()
        told = RequesterText(written(problem.message, audience), written(problem.remediation, audience))
    return Finding(
        location=problem.location or subject.locate(problem.path),
        severity=severity if problem.severity is None else max(severity, problem.severity),
        rule=rule,
        object=problem.object or (NO_OBJECT if _stands_for_many(subject) else subject.ref),
        message=cut(full.message, _MOST_CHARACTERS),
        remediation=cut(full.remediation, _MOST_CHARACTERS),
        action=Action.AUDIT if problem.severity is Severity.NOTE else action,
        path=cut(field_path(problem.path), _MOST_CHARACTERS),
        detail=problem.detail,
        for_requester=None if told == full else RequesterText(*(cut(text, _MOST_CHARACTERS) for text in told)),
    )
