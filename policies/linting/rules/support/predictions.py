"""Predictions for new Pods and for restarts (`kubectl rollout restart` now, each workload alone), for several rules."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cached_property, partial
from itertools import accumulate, groupby
from typing import TYPE_CHECKING, Any, Final, Never

from forewarn.policies.base.copies import cached_in
from forewarn.policies.base.findings import ObjectRef, plural
from forewarn.policies.base.light import NamedTuple, later
from forewarn.policies.base.metering import CutShort, TooLarge
from forewarn.policies.kubernetes.kinds.registry import DAEMON_SET, JOB, LOCAL_QUEUE, QUEUE_LABEL, ROLLED_OUT
from forewarn.policies.kubernetes.objects.fields import (
    NOTHING,
    ApiObject,
    InvalidObject,
    at,
    group_kind,
    list_at,
    mapping,
    mapping_at,
)
from forewarn.policies.kubernetes.objects.priority_class import HIGHEST_SYSTEM_PRIORITY
from forewarn.policies.kubernetes.objects.reviewed_object import ChangeSet, Operation, ReviewedObject
from forewarn.policies.kubernetes.objects.workload import PodTemplate, Workload, pod_template_of
from forewarn.policies.linting.rules.support.context import Context, Phase
from forewarn.policies.linting.rules.support.rule_text import required_by

if TYPE_CHECKING:
    from forewarn.policies.kubernetes.cluster.cache import ClusterSnapshot
    from forewarn.policies.kubernetes.objects.pod import Pod
    from forewarn.policies.kubernetes.options import Options
    from forewarn.policies.kubernetes.scheduling.reasons import Reason
    from forewarn.policies.kubernetes.scheduling.schedule_one import Prediction
    from forewarn.policies.kubernetes.scheduling.snapshot import Snapshot
    from forewarn.policies.prediction.forecast.forecast import Forecast, QuotaLimits
    from forewarn.policies.prediction.forecast.impact import Impact, NewNodes
    from forewarn.policies.prediction.forecast.why_not import Waiting

    BeforeSimulation = Callable[[Impact, Waiting], object]
    Simulate = Callable[[Sequence[int]], list[Any]]
    """Returns the results of a batch of restarts."""
    Recall = Callable[[ReviewedObject, ClusterSnapshot, Callable[[], Impact | None]], Impact | None]
    """Returns the impact of a subject on a cluster, from a cache or by the last argument; None without new Pods."""


class Predicted:
    """The impacts of the objects of a change set: each prediction includes the Pods of earlier objects, those of a
    CronJob the Pods of all other kinds.
    """

    def __init__(
        self,
        context: Context,
        recall: Recall | None = None,
        before_simulation: Callable[[Impact, Waiting], object] | None = None,
    ) -> None:
        """Prepare the predictions; none is computed yet.

        `recall`: a cache, only for a change set of one object, because impacts depend on earlier objects.
        `before_simulation`: as in `Forecast`.
        """
        self._before_simulation = before_simulation
        self._context, self._recall = context, recall or (lambda _subject, _cluster, work_out: work_out())
        self._impacts: dict[int, Impact | None] = {}

    def impact_of(self, subject: ReviewedObject) -> Impact | None:
        """The impact of an object's new Pods; None without new Pods, or if no nodes are known."""
        cluster = self._context.cluster
        if cluster is None or not cluster.objects.nodes:
            return None
        for other in self._ordered_objects:
            if id(other) not in self._impacts:
                self._impacts[id(other)] = self._recall(other, cluster, partial(self._work_out, other))
            if other is subject:
                break
        return self._impacts.get(id(subject))

    @cached_property
    def _ordered_objects(self) -> Sequence[ReviewedObject]:
        """The objects in the order in which their Pods can be scheduled: after Pods to which they require affinity."""
        from graphlib import CycleError, TopologicalSorter

        from forewarn.policies.kubernetes.controllers.own_pods import creates_pods_later

        subjects = sorted(self._context.change_set.subjects, key=lambda subject: creates_pods_later(subject.object))
        by_id = {id(subject): subject for subject in subjects}
        with suppress(CycleError, InvalidObject, TooLarge):
            needed = {key: [*map(id, required_by(subject, self._context))] for key, subject in by_id.items()}
            return [by_id[key] for key in TopologicalSorter(needed).static_order()]
        return subjects

    @property
    def computed(self) -> tuple[Impact, ...]:
        """The impacts computed so far, in the order in which Pods are created."""
        return tuple(impact for impact in self._impacts.values() if impact is not None)

    def _work_out(self, subject: ReviewedObject) -> Impact | None:
        if self._is_suspended_by_kueue(subject):
            return None
        try:
            forecast = self._forecast
        except CutShort as why:
            from forewarn.policies.prediction.forecast.forecast import not_read

            return not_read(subject, self._context.options.pod_template_paths, why)
        return forecast.predict_impact(subject, self._limits(subject))

    def _is_suspended_by_kueue(self, subject: ReviewedObject) -> bool:
        """Report whether Kueue suspends a new Job, so that it creates no Pods yet."""
        cluster, queue = self._context.cluster, at(subject.object, "metadata", "labels", QUEUE_LABEL)
        is_new_job = subject.operation is Operation.CREATE and group_kind(subject.object) == JOB
        return bool(queue and is_new_job and cluster and cluster.kueue.get(LOCAL_QUEUE))

    def _limits(self, subject: ReviewedObject) -> QuotaLimits | None:
        """Return how ResourceQuotas limit the Pods of a subject; None without ResourceQuotas."""
        context = self._context
        is_limited = bool(context.options.limited_resources)
        if not (is_limited or context.new_quotas or (context.cluster and context.cluster.resource_quotas)):
            return None
        from forewarn.policies.linting.rules.support.quota_use import QuotaUse
        from forewarn.policies.prediction.forecast.forecast import QuotaLimits

        use = context.once(QuotaUse)
        before = partial(use.quotas_before, subject)
        if not is_limited and not context.has_quotas(subject):
            return QuotaLimits(before=before)
        return QuotaLimits(use.let_in(subject), use.use_beside_old(subject) is None, before, not is_limited)

    @cached_property
    def _forecast(self) -> Forecast:
        from forewarn.policies.prediction.forecast.forecast import Forecast

        context = self._context
        assert context.cluster_to_be is not None
        return Forecast(
            context.cluster_to_be,
            context.options.pod_template_paths,
            context.expired,
            pods_defaulted=context.phase is Phase.VALIDATE,  # after LimitRanger
            recreated=context.options.recreates_pods,
            before_simulation=self._before_simulation,
            is_placeholder=partial(is_placeholder, options=context.options),
        )


