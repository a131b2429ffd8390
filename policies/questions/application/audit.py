"""`audit`: check the objects of a cluster with every rule, and the cluster as a whole."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from forewarn.policies.base.disclosure import Disclose
from forewarn.policies.base.documents import to_dict
from forewarn.policies.base.findings import Finding, described
from forewarn.policies.base.process_pool import mapped
from forewarn.policies.kubernetes.cluster.cache import AnswerHead, ClusterSnapshot, head_of_findings
from forewarn.policies.kubernetes.objects.fields import NOTHING, ApiObject
from forewarn.policies.linting.evaluation.evaluator import EvaluationRequest, audit_request, unsuppressed
from forewarn.policies.linting.evaluation.evaluator import audit as findings_of
from forewarn.policies.linting.rules.support.predictions import Simulations
from forewarn.policies.questions.application.audit_answer import Audited, document_of
from forewarn.policies.questions.application.findings import Report

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from forewarn.policies.base.documents.answer import AnswerDocument
    from forewarn.policies.base.documents.findings import ReportChange
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
    objects that forewarn does not read. `changes`: since an earlier report; None without one.
    """

    findings: list[Finding]
    suppressed: int
    head: AnswerHead
    objects: int
    cluster: ClusterSnapshot
    skipped: Mapping[str, int] = NOTHING
    changes: Sequence[ReportChange] | None = None

    @property
    def document(self) -> AnswerDocument:
        """The answer."""
        return document_of(Audited(self.findings, self.cluster, self.objects, self.suppressed, self.changes))

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
    all_restarts: bool = False,
    autoscaling: Autoscaling | None = None,
    progress: Progress | None = None,
) -> Audit:
    """Check the objects of a cluster, and simulate restarts of Deployments, StatefulSets and DaemonSets.

    `all_restarts`: simulate all restarts (default: by priority, at most 5,000 Pods in all simulations). `autoscaling`:
    settings of autoscalers (default: those of the cluster). The configuration file of `load` selects and configures the
    rules.
    """
    from forewarn.policies.questions.application.cluster import autoscalers_of, autoscaling_for

    autoscalers = autoscalers_of(cluster.cache, cluster.sources)
    settings: dict[str, Any] = {"autoscaling": autoscaling_for(cluster, autoscaling), "progress": progress}
    result = audited(cluster.snapshot, cluster.config, all_restarts=all_restarts, autoscalers=autoscalers, **settings)
    return result._replace(skipped=cluster.cache.skipped)


def audited(
    cluster: ClusterSnapshot,
    config: Config,
    *,
    disclose: Disclose = Disclose.NAMES,
    all_restarts: bool = False,
    autoscaling: Autoscaling | None = None,
    autoscalers: Iterable[ApiObject] | None = (),
    progress: Progress | None = None,
) -> Audit:
    """Return the findings on a cluster that are not suppressed. `disclose`: as in EvaluationRequest. `autoscaling`:
    settings of autoscalers; None without node groups. `autoscalers`: the HorizontalPodAutoscalers; None if unknown.
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

        assumes = [*assumes, *autoscaling.assumes_of_arrivals]  # no time passes in which nodes may be removed
        new_nodes = partial(added_for, cluster=cluster, autoscaling=autoscaling) if autoscaling.grows else None
    simulations = Simulations(simulated, None if all_restarts else MAX_SIMULATED_PODS, new_nodes)
    request = audit_request(cluster, config, datetime.now(UTC), autoscalers or ())
    request = request._replace(disclose=disclose, simulations=simulations)
    result = _audit(cluster, request)
    return result._replace(head=replace(result.head, assumes=(*result.head.assumes, *assumes)))


def audited_within(cluster: ClusterSnapshot, config: Config, expired: Callable[[], bool], max_work: int) -> Audit:
    """Return the findings with counts in place of names, and without simulations. `expired`: stops the audit."""
    request = audit_request(cluster, config, datetime.now(UTC))
    return _audit(cluster, request._replace(disclose=Disclose.COUNTS, expired=expired, max_work=max_work))


def _audit(cluster: ClusterSnapshot, request: EvaluationRequest) -> Audit:
    subjects = request.change_set.subjects
    findings, suppressed = unsuppressed(findings_of(request), subjects, request.config, request.now)
    return Audit(findings, suppressed, head_of_findings(cluster, findings), len(subjects), cluster)
