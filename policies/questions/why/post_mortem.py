"""Evidence from audit logs and an earlier snapshot: preempted Pods that no longer exist, and their preemptors."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter as Tally
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING, Final, NamedTuple

from forewarn.policies.base.documents.answer import Fix
from forewarn.policies.base.findings import brief, listed, plural
from forewarn.policies.kubernetes.objects.fields import ApiObject, at, list_at, mapping_at, text_at
from forewarn.policies.kubernetes.objects.priority_class import PREEMPT_NEVER
from forewarn.policies.kubernetes.options import Options
from forewarn.policies.kubernetes.scheduling.node_info import NodeInfo
from forewarn.policies.kubernetes.scheduling.schedule_one import Prediction
from forewarn.policies.linting.rules.support.predictions import is_placeholder
from forewarn.policies.prediction.autoscaling.cluster_autoscaler.node_group import is_daemon_pod
from forewarn.policies.questions.whatif.node_groups import free_names, new_node_like
from forewarn.policies.questions.why.evidence import MAX_NAME, seconds, shown_time

if TYPE_CHECKING:
    from forewarn.policies.kubernetes.cluster.cache import ClusterSnapshot
    from forewarn.policies.kubernetes.objects.pod import Pod
    from forewarn.policies.kubernetes.scheduling.snapshot import Snapshot

_MAX_RECORDS: Final = 300_000
"""Maximum number of Pods, nodes and nominations that are kept from audit logs."""
_USER: Final = "system:kube-scheduler"
_KUBELET: Final = "system:node:"
"""Prefix of the user names of kubelets, which delete Pods that have terminated."""
_PREEMPTION: Final = ("DisruptionTarget", "PreemptionByScheduler")
"""Type and reason of the condition of a victim."""
_NEAR: Final = 60.0
"""Maximum seconds between the deletion of a victim and the nomination of its preemptor."""

Key = tuple[str, str]
"""Namespace and name of a Pod."""


class Deletion(NamedTuple):
    """A Pod that kube-scheduler deleted. `by`: the preemptor as `namespace/name`. `node`, `by`: "" if unknown."""

    pod: str
    when: float
    node: str
    by: str


class Request(NamedTuple):
    """A request of `user` to delete a Pod, or to evict it."""

    user: str
    when: float
    evicts: bool


class PostMortem:
    """Records of preemptions from audit logs, and an earlier snapshot of the cluster."""

    def __init__(self, before: ClusterSnapshot | None = None, name: str = "") -> None:
        """`before`: an earlier snapshot of the cluster; None without one. `name`: of a Pod; requests to delete this Pod
        or Pods of the earlier snapshot are recorded.
        """
        self.before = before
        self.has_audit_log = False
        self._name, self._requests = name, dict[Key, Request]()
        self._deleted: dict[Key, float] = {}
        self._nodes: dict[Key, str] = {}
        self._nominations: dict[str, list[tuple[float, str]]] = {}
        """Node -> times, and the Pods that were nominated for it."""
        self._nominated = 0
        self._names: dict[str, str] = {}
        """The uid of a Pod -> `namespace/name`."""
        self._with_uid = set[str]()
        for key, pod in before.pods.items() if before is not None else ():
            self._names[pod.uid] = pod.key
            self._with_uid.add(pod.key)
            self._nodes[key] = pod.node_name
        self._limit = self._size + _MAX_RECORDS
        self._is_cut = False

    @property
    def _size(self) -> int:
        return len(self._names) + len(self._nodes) + len(self._deleted) + self._nominated

    @property
    def notes(self) -> list[str]:
        """Sentences about records that were not read."""
        cut_off = f"the audit logs have more than {_MAX_RECORDS:,} records on Pods; later ones are not read"
        return [f"{cut_off}. Fix: pass a shorter log"] if self._is_cut else []

    def read(self, events: Iterable[ApiObject]) -> None:
        """Add the events of an audit log."""
        self.has_audit_log = True
        for event in events:
            status, user = at(event, "responseStatus", "code"), brief(text_at(event, "user", "username"), MAX_NAME)
            if isinstance(status, int) and status >= 400:
                continue
            if user == _USER:
                self._add(event)
            elif status is not None and not user.startswith(_KUBELET):
                self._add_request(event, user)
        for nominations in self._nominations.values():
            nominations.sort()

    def _add(self, event: ApiObject) -> None:
        ref = mapping_at(event, "objectRef")
        namespace, name, uid = (brief(text_at(ref, key), MAX_NAME) for key in ("namespace", "name", "uid"))
        if text_at(ref, "resource") != "pods" or not name:
            return
        if self._size >= self._limit:
            self._is_cut = True
            return
        key, verb, part = (namespace, name), text_at(event, "verb"), text_at(ref, "subresource")
        when = seconds(at(event, "requestReceivedTimestamp"))
        if uid:
            self._names[uid] = f"{namespace}/{name}"
            self._with_uid.add(f"{namespace}/{name}")
        if verb == "delete" and not part:
            self._deleted[key] = when
        elif part == "binding":
            self._nodes[key] = brief(text_at(event, "requestObject", "target", "name"), MAX_NAME)
        elif part == "status" and (node := text_at(event, "requestObject", "status", "nominatedNodeName")):
            self._nominations.setdefault(brief(node, MAX_NAME), []).append((when, f"{namespace}/{name}"))
            self._nominated += 1
        elif part == "status":
            conditions = list_at(event, "requestObject", "status", "conditions")
            if _PREEMPTION in [(at(condition, "type"), at(condition, "reason")) for condition in conditions]:
                self._deleted.setdefault(key, when)

    def _add_request(self, event: ApiObject, user: str) -> None:
        ref, verb = mapping_at(event, "objectRef"), text_at(event, "verb")
        key, evicts = (text_at(ref, "namespace"), text_at(ref, "name")), text_at(ref, "subresource") == "eviction"
        is_known = key[1] == self._name or (self.before is not None and key in self.before.pods)
        is_request = verb == "create" if evicts else verb == "delete" and not text_at(ref, "subresource")
        is_dry = "dryRun=" in text_at(event, "requestURI")
        if is_known and is_request and text_at(ref, "resource") == "pods" and not is_dry:
            request = Request(user, seconds(at(event, "requestReceivedTimestamp")), evicts)
            if key not in self._requests or request.when > self._requests[key].when + _NEAR:
                self._requests[key] = request

    def request(self, namespace: str, name: str, created: float | None) -> Request | None:
        """Return the last request of a user that deleted or evicted a Pod since its creation; None if there is none."""
        found = self._requests.get((namespace, name))
        return found if found is not None and found.when >= (created or 0.0) else None

    def deletions(self, cluster: ClusterSnapshot, since: float) -> Iterator[Deletion]:
        """Yield the Pods that kube-scheduler deleted since a time."""
        for key, when in self._deleted.items():
            if when >= since:
                pod = cluster.pods.get(key)
                node = self._nodes.get(key, "") or (pod.node_name if pod is not None else "")
                yield Deletion("/".join(key), when, node, self._nominated_at(node, when) if node else "")

    def _nominated_at(self, node: str, when: float) -> str:
        """Return the Pod that was nominated for a node nearest to a time; "" without one within a minute."""
        ordered = self._nominations.get(node, [])
        after = bisect_left(ordered, (when, ""))
        before = bisect_left(ordered, (ordered[after - 1][0], "")) if after else after
        near = [*ordered[before : before + 1], *ordered[after : after + 1]]
        distance, pod = min(((abs(time - when), pod) for time, pod in near), default=(_NEAR + 1, ""))
        return pod if distance <= _NEAR else ""

    def preemptor(self, uid: str, node: str, when: float) -> str:
        """Return the preemptor with this uid, or else the Pod that was nominated for a node nearest to a time, if its
        uid is unknown; "" without one.
        """
        if name := self._names.get(uid, "") if uid else "":
            return name
        nominated = self._nominated_at(node, when)
        return "" if nominated in self._with_uid else nominated

    def former(self, namespace: str, name: str) -> Pod | None:
        """Return the Pod as it was in the earlier snapshot."""
        return self.before.pods.get((namespace, name)) if self.before is not None else None

    def disappeared(self, cluster: ClusterSnapshot, explained: Iterable[str]) -> list[tuple[str, str, str]]:
        """Return the Pods of the earlier snapshot that no longer exist, with the user who deleted them and the time, ""
        if unknown, without Pods that are explained or whose node no longer exists either.
        """
        if self.before is None:
            return []
        known, nodes = {*explained}, {name for _, name in cluster.objects.nodes}
        gone = [
            (pod.key, self.request(*key, pod.created))
            for key, pod in self.before.pods.items()
            if key not in cluster.pods and not pod.terminal and pod.node_name in nodes and pod.key not in known
        ]
        return [(key, by.user, shown_time(by.when)) if by is not None else (key, "", "") for key, by in gone]


def preventions(
    before: ClusterSnapshot, preemptors: Sequence[Pod], workloads: Collection[str], recorded: int
) -> Iterator[Fix]:
    """Yield changes that would have prevented preemptions, the most effective first: more nodes, the preemptors' class
    for the workload with most victims, preemptors that never preempt, and a quota of their class; nothing if the
    earlier snapshot does not show the preemption of Pods of `workloads`.

    The scheduling cycles of the preemptors are repeated in the earlier snapshot, one after the other, without and with
    each of these. `recorded`: the number of Pods that they preempted; the effects name another number of the snapshot.
    """
    known = [before.pods.get((pod.namespace, pod.name)) for pod in preemptors]
    there = [pod for pod in known if pod is not None and pod.node_name]
    snapshot = before.scheduling.with_pods((), there)
    asking = [replace(pod, node_name="", nominated_node_name="", terminating=False) for pod in preemptors]
    first = _cycles(snapshot, asking)
    own = Tally(name for pod in _victims(first) if (name := before.top_workload_of(pod)) in workloads)
    if not own:
        return
    ((workload, pods),), total = own.most_common(1), _preempted(first)
    of_class = max(asking, key=lambda pod: pod.effective_priority)
    fixes, file = list[tuple[int, Fix]](), before.origin.cluster.rpartition("/")[2]
    for action, second in _alternatives(before, first, workload, of_class):
        after, others = _preempted(second), sum(before.top_workload_of(pod) == workload for pod in _victims(second))
        if after >= total and others >= pods:
            continue
        differs = f" (recorded: {recorded:,})" if recorded != total else ""
        spared = f"{total:,} → {after:,}{differs}" if after < total else f"Pods of {workload} {pods:,} → {others:,}"
        rejected = _subject(asking, len(asking) - len(second), "is rejected", "are rejected")
        outcome = rejected or _outcome(before, second)
        fixes.append((after, Fix(action, f"in a simulation of {file}: preempted {spared}; {outcome}")))
    yield from (fix for _, fix in sorted(fixes, key=lambda each: each[0]))


def _cycles(snapshot: Snapshot, pods: Iterable[Pod]) -> list[Prediction]:
    """Return the scheduling cycle of each Pod, in the cluster after the cycles of the previous Pods."""
    cycles = list[Prediction]()
    for pod in pods:
        cycles.append(Prediction(snapshot, pod))
        snapshot = cycles[-1].final_snapshot()
    return cycles


def _alternatives(
    before: ClusterSnapshot, first: Sequence[Prediction], workload: str, of_class: Pod
) -> Iterator[tuple[str, list[Prediction]]]:
    """Yield changes that may prevent the preemptions, as text, each with the scheduling cycles of the preemptors after
    the change. `of_class`: the preemptor whose class is changed.
    """
    snapshot, asking = first[0].snapshot, [cycle.pod for cycle in first]
    name, value = of_class.priority_class_name, of_class.effective_priority
    row = snapshot.rows[next(cycle.nominated_node for cycle in first if cycle.victims)]
    model, names = snapshot.node_infos[row], free_names(snapshot.node_infos[row].name, snapshot.rows)
    new, after = list[NodeInfo](), first
    while len(new) < len(asking) and _preempted(after):
        node = new_node_like(model.node, next(names))
        daemons = [replace(pod, node_name=node.name) for pod in model.pods if is_daemon_pod(pod)]
        new.append(NodeInfo(node, daemons, model.semantics))
        after = _cycles(snapshot.with_nodes(new), asking)
    if new:
        yield f"add {plural(len(new), 'node')} like {model.name}", [*after]
    theirs = [pod for info in snapshot.node_infos for pod in info.pods if before.top_workload_of(pod) == workload]
    raised = [replace(pod, priority=value, priority_class_name=name) for pod in theirs]
    yield f"{name or f'priority {value:,}'} for {workload}", _cycles(snapshot.with_pods(raised, theirs), asking)
    yield from _class_changes(before, snapshot, asking, of_class)


def _class_changes(
    before: ClusterSnapshot, snapshot: Snapshot, asking: Sequence[Pod], of_class: Pod
) -> Iterator[tuple[str, list[Prediction]]]:
    """Yield changes of a preemptor's class, and a quota of the class in its namespace, with the cycles of the Pods that
    the quota admits.
    """
    name, namespace, own = of_class.priority_class_name, of_class.namespace, {pod.key for pod in asking}
    of_name = (pod for pod in before.pods.values() if pod.priority_class_name == name and not pod.terminal)
    alike = Tally(pod.namespace for pod in of_name if pod.key not in own)
    have = plural(alike.total(), "Pod has", "Pods have")
    why = f" (immutable: recreate the class, which {have})" if name else ""
    never = [
        replace(pod, preemption_policy=PREEMPT_NEVER) if pod.priority == of_class.priority else pod for pod in asking
    ]
    yield f"preemptionPolicy: Never for {name or of_class.key}{why}", _cycles(snapshot, never)
    if name:
        admitted = [pod for pod in asking if (pod.namespace, pod.priority_class_name) != (namespace, name)]
        yield f"quota for class {name} in namespace {namespace}: pods {alike[namespace]:,}", _cycles(snapshot, admitted)


def _victims(cycles: Iterable[Prediction]) -> Iterator[Pod]:
    return chain.from_iterable(cycle.victims for cycle in cycles)


def _preempted(cycles: Iterable[Prediction]) -> int:
    """Return the number of victims, without placeholder Pods."""
    return sum(not is_placeholder(pod, Options()) for pod in _victims(cycles))


def _outcome(before: ClusterSnapshot, cycles: Sequence[Prediction]) -> str:
    """Return what happens to the preemptors, such as `shop/a stays Pending` or `1 of 3 Pods stays Pending, …`."""
    pods, others = [cycle.pod for cycle in cycles], listed(_workloads_of(before, _victims(cycles)))
    preempting, fitting = sum(bool(cycle.victims) for cycle in cycles), sum(cycle.fits for cycle in cycles)
    parts = [
        _subject(pods, fitting, "runs without preemption", "run without preemption"),
        _subject(pods, preempting, f"preempts {others}", f"preempt {others}"),
        _subject(pods, len(pods) - fitting - preempting, "stays Pending", "stay Pending"),
    ]
    return ", ".join(filter(None, parts))


def _subject(pods: Sequence[Pod], count: int, one: str, many: str) -> str:
    """Return a statement about `count` of the Pods; "" about none."""
    if len(pods) == 1:
        return f"{pods[0].key} {one}" if count else ""
    return f"{count:,} of {len(pods):,} preemptors {one if count == 1 else many}" if count else ""


def _workloads_of(before: ClusterSnapshot, victims: Iterable[Pod]) -> list[str]:
    """Return the number of victims of each workload with its class, the highest priority first."""
    ranked = sorted(victims, key=lambda pod: -pod.effective_priority)
    pods = Tally(f"{before.top_workload_of(pod)} ({pod.priority_class_name or 'no class'})" for pod in ranked)
    return [f"{count} of {which}" for which, count in pods.items()]
