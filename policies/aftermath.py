"""What comes after a first preemption: where replacements of its victims go, and whom these push out in their turn.

Cycles of the scheduling core one after the other, in the order in which victims end and controllers make pods anew:
few enough for the answer to an admission request. There are no latencies and no back-off, budgets are charged and never
recover, of equal nodes the first by name is taken, and pods that waited before are left out. A simulation has all that.
Source: when each controller makes a pod anew, as in policies.controllers.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from heapq import heappop, heappush
from itertools import count
from typing import TYPE_CHECKING, Final, NamedTuple

from policies.cluster import admitted
from policies.controllers.daemon_set import on_node
from policies.controllers.templates import made_of, template_of
from policies.extent import check_extent, check_metadata_extent
from policies.findings import plural
from policies.metering import CutShort, charge
from policies.objects.fields import InvalidObject, at
from policies.scheduling.schedule_one import Prediction

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from policies.cluster import ClusterSnapshot
    from policies.objects.fields import ApiObject
    from policies.objects.pod import Owner, Pod
    from policies.scheduling.snapshot import Snapshot

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
    pushed out, by replacements, and in how many `levels`; `pending`: replacements that stay pending. `known` False:
    there was no time, or too much to do.
    """

    replaced: int = 0
    lost: int = 0
    pushed_out: int = 0
    levels: int = 0
    pending: int = 0
    known: bool = True

    @property
    def sentence(self) -> str:
        """`1 more pod would be pushed out by replacements; 1 replacement would stay pending.`"""
        if not self.known:
            return "What comes after was not worked out."
        if self.replaced == self.pushed_out == self.pending == 0:
            return "No replacement."
        parts = []
        if self.pushed_out:
            levels = f" ({self.levels} levels)" if self.levels > 1 else ""
            parts.append(f"{plural(self.pushed_out, 'more pod')} would be pushed out by replacements{levels}")
        if self.pending:
            parts.append(self._who_waits())
        if not parts:
            return "Its replacement would fit." if self.replaced == 1 else "Their replacements would fit."
        return f"{'; '.join(parts)}."

    def _who_waits(self) -> str:
        if self.pushed_out:
            return f"{plural(self.pending, 'replacement')} would stay pending"
        if self.replaced == 1:
            return "Its replacement would stay pending"
        them = "Their" if self.pending == self.replaced else f"{self.pending} of {self.replaced}"
        return f"{them} replacements would stay pending"

    def to_dict(self) -> dict[str, object]:
        """For programs: what is not zero."""
        if not self.known:
            return {"cutShort": True}
        told = {
            "replaced": self.replaced,
            "notReplaced": self.lost,
            "pushedOut": self.pushed_out,
            "levels": self.levels,
            "pending": self.pending,
        }
        return {key: number for key, number in told.items() if number}


NOT_KNOWN: Final = Aftermath(known=False)


def aftermath_of(
    cluster: ClusterSnapshot, snapshot: Snapshot, preempting: Sequence[Prediction], own: Collection[str] = ()
) -> Aftermath:
    """What comes after these predictions. `snapshot`: the cluster as they leave it; `own`: identities of pods that a
    rollout ends anyway, which are made anew by it alone. Raises CutShort."""
    going = [victim for prediction in preempting for victim in prediction.victims if not victim.terminating]
    if len(going) > MOST_CYCLES:
        raise CutShort("too many victims to follow")
    cascade = _Cascade(cluster, snapshot, {prediction.node for prediction in preempting})
    for victim in going:
        cascade.evict(victim, 0, is_replaced=victim.identity not in own)
    return cascade.run()


@dataclass(slots=True)
class _Waiting:
    """A pod without a node. `level`: 0 what arrived, 1 the replacement of somebody it pushed out, …"""

    pod: Pod
    level: int
    is_new: bool = True


