"""Whether predictions came true: what was said of a pod when it was admitted, and what kube-scheduler did with it.

A prediction is remembered when its pod is admitted, and compared with the first thing that the scheduler does with that
pod: bind it, nominate a node to it (and preempt others there), or find no place for it. Pods of a controller are
admitted one by one, each under its own name and uid, so that they are followed as any other. Predictions for workloads
are followed to the end of the rollout (webhook.workload_accuracy).

A difference is `explained` where anything that predictions read has changed between the two, and `wrong` where nothing
has. What never came, or was not seen to be decided, is `unknown`.

Memory is bounded whatever is asked: so many predictions at a time (the oldest gives way), so many names in each, so
many changes, and so many examples.
"""

from __future__ import annotations

from collections import Counter, OrderedDict, deque
from datetime import UTC, datetime
from itertools import takewhile
from threading import Lock
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from policies.kinds import DISRUPTION_BUDGET, KINDS, POD, SERVICE
from policies.objects.fields import InvalidObject, at, sequence
from policies.objects.items import items
from policies.objects.reviewed_object import Operation
from webhook.workload_accuracy import WorkloadAccuracy, WorkloadExpectation, workload_expectation_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from policies.objects.fields import ApiObject
    from policies.objects.pod import Pod
    from policies.objects.reviewed_object import ReviewedObject
    from policies.rules.support.impact import Impact
    from policies.scheduling.schedule_one import Prediction

RESULTS: Final = ("matched", "explained", "wrong", "unknown")
MATCHED, EXPLAINED, WRONG, UNKNOWN = RESULTS
FITS, PREEMPTS, PENDING = "fits", "preempts", "pending"
FOLLOWED: Final = 1024
"""Predictions at a time."""
NAMED: Final = 32
"""Nodes or victims that are remembered of a prediction; where there are more they are not compared."""
VOLUMES: Final = 64
"""A pod with more is not followed: they would have to be looked through past the deadline."""
CHANGES: Final = 4096
EXAMPLES: Final = 20
SETTLING: Final = 5.0
"""Seconds after the scheduler's act, in which its victims are told of it, and news of other kinds come in."""
LAG: Final = 1.0
"""Seconds before the request, in which a change may have been news to us and not yet to the scheduler."""
PATIENCE: Final = 300.0
"""Seconds after which a prediction is given up."""
_LONGEST: Final = 64
_READ: Final = frozenset({POD, *(spec.group_kind for spec in KINDS if spec.table)} - {SERVICE})
"""What decides where a pod can run. Services and workloads only decide which of several nodes is the best."""

Rank = tuple[int, int]
"""Priority and start time: pods of one rank on a node are the same to preemption."""


class Victim(NamedTuple):
    """A pod that has to go."""

    uid: str
    key: str
    rank: Rank


class Expectation(NamedTuple):
    """What was said of one pod, in plain values: it can be pickled.

    `nodes`: those that may be chosen, empty where that is not compared. `victims`: those on `node`, where that is the
    one; None where they are not compared.
    """

    uid: str
    outcome: str
    nodes: tuple[str, ...] = ()
    node: str = ""
    victims: tuple[Victim, ...] | None = None

    def __str__(self) -> str:
        where = _or(self.nodes or ((self.node,) if self.node else ()))
        return _told(self.outcome, where, () if self.victims is None else self.victims)


class Act(NamedTuple):
    """The first thing that the scheduler did with a pod."""

    outcome: str
    node: str = ""


class Example(NamedTuple):
    """A prediction that did not come true. `at`: seconds since 1970; `change`: what had changed, the last thing."""

    result: str
    pod: str
    predicted: str
    happened: str
    at: float
    change: str = ""


def expectation_of(subject: ReviewedObject, impact: Impact | None) -> Expectation | WorkloadExpectation | None:
    """What is kept of a prediction; None if there is none, or it cannot be compared.

    Nothing is worked out for it that the answer did not need. A pod with ephemeral volumes is predicted without them.
    """
    if impact is None:
        return None
    if subject.object.get("kind") != "Pod":
        try:
            return workload_expectation_of(subject, impact)
        except InvalidObject:
            return None
    return _of_pod(subject, impact) if subject.operation is Operation.CREATE else None


