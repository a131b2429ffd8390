"""A simulation as text: the collapsed timeline, and the result."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from forewarn.policies.findings import duration, listed, plural
from forewarn.policies.render import Painter, plain
from forewarn.policies.simulation.summary import Levels, counted, names_in, unsettled

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from forewarn.policies.simulation.outcomes import Outcome
    from forewarn.policies.simulation.simulation import Simulation
    from forewarn.policies.simulation.summary import Eviction, Names, Summary
    from forewarn.policies.simulation.timeline import Event, Origin

MAX_LINES: Final = 60
_NODE_EVENTS: Final = {
    "nodeAdded": "node {} added",
    "nodeUpdated": "node {} updated",
    "nodeRemoved": "node {} removed",
}
_EVENT_TEXTS: Final = {"jobFailed": "Job failed: {}", "refused": "a ResourceQuota rejects a Pod of {}"}


NO_PREEMPTION: Final = "no Pods are preempted"


def settled(summary: Summary) -> str:
    """A sentence with the time at which the cluster reached a steady state."""
    if not summary.settled:
        what, fix = unsettled(summary.stopped, summary.horizon)
        last = duration(summary.settled_at)
        when = f", at {last}" if summary.stopped else f" (last event after {last})"
        return f"simulation {what}{when}; results are as of then. Fix: {fix}"
    return f"steady state after {duration(summary.settled_at)}"


def summary_lines(summary: Summary, paint: Painter = plain) -> Iterator[str]:
    """The result of a simulation as text lines."""
    if summary.new_pods:
        yield paint(new_pods(summary), "good" if summary.all_run_at is not None else "warning")
    if not summary.evictions:
        yield NO_PREEMPTION
    else:
        depth = f" (cascade depth {summary.depth})" if summary.depth > 1 else ""
        yield paint(f"preempted: {plural(len(summary.evictions), 'Pod')}{depth}", "warning")
        for what, name in (("group", "workloads"), ("priority_class", "PriorityClasses"), ("namespace", "namespaces")):
            hit = sorted(summary.victims_by(what).items(), key=lambda item: (-item[1], item[0]))
            yield f"  {name}: {listed([f'{each} ({count})' for each, count in hit])}"
    for name, count in sorted(summary.violated_pdbs.items()):
        yield paint(violated(name, count), "warning")
    for waiting in summary.waiting:
        before = " (unchanged)" if waiting.before == waiting.pods else ""
        who = f"{waiting.group}: {plural(waiting.pods, 'Pod')} Pending{before}"
        yield paint(f"{who}, priority {waiting.priority}", "warning") + (
            f": {waiting.message}" if waiting.message else ""
        )
    yield from (paint(line, "warning") for line in missing(summary))


def violated(pdb: str, count: int) -> str:
    """Return a sentence about a PDB that preemption violates. `count`: number of Pods preempted beyond the allowed
    disruptions.
    """
    return f"PDB {pdb} violated: {plural(count, 'Pod')} more than it allows"


def missing(summary: Summary) -> Iterator[str]:
    """Lines about Pods that a ResourceQuota rejects at the end."""
    for each in summary.missing:
        yield f"{each.group}: a ResourceQuota rejects {plural(each.pods, 'Pod')}: {each.message}"


def new_pods(summary: Summary, noun: str = "new Pod") -> str:
    """A sentence with the number of new Pods that get a node, and the time of the last one."""
    if summary.all_run_at is None:
        return f"{summary.new_running} of {plural(summary.new_pods, noun)} scheduled"
    after = duration(summary.all_run_at)
    if summary.new_pods == 1:
        return f"the {noun} is scheduled after {after}"
    return f"all {summary.new_pods} {noun}s are scheduled after {after}"


def odds(outcomes: Sequence[tuple[Outcome, Summary]], paint: Painter) -> Iterator[str]:
    """The outcomes of several runs, one line for each."""
    runs = sum(outcome.count for outcome, _ in outcomes)
    stories: dict[str, int] = {}
    for outcome, summary in outcomes:
        text = "; ".join(_brief(summary))
        stories[text] = stories.get(text, 0) + outcome.count
    yield paint(f"outcomes of {runs} runs with randomized ties and races:", "bold")
    for text, count in sorted(stories.items(), key=lambda item: -item[1]):
        yield f"  {count}: {text}"


def _brief(summary: Summary) -> Iterator[str]:
    hit = sorted(summary.victims_by("group").items(), key=lambda item: (-item[1], item[0]))
    yield f"preempted: {listed([f'{name} ({count})' for name, count in hit])}" if hit else NO_PREEMPTION
    waiting = [f"{each.group} ({each.pods})" for each in summary.waiting]
    yield f"Pending: {listed(waiting)}" if waiting else "no Pods are Pending"
    if summary.missing:
        yield f"rejected by a ResourceQuota: {listed([f'{each.group} ({each.pods})' for each in summary.missing])}"
    if summary.violated_pdbs:
        yield f"violated PDBs: {listed(sorted(summary.violated_pdbs))}"


class _Line(NamedTuple):
    """The events that one line of text reports: of one kind, between the same workloads, in the same second."""

    second: int
    kind: str
    group: str
    other: str
    depth: int = 0
    """The cascade depth of a preemption; preemptions of different depths have different lines."""


def timeline(simulation: Simulation, paint: Painter = plain) -> Iterator[str]:
    """The important events as text lines, collapsed."""
    lines = list(_lines(simulation))
    width = max((len(duration(second)) for second, _ in lines), default=0)
    for second, text in lines[:MAX_LINES]:
        yield f"{paint(duration(second).rjust(width), 'dim')}  {text}"
    if len(lines) > MAX_LINES:
        yield f"{'…'.rjust(width)}  {len(lines) - MAX_LINES} more lines; use -o json for every event"


def _lines(simulation: Simulation) -> Iterator[tuple[int, str]]:
    levels, names, nominated = Levels(), names_in(simulation), dict[str, str]()
    by_line: dict[_Line, list[Event]] = {}
    for event in simulation.timeline.events:
        eviction = levels.next(event)
        line = _line(event, eviction, levels, names, nominated)
        if line is not None:
            by_line.setdefault(line, []).append(event)
    for line, events in by_line.items():
        yield line.second, _event_text(line, events)


def _line(
    event: Event, eviction: Eviction | None, levels: Levels, names: Names, nominated: dict[str, str]
) -> _Line | None:
    """The line to which an event belongs; None if the text omits the event."""
    second, group = int(event.t), names.of(event.origin.workload) if event.origin else event.node
    if eviction is not None:
        by = names.of(event.by_origin.workload) if event.by_origin else ""
        return _Line(second, "preempted", by, group, eviction.level)
    if event.event == "created":
        return _Line(second, "created", group, "") if event.pod in levels.new else None
    if event.event == "nominated":
        before, nominated[event.pod] = nominated.get(event.pod, ""), event.node
        return _Line(second, "moved", group, before) if before not in ("", event.node) else None
    if event.event == "scheduled":
        before = nominated.pop(event.pod, "")
        return _Line(second, "scheduled", group, before if before != event.node else "")
    if event.event == "deleted":
        return _Line(second, "deleted", group, event.message)
    if event.event in _NODE_EVENTS:
        return _Line(second, event.event, group, event.change)
    return _Line(second, event.event, event.message, "") if event.event in _EVENT_TEXTS else None


def _event_text(line: _Line, events: Sequence[Event]) -> str:
    pods, count = [event.pod for event in events], plural(len(events), "Pod")
    nodes = listed([name for name, _ in counted(event.node for event in events if event.node)])
    if line.kind == "preempted":
        most = max(event.origin.grace for event in events if event.origin)
        ends = f", grace period {duration(most)}" if most else ""
        victim = line.other if line.other == pods[0] else f"{count} of {line.other}"
        by, theirs = _priorities(event.by_origin for event in events), _priorities(event.origin for event in events)
        return f"{line.group} (priority {by}) preempts {victim} (priority {theirs}) on {nodes}{ends}"
    if line.kind == "created":
        return f"{line.group}: {count} created (priority {_priorities(event.origin for event in events)})"
    if line.kind == "scheduled":
        instead = f" instead of {line.other}, which is full" if line.other else ""
        return f"{line.group}: {count} bound to {nodes}{instead}"
    if line.kind == "moved":
        return f"{line.group}: {count} nominated to {nodes} instead of {line.other}"
    if line.kind == "deleted":
        return f"{line.group}: {count} deleted ({line.other})"
    if line.kind in _NODE_EVENTS:
        return f"node {line.group} is {line.other}" if line.other else _NODE_EVENTS[line.kind].format(line.group)
    return _EVENT_TEXTS[line.kind].format(line.group)


def _priorities(origins: Iterable[Origin | None]) -> str:
    return listed([str(number) for number in sorted({origin.priority for origin in origins if origin})])
