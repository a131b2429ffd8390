"""What an apply would do to running pods: predicted once for each subject, in the order of the apply."""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from policies.findings import listed, plural
from policies.objects.fields import InvalidObject, at, group_kind, mapping
from policies.objects.subject import Operation
from policies.objects.workload import pod_template_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from policies.cluster import ClusterSnapshot
    from policies.objects.fields import ApiObject
    from policies.objects.pod import Pod
    from policies.objects.subject import Subject
    from policies.scheduling.schedule_one import Prediction
    from policies.scheduling.snapshot import Snapshot


class Impact(NamedTuple):
    """What becomes of the pods that a subject brings.

    `predictions`: of the first pods, in order; `new`: how many come; `own`: identities of the workload's pods that run
    now; `rest`: what the scheduler would do with the pods not predicted one by one: the same as with the last, because
    that one stays pending (`"pending"`), or not known because time was up (`"unknown"`).
    """

    predictions: tuple[Prediction, ...]
    new: int
    priority: int
    own: frozenset[str] = frozenset()
    rest: str = ""

    @property
    def preempting(self) -> tuple[Prediction, ...]:
        """The predictions in which somebody has to go."""
        return tuple(p for p in self.predictions if p.outcome == "preempts")

    @property
    def pending(self) -> int:
        """How many new pods fit nowhere, even after preemption."""
        stuck = sum(p.outcome == "pending" for p in self.predictions)
        return stuck + (self.new - len(self.predictions) if self.rest == "pending" else 0)

    def to_dict(self) -> dict[str, object]:
        """For programs, compact: the annotation forewarn.dev/preemption-impact."""
        told: dict[str, object] = {"priority": self.priority, "newPods": self.new, "predicted": len(self.predictions)}
        if self.preempting:
            told["preemptions"] = [
                {
                    "node": prediction.nominated_node,
                    **({"orAnyOf": prediction.selected} if len(prediction.selected) > 1 else {}),
                    "victims": [victim.key for victim in prediction.victims],
                    "pdbViolations": prediction.num_pdb_violations,
                }
                for prediction in self.preempting
            ]
        if self.pending:
            told["pending"] = self.pending
        if self.rest == "unknown":
            told["cutShort"] = True
        return told

    @property
    def cut_short(self) -> str:
        """`; only the first 3 of 10 new pods were predicted`, or nothing."""
        if self.rest != "unknown":
            return ""
        return f"; only the first {len(self.predictions)} of {self.new} new pods were predicted in the time there was"


class Forecast:
    """Impacts of the subjects of one apply: each sees the pods of those before it in their places."""

    def __init__(
        self, cluster: ClusterSnapshot, paths: Mapping[str, tuple[str, ...]], expired: Callable[[], bool]
    ) -> None:
        self._cluster, self._paths, self._expired = cluster, paths, expired
        self._snapshot: Callable[[], Snapshot] = lambda: cluster.scheduling

    def of(self, subject: Subject) -> Impact | None:
        """The next subject's impact; None where nothing new comes, or nothing can be said."""
        from policies.scheduling.schedule_one import Prediction

        try:
            arriving, own = arrivals(subject, self._cluster, self._paths)
        except InvalidObject:
            return None  # other rules say what is wrong with it
        if not arriving or arriving[0].spec.scheduler_name not in ("", "default-scheduler"):
            return None
        snapshot, rest = self._snapshot, ""
        predictions: list[Prediction] = []
        for pod in arriving:
            prediction = Prediction(snapshot(), pod)
            snapshot = partial(_after, prediction)
            predictions.append(prediction)
            if prediction.outcome == "not-predicted":
                return None
            if prediction.outcome == "pending" and _alike(arriving):
                rest = "pending" if len(predictions) < len(arriving) else ""
                break
            if len(predictions) < len(arriving) and self._expired():
                rest = "unknown"
                break
        self._snapshot = snapshot
        priority = arriving[0].effective_priority
        return Impact(tuple(predictions), len(arriving), priority, frozenset(p.identity for p in own), rest)