def _of_pod(subject: ReviewedObject, impact: Impact) -> Expectation | None:
    uid = at(subject.object, "metadata", "uid")
    if not isinstance(uid, str) or not 0 < len(uid) <= _LONGEST or len(impact.predictions) != 1 or impact.new != 1:
        return None
    prediction = impact.predictions[0]
    volumes = sequence(subject.object, "spec", "volumes")
    if len(volumes) > VOLUMES or any(at(volume, "ephemeral") is not None for volume in volumes):
        return None
    from policies.scheduling.filtering import MIN_FEASIBLE_NODES  # numpy, which a prediction has loaded already

    # On larger clusters the scheduler looks at a random part of the nodes: which one it takes is not compared.
    small = len(prediction.snapshot.node_infos) <= MIN_FEASIBLE_NODES
    if prediction.outcome == FITS:
        feasible = prediction.feasible
        return Expectation(uid, FITS, tuple(feasible) if small and len(feasible) <= NAMED else ())
    if prediction.outcome == PREEMPTS:
        return _preemption(uid, prediction, small)
    return Expectation(uid, PENDING) if prediction.outcome == PENDING else None


def _preemption(uid: str, prediction: Prediction, small: bool) -> Expectation:
    nodes = tuple(prediction.best_nodes) if small else ()
    going = [victim for victim in prediction.victims if not (victim.terminating or victim.preempted)]
    victims = tuple(Victim(v.identity, v.key, rank_of(v)) for v in going) if len(going) <= NAMED else None
    return Expectation(uid, PREEMPTS, nodes if len(nodes) <= NAMED else (), prediction.nominated_node, victims)


def rank_of(pod: Pod) -> Rank:
    """The rank of a pod. One that has not started counts as started now, whenever that is."""
    return pod.effective_priority, -1 if pod.start_time is None else pod.start_time


def act_of(pod: ApiObject) -> Act | None:
    """What the scheduler has done with a pod, by the pod as it is stored; None: nothing yet. Raises InvalidObject.

    Source: pkg/scheduler/schedule_one.go, `handleSchedulingFailure`: the condition and the nominated node come in one
    patch. A nominated node alone is one that the pod is being bound to (NominatedNodeNameForExpectation).
    """
    node, nominated = at(pod, "spec", "nodeName"), at(pod, "status", "nominatedNodeName")
    if node:
        return Act(FITS, str(node))
    for condition in items(pod, "status", "conditions"):
        if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
            if condition.get("reason") != "Unschedulable":
                return None
            return Act(PREEMPTS, str(nominated)) if nominated else Act(PENDING)
    return Act(FITS, str(nominated)) if nominated else None


def differs(expected: Expectation, act: Act, victims: Iterable[Victim]) -> bool:
    """Whether the scheduler did something else than was said. `victims`: those on the node of the act."""
    if act.outcome != expected.outcome or (expected.nodes and act.node not in expected.nodes):
        return True
    if expected.outcome != PREEMPTS or expected.victims is None or act.node != expected.node:
        return False
    return sorted(v.rank for v in victims) != sorted(v.rank for v in expected.victims)


def _act_of(pod: ApiObject) -> Act | None:
    try:
        return act_of(pod)
    except InvalidObject:
        return None


class _Change(NamedTuple):
    at: float
    kind: str
    uid: str
    what: str


class _Preempted(NamedTuple):
    at: float
    node: str
    victim: Victim


class _Followed:
    """A prediction that has no result yet. `since`: when it was asked for; `placed`: the cache knows of its place."""

    __slots__ = ("act", "acted", "expected", "placed", "pod", "since")

    def __init__(self, expected: Expectation, since: float) -> None:
        self.expected, self.since = expected, since
        self.act: Act | None = None
        self.acted = 0.0
        self.placed = False
        self.pod = ""


