"""`forewarn` without a command: what is at risk in a cluster, one line for each question."""

from __future__ import annotations

from collections import Counter as Tally
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from forewarn.policies.base.documents import Hidden, inlined_in_json
from forewarn.policies.base.documents.answer import NO_CLASS, NO_EFFECT, AnswerDocument, AnswerStatus, Counter, Table
from forewarn.policies.base.documents.info import ReportChange
from forewarn.policies.base.findings import brief, listed, plural
from forewarn.policies.kubernetes.cluster.cache import ClusterSnapshot, Result
from forewarn.policies.kubernetes.controllers.own_pods import pods_of
from forewarn.policies.kubernetes.kinds.registry import JOB, NODE, POD, POD_TEMPLATE_PATHS, PRIORITY_CLASS
from forewarn.policies.kubernetes.objects.fields import ApiObject, check_numbers, group_kind, int32, text_at
from forewarn.policies.kubernetes.objects.priority_class import SYSTEM_NAMES
from forewarn.policies.kubernetes.objects.workload import (
    backoff_limit,
    disruption_action,
    fails_with_one_pod,
    pod_template_of,
)
from forewarn.policies.kubernetes.quantity import format_units
from forewarn.policies.questions.application.changes import LoseNodes, LoseZone, Upgrade
from forewarn.policies.questions.application.classes import classes
from forewarn.policies.questions.application.cluster import Cluster, Progress, autoscaling_for, require_nodes
from forewarn.policies.questions.application.headroom import full_quotas, quota_uses
from forewarn.policies.questions.application.report_changes import UNEVALUATED, entries_of
from forewarn.policies.questions.application.whatif import WhatIf, sweep_of, whatif
from forewarn.policies.questions.application.why import ClusterWhy, explain_all
from forewarn.policies.questions.whatif.comparison import is_repeated
from forewarn.policies.questions.whatif.effects import consequences
from forewarn.policies.questions.whatif.questions import Question, each_lost, largest_losses
from forewarn.policies.questions.whatif.risk_answer import changes_counter, changes_table
from forewarn.policies.questions.whatif.sweep import Sweep, harms
from forewarn.policies.questions.whatif.upgrade import DrainBlocker, blockers_of
from forewarn.policies.questions.why.evidence import NO_EVENTS, PreemptionEvents, shown_time

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from forewarn.policies.prediction.simulation.simulation import Simulation
    from forewarn.policies.questions.whatif.answer import Preemption, WorkloadCount
    from forewarn.policies.questions.whatif.autoscalers import Autoscaling
    from forewarn.policies.questions.whatif.sweep import Row, WorkloadLoss

    _Hit = WorkloadLoss | WorkloadCount | Preemption

MAX_LOST_PODS: Final = 8_000
"""Maximum number of Pods of all zones whose loss is simulated, about 10 s on 2 CPUs; at least one zone is simulated."""
DEFAULT_NODES: Final = 10
"""Number of nodes (those with the most Pods) whose loss is simulated by default; if the cluster `is_repeated`, all."""
_LOSSES: Final = ("worst zone", "worst node")
"""Topics whose lines are missing if no loss was simulated."""
_REPEATED: Final = 3
"""Maximum number of cases that are simulated repeatedly to find one that does harm in most runs."""
_PHRASES: Final = 3
_LONG: Final = 200


class OverviewLine(NamedTuple):
    """The answer to one question. `number`: how much is affected; 0 for nothing, None if this is unknown. `command`:
    how to go on. `sample`: the number of simulated cases, if others are left out; 0 for all.
    """

    topic: str
    status: AnswerStatus
    number: int | None
    finding: str
    command: str
    sample: int = 0


@dataclass(frozen=True, repr=False)
class Overview(Result):
    """The output of `forewarn` without a command. `changes`: with `--since`, what differs from the earlier output."""

    lines: Sequence[OverviewLine]
    nodes: Hidden[int]
    pods: Hidden[int]
    missing: Sequence[str]
    changes: Sequence[ReportChange] | None = None

    @property
    def conditions(self) -> frozenset[str]:
        """The topics of the lines that need attention, with hyphens."""
        known = (each for each in self.lines if each.number is not None)
        return frozenset(each.topic.replace(" ", "-") for each in known if each.status is not AnswerStatus.OK)

    @inlined_in_json
    def document(self) -> AnswerDocument:
        wrong = [each for each in self.lines if each.status is not AnswerStatus.OK]
        worst_first = sorted(self.lines, key=lambda each: each.status.rank)
        rows = [(each.status, each.topic, each.command, each.finding) for each in worst_first]
        return AnswerDocument(
            status=worst_first[0].status,
            question="cluster",
            clause=f"{len(wrong)} of {plural(len(self.lines), 'question')} need attention" if wrong else "no risk seen",
            shown=[
                *(Counter("nodes", self.nodes), Counter("running Pods", self.pods)),
                *([changes_counter(self.changes)] if self.changes is not None else []),
            ],
            warnings=self.missing,
            tables=[Table(("STATUS", "ABOUT", "GO ON WITH FOREWARN", "NOW"), rows), changes_table(self.changes or ())],
            more=(
                "-o json=last.json, next time with --since last.json",
                "forewarn risk",
                "forewarn --help: all commands",
            ),
        )


