"""The reasons, as text, why a Pod fits on no node even with preemption, with fixes; forewarn tries each edit of the Pod
before it proposes it. Pending Pods in the order of the scheduling queue, and whether the deletion of Pods may help
them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from functools import cache, cached_property
from heapq import nsmallest
from itertools import chain, product
from math import inf
from operator import attrgetter
from typing import TYPE_CHECKING, Final, NamedTuple

from forewarn.policies.base.findings import cut, listed, plural
from forewarn.policies.base.metering import CutShort, charge, check_time
from forewarn.policies.kubernetes.objects.fields import NOTHING
from forewarn.policies.kubernetes.objects.node import (
    HOSTNAME,
    REGION,
    ZONE,
    NodeAffinity,
    Toleration,
    untolerated_taint,
)
from forewarn.policies.kubernetes.objects.pod import AffinityTerm, Pod, PodSpec, merge_namespaces, without_requests
from forewarn.policies.kubernetes.objects.priority_class import PREEMPT_NEVER
from forewarn.policies.kubernetes.objects.resources import CPU, EPHEMERAL_STORAGE, MEMORY
from forewarn.policies.kubernetes.scheduling import preemption
from forewarn.policies.kubernetes.scheduling.bulk import capacity_for
from forewarn.policies.kubernetes.scheduling.event_handlers import is_gated, responsible_for_pod
from forewarn.policies.kubernetes.scheduling.find_nodes import framework_of
from forewarn.policies.kubernetes.scheduling.framework import Code, CycleState, Status
from forewarn.policies.kubernetes.scheduling.not_predicted import has_constraints, not_predicted, not_scheduled
from forewarn.policies.kubernetes.scheduling.plugins import inter_pod_affinity, one_node, pod_topology_spread
from forewarn.policies.kubernetes.scheduling.plugins.inter_pod_affinity import InterPodAffinity
from forewarn.policies.kubernetes.scheduling.plugins.node_resources_fit import InsufficientResource, NodeResourcesFit
from forewarn.policies.kubernetes.scheduling.plugins.one_node import ADD_TOLERATION, SELECTOR_REASON, TaintToleration
from forewarn.policies.kubernetes.scheduling.plugins.other_points import queue_order
from forewarn.policies.kubernetes.scheduling.plugins.volume_binding import cause_of_volumes
from forewarn.policies.kubernetes.scheduling.preemption import may_be_preempted
from forewarn.policies.kubernetes.scheduling.reasons import (
    LOWER_REQUESTS,
    TOO_SMALL,
    Reason,
    as_reason,
    insufficient,
    join_phrases,
    joined,
    ranked,
    shorten,
)
from forewarn.policies.kubernetes.scheduling.schedule_one import Prediction
from forewarn.policies.kubernetes.scheduling.vectorized.pod_matrix import pods_of_template

if TYPE_CHECKING:
    from forewarn.policies.kubernetes.cluster.cache import ClusterSnapshot
    from forewarn.policies.kubernetes.scheduling.node_info import NodeInfo
    from forewarn.policies.kubernetes.scheduling.snapshot import Snapshot


MAX_PENDING: Final = 100
"""Maximum number of evaluated Pending Pods, in the order of the scheduling queue."""
_FEW_NODES: Final = 64
"""Number of nodes above which a scheduling cycle is cheaper than a check of each node."""
_LOOKING: Final = 3
"""Units of work to check a node, besides its Pods."""


class Waiting(NamedTuple):
    """Pending Pods in the order in which kube-scheduler tries them. `omitted`: number of further Pending Pods."""

    pods: tuple[Pod, ...] = ()
    omitted: int = 0

    def without(self, identities: Collection[str]) -> Waiting:
        """Return the Pending Pods except those with these identities, which count in `omitted`."""
        pods = tuple(pod for pod in self.pods if pod.identity not in identities)
        return Waiting(pods, self.omitted + len(self.pods) - len(pods))


def queue_key(pod: Pod) -> tuple[int, float, str]:
    """Return the sort key of Pending Pods in `pending_in_order`."""
    return *queue_order(pod.effective_priority, pod.created or 0), pod.key


def pending_in_order(cluster: ClusterSnapshot, excluded: Collection[str] = ()) -> Waiting:
    """Return the Pending Pods except `excluded` (identities), by priority, then by creation time. Raises CutShort.

    Nominated Pods, which wait for their victims, and gated Pods are left out. Upstream's queue sorts by the time of the
    last attempt instead of creation. Source: upstream `PrioritySort`.
    """
    charge(len(cluster.waiting_pods))
    snapshot, semantics = cluster.scheduling, cluster.semantics
    free = [
        pod
        for pod in cluster.waiting_pods.values()
        if not pod.nominated_node_name and not is_gated(pod, semantics) and pod.identity not in excluded
    ]
    first = nsmallest(MAX_PENDING, free, key=queue_key)
    ours = tuple(pod for pod in first if not not_predicted(pod, snapshot))
    unknown = sum(not not_scheduled(pod, snapshot) for pod in first) - len(ours)
    return Waiting(ours, len(free) - len(first) + unknown)


def preceding_pods(cluster: ClusterSnapshot, pod: Pod) -> Waiting | None:
    """Return the Pending Pods that precede a Pending Pod in the queue; none for a nominated Pod. Raises CutShort. None
    if the Pod is not among the first MAX_PENDING.
    """
    if pod.nominated_node_name:
        return Waiting()
    waiting = pending_in_order(cluster, {pod.identity})
    ahead = tuple(other for other in waiting.pods if queue_key(other) < queue_key(pod))
    is_late = len(ahead) == len(waiting.pods) and len(waiting.pods) + waiting.omitted > MAX_PENDING
    return None if is_late else Waiting(ahead)


def pods_ahead(cluster: ClusterSnapshot, priority: int) -> list[Pod]:
    """Return the Pending Pods that kube-scheduler tries before new Pods of this priority, in the order of the queue.

    New Pods come after all Pods of their priority. Source: upstream `plugins/queuesort/priority_sort.go`.
    """
    first_new = (*queue_order(priority, inf), "")
    ahead = (
        pod
        for pod in cluster.waiting_pods.values()
        if not is_gated(pod, cluster.semantics)
        and responsible_for_pod(pod, cluster.semantics.scheduler_names)
        and queue_key(pod) < first_new
    )
    return sorted(ahead, key=queue_key)


def ahead_in_queue(pod: Pod, cluster: ClusterSnapshot) -> Iterator[str]:
    """Yield a sentence with the Pending Pods that kube-scheduler tries before this new Pod."""
    if (pod.namespace, pod.name) in cluster.pods:
        return
    if ahead := pods_ahead(cluster, pod.effective_priority):
        waiting = plural(len(ahead), "Pending Pod")
        yield f"{waiting} ahead in the queue may use the capacity first: {listed([other.key for other in ahead])}"


class Freed(NamedTuple):
    """What deleted Pods leave behind. `nodes`: the nodes of the Pods. `repelling`: Pods with required anti-affinity."""

    nodes: frozenset[str]
    repelling: tuple[Pod, ...]


def freed_by(deleted: Iterable[Pod]) -> Freed:
    """Return what these deleted Pods free for Pending Pods."""
    on_nodes = [pod for pod in deleted if pod.node_name]
    repelling = (pod for pod in on_nodes if pod.spec.pod_affinity.has_required_anti_affinity)
    return Freed(frozenset(pod.node_name for pod in on_nodes), tuple(repelling))


def may_be_helped(pod: Pod, snapshot: Snapshot, freed: Freed) -> bool:
    """Report whether the deletion of Pods may help a Pending Pod: one of their nodes may have enough resources, also by
    preemption, or a constraint between Pods may have excluded other nodes. Raises CutShort.

    Always True if there are many nodes. False if kube-scheduler does not schedule the Pod.
    """
    if not_scheduled(pod, snapshot):
        return False
    framework = framework_of(snapshot, pod)
    if len(freed.nodes) > _FEW_NODES or NodeResourcesFit.name not in framework.profile.plugins:
        return True
    if freed.nodes and (has_constraints(pod.spec, framework) or _is_repelled(pod, snapshot, freed.repelling)):
        return True
    fit = framework.plugin(NodeResourcesFit.name)
    infos = (info for name in freed.nodes if (info := snapshot.get(name)) is not None)
    return any(_may_fit(pod, info, snapshot, fit) for info in infos)


def help_pending(waiting: Waiting, snapshot: Snapshot, deleted: Sequence[Pod]) -> bool:
    """Report whether a Pending Pod may use the capacity of these deleted Pods. Raises CutShort."""
    freed = freed_by(deleted)
    return bool(waiting.omitted) or any(may_be_helped(pod, snapshot, freed) for pod in waiting.pods)


def _is_repelled(pod: Pod, snapshot: Snapshot, others: Sequence[Pod]) -> bool:
    """Report whether the required anti-affinity of one of these Pods matches the Pod."""
    charge(len(others))
    labels = snapshot.namespace_labels(pod.namespace)
    return any(
        term.matches(other.namespace, pod.namespace, pod.labels, labels)
        for other in others
        for term in other.spec.pod_affinity.required_anti_affinity
    )


def _may_fit(pod: Pod, info: NodeInfo, snapshot: Snapshot, fit: NodeResourcesFit) -> bool:
    charge(_LOOKING)
    if fit.filter(CycleState(), pod, info) is None:
        return True
    if pod.preemption_policy == PREEMPT_NEVER:
        return False
    charge(len(info.pods))
    stay = [other for other in info.pods if not may_be_preempted(other, pod.effective_priority, snapshot)]
    return len(stay) < len(info.pods) and fit.filter(CycleState(), pod, info.with_pods(stay)) is None


OF_KUBERNETES: Final = "node.kubernetes.io/"
"""The prefix of taints that represent a condition of the node, such as not-ready."""


def with_tried_fixes(examples: Sequence[tuple[Reason, Prediction]], instead: Mapping[str, str]) -> list[Reason]:
    """Return the reasons with only those edits of the Pod after which it fits without preemption.

    If time runs out, the reasons keep no edits. `examples`: each reason with a prediction. `instead`: fix -> text to
    use instead, which is no edit of the Pod.
    """

    def kept(helps: Callable[[Prediction, str], bool]) -> list[Reason]:
        return [
            reason.with_fixes(*(instead.get(fix, fix) for fix in reason.fixes if fix in instead or helps(example, fix)))
            for reason, example in examples
        ]

    try:
        return kept(cache(_helps))
    except CutShort:
        return kept(lambda _, fix: fix not in _EDITS)


def _helps(prediction: Prediction, fix: str) -> bool:
    if fix not in _EDITS:
        return True
    check_time()
    pod, snapshot = prediction.pod, prediction.snapshot
    if fix == LOWER_REQUESTS:  # applies to all Pods of the template
        snapshot = snapshot.with_pods((), pods_of_template(snapshot, pod))
    edited = replace(pod, spec=_EDITS[fix](prediction), preemption_policy=PREEMPT_NEVER)
    return Prediction(snapshot, edited).outcome == "fits"


def _tolerating(prediction: Prediction) -> PodSpec:
    spec, taints = prediction.pod.spec, {taint for info in prediction.snapshot.node_infos for taint in info.node.taints}
    more = {Toleration(t.key, "Exists", "", t.effect) for t in taints if not t.key.startswith(OF_KUBERNETES)}
    return replace(spec, tolerations=(*spec.tolerations, *sorted(more)))


def _on_any_node(prediction: Prediction) -> PodSpec:
    spec = prediction.pod.spec
    return spec if spec.node_affinity.only_node else replace(spec, node_affinity=NodeAffinity())


def _without_affinity(prediction: Prediction) -> PodSpec:
    spec = prediction.pod.spec
    return replace(spec, pod_affinity=replace(spec.pod_affinity, required_affinity=()))


def _without_anti_affinity(prediction: Prediction) -> PodSpec:
    spec = prediction.pod.spec
    affinity = replace(spec.pod_affinity, required_anti_affinity=(), has_required_anti_affinity=False)
    return replace(spec, pod_affinity=affinity)


def _with_least_requests(prediction: Prediction) -> PodSpec:
    """Return the spec with one unit of each resource that the Pod requests."""
    spec, request = prediction.pod.spec, prediction.pod.spec.request
    least = request._replace(
        milli_cpu=min(request.milli_cpu, 1),
        memory=min(request.memory, 1),
        ephemeral_storage=min(request.ephemeral_storage, 1),
        scalars={name: min(amount, 1) for name, amount in request.scalars.items()},
    )
    return replace(spec, request=least)


_EDITS: Final[Mapping[str, Callable[[Prediction], PodSpec]]] = {
    ADD_TOLERATION: _tolerating,
    one_node.CHANGE_SELECTOR: _on_any_node,
    inter_pod_affinity.CHANGE: _without_affinity,
    inter_pod_affinity.CHANGE_ANTI: _without_anti_affinity,
    pod_topology_spread.CHANGE: lambda prediction: replace(prediction.pod.spec, topology_spread=()),
    LOWER_REQUESTS: _with_least_requests,
}
"""Fix -> returns the Pod's spec after the largest edit that the fix can mean."""


