"""The terminations of a workload's Pods, for `forewarn why KIND/NAME`."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final, NamedTuple

from forewarn.policies.kinds.registry import BY_GROUP_KIND, POD, POD_TEMPLATE_PATHS
from forewarn.policies.why.troubles import diagnose, of_deleted_pod

if TYPE_CHECKING:
    from forewarn.policies.cluster.cache import ClusterSnapshot
    from forewarn.policies.documents.answers import PodEnding
    from forewarn.policies.why.evidence import Evidence
    from forewarn.policies.why.trouble import Trouble
    from forewarn.policies.why.troubles import Diagnosis

_MAX_PODS: Final = 2000
"""Maximum Pods for which reasons are computed."""
_BY_CONTROLLERS: Final = frozenset(("deleted-by-controller", "scaled", "deleted"))
"""Reasons of ends that a user or controller requested; they are listed last."""
_NOT_ENDINGS: Final = frozenset(("completed", "drain-blocked", "former-preempted", "former-ended"))
_SHORT: Final = {"Deployment": "deploy", "ReplicaSet": "rs", "StatefulSet": "sts", "DaemonSet": "ds", "CronJob": "cj",
                 "ReplicationController": "rc", "Pod": "po"}  # fmt: skip


class PodEnd(NamedTuple):
    """The termination of one Pod, explained: the first reason in `diagnosis` is the cause."""

    pod: str
    diagnosis: Diagnosis

    @property
    def cause(self) -> Trouble:
        return self.diagnosis.troubles[0]

    @property
    def order(self) -> tuple[bool, float, str]:
        """Sort key: terminations that no user or controller requested are first, then the newest."""
        return self.cause.id in _BY_CONTROLLERS, -self.cause.when, self.pod

    def to_dict(self, namespace: str) -> PodEnding:
        troubles = [trouble.to_dict() for trouble in self.diagnosis.troubles]
        return {"pod": f"{namespace}/{self.pod}", "state": self.diagnosis.state, "troubles": troubles}


class Timeline(NamedTuple):
    """The Pods of a workload. `states`: number of existing Pods by state. `pending`: names of Pending Pods.

    `endings`: terminations, in order. `not_explained`: number of further Pods.
    """

    states: Counter[str]
    pending: list[str]
    endings: list[PodEnd]
    not_explained: int


def kind_named(given: str) -> str:
    """Return the `group/Kind` of a Pod or workload by a name that kubectl accepts: `deploy`, `deployments.apps`;
    "" if unknown.
    """
    name, _, group = given.lower().partition(".")
    for kind in (POD, *POD_TEMPLATE_PATHS):
        spec = BY_GROUP_KIND[kind]
        if name in (spec.plural, spec.kind.lower(), _SHORT.get(spec.kind)) and group in ("", spec.group):
            return kind
    return ""


def kind_names() -> list[str]:
    """Return the names of all kinds of workloads that `kind_named` accepts."""
    return sorted(BY_GROUP_KIND[kind].kind.lower() for kind in POD_TEMPLATE_PATHS)


def timeline(cluster: ClusterSnapshot, evidence: Evidence, now: float | None = None) -> Timeline:
    """Return the terminations of the workload's Pods: those that no user or controller requested first, then the
    newest.

    `now`: seconds since 1970; None for a cluster snapshot of unknown age.
    """
    states: Counter[str] = Counter()
    endings, pending = [], []
    names = [
        *evidence.pods,
        *(name for name in evidence.events.pods() if name not in evidence.pods and evidence.owns(name)),
    ]
    for name in names[:_MAX_PODS]:
        pod = cluster.pods.get((evidence.namespace, name))
        if pod is not None and not pod.node_name and not pod.terminal:
            states["pending"] += 1
            pending.append(name)
            continue
        diagnosis = of_deleted_pod(cluster, evidence, name) if pod is None else diagnose(cluster, pod, evidence, now)
        if diagnosis is not None:
            states[diagnosis.state] += 1
            if any(trouble.id not in _NOT_ENDINGS for trouble in diagnosis.troubles):
                endings.append(PodEnd(name, diagnosis))
    endings.sort(key=lambda ending: ending.order)
    return Timeline(states, pending, endings, max(0, len(names) - _MAX_PODS))