def overview(
    cluster: Cluster,
    events: PreemptionEvents,
    *,
    nodes: int | None = None,
    autoscaling: Autoscaling | None = None,
    progress: Progress | None = None,
) -> Overview:
    """Answer the standing questions about a cluster in a line each.

    `events`: what the load of the cluster collected. `nodes`: the number of nodes whose loss is simulated, those with
    most Pods (default: 10, all in a small cluster). Raises SourceError and InvalidObject.
    """
    check_numbers(0, nodes=nodes or 0)
    cluster.require(NODE, POD, PRIORITY_CLASS)
    snapshot, autoscaling = cluster.snapshot, autoscaling_for(cluster, autoscaling)
    require_nodes(snapshot)
    every_zone, every_node = each_lost(snapshot, "zone"), each_lost(snapshot, "node")
    zones = largest_losses(snapshot, every_zone, MAX_LOST_PODS)
    most = nodes if nodes is not None else None if is_repeated(snapshot.pods, snapshot.objects.nodes) else DEFAULT_NODES
    sample = largest_losses(snapshot, every_node, len(snapshot.pods))[:most]
    losses = ("zone", zones, every_zone), ("node", sample, every_node)
    blockers = list[DrainBlocker]()

    def prepare(simulation: Simulation) -> None:
        blockers.extend(blockers_of(simulation, simulation.api.nodes))

    simulated = [*zones, *sample]
    sweep = sweep_of(cluster, "zone or node", simulated, autoscaling=autoscaling, progress=progress, at_start=prepare)
    explained = explain_all(snapshot, events, cluster.sources)
    lines = [
        *(
            _loss(cluster, sweep, kind, asked, [each.title for each in every if each not in asked], autoscaling)
            for kind, asked, every in losses
            if asked
        ),
        _upgrade(cluster, blockers, autoscaling),
        _quotas(snapshot),
        _without_class(snapshot),
        _pending(explained),
        _preempted(explained),
    ]
    parts = [
        f"{len(asked):,} of {plural(len(every), kind)}" for kind, asked, every in losses if len(asked) < len(every)
    ]
    partial = [f"losses simulated: {' and '.join(parts)}, those with most Pods"] if parts else []
    notes = [*partial, *sweep.notes, *explained.missing]
    return Overview(
        sweep.head,
        lines,
        len(every_node),
        sum(bool(pod.node_name) for pod in snapshot.pods.values() if not pod.terminal),
        notes,
    )


def _loss(
    cluster: Cluster, sweep: Sweep, kind: str, asked: Sequence[Question], rest: Sequence[str], autoscaling: Autoscaling
) -> OverviewLine:
    """Return the line of the worst loss of one kind; `sweep` has the worst cases first. If chance decides, the few
    worst cases run several times, and the first one that usually does harm is shown with the counters of its most
    frequent run. `rest`: the cases without a simulation.
    """
    cases, sample = {each.title for each in asked}, len(asked) * bool(rest)
    rows = [row for row in sweep.cases if row.case in cases]
    harmful = [row for row in rows if harms(row, sweep)]
    if not harmful:
        status = AnswerStatus.NO_ANSWER if rows[0].incomplete else AnswerStatus.OK
        return OverviewLine(f"worst {kind}", status, 0, NO_EFFECT, f"whatif lose --each {kind}", sample)
    worst, status, chance, about = harmful[0], AnswerStatus.HARM, "", ""
    hit: Sequence[_Hit] = [*worst.lost.values()]
    if is_repeated(cluster.snapshot.pods, cluster.snapshot.objects.nodes):
        changes = (LoseZone(row.name) if kind == "zone" else LoseNodes([row.name]) for row in harmful)
        repeated = (whatif(cluster, change, autoscaling=autoscaling, tries_fixes=False) for change in changes)
        for row, answer in islice(zip(harmful, repeated, strict=True), _REPEATED):
            if answer.counters.harm:
                worst, status = row._replace(counters=answer.counters), answer.document.status
                hit = _hit(answer)
                about = "about " * any(counter.range for counter in answer.document.shown)
                break
        else:
            status, chance = AnswerStatus.WARN, " in some runs"
    command = f"whatif lose {worst.case}"
    if rest and kind == "zone":
        chance += f"; {listed(rest, 1)} not simulated, see whatif lose --each {kind}"
    number = worst.counters.lost + worst.counters.preempted + worst.counters.pending
    finding = f"{about}{'; '.join(_phrases(worst, hit)) or 'no steady state'}{chance}"
    status = AnswerStatus.NO_ANSWER if worst.incomplete else status
    return OverviewLine(f"worst {kind}", status, number, finding, command, sample)


