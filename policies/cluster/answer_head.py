"""The head of every answer about a cluster."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from forewarn.policies.documents import Document
from forewarn.policies.findings import listed
from forewarn.policies.scheduling.caveats import assumptions

if TYPE_CHECKING:
    from collections.abc import Iterable

    from forewarn.policies.cluster.cache import ClusterSnapshot
    from forewarn.policies.cluster.origin import Origin
    from forewarn.policies.documents.answers import Head
    from forewarn.policies.findings import Finding


@dataclass(frozen=True, slots=True)
class AnswerHead:
    """The subject of an answer: a cluster state, the Kubernetes release, and the profiles of kube-scheduler.

    `release`: such as `1.36`. `profile`: names of the profiles. `assumes`: what the answer assumes, as clauses, such as
    `no LimitRanges` or `Kubernetes 1.37`.
    """

    origin: Origin
    release: str
    profile: str
    assumes: tuple[str, ...] = ()

    def to_dict(self) -> Head:
        """The head as a JSON object."""
        origin = self.origin
        return {
            "cluster": origin.cluster,
            "time": origin.time,
            "timeOf": "read" if origin.is_read else "newest object" if origin.time else "",
            "release": self.release,
            "profile": self.profile,
            "assumes": list(self.assumes),
        }


@dataclass(frozen=True, repr=False)
class Result(Document):
    """The answer to a question about a cluster; a subclass adds its fields, which are also its JSON document."""

    head: AnswerHead

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self.head.origin.cluster}>"


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
