"""`audit`: check the objects of a cluster with every rule, and the cluster as a whole."""

from __future__ import annotations

import re
from collections import Counter as Tally
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from forewarn.policies.base.disclosure import Disclose
from forewarn.policies.base.documents import to_dict
from forewarn.policies.base.documents.answer import AnswerDocument, AnswerStatus, Counter, Rows, Table
from forewarn.policies.base.findings import Finding, ObjectRef, Severity, described, grouped, listed, plural
from forewarn.policies.base.process_pool import mapped
from forewarn.policies.kubernetes.cluster.cache import AnswerHead, ClusterSnapshot, head_of_findings
from forewarn.policies.kubernetes.kube_apiserver.priority import OLD_POLICY, has_old_policy
from forewarn.policies.kubernetes.objects.fields import NOTHING, ApiObject, InvalidInput
from forewarn.policies.kubernetes.scheduling.event_handlers import is_pending
from forewarn.policies.linting.evaluation.evaluator import EvaluationRequest, audit_request, unsuppressed
from forewarn.policies.linting.evaluation.evaluator import audit as findings_of
from forewarn.policies.linting.rules.support.predictions import Simulations
from forewarn.policies.questions.application.findings import Report, counts, worst_first
from forewarn.policies.questions.whatif.questions import unknown_namespace
from forewarn.policies.questions.whatif.risk_answer import changes_counter

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from forewarn.policies.base.documents.info import ReportChange
    from forewarn.policies.kubernetes.objects.pod import Pod
    from forewarn.policies.linting.config.model import Config
    from forewarn.policies.questions.application.cluster import Cluster, Progress
    from forewarn.policies.questions.whatif.autoscalers import Autoscaling

MIN_BATCHES: Final = 6
"""Minimum number of batches of restarts for forked processes: a fork takes up to 0.3 s of CPU time."""
MAX_SIMULATED_PODS: Final = 5_000
"""Maximum number of Pods in all simulations of restarts: about 3 s of CPU time."""


class Audit(NamedTuple):
    """The findings on a cluster, the most severe first.

    `suppressed`: number of suppressed findings. `objects`: number of checked objects. `skipped`: by kind, the number of
    objects that forewarn does not read. `changes`: since an earlier report; None without one. `in_namespaces`: number
    of checked objects by namespace. `namespace`: the only one; None for all, and for objects without namespace.
    """

    findings: list[Finding]
    suppressed: int
    head: AnswerHead
    objects: int
    cluster: ClusterSnapshot
    skipped: Mapping[str, int] = NOTHING
    changes: Sequence[ReportChange] | None = None
    in_namespaces: Mapping[str, int] = NOTHING
    namespace: str | None = None

    def within(self, namespace: str) -> Audit:
        """Return the findings on the objects of a namespace, on itself, and on restarts, which are its own. Raises
        InvalidInput for an unknown one.
        """
        if unknown := unknown_namespace(self.cluster, namespace):
            raise InvalidInput(unknown.removeprefix("; "))
        of_namespace = ((namespace_of(each.object), each) for each in self.findings)
        own = (each for name, each in of_namespace if name == namespace or (not each.object.name and _is_own(each)))
        return self._replace(findings=[*own], objects=self.in_namespaces.get(namespace, 0), namespace=namespace)

    def has(self, pod: Pod) -> bool:
        """Report whether the counters of Pods include this one."""
        return self.namespace in (None, pod.namespace)

    @property
    def document(self) -> AnswerDocument:
        """The answer."""
        groups = _group_by_rule(self.findings)
        evaluated = [group for group in groups if not group[0].not_evaluated]
        worst = evaluated[0][0].severity if evaluated else Severity.NOTE
        status = _STATUS.get(worst, AnswerStatus.OK)
        if (self.cluster.semantics.unknown or len(evaluated) < len(groups)) and status is AnswerStatus.OK:
            status = AnswerStatus.WARN
        return AnswerDocument(
            status=status,
            question=f"audit of {plural(self.objects, 'object')}{f' in {self.namespace}' if self.namespace else ''}",
            clause=_clause(evaluated, worst),
            shown=[*_counters(self)],
            warnings=[*_warnings(self)],
            tables=[*_tables(self, groups, evaluated)],
            more=("-v findings", "forewarn explain RULE", "--ignore RULE") if groups else (),
        )

    @property
    def report(self) -> Report:
        """The findings with the counts of the cluster, for all formats."""
        counts = (), self.objects, self.skipped
        report = Report(self.findings, *counts, lambda _file, _line: None, self.suppressed, self.head)
        return report._replace(changes=self.changes, document=self.document)

    def to_dict(self) -> dict[str, Any]:
        """The JSON document, in the format of `-o json`."""
        return to_dict(self.report)

    def __repr__(self) -> str:
        return described(self, self.document.headline)