TOPOLOGY: Final = {HOSTNAME: "host name", ZONE: "zone", REGION: "region"}
"""Topology keys -> their usual names."""
_UNITS: Final = {CPU: (1000, ""), MEMORY: (2**30, "Gi"), EPHEMERAL_STORAGE: (2**30, "Gi")}
"""Resource -> (divisor, unit) of its amounts in messages."""
_ADD_NODES: Final = "add such nodes", LOWER_REQUESTS
_MATCHES: Final = "matches its node selector or affinity"
_USABLE: Final = "eligible "
_CAPACITY: Final = attrgetter("capacity")
_MAX_LENGTH: Final = 400
_LABELS: Final = 3
_MAX_COMPARED: Final = 100
"""Maximum number of values of a label that are searched for similar ones."""
_UNITS_PER_NODE: Final = 4
"""Units of work to check a node (see `charge`)."""
_NO_CAUSE: Final = Reason("")


def ending_on_nominated_node(prediction: Prediction) -> list[Pod]:
    """Return the terminating Pods that keep a nominated Pod off its node: victims of a preemption; without any,
    terminating Pods that could be victims.
    """
    snapshot, pod = prediction.snapshot, prediction.pod
    info = snapshot.get(pod.nominated_node_name)
    ending = preemption.terminating_victims(pod.effective_priority, info, snapshot) if info else []
    if ending or prediction.node != pod.nominated_node_name or not all(v.terminating for v in prediction.victims):
        return ending
    return [*prediction.victims]


