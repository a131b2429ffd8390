"""Predictions for whole changes, compared with the end of their rollouts: workloads, and Pods without a controller.

forewarn records a prediction when the object is admitted. It compares the numbers of scheduled, Pending, rejected and
preempted Pods when the workload's Pods and the victims have not changed for some seconds, or after MAX_SECONDS.

Predictions and outcomes agree up to ties: equally many victims of the same priorities. A difference is `explained` if
other changes affected the cluster, if the prediction depends on timing, or if only the victims differ and several nodes
or Pods tie. A prediction that was cut short is not compared.

The only input is the watches of the cluster state. Memory is bounded: the number of workloads, of their Pods, of events
and of examples.
"""

from __future__ import annotations

from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from operator import add
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

from forewarn.policies.base.documents import Always, Exact
from forewarn.policies.base.findings import listed, plural
from forewarn.policies.kubernetes.kinds.registry import CLAIM, DISRUPTION_BUDGET, KINDS, POD, RESOURCE_QUOTA, SERVICE
from forewarn.policies.kubernetes.objects.fields import at, group_kind, has_controller, int32
from forewarn.policies.kubernetes.objects.resource_quota import ResourceQuota
from forewarn.policies.kubernetes.scheduling.preemption import rank_of
from forewarn.policies.prediction.forecast.impact import BY_CHOICE, Impact

if TYPE_CHECKING:
    from forewarn.policies.kubernetes.objects.pod import Pod
    from forewarn.policies.kubernetes.objects.reviewed_object import ReviewedObject
    from forewarn.policies.kubernetes.scheduling.schedule_one import Prediction

    Count = Callable[[str], object]

_MAX_LENGTH: Final = 253
_MAX_QUIET: Final = 300.0
KINDS_FOLLOWED: Final = {
    "apps/Deployment": "Deployment",
    "apps/StatefulSet": "StatefulSet",
    "apps/ReplicaSet": "ReplicaSet",
    "apps/DaemonSet": "DaemonSet",
    "batch/Job": "Job",
}
"""The workloads whose Pods are followed: `group/Kind` -> kind."""
MAX_WORKLOADS: Final = 64
MAX_PODS: Final = 500
"""Maximum number of new Pods of one workload that are followed."""
NAMED: Final = 32
"""Maximum number of victims that are recorded by name."""
QUIET: Final = 13.0
"""Seconds without an event after which a rollout counts as complete: more than kube-scheduler's longest back-off."""
SLOW: Final = 40.0
"""Seconds to wait while the result differs from the prediction, because controllers may lag."""
Key = tuple[str, str, str]
"""Namespace, kind and name of a top-level workload."""


class RecordedVictim(NamedTuple):
    """A victim of preemption: `namespace/name`, and priority value."""

    key: str
    priority: int


class WorkloadExpectation(NamedTuple):
    """The prediction for one workload, in plain values that can be pickled.

    `placed`: number of new Pods that get a node in the end; `pending`: number of the other new Pods. `victims`: Pods
    that new or previously Pending Pods preempt; None if there are too many. `num_victims`: how many they are. `more`:
    number of Pods that the victims' replacements preempt; None if unknown. `timing`, `chance`: whether the prediction
    depends on it; `ties`: whether several nodes or Pods tie; `assumes`: assumptions of the prediction. `quiet`: seconds
    without an event after which the rollout counts as complete. `rejected`: number of new Pods that quotas reject.
    """

    key: Key
    placed: int
    pending: int
    victims: tuple[RecordedVictim, ...] | None = ()
    num_victims: int = 0
    more: int | None = 0
    timing: bool = False
    ties: bool = False
    assumes: str = ""
    incomplete: bool = False
    quiet: float = QUIET
    rejected: int = 0
    chance: bool = False

    @property
    def new(self) -> int:
        return self.placed + self.pending

    def __str__(self) -> str:
        preempted = preempted_pods(self.num_victims, () if self.victims is None else self.victims)
        more = f" and {self.more} more by replacements" if self.more else ""
        rejected = f", {self.rejected} rejected by quotas" if self.rejected else ""
        return f"{self.placed} placed, {self.pending} Pending{rejected}, {preempted}{more}"

    def agrees(self, placed: int, pending: int, victims: Sequence[RecordedVictim], let_in: int = 0) -> bool:
        """Report whether a rollout has the predicted numbers of Pods and, except for ties, the predicted victims.

        `victims`: victims that had a node before the request; `let_in`: number of victims that got a node after the
        request.
        """
        if (placed, pending) != (self.placed, self.pending) or len(victims) < self.num_victims:
            return False
        if self.more is not None and not len(victims) <= self.num_victims + self.more <= len(victims) + let_in:
            return False
        predicted = Counter(victim.priority for victim in self.victims or ())
        return predicted <= Counter(victim.priority for victim in victims)