CHECK_PROFILE: Final = "check the plugins of the profile with `forewarn info scheduler`"
"""The fix for a scheduling cycle that ends in an error."""
CLASS_FOR_DAEMONS: Final = "give the DaemonSet a PriorityClass that preempts Pods on its nodes"
SHOWN_REASONS: Final = 3
_MAX_FIXES: Final = 2


def fix_of(reasons: Sequence[tuple[Reason, int]]) -> str:
    """Return the fix for these reasons; "" if the reasons suggest none."""
    fixes = dict.fromkeys(fix for reason, _ in reasons[:SHOWN_REASONS] for fix in reason.fixes)
    return " or ".join([*fixes][:_MAX_FIXES])


def fixable_reasons(prediction: Prediction) -> Sequence[tuple[Reason, int]]:
    """Return the reasons of a Pending Pod whose fixes help, as for `fix_of`: one cause keeps it off all nodes, or its
    volumes do; [] for other Pods. Commands and the linter show these fixes.
    """
    from forewarn.policies.kubernetes.scheduling.reasons import Reason
    from forewarn.policies.prediction.forecast.why_not import cause, fixes_of_topology, other_topology

    if prediction.outcome != "pending" or prediction.error:
        return []
    if needs_class(prediction):
        return [(Reason("", "", CLASS_FOR_DAEMONS), 0)]
    if prediction.pre_filter is None and (found := cause(prediction)):
        return [(found, 0)]
    if prediction.pre_filter is None and other_topology(prediction) is not None:
        return [(Reason("", "", *fixes_of_topology(prediction)), 0)]
    reasons = reasons_of([prediction])
    is_about_it = prediction.pre_filter is not None or any(reason.of_volumes for reason, _ in reasons)
    return reasons if is_about_it else []


def needs_class(prediction: Prediction) -> bool:
    """Report whether a Pending DaemonSet Pod would fit by preempting all but Pods of the highest system class."""
    from forewarn.policies.kubernetes.scheduling.schedule_one import Prediction

    pod, snapshot = prediction.pod, prediction.snapshot
    info = snapshot.get(pod.spec.node_affinity.only_node)
    if prediction.outcome != "pending" or pod.owner_kind != DAEMON_SET or info is None:
        return False
    lower = [other for other in info.pods if other.effective_priority < HIGHEST_SYSTEM_PRIORITY]
    return Prediction(snapshot.with_pods((), lower), pod).fits