def audit(
    cluster: Cluster,
    *,
    namespace: str | None = None,
    all_restarts: bool = False,
    autoscaling: Autoscaling | None = None,
    progress: Progress | None = None,
) -> Audit:
    """Check the objects of a cluster, and simulate restarts of Deployments, StatefulSets and DaemonSets.

    `namespace`: the only one to check; None for all, and the cluster as a whole. `all_restarts`: simulate all restarts
    (default: by priority, at most 5,000 Pods in all simulations). `autoscaling`: settings of autoscalers (default:
    those of the cluster). The configuration file of `load` selects and configures the rules. Raises InvalidInput for an
    unknown namespace.
    """
    from forewarn.policies.questions.application.cluster import autoscalers_of, autoscaling_for

    autoscalers = autoscalers_of(cluster.cache, cluster.sources)
    settings: dict[str, Any] = {"autoscaling": autoscaling_for(cluster, autoscaling), "progress": progress}
    settings |= {"all_restarts": all_restarts, "autoscalers": autoscalers, "namespace": namespace}
    result = audited(cluster.snapshot, cluster.config, **settings)
    return result._replace(skipped=cluster.cache.skipped if namespace is None else NOTHING)


def audited(
    cluster: ClusterSnapshot,
    config: Config,
    *,
    disclose: Disclose = Disclose.NAMES,
    all_restarts: bool = False,
    autoscaling: Autoscaling | None = None,
    autoscalers: Iterable[ApiObject] | None = (),
    namespace: str | None = None,
    progress: Progress | None = None,
) -> Audit:
    """Return the findings on a cluster that are not suppressed.

    `disclose`: as in EvaluationRequest. `autoscaling`: settings of autoscalers; None without node groups.
    `autoscalers`: the HorizontalPodAutoscalers; None if unknown. `namespace`: as for `audit`.
    """

    from forewarn.policies.questions.application.cluster import (  # the webhook does not simulate
        NO_AUTOSCALERS,
        counted_results,
    )

    def simulated(
        batches: Sequence[Sequence[int]], work: Callable[[Sequence[int]], Any], here: Callable[[Sequence[int]], Any]
    ) -> Iterator[Any]:
        def results(report: Callable[..., None]) -> Iterator[Any]:
            forked = len(batches) >= MIN_BATCHES
            return chain.from_iterable(
                mapped(batches, work, here, report, cluster.scheduling) if forked else map(here, batches)
            )

        return counted_results(results, sum(map(len, batches)), progress)

    assumes: Sequence[str] = [NO_AUTOSCALERS] if autoscalers is None else []
    new_nodes = None
    if autoscaling is not None and autoscaling.node_delay is not None:
        from forewarn.policies.questions.whatif.arrivals import added_for

        assumes = [*assumes, *autoscaling.assumes_of_arrivals]  # no simulated time passes, so no nodes are removed
        new_nodes = partial(added_for, cluster=cluster, autoscaling=autoscaling) if autoscaling.grows else None
    simulations = Simulations(simulated, None if all_restarts else MAX_SIMULATED_PODS, new_nodes, namespace)
    request = audit_request(cluster, config, datetime.now(UTC), autoscalers or ())
    request = request._replace(disclose=disclose, simulations=simulations)
    result = _audit(cluster, request)
    result = result._replace(head=replace(result.head, assumes=(*result.head.assumes, *assumes)))
    return result if namespace is None else result.within(namespace)