def waits_for(ending: Sequence[Pod], node: str) -> str:
    """Return a phrase about a nominated Pod that waits for these Pods."""
    pods = f"{plural(len(ending), 'Pod')} of lower priority to terminate on {node}"
    return f"waits for {pods} ({listed([victim.key for victim in ending])})"


def cause(prediction: Prediction) -> Reason:
    """Return the single cause that keeps a Pending Pod off all nodes, or off all nodes with enough resources, whatever
    Pods run there; "" without such a cause. Its text contains no amounts or taints, its `short` does. All its fixes
    help.
    """
    found = constraint_of(prediction)
    (with_fixes,) = with_tried_fixes([(found, prediction)], NOTHING)
    if with_fixes.fixes or not found.fixes:
        return with_fixes
    # The edit makes larger nodes usable, but even those are too small.
    too_small = _more_than_usable_nodes_have(
        prediction
    )  # the edit makes larger nodes usable, but even those are too small
    return with_fixes if too_small is None else with_tried_fixes([(too_small, prediction)], NOTHING)[0]


def _more_than_usable_nodes_have(prediction: Prediction) -> Reason | None:
    """Return the reason if requests exceed the capacity of each node that other constraints allow; None if not, or
    without such nodes.

    A larger node that the Pod may not use would be a wrong hint.
    """
    statuses, infos = prediction.statuses, prediction.snapshot.node_infos
    usable = [info for info in infos if statuses[info.name].plugin == NodeResourcesFit.name]
    exceeded = _exceeded_on_all(prediction, usable)
    return _more_than_any_node_has(exceeded, _USABLE if len(usable) < len(infos) else "") if exceeded else None


