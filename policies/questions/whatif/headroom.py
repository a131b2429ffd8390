"""Compute how many more Pods of an object fit, with and without preemption, and which resource runs out first."""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from forewarn.policies.base.documents import Hidden, Inlined, in_json, optional_in_json
from forewarn.policies.base.findings import described, listed
from forewarn.policies.base.metering import CutShort, metered
from forewarn.policies.kubernetes.cluster.admission import admitted, counted_by_quotas
from forewarn.policies.kubernetes.controllers.own_pods import (
    check_template,
    new_pods,
    pods_of,
    replicas_of,
    without_missing_claims,
)
from forewarn.policies.kubernetes.controllers.templates import made_of
from forewarn.policies.kubernetes.kinds.registry import DAEMON_SET, POD_TEMPLATE_PATHS
from forewarn.policies.kubernetes.kube_apiserver.priority import is_recommended
from forewarn.policies.kubernetes.kube_apiserver.quota import first_rejected
from forewarn.policies.kubernetes.objects.extent import check_quotas
from forewarn.policies.kubernetes.objects.fields import NOTHING, ApiObject, InvalidObject, group_kind, ref_of
from forewarn.policies.kubernetes.objects.node import ZONE
from forewarn.policies.kubernetes.objects.priority_class import PREEMPT_NEVER
from forewarn.policies.kubernetes.objects.workload import pod_template_of
from forewarn.policies.kubernetes.scheduling.bulk import capacity_for
from forewarn.policies.kubernetes.scheduling.find_nodes import framework_of
from forewarn.policies.kubernetes.scheduling.framework import PluginFault
from forewarn.policies.kubernetes.scheduling.not_predicted import (
    CLAIMS,
    assumptions,
    is_scheduled_by_group,
    needs_claims,
    not_predicted,
    why_group_not_predicted,
)
from forewarn.policies.kubernetes.scheduling.plugins.node_resources_fit import NodeResourcesFit
from forewarn.policies.kubernetes.scheduling.pod_group_cycle import without_victims
from forewarn.policies.kubernetes.scheduling.preemption import MissingNode, victims_below
from forewarn.policies.kubernetes.scheduling.reasons import joined, ranked
from forewarn.policies.kubernetes.scheduling.schedule_one import Prediction, foreign_after_choice
from forewarn.policies.prediction.autoscaling.cluster_autoscaler.estimator import (
    MAX_NODES,
    NOT_TRIED,
    EquivalenceGroup,
    Estimate,
)
from forewarn.policies.prediction.autoscaling.cluster_autoscaler.node_group import template_info
from forewarn.policies.prediction.autoscaling.cluster_autoscaler.orchestrator import (
    LIMITS_NOT_MODELLED,
    MAX_SIZE_REACHED,
)
from forewarn.policies.prediction.autoscaling.cluster_autoscaler.pod_list import is_expendable
from forewarn.policies.prediction.forecast.impact import WITHOUT_CLAIMS
from forewarn.policies.prediction.forecast.why_not import ahead_in_queue, lasting_statuses
from forewarn.policies.questions.whatif.autoscalers import MAX_NODES as MAX_TOGETHER
from forewarn.policies.questions.whatif.autoscalers import MAX_WORK, NO_GROUPS, Autoscaling, cutoff_reason

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from forewarn.policies.kubernetes.cluster.cache import ClusterSnapshot
    from forewarn.policies.kubernetes.objects.pod import Pod
    from forewarn.policies.kubernetes.scheduling.snapshot import Snapshot


_MOST: Final = 2**31 - 1
"""Maximum number of replicas of a workload: quotas that admit more limit nothing."""


class Quota(NamedTuple):
    """The ResourceQuota that admits only `pods` more of these Pods, and kube-apiserver's message for the next one."""

    pods: int
    quota: str
    message: str


