"""The lines of `forewarn why`."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from forewarn.policies.application.why import PodWhy, WorkloadWhy
from forewarn.policies.findings import first_line, grouped, listed, plural, shortened
from forewarn.policies.forecast.aftermath import MAX_PENDING
from forewarn.policies.why.evidence import shown_time

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from forewarn.policies.render import Painter
    from forewarn.policies.why.troubles import Diagnosis, PendingPods, PodEnd, Timeline

_MAX_SHOWN: Final = 20


_OTHERS_KNOW: Final = {"not-predicted", "other-scheduler", "disrupted"}
"""Problems that only the messages of the cluster explain."""


def lines(result: PodWhy | WorkloadWhy, paint: Painter, *, verbose: bool = False) -> Iterator[str]:
    """Yield the lines of an answer. `verbose`: include the messages of Kubernetes in its own words."""
    return _pod(result, paint, verbose=verbose) if isinstance(result, PodWhy) else _workload(result, paint)


def _pod(result: PodWhy, paint: Painter, *, verbose: bool) -> Iterator[str]:
    diagnosis = result.diagnosis
    headline = _headline(result.key, diagnosis)
    state = "good" if diagnosis.state == "running" else "warning"
    name, between, rest = headline.partition(": ")
    key, space, priority = name.partition(" ")
    yield f"{paint(key, 'bold')}{space}{priority}{between}{paint(rest, state)}"
    following = [*(trouble.help for trouble in diagnosis.troubles[1:]), ""]
    for trouble, next_help in zip(diagnosis.troubles, following, strict=False):
        when = shown_time(trouble.when)
        name = f"{paint(trouble.words, 'bold')}{f' at {when}' if when and when not in trouble.message else ''}"
        is_said = headline.endswith(trouble.message)
        yield f"  cause: {name}" if is_said else f"  {name}: {trouble.message}"
        if trouble.help and trouble.help != next_help:
            yield f"    Fix: {trouble.help}"
    if result.nodes:
        yield "  nodes:"
    yield from (f"    {plural(node.count, 'node')}: {node.reason}" for node in result.nodes)
    if verbose or not diagnosis.troubles or not _OTHERS_KNOW.isdisjoint(result.conditions):
        yield from (f"  {reason}: {message}" for reason, message in result.reported.items())
    yield from (f"  {sentence}" for sentence in result.missing)


def _shown(state: str) -> str:
    return "Pending" if state == "pending" else state.replace("-", " ")


def _headline(key: str, diagnosis: Diagnosis) -> str:
    """The state and the first reason."""
    pod = diagnosis.pod
    name = key if pod is None else f"{key} (priority {pod.effective_priority})"
    node = pod.node_name if pod else ""
    nominated = pod.nominated_node_name if pod and not node else ""
    bound = f", bound to {node}" if diagnosis.state == "pending" else f" on {node}"
    where = bound if node else f", nominated to {nominated}" if nominated else ""
    state = f"{_shown(diagnosis.state)}{where}"
    if diagnosis.troubles:
        reason = diagnosis.first.message
        is_said = (node or nominated) in reason and not (node and diagnosis.state in ("pending", "running"))
        between = "; " if diagnosis.state == "running" else ": "
        said = _shown(diagnosis.state) if is_said else state
        state = reason if reason.startswith(state) else f"{said}{between}{reason}"
    elif diagnosis.state == "ended":
        state += ", cause unknown"
    return first_line(f"{name}: {state}")


def _workload(result: WorkloadWhy, paint: Painter) -> Iterator[str]:
    """Lines about the ends of a workload's Pods, at most one screen."""
    timeline = result.timeline
    states = ", ".join([*filter(None, [result.inactive]), *_states(result)]) or _without_pods(result)
    if result.not_created:
        if result.kind == "CronJob":
            count = f"{result.not_created} of {plural(result.replicas or 0, 'Pod')} of the next Job"
            how = f"would be rejected: {result.creation_failure}"
        else:
            count, how = f"{result.not_created}", f"not created: {result.creation_failure}"
        states += f"; {count} {how if result.creation_failure else 'missing'}"
    name, unknown = f"{result.kind} {result.key}", "; deleted Pods unknown (no Events)" if result.lacks_events else ""
    yield f"{paint(name, 'bold')}{first_line(f'{name}: {states}', unknown)[len(name) :]}"
    for ending in timeline.endings[:_MAX_SHOWN]:
        when, pod = shown_time(ending.cause.when) or "unknown time", ending.pod.rpartition("/")[2]
        yield f"  {when} {pod}: {paint(ending.cause.words, 'bold')}: {ending.cause.message}"
    rest = Counter(ending.cause.words for ending in timeline.endings[_MAX_SHOWN:])
    if rest:
        counts = ", ".join(f"{count} {cause}" for cause, count in rest.most_common())
        yield f"  and {plural(rest.total(), 'more Pod')}: {counts}"
    fixes = grouped((each.cause.help, each.cause.words) for each in timeline.endings[:_MAX_SHOWN] if each.cause.help)
    yield from (f"  Fix ({', '.join(dict.fromkeys(causes))}): {fix}" for fix, causes in fixes.items())
    yield from _pending_pods(timeline, paint)
    if timeline.not_explained:
        yield f"  {plural(timeline.not_explained, 'more Pod')} not explained"
    yield from (f"  {sentence}" for sentence in result.missing)