def lasting_statuses(snapshot: Snapshot, pod: Pod) -> dict[str, Status]:
    """Return node -> the status with which it rejects a Pod whatever its capacity is. kube-scheduler's filters of
    capacity run before others, and hide them.
    """
    statuses = Prediction(snapshot, without_requests(pod), reasons=True).statuses
    return {node: status for node, status in statuses.items() if status.plugin != NodeResourcesFit.name}


def lasting_constraint(snapshot: Snapshot, pod: Pod) -> tuple[str, int]:
    """Return the constraint with which Pods like this one fit on no node, whatever its capacity, and how many of them
    fit with any capacity; "" if there is none. Ignores volumes: what the first Pod binds affects the next one.
    """
    pod = replace(pod, spec=replace(pod.spec, volumes=()))
    lasting = {name: each for name, each in lasting_statuses(snapshot, pod).items() if each.code is Code.UNSCHEDULABLE}
    room = capacity_for(snapshot, without_requests(pod)) if lasting else None
    if room is None:
        return "", 0
    preempts = pod.preemption_policy != PREEMPT_NEVER
    causes = [
        _used_host_port(pod, snapshot, name, status, emptied=preempts) or (status.reasons[0], "")
        for name, status in lasting.items()
    ]
    ((reason, _),) = Counter(reason for reason, _ in causes).most_common(1)
    example = next(example for found, example in causes if found == reason)
    return f"{shorten(reason)}{example and f' ({example})'}", room.total


def common_cause(prediction: Prediction) -> str:
    """Return the one cause that keeps a Pending Pod off all nodes, whatever their capacity; "" without such a cause."""
    if found := joined(prediction.pre_filter.reasons, "; ") if prediction.pre_filter else cause(prediction):
        return found.short
    constraint, room = lasting_constraint(prediction.snapshot, prediction.pod)
    return "" if room else constraint