def quota_room(cluster: ClusterSnapshot, pod: ApiObject, namespace: str, class_name: str) -> Quota | None:
    """Return the room in the quotas for Pods like `pod`; None if no quota limits them. Raises InvalidObject, TooLarge.

    `pod`: the API object before admission. `class_name`: its PriorityClass after admission; "" without.
    """
    if not (stored := cluster.quotas_of(namespace)):
        return None
    check_quotas(stored)
    counted = counted_by_quotas(pod, class_name, cluster)
    first, check = first_rejected(counted, stored, replicas=_MOST)
    if not first:
        return None
    fault = check.faults[0]
    return Quota(first - 1, fault.quota, fault.message)


MAX_SEQUENTIAL: Final = 2_000
"""Maximum number of Pods that are scheduled one after the other, if no faster method can count them."""
MAX_PLACED: Final = 200_000
"""Maximum number of Pods that are placed to find each node's reason to reject the next Pod.

The number of Pods per node depends on user input.
"""
MAX_PREEMPTING: Final = 50
"""Maximum number of Pods whose victims are counted."""
_NOT_FILLED: Final = "too many fit to determine what runs out first"


class Count(NamedTuple):
    """Number of replicas that fit.

    `pods`: number that fits on nodes. `is_exact`: false if `pods` is a lower bound. `by_node`: the number by node; None
    if unknown. `quota`: the ResourceQuota that limits the Pods.
    """

    pods: Hidden[int]
    is_exact: Hidden[bool] = True
    by_node: Hidden[Mapping[str, int] | None] = None
    quota: Hidden[Quota | None] = None

    @property
    def admitted(self) -> Count:
        """The number that fits on nodes and that quotas admit."""
        return Count(self.quota.pods) if self.quota is not None and self.is_limited_by_quota else self

    @property
    def is_limited_by_quota(self) -> bool:
        """Whether the quota admits fewer Pods than the nodes."""
        return self.quota is not None and self.quota.pods < self.pods

    @in_json
    def pods_(self) -> int:
        """With a ResourceQuota, the smaller of `nodes` and `quota`."""
        return self.admitted.pods

    @in_json
    def at_least(self) -> bool:
        """Whether more replicas may fit."""
        return not self.admitted.is_exact

    @optional_in_json
    def nodes(self) -> int | None:
        """If a ResourceQuota limits the Pods: the number that fits on nodes."""
        return None if self.quota is None else self.pods

    @optional_in_json
    def nodes_at_least(self) -> bool | None:
        """If a ResourceQuota limits the Pods: whether more may fit on nodes."""
        return None if self.quota is None or self.is_exact else True

    @optional_in_json
    def quota_(self) -> int | None:
        """If a ResourceQuota limits the Pods: the number that it admits."""
        return None if self.quota is None else self.quota.pods


class WithoutPreemption(NamedTuple):
    """Replicas that fit without preemption."""

    replicas: Inlined[Count]
    by_zone: Mapping[str, int]


class OfClass(NamedTuple):
    """Replicas that would fit with preemption if they had this PriorityClass.

    `preempts`: false if the class has preemptionPolicy Never.
    """

    class_: str
    priority: int
    preempts: bool
    fitting: Inlined[Count]


class Stranded(NamedTuple):
    """Free capacity on full nodes. `milli_cpu` is in thousandths of a core, `memory` in bytes.

    `insufficient`: the resources of which these nodes lack the requested amount. `nodes`: number of these nodes.
    """

    insufficient: tuple[str, ...]
    nodes: int
    milli_cpu: int
    memory: int


