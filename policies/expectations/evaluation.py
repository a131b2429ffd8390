"""Evaluates an expectation: simulates each case; the first case that violates the expectation is the counterexample."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Final, NamedTuple

from forewarn.policies.controllers.recreated import sentence
from forewarn.policies.expectations.document import ANY
from forewarn.policies.findings import cut, listed, one_line, plural
from forewarn.policies.objects.fields import InvalidObject
from forewarn.policies.selectors import PodPattern
from forewarn.policies.simulation.summary import unsettled
from forewarn.policies.whatif import questions
from forewarn.policies.whatif.comparison import ask
from forewarn.policies.whatif.headroom import headroom

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from forewarn.policies.cluster.cache import ClusterSnapshot
    from forewarn.policies.expectations.document import Expectation, When
    from forewarn.policies.objects.fields import ApiObject
    from forewarn.policies.simulation.scenario import Arrival, World
    from forewarn.policies.whatif.answer import Answer, Bound, Preemption, WorkloadCount
    from forewarn.policies.whatif.questions import Question

_NAMED: Final = 5
_LONGEST: Final = 80
_LONGEST_MESSAGE: Final = 200
"""Maximum characters of a pattern in a note."""
_EMPTY: Final = '""'


class Setting(NamedTuple):
    """The input for expectations. `world`: returns the cluster with arrivals. `objects`: returns the objects that a
    file applies at time 0. `workloads`: returns the Pods and workloads of a file, with the cluster after the file's
    other objects. `max_cases`: maximum cases of one expectation.
    """

    cluster: ClusterSnapshot
    world: Callable[[Sequence[Arrival]], World]
    objects: Callable[[str], Sequence[Arrival]]
    workloads: Callable[[str], tuple[Sequence[ApiObject], ClusterSnapshot]]
    max_cases: int


class Verdict(NamedTuple):
    """The result of an expectation.

    `broken`: sentences about the violation; empty if met. `case`: the first case that violates the expectation.
    `answer`: the result of this case. `cases`: number of simulated cases. `unanswered`: parts of the expectation that
    select no Pod. `notes`: parts that may select no Pod. `assumes`: what the cluster state lacks, as clauses.
    """

    expectation: Expectation
    cases: int
    case: str = ""
    broken: Sequence[str] = ()
    answer: Answer | None = None
    unanswered: Sequence[str] = ()
    notes: Sequence[str] = ()
    assumes: Sequence[str] = ()


def evaluate(expectation: Expectation, setting: Setting) -> Verdict:
    """Evaluate an expectation. Raises InvalidObject, SourceError, ValueError.

    Errors: a referenced object does not exist, or there are too many cases.
    """
    assumed: dict[str, None] = {}
    if expectation.fit is not None:
        broken = list(_not_fitting(expectation, setting, assumed))
        if broken or not _needs_more(expectation):
            return Verdict(expectation, 1, "current cluster" if broken else "", broken, assumes=list(assumed))
    verdict, of_nobody, not_modelled = Verdict(expectation, 0), _patterns(expectation), dict[str, None]()
    for question in _questions(expectation.when, setting):
        answer = ask(question, setting.world(question.arrivals), without=False)
        verdict = verdict._replace(cases=verdict.cases + 1)
        assumed |= dict.fromkeys(answer.summary.assumes)
        not_modelled |= dict.fromkeys(answer.not_modelled)
        of_nobody = _without_pods(of_nobody, answer) if of_nobody else of_nobody
        if broken := list(_broken(expectation, answer)):
            verdict = verdict._replace(case=question.title, broken=broken, answer=answer)
            break
    unanswered, notes = list[str](), list[str]()
    for what, pattern in of_nobody.items():
        (notes if _may_be_empty(what, pattern, setting.cluster) else unanswered).append(_no_pod(what, pattern))
    notes += [*not_modelled][:_NAMED]
    return verdict._replace(unanswered=unanswered, notes=notes, assumes=list(assumed))


def _may_be_empty(what: str, pattern: PodPattern, cluster: ClusterSnapshot) -> bool:
    """Report whether a part of an expectation may select no Pod: only `by`, if a PriorityClass with its name exists."""
    known = (True for name in ("", *cluster.priority_classes) if fnmatchcase(name, pattern.priority_class or "*"))
    return what == "by" and any(known)


def _no_pod(what: str, pattern: PodPattern) -> str:
    return f"{what}: no Pod{_described(pattern)} exists"


def _patterns(expectation: Expectation) -> dict[str, PodPattern]:
    """Return the pattern of each part of an expectation, by the part's key."""
    by = expectation.by if expectation.by != PodPattern() else None
    parts = {
        "run": expectation.run,
        "noPending": expectation.pending,
        "noPreemption": expectation.preempted,
        "by": by,
    }
    return {what: pattern for what, pattern in parts.items() if pattern is not None}


def _without_pods(patterns: Mapping[str, PodPattern], answer: Answer) -> dict[str, PodPattern]:
    """Return the patterns that match no Pod, neither before nor after the event."""
    origins = answer.simulation.timeline.origins.values()
    pods = {(origin.namespace, origin.priority_class, origin.group) for origin in origins}
    return {what: pattern for what, pattern in patterns.items() if not any(pattern.matches(*pod) for pod in pods)}


def _described(pattern: PodPattern) -> str:
    """A pattern as a phrase: ` of class gold of workload shop/* in namespace shop`."""
    of_class = " without a class" if pattern.priority_class == "" else _named(" of class", pattern.priority_class)
    return of_class + _named(" of workload", pattern.workload) + _named(" in namespace", pattern.namespace)