def arrivals(
    subject: Subject, cluster: ClusterSnapshot, paths: Mapping[str, tuple[str, ...]]
) -> tuple[tuple[Pod, ...], tuple[Pod, ...]]:
    """(pods that would come new, pods of the workload that are there). Raises InvalidObject.

    Of a changed template, those that a rollout makes before it takes old ones away (maxSurge).
    """
    from policies.arrivals import surge_of  # the linter starts without a cluster
    from policies.cluster import resolved
    from policies.new_pods import new_pods, pods_of, without_missing_claims
    from policies.objects.pod import Pod

    metadata = mapping(subject.object, "metadata")
    obj = {**subject.object, "metadata": {**metadata, "namespace": subject.ref.namespace}}
    template = pod_template_of(obj, paths)
    if template is None or subject.operation not in (Operation.CREATE, Operation.UPDATE):
        return (), ()
    if not template.is_template:
        if subject.old is not None:
            return (), ()
        return (without_missing_claims(resolved(Pod.from_api(obj), cluster), cluster),), ()
    own = tuple(pods_of(cluster, obj))

    def next_pods(obj: ApiObject, count: int) -> tuple[Pod, ...]:
        template = pod_template_of(obj, paths)
        return new_pods(cluster, obj, template.object, replicas=len(own) + count).pods[:count] if template else ()

    old = subject.old or _stored(subject, cluster)
    same_template = old is not None and _alike((*next_pods(old, 1), *next_pods(obj, 1)))
    if old is not None and same_template and at(old, "spec", "replicas") == at(obj, "spec", "replicas"):
        return (), own  # a no-op for the scheduler, whatever its controller is still at
    coming = new_pods(cluster, obj, template.object).pods
    if own and not coming and not same_template:
        coming = next_pods(obj, surge_of(obj))
    return coming, own


def _stored(subject: Subject, cluster: ClusterSnapshot) -> ApiObject | None:
    """What the cluster has of this workload."""
    found = cluster.workload(group_kind(subject.object), subject.ref.namespace, subject.ref.name)
    return found.object if found else None


def _alike(pods: tuple[Pod, ...]) -> bool:
    """Whether what holds for one of these pods holds for the next: the scheduler does not tell them apart."""
    first = pods[0]
    return all(
        (pod.spec, pod.occupies, pod.labels, pod.priority) == (first.spec, first.occupies, first.labels, first.priority)
        for pod in pods
    )


def _after(prediction: Prediction) -> Snapshot:
    """The cluster with the pod in its place and its victims gone. Asked for only when another pod comes: which of many
    nodes that fit is the best is a long question."""
    snapshot = prediction.snapshot
    node_info = snapshot.get(prediction.node)
    if node_info is None:
        return snapshot
    bound = prediction.pod.bound_to(node_info.name, node_info.node.labels)
    return snapshot.with_pods([bound], prediction.victims)


def reasons_of(prediction: Prediction) -> str:
    """`2 nodes: Insufficient cpu; 1 node: …`: why no node helps, the most frequent reason first."""
    if prediction.pre_filter is not None:
        return "; ".join(prediction.pre_filter.reasons)
    counts: Counter[str] = Counter()
    for name, status in prediction.statuses.items():
        counts[" and ".join(prediction.preemption.statuses.get(name, status).reasons)] += 1
    return "; ".join(f"{plural(count, 'node')}: {reason}" for reason, count in counts.most_common(3))


def victims_of(predictions: tuple[Prediction, ...]) -> list[Pod]:
    """Everybody who would have to go, most important first."""
    found = {victim.identity: victim for prediction in predictions for victim in prediction.victims}
    return sorted(found.values(), key=lambda pod: (-pod.effective_priority, pod.key))


def of_new_pods(count: int, impact: Impact) -> str:
    """`1 of 3 new pods`, `both new pods`, `its pod`."""
    if impact.new == 1:
        return "its pod"
    return f"all {impact.new} new pods" if count == impact.new else f"{count} of {impact.new} new pods"


def nodes_of(predictions: tuple[Prediction, ...]) -> str:
    """The nodes where it would happen; `node-1 or node-2` where several tie for one pod."""
    if len(predictions) == 1 and len(predictions[0].selected) > 1:
        tied = predictions[0].selected
        return " or ".join(tied) if len(tied) <= 2 else f"{tied[0]} or {plural(len(tied) - 1, 'other node')}"
    return listed(sorted({prediction.nominated_node for prediction in predictions}), 2)


def described(victims: list[Pod]) -> str:
    """`reports/nightly-4 (priority 100)`, the first few of them."""
    return listed([f"{pod.key} (priority {pod.effective_priority})" for pod in victims])


def waiting(victims: list[Pod]) -> int:
    """Seconds until the last of them has ended: they are told at the same time."""
    return max((pod.spec.termination_grace_period for pod in victims), default=0)