def other_topology(prediction: Prediction) -> str | None:
    """Return the topology, such as `zone`, if required anti-affinity keeps a Pod off all nodes with any capacity, so
    that it needs a node in another domain of the topology; None otherwise, and if another node is enough.
    """
    pod = prediction.pod
    keys = [term.topology_key for term in pod.spec.pod_affinity.required_anti_affinity if term.topology_key != HOSTNAME]
    constraint, room = lasting_constraint(prediction.snapshot, pod) if keys else ("", 0)
    return TOPOLOGY.get(keys[0], keys[0]) if constraint and not room else None


def fixes_of_topology(prediction: Prediction) -> Iterator[str]:
    """Yield what helps a Pod that `other_topology` is about: another topologyKey, for all replicas, only if the Pod
    then runs.
    """
    pod, snapshot = prediction.pod, prediction.snapshot
    terms = pod.spec.pod_affinity.required_anti_affinity
    if any(term.matches(pod.namespace, pod.namespace, pod.labels, {}) for term in terms):
        yield "run fewer replicas"
    apart = tuple(replace(term, topology_key=HOSTNAME) for term in terms)
    affinity = replace(pod.spec.pod_affinity, required_anti_affinity=apart)
    repelling = [other for info in snapshot.have_pods_with_required_anti_affinity for other in info.pods]
    charge(len(repelling))
    own = [other for other in repelling if pod.owner is not None and other.owner == pod.owner]
    new, *others = (replace(each, spec=replace(each.spec, pod_affinity=affinity)) for each in (pod, *own))
    if Prediction(snapshot.with_pods(others, own), new).outcome in ("fits", "preempts"):
        yield f"use topologyKey {HOSTNAME}"


def constraint_of(prediction: Prediction) -> Reason:
    """Return the cause as `cause` does, but with all fixes."""
    statuses = prediction.statuses
    if not prediction.error and (of_volumes := cause_of_volumes(prediction.framework, prediction.pod)):
        return of_volumes
    if prediction.error or not statuses or any(status.code is Code.UNSCHEDULABLE for status in statuses.values()):
        return _NO_CAUSE  # the status Unschedulable means that running Pods are the cause
    infos, scarce = prediction.snapshot.node_infos, set[str]()
    charge(len(infos) * _UNITS_PER_NODE)
    large: list[NodeInfo] = []
    for info in infos:
        found = _exceeded(prediction, info)
        scarce |= found.keys()
        large += () if found else (info,)
    on_all = {} if large else _exceeded_on_all(prediction, infos)
    enough = f"enough {' and '.join(sorted(scarce))}"
    if not large:
        none = _more_than_any_node_has(on_all) if on_all else _named_reason(f"no node has {enough}", "", *_ADD_NODES)
        return _more_than_usable_nodes_have(prediction) or none
    if prediction.pod.spec.node_affinity.only_node:  # may be a Pod of a DaemonSet, whose Pods have different causes
        return _NO_CAUSE
    return _constraint_reason(prediction, large, f" with {enough}" if scarce else "")


def _exceeded_on_all(prediction: Prediction, infos: Sequence[NodeInfo]) -> dict[str, InsufficientResource]:
    """Return resource -> the request that exceeds all of these nodes, compared with the largest allocatable amount."""
    on_all: dict[str, InsufficientResource] | None = None
    for info in infos:
        found = _exceeded(prediction, info)
        before = found if on_all is None else on_all
        on_all = {name: max(item, found[name], key=_CAPACITY) for name, item in before.items() if name in found}
    return on_all or {}


def _more_than_any_node_has(exceeded: Mapping[str, InsufficientResource], which: str = "") -> Reason:
    if missing := sorted(name for name, item in exceeded.items() if not item.capacity):
        return _named_reason(f"no {which}node has {listed(missing)}", "", *_ADD_NODES)
    requests = " and ".join(f"{_amount(name, item.requested)} {name}" for name, item in exceeded.items())
    most = " and ".join(_amount(name, item.capacity) for name, item in exceeded.items())
    text = f"requests more {' and '.join(exceeded)} than any {which}node has"
    return _named_reason(text, f"requests {requests}, more than any {which}node has ({most})", *_ADD_NODES)


def _amount(resource: str, amount: int) -> str:
    """Return an amount in kube-scheduler's units as text, with enough digits to compare a request with a node."""
    if resource not in _UNITS:
        return str(amount)
    divisor, unit = _UNITS[resource]
    return f"{amount / divisor:g}{unit}"