class Accuracy:
    """Follows predictions until it is known whether they came true. Safe to use from any thread.

    `count` is told each result, one for each prediction that `expect` took, `count_workload` those of workloads.
    `clock`: monotonic; `wall`: since 1970.
    """

    def __init__(
        self,
        count: Callable[[str], object] = lambda _: None,
        clock: Callable[[], float] = monotonic,
        wall: Callable[[], float] = lambda: datetime.now(UTC).timestamp(),
        count_workload: Callable[[str], object] = lambda _: None,
    ) -> None:
        self._count, self._clock, self._wall = count, clock, wall
        self._workloads = WorkloadAccuracy(count_workload, lambda: self._clock(), wall)
        self._lock = Lock()
        self._waiting: OrderedDict[str, _Followed] = OrderedDict()
        self._decided: OrderedDict[str, _Followed] = OrderedDict()
        self._changes: deque[_Change] = deque(maxlen=CHANGES)
        self._forgotten = float("-inf")
        """When the last change came that is no longer known."""
        self._preempted: deque[_Preempted] = deque(maxlen=CHANGES)
        self._not_compared = 0
        self._results: Counter[str] = Counter(dict.fromkeys(RESULTS, 0))
        self._examples = {result: deque[Example](maxlen=EXAMPLES) for result in (WRONG, EXPLAINED)}

    def expect(self, expected: Expectation | WorkloadExpectation | None, since: float) -> bool:
        """Follow the prediction for what has been admitted; None: a prediction that cannot be followed, which is
        counted. `since`: when its request came, by the clock.

        False if the object is not followed. A Pod is followed once: by the first prediction.
        """
        if isinstance(expected, WorkloadExpectation):
            self._workloads.expect(expected, since)
            return True
        with self._lock:
            if expected is None:
                self._not_compared += 1
                return False
            if expected.uid in self._waiting or expected.uid in self._decided:
                return False
            self._waiting[expected.uid] = _Followed(expected, since)
            if len(self._waiting) > FOLLOWED:
                self._waiting.popitem(last=False)
                self._end(UNKNOWN)
            return True

    def changed(self, kind: str, before: Any, after: Any) -> None:
        """A view in the cluster state is replaced by another (None: it comes, or goes). In the order of the changes."""
        self._workloads.changed(kind, before, after)
        if kind not in _READ or before == after:
            return
        now = self._clock()
        with self._lock:
            if kind == POD:
                self._pod_changed(before, after, now)
            else:
                self._note(_Change(now, kind, "", kind.rpartition("/")[2]))

    def seen(self, pod: ApiObject, gone: bool) -> None:
        """A watch tells of a pod; `changed` has been told before."""
        uid = at(pod, "metadata", "uid")
        with self._lock:
            followed = self._waiting.get(uid) if isinstance(uid, str) else None
            if followed is not None:
                followed.pod = f"{at(pod, 'metadata', 'namespace')}/{at(pod, 'metadata', 'name')}"
                act = _act_of(pod)
                if act is not None:
                    self._acted(followed, act)
                elif gone:
                    del self._waiting[followed.expected.uid]
                    self._end(UNKNOWN)
            self._settle()

    def settle(self) -> None:
        """Come to a result wherever it is time to."""
        self._workloads.settle()
        with self._lock:
            self._settle()

    def table(self) -> dict[str, Any]:
        """For programs: results so far, how many predictions have none yet, how many are not compared, and examples,
        the newest first. `workloads`: the same of workloads."""
        workloads = self._workloads.table()
        with self._lock:
            self._settle()
            examples = [example._asdict() for kept in self._examples.values() for example in reversed(kept)]
            open_ = len(self._waiting) + len(self._decided)
            return {
                "results": dict(self._results),
                "open": open_,
                "notCompared": self._not_compared,
                "examples": examples,
                "workloads": workloads,
            }

    def _pod_changed(self, before: Pod | None, after: Pod | None, now: float) -> None:
        pod = after or before
        assert pod is not None
        if after and before and after.preempted and not (before.preempted or before.terminating):
            victim = Victim(before.identity, before.key, rank_of(before))
            self._preempted.append(_Preempted(now, before.node_name, victim))
        if not (_holds_a_place(before) or _holds_a_place(after)):
            return  # it waits for a place, as before, and takes nothing from others
        followed = self._waiting.get(pod.uid)
        if followed is not None:
            if followed.placed:  # by a list: how it came to its place was not seen
                del self._waiting[pod.uid]
                self._end(UNKNOWN)
            followed.placed = True
        self._note(_Change(now, POD, pod.identity, f"Pod {pod.key}"))

    def _note(self, change: _Change) -> None:
        if len(self._changes) == CHANGES:
            self._forgotten = self._changes[0].at
        self._changes.append(change)

    def _acted(self, followed: _Followed, act: Act) -> None:
        expected = followed.expected
        del self._waiting[expected.uid]
        followed.act, followed.acted = act, self._clock()
        if act.outcome == PREEMPTS or differs(expected, act, ()):
            self._decided[expected.uid] = followed
            if len(self._decided) > FOLLOWED:
                self._judge(self._decided.popitem(last=False)[1])
        else:
            self._end(MATCHED)

    def _settle(self) -> None:
        now = self._clock()
        while self._decided and next(iter(self._decided.values())).acted <= now - SETTLING:
            self._judge(self._decided.popitem(last=False)[1])
        while self._waiting and next(iter(self._waiting.values())).since <= now - PATIENCE:
            self._waiting.popitem(last=False)
            self._end(UNKNOWN)

    def _judge(self, followed: _Followed) -> None:
        expected, act = followed.expected, followed.act
        assert act is not None
        victims = self._victims(act.node, followed.since) if act.outcome == PREEMPTS else []
        if not differs(expected, act, victims):
            self._end(MATCHED)
            return
        change = self._change_between(followed, {expected.uid, *(v.uid for v in victims)})
        result = EXPLAINED if change else WRONG
        happened = _told(act.outcome, act.node, victims)
        self._examples[result].append(Example(result, followed.pod, str(expected), happened, self._wall(), change))
        self._end(result)

    def _victims(self, node: str, since: float) -> list[Victim]:
        """The pods that the scheduler has preempted on a node since then."""
        recent = takewhile(lambda preempted: preempted.at >= since, reversed(self._preempted))
        return [preempted.victim for preempted in recent if preempted.node == node]

    def _change_between(self, followed: _Followed, own: set[str]) -> str:
        """The last thing that changed between the prediction and the act; empty where nothing did.

        News of what came before the act may come after it. Budgets are left out there: evictions change them.
        """
        since = followed.since - LAG
        for change in reversed(self._changes):
            if change.at < since:
                return ""
            after = change.at > followed.acted
            if change.uid not in own and not (after and change.kind == DISRUPTION_BUDGET):
                return change.what
        return "more than is remembered" if self._forgotten >= since else ""

    def _end(self, result: str) -> None:
        self._results[result] += 1
        self._count(result)


def _holds_a_place(pod: Pod | None) -> bool:
    return pod is not None and not pod.terminal and bool(pod.node_name or pod.nominated_node_name)


def _told(outcome: str, where: str, victims: Iterable[Victim]) -> str:
    """An outcome in words."""
    if outcome == FITS:
        return f"runs on {where}" if where else "runs"
    if outcome == PENDING:
        return "stays Pending"
    told = sorted(v.key for v in victims)
    named = ", ".join(told[:3]) + (f" and {len(told) - 3} more" if len(told) > 3 else "")
    return f"preempts {named or 'no Pod'} on {where}"


def _or(nodes: tuple[str, ...]) -> str:
    more = f" or {len(nodes) - 3} more" if len(nodes) > 3 else ""
    return " or ".join(nodes[:3]) + more
