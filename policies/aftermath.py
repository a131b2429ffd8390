"""What comes after a first preemption: where replacements of its victims go, and whom these push out in their turn.

Cycles of the scheduling core one after the other, in the order in which victims end and controllers make pods anew:
few enough for the answer to an admission request. Pods that waited before take part, the first MOST_WAITING of them. A
quota that refuses a replacement is asked again when a pod of its namespace is gone. There are no latencies and no
back-off, budgets are charged and never recover, and of equal nodes the first by name is taken. A simulation has all
that but quotas.
Source: when each controller makes a pod anew, as in policies.controllers.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from heapq import heappop, heappush
from itertools import count
from typing import TYPE_CHECKING, Final, NamedTuple

from policies.cluster import admitted
from policies.controllers.daemon_set import on_node
from policies.controllers.stateful_set import ordinal_of
from policies.controllers.templates import made_of, template_of
from policies.disclosure import count_range
from policies.extent import check_extent, check_metadata_extent
from policies.findings import plural
from policies.kube_apiserver.quota import QuotaRoom
from policies.kube_apiserver.validation.limit_ranger import with_limit_range_defaults
from policies.metering import CutShort, charge
from policies.objects.fields import NOTHING, InvalidObject, at, mapping
from policies.scheduling.schedule_one import Prediction
from policies.waiting import may_be_helped, waiting_in_turn

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

    from policies.cluster import ClusterSnapshot
    from policies.objects.fields import ApiObject
    from policies.objects.pod import Owner, Pod
    from policies.objects.resource_quota import ResourceQuota
    from policies.scheduling.snapshot import Snapshot
    from policies.waiting import Waiting

MOST_CYCLES: Final = 200
"""Scheduling cycles that are spent on it."""
MOST_WORK: Final = 150_000
"""Units of work, where work is limited at all."""
_WHEN_GONE: Final = ("StatefulSet", "DaemonSet")
"""Their pods are made anew under the same name, once the old one is gone."""
_JOB_BACKOFF: Final = 10.0
"""Seconds until a Job makes a pod anew the first time."""
_MAKING: Final = 100
"""Units that it costs to make a pod of a template."""


class Aftermath(NamedTuple):
    """What becomes of victims, and of those whom their replacements push out.

    `replaced`: victims that are made anew; `lost`: those that nobody makes anew; `pushed_out`: how many more pods are
    pushed out, by replacements, and in how many `levels`; `pending`: replacements that stay pending; `refused`: those
    of `replaced` that a quota refuses for good; `left_out`: how many pods that wait were not looked at. `known` False:
    there was no time, or too much to do.
    """

    replaced: int = 0
    lost: int = 0
    pushed_out: int = 0
    levels: int = 0
    pending: int = 0
    known: bool = True
    refused: int = 0
    left_out: int = 0

    def facts(self, *, coarse: bool = False) -> tuple[str, ...]:
        """What becomes of the victims, the worst first: `replacements preempt 3 more Pods`, `1 not recreated`.

        `coarse`: the worst alone, without numbers.
        """
        if not self.known:
            return ("cascade not predicted",)
        if coarse:
            worst = (
                (self.pushed_out, "replacements preempt more Pods"),
                (self.pending, "replacements stay Pending"),
                (self.refused, "replacements rejected by a quota"),
                (self.replaced, "replacements fit"),
                (1, "not recreated"),
            )
            return (next(text for number, text in worst if number),)
        found = tuple(self._outcomes()) or ("replacement fits" if self.replaced == 1 else "replacements fit",)
        return (*found, f"{self.left_out:,} pending Pods ignored") if self.left_out else found

    def _outcomes(self) -> Iterator[str]:
        """What is worse than that each replacement Pod fits."""
        if self.pushed_out:
            depth = f" in a cascade of depth {self.levels}" if self.levels > 1 else ""
            yield f"replacements preempt {plural(self.pushed_out, 'more Pod')}{depth}"
        if self.pending:
            which = self._replacements(self.pending)
            yield f"{which} {'stays' if which.endswith('t') else 'stay'} Pending"
        if self.refused:
            yield f"{self._replacements(self.refused)} rejected by a quota"
        if not self.replaced:
            yield "not recreated"
        elif self.lost:
            yield f"{self.lost} not recreated"

    def _replacements(self, count: int) -> str:
        """Which replacement Pods: `replacement`, `replacements`, `2 of 3 replacements`."""
        if self.pushed_out:
            return plural(count, "replacement")
        if self.replaced == 1:
            return "replacement"
        return "replacements" if count == self.replaced else f"{count} of {self.replaced} replacements"

    def to_dict(self) -> dict[str, object]:
        """For programs: what is not zero."""
        if not self.known:
            return {"incomplete": True}
        told = {
            "replaced": self.replaced,
            "notReplaced": self.lost,
            "preempted": self.pushed_out,
            "cascadeDepth": self.levels,
            "pending": self.pending,
            "rejectedByQuota": self.refused,
            "pendingNotEvaluated": self.left_out,
        }
        return {key: number for key, number in told.items() if number}

    def to_coarse_dict(self) -> dict[str, object]:
        """The same with the lower ends of ranges, without how deep it goes and how many were left out."""
        if not self.known:
            return self.to_dict()
        counts = self.replaced, self.lost, self.pushed_out, self.pending, self.refused
        replaced, lost, pushed_out, pending, refused = (count_range(count).lowest or 0 for count in counts)
        return Aftermath(replaced, lost, pushed_out, 0, pending, True, refused).to_dict()


NOT_KNOWN: Final = Aftermath(known=False)


def aftermath_of(
    cluster: ClusterSnapshot,
    snapshot: Snapshot,
    preempting: Sequence[Prediction],
    own: Collection[str] = (),
    quotas_of: Callable[[str], Sequence[ResourceQuota]] | None = None,
    waiting: Waiting | None = None,
) -> Aftermath:
    """What comes after these predictions. `snapshot`: the cluster as they leave it; `own`: identities of pods that a
    rollout ends anyway, which are made anew by it alone; `quotas_of`: a namespace's quotas once they are charged with
    what arrives, by default as the cluster has them; `waiting`: who waits beside them, by default all that do in the
    cluster. Raises CutShort."""
    going = [victim for prediction in preempting for victim in prediction.victims if not victim.terminating]
    if len(going) > MOST_CYCLES:
        raise CutShort("too many victims to follow")
    room = QuotaRoom(quotas_of or cluster.quotas_of)
    waiting = waiting_in_turn(cluster) if waiting is None else waiting
    cascade = _Cascade(cluster, snapshot, {prediction.node for prediction in preempting}, room, waiting)
    for victim in going:
        cascade.evict(victim, 0, is_replaced=victim.identity not in own)
    return cascade.run()


@dataclass(slots=True)
class _Waiting:
    """A pod without a node. `level`: 0 what arrived, 1 the replacement of somebody it pushed out, …; `asked`: the
    pod as quotas see it, None where there are none."""

    pod: Pod
    level: int
    is_new: bool = True
    asked: ApiObject | None = None


class _Cascade:
    """Victims that end, pods that come anew, and cycles for these."""

    def __init__(
        self, cluster: ClusterSnapshot, snapshot: Snapshot, nodes: Iterable[str], room: QuotaRoom, waiting: Waiting
    ) -> None:
        """`nodes`: those that are being emptied; whoever is nominated to them waits, beside those who did before."""
        self._cluster, self._snapshot, self._room = cluster, snapshot, room
        self._now = 0.0
        self._numbers = count(1)
        self._due: list[tuple[float, int, Pod | _Waiting]] = []
        """(when, in which order, a victim that ends or a replacement that comes)."""
        nominated = (snapshot.objects.nominated.get(name, ()) for name in nodes)
        self._waiting = [_Waiting(pod, 0, is_new=False) for pods in (*nominated, waiting.pods) for pod in pods]
        self._left_out = waiting.left_out
        self._refused: list[_Waiting] = []
        """Whom a quota refused; their controllers try again."""
        self._held: list[_Waiting] = []
        """Pods of sets that go in order, which are made when those of lower ordinals run."""
        self._templates: dict[tuple[str, str, str], _Made | None] = {}
        self._counted: dict[tuple[int, int], ApiObject] = {}
        """By cpu and memory: a spec that asks for as much."""
        self._cycles = 0
        self._replaced = self._lost = self._pushed_out = self._levels = 0

    def run(self) -> Aftermath:
        """Until nothing more happens. Raises CutShort."""
        while self._due:
            self._now = self._due[0][0]
            ended: list[Pod] = []
            made, self._refused = self._refused, []
            while self._due and self._due[0][0] == self._now:
                what = heappop(self._due)[2]
                if isinstance(what, _Waiting):
                    made.append(what)
                else:
                    ended.append(what)
            self._end(ended)
            self._let_in(self._in_order(made))
            self._try({victim.node_name for victim in ended})
            self._let_go()
        pending, refused = sum(waiting.level > 0 for waiting in self._waiting), len(self._refused)
        never = len(self._held)
        return Aftermath(
            self._replaced - never,
            self._lost + never,
            self._pushed_out,
            self._levels,
            pending,
            refused=refused,
            left_out=self._left_out,
        )

    def evict(self, victim: Pod, level: int, *, is_replaced: bool = True) -> None:
        """A pod is told to end by one of this level."""
        if level:
            self._pushed_out, self._levels = self._pushed_out + 1, max(self._levels, level)
        gone = self._now + victim.spec.termination_grace_period
        heappush(self._due, (gone, next(self._numbers), victim))
        if not is_replaced:
            return
        replacement = self._replacement(victim)
        if replacement is None:
            self._lost += 1
            return
        self._replaced += 1
        kind = victim.owner.kind if victim.owner else ""
        when = gone if kind in _WHEN_GONE else self._now + (_JOB_BACKOFF if kind == "Job" else 0.0)
        asked = self._asked(replacement) if self._room.limits(victim.namespace) else None
        heappush(self._due, (when, next(self._numbers), _Waiting(replacement, level + 1, asked=asked)))

    def _in_order(self, made: Iterable[_Waiting]) -> Iterator[_Waiting]:
        """Those that are made now: of a StatefulSet that goes in order none whose lower ordinals wait.

        Source: pkg/controller/statefulset, `processReplica`: nothing more is done while one is not running and ready.
        """
        for waiting in sorted(made, key=lambda waiting: _ordinal(waiting.pod)):
            if self._is_held(waiting.pod):
                self._held.append(waiting)
            else:
                yield waiting

    def _let_go(self) -> None:
        """Those that wait for nobody any more are made next."""
        held, self._held = self._held, []
        for waiting in held:
            if self._is_held(waiting.pod):
                self._held.append(waiting)
            else:
                heappush(self._due, (self._now, next(self._numbers), waiting))

    def _is_held(self, pod: Pod) -> bool:
        owner = pod.owner
        if owner is None or owner.kind != "StatefulSet":
            return False
        known = self._cluster.workload(_kind(owner), pod.namespace, owner.name)
        if known is None or at(known.object, "spec", "podManagementPolicy") == "Parallel":
            return False
        charge(len(self._waiting))
        others = (each.pod for each in self._waiting)
        return any(
            other.owner == owner and other.namespace == pod.namespace and _ordinal(other) < _ordinal(pod)
            for other in others
        )

    def _let_in(self, made: Iterable[_Waiting]) -> None:
        """Those whom no quota refuses wait for a node from now on; who is like one that was refused is refused too."""
        vain: set[tuple[int, str]] = set()
        for waiting in made:
            pod, asked = waiting.pod, waiting.asked
            alike = id(at(asked or NOTHING, "spec", "containers")), pod.priority_class_name
            if asked is None or (alike not in vain and self._room.take(pod.namespace, asked)):
                self._waiting.append(waiting)
            else:
                vain.add(alike)
                self._refused.append(waiting)

    def _asked(self, pod: Pod) -> ApiObject:
        """A pod as quotas see it: by its workload's template, with its own class. Of a workload that is not known, or
        whose template asks for something else by now, what the scheduler counts; limits are not known then."""
        try:
            made = self._made((_kind(pod.owner), pod.namespace, pod.owner.name)) if pod.owner else None
        except InvalidObject:
            made = None
        if made is None or made.pod.occupies != pod.occupies:
            counted = pod.occupies.resource.milli_cpu, pod.occupies.resource.memory
            requests = {"cpu": f"{counted[0]}m", "memory": str(counted[1])}
            made_up: ApiObject = {"containers": [{"name": "", "resources": {"requests": requests}}]}
            spec = self._counted.setdefault(counted, made_up)
        else:
            spec = made.spec
        return {
            "metadata": {"namespace": pod.namespace},
            "spec": {**spec, "priorityClassName": pod.priority_class_name},
        }

    def _end(self, victims: Iterable[Pod]) -> None:
        """These are gone, as the snapshot has them by now."""
        gone = []
        for victim in victims:
            if self._room.limits(victim.namespace):
                self._room.give_back(victim.namespace, self._asked(victim))
            info = self._snapshot.get(victim.node_name)
            gone += [pod for pod in info.pods if pod.identity == victim.identity] if info else []
        if gone:
            self._snapshot = self._snapshot.with_pods((), gone)

    def _try(self, emptied: Collection[str]) -> None:
        """Try who came now, and who waits and may be helped by the room on these nodes, the highest priority first."""
        turn = [waiting for waiting in self._waiting if emptied or waiting.is_new]
        for waiting in sorted(turn, key=lambda waiting: -waiting.pod.effective_priority):
            is_woken = waiting.is_new or waiting.pod.nominated_node_name
            if not is_woken and not may_be_helped(waiting.pod, self._snapshot, emptied):
                continue
            self._cycles += 1
            if self._cycles > MOST_CYCLES:
                raise CutShort("too much comes after it")
            waiting.is_new = False
            prediction = Prediction(self._snapshot, waiting.pod)
            if prediction.unmodelled:
                raise CutShort(prediction.unmodelled)
            if prediction.outcome == "fits":
                self._waiting.remove(waiting)
            elif prediction.outcome == "preempts":
                waiting.pod = replace(waiting.pod, nominated_node_name=prediction.node)
                for victim in prediction.victims:
                    if not victim.terminating:
                        self.evict(victim, waiting.level)
            self._snapshot = prediction.snapshot_after()

    def _replacement(self, victim: Pod) -> Pod | None:
        """The pod that is made in its place; None where nobody does, or it is refused."""
        owner = victim.owner
        if owner is None or owner.kind == "Node":
            return None
        try:
            made = self._made((_kind(owner), victim.namespace, owner.name))
        except CutShort:
            raise
        except InvalidObject:
            return None
        number = next(self._numbers)
        name, uid = f"{victim.name}+{number}", f"{victim.identity}+{number}"
        if made is not None and owner.kind not in _WHEN_GONE:
            return replace(made.pod, name=name, uid=uid)
        same = replace(victim, name=name, uid=uid, node_name="", nominated_node_name="", start_time=None, ready=False)
        if owner.kind == "DaemonSet" and same.spec.node_affinity.required is not None:
            same = on_node(same, victim.node_name)
        if made is None:
            if same.spec.too_large:
                raise CutShort(same.spec.too_large)
            return same
        return replace(
            same,
            priority=made.pod.priority,
            preemption_policy=made.pod.preemption_policy,
            priority_class_name=made.pod.priority_class_name,
        )

    def _made(self, key: tuple[str, str, str]) -> _Made | None:
        """A pod of this workload's template as admission leaves it now: a default class may have come since. None where
        the workload is not known. Raises InvalidObject and CutShort."""
        if key not in self._templates:
            workload = self._cluster.workload(*key)
            charge(_MAKING)
            self._templates[key] = None if workload is None else self._of_template(key[1], workload.object)
        return self._templates[key]

    def _of_template(self, namespace: str, owner: ApiObject) -> _Made:
        template = template_of(owner)
        check_extent(at(template, "spec"))
        check_metadata_extent(at(template, "metadata"))
        obj = made_of(namespace, owner, template)
        pod = admitted(obj, self._cluster)
        if not self._room.limits(namespace):
            return _Made(pod, NOTHING)
        return _Made(pod, mapping(with_limit_range_defaults(obj, self._cluster.limit_ranges_of(namespace)), "spec"))


class _Made(NamedTuple):
    """A pod of a template; `spec`: its spec as quotas see it, where there are any."""

    pod: Pod
    spec: ApiObject


def _ordinal(pod: Pod) -> int:
    """Of a StatefulSet's pod or of its replacement, whose name has a number behind a plus; -1 of others."""
    owner = pod.owner
    return ordinal_of(pod.name.partition("+")[0], owner.name) if owner and owner.kind == "StatefulSet" else -1


def _kind(owner: Owner) -> str:
    group, slash, _ = owner.api_version.partition("/")
    return f"{group if slash else ''}/{owner.kind}"