def workload_expectation_of(subject: ReviewedObject, impact: Impact) -> WorkloadExpectation | None:
    """Return the comparable part of the prediction for a workload or Pod; None for other kinds.

    Pods and ReplicaSets of controllers belong to the top-level workload. Raises InvalidObject.
    """
    kind = (KINDS_FOLLOWED | {POD: "Pod"}).get(group_kind(subject.object))
    ref = subject.ref
    if (
        impact.group is not None
        or kind is None
        or not 0 < len(ref.name) <= _MAX_LENGTH
        or (kind in ("ReplicaSet", "Pod") and has_controller(subject.object))
    ):
        return None
    preempting = (*impact.preempting, *impact.by_waiting)
    victims = _victims(preempting, impact.let_in)
    more: int | None = 0
    if victims:
        cascade = impact.cascade
        is_complete = cascade is not None and not (cascade.incomplete or cascade.pending_not_evaluated)
        more = cascade.preempted if cascade is not None and is_complete else None
    recorded = (
        tuple(RecordedVictim(v.key, v.effective_priority) for v in victims.values()) if len(victims) <= NAMED else None
    )
    return WorkloadExpectation(
        (subject.effective_namespace, kind, ref.name),
        impact.outcomes["fits"] + impact.outcomes["preempts"],
        impact.pending,
        recorded,
        len(victims),
        more,
        impact.depends_on_timing,
        any(p.may_be_others or p.may_be_elsewhere or len(p.best_nodes) > 1 for p in preempting),
        "; ".join(impact.assumes)[:_MAX_LENGTH],
        impact.is_incomplete or bool(impact.why_not),
        QUIET + min(max(int32(subject.object, "spec", "minReadySeconds") or 0, 0), _MAX_QUIET),
        impact.rejected,
        impact.by_chance not in ("", BY_CHOICE),
    )


def _victims(preempting: Iterable[Prediction], let_in: Container[str]) -> dict[str, Pod]:
    """Return the predicted victims by identity, without new Pods of the rollout and Pods that already terminate.

    `let_in`: identities of the new Pods.
    """
    every = (victim for prediction in preempting for victim in prediction.victims)
    return {v.identity: v for v in every if not (v.terminating or v.preempted) and v.identity not in let_in}


def workload_of(pod: Pod) -> Key:
    """Return the top-level workload of a Pod: the Deployment of a ReplicaSet's Pod, or the Pod itself.

    Source: pkg/controller/deployment, `getNewReplicaSet`: a ReplicaSet's name is the Deployment's name with the hash in
    the label of its Pods.
    """
    if pod.owner is None:
        return pod.namespace, "Pod", pod.name
    name, hash_ = pod.owner.name, pod.labels.get("pod-template-hash", "")
    kind = KINDS_FOLLOWED.get(pod.owner_kind, pod.owner_kind)
    if kind == "ReplicaSet" and hash_ and name.endswith(f"-{hash_}"):
        return pod.namespace, "Deployment", name.removesuffix(f"-{hash_}")
    return pod.namespace, kind, name


def preempted_pods(count: int, victims: Iterable[RecordedVictim]) -> str:
    """Return a phrase with the number of preempted Pods and up to three names."""
    if not count:
        return "no Pod preempted"
    names = sorted(victim.key for victim in victims)
    return f"preempts {listed(names, 3, count) if names else plural(count, 'Pod')}"


