"""The head of every answer about a cluster."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from forewarn.policies.documents import Always, Document, Inlined
from forewarn.policies.findings import Finding, described, listed
from forewarn.policies.scheduling.caveats import assumptions

if TYPE_CHECKING:
    from forewarn.policies.cluster.cache import ClusterSnapshot, Origin


@dataclass(frozen=True, slots=True)
class AnswerHead(Document):
    """The head of an answer about a cluster.

    `release`: Kubernetes release of the predictions, such as 1.36. `profile`: profiles of kube-scheduler. `assumes`:
    what the answer assumes, such as `no LimitRanges`.
    """

    origin: Inlined[Origin]
    release: str
    profile: str
    assumes: Always[tuple[str, ...]] = ()


@dataclass(frozen=True, repr=False)
class Result(Document):
    """The answer to a question about a cluster; a subclass adds its fields, which are also its JSON document."""

    head: AnswerHead

    def __repr__(self) -> str:
        return described(self, f"of {self.head.origin.cluster}")


def head_of(cluster: ClusterSnapshot, assumes: Iterable[str] = ()) -> AnswerHead:
    """Return the head of an answer about a cluster. `assumes`: in addition to what every answer assumes."""
    semantics = cluster.semantics
    profile = listed(sorted(semantics.scheduler_names))
    release = (f"Kubernetes {semantics.release}",) if semantics.assumed else ()
    assumed = dict.fromkeys((*release, *assumptions(cluster.objects), *assumes))
    return AnswerHead(cluster.origin, semantics.release, profile, tuple(assumed))


def head_of_findings(cluster: ClusterSnapshot, findings: Iterable[Finding] = ()) -> AnswerHead:
    """Return the head of findings and cascades, which depend on all lists."""
    assumed = (clause for finding in findings for clause in finding.detail.get("assumes", ()))
    return head_of(cluster, (*assumptions(cluster.objects, victims=True, created=True), *assumed))