class OfGroup(NamedTuple):
    """The additional replicas that fit if a node group grows by `nodes` nodes, usually to its maximum size.

    `capped`: whether the group may grow further, but not in one scale-up. `more`: number of additional replicas.
    `reason`: why no Pod fits.
    """

    group: str
    nodes: int
    capped: Hidden[bool]
    more: Hidden[Count]
    reason: str = ""

    @in_json
    def pods(self) -> int:
        return self.more.admitted.pods

    @in_json
    def at_least(self) -> bool:
        """Whether more replicas may fit."""
        return self.more.at_least

    @optional_in_json
    def pods_without_quota(self) -> int | None:
        """If a ResourceQuota limits the Pods: the number that fits on the nodes."""
        return self.more.nodes

    @optional_in_json
    def quota(self) -> int | None:
        """If a ResourceQuota limits the Pods: the number that it admits."""
        return self.more.quota_


class Preempted(NamedTuple):
    """The Pods that the additional Pods preempt, one Pod after the other. `pdbViolations`: number of victims whose PDB
    is violated.
    """

    pods: int
    pdb_violations: int


class PodGroupHeadroom(NamedTuple):
    """The number of PodGroups that fit, without and with preemption. `pods`: number of Pods of a PodGroup.

    Of the last PodGroup, possibly only `min_count` Pods fit. Assumes that no Pod of a PodGroup runs yet.
    """

    name: str
    pods: int
    min_count: int
    without_preemption: int
    with_preemption: int


class Fitting(NamedTuple):
    """Numbers of replicas, or of PodGroups, without and with preemption."""

    without: int
    preempting: int


class Headroom(NamedTuple):
    """The headroom for one object: how many more of its Pods fit.

    `without`, `preempting`: Pods that fit on the nodes, without and with preemption. `byClass`: replicas that would fit
    with preemption, by PriorityClass: the object's, and those that are neither system classes nor forewarn's.
    `reasons`: kube-scheduler's reasons why nodes accept no more Pods, with the number of nodes, those that
    capacity could remove first.
    `stranded`: unusable free capacity, by insufficient resources. `nodeGroups`: additional replicas if one node group
    grows. `podGroup`: only if the object's Pods belong to a PodGroup. `assumes`: what the answer assumes, as clauses.
    `largest`: resource -> the most that a node has, for those of which a Pod requests more. `preempted`: if more Pods
    fit with preemption than without; absent for a PodGroup, for many Pods, and if chance decides about the number.
    """

    name: Hidden[str]
    pod: Hidden[Pod]
    without: Hidden[Count]
    preempting: Hidden[Count]
    by_class: Sequence[OfClass]
    reasons: Hidden[Sequence[tuple[str, int]]]
    stranded: Sequence[Stranded]
    by_zone: Hidden[Mapping[str, int]]
    notes: Sequence[str]
    node_groups: Sequence[OfGroup] | None = None
    all_node_groups: OfGroup | None = None
    assumes: Hidden[Sequence[str]] = ()
    pod_group: PodGroupHeadroom | None = None
    largest: Hidden[Mapping[str, int]] = NOTHING
    preempted: Preempted | None = None

    @optional_in_json
    def quota(self) -> Quota | None:
        """The ResourceQuota that limits the Pods."""
        return self.without.quota

    @property
    def pods(self) -> tuple[Count, Count]:
        """The number of Pods that fit on the nodes and that quotas admit, without and with preemption."""
        return self.without.admitted, self.preempting.admitted

    @property
    def more(self) -> Fitting:
        """The number of replicas, or of PodGroups, that fit and that quotas admit."""
        if self.pod_group is None:
            return Fitting(*(count.pods for count in self.pods))
        return Fitting(self.pod_group.without_preemption, self.pod_group.with_preemption)

    def __repr__(self) -> str:
        return described(self, f"{self.name}: {self.more.without} fit, {self.more.preempting} with preemption")

    @in_json
    def object(self) -> str:
        return self.name

    @in_json
    def priority(self) -> int:
        """The priority of the object's Pods."""
        return self.pod.effective_priority

    @in_json
    def priority_class(self) -> str:
        """The PriorityClass of the object's Pods."""
        return self.pod.priority_class_name

    @in_json
    def without_preemption(self) -> WithoutPreemption:
        """The replicas that fit without preemption."""
        return WithoutPreemption(self.without, self.by_zone)

    @in_json
    def with_preemption(self) -> Count:
        """The replicas that fit if the Pods may preempt."""
        return self.preempting

    @in_json
    def reasons_(self) -> dict[str, int]:
        """Number of nodes for each reason why no more replicas fit."""
        return dict(self.reasons)