def _hit(answer: WhatIf) -> Sequence[_Hit]:
    """Return the workloads with lost replicas, the highest priority first; if there are none, the preempted Pods."""
    lost: Sequence[WorkloadCount | Preemption] = [each for each in answer.workloads if each.lost]
    return sorted(lost or answer.preemptions, key=lambda each: -each.priority)


def _phrases(row: Row, hit: Sequence[_Hit]) -> list[str]:
    """Return the most important consequences of a loss, and the first class of these workloads or Pods."""
    first = islice(consequences(row.counters._replace(down_seconds=0)), _PHRASES)
    return [*first, *(f"highest class {each.priority_class or NO_CLASS}" for each in hit[:1])]


def _line(topic: str, status: AnswerStatus, number: int, finding: str, command: str, nothing: str) -> OverviewLine:
    """A line with a finding, or with `nothing` if the number is 0."""
    return OverviewLine(topic, status if number else AnswerStatus.OK, number, finding if number else nothing, command)


def _upgrade(cluster: Cluster, blockers: Sequence[DrainBlocker], autoscaling: Autoscaling) -> OverviewLine:
    """Return the line about an upgrade. The upgrade is simulated only in a small cluster without blocked nodes, where a
    Job may fail because its Pods are evicted more than once.
    """
    snapshot, nodes = cluster.snapshot, cluster.snapshot.objects.nodes
    blocked = len({node for each in blockers for node in each.nodes})
    if is_simulated := not blocked and is_repeated(snapshot.pods, nodes):
        answer = whatif(cluster, Upgrade(), autoscaling=autoscaling, tries_fixes=False).answer.upgrade_answer
        names = [each.workload for each in answer.after.workloads for _ in each.failures]
    else:
        names = [
            "/".join(key[1:]) for key, each in snapshot.workloads.items() if _fails_by_drains(snapshot, each.object)
        ]
    jobs = len(names)
    which = f"Job {names[0]} fails" if jobs == 1 else plural(jobs, "Job fails", "Jobs fail")
    of_jobs = which if is_simulated else f"at least {which}"
    of_pdbs = f"{plural(len(blockers), 'PDB blocks', 'PDBs block')} {blocked:,} of {plural(len(nodes), 'node')}"
    found = (blocked, of_pdbs), (jobs, of_jobs)
    finding = "; ".join(text for number, text in found if number)
    status = AnswerStatus.BLOCKED if blocked else AnswerStatus.HARM
    nothing = "no PDB blocks it, no Job has more Pods than backoffLimit"
    return _line("upgrade", status, blocked + jobs, finding, "whatif upgrade", nothing)


def _fails_by_drains(cluster: ClusterSnapshot, obj: ApiObject) -> bool:
    """Report whether an object is a Job that fails if each of its Pods is evicted once. Raises InvalidObject."""
    if group_kind(obj) != JOB or disruption_action(obj) == "Ignore":
        return False
    pods = sum(bool(pod.node_name) and not pod.terminal for pod in pods_of(cluster, obj))
    failed = int32(obj, "status", "failed") or 0
    return pods > 0 and (fails_with_one_pod(obj) or failed + pods > backoff_limit(obj))


def _quotas(cluster: ClusterSnapshot) -> OverviewLine:
    uses = quota_uses(cluster)
    exceeded, short = full_quotas(uses)
    counts = (len(exceeded), "exceeded"), (len(short), "above 90 %")
    finding = ", ".join(f"{count} {what}" for count, what in counts if count)
    if full := exceeded | short:
        worst = next(each for each in uses if each[:2] in full and each.used)
        used = f"{format_units(worst.used)} of {format_units(worst.hard)}"
        finding += f"; {worst.namespace}/{worst.quota}: {worst.resource} {used}"
    return _line("quotas", AnswerStatus.WARN, len(full), finding, "headroom", "none above 90 %")


