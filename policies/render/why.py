"""The lines of `forewarn why`."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from forewarn.policies.application.why import PodWhy, WorkloadWhy
from forewarn.policies.findings import listed, plural
from forewarn.policies.why.evidence import shown_time

if TYPE_CHECKING:
    from collections.abc import Iterator

    from forewarn.policies.render import Painter
    from forewarn.policies.why.troubles import Diagnosis, Timeline

_MAX_SHOWN: Final = 20


_OTHERS_KNOW: Final = {"not-predicted", "other-scheduler", "disrupted"}
"""Problems that only the messages of the cluster explain."""


def lines(result: PodWhy | WorkloadWhy, paint: Painter, *, verbose: bool = False) -> Iterator[str]:
    """Yield the lines of an answer. `verbose`: include the messages of Kubernetes in its own words."""
    return _pod(result, paint, verbose=verbose) if isinstance(result, PodWhy) else _workload(result, paint)


def _pod(result: PodWhy, paint: Painter, *, verbose: bool) -> Iterator[str]:
    diagnosis = result.diagnosis
    yield _headline(result.key, diagnosis, paint)
    following = [*(trouble.help for trouble in diagnosis.troubles[1:]), ""]
    for place, (trouble, next_help) in enumerate(zip(diagnosis.troubles, following, strict=False)):
        when = shown_time(trouble.when)
        name = f"{paint(trouble.id, 'bold')}{when and f' at {when}'}"
        yield f"  {name}: {trouble.message}" if place or diagnosis.state == "running" else f"  cause: {name}"
        if trouble.help and trouble.help != next_help:
            yield f"    Fix: {trouble.help}"
    if result.nodes:
        yield "  nodes:"
    yield from (f"    {plural(node.count, 'node')}: {node.reason}" for node in result.nodes)
    if verbose or not diagnosis.troubles or not _OTHERS_KNOW.isdisjoint(result.conditions):
        yield from (f"  {reason}: {message}" for reason, message in result.reported.items())
    yield from (f"  {sentence}" for sentence in result.missing)


def _shown(state: str) -> str:
    return "Pending" if state == "pending" else state


def _headline(key: str, diagnosis: Diagnosis, paint: Painter) -> str:
    """The state and, unless the Pod runs, the first reason."""
    pod = diagnosis.pod
    name = paint(key, "bold") if pod is None else f"{paint(key, 'bold')} (priority {pod.effective_priority})"
    node = pod.node_name if pod else ""
    nominated = pod.nominated_node_name if pod and not node else ""
    where = f" on {node}" if node else f", nominated to {nominated}" if nominated else ""
    state = f"{_shown(diagnosis.state)}{where}"
    if diagnosis.troubles and diagnosis.state != "running":
        reason = diagnosis.troubles[0].message
        is_said = (node or nominated) in reason
        state = reason if reason.startswith(state) else f"{_shown(diagnosis.state) if is_said else state}: {reason}"
    return f"{name}: {paint(state, 'good' if diagnosis.state == 'running' else 'warning')}"


def _workload(result: WorkloadWhy, paint: Painter) -> Iterator[str]:
    """Lines about the ends of a workload's Pods, at most one screen."""
    timeline, first = result.timeline, result.timeline.first_pending
    states = ", ".join(_states(timeline)) or "no Pods with this owner"
    states += "; deleted Pods unknown (no Events)" if result.lacks_events else ""
    yield f"{paint(f'{result.kind} {result.key}', 'bold')}: {states}"
    for ending in timeline.endings[:_MAX_SHOWN]:
        when, pod = shown_time(ending.cause.when) or "unknown time", ending.pod.rpartition("/")[2]
        yield f"  {when} {pod}: {paint(ending.cause.id, 'bold')}: {ending.cause.message}"
    rest = Counter(ending.cause.id for ending in timeline.endings[_MAX_SHOWN:])
    if rest:
        counts = ", ".join(f"{count} {cause}" for cause, count in rest.most_common())
        yield f"  and {plural(rest.total(), 'more Pod')}: {counts}"
    for fix, ids in _fixes(timeline).items():
        yield f"  Fix ({', '.join(ids)}): {fix}"
    if first:
        yield f"  {timeline.pending[0]}: {paint(first.cause.id, 'bold')}: {first.cause.message}"
        yield f"  Pending: {listed(timeline.pending)}. Fix: see `forewarn why {first.pod}`"
    if timeline.not_explained:
        yield f"  {plural(timeline.not_explained, 'more Pod')} not explained"
    yield from (f"  {sentence}" for sentence in result.missing)


def _states(timeline: Timeline) -> Iterator[str]:
    """Yield the number of Pods by state, with the causes, of Pending Pods that of the first one."""
    for state, count in timeline.states.items():
        causes = Counter(ending.cause.id for ending in timeline.endings if ending.diagnosis.state == state)
        texts = [cause if number == count else f"{number} {cause}" for cause, number in causes.most_common()]
        if state == "pending" and timeline.first_pending:
            texts = [f"{'the first: ' if count > 1 else ''}{timeline.first_pending.cause.id}"]
        yield f"{count} {_shown(state)}{f' ({listed(texts)})' if texts else ''}"


def _fixes(timeline: Timeline) -> dict[str, list[str]]:
    """Return fix -> ids of the causes, for the terminations that are shown."""
    fixes: dict[str, list[str]] = {}
    for ending in timeline.endings[:_MAX_SHOWN]:
        if ending.cause.help:
            ids = fixes.setdefault(ending.cause.help, [])
            ids += [] if ending.cause.id in ids else [ending.cause.id]
    return fixes