def headroom(cluster: ClusterSnapshot, obj: ApiObject, autoscaling: Autoscaling = NO_GROUPS) -> Headroom:
    """Return how many further Pods like those of a Pod or workload fit. Raises InvalidObject.

    `autoscaling`: node groups that may grow.
    """
    pod, counted, notes = _one_more(cluster, obj)
    snapshot = cluster.scheduling
    member = pod if is_scheduled_by_group(pod, snapshot) and not why_group_not_predicted(pod, snapshot) else None
    if member is not None and needs_claims(member, snapshot):
        raise InvalidObject(f"not predicted: {CLAIMS}", ref=ref_of(obj, "default"), reason=CLAIMS)
    if member is not None:  # scheduled one after the other, as many equal Pods fit without a group as with it
        pod = replace(pod, spec=replace(pod.spec, pod_group=""))
    why = not_predicted(pod, snapshot)
    if why:
        fix = "remove spec.nodeName" if pod.node_name else ""
        raise InvalidObject(f"not predicted: {why}", (), ref_of(obj, "default"), fix, why)
    without, full = fill(snapshot, pod)
    prediction = _next_prediction(full, pod) if full is not None else None
    notes = notes if full is not None else [*notes, _NOT_FILLED]
    quota_for = partial(quota_room, cluster, counted, pod.namespace)
    quota = quota_for(pod.priority_class_name)
    left = quota._replace(pods=max(quota.pods - without.pods, 0)) if quota is not None else None
    groups, together = _with_groups(cluster, pod, full, autoscaling, left)
    by_class = _count_by_class(cluster, obj, pod, without, quota_for, as_group=member is not None)
    preempting = _with_preemption(snapshot, pod, without, as_group=member is not None)._replace(quota=quota)
    without = without._replace(quota=quota)
    assumed = assumptions(cluster.objects, (pod,), victims=preempting.pods > without.pods, created=True)
    group = _pod_group_headroom(cluster, obj, member, without.admitted, preempting.admitted) if member else None
    more = 0 if member or full is None else preempting.admitted.pods - without.admitted.pods
    notes = [*notes, *ahead_in_queue(pod, cluster), *_not_counted(autoscaling), *_foreign(pod, snapshot)]
    return Headroom(
        name=str(ref_of(obj, "default")),
        pod=pod,
        without=without,
        preempting=preempting,
        by_class=by_class,
        reasons=_reasons(prediction) if prediction else [],
        stranded=_stranded(prediction) if prediction is not None else [],
        by_zone=_count_by_zone(without.by_node or {}, snapshot),
        notes=notes,
        node_groups=groups,
        all_node_groups=together,
        assumes=assumed,
        largest=_exceeded(pod, snapshot),
        pod_group=group,
        preempted=_preempted(full, pod, more) if full is not None and more > 0 else None,
    )


def _exceeded(pod: Pod, snapshot: Snapshot) -> dict[str, int]:
    """Return, for each resource of which the Pod requests more than any node has, the largest amount of a node."""
    asks = pod.occupies.resource
    nodes = [info.node.allocatable for info in snapshot.node_infos]
    amounts = {
        "cpu": (asks.milli_cpu, max((each.milli_cpu for each in nodes), default=0)),
        "memory": (asks.memory, max((each.memory for each in nodes), default=0)),
    }
    return {name: most for name, (asked, most) in amounts.items() if asked > most > 0}


def _foreign(pod: Pod, snapshot: Snapshot) -> list[str]:
    """Return a note about third-party plugins that run after the choice of a node; empty without such plugins."""
    names = foreign_after_choice(framework_of(snapshot, pod))
    return [f"not predicted whether Pods that fit are bound: third-party plugins ({listed(names)})"] if names else []