def _constraint_reason(prediction: Prediction, large: Sequence[NodeInfo], which: str) -> Reason:
    """Return the cause, apart from resources. `large`: the nodes with enough resources; `which`: a phrase for them."""
    static, affinity = prediction.framework.plan.static, prediction.pod.spec.node_affinity
    matching = [
        info
        for info in large
        if one_node.NodeAffinity.name not in static or affinity.matches(info.node.labels, info.name)
    ]
    if not matching:
        short = f"no node{which} {_unmatched(affinity, prediction.snapshot.node_infos)}"
        return _named_reason(f"no node{which} {_MATCHES}", short, *joined(SELECTOR_REASON.reasons).fixes)
    on_all = prediction.statuses
    statuses = {info.name: on_all[info.name] for info in matching}
    reasons = {status.reasons for status in statuses.values()}
    if len(reasons) > 1 or any(status.plugin not in static for status in statuses.values()):
        return _NO_CAUSE
    charge(len(statuses) * _UNITS_PER_NODE)
    blocking = BlockingPods(prediction)
    whys = {_why(prediction, *item, blocking, emptied=False)[0] for item in statuses.items()}
    reason = joined(reasons.pop())
    why = reason.short if len(whys) > 1 else whys.pop()
    which += f" that {_MATCHES}" if len(matching) < len(large) else ""
    text = f"fits on no node{which}"
    return _named_reason(f"{text}: {reason.short}", f"{text}: {why}", *reason.fixes)


def _unmatched(affinity: NodeAffinity, infos: Iterable[NodeInfo]) -> str:
    """Return a phrase for the node selector that no node matches, with known values of its labels."""
    selector, terms = affinity.node_selector or {}, affinity.required.labels if affinity.required else ()
    wanted = [*((key, {value}) for key, value in selector.items()), *(terms[0].items() if len(terms) == 1 else ())]
    known = next(filter(None, (_known_values(key, values, infos) for key, values in wanted)), "")
    has = f"has label{'s' * (len(selector) > 1)}"
    return f"{f'{has} {listed(labels, _LABELS)}' if (labels := _selected(affinity)) else _MATCHES}{known}"


def _selected(affinity: NodeAffinity) -> list[str]:
    """Return the labels of a node selector; [] without one, or if required affinity also selects nodes."""
    selector = {} if affinity.required and affinity.required.labels else affinity.node_selector or {}
    return [f"{key}={value}" for key, value in selector.items()]


def _known_values(key: str, wanted: Collection[str], infos: Iterable[NodeInfo]) -> str:
    """Return a phrase with the values of a label on nodes, similar ones first; "" if a node has a wanted value."""
    known = {info.node.labels[key] for info in infos if key in info.node.labels}
    if known.intersection(wanted):
        return ""
    near = get_close_matches(min(wanted), nsmallest(_MAX_COMPARED, known), _LABELS, 0.0)
    return f" (known values of {key}: {listed(near, _LABELS, len(known)) or 'none'})"


def _named_reason(text: str, short: str, *fixes: str) -> Reason:
    return Reason(cut(text, _MAX_LENGTH), cut(short, _MAX_LENGTH), *fixes)


def why_not(prediction: Prediction, only: str = "") -> list[tuple[int, str]]:
    """Return (number of nodes, reason why preemption does not help on them) in the order of `ranked`: first the reasons
    on nodes that the Pod could use if they were empty. `only`: the only node to include; "" for all.

    A reason about a Pod on the node includes one such Pod as an example.
    """
    counts: Counter[str] = Counter()
    examples: dict[str, str] = {}
    candidates = {candidate.node_name for candidate in prediction.candidates}
    blocking = BlockingPods(prediction)
    hides = (
        {NodeResourcesFit.name} if InterPodAffinity.name in prediction.framework.profile.plugins_at("filter") else ()
    )
    for name, status in prediction.statuses.items():
        if name not in candidates and only in ("", name):
            hidden = blocking.on(name) if status.plugin in hides else None  # the filter of capacity runs first
            if hidden is not None:
                counts[Reason(hidden[0], of_pods=True)] += 1
                examples.setdefault(*hidden)
                continue
            dropped = prediction.preemption.statuses.get(name)
            has_no_victims = dropped is preemption.NO_VICTIMS  # the first rejection is more helpful
            dropped = None if has_no_victims else dropped
            why, example = _why(prediction, name, dropped or status, blocking, emptied=dropped is not None)
            if has_no_victims and not _is_of_anti_affinity(status):
                why += f"; {joined(preemption.NO_VICTIMS.reasons).short}"
            is_large = status.code is Code.UNSCHEDULABLE
            counts[Reason(why, of_pods=is_large and joined(status.reasons).of_pods)] += 1
            examples.setdefault(why, example)
    return [(count, f"{why} ({examples[why]})" if examples[why] else str(why)) for why, count in ranked(counts)]


