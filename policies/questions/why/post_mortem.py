"""What audit logs and an earlier snapshot add to Events: preempted Pods that no longer exist, and their preemptors."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Final, NamedTuple

from forewarn.policies.base.documents.answer import Fix
from forewarn.policies.base.findings import cut, one_line, plural
from forewarn.policies.kubernetes.objects.fields import ApiObject, at, list_at, mapping_at, text_at
from forewarn.policies.kubernetes.scheduling.schedule_one import Prediction
from forewarn.policies.questions.why.evidence import MAX_NAME, seconds

if TYPE_CHECKING:
    from forewarn.policies.kubernetes.cluster.cache import ClusterSnapshot
    from forewarn.policies.kubernetes.objects.pod import Pod

_MAX_RECORDS: Final = 100_000
_USER: Final = "system:kube-scheduler"
_NEAR: Final = 60.0
"""Seconds between the deletion of a victim and the nomination of its preemptor, at most."""

Key = tuple[str, str]
"""Namespace and name of a Pod."""


class Deletion(NamedTuple):
    """A Pod that kube-scheduler deleted. `by`: the preemptor as `namespace/name`. `node`, `by`: "" if unknown."""

    pod: str
    when: float
    node: str
    by: str


class _Nomination(NamedTuple):
    when: float
    pod: str
    node: str


class PostMortem:
    """Records of preemptions from audit logs, and the cluster before."""

    def __init__(self, before: ClusterSnapshot | None = None) -> None:
        """`before`: an earlier snapshot of the cluster; None without one."""
        self.before = before
        self.has_audit_log = False
        self._deleted: dict[Key, float] = {}
        self._nodes: dict[Key, str] = {}
        self._nominations: list[_Nomination] = []
        self._names: dict[str, str] = {}
        for key, pod in before.pods.items() if before is not None else ():
            self._names[pod.uid] = pod.key
            self._nodes[key] = pod.node_name

    def read(self, events: Iterable[ApiObject]) -> None:
        """Add the events of an audit log."""
        self.has_audit_log = True
        for event in events:
            status = at(event, "responseStatus", "code")
            if text_at(event, "user", "username") == _USER and not (isinstance(status, int) and status >= 400):
                self._add(event)

    def _add(self, event: ApiObject) -> None:
        ref = mapping_at(event, "objectRef")
        namespace, name, uid = (cut(one_line(text_at(ref, key)), MAX_NAME) for key in ("namespace", "name", "uid"))
        if text_at(ref, "resource") != "pods" or not name or len(self._deleted) + len(self._nodes) > _MAX_RECORDS:
            return
        key, verb, part = (namespace, name), text_at(event, "verb"), text_at(ref, "subresource")
        when = seconds(at(event, "requestReceivedTimestamp"))
        if uid:
            self._names[uid] = f"{namespace}/{name}"
        if verb == "delete" and not part:
            self._deleted[key] = when
        elif part == "binding":
            self._nodes[key] = cut(one_line(text_at(event, "requestObject", "target", "name")), MAX_NAME)
        elif part == "status" and (node := text_at(event, "requestObject", "status", "nominatedNodeName")):
            if len(self._nominations) < _MAX_RECORDS:
                self._nominations.append(_Nomination(when, f"{namespace}/{name}", cut(one_line(node), MAX_NAME)))
        elif part == "status" and any(map(_is_preemption, list_at(event, "requestObject", "status", "conditions"))):
            self._deleted.setdefault(key, when)

    def deletions(self, cluster: ClusterSnapshot, since: float) -> Iterator[Deletion]:
        """Yield the Pods that kube-scheduler deleted since a time."""
        for key, when in self._deleted.items():
            if when >= since:
                pod = cluster.pods.get(key)
                node = self._nodes.get(key, "") or (pod.node_name if pod is not None else "")
                near = [each for each in self._nominations if each.node == node and abs(each.when - when) <= _NEAR]
                by = min(near, key=lambda each: (abs(each.when - when), each.pod)).pod if near and node else ""
                yield Deletion("/".join(key), when, node, by)

    def deletion(self, cluster: ClusterSnapshot, namespace: str, name: str) -> Deletion | None:
        """Return the deletion of a Pod by kube-scheduler; None without a record."""
        return next((each for each in self.deletions(cluster, 0.0) if each.pod == f"{namespace}/{name}"), None)

    def name_of(self, uid: str) -> str:
        """Return the Pod with this uid as `namespace/name`; "" if unknown."""
        return self._names.get(uid, "") if uid else ""

    def former(self, namespace: str, name: str) -> Pod | None:
        """Return the Pod as it was in the earlier snapshot."""
        return self.before.pods.get((namespace, name)) if self.before is not None else None

    def unexplained(self, cluster: ClusterSnapshot, explained: Iterable[str]) -> int:
        """Return how many Pods of the earlier snapshot no longer exist, without those that are explained or whose node
        no longer exists either.
        """
        if self.before is None:
            return 0
        known, nodes = {*explained}, {name for _, name in cluster.objects.nodes}
        gone = (pod for key, pod in self.before.pods.items() if key not in cluster.pods and not pod.terminal)
        return sum(pod.node_name in nodes and pod.key not in known for pod in gone)


def _is_preemption(condition: object) -> bool:
    is_target = isinstance(condition, Mapping) and condition.get("type") == "DisruptionTarget"
    return is_target and isinstance(condition, Mapping) and condition.get("reason") == "PreemptionByScheduler"


def prevention(before: ClusterSnapshot, preemptor: Pod, workload: str) -> Fix | None:
    """Return what the preemptor's class for a workload of victims would have changed; None if the earlier snapshot does
    not show the preemption.

    The scheduling cycle of the preemptor is repeated in the earlier snapshot, without and with this class.
    """
    snapshot = before.scheduling
    there = before.pods.get((preemptor.namespace, preemptor.name))
    if there is not None and there.node_name:
        snapshot = snapshot.with_pods((), [there])
    asking = replace(preemptor, node_name="", nominated_node_name="", terminating=False)
    first = Prediction(snapshot, asking)
    own = [pod for pod in first.victims if before.top_workload_of(pod) == workload]
    if not own:
        return None
    value = preemptor.effective_priority
    old = [info_pod for info in snapshot.node_infos for info_pod in info.pods]
    theirs = [pod for pod in old if before.top_workload_of(pod) == workload]
    raised = [replace(pod, priority=value, priority_class_name=preemptor.priority_class_name) for pod in theirs]
    second = Prediction(snapshot.with_pods(raised, theirs), asking)
    others = f"preempts {plural(len(second.victims), 'other Pod')}" if second.victims else "stays Pending"
    then = "runs without preemption" if second.fits else others
    name = preemptor.priority_class_name or f"priority {value}"
    effect = f"{plural(len(own), 'Pod')} of it preempted → 0 in the earlier snapshot; {preemptor.key} {then}"
    return Fix(f"{name} for {workload}", effect)
