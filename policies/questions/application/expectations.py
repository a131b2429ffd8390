"""Expectations: lists of `{name, when, expect}` in YAML or JSON (docs/guides/test-a-cluster.md).

`test` simulates each case of an expectation; the first case that violates the expectation is the counterexample.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

from forewarn.policies.base.documents import Shard, in_json, inlined_in_json, json_of
from forewarn.policies.base.documents.answer import AnswerDocument, AnswerStatus, Cause, Counter, Rows, Table, Why
from forewarn.policies.base.findings import brief, cut, listed, plural
from forewarn.policies.base.process_pool import mapped
from forewarn.policies.inputs.manifests.documents import Fault
from forewarn.policies.inputs.manifests.reading import values
from forewarn.policies.inputs.sources.files import PathLike, SourceError, find_files, fspath, read_file
from forewarn.policies.kubernetes.cluster.cache import ClusterSnapshot, Result, head_of
from forewarn.policies.kubernetes.controllers.own_pods import sentence
from forewarn.policies.kubernetes.durations import seconds
from forewarn.policies.kubernetes.objects.fields import InvalidObject, group_kind, json_type
from forewarn.policies.kubernetes.objects.node import ZONE
from forewarn.policies.kubernetes.scheduling.reasons import shorten
from forewarn.policies.kubernetes.selectors import PodPattern
from forewarn.policies.linting.config.load import place_of_entry
from forewarn.policies.prediction.forecast.why_not import node_phrases
from forewarn.policies.prediction.simulation.scenario import Arrival, DumpCache, EntryFault, World
from forewarn.policies.prediction.simulation.summary import Summary, random_of, timeline_rows, unsettled
from forewarn.policies.questions.application.cluster import Cluster, Progress, counted_results
from forewarn.policies.questions.application.manifests import applied, with_manifests
from forewarn.policies.questions.application.places import Places
from forewarn.policies.questions.application.simulated import AT_ONCE, admit_at_once, checked, rejected, world_with
from forewarn.policies.questions.whatif import DEFAULT_UNTIL, questions
from forewarn.policies.questions.whatif.comparison import ask
from forewarn.policies.questions.whatif.headroom import headroom
from forewarn.policies.questions.whatif.repetition import (
    RUNS,
    depends_on_chance,
    has_contention,
    has_draws,
    is_contended,
    without_names,
)

if TYPE_CHECKING:
    from forewarn.policies.questions.whatif.answer import Answer, Bound, Preemption, WorkloadCount
    from forewarn.policies.questions.whatif.questions import Question

ANY: Final = "any"
MAX: Final = 10_000
"""Maximum number of expectations of one run."""
_MAX_LENGTH: Final = 1000
"""Maximum characters of a text."""
_SHOWN: Final = 80
"""Maximum characters of a text in a message."""
_WHEN: Final = {
    "lost": ("zone", "node", "pool"),
    "drain": ("node", "zone"),
    "scale": ("workload", "namespace", "replicas"),
    "apply": (),
    "delete": (),
}
MAX_TIMELINE: Final = 30
"""Maximum number of lines of a counterexample."""
_SELECTED: Final = {"run": "run", "noPending": "pending", "noPreemption": "preempted", "by": "by"}
"""Key of a part of an expectation that selects Pods -> its field."""
_SELECTOR: Final = ("namespace", "class", "workload")
_NAMED: Final = 5
_MAX_MESSAGE_LENGTH: Final = 200
_EMPTY: Final = '""'


class When(NamedTuple):
    """The event of an expectation: `operation` on `what` (`zone`, `node`, `pool`, `workload`, `file`) with a `name`,
    or `any`. `namespace`: "" if not given.
    """

    operation: str = ""
    what: str = ""
    name: str = ""
    namespace: str = ""
    replicas: int = 0


class Fit(NamedTuple):
    """The expectation that `replicas` more Pods like those of a file fit."""

    file: str
    replicas: int
    preempting: bool = False


class Expectation(NamedTuple):
    """What must hold after the changes of `when`, by a file of `forewarn test`.

    `run`: these Pods run at the end as before, `within` a number of seconds. `pending`: none of these Pods is
    Pending. `preempted`: none of these Pods is preempted by a Pod of `by`. `fit`: see Fit.
    """

    name: str
    line: int
    when: When = When()
    run: PodPattern | None = None
    within: float | None = None
    pending: PodPattern | None = None
    preempted: PodPattern | None = None
    by: PodPattern = PodPattern()
    fit: Fit | None = None


def read_expectations(values: Iterable[tuple[Any, int]]) -> Iterator[Expectation]:
    """Yield the expectations of a file's documents, lists or entries. Raises ValueError, which names the entry."""
    number = 0
    for value, line in values:
        for entry in value if isinstance(value, list) else [value]:
            number += 1
            if number > MAX:
                raise ValueError(f"more than {MAX} expectations")
            try:
                yield _expectation(entry, line)
            except ValueError as fault:
                name = entry.get("name") if isinstance(entry, dict) else None
                named = f" ({cut(name, _SHOWN)})" if isinstance(name, str) else ""
                raise EntryFault(number, f"expectation {number}{named}: {fault}") from None