def _named(what: str, name: str | None) -> str:
    return "" if name is None else f"{what} {cut(name, _LONGEST) or _EMPTY}"


def _needs_more(expectation: Expectation) -> bool:
    return any(part is not None for part in (expectation.run, expectation.pending, expectation.preempted))


def _questions(when: When, setting: Setting) -> Iterator[Question]:
    cluster = setting.cluster
    if not when.operation:
        yield questions.Question("current cluster")
    elif when.operation in ("apply", "delete"):
        yield _of_file(when, setting)
    elif when.operation == "scale":
        yield questions.scaled(cluster, when.name, when.replicas, when.namespace)
    else:
        names = _names(when, setting) if when.name == ANY else [when.name]
        yield from (_of_nodes(when, name, cluster) for name in names)


def _of_file(when: When, setting: Setting) -> Question:
    arrivals = setting.objects(when.name)
    if when.operation == "apply":
        return questions.Question(f"{when.name} applied", arrivals)
    return questions.deleted(setting.cluster, when.name, arrivals)


def _names(when: When, setting: Setting) -> list[str]:
    """The names of all nodes or zones. Raises ValueError if there are too many."""
    nodes = setting.cluster.objects.nodes.values()
    if when.what == "pool":
        raise ValueError("pool must be a selector: key=value")
    zones = {node.labels[questions.ZONE] for node in nodes if questions.ZONE in node.labels}
    names = sorted(zones if when.what == "zone" else {node.name for node in nodes})
    if not names:
        raise InvalidObject(f"the cluster has no {when.what}s")
    if len(names) > setting.max_cases:
        raise ValueError(f"any {when.what}: {len(names)} exist, more than --most {setting.max_cases}")
    return names


def _of_nodes(when: When, name: str, cluster: ClusterSnapshot) -> Question:
    if when.operation == "lost":
        lost = {"zone": questions.zone_lost, "pool": questions.pool_lost}.get(when.what)
        return lost(cluster, name) if lost else questions.nodes_lost(cluster, [name])
    if when.what == "node":
        return questions.drained(cluster, [name])
    nodes = [node.name for node in cluster.objects.nodes.values() if node.labels.get(questions.ZONE) == name]
    if not nodes:
        raise InvalidObject(f"no node in zone {name}")
    return questions.drained(cluster, sorted(nodes))


def _broken(expectation: Expectation, answer: Answer) -> Iterator[str]:
    if expectation.run is not None:
        yield from _not_running(expectation.run, expectation.within, answer)
    if expectation.pending is not None:
        for standing in answer.standings:
            if standing.pending and _is_selected(expectation.pending, standing, answer):
                yield f"{standing.workload}: {plural(standing.pending, 'Pod')} Pending: {standing.message}"
    if expectation.preempted is not None:
        yield from _preempted(expectation, answer)


def _is_selected(selector: PodPattern, pod: WorkloadCount | Bound | Preemption, answer: Answer) -> bool:
    """Report whether the pattern matches Pods of a workload; the workload's kind does not matter."""
    return selector.matches(pod.namespace, pod.priority_class, answer.summary.names.group(pod.workload))


def _not_running(selector: PodPattern, within: float | None, answer: Answer) -> Iterator[str]:
    for standing in answer.standings:
        if standing.missed and _is_selected(selector, standing, answer):
            reason = standing.message or standing.failure or sentence(standing.again, standing.kind)
            why = f": {reason}" if reason else ""
            yield f"{standing.workload}: {standing.before} → {standing.after} running Pods{why}"
    if not answer.summary.settled:
        what, fix = unsettled(answer.summary.stopped, answer.summary.horizon)
        yield f"simulation {what}. Fix: {fix}"
    for bound in answer.bound:
        if within is not None and bound.t > within and _is_selected(selector, bound, answer):
            yield f"{bound.workload}: its last Pod is scheduled after {bound.t:.0f} s, not within {within:.0f} s"


def _preempted(expectation: Expectation, answer: Answer) -> Iterator[str]:
    assert expectation.preempted is not None
    group = answer.summary.names.group
    hit = [
        preemption
        for preemption in answer.preemptions
        if _is_selected(expectation.preempted, preemption, answer)
        and expectation.by.matches(preemption.by_namespace, preemption.by_class, group(preemption.by_workload))
    ]
    if hit:
        named = listed([f"{preemption.victim} by {preemption.by}" for preemption in hit], _NAMED)
        yield f"{plural(len(hit), 'Pod is', 'Pods are')} preempted: {named}"


def _not_fitting(expectation: Expectation, setting: Setting, assumed: dict[str, None]) -> Iterator[str]:
    """Yield a sentence for each object of the expectation's file of which too few Pods fit. `assumed`: collects
    assumptions.
    """
    fit = expectation.fit
    assert fit is not None
    objects, cluster = setting.workloads(fit.file)
    for obj in objects:
        found = headroom(cluster, obj)
        assumed |= dict.fromkeys(found.assumes)
        count = found.pods[fit.preempting]
        if count.pods < fit.replicas:
            reasons = listed([f"{plural(nodes, 'node')}: {reason}" for reason, nodes in found.reasons])
            if found.quota is not None and found.quota.pods == count.pods:
                reasons = cut(one_line(found.quota.message), _LONGEST_MESSAGE)
            how = "with preemption" if fit.preempting else "without preemption"
            fitting = plural(count.pods, "more Pod fits", "more Pods fit")
            yield f"{found.name}: {fitting} {how}, expected {fit.replicas} ({reasons})"