def _pod_group_headroom(
    cluster: ClusterSnapshot, obj: ApiObject, pod: Pod, without: Count, preempting: Count
) -> PodGroupHeadroom | None:
    """Return how many PodGroups of an object fit. Raises InvalidObject.

    `without`, `preempting`: the numbers of single Pods that fit, and that quotas admit, without and with preemption.
    """
    group = cluster.objects.pod_groups[pod.namespace, pod.spec.pod_group]
    template = pod_template_of(obj, POD_TEMPLATE_PATHS)
    wanted = replicas_of(obj) if template is not None and template.is_template else 0
    size = max(wanted, group.pods_to_schedule)

    def groups(count: Count) -> int:
        whole, rest = divmod(count.pods, size)
        return whole + (rest >= group.pods_to_schedule)

    return PodGroupHeadroom(group.key, size, group.min_count, groups(without), groups(preempting))


def _one_more(cluster: ClusterSnapshot, obj: ApiObject) -> tuple[Pod, ApiObject, list[str]]:
    """Return the next Pod of an object, as admission completes the Pod; its API object before admission; and notes
    about what is left out.

    Raises InvalidObject.
    """
    ref, template = ref_of(obj, "default"), pod_template_of(obj, POD_TEMPLATE_PATHS)
    if template is None:
        raise InvalidObject("no Pod template found", ref=ref)
    check_template(obj, cluster)
    if group_kind(obj) == DAEMON_SET:
        raise InvalidObject("a DaemonSet runs one Pod per node and does not scale", (), ref, "use forewarn predict")
    if not template.is_template:
        pod = replace(admitted(obj, cluster), name="one-more", uid="")
        whole = without_missing_claims(pod, cluster)
        return whole, obj, [] if whole is pod else [WITHOUT_CLAIMS]
    own = pods_of(cluster, obj)
    new = new_pods(cluster, obj, template.object, len(own) + 1, own)
    pod = new.pods[0]
    counted = made_of(pod.namespace, obj, template.object)
    return pod, counted, [WITHOUT_CLAIMS] if new.without_claims else []


def fill(snapshot: Snapshot, pod: Pod) -> tuple[Count, Snapshot | None]:
    """Return how many Pods equal to `pod` fit, and the cluster with these Pods; None if there are too many to place."""
    capacity = capacity_for(snapshot, pod)
    if capacity is None:
        count, full = _one_by_one(snapshot, pod, preempting=False)
        return count, full if count.is_exact else None
    by_node = capacity.example_order()
    if capacity.total > MAX_PLACED:
        return Count(capacity.total, by_node=by_node), None
    every = _numbered(pod)
    bound = [snapshot.bound(next(every), node) for node, count in by_node.items() for _ in range(count)]
    return Count(capacity.total, by_node=by_node), snapshot.with_pods(bound, ())


def _with_preemption(snapshot: Snapshot, pod: Pod, without: Count, *, as_group: bool) -> Count:
    """Return how many Pods fit if each may preempt Pods of lower priority. `without`: the number without preemption.

    `as_group`: preemption for a PodGroup, which searches victims in the whole cluster and places all Pods at once.
    """
    if pod.preemption_policy == PREEMPT_NEVER:
        return without
    if as_group:
        try:
            lower = victims_below(pod.effective_priority, snapshot.node_infos, snapshot)
        except MissingNode as fault:
            raise InvalidObject(f"not predicted: {fault}") from None
        return fill(without_victims(snapshot, lower), pod)[0]
    if (capacity := capacity_for(snapshot, pod, preempting=True)) is None:
        return _one_by_one(snapshot, pod, preempting=True)[0]
    return Count(capacity.total, by_node=capacity.by_node)