MATCHED, EXPLAINED, WRONG, INCOMPLETE, UNKNOWN = "matched", "explained", "wrong", "incomplete", "unknown"
DIFFERING: Final = (WRONG, EXPLAINED)
"""The results if kube-scheduler did something else, the worst first."""
COMPARED: Final = (MATCHED, *reversed(DIFFERING))
RESULTS: Final = {
    MATCHED: "kube-scheduler did what was predicted",
    EXPLAINED: "kube-scheduler did something else, and objects that affect where Pods fit changed in the meantime",
    WRONG: "kube-scheduler did something else, and no such object changed",
    UNKNOWN: "not compared: the Pod was never created, was deleted first, or kube-scheduler's decision was not seen",
}
"""Result of the comparison for a Pod -> its meaning."""
WORKLOAD_RESULTS: Final = {
    MATCHED: "as many placed and Pending Pods as predicted, and preempted Pods of the predicted priorities",
    EXPLAINED: "the rollout ended differently; other changes, timing, chance, ties or an assumption can explain this",
    WRONG: "the rollout ended differently, and nothing explains this",
    INCOMPLETE: "not compared: the prediction was incomplete",
    UNKNOWN: "not compared",
}
MAX_EVENTS: Final = 4096
EXAMPLES: Final = 20
MAX_SECONDS: Final = 600.0
"""Seconds after which a prediction is compared even if the rollout continues."""
LAG: Final = 1.0
"""Seconds before the request in which kube-scheduler may know of a change that forewarn does not know yet."""
_NEAR: Final = 5.0
"""Maximum seconds between a preemption and the nomination of the preemptor."""

_BUSY: Final = f"the rollout was not done after {MAX_SECONDS / 60:.0f} minutes"
_AGAIN: Final = "the workload changed again"
_DELETED: Final = "it was deleted"
_NOT_STORED: Final = "the change was not stored"
_CROWDED: Final = "too many rollouts at a time"
_TOO_MANY_PODS: Final = "too many Pods"
_TOO_MANY_EVENTS: Final = "too many events"
BY_OTHERS: Final = "changes of others"
CAUSES: Final = (BY_OTHERS, "timing", "chance", "ties", "assumptions")
"""Values of the causes that explain a difference."""
_MAX_BARE: Final = MAX_WORKLOADS // 2
"""Maximum number of Pods without a controller that are followed, so that there is room for workloads."""

_OWN_DOING: Final = frozenset({CLAIM, "/PersistentVolume", DISRUPTION_BUDGET, RESOURCE_QUOTA})
"""Kinds that controllers change because of Pods: only creations and deletions count as changes by others."""
_LIMITS: Final = frozenset({DISRUPTION_BUDGET, RESOURCE_QUOTA})
_READ: Final = frozenset({POD, RESOURCE_QUOTA, *(spec.group_kind for spec in KINDS if spec.table)} - {SERVICE})


class Preempted(NamedTuple):
    """A victim of preemption. `rank`: see `rank_of`. `placed`: the time at which the Pod got its node, if known."""

    at: float
    node: str
    uid: str
    victim: RecordedVictim
    rank: tuple[int, ...]
    workload: Key
    placed: float


class _Nominated(NamedTuple):
    at: float
    node: str
    workload: Key


class _Change(NamedTuple):
    """A change of the cluster that may not belong to the rollout.

    `workload`: the owner of a Pod that was created or is deleted; None for other changes.
    """

    at: float
    what: str
    workload: Key | None = None


class _Own(NamedTuple):
    """A Pod of the followed workload. `is_new`: whether it was created after the request."""

    is_new: bool
    pod: Pod