def _pending_pods(timeline: Timeline, paint: Painter) -> Iterator[str]:
    """Lines about the Pending Pods, those that stay Pending first."""
    causes = timeline.pending_causes
    for pods, first in causes:
        more = f", the first of {pods} Pods" if pods > 1 and len(causes) > 1 else ""
        yield f"  {first.pod.rpartition('/')[2]}{more}: {paint(first.cause.words, 'bold')}: {first.cause.message}"
    if left := _not_evaluated(timeline):
        yield f"  {plural(left, 'Pod')} not evaluated: not among the first {MAX_PENDING} Pending Pods of the queue"
    if causes:
        yield f"  Pending: {listed(timeline.pending)}. Fix: see `forewarn why {causes[0].first.pod}`"


def _not_evaluated(timeline: Timeline) -> int:
    """The number of Pods behind the first of the queue."""
    return len(timeline.pending) - sum(pods for pods, _ in timeline.pending_causes)


_SHORT: Final = 100
"""Maximum characters of the reason in the first line about Pending Pods of a workload."""
_SHORT_ALONE: Final = 120
"""The same of a reason that is shown without names."""
_ATTEMPT: Final = "its next scheduling attempt "
_NOWHERE: Final = "fits on no node"
_OF_SEVERAL: Final = {_NOWHERE: "fit on no node", "fits": "fit", "preempts": "preempt Pods"}
"""Start of a reason -> what it says of several Pods."""


def _why_pending(causes: Sequence[PendingPods]) -> str:
    """Why Pods are Pending as the end of a phrase, those that stay Pending first."""
    if not causes:
        return ""
    (pods, first), *others = causes
    if not others:
        return f"{', the first' if pods > 1 else ''}: {shortened(first.cause.message, _SHORT)}"
    return f": {', '.join(_counted(*of) for of in causes)}"


def _counted(pods: int, first: PodEnd) -> str:
    """A number of Pods with the reason of the first one: `1 fits on no node (1 node: insufficient cpu)`, `2 preempt
    Pods, the first 1 Pod on w1`.
    """
    reason = first.cause.message
    if reason.startswith(_ATTEMPT):
        reason = reason.removeprefix(_ATTEMPT).partition(": ")[0]  # without the names of victims
    elif first.cause.id == "fits-nowhere" and not reason.startswith(_NOWHERE):
        reason = f"{_NOWHERE}: {reason}"
    reason = shortened(reason, _SHORT_ALONE)
    verb = next((verb for verb in _OF_SEVERAL if reason.startswith(verb)), "")
    if pods == 1 or not verb:
        return f"{pods}{'' if verb else ':' if pods == 1 else ', the first:'} {reason}"
    return f"{pods} {_OF_SEVERAL[verb]}, the first{reason.removeprefix(verb)}"


def _without_pods(result: WorkloadWhy) -> str:
    if result.kind == "CronJob":
        return "no Job of it has Pods"
    if result.replicas != 0 or result.kind == "Job":
        return "no Pods with this owner"
    return "no node needs a Pod of it" if result.kind == "DaemonSet" else "scaled to 0 replicas"


def _running(result: WorkloadWhy) -> str:
    """How many of the wanted Pods run; "" if none is wanted or runs."""
    running, wanted = result.timeline.states["running"], None if result.kind == "CronJob" else result.replicas
    if wanted and running <= wanted:
        return f"{running} of {plural(wanted, 'Pod')} {'runs' if 1 in (running, wanted) else 'run'}"
    more = f", {wanted} wanted" if wanted else ""
    return f"{plural(running, 'Pod runs', 'Pods run')}{more}" if running else ""


def _states(result: WorkloadWhy) -> Iterator[str]:
    """Yield the number of Pods by state, with the causes, of Pending Pods with the same cause that of the first."""
    timeline = result.timeline
    for state, count in {"running": 0, **timeline.states}.items():
        causes = Counter(ending.words for ending in timeline.endings if ending.diagnosis.state == state)
        texts = [cause if number == count else f"{number} {cause}" for cause, number in causes.most_common()]
        end = ""
        if state == "pending" and timeline.pending:
            unbound, end = len(timeline.pending), _why_pending(timeline.pending_causes)
            if left := _not_evaluated(timeline):
                texts.append(f"{left} not evaluated")
            if unbound < count:
                texts.append(f"{unbound} not scheduled{end}")
                end = ""
        if what := _running(result) if state == "running" else f"{count} {_shown(state)}":
            yield f"{what}{f' ({listed(texts)})' if texts else ''}{end}"