def _preempted(snapshot: Snapshot, pod: Pod, more: int) -> Preempted | None:
    """Return what `more` further Pods preempt; None if no Pod is preempted, or if the number is not certain.

    `snapshot`: with all Pods that fit without preemption.
    """
    if more > MAX_PREEMPTING:
        return None
    victims = violations = 0
    for new in itertools.islice(_numbered(replace(pod, name=f"{pod.name}-preempting")), more):
        prediction = Prediction(snapshot, new)
        if not prediction.node or prediction.fewest is not None:
            return None
        victims += sum(not victim.terminating for victim in prediction.victims)
        violations += prediction.num_pdb_violations
        snapshot = prediction.final_snapshot()
    return Preempted(victims, violations) if victims else None


def _not_counted(autoscaling: Autoscaling) -> Iterator[str]:
    if autoscaling.groups and autoscaling.settings.limits:
        yield LIMITS_NOT_MODELLED
    if autoscaling.has_node_pools:
        yield "new nodes of Karpenter are not counted"


def _with_groups(
    cluster: ClusterSnapshot, pod: Pod, full: Snapshot | None, autoscaling: Autoscaling, quota: Quota | None
) -> tuple[list[OfGroup] | None, OfGroup | None]:
    """Return the result of `_count_by_group` with a quota; None without groups."""
    groups, together = autoscaling.groups, None
    if is_expendable(pod, autoscaling.cutoff):
        why = cutoff_reason(autoscaling.cutoff)
        alone = [OfGroup(group.name, 0, False, Count(0), why) for group in groups]
    else:
        alone, together = _count_by_group(cluster, pod, full, autoscaling)
    together = _limited(together, quota) if together is not None else None
    return [_limited(group, quota) for group in alone] or None, together


def _limited(group: OfGroup, quota: Quota | None) -> OfGroup:
    return group._replace(more=group.more._replace(quota=quota))


def _count_by_group(
    cluster: ClusterSnapshot, pod: Pod, full: Snapshot | None, autoscaling: Autoscaling
) -> tuple[list[OfGroup], OfGroup | None]:
    """Return the additional Pods for each node group alone, and for all of them together; None if at most one helps.

    `full`: the cluster with all Pods that fit; None if too many.
    """
    daemon_sets = [workload.object for key, workload in sorted(cluster.workloads.items()) if key[0] == DAEMON_SET]
    groups, base = autoscaling.groups, cluster.scheduling if full is None else full
    total, halted = autoscaling.settings.max_nodes_total, autoscaling.settings.why_halted(base.rows)
    left = max(total - len(base.node_infos), 0) if total else MAX_NODES * len(groups)
    results: list[OfGroup] = []
    estimates: list[Estimate] = []
    try:
        with metered(lambda: False, MAX_WORK):
            for group in groups:
                if why := group.blocked or halted:
                    results.append(OfGroup(group.name, 0, False, Count(0), why))
                    continue
                most = left if group.max_added is None else min(group.max_added, left)
                nodes = min(most, MAX_NODES)
                capped = group.max_added is None or most > nodes
                estimate = Estimate(base, group, template_info(group, daemon_sets, base.semantics), nodes)
                more, why = _group_count(estimate, pod, nodes, full is not None)
                results.append(OfGroup(group.name, nodes, capped, more, why))
                estimates += [estimate.on(base, nodes)] if nodes else []  # removes the nodes that the estimate added
            return results, _together(base, pod, results, estimates, left) if full is not None else None
    except CutShort:
        rest = groups[len(results) :]
        return results + [OfGroup(group.name, 0, False, Count(0, False), NOT_TRIED) for group in rest], None


