"""The result of a simulation as text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final

from forewarn.policies.findings import cut, duration, listed, plural
from forewarn.policies.scheduling.reasons import in_short
from forewarn.policies.simulation.summary import Summary, preemption_text, unsettled

if TYPE_CHECKING:
    from forewarn.policies.whatif.answer import Preemption

_LONGEST: Final = 100
_MAX_NAMED: Final = 10
NO_PREEMPTION: Final = "no Pods are preempted"


def settled(summary: Summary, which: str = "") -> str:
    """A sentence with the time of the steady state. `which`: of several simulations."""
    steady = f"steady state{which} after {duration(summary.settled_at)}"
    if summary.is_changing and not (summary.expects_more or summary.is_cut_off):
        end, fix = duration(summary.horizon), unsettled("", summary.horizon)[1]
        return f"{steady} if nothing follows after the simulated {end}. Fix: {fix}"
    if not summary.settled:
        what, fix = unsettled(summary.stopped, summary.horizon)
        last = duration(summary.settled_at)
        when = f", at {last}" if summary.stopped else f" (last event after {last})"
        return f"simulation {what}{when}; results are as of then. Fix: {fix}"
    return steady


def summary_lines(summary: Summary) -> Iterator[str]:
    """The result of a simulation as text lines."""
    if summary.new_pods:
        yield new_pods(summary)
    if not summary.evictions:
        yield NO_PREEMPTION
    else:
        depth = f" (cascade depth {summary.cascade_depth})" if summary.cascade_depth > 1 else ""
        yield f"preempted: {plural(len(summary.evictions), 'Pod')}{depth}"
        yield f"  workloads: {_counted(summary.by_workload)}"
        yield f"  PriorityClasses: {_counted(summary.by_priority_class)}"
        yield f"  namespaces: {_counted(summary.by_namespace)}"
    yield from (violated(name, count) for name, count in sorted(summary.violated_pdbs.items()))
    for waiting in summary.waiting:
        before = " (unchanged)" if waiting.before == waiting.pods else ""
        why = f": {in_short(waiting.message)}" if waiting.message else ""
        yield f"{waiting.group}: {plural(waiting.pods, 'Pod')} Pending{before}, priority {waiting.priority}{why}"
    yield from missing(summary)


def cascade(summary: Summary) -> str:
    """The numbers of all preempted and newly Pending Pods and of PDB violations, as a phrase. In parentheses: the
    workload of the highest priority with more Pending Pods.
    """
    victims = plural(len(summary.evictions), "Pod") if summary.evictions else "no Pod"
    more = sorted((row.priority, row.pods - row.before, row.group) for row in summary.waiting if row.pods > row.before)
    pending = sum(pods for _, pods, _ in more)
    violations = sum(summary.violated_pdbs.values())
    counts = [f"{victims} preempted"]
    for _, pods, group in more[-1:]:
        of = f"{f'{pods} of ' * (pods < pending)}{cut(group, _LONGEST)}"
        counts.append(f"{plural(pending, 'Pod')} newly Pending in all ({of})")
    counts += [plural(violations, "violation of a PDB", "violations of PDBs")] if violations else []
    counts += [] if summary.settled else [f"no steady state after {duration(summary.settled_at)}"]
    return f"with the cascade: {', '.join(counts)}"


def _counted(victims: Mapping[str, int]) -> str:
    rows = sorted(victims.items(), key=lambda item: (-item[1], item[0]))
    return listed([f"{name} ({count})" for name, count in rows])


def violated(pdb: str, count: int) -> str:
    """Return a sentence about a PDB that preemption violates. `count`: number of Pods preempted beyond the allowed
    disruptions.
    """
    return f"PDB {pdb} violated: {plural(count, 'Pod')} more than it allows"


def missing(summary: Summary) -> Iterator[str]:
    """Lines about Pods that a ResourceQuota rejects at the end."""
    for row in summary.missing:
        yield f"{row.group}: a ResourceQuota rejects {plural(row.pods, 'Pod')}: {row.message}"


def new_pods(summary: Summary, noun: str = "new Pod") -> str:
    """A sentence with the number of new Pods that get a node, and the time of the last one."""
    if summary.all_run_at is None:
        return f"{summary.new_pods_running} of {plural(summary.new_pods, noun)} scheduled"
    delayed = f", some rejected at first by {listed(summary.quotas)}" if summary.quotas else ""
    after = f"{duration(summary.all_run_at)}{delayed}"
    if summary.new_pods == 1:
        return f"the {noun} is scheduled after {after}"
    return f"{'both' if summary.new_pods == 2 else f'all {summary.new_pods}'} {noun}s are scheduled after {after}"


def pair(key: tuple[str, int, str, int], preemptions: list[Preemption]) -> str:
    """Return a line about the preemptions between two workloads. `key`: name and priority of the preemptor, then of
    the victim.
    """
    by, by_priority, victim, priority = key
    victims = listed([preemption.victim.rpartition("/")[2] for preemption in preemptions], _MAX_NAMED)
    text = preemption_text(by, by_priority, f"{plural(len(preemptions), 'Pod')} of {victim}", priority)
    return text if victim == preemptions[0].victim else f"{text}: {victims}"