def _expectation(entry: Any, line: int) -> Expectation:
    fields = _object(entry, "an expectation", ("name", "when", "expect"))
    name = _text(fields.get("name"), "name")
    when = _parse_when(_object(fields.get("when") or {}, "when", tuple(_WHEN)))
    expected = _object(fields.get("expect"), "expect", ("run", "within", "noPending", "noPreemption", "by", "fit"))
    given: dict[str, Any] = {_SELECTED[key]: _selector(expected[key], key) for key in _SELECTED if key in expected}
    if "within" in expected:
        given["within"] = seconds(expected["within"], "within")
    if "fit" in expected:
        given["fit"] = _fit(expected["fit"])
    return _checked(Expectation(name, line, when, **given))


def _checked(expectation: Expectation) -> Expectation:
    if not _needs_more(expectation) and expectation.fit is None:
        raise ValueError("expect must have one of run, noPending, noPreemption, fit")
    if expectation.within is not None and expectation.run is None:
        raise ValueError("within needs run")
    if expectation.by != PodPattern() and expectation.preempted is None:
        raise ValueError("by needs noPreemption")
    if expectation.fit is not None and expectation.when.operation:
        raise ValueError("fit is evaluated on the current cluster. Fix: remove when")
    return expectation


def _parse_when(condition: Mapping[str, Any]) -> When:
    if not condition:
        return When()
    if len(condition) > 1:
        raise ValueError(f"when must have one of {', '.join(_WHEN)}")
    ((operation, value),) = condition.items()
    if operation in ("apply", "delete"):
        return When(operation, "file", _text(value, operation))
    fields = _object(value, operation, _WHEN[operation])
    if operation == "scale":
        workload = _text(fields.get("workload"), "workload")
        namespace = _text(fields["namespace"], "namespace") if "namespace" in fields else ""
        return When(operation, "workload", workload, namespace, _count(fields, "replicas"))
    if len(fields) != 1:
        raise ValueError(f"{operation} must have one of {', '.join(_WHEN[operation])}")
    ((what, name),) = fields.items()
    return When(operation, what, _text(name, what))


def _fit(value: Any) -> Fit:
    fields = _object(value, "fit", ("file", "replicas", "preempting"))
    preempting = fields.get("preempting", False)
    if not isinstance(preempting, bool):
        raise ValueError("preempting must be true or false")
    return Fit(_text(fields.get("file"), "file"), _count(fields, "replicas"), preempting)


def _selector(value: Any, what: str) -> PodPattern:
    fields = _object(value, what, _SELECTOR)
    return PodPattern(*(None if name not in fields else _text(fields[name], name, empty=True) for name in _SELECTOR))


def _object(value: Any, what: str, allowed: tuple[str, ...]) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise ValueError(f"{what} must be an object, not {json_type(value)}")
    extra = sorted(str(key) for key in value if key not in allowed)
    if extra:
        raise ValueError(f'unknown key "{cut(extra[0], _SHOWN)}" in {what}; known: {", ".join(allowed)}')
    return value