def cycle_error(prediction: Prediction) -> str:
    """The reason of a Pod whose scheduling cycle ends in an error."""
    return f"kube-scheduler's cycle ends in an error: {prediction.error}"


def reasons_of(predictions: Sequence[Prediction], instead: Mapping[str, str] = NOTHING) -> list[tuple[Reason, int]]:
    """The reasons why no node fits, with the number of nodes, in the order of `ranked`; 0 for a reason about no node.

    For Pods with one possible node, the reason of that node. Without candidates for preemption, the reasons before it.
    The first ones have only fixes that help (`with_tried_fixes`, also `instead`).
    """
    from forewarn.policies.kubernetes.scheduling.preemption import NO_VICTIMS
    from forewarn.policies.kubernetes.scheduling.reasons import Reason, joined, ranked
    from forewarn.policies.prediction.forecast.why_not import with_tried_fixes

    first = predictions[0]
    if first.error:
        return [(Reason(cycle_error(first)), 0)]
    if first.pre_filter is not None:
        return [(joined(first.pre_filter.reasons, "; "), 0)]
    counts: Counter[str] = Counter()
    examples: dict[str, Prediction] = {}
    known: dict[tuple[str, ...], Reason] = {}
    for prediction in predictions if first.pod.spec.node_affinity.only_node else (first,):
        node = prediction.pod.spec.node_affinity.only_node
        for name, status in prediction.statuses.items() if not node else prediction.status_of(node):
            dropped = prediction.preemption.statuses.get(name, NO_VICTIMS)
            reasons = (status if dropped is NO_VICTIMS else dropped).reasons
            reason = cached_in(known, reasons, partial(joined, reasons))
            counts[reason] += 1
            examples.setdefault(reason, prediction)
    found = ranked(counts)
    tried = with_tried_fixes([(reason, examples[reason]) for reason, _ in found[:SHOWN_REASONS]], instead)
    return [*((reason, nodes) for reason, (_, nodes) in zip(tried, found, strict=False)), *found[SHOWN_REASONS:]]


_PAUSE: Final = later(r"(?:.*/)?pause(?:-[a-z0-9]+)?(?:[:@].*)?", re.DOTALL)


def is_placeholder(pod: Pod, options: Options) -> bool:
    """Report whether a Pod is a placeholder: by configured labels, else by negative priority and the pause image."""
    if options.placeholder_pods is not None:
        return options.placeholder_pods.matches(pod.labels)
    return pod.effective_priority < 0 and _only_pauses(pod.spec.images)


def only_reserves(template: PodTemplate, options: Options) -> bool:
    """Report whether a Pod template creates placeholder Pods. The caller checks that its priority is negative."""
    if options.placeholder_pods is not None:
        return options.placeholder_pods.matches(mapping_at(template.object, "metadata", "labels"))
    return _only_pauses([str(at(container, "image")) for container in list_at(template.spec, "containers")])


def _only_pauses(images: Collection[str]) -> bool:
    return bool(images) and all(map(_PAUSE.fullmatch, images))


_ALL: Final = "run `forewarn audit --all-restarts`"
_BATCH: Final = 1_000
"""Number of simulated Pods in a batch: about half a second of CPU time."""
_MAX_CHECKED: Final = 100
"""Maximum number of Pods with one possible node whose reasons are read."""


class Restart(NamedTuple):
    """A workload, and the impact of restarting it on running Pods.

    `reasons`: why new Pods stay Pending (see `reasons_of`), if they block the rollout. `rejection`: upstream's message,
    if a ResourceQuota still rejects new Pods at the end. `new_nodes`: for new Pods that block the rollout; None without
    node groups.
    """

    ref: ObjectRef
    impact: Impact
    reasons: Sequence[tuple[Reason, int]] = ()
    rejection: str = ""
    new_nodes: NewNodes | None = None

    @property
    def is_blocked(self) -> bool:
        """Whether new Pods without a node block the rollout.

        If old Pods terminate first, and the rollout is too large for a simulation: only if all old Pods do not help.
        """
        impact = self.impact
        stuck = next((prediction for prediction in impact.predictions if prediction.outcome == "pending"), None)
        may_free = impact.keeps_old and impact.deleted_first and not impact.is_simulated
        return stuck is not None and not (may_free and _fits_without(stuck, impact.own))