def audited_within(cluster: ClusterSnapshot, config: Config, expired: Callable[[], bool], max_work: int) -> Audit:
    """Return the findings with counts in place of names, and without simulations. `expired`: stops the audit."""
    request = audit_request(cluster, config, datetime.now(UTC))
    return _audit(cluster, request._replace(disclose=Disclose.COUNTS, expired=expired, max_work=max_work))


def _audit(cluster: ClusterSnapshot, request: EvaluationRequest) -> Audit:
    subjects = request.change_set.subjects
    findings, suppressed = unsuppressed(findings_of(request), subjects, request.config, request.now)
    by_namespace = Tally(namespace_of(subject.ref) for subject in subjects)
    head = head_of_findings(cluster, findings)
    return Audit(findings, suppressed, head, len(subjects), cluster, in_namespaces=by_namespace)


def _is_own(finding: Finding) -> bool:
    """Report whether a finding on no object is about the checked namespace."""
    return finding.not_evaluated or finding.rule.startswith("restart-")


def namespace_of(ref: ObjectRef) -> str:
    """Return the namespace of an object, or that an object is; "" for other objects without namespace."""
    return ref.name if ref.kind == "Namespace" else ref.namespace


_STATUS: Final = {Severity.ERROR: AnswerStatus.HARM, Severity.WARNING: AnswerStatus.WARN}
_KINDS: Final = 2
"""Maximum number of rules that the clause names."""
_EVICTIONS_BLOCKED: Final = "evictions-blocked"
_NAMED: Final = 5
"""Maximum number of PDBs of a namespace that a row names."""
_MAX_PLACE_LENGTH: Final = 33
_MAX_FIX_LENGTH: Final = 26
"""Maximum characters of a fix in the first table, which omits longer ones instead of cutting them."""


def _group_by_rule(findings: Sequence[Finding]) -> list[list[Finding]]:
    """The findings grouped by rule and severity, the worst and largest groups first; unevaluated ones are separate
    groups.
    """
    groups = grouped(((each.severity, each.rule, each.not_evaluated), each) for each in worst_first(findings))
    severities = [*Severity]
    return sorted(groups.values(), key=lambda group: (severities.index(group[0].severity), -len(group)))


def _clause(groups: Sequence[Sequence[Finding]], worst: Severity) -> str:
    """The number of findings of the worst severity, and the rules with the most findings."""
    if not groups:
        return "no findings"
    own = [group for group in groups if group[0].severity is worst]
    total = plural(sum(map(len, own)), str(worst))
    if len(own) == 1:
        return f"{total}, {own[0][0].rule}"
    return f"{total}: {', '.join(f'{len(group):,} {group[0].rule}' for group in own[:_KINDS])}"


def _counters(result: Audit) -> Iterator[Counter]:
    evaluated = [finding for finding in result.findings if not finding.not_evaluated]
    found, waiting = counts(evaluated), [*filter(result.has, result.cluster.waiting_pods.values())]
    yield from (Counter(f"{severity}s", found[severity]) for severity in Severity)
    pods = [pod for pod in result.cluster.pods.values() if result.has(pod) and not pod.terminal]
    yield Counter("Pods", len(pods))
    pending = sum(is_pending(pod, result.cluster.semantics.scheduler_names) for pod in waiting)
    optional = {
        "not evaluated": len(result.findings) - len(evaluated),
        "suppressed": result.suppressed,
        "Pods Pending now": pending,
        "Pending for other schedulers": len(waiting) - pending,
        f"Pods {OLD_POLICY}": sum(has_old_policy(pod, result.cluster.priority_classes) for pod in pods),
    }
    yield from (Counter(name, number) for name, number in optional.items() if number)
    if result.changes is not None:
        yield changes_counter(result.changes)
    restarts = [finding for finding in result.findings if "newNodes" in finding.detail]
    if restarts:
        helped = sum(finding.severity is Severity.NOTE for finding in restarts)
        yield Counter("blocked restarts that new nodes help", helped, len(restarts))