def _without_class(cluster: ClusterSnapshot) -> OverviewLine:
    levels = classes(cluster).classes
    without = sum(each.running.pods + each.pending for each in levels if not each.class_)
    own = [each for each in levels if each.class_ not in SYSTEM_NAMES]
    above = [each.class_ for each in own if any(lower.class_ == "" and lower.pods for lower in each.may_preempt)]
    by = f"; may be preempted by {listed(above[::-1], 2)}" if above else ""
    finding = f"{plural(without, 'Pod')}{by}"
    default = next((each.name for each in cluster.priority_classes.values() if each.global_default), "")
    pods = _pods_that_name_none(cluster, default) if default else 0
    only = f"{plural(pods, 'Pod has', 'Pods have')} only the default class {default}" if pods else ""
    nothing = only or "all Pods have a PriorityClass"
    command = "classes suggest" if without or pods else "classes"
    return _line("without class", AnswerStatus.WARN, without, finding, command, nothing)


def _pods_that_name_none(cluster: ClusterSnapshot, default: str) -> int:
    """Return the number of Pods that have the global default class because their workload names no class."""
    unnamed = (
        workload.object
        for workload in cluster.workloads.values()
        if (template := pod_template_of(workload.object, POD_TEMPLATE_PATHS)) is not None
        and not text_at(template.object, "spec", "priorityClassName")
    )
    pods = (pod for obj in unnamed for pod in pods_of(cluster, obj))
    return len({pod.key for pod in pods if pod.priority_class_name == default})


def _pending(explained: ClusterWhy) -> OverviewLine:
    causes = Tally[str]()
    for group in explained.pending:
        causes[group.cause] += group.pods
    number = causes.total()
    finding = "; ".join(f"{pods:,}: {cause}" for cause, pods in causes.most_common(2))
    command = f"why {explained.pending[0].such_as}" if len(explained.pending) == 1 else "why"
    return _line("Pending", AnswerStatus.PENDING, number, brief(finding, _LONG), command, "no Pod is Pending")


def _preempted(explained: ClusterWhy) -> OverviewLine:
    number = len(explained.preempted)
    by = Tally(each.workload for each in explained.preempted).most_common(1)
    finding = f"{plural(number, 'Pod')} in 24 h, most of {by[0][0]}" if by else ""
    if explained.missing and not explained.oldest and not number:
        unknown = f"unknown: {'no Events' if NO_EVENTS in explained.missing else 'Events not read'}"
        return OverviewLine("preempted", AnswerStatus.WARN, None, unknown, "why")
    nothing = f"none since {shown_time(explained.oldest)}, the oldest Event" if explained.oldest else "none in 24 h"
    return _line("preempted", AnswerStatus.WARN, number, finding, "why", nothing)


def changes_since(lines: Iterable[OverviewLine], previous: Mapping[str, Any]) -> list[ReportChange]:
    """Return the lines that differ from those of an earlier report. Raises ValueError for another report."""
    before = {str(each.get("topic")): each for each in entries_of(previous, "lines", "")}
    return [*_changes({line.topic: line for line in lines}, before)]


def _changes(lines: Mapping[str, OverviewLine], before: Mapping[str, Mapping[str, Any]]) -> Iterator[ReportChange]:
    for topic, line in lines.items():
        earlier = before.get(topic, {})
        number, finding = earlier.get("number"), brief(str(earlier.get("finding", "")), _LONG)
        is_known, was_known = line.number is not None, isinstance(number, int)
        if is_known and not was_known:
            yield ReportChange(UNEVALUATED, topic, "not evaluated in the earlier report")
        elif was_known and not is_known:
            yield ReportChange(UNEVALUATED, topic, "not evaluated in this report")
        elif (earlier.get("sample") or 0) != line.sample:
            yield ReportChange("changed", topic, f"not comparable, other losses were simulated; was: {finding}")
        elif line.number is not None and number is not None and number != line.number:
            yield ReportChange("worse" if line.number > number else "better", topic, f"was: {finding}")
        elif finding != line.finding and not earlier.get("status") == line.status == AnswerStatus.OK:
            yield ReportChange("changed", topic, f"was: {finding}")
    for topic in (each for each in _LOSSES if each in before and each not in lines):
        yield ReportChange(UNEVALUATED, topic, "not evaluated in this report")