def _together(
    base: Snapshot, pod: Pod, alone: Sequence[OfGroup], estimates: Sequence[Estimate], remaining: int
) -> OfGroup | None:
    """Return the additional Pods if all node groups grow, and the nodes that these Pods use; None for fewer than two.

    `alone`: the result of each group. `remaining`: maximum nodes of all groups.
    """
    helping = [each for each in alone if each.more.pods]
    try:
        is_sum = all(estimate.on_one_node(pod, 0) is not None for estimate in estimates)
    except PluginFault:
        return None
    if len(helping if is_sum else estimates) < 2:
        return None
    capped, nodes, pods = any(each.capped for each in helping), 0, 0
    if is_sum:
        for each in sorted(helping, key=lambda each: -each.more.pods // each.nodes):
            more = min(each.nodes, remaining - nodes)
            nodes, pods = nodes + more, pods + each.more.pods // each.nodes * more
        return OfGroup("", nodes, capped, Count(pods, is_exact=all(each.more.is_exact for each in helping)))
    larger, remaining = base, min(remaining, MAX_TOGETHER)
    for estimate in estimates:
        most = min(estimate.most, remaining - nodes)
        larger, nodes = estimate.on(larger, most).with_all(), nodes + most
    count, _ = fill(larger, pod)
    used = sum(bool(number) and name not in base.rows for name, number in (count.by_node or {}).items())
    is_exact = count.is_exact and nodes == sum(estimate.most for estimate in estimates)
    return OfGroup("", used, capped, Count(count.pods, is_exact)) if count.pods else None


def _group_count(estimate: Estimate, pod: Pod, nodes: int, is_full: bool) -> tuple[Count, str]:
    """Return the number of additional Pods that fit on `nodes` new nodes, and the reason if none fits.

    `is_full`: no further Pod fits on the existing nodes.
    """
    if nodes <= 0:
        return Count(0), MAX_SIZE_REACHED
    if why := estimate.why_not(EquivalenceGroup([pod])):
        return Count(0), why
    try:
        on_one_node = estimate.on_one_node(pod, MAX_SEQUENTIAL)
    except PluginFault as fault:
        return Count(0), str(fault)
    if on_one_node is not None:
        return Count(on_one_node * nodes, is_exact=on_one_node < MAX_SEQUENTIAL), ""
    if not is_full:
        return Count(0, is_exact=False), _NOT_FILLED
    larger = estimate.with_all()
    capacity = capacity_for(larger, pod)
    return (Count(capacity.total) if capacity is not None else _one_by_one(larger, pod, preempting=False)[0]), ""


def _one_by_one(snapshot: Snapshot, pod: Pod, *, preempting: bool) -> tuple[Count, Snapshot]:
    """Predict equal Pods one after the other until one stays Pending; return their number and the cluster with them.

    Stops at MAX_SEQUENTIAL; the number is then a lower bound. `preempting`: Pods may preempt others. Raises
    InvalidObject if a Pod is not predicted.
    """
    by_node: Counter[str] = Counter()
    every = _numbered(pod if preempting else replace(pod, preemption_policy=PREEMPT_NEVER))
    for number in range(MAX_SEQUENTIAL):
        prediction = Prediction(snapshot, next(every))
        if prediction.not_predicted:
            raise InvalidObject(f"not predicted: {prediction.not_predicted}")
        if not (prediction.fits or (preempting and prediction.outcome == "preempts")):
            return Count(number, by_node=by_node), snapshot
        by_node[prediction.node] += 1
        snapshot = prediction.final_snapshot()
    return Count(MAX_SEQUENTIAL, is_exact=False, by_node=by_node), snapshot


def _numbered(pod: Pod) -> Iterator[Pod]:
    return (replace(pod, name=f"{pod.name}-{number}", uid="") for number in itertools.count(1))


def _count_by_class(
    cluster: ClusterSnapshot,
    obj: ApiObject,
    pod: Pod,
    without: Count,
    quota_for: Callable[[str], Quota | None],
    *,
    as_group: bool,
) -> list[OfClass]:
    """Return the result for the Pod's own class and each class recommended for use, lowest priority first.

    The running Pods of the workload then have this class, too. Classes with equal value and preemption policy are
    computed only once. `quota_for`: the room by PriorityClass.
    """
    own = [each for each in pods_of(cluster, obj) if each.node_name and not each.terminating]
    counts: dict[tuple[int, bool], Count] = {}
    counted: list[OfClass] = []
    classes = [c for c in cluster.priority_classes.values() if c.name == pod.priority_class_name or is_recommended(c)]
    for rows in sorted(classes, key=lambda c: (c.value, c.name)):
        never = rows.preemption_policy == PREEMPT_NEVER
        ranked = partial(
            replace, priority=rows.value, priority_class_name=rows.name, preemption_policy=rows.preemption_policy
        )
        if (rows.value, never) not in counts:
            lower = [each for each in own if pod.effective_priority <= each.effective_priority < rows.value]
            snapshot = cluster.scheduling.with_pods(map(ranked, lower), lower)
            counts[rows.value, never] = _with_preemption(snapshot, ranked(pod), without, as_group=as_group)
        fitting = counts[rows.value, never]
        counted.append(OfClass(rows.name, rows.value, not never, fitting._replace(quota=quota_for(rows.name))))
    return counted


def reasons_of(full: Snapshot, pod: Pod, nodes: Collection[str]) -> Sequence[tuple[str, int]]:
    """Return the reasons why these nodes do not take the Pod, with the number of nodes, most first."""
    return _reasons(_next_prediction(full, pod), nodes)


def _next_prediction(full: Snapshot, pod: Pod) -> Prediction:
    """Predict the next Pod without preemption: searching its victims takes as long as everything else."""
    return Prediction(full, replace(pod, preemption_policy=PREEMPT_NEVER), reasons=True)


def _reasons(prediction: Prediction, nodes: Collection[str] | None = None) -> Sequence[tuple[str, int]]:
    if prediction.pre_filter is not None:
        return [(joined(prediction.pre_filter.reasons, "; "), len(prediction.snapshot.node_infos))]
    statuses = {**prediction.statuses, **lasting_statuses(prediction.snapshot, prediction.pod)}
    counts = Counter(status.reasons for name, status in statuses.items() if nodes is None or name in nodes)
    return ranked({joined(reasons): count for reasons, count in counts.items()})


def _stranded(prediction: Prediction) -> list[Stranded]:
    """Return the free amounts of nodes that only lack resources, grouped by these, most nodes first."""
    framework = framework_of(prediction.snapshot, prediction.pod)
    if NodeResourcesFit.name not in framework.profile.plugins_at("filter"):
        return []
    fit: NodeResourcesFit = framework.plugin(NodeResourcesFit.name)
    rows: dict[tuple[str, ...], Stranded] = {}
    lasting = lasting_statuses(prediction.snapshot, prediction.pod)
    for name, status in prediction.statuses.items():
        info = prediction.snapshot.get(name)
        if info is None or status.plugin != NodeResourcesFit.name or name in lasting:
            continue
        scarce = tuple(item.resource for item in fit.insufficient(prediction.pod, info))
        one, allocatable = rows.get(scarce, Stranded(scarce, 0, 0, 0)), info.node.allocatable
        cpu, memory = max(allocatable.milli_cpu - info.milli_cpu, 0), max(allocatable.memory - info.memory, 0)
        rows[scarce] = Stranded(scarce, one.nodes + 1, one.milli_cpu + cpu, one.memory + memory)
    return sorted(rows.values(), key=lambda row: (-row.nodes, row.insufficient))


def _count_by_zone(by_node: Mapping[str, int], snapshot: Snapshot) -> dict[str, int]:
    """Return the number of Pods by the zone of their nodes; empty if the nodes have no zones.

    `by_node`: Pods by node name.
    """
    counts: Counter[str] = Counter()
    for name, count in by_node.items():
        info = snapshot.get(name)
        zone = info.node.labels.get(ZONE, "") if info else ""
        if zone and count:
            counts[zone] += count
    return dict(sorted(counts.items()))