def on_no_node(prediction: Prediction, *, named: bool = False) -> str:
    """Return the first reasons of `why_not`, or that of the Pod's only node, as a phrase. `named`: name the node."""
    only = prediction.pod.spec.node_affinity.only_node
    of_only = why_not(prediction, only)[:1] if only else ()
    phrases = [f"its only node{f' {only}' * named}: {shorten(why)}" for _, why in of_only]
    phrases = phrases or node_phrases((why, count) for count, why in why_not(prediction))
    return f"fits on no node{f' ({join_phrases(phrases)})' if phrases else ''}"


def node_phrases(reasons: Iterable[tuple[str, int]]) -> list[str]:
    """Return reasons with their numbers of nodes as phrases, in forewarn's words."""
    return [f"{plural(nodes, 'node')}: {shorten(why)}" for why, nodes in reasons]


def _why(
    prediction: Prediction, node_name: str, status: Status, blocking: BlockingPods, *, emptied: bool
) -> tuple[str, str]:
    """Return the reason why preemption does not help on a node, and an example of a blocking Pod ("" without one).

    `status`: the rejection to explain. `emptied`: whether `status` is that of the node without all Pods of lower
    priority.
    """
    if _is_of_anti_affinity(status):
        return blocking.on(node_name) or (_explained(prediction, node_name, status, emptied=emptied), "")
    if emptied and status.plugin == InterPodAffinity.name:
        return "its Pod affinity needs a Pod of lower priority, which preemption would remove", ""
    pod, snapshot = prediction.pod, prediction.snapshot
    if of_ports := _used_host_port(pod, snapshot, node_name, status, emptied=emptied):
        return of_ports
    if status.plugin == TaintToleration.name:
        node, spec = snapshot.node_infos[snapshot.rows[node_name]].node, pod.spec
        is_static = one_node.NodeAffinity.name in prediction.framework.plan.static
        if not is_static or spec.node_affinity.matches(node.labels, node_name):
            return f"untolerated taint {untolerated_taint(node.taints, spec.tolerations)}", ""
        status = SELECTOR_REASON  # a toleration would not help
    if status.reasons == SELECTOR_REASON.reasons and (labels := _selected(pod.spec.node_affinity)):
        return f"node selector {listed(labels, _LABELS)} does not match", ""
    return _explained(prediction, node_name, status, emptied=emptied), ""


def _used_host_port(
    pod: Pod, snapshot: Snapshot, node_name: str, status: Status, *, emptied: bool
) -> tuple[str, str] | None:
    """Return which host port is in use, and a Pod that uses it and that preemption does not remove ("" for another
    replica); None if only a nominated Pod uses it, or if another plugin rejects the Pod.
    """
    on_node = snapshot.node_infos[snapshot.rows[node_name]].pods if status.plugin == one_node.NodePorts.name else ()
    for other, port in product(on_node, pod.spec.host_ports):
        is_removed = emptied and preemption.may_be_preempted(other, pod.effective_priority, snapshot)
        if not is_removed and one_node.WantedPorts([port]).conflicts(other.spec.host_ports):
            if pod.owner is not None and other.owner == pod.owner:
                return f"host port {port.port} in use by another replica: at most one per node", ""
            return f"host port {port.port} in use{' by a Pod of equal or higher priority' * emptied}", other.key
    return None


def _is_of_anti_affinity(status: Status) -> bool:
    return status.plugin == InterPodAffinity.name and status.code is Code.UNSCHEDULABLE