class _Cascade:
    """Victims that end, pods that come anew, and cycles for these."""

    def __init__(self, cluster: ClusterSnapshot, snapshot: Snapshot, nodes: Iterable[str]) -> None:
        """`nodes`: those that are being emptied; whoever is nominated to them waits."""
        self._cluster, self._snapshot = cluster, snapshot
        self._now = 0.0
        self._numbers = count(1)
        self._due: list[tuple[float, int, Pod | _Waiting]] = []
        """(when, in which order, a victim that ends or a replacement that comes)."""
        nominated = (snapshot.objects.nominated.get(name, ()) for name in nodes)
        self._waiting = [_Waiting(pod, 0, is_new=False) for pods in nominated for pod in pods]
        self._templates: dict[tuple[str, str, str], Pod | None] = {}
        self._cycles = 0
        self._replaced = self._lost = self._pushed_out = self._levels = 0

    def run(self) -> Aftermath:
        """Until nothing more happens. Raises CutShort."""
        while self._due:
            self._now = self._due[0][0]
            ended: list[Pod] = []
            while self._due and self._due[0][0] == self._now:
                what = heappop(self._due)[2]
                if isinstance(what, _Waiting):
                    self._waiting.append(what)
                else:
                    ended.append(what)
            self._end(ended)
            self._try(everybody=bool(ended))
        pending = sum(waiting.level > 0 for waiting in self._waiting)
        return Aftermath(self._replaced, self._lost, self._pushed_out, self._levels, pending)

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
        heappush(self._due, (when, next(self._numbers), _Waiting(replacement, level + 1)))

    def _end(self, victims: Iterable[Pod]) -> None:
        """These are gone, as the snapshot has them by now."""
        gone = []
        for victim in victims:
            info = self._snapshot.get(victim.node_name)
            gone += [pod for pod in info.pods if pod.identity == victim.identity] if info else []
        if gone:
            self._snapshot = self._snapshot.with_pods((), gone)

    def _try(self, *, everybody: bool) -> None:
        """Try who came now, or everybody who waits, the highest priority first."""
        turn = [waiting for waiting in self._waiting if everybody or waiting.is_new]
        for waiting in sorted(turn, key=lambda waiting: -waiting.pod.effective_priority):
            self._cycles += 1
            if self._cycles > MOST_CYCLES:
                raise CutShort("too much comes after it")
            waiting.is_new = False
            prediction = Prediction(self._snapshot, waiting.pod)
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
        except InvalidObject:
            return None
        number = next(self._numbers)
        name, uid = f"{victim.name}+{number}", f"{victim.identity}+{number}"
        if made is not None and owner.kind not in _WHEN_GONE:
            return replace(made, name=name, uid=uid)
        same = replace(victim, name=name, uid=uid, node_name="", nominated_node_name="", start_time=None, ready=False)
        if owner.kind == "DaemonSet" and same.spec.node_affinity.required is not None:
            same = on_node(same, victim.node_name)
        if made is None:
            return same
        return replace(
            same,
            priority=made.priority,
            preemption_policy=made.preemption_policy,
            priority_class_name=made.priority_class_name,
        )

    def _made(self, key: tuple[str, str, str]) -> Pod | None:
        """A pod of this workload's template as admission leaves it now: a default class may have come since. None where
        the workload is not known. Raises InvalidObject and CutShort."""
        if key not in self._templates:
            workload = self._cluster.workload(*key)
            charge(_MAKING)
            self._templates[key] = None if workload is None else self._of_template(key[1], workload.object)
        return self._templates[key]

    def _of_template(self, namespace: str, owner: ApiObject) -> Pod:
        template = template_of(owner)
        check_extent(at(template, "spec"))
        check_metadata_extent(at(template, "metadata"))
        return admitted(made_of(namespace, owner, template), self._cluster)


def _kind(owner: Owner) -> str:
    group, slash, _ = owner.api_version.partition("/")
    return f"{group if slash else ''}/{owner.kind}"