def _text(value: Any, what: str, *, empty: bool = False) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{what} must be a string, not {json_type(value)}")
    if not (value or empty) or len(value) > _MAX_LENGTH:
        raise ValueError(f"{what} must have {0 if empty else 1} to {_MAX_LENGTH} characters")
    return value


def _count(fields: Mapping[str, Any], what: str) -> int:
    value = fields.get(what)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 2**31:
        raise ValueError(f"{what} must be a whole number from 0 to {2**31 - 1}")
    return value


def _evaluated(item: Given, state: _State, places: Places) -> tuple[Tested, list[str]]:
    """Evaluate an expectation; also return clauses about missing cluster state. Raises InvalidObject, SourceError and
    ValueError if a referenced object does not exist, or there are too many cases.
    """
    expectation, assumed = item.expectation, dict[str, None]()
    name = expectation.name
    if expectation.fit is not None:
        broken = list(_not_fitting(item, expectation.fit, state, places, assumed))
        if broken or not _needs_more(expectation):
            return Tested(name, 1, "current cluster" * bool(broken), broken, [] if broken else None), list(assumed)
    result, of_nobody, not_modelled = Tested(name, 0), _patterns(expectation), dict[str, None]()
    incomplete, drawn = dict[str, None](), 0
    cases = [*_questions(item, state, places)]
    for question in cases:
        result = result._replace(cases=result.cases + 1)
        for run, answer in _runs(question, state.world(question.arrivals), RUNS // len(cases)):
            simulation = answer.after.simulation
            drawn += not run and has_contention(simulation) and has_draws(simulation)
            assumed |= dict.fromkeys(answer.after.summary.assumes)
            not_modelled |= dict.fromkeys((*answer.after.not_modelled, *map(str, answer.after.summary.left_out)))
            incomplete |= dict.fromkeys(_incomplete(answer.after.summary))
            of_nobody = _without_pods(of_nobody, answer) if of_nobody else of_nobody
            if broken := list(_broken(expectation, answer)):
                by_chance = f" (chance decides: run {run})" if run else ""
                lines = [f"{at}  {event}" for at, event in timeline_rows(simulation)]
                lines[MAX_TIMELINE:] = [f"and {len(lines) - MAX_TIMELINE} more lines"] * (len(lines) > MAX_TIMELINE)
                result = result._replace(case=f"{question.title}{by_chance}", failures=broken, timeline=lines)
                result = result._replace(answer=json_of(answer))
                break
        if result.failures:
            break
    unanswered, notes = [*incomplete][:_NAMED], list[str]()
    for what, pattern in of_nobody.items():
        problem = f"{what}: no Pod{_described(pattern)} exists"
        (notes if _may_be_empty(what, pattern, state.cluster) else unanswered).append(problem)
    notes += [*not_modelled][:_NAMED]
    if drawn:
        notes.append(f"chance decides in {plural(drawn, 'case')} of one run: another run may violate the expectation")
    if state.request.allow_empty:
        unanswered, notes = [], unanswered + notes
    return result._replace(not_evaluated=unanswered, notes=notes), list(assumed)


def _runs(question: Question, world: World, runs: int) -> Iterator[tuple[int, Answer]]:
    """Yield 0 and the answer of one run; if chance decides, the numbers and answers of random runs, unless these are
    fewer than two.
    """
    first = ask(question, world, without=False)
    if runs < 2 or not is_contended(first) or not depends_on_chance(question, world := without_names(world)):
        yield 0, first
        return
    for run in range(1, runs + 1):
        yield run, ask(question, world, without=False, random=random_of(0, run))


def _incomplete(summary: Summary) -> Iterator[str]:
    """Yield what a limit of the simulation leaves out, if this may change the result."""
    if summary.stopped:
        yield f"simulation stopped {summary.stopped}"
    yield from (f"not simulated: {each}" for each in summary.left_out if not each.pending)


def _may_be_empty(what: str, pattern: PodPattern, cluster: ClusterSnapshot) -> bool:
    """Report whether a part of an expectation may select no Pod: only `by`, if a PriorityClass with its name exists."""
    matches = (True for name in ("", *cluster.priority_classes) if fnmatchcase(name, pattern.priority_class or "*"))
    return what == "by" and any(matches)


def _patterns(expectation: Expectation) -> dict[str, PodPattern]:
    """Return the pattern of each part of an expectation, by the part's key."""
    parts = {what: getattr(expectation, name) for what, name in _SELECTED.items()}
    return {what: part for what, part in parts.items() if part is not None and (what, part) != ("by", PodPattern())}


def _without_pods(patterns: Mapping[str, PodPattern], answer: Answer) -> dict[str, PodPattern]:
    """Return the patterns that match no Pod, neither before nor after the event."""
    origins = answer.after.simulation.timeline.origins.values()
    pods = {(origin.namespace, origin.priority_class, origin.group) for origin in origins}
    return {what: pattern for what, pattern in patterns.items() if not any(pattern.matches(*pod) for pod in pods)}


def _described(pattern: PodPattern) -> str:
    """A pattern as a phrase: ` of class gold of workload shop/* in namespace shop`."""
    of_class = " without a class" if pattern.priority_class == "" else ""
    names = {
        "of class": pattern.priority_class or None,
        "of workload": pattern.workload,
        "in namespace": pattern.namespace,
    }
    shown = (f" {what} {cut(name, _SHOWN) or _EMPTY}" for what, name in names.items() if name is not None)
    return of_class + "".join(shown)


def _needs_more(expectation: Expectation) -> bool:
    return any(part is not None for part in (expectation.run, expectation.pending, expectation.preempted))


def _questions(item: Given, state: _State, places: Places) -> Iterator[Question]:
    when, cluster = item.expectation.when, state.cluster
    if not when.operation:
        yield questions.Question("current cluster")
    elif when.operation in ("apply", "delete"):
        yield _file_question(item, state, places)
    elif when.operation == "scale":
        yield questions.scaled(cluster, when.name, when.replicas, when.namespace or state.request.namespace)
    else:
        names = _names(when, state) if when.name == ANY else [when.name]
        yield from (_node_question(when, name, cluster) for name in names)


def _file_question(item: Given, state: _State, places: Places) -> Question:
    when = item.expectation.when
    arrivals = [*applied([item.path(when.name)], state.request.namespace, places)]
    if when.operation == "apply":
        return questions.Question(f"{when.name} applied", arrivals)
    return questions.deleted(state.cluster, when.name, arrivals)


def _names(when: When, state: _State) -> list[str]:
    """The names of all nodes or zones. Raises ValueError if there are too many."""
    nodes = state.cluster.objects.nodes.values()
    if when.what == "pool":
        raise ValueError("pool must be a selector: key=value")
    zones = {node.labels[ZONE] for node in nodes if ZONE in node.labels}
    names = sorted(zones if when.what == "zone" else {node.name for node in nodes})
    if not names:
        raise questions.nothing_to_lose(when.what)
    if len(names) > state.request.most:
        raise ValueError(f"any {when.what}: {len(names)} exist, more than --most {state.request.most}")
    return names


def _node_question(when: When, name: str, cluster: ClusterSnapshot) -> Question:
    if when.operation == "lost":
        lost = {"zone": questions.zone_lost, "pool": questions.pool_lost}.get(when.what)
        return lost(cluster, name) if lost else questions.nodes_lost(cluster, [name])
    if when.what == "node":
        return questions.drained(cluster, [name])
    nodes = [node.name for node in cluster.objects.nodes.values() if node.labels.get(ZONE) == name]
    if not nodes:
        raise InvalidObject(f"no node in zone {name}")
    return questions.drained(cluster, sorted(nodes))


def _broken(expectation: Expectation, answer: Answer) -> Iterator[str]:
    if expectation.run is not None:
        yield from _not_running(expectation.run, expectation.within, answer)
    if expectation.pending is not None:
        for standing in answer.after.workloads:
            if standing.pending and _is_selected(expectation.pending, standing, answer):
                yield _pending(standing)
    if expectation.preempted is not None:
        yield from _preempted(expectation, answer)


def _pending(standing: WorkloadCount) -> str:
    reason = f": {shorten(standing.message)}" if standing.message else ""
    return f"{standing.workload}: {plural(standing.pending, 'Pod')} Pending{reason}"


def _is_selected(selector: PodPattern, pod: WorkloadCount | Bound | Preemption, answer: Answer) -> bool:
    """Report whether the pattern matches Pods of a workload; the workload's kind does not matter."""
    return selector.matches(pod.namespace, pod.priority_class, answer.after.summary.names.group(pod.workload))


def _not_running(selector: PodPattern, within: float | None, answer: Answer) -> Iterator[str]:
    for standing in answer.after.workloads:
        if standing.before - standing.after > standing.with_node and _is_selected(selector, standing, answer):
            reason = shorten(standing.message) or standing.failure or sentence(standing.again, standing.kind)
            reason = reason or (standing.left and "new Pods of another scheduler are not simulated") or ""
            why = f": {reason}" if reason else ""
            yield f"{standing.workload}: {standing.before} → {standing.after} running Pods{why}"
        elif within is not None and standing.not_started and _is_selected(selector, standing, answer):
            yield _pending(standing)
    if not answer.after.summary.steady:
        what, fix = unsettled(answer.after.summary.stopped, answer.after.summary.horizon)
        yield f"simulation {what}. Fix: {fix}"
    for bound in answer.after.bound:
        if within is not None and bound.t > within and _is_selected(selector, bound, answer):
            yield f"{bound.workload}: its last Pod is scheduled after {bound.t:.0f} s, not within {within:.0f} s"


def _preempted(expectation: Expectation, answer: Answer) -> Iterator[str]:
    assert expectation.preempted is not None
    group = answer.after.summary.names.group
    hit = [
        preemption
        for preemption in answer.after.preempted
        if _is_selected(expectation.preempted, preemption, answer)
        and expectation.by.matches(preemption.by_namespace, preemption.by_class, group(preemption.by_workload))
    ]
    if hit:
        named = listed([f"{preemption.victim} by {preemption.by}" for preemption in hit], _NAMED)
        yield f"{plural(len(hit), 'Pod is', 'Pods are')} preempted: {named}"


def _not_fitting(item: Given, fit: Fit, state: _State, places: Places, assumed: dict[str, None]) -> Iterator[str]:
    """Yield a sentence for each object of the file that has too few fitting Pods. `assumed`: collects assumptions."""
    objects, cluster = with_manifests(state.cluster, item.path(fit.file), state.request.namespace, places)
    for obj in objects:
        room = headroom(cluster, obj)
        assumed |= dict.fromkeys(room.assumes)
        count = room.pods[fit.preempting]
        if count.pods < fit.replicas:
            reasons = listed(node_phrases(room.reasons))
            if room.quota is not None and room.quota.pods == count.pods:
                reasons = brief(room.quota.message, _MAX_MESSAGE_LENGTH)
            how = "with preemption" if fit.preempting else "without preemption"
            fitting = plural(count.pods, "more Pod fits", "more Pods fit")
            yield f"{room.name}: {fitting} {how}, expected {fit.replicas} ({reasons})"


class Tested(NamedTuple):
    """The result of one expectation.

    `cases`: number of evaluated cases. `case`: the first case that violates the expectation. `failures`: the
    violations. `timeline`: the events of this case, as lines. `answer`: this case, as in `whatif`. `notEvaluated`:
    parts of the expectation that select no Pod; if there are any, the expectation is not met. `notes`: limits of the
    result.
    """

    name: str
    cases: int
    case: str = ""
    failures: Sequence[str] = ()
    timeline: Sequence[str] | None = None
    answer: Mapping[str, Any] | None = None
    not_evaluated: Sequence[str] = ()
    notes: Sequence[str] = ()

    @in_json
    def met(self) -> bool:
        return not self.failures and not self.not_evaluated


@dataclass(frozen=True, repr=False)
class Expectations(Result):
    """The output of `forewarn test`. `shard`: of a part of a divided run."""

    version: Literal[1] = field(default=1, kw_only=True)
    expectations: Sequence[Tested]
    shard: Shard | None = None

    @inlined_in_json
    def document(self) -> AnswerDocument:
        failed = sum(bool(result.failures) for result in self.expectations)
        unanswered = sum(bool(result.not_evaluated) for result in self.expectations)
        counts = {"met": sum(result.met for result in self.expectations), "failed": failed, "not evaluated": unanswered}
        cases = sum(result.cases for result in self.expectations)
        bad = [f"{counts[name]:,} {name}" for name in ("failed", "not evaluated") if counts[name]]
        return AnswerDocument(
            status=AnswerStatus.NO_ANSWER if unanswered else AnswerStatus.HARM if failed else AnswerStatus.OK,
            question=plural(len(self.expectations), "expectation"),
            clause=", ".join(bad) or "all met",
            shown=[Counter(name, number) for name, number in {**counts, "cases": cases}.items()],
            warnings=[*_warnings(self.expectations)],
            why=_why(self.expectations),
            tables=[*_tables(self.expectations)],
            more=["-v violations, counterexamples and met expectations"],
        )


def _why(results: Sequence[Tested]) -> Why:
    """The first violation of each failed expectation, and the number of its other violations; if none failed, why
    expectations are not evaluated.
    """
    failed = [(result, result.failures) for result in results if result.failures]
    heads = ("failed", "VIOLATION", "VIOLATIONS")
    if not failed:
        failed = [(result, result.not_evaluated) for result in results if result.not_evaluated]
        heads = ("not evaluated", "PART IS NOT EVALUATED", "PARTS ARE NOT EVALUATED")
    causes = [
        Cause(
            len(texts),
            "expectation",
            f"{': '.join(filter(None, (result.name, result.case)))}: {texts[0]}"
            f"{f'; {len(texts) - 1} more: -v' if texts[1:] else ''}",
        )
        for result, texts in failed
    ]
    total = sum(cause.number for cause in causes)
    return Why(heads[0], total, plural(total, *heads[1:]), causes)


def _warnings(results: Sequence[Tested]) -> Iterator[str]:
    yield from dict.fromkeys(f"{result.name}: {note}" for result in results for note in result.notes)
    if any(result.not_evaluated for result in results):
        yield "Fix: correct the class, namespace or workload; --allow-empty accepts expectations that select no Pod"


def _tables(results: Sequence[Tested]) -> Iterator[Table]:
    """Yield a row for each violation and each part that is not evaluated; with -v counterexamples and all results."""
    rows: Rows = []
    for result in results:
        rows += [["failed", result.name, result.case, text] for text in result.failures]
        rows += [["not evaluated", result.name, "", text] for text in result.not_evaluated]
    yield Table(("RESULT", "EXPECTATION", "CASE", "VIOLATION"), rows, detail=1)
    for result in results:
        title = f"COUNTEREXAMPLE OF {result.name}: {result.case}"
        yield Table(("EVENT",), [[line.strip()] for line in result.timeline or ()], detail=1, title=title)
    met: Rows = [[result.name, result.cases] for result in results if result.met]
    yield Table(("MET", "CASES"), met, detail=1)


def from_dict(document: Any) -> Tested:
    """The result in a JSON document. Raises ValueError for other input."""
    if not isinstance(document, dict):
        raise ValueError("a test result must be an object")
    name, cases, answer = (document.get(key) for key in ("name", "cases", "answer"))
    case = document.get("case", "")
    parts = [document.get(key, []) for key in ("failures", "timeline", "notEvaluated", "notes")]
    texts = all(isinstance(part, list) and all(isinstance(t, str) for t in part) for part in parts)
    broken, lines, unanswered, notes = parts
    if not isinstance(name, str) or not isinstance(case, str) or not isinstance(cases, int):
        raise ValueError("a test result must have name, cases and case")
    if not texts or not isinstance(answer, dict | None) or document.get("met") is bool(broken or unanswered):
        raise ValueError("a test result must have consistent met, failures and notEvaluated")
    timeline = lines[: MAX_TIMELINE + 1] if broken else None
    return Tested(name, cases, case, broken, timeline, answer, unanswered, notes)


MAX_CASES: Final = 100


class Given(NamedTuple):
    """An expectation, and the directory of the files that it names."""

    directory: str
    expectation: Expectation

    def path(self, name: str) -> str:
        return posixpath.join(self.directory, name)


@dataclass(frozen=True, slots=True)
class ExpectationsRequest:
    """Files or directories with expectations.

    `most`: maximum number of cases of one expectation. `allow_empty`: parts that select no Pod count as met.
    `until`: simulated seconds. `namespace`: namespace of objects that name none.
    """

    paths: Sequence[str | PathLike[str]]
    namespace: str = "default"
    until: float = DEFAULT_UNTIL
    most: int = MAX_CASES
    allow_empty: bool = False
    given: Sequence[Given] = ()
    """Expectations that have been read."""


def expectations_in(paths: Iterable[str | PathLike[str]]) -> list[Given]:
    """Return the expectations in files and directories. Raises SourceError."""
    return [given for path in paths for given in _expectations_at(fspath(path))]


def _expectations_at(path: str) -> Iterator[Given]:
    is_empty = True
    for file in find_files([path]):
        data = read_file(file)
        try:
            for expectation in read_expectations(values(data, file.name)):
                is_empty = False
                yield Given(posixpath.dirname(file.path), expectation)
        except Fault as fault:
            raise SourceError(file.name, fault.message, fault.start) from None
        except EntryFault as fault:
            raise SourceError(file.name, str(fault), *place_of_entry(data, fault.number)) from None
        except ValueError as fault:
            raise SourceError(file.name, str(fault)) from None
    if is_empty:
        raise SourceError(path, "no expectations found", fix="write a list of {name, when, expect}")


def test(
    cluster: Cluster,
    request: ExpectationsRequest | str | PathLike[str] | Sequence[str | PathLike[str]],
    *,
    part: Callable[[Sequence[Given]], Sequence[Given]] = lambda items: items,  # noqa: PT028  (pytest does not run it)
    progress: Progress | None = None,  # noqa: PT028
) -> Expectations:
    """Evaluate expectations, on all CPUs. `request`: an ExpectationsRequest, or its paths alone.

    `part`: selects expectations. Raises SourceError and InvalidObject.
    """
    if not isinstance(request, ExpectationsRequest):
        request = ExpectationsRequest([request] if isinstance(request, str | PathLike) else request)
    state, given = _State(cluster.cache, request), part([*request.given, *expectations_in(request.paths)])
    if any(one.expectation.fit is None for one in given):
        state.world([])  # one cache for all expectations
    results, assumed = list[Tested](), dict[str, None]()

    def evaluated(report: Callable[..., None]) -> Iterator[Any]:
        return mapped(given, lambda one: _result(one, state), waiting=report)

    for result, assumes in counted_results(evaluated, len(given), progress):
        results.append(result)
        assumed |= dict.fromkeys(assumes)
    return Expectations(head_of(cluster.snapshot, assumed), results)


def _result(item: Given, state: _State) -> tuple[Tested, Sequence[str]]:
    """Return the result of one expectation, and its assumptions. Raises InvalidObject."""
    places = Places()
    try:
        return _evaluated(item, state, places)
    except (InvalidObject, ValueError) as fault:
        raise InvalidObject(f"{item.expectation.name}: {places.located(fault)}") from None


class _State:
    """The cluster, its World without arrivals, and what to evaluate."""

    def __init__(self, cache: DumpCache, request: ExpectationsRequest) -> None:
        self._cache, self.request, self.cluster = cache, request, cache.snapshot()
        self._world: World | None = None

    def world(self, arrivals: Sequence[Arrival]) -> World:
        """Return the World to simulate: the cluster with these arrivals. Raises InvalidObject."""
        at_once = any(group_kind(arrival.object) in AT_ONCE for arrival in arrivals)
        cache = self._cache.copy() if at_once else self._cache
        for _, fault in admit_at_once(cache, arrivals) if at_once else ():
            raise fault
        for _, fault in rejected(cache.snapshot(), *checked(arrivals)):
            raise fault
        if at_once:
            return world_with(cache, arrivals, self.request.until)
        if self._world is None:
            self._world = world_with(cache, [], self.request.until)
        return self._world._replace(arrivals=sorted(arrivals, key=lambda arrival: arrival.at))
