"""The result of `risk`, and the answer in the common answer format: the workloads that lose replicas first."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

from forewarn.policies.base.documents import Hidden, inlined_in_json
from forewarn.policies.base.documents.answer import (
    MAX_ROWS,
    NO_CLASS,
    AnswerDocument,
    AnswerStatus,
    Counter,
    Rows,
    Table,
)
from forewarn.policies.base.findings import duration, grouped, listed, plural
from forewarn.policies.kubernetes.cluster.cache import Result
from forewarn.policies.kubernetes.quantity import cores, gibibytes
from forewarn.policies.prediction.simulation.summary import unsettled

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from forewarn.policies.base.documents.info import ReportChange
    from forewarn.policies.kubernetes.objects.pod_loss import PodLoss
    from forewarn.policies.questions.whatif.sweep import AfterNewNodes, Unfinished

_MAX_LOSSES: Final = 5
_KINDS: Final = ("zone", "node")


class Amounts(NamedTuple):
    """CPU in thousandths, memory in bytes."""

    milli_cpu: int
    memory: int


class Preemptor(NamedTuple):
    """A PriorityClass whose Pods may preempt a workload, if they request more CPU or memory than the first amounts, and
    at most the second. In both fields, CPU and memory may be of different nodes.

    `moreThan`: the largest free CPU and memory of the nodes on which the workload's Pods may run, without the Pods of a
    lower priority than the workload, which kube-scheduler preempts first. `upTo`: the largest
    free CPU and memory of the workload's nodes without the Pods of a lower priority than the class.
    """

    class_: str
    priority: int
    more_than: Amounts
    up_to: Amounts


class PreemptedTogether(NamedTuple):
    """A PodGroup with the disruption mode `all`: kube-scheduler preempts all its Pods or none.

    `preempted_pods`: number of its Pods on nodes. `nodes`: number of these nodes.
    """

    pod_group: str
    priority: int
    preempted_pods: int
    nodes: int


class WorkloadRisk(NamedTuple):
    """The risks of one workload's running Pods.

    - `priority`: the lowest of its Pods. `pods`: number of its running Pods.
    - `classesAbove`: number of PriorityClasses that may preempt the workload, without system classes;
      `mayBePreemptedBy`: these classes, lowest first, at most 30.
    - `losesReplicasWith`: a lost zone or node, such as `zone a` -> the number of replicas that do not return.
    - `rejectedByQuota`: a lost zone or node -> the number of these replicas that a ResourceQuota rejects.
    - `onlyIn`: the zone or node on which all its Pods run, such as `node a-1`, if the cluster has several; absent for
      DaemonSets. With one Pod, only of Deployments, ReplicaSets and StatefulSets.
    - `podLosses`: what fails or is interrupted if one of its Pods is lost.
    - `rivals`: a lost zone or node -> workloads that may lose these replicas instead: chance decides which of equal
      Pods are preempted or stay Pending.
    - `withNewNodes`: the losses after new nodes have arrived; absent without new nodes in simulations.
    """

    workload: str
    namespace: str
    priority_class: str
    priority: int
    pods: int
    classes_above: int
    may_be_preempted_by: Sequence[Preemptor]
    loses_replicas_with: Mapping[str, int]
    rejected_by_quota: Mapping[str, int]
    pod_losses: Sequence[PodLoss] = ()
    pod_groups: Sequence[PreemptedTogether] = ()
    rivals: Mapping[str, Sequence[str]] | None = None
    with_new_nodes: Mapping[str, AfterNewNodes] | None = None
    only_in: str | None = None
    is_placeholder: Hidden[bool] = False

    @property
    def lasting_losses(self) -> Mapping[str, int]:
        """The losses that still cost replicas after new nodes have arrived; all losses without `with_new_nodes`."""
        if self.with_new_nodes is None:
            return self.loses_replicas_with
        return {what: after.replicas for what, after in self.with_new_nodes.items() if after.replicas}

    @property
    def damage(self) -> tuple[bool, int, float, int]:
        """Sort key: with lost replicas, the highest priority, then the largest share of replicas that one loss costs,
        then the largest losses first; others by ascending priority.
        """
        losses = self.loses_replicas_with.values()
        priority = -self.priority if losses else self.priority
        return not losses, priority, -max(losses, default=0) / self.pods, -sum(losses)


class ZonesAndNodes(NamedTuple):
    """Numbers of zones and nodes."""

    zones: int
    nodes: int


@dataclass(frozen=True, repr=False)
class Risks(Result):
    """The output of `forewarn risk`. `workloads`: those that lose replicas first, by priority; placeholders last.

    `simulated`, `total`: zones and nodes whose loss was simulated, and that exist. `losses`: the simulated losses,
    absent if all are simulated. `withoutLoss`: workload -> replicas that it loses without any loss, for example to
    Pending Pods that preempt; losses include these. `notPredicted`:
    objects that their controllers cannot process, with the reason. `notModelled`: what forewarn does not model.
    `unfinished`: by loss. `changes`: with `--since`.
    """

    workloads: Sequence[WorkloadRisk]
    simulated: ZonesAndNodes
    total: ZonesAndNodes
    losses: Sequence[str] | None = field(default=None, kw_only=True)
    without_loss: Mapping[str, int] | None = field(default=None, kw_only=True)
    not_predicted: Sequence[str]
    not_modelled: Sequence[str]
    unfinished: Mapping[str, Unfinished]
    changes: Sequence[ReportChange] | None = None
    pending: Hidden[int] = field(default=0, kw_only=True)
    """Number of Pods that are Pending now."""
    is_incomplete: Hidden[bool] = field(default=False, kw_only=True)
    """Whether a limit of the simulations may have changed a result."""

    @property
    def own(self) -> list[WorkloadRisk]:
        """The workloads whose Pods do not only reserve capacity."""
        return [risk for risk in self.workloads if not risk.is_placeholder]

    @property
    def alone(self) -> list[WorkloadRisk]:
        """The workloads whose Pods all run in one zone or on one node, the highest priority first."""
        return sorted((risk for risk in self.own if risk.only_in), key=lambda risk: (-risk.priority, risk.workload))

    @inlined_in_json
    def document(self) -> AnswerDocument:
        return AnswerDocument(
            status=_status(self),
            question=f"risks of {plural(len(self.own), 'workload')}",
            clause=_clause(self),
            shown=[*_counters(self)],
            warnings=[*_warnings(self)],
            tables=[*_tables(self)],
            more=("-v workloads", "-vv losses", "forewarn whatif lose zone|node NAME") if self.workloads else (),
        )


def _status(risks: Risks) -> AnswerStatus:
    if risks.is_incomplete:
        return AnswerStatus.NO_ANSWER
    if any(risk.loses_replicas_with for risk in risks.own):
        return AnswerStatus.HARM
    is_partial = risks.simulated != risks.total or risks.unfinished or risks.not_predicted
    return AnswerStatus.WARN if is_partial or any(_fails(risk) for risk in risks.own) else AnswerStatus.OK


def _clause(risks: Risks) -> str:
    if risks.is_incomplete:
        return "a limit of the simulations was reached; the numbers may be wrong"
    if not any(risks.simulated):
        return "no loss simulated"
    losing = {f"a lost {kind}{of}": len(_losing(risks, kind)) for kind, of in _simulated_kinds(risks)}
    if not any(losing.values()):
        return f"none loses replicas with {' or '.join(losing)}"
    (kind, first), *others = losing.items()
    loses = f"{first or 'none'} {'lose' if first > 1 else 'loses'} replicas with {kind}"
    return ", ".join([loses, *(f"{count or 'none'} with {kind}" for kind, count in others)])


def _simulated_kinds(risks: Risks) -> Iterator[tuple[str, str]]:
    """Yield the kinds of simulated losses, each with the number of simulated losses unless all are simulated."""
    for kind, some, every in zip(_KINDS, risks.simulated, risks.total, strict=True):
        if some:
            yield kind, "" if some == every else f" ({some:,} of {plural(every, kind)} simulated)"


def _losing(risks: Risks, kind: str) -> set[str]:
    """The workloads that lose replicas with a lost zone or node."""
    return {
        risk.workload for risk in risks.own if any(loss.startswith(f"{kind} ") for loss in risk.loses_replicas_with)
    }


def _counters(risks: Risks) -> Iterator[Counter]:
    for kind, of in _simulated_kinds(risks):
        yield Counter(f"lose with {kind}", len(_losing(risks, kind)), len(risks.own), more=of)
    if _has_new_nodes(risks):
        lasting = sum(bool(risk.lasting_losses) for risk in risks.own)
        after = [each.back_at or 0.0 for risk in risks.own for each in (risk.with_new_nodes or {}).values()]
        within = f" (all run again within {duration(max(after))})" if after and not lasting else ""
        yield Counter("lose with new nodes too", lasting, more=within)
    preemptible = sum(_next_preemptor(risk) is not None for risk in risks.own)
    yield Counter("may be preempted", preemptible, more=" (Pods of lower priority first)")
    several = [(risk.only_in or "").partition(" ")[0] for risk in risks.alone if risk.pods > 1]
    yield Counter("one replica", len(risks.alone) - len(several), optional=True)
    on_a_node = f" ({several.count('node'):,} on one node)" if "node" in several else ""
    yield Counter("all replicas in one zone", len(several), more=on_a_node, optional=True)
    yield Counter("fail with one Pod", sum(map(_fails, risks.own)), optional=True)
    yield Counter("placeholder workloads", len(risks.workloads) - len(risks.own), optional=True)
    yield Counter("Pods Pending now", risks.pending, optional=True)
    if risks.changes is not None:
        yield changes_counter(risks.changes)


def _fails(risk: WorkloadRisk) -> bool:
    return any(loss.fails for loss in risk.pod_losses)


def _has_new_nodes(risks: Risks) -> bool:
    return any(risk.with_new_nodes is not None for risk in risks.own)


def _warnings(risks: Risks) -> Iterator[str]:
    """Yield sentences about losses that were not simulated, or not completely."""
    partial = [
        f"{some:,} of {plural(every, kind)}"
        for kind, some, every in zip(_KINDS, risks.simulated, risks.total, strict=True)
        if some < every
    ]
    if partial:
        yield f"losses simulated: {', '.join(partial)}. Fix: --most N"
    anyway = {risk.workload: (risks.without_loss or {}).get(risk.workload, 0) for risk in risks.own}
    if losing := sum(map(bool, anyway.values())):
        most = max(anyway, key=anyway.__getitem__)
        lose = f"{plural(losing, 'workload loses', 'workloads lose')} replicas to Pending Pods"
        yield f"without any loss, {lose}, {most} {anyway[most]}; the numbers include these"
    for kind in _KINDS:
        losing_now = _losing(risks, kind)
        if others := _rivals(risks, kind) - losing_now:
            at_most = len(losing_now) + len(others)
            yield f"chance decides between equal Pods: up to {at_most:,} workloads lose replicas with a lost {kind}"
    for is_single, alone in grouped((risk.pods == 1, risk.workload) for risk in risks.alone).items():
        yield f"{'one replica' if is_single else 'all replicas in one zone'}: {listed(alone, 3)}"
    by_why = grouped((unsettled(*simulation), loss) for loss, simulation in risks.unfinished.items())
    for (what, fix), losses in by_why.items():
        named = listed(losses, _MAX_LOSSES)
        yield f"{plural(len(losses), 'simulation')} {what} ({named}): the numbers are those of then. Fix: {fix}"
    yield from (f"not predicted: replacement Pods of {problem}" for problem in risks.not_predicted)
    yield from risks.not_modelled


def _rivals(risks: Risks, kind: str) -> set[str]:
    """The workloads that may lose replicas instead of others with a lost zone or node."""
    by_loss = (each for risk in risks.own for each in (risk.rivals or {}).items())
    rivals = {name for loss, names in by_loss if loss.startswith(f"{kind} ") for name in names}
    return rivals & {risk.workload for risk in risks.own}


# Tables


def _tables(risks: Risks) -> Iterator[Table]:
    if risks.workloads:
        every = Table(_HEADS, [_row(risk) for risk in risks.workloads])
        if len(risks.own) > MAX_ROWS and len({risk.priority_class for risk in risks.own}) > 1:
            yield _class_table(risks)
            every = every._replace(detail=1)
        yield every
    yield changes_table(risks.changes or ())
    yield from _details(risks)


def _details(risks: Risks) -> Iterator[Table]:
    """Yield the tables of -v and -vv."""
    heads = ("ONE REPLICA, OR ALL IN ONE ZONE", "CLASS", "VALUE", "PODS", "ON")
    yield Table(heads, [_alone(risk) for risk in risks.alone], detail=1)
    preemptors = [(risk, preemptor) for risk in risks.workloads if (preemptor := _next_preemptor(risk))]
    of_preemptors = ("MAY BE PREEMPTED", "BY CLASS", "VALUE", "HIGHER CLASSES", "A POD THAT REQUESTS")
    yield Table(of_preemptors, [_preempted(*each) for each in preemptors], detail=1)
    losses = [(loss.pod, loss.sentence) for risk in risks.workloads for loss in risk.pod_losses]
    yield Table(("IF THIS POD IS LOST", "EFFECT"), losses, detail=1)
    groups = {group.pod_group: group for risk in risks.workloads for group in risk.pod_groups}
    yield Table(("PODGROUP PREEMPTED AS A WHOLE", "VALUE", "PODS", "NODES"), [*groups.values()], detail=1)
    of_losses = ("WORKLOAD", "LOSS", "LOST", "REJECTED BY QUOTA", "WITH NEW NODES", "OR INSTEAD")
    yield Table(of_losses, [row for risk in risks.workloads for row in _loss_rows(risk)], detail=2)


_HEADS: Final = (
    *("WORKLOAD", "CLASS", "VALUE", "PODS", "LOST", "WITH", "NEW NODES", "ONE POD LOST"),
    "PREEMPTED BY",
)


def _row(risk: WorkloadRisk) -> list[str | int]:
    loss = max(risk.loses_replicas_with, key=risk.loses_replicas_with.__getitem__, default="")
    others = f", {len(risk.loses_replicas_with) - 1:,} more" if len(risk.loses_replicas_with) > 1 else ""
    by_quota = ", by quota" if risk.rejected_by_quota else ""
    now = [preemptor.class_ for preemptor in risk.may_be_preempted_by if _size(preemptor)]
    full = f"{risk.may_be_preempted_by[0].class_} if full" if risk.may_be_preempted_by else ""
    return [
        risk.workload,
        risk.priority_class or NO_CLASS,
        risk.priority,
        risk.pods,
        risk.loses_replicas_with.get(loss, 0),
        f"{loss}{others}{by_quota}",
        _loss_after_growth(risk),
        str(risk.pod_losses[0].loss) if risk.pod_losses else "",
        listed(now, 2) or full,
    ]


def _alone(risk: WorkloadRisk) -> list[str | int]:
    return [risk.workload, risk.priority_class or NO_CLASS, risk.priority, risk.pods, risk.only_in or ""]


def _loss_after_growth(risk: WorkloadRisk) -> str:
    """Return the largest loss after new nodes have arrived: `2: zone a`, or `all run`."""
    after, lasting = risk.with_new_nodes or {}, risk.lasting_losses
    if not after:
        return ""
    worst = max(lasting, key=lasting.__getitem__, default="")
    return f"{lasting[worst]}: {worst}" if worst else "all run"


def _class_table(risks: Risks) -> Table:
    """A row for each PriorityClass, the highest value first, with its workload that loses most."""
    classes = grouped(((-risk.priority, risk.priority_class), risk) for risk in risks.own)
    cells: Rows = []
    for (value, name), own in sorted(classes.items()):
        losing = [risk for risk in own if risk.loses_replicas_with]
        row = _row(losing[0]) if losing else []
        worst = f"{row[0]} {row[4]} of {row[3]}; {row[5]}" if row else ""
        counts = len(own), len(losing), sum(bool(_next_preemptor(risk)) for risk in own)
        after = sum(bool(risk.lasting_losses) for risk in losing) if _has_new_nodes(risks) else 0
        alone = sum(bool(risk.only_in) for risk in own)
        cells.append([name or NO_CLASS, -value, *counts, after, alone, sum(map(_fails, own)), worst])
    totals = [sum(int(row[column]) for row in cells) for column in range(2, 8)]
    heads = ("WORKLOADS", "LOSE", "PREEMPTIBLE", "WITH NEW NODES", "ONE POD OR ZONE", "FAIL WITH ONE", "WORST LOSS")
    return Table(("CLASS", "VALUE", *heads), cells, ["total", "", *totals, ""])


def _next_preemptor(risk: WorkloadRisk) -> Preemptor | None:
    """The lowest class whose Pods of some size may preempt the workload although Pods of lower priority go first."""
    return next(filter(_size, risk.may_be_preempted_by), None)


def _preempted(risk: WorkloadRisk, first: Preemptor) -> list[str | int]:
    others = [each.class_ for each in risk.may_be_preempted_by if each is not first and _size(each)]
    return [risk.workload, first.class_, first.priority, listed(others), _size(first)]


def _size(preemptor: Preemptor) -> str:
    """Return the requests of Pods of this class that would preempt the workload, by cpu and memory; "" without any."""
    free, capacity = preemptor.more_than, preemptor.up_to
    bounds = (("cpu", cores, free.milli_cpu, capacity.milli_cpu), ("memory", gibibytes, free.memory, capacity.memory))
    ranges = (f"more than {text(a)} and up to {text(b)} {name}" for name, text, a, b in bounds if b > a)
    return ", or ".join(ranges)


def _loss_rows(risk: WorkloadRisk) -> Iterator[list[str | int]]:
    after: Mapping[str, AfterNewNodes] = risk.with_new_nodes or {}
    for loss, replicas in risk.loses_replicas_with.items():
        then = ""
        if loss in after:
            left, back_at = after[loss]
            then = f"{left:,} lost" if left else f"all run after {duration(back_at or 0)}"
        rivals = listed((risk.rivals or {}).get(loss, ()))
        yield [risk.workload, loss, replicas, risk.rejected_by_quota.get(loss, 0), then, rivals]


def changes_counter(changes: Sequence[ReportChange]) -> Counter:
    """The number of changes since an earlier report, without subjects that only one of the reports evaluated."""
    unevaluated = sum(each.change == "not evaluated" for each in changes)
    more = f" ({unevaluated:,} more not evaluated)" if unevaluated else ""
    return Counter("changes", len(changes) - unevaluated, more=more)


def changes_table(changes: Sequence[ReportChange]) -> Table:
    """Return the changes since an earlier report."""
    return Table(("CHANGE SINCE THE EARLIER REPORT", "WHAT", "WHY"), [[*each] for each in changes])