def _warnings(result: Audit) -> Iterator[str]:
    if result.cluster.semantics.unknown:
        yield f"restarts are not predicted: {result.cluster.semantics.unknown}"
    unevaluated = grouped(((each.message, each.fix), each.rule) for each in result.findings if each.not_evaluated)
    for (reason, fix), rules in unevaluated.items():
        yield f"{reason} ({listed(sorted({*rules}))}). Fix: {fix}"


def _tables(
    result: Audit, groups: Sequence[Sequence[Finding]], evaluated: Sequence[Sequence[Finding]]
) -> Iterator[Table]:
    if evaluated:
        rows: Rows = [
            [str(group[0].severity), group[0].rule, len(group), _first_place(group), _fix(group)] for group in evaluated
        ]
        yield Table(("SEVERITY", "FINDING", "COUNT", "WHERE", "FIX"), rows)
    if result.changes:
        yield from _changes_tables(result.changes)
    yield from (_namespace_table(group) for group in groups if group[0].rule == _EVICTIONS_BLOCKED and len(group) > 1)
    if groups:
        found: Rows = [
            [
                "not evaluated" if each.not_evaluated else str(each.severity),
                each.rule,
                each.remediation,
                str(each.object) or "the cluster",
                each.message,
            ]
            for group in groups
            for alike in grouped((each.remediation, each) for each in group).values()
            for each in alike
        ]
        yield Table(("SEVERITY", "RULE", "FIX", "OBJECT", "PROBLEM"), found, detail=1, subheads=3)


def _changes_tables(changes: Sequence[ReportChange]) -> Iterator[Table]:
    """Yield the changes since an earlier report by rule, and with -v each changed finding."""
    rules = grouped(((each.change, each.severity, each.rule), each.object or "the cluster") for each in changes)
    rows: Rows = [
        [*key, len(objects), f"{objects[0]}, {len(objects) - 1:,} more" if objects[1:] else objects[0]]
        for key, objects in rules.items()
    ]
    columns = ("CHANGE", "SEVERITY", "FINDING", "COUNT", "WHERE")
    yield Table(columns, rows, title="CHANGES SINCE THE EARLIER REPORT")
    every = [[each.change, f"{each.what}; {each.why}" if each.why else each.what] for each in changes]
    yield Table(("CHANGE", "WHAT"), every, detail=1)


def _namespace_table(group: Sequence[Finding]) -> Table:
    """The PDBs that block evictions by namespace, most first."""
    namespaces = grouped((each.object.namespace, each) for each in group)
    rows: Rows = [
        [namespace, len(own), listed([each.object.name for each in own], _NAMED)]
        for namespace, own in sorted(namespaces.items(), key=lambda item: (-len(item[1]), item[0]))
    ]
    return Table(("NAMESPACE", "PDBS", "WHICH BLOCK DRAINS"), rows)


def _first_place(group: Sequence[Finding]) -> str:
    """The object of the first finding, with the start of its problem if it is the only one and short."""
    first, ref = group[0], group[0].object
    name = f"{ref.namespace}/{ref.name}" if ref.namespace else str(ref) or "the cluster"
    if len(group) > 1:
        return f"{name}, {len(group) - 1:,} more"
    named = f"{name}: {re.split('[:;,] ', first.text.problem)[0]}"
    return named if len(named) <= _MAX_PLACE_LENGTH else name


def _fix(group: Sequence[Finding]) -> str:
    """The first clause of the most frequent fix, if it is short."""
    fix, _ = Tally(finding.remediation for finding in group).most_common(1)[0]
    first = re.split("[;,] ", fix)[0]
    return first if len(first) <= _MAX_FIX_LENGTH else ""