ROLL: Final = "set maxSurge: 0 and maxUnavailable: 1"
"""The fix for new Pods that fit only after old ones of their Deployment have terminated."""


def with_rollout_fix(
    reasons: Sequence[tuple[Reason, int]], stuck: Prediction, impact: Impact, kind: str
) -> Sequence[tuple[Reason, int]]:
    """Return the reasons why a new Pod stays Pending, the first with ROLL if a Deployment's own Pods are the cause."""
    is_blocked = kind == "Deployment" and impact.is_blocked_rollout and not impact.deleted_first
    if not (is_blocked and reasons and _fits_without(stuck, impact.own)):
        return reasons
    first, nodes = reasons[0]
    return [(first.with_fixes(ROLL, *(first.fixes or ("add a node",))), nodes), *reasons[1:]]


def _fits_without(stuck: Prediction, own: Collection[str]) -> bool:
    """Report whether a Pending Pod fits once these Pods (identities) have terminated."""
    from forewarn.policies.kubernetes.scheduling.schedule_one import Prediction

    old = [pod for info in stuck.snapshot.node_infos for pod in info.pods if pod.identity in own]
    return Prediction(stuck.snapshot.with_pods((), old), stuck.pod).outcome != "pending"


class Simulations(NamedTuple):
    """How to simulate restarts.

    `mapped`: yields the results of each restart in order. It passes batches of restarts to the first function in
    another process, or to the second function in this process. `most`: maximum number of Pods in
    all simulations together; None: no maximum. `new_nodes`: returns the nodes that autoscalers add for the Pending Pods
    of predictions; None without node groups. `namespace`: the only one whose workloads are restarted; None for all.
    """

    mapped: Callable[[Sequence[Sequence[int]], Simulate, Simulate], Iterable[Any]]
    most: int | None = None
    new_nodes: Callable[[Sequence[Prediction]], NewNodes] | None = None
    namespace: str | None = None


class _Postponed(Exception):
    """A restart needs a simulation. `at_stake`: sort key, the worst first. `pods`: number of Pods in the simulation."""

    def __init__(self, impact: Impact, waiting: Waiting) -> None:
        super().__init__()
        self.at_stake = -(impact.priority or 0), -impact.new
        self.pods = impact.new + len(impact.own) + len(waiting.pods)