class _Rollout:
    """A followed prediction for a workload, without a result yet. `last`: time of the last event of the workload's
    Pods. `changes`: number of stored changes of the spec.
    """

    __slots__ = ("changes", "expected", "last", "pods", "since")

    def __init__(self, expected: WorkloadExpectation, since: float) -> None:
        self.expected, self.since, self.last = expected, since, since
        self.changes = 0
        self.pods: dict[str, _Own] = {}

    @property
    def counted(self) -> list[Pod]:
        """The workload's new Pods that are neither terminating nor preempted. For a Job only the first Pods, because
        the Job creates others when these have finished.
        """
        pods = [own.pod for own in self.pods.values() if own.is_new and not (own.pod.terminating or own.pod.preempted)]
        return pods[: self.expected.new] if self.expected.key[1] == "Job" else pods

    @property
    def is_busy(self) -> bool:
        """True if a Pod of the workload is about to be scheduled, ready or deleted."""
        return any(
            pod.terminating
            or (not pod.terminal and (bool(pod.nominated_node_name) or (bool(pod.node_name) and not pod.ready)))
            for _, pod in self.pods.values()
        )


class AccuracyExample(NamedTuple):
    """A prediction and the actual result. `at`: seconds since 1970."""

    result: str
    predicted: str
    happened: str
    at: float
    change: Always[str] = ""
    pod: str = ""
    workload: str = ""


class Results:
    """Counts of results, and the latest examples of differences, which name a Pod or workload. `count`: called with
    each result. `wall`: seconds since 1970.
    """

    def __init__(
        self, kind: Literal["pod", "workload"], results: Iterable[str], count: Count, wall: Callable[[], float]
    ) -> None:
        self._of, self._count, self._wall = kind, count, wall
        self.counts: Counter[str] = Counter(dict.fromkeys(results, 0))
        self._examples: dict[str, deque[AccuracyExample]] = {r: deque(maxlen=EXAMPLES) for r in DIFFERING}

    def end(self, result: str) -> None:
        self.counts[result] += 1
        self._count(result)

    def differ(self, name: str, predicted: str, happened: str, change: str) -> None:
        """Count a difference. `change`: what explains it, or ""."""
        result, named = EXPLAINED if change else WRONG, {self._of: name}
        example = AccuracyExample(result, predicted, happened, Exact(self._wall()), change, **named)
        self._examples[result].append(example)
        self.end(result)

    def examples(self) -> list[AccuracyExample]:
        """Return the examples of each result, newest first."""
        return [example for kept in self._examples.values() for example in reversed(kept)]


class PreemptionCounts(NamedTuple):
    """Numbers of compared changes with predicted preemptions, with actual preemptions, and with both."""

    predicted: int = 0
    happened: int = 0
    both: int = 0


def headlines(table: Mapping[str, Any]) -> tuple[str, str, str]:
    """Return three lines about the results of a table: for whole changes, for their preemptions, and for Pods."""
    workloads = table["workloads"]
    causes = ", ".join(f"{cause}: {count}" for cause, count in workloads["explainedBy"].items())
    whole, counts = as_predicted(workloads["results"], causes), workloads["preemptions"]
    shares = [f"{counts['both']} of {counts[name]} {name}" for name in ("predicted", "happened")]
    preemptions = f"preemptions   precision {shares[0]}, recall {shares[1]}"
    return f"whole changes {whole}", preemptions, f"Pods          {as_predicted(table['results'])}"


def as_predicted(results: Mapping[str, int], causes: str | None = None) -> str:
    """Return the share of all compared predictions, rounded down, as a phrase: `as predicted: 187 of 215 (86%);
    explained by ties: 26; wrong: 2`.

    `results`: counts by result. `causes`: the counts of explained results by cause, as text; None for Pods, where
    changes are the only cause.
    """
    matched, compared = results[MATCHED], sum(results[result] for result in COMPARED)
    share = f" ({100 * matched // compared}%)" if compared else ""
    by = f"changes in between: {results[EXPLAINED]}" if causes is None else causes
    texts = {result: f"{result}: {results[result]}" for result in COMPARED}
    texts[MATCHED] = f"as predicted: {matched} of {compared}{share}"
    texts |= {EXPLAINED: f"explained by {by}"} if results[EXPLAINED] else {}
    return "; ".join(texts.values())