class BlockingPods:
    """The running and nominated Pods that block a new Pod by required anti-affinity, its own or theirs."""

    def __init__(self, prediction: Prediction) -> None:
        self._pod, self._snapshot = prediction.pod, prediction.snapshot

    def on(self, node_name: str) -> tuple[str, str] | None:
        """Return why preemption does not help on a node, and an example; None if no Pod blocks the new Pod."""
        node_info = self._snapshot.get(node_name)
        labels = node_info.node.labels if node_info else {}
        near = [
            (key, on, pod) for key, value in labels.items() for on, pod in self._pods_by_topology.get((key, value), ())
        ]
        for key, on, pod in near:
            if on == node_name and not preemption.may_be_preempted(pod, self._pod.effective_priority, self._snapshot):
                return "anti-affinity with a Pod there of equal or higher priority", f"{pod.key}"
            if on != node_name:
                place = f"another node of the {TOPOLOGY.get(key, key)}"
                return f"anti-affinity with a Pod on {place}; preemption does not cross nodes", f"{pod.key} on {on}"
        return None

    @cached_property
    def _pods_by_topology(self) -> Mapping[tuple[str, str], list[tuple[str, Pod]]]:
        found: dict[tuple[str, str], list[tuple[str, Pod]]] = {}
        namespaces, affinity = self._snapshot.objects.namespaces, self._pod.spec.pod_affinity
        own = [merge_namespaces(term, namespaces) for term in affinity.required_anti_affinity]
        for info in self._snapshot.node_infos if own else self._snapshot.have_pods_with_required_anti_affinity:
            nominated = (p for p in self._snapshot.nominated_pods(info.name) if p.identity != self._pod.identity)
            for other in chain(info.pods, nominated):
                for key in self._topologies(own, other):
                    if key in info.node.labels:
                        found.setdefault((key, info.node.labels[key]), []).append((info.name, other))
        return found

    def _topologies(self, own: Iterable[AffinityTerm], other: Pod) -> Iterator[str]:
        pod, labels = self._pod, self._snapshot.namespace_labels(self._pod.namespace)
        for term in own:
            if term.matches(pod.namespace, other.namespace, other.labels, {}):
                yield term.topology_key
        for term in other.spec.pod_affinity.required_anti_affinity:
            if term.matches(other.namespace, pod.namespace, pod.labels, labels):
                yield term.topology_key


def explanations(prediction: Prediction, cluster: ClusterSnapshot) -> Iterator[str]:
    """Yield lines that explain surprising outcomes. Source: the documentation, troubleshooting preemption."""
    highest = _priority_for_pdb(prediction) if prediction.outcome == "preempts" else None
    if highest is not None:
        yield (
            f"preempts a Pod of priority {highest:,} although Pods of lower priority run: PDBs with no disruptions "
            "allowed protect those"
        )
    yield from ahead_in_queue(prediction.pod, cluster)


def _priority_for_pdb(prediction: Prediction) -> int | None:
    """Return the priority of the most important victim if a PDB prevented the preemption of Pods with lower priority;
    otherwise None.

    The cost of a node counts the priorities of Pods. The order of victims on a node counts the priorities of PodGroups.
    """
    chosen = next(c for c in prediction.candidates if c.node_name == prediction.nominated_node)
    highest = chosen.victims[0].effective_priority
    if any(
        c.victims[0].effective_priority < highest and c.num_pdb_violations > chosen.num_pdb_violations
        for c in prediction.candidates
    ):
        return highest
    snapshot, priority = prediction.snapshot, prediction.pod.effective_priority
    highest = preemption.pod_priority(chosen.victims[0], snapshot)
    lower = preemption.victims_below(priority, (snapshot.node_infos[snapshot.rows[chosen.node_name]],), snapshot)
    protected, _ = preemption.filter_victims_with_pdb_violation(
        preemption.victims_by_importance(lower, snapshot.semantics),
        snapshot.pdbs,
        first_ends_the_count=snapshot.semantics.pdb_count_ends_at_first_violation,
    )
    going = {victim.identity for victim in chosen.victims}
    prevented = any(victim.priority < highest and victim.pods[0].identity not in going for victim, _ in protected)
    return highest if prevented else None


def _explained(prediction: Prediction, node_name: str, status: Status, *, emptied: bool) -> str:
    """Return a status as a phrase. `emptied`: whether it is the status of the node without Pods of lower priority."""
    reasons = [as_reason(reason) for reason in status.reasons]
    lacking = [reason.resource for reason in reasons if reason.resource]
    resolvable = status.code == "Unschedulable"
    if lacking and not resolvable:
        snapshot = prediction.snapshot
        return f"{TOO_SMALL}{insufficient(_exceeded(prediction, snapshot.node_infos[snapshot.rows[node_name]]))}"
    parts = [insufficient(lacking)] if lacking else []
    parts += [reason.short for reason in reasons if not reason.resource]
    return ", ".join(parts) + (" even after preempting all Pods of lower priority" if emptied and resolvable else "")


def _exceeded(prediction: Prediction, node_info: NodeInfo) -> dict[str, InsufficientResource]:
    """Return resource -> the request that exceeds what the node can allocate even without Pods."""
    framework, name = prediction.framework, NodeResourcesFit.name
    if name not in framework.profile.plugins_at("filter"):
        return {}
    lacking = framework.plugin(name).insufficient(prediction.pod, node_info)
    return {item.resource: item for item in lacking if item.unresolvable}