class Restarts:
    """The restarts of a cluster's workloads, computed once for all rules."""

    def __init__(self, context: Context, simulations: Simulations | None = None) -> None:
        """`simulations`: None to compute the restarts one after the other."""
        self._context, self._simulations = context, simulations
        self._omitted: Sequence[ObjectRef] = ()
        """The workloads whose restarts are not simulated because of `Simulations.most`."""

    @cached_property
    def computed(self) -> Sequence[Restart]:
        """The restarts of workloads that would create Pods."""
        only = self._simulations.namespace if self._simulations is not None else None
        workloads = [each for each in _workloads(self._context) if only in (None, each.ref.namespace)]
        before = None if self._simulations is None else _postpone
        by_number: dict[int, Restart | None] = {}
        postponed: list[tuple[tuple[int, int], int, int]] = []
        for number, workload in enumerate(workloads):
            try:
                by_number[number] = self._restart(workload, before)
            except _Postponed as why:
                postponed.append((why.at_stake, number, why.pods))
        if self._simulations is not None and postponed:
            by_number |= self._simulated(workloads, sorted(postponed), self._simulations)
        return [restart for _, restart in sorted(by_number.items()) if restart is not None]

    def _restart(self, workload: Workload, before_simulation: BeforeSimulation | None = None) -> Restart | None:
        restart, simulations = _restart(workload, self._context, before_simulation), self._simulations
        if restart is None or not restart.is_blocked or simulations is None or simulations.new_nodes is None:
            return restart
        return restart._replace(new_nodes=simulations.new_nodes(restart.impact.predictions))

    def require_all(self) -> None:
        """Raise TooLarge with the workloads whose restarts are omitted, if there are any."""
        if self._omitted:
            what = (
                f"{plural(len(self._omitted), 'restart')} of workloads with lower priority, which take long to simulate"
            )
            raise TooLarge(what, _ALL, {"workloads": sorted(map(str, self._omitted))})

    def _simulated(
        self, workloads: Sequence[Workload], postponed: Sequence[tuple[object, int, int]], simulations: Simulations
    ) -> Iterator[tuple[int, Restart | None]]:
        """Yield the number of each workload with its restart, in the order of `postponed`, as far as `most` allows."""

        context, most = self._context, simulations.most
        assert context.cluster is not None
        snapshot, pods = context.cluster.scheduling, accumulate(pods for *_, pods in postponed)
        pairs = zip((number for _, number, _ in postponed), pods, strict=True)
        chosen = [(number, total) for number, total in pairs if most is None or total <= most]
        self._omitted = [workloads[number].ref for _, number, _ in postponed[len(chosen) :]]
        if not chosen:
            return

        def here(batch: Iterable[int]) -> list[Restart | None]:
            return [self._restart(workloads[number]) for number in batch]

        def elsewhere(batch: Iterable[int]) -> list[Restart | None]:
            return [restart and settled(restart) for restart in here(batch)]

        def settled(restart: Restart) -> Restart:
            return restart._replace(impact=settled_impact(restart.impact, snapshot))

        *others, (last, _) = chosen
        yield last, here([last])[0]  # fills the tables of the Snapshot for all other simulations
        batches = [[number for number, _ in few] for _, few in groupby(others, lambda pairs: pairs[1] // _BATCH)]
        results = simulations.mapped(batches, elsewhere, here) if batches else ()
        yield from zip((number for number, _ in others), results, strict=True)


def _workloads(context: Context) -> Iterator[Workload]:
    """Yield the workloads that `kubectl rollout restart` can restart; none if no nodes are known."""
    if context.cluster is not None and context.cluster.objects.nodes:
        for _, workload in sorted(context.cluster.workloads.items()):
            if group_kind(workload.object) in ROLLED_OUT and not any(workload.controller):
                yield workload


def _restart(workload: Workload, context: Context, before_simulation: BeforeSimulation | None = None) -> Restart | None:
    """Return the restart of a workload; None if it creates no Pods. `before_simulation`: as in `Forecast`."""
    subject = restarted(workload.object)
    alone = Context(
        ChangeSet((subject,)), context.cluster, context.options, context.phase, context.now, context.expired
    )
    try:
        impact = alone.once(Predicted, None, before_simulation).impact_of(subject)
    except InvalidObject:
        return None  # other rules say what is wrong with it
    if impact is None:
        return None
    restart = Restart(workload.ref, impact, rejection=_rejection(subject, alone, impact) if impact.rejected else "")
    if not restart.is_blocked:
        return restart
    from forewarn.policies.kubernetes.scheduling.reasons import LOWER_REQUESTS, UNCORDON

    pending = [prediction for prediction in impact.predictions if prediction.outcome == "pending"]
    instead = {UNCORDON: "uncordon", LOWER_REQUESTS: "free capacity"}
    reasons = reasons_of(pending[:_MAX_CHECKED], instead)
    return restart._replace(reasons=with_rollout_fix(reasons, pending[0], impact, workload.ref.kind))


def _rejection(subject: ReviewedObject, alone: Context, impact: Impact) -> str:
    from forewarn.policies.linting.rules.support.quota_use import QuotaUse

    if impact.rejection:
        return impact.rejection
    try:
        use = alone.once(QuotaUse).use_by(subject)
    except (InvalidObject, TooLarge):
        return ""
    faults = () if use is None else use.faults
    return "".join(fault.message for fault in faults[:1] if fault.kind != "must-specify")  # quota-requirement-missing


def _postpone(impact: Impact, waiting: Waiting) -> Never:
    raise _Postponed(impact, waiting)


def restarted(obj: ApiObject) -> ReviewedObject:
    """Return the update of a workload by `kubectl rollout restart`."""
    try:
        template = pod_template_of(obj, {group_kind(obj): ("spec", "template")})
    except InvalidObject:
        template = None
    if template is None:
        return ReviewedObject(obj, Operation.UPDATE, old=obj)
    metadata = mapping(template.object, "metadata")
    annotations = {**mapping(metadata, "annotations"), "kubectl.kubernetes.io/restartedAt": "now"}
    new_template = {**template.object, "metadata": {**metadata, "annotations": annotations}}
    return ReviewedObject(
        {**obj, "spec": {**mapping(obj, "spec"), "template": new_template}}, Operation.UPDATE, old=obj
    )


def settled_impact(impact: Impact, snapshot: Snapshot) -> Impact:
    """Return the impact with predictions that keep only their outcomes and this Snapshot."""

    def plain(predictions: tuple[Prediction, ...]) -> tuple[Prediction, ...]:
        return tuple(prediction.settled(snapshot, not prediction.fits) for prediction in predictions)

    return impact._replace(predictions=plain(impact.predictions), by_waiting=plain(impact.by_waiting))