class WorkloadTable(NamedTuple):
    """The results for workloads and Pods without a controller.

    `not_judged`: reason -> number of unknown results. `explained_by`: cause -> number of explained results.
    `preemptions`: how many changes preempted.
    """

    results: Mapping[str, int]
    open: int
    not_judged: Mapping[str, int]
    explained_by: Mapping[str, int]
    preemptions: PreemptionCounts
    examples: Sequence[AccuracyExample]


class WorkloadAccuracy:
    """Compares predictions for workloads with the outcomes of rollouts. `Accuracy` holds a lock for each call.

    `count`: called with each result. `clock`: monotonic; `wall`: seconds since 1970.
    """

    def __init__(self, count: Count, clock: Callable[[], float], wall: Callable[[], float]) -> None:
        self._results, self._clock = Results("workload", WORKLOAD_RESULTS, count, wall), clock
        self._open: OrderedDict[Key, _Rollout] = OrderedDict()
        self.preempted: deque[Preempted] = deque(maxlen=MAX_EVENTS)
        """The latest victims, oldest first."""
        self._nominated: deque[_Nominated] = deque(maxlen=MAX_EVENTS)
        self._changes: deque[_Change] = deque(maxlen=MAX_EVENTS)
        self._placed: OrderedDict[str, float] = OrderedDict()
        """uid of a Pod -> when it got its node."""
        self._terminating: dict[str, float] = {}
        """uid of a victim that still exists -> time of its preemption."""
        self._forgotten = float("-inf")
        """The time of the newest event that was removed from memory."""
        self._reasons: Counter[str] = Counter()
        self._causes: Counter[str] = Counter()
        self._preemptions = PreemptionCounts()

    def expect(self, expected: WorkloadExpectation, since: float) -> None:
        """Follow the prediction for an admitted workload. `since`: the time of the request."""
        if self._open.pop(expected.key, None) is not None:
            self._end(UNKNOWN, _AGAIN)
        if expected.incomplete:
            self._end(INCOMPLETE)
        elif expected.new > MAX_PODS:
            self._end(UNKNOWN, _TOO_MANY_PODS)
        elif expected.key[1] == "Pod" and sum(key[1] == "Pod" for key in self._open) >= _MAX_BARE:
            self._end(UNKNOWN, _CROWDED)
        else:
            self._open[expected.key] = _Rollout(expected, since)
            if len(self._open) > MAX_WORKLOADS:
                self._open.popitem(last=False)
                self._end(UNKNOWN, _CROWDED)

    def changed(self, kind: str, before: Any, after: Any) -> None:
        """Record that an object in the cluster state changed, in the order of changes.

        `before`: None if created. `after`: None if deleted.
        """
        now = self._clock()
        if kind in KINDS_FOLLOWED:
            self._workload_changed(KINDS_FOLLOWED[kind], before, after, now)
        elif kind not in _READ or before == after:
            return
        elif kind == POD:
            self._pod_changed(before, after, now)
        elif kind not in _OWN_DOING or (kind in _LIMITS and _limits_change(before, after)):
            self._note(self._changes, _Change(now, kind.rpartition("/")[2]))

    def table(self) -> WorkloadTable:
        """Return the results so far."""
        self.settle()
        return WorkloadTable(
            dict(self._results.counts),
            len(self._open),
            dict(sorted(self._reasons.items())),
            {cause: self._causes[cause] for cause in CAUSES if self._causes[cause]},
            self._preemptions,
            self._results.examples(),
        )

    # Events

    def _pod_changed(self, before: Pod | None, after: Pod | None, now: float) -> None:
        if before is not None and after is not None and before.uid != after.uid:
            self._pod_changed(before, None, now)
            before = None
        pod = after or before
        assert pod is not None
        key = workload_of(pod)
        self._note_place(before, after, now)
        if after is None:
            self._terminating.pop(pod.identity, None)
        nominated = "" if after is None else after.nominated_node_name
        if nominated and nominated != (before.nominated_node_name if before else ""):
            self._note(self._nominated, _Nominated(now, nominated, key))
        if before and after and _is_preempted_now(before, after):
            placed = self._placed.get(before.identity, float("-inf"))
            recorded = RecordedVictim(before.key, before.effective_priority)
            uid, rank = before.identity, rank_of(before)
            self._note(self.preempted, Preempted(now, before.node_name, uid, recorded, rank, key, placed))
            self._terminating[before.identity] = now
            while len(self._terminating) > MAX_EVENTS:
                self._terminating.pop(next(iter(self._terminating)))
        elif before is None or _is_deleted(before, after):
            self._note(self._changes, _Change(now, f"Pod {pod.key}", key))
        rollout = self._open.get(key)
        if rollout is not None:
            self._own_changed(rollout, before, after, now)

    def _note_place(self, before: Pod | None, after: Pod | None, now: float) -> None:
        """Record the time at which a Pod got its node."""
        if after is None or not after.node_name or (before is not None and before.node_name):
            return
        self._placed[after.identity] = now
        while len(self._placed) > MAX_EVENTS:
            self._forgotten = self._placed.popitem(last=False)[1]

    def _own_changed(self, rollout: _Rollout, before: Pod | None, after: Pod | None, now: float) -> None:
        pod = after or before
        assert pod is not None
        rollout.last = now
        state = rollout.pods.get(pod.identity)
        if rollout.expected.key[1] == "Pod":
            rollout.changes += before is None
            if after is None and not pod.preempted:
                self._drop(rollout, _DELETED)
        if after is not None:
            rollout.pods[pod.identity] = _Own(state.is_new if state else before is None, after)
            if len(rollout.pods) > 2 * MAX_PODS:
                self._drop(rollout, _TOO_MANY_PODS)
        elif state is not None and not (state.is_new and state.pod.terminal):
            del rollout.pods[pod.identity]

    def _workload_changed(self, kind: str, before: Any, after: Any, now: float) -> None:
        if not self._open or (after or before) is None:
            return
        ref = (after or before).ref
        rollout = self._open.get((ref.namespace, kind, ref.name))
        if rollout is None:
            return
        if after is None:
            self._drop(rollout, _DELETED)
        elif before is None or at(before.object, "spec") != at(after.object, "spec"):
            rollout.changes, rollout.last = rollout.changes + 1, now
            if rollout.changes > 1:
                self._drop(rollout, _AGAIN)

    def _note(self, events: deque[Any], event: Any) -> None:
        if len(events) == MAX_EVENTS:
            self._forgotten = max(self._forgotten, events[0].at)
        events.append(event)

    # Results

    def settle(self) -> None:
        """Compare predictions for rollouts that have been quiet long enough, or have reached `MAX_SECONDS`."""
        now = self._clock()
        for rollout in list(self._open.values()):
            expected = rollout.expected
            latest = now - rollout.since >= MAX_SECONDS
            last = max(rollout.last, self.preempted[-1].at if self.preempted else rollout.since)
            if not latest and now - last < expected.quiet:
                continue
            victims, let_in = self._victims(rollout)
            busy = rollout.is_busy or any(victim.uid in self._terminating for victim in (*victims, *let_in))
            if busy and not latest:
                continue
            counted = rollout.counted
            placed = sum(bool(pod.node_name) for pod in counted)
            victims_seen = [victim.victim for victim in victims]
            agrees = expected.agrees(placed, len(counted) - placed, victims_seen, len(let_in))
            if not agrees and not latest and now - last < expected.quiet + SLOW - QUIET:
                continue
            del self._open[expected.key]
            if why := self._unknown(rollout, busy=busy and not agrees):
                self._end(UNKNOWN, why)
                continue
            seen = bool(expected.num_victims), bool(victims_seen), bool(expected.num_victims and victims_seen)
            self._preemptions = PreemptionCounts(*map(add, self._preemptions, seen))
            if agrees:
                self._end(MATCHED)
            else:
                self._differs(rollout, placed, len(counted) - placed, victims_seen)

    def _unknown(self, rollout: _Rollout, *, busy: bool) -> str:
        """Return why the result is unknown, or ""."""
        if self._forgotten >= rollout.since:
            return _TOO_MANY_EVENTS
        if busy:
            return _BUSY
        expected = rollout.expected
        is_stored = rollout.changes or (expected.key[1] == "Pod" and expected.rejected)
        return "" if is_stored else _NOT_STORED

    def _differs(self, rollout: _Rollout, placed: int, pending: int, victims_seen: Sequence[RecordedVictim]) -> None:
        expected = rollout.expected
        since = rollout.since - LAG
        of_cluster = [c.what for c in self._changes if c.workload is None and c.at >= since]
        of_others = [*self._others(rollout).values()] or of_cluster
        change, cause = (of_others[-1] if of_others else ""), BY_OTHERS
        if not change and expected.timing and len(victims_seen) <= expected.num_victims:
            change, cause = "timing, which the prediction names", "timing"
        if not change and expected.chance:
            change, cause = "chance, which the prediction names", "chance"
        if not change and expected.ties and (placed, pending) == (expected.placed, expected.pending):
            change, cause = "ties: several nodes or Pods are equal", "ties"
        if not change and expected.assumes:
            change, cause = f"what the prediction assumes: {expected.assumes}", "assumptions"
        self._causes.update([cause] if change else [])
        absent = max(expected.new + expected.rejected - placed - pending, 0)
        rest = f", {absent} not created" if absent else ""
        happened = f"{placed} placed, {pending} Pending{rest}, {preempted_pods(len(victims_seen), victims_seen)}"
        namespace, kind, name = expected.key
        self._results.differ(f"{kind} {namespace}/{name}", str(expected), happened, change)

    def _others(self, rollout: _Rollout) -> dict[Key, str]:
        """Return workload -> one of its Pods, for other workloads whose Pods changed during the rollout."""
        part = {preemption.workload for preemption in self.preempted if preemption.at >= rollout.since}
        part.add(rollout.expected.key)
        since = rollout.since - LAG
        return {
            change.workload: change.what
            for change in self._changes
            if change.at >= since and change.workload is not None and change.workload not in part
        }

    def _victims(self, rollout: _Rollout) -> tuple[list[Preempted], list[Preempted]]:
        """Return the Pods that were preempted for the rollout: those on a node before the request, and those that got
        a node later.

        Excludes victims of Pods that other workloads created during the rollout.
        """
        since = rollout.since
        every = [preemption for preemption in self.preempted if preemption.at >= since]
        others = self._others(rollout) if every else {}
        ours = [preemption for preemption in every if not (others and self._is_by(preemption, others))]
        let_in = [preemption for preemption in ours if preemption.placed >= since]
        return [preemption for preemption in ours if preemption.placed < since], let_in

    def _is_by(self, preempted: Preempted, others: dict[Key, str]) -> bool:
        near = {
            preemption.workload
            for preemption in self._nominated
            if preemption.node == preempted.node and abs(preemption.at - preempted.at) <= _NEAR
        }
        return bool(near) and near <= others.keys()

    def _drop(self, rollout: _Rollout, reason: str) -> None:
        del self._open[rollout.expected.key]
        self._end(UNKNOWN, reason)

    def _end(self, result: str, reason: str = "") -> None:
        self._reasons.update([reason] if reason else [])
        self._results.end(result)


def _limits_change(before: Any, after: Any) -> bool:
    """Report whether a quota or PDB is created or deleted, or if a quota has other limits."""
    return before is None or after is None or (isinstance(after, ResourceQuota) and before.spec != after.spec)


def _is_preempted_now(before: Pod, after: Pod) -> bool:
    """Report whether the change marks a Pod on a node as a victim of preemption."""
    return after.preempted and not (before.preempted or before.terminating) and bool(before.node_name)


def _is_deleted(before: Pod, after: Pod | None) -> bool:
    """Report whether a Pod gets a deletion timestamp, or disappears without being terminating or terminal."""
    if after is None:
        return not (before.terminating or before.terminal)
    return after.terminating and not before.terminating
