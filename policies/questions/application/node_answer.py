"""The result of `whatif pressure`, and the answer in the form of all answers: what a kubelet evicts, preempts and
terminates.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from forewarn.policies.base.documents import Hidden, Inlined, in_json, inlined_in_json
from forewarn.policies.base.documents.answer import AnswerDocument, AnswerStatus, Cause, Counter, Rows, Table, Why
from forewarn.policies.base.findings import cut, duration, listed, plural
from forewarn.policies.kubernetes.cluster.cache import Result
from forewarn.policies.kubernetes.quantity import cores

if TYPE_CHECKING:
    from forewarn.policies.kubernetes.kubelet.admission import Admission
    from forewarn.policies.kubernetes.kubelet.eviction import Group, Place
    from forewarn.policies.kubernetes.kubelet.pods import KubeletPod

_NAMED: Final = 5
_LONGEST: Final = 100
_UNITS: Final = (("Gi", 2**30), ("Mi", 2**20), ("Ki", 2**10))


class Order(NamedTuple):
    """The order of eviction.

    `what`: the eviction signal. `amount`: formats amounts. `never`: Pods that the kubelet does not evict. `fix`: how to
    get the usage of the Pods, or "" if it is known.
    """

    what: Hidden[str]
    amount: Hidden[Callable[[int], str]]
    places: Hidden[Sequence[Place]]
    never: Sequence[str]
    fix: Hidden[str] = ""

    @in_json
    def order(self) -> Sequence[Place]:
        """The Pods in the order of eviction."""
        return self.places


@dataclass(frozen=True, repr=False)
class NodePressure(Result):
    """The requested results for a node.

    `admission`: the kubelet's admission of a Pod. `shutdown`: groups of Pods in the order of shutdown.
    """

    node: str
    order: Inlined[Order | None] = None
    admission: Admission | None = None
    shutdown: Sequence[Group] | None = None

    @inlined_in_json
    def document(self) -> AnswerDocument:
        parts = [*_parts(self)]
        worst = min((part.status for part in parts), key=lambda status: status.rank)
        return AnswerDocument(
            status=worst,
            question=f"{' and '.join(part.question for part in parts)} on node {self.node}",
            clause=parts[0].clause,
            shown=[counter for part in parts for counter in part.shown],
            warnings=[*(part.headline for part in parts[1:]), *(text for part in parts for text in part.warnings)],
            why=next((part.why for part in parts if part.why), None),
            tables=[table for part in parts for table in part.tables],
        )


def _parts(result: NodePressure) -> Iterator[AnswerDocument]:
    """Yield the answer to each of the questions."""
    if result.order is not None:
        yield _of_order(result.order)
    if result.admission is not None:
        yield _of_admission(result.admission)
    if result.shutdown is not None:
        yield _of_shutdown(result.shutdown)


def _of_order(order: Order) -> AnswerDocument:
    places = order.places
    tied = next((number for number, place in enumerate(places) if number and not place.tied), len(places))
    first = f"{tied:,} Pods are tied to be evicted first"
    if tied == 1:
        first = f"the kubelet evicts {cut(places[0].pod.key, _LONGEST)} first"
    condition = ", if no Pod uses more than its request" if order.fix and order.what != "pids" else ""
    counts = [place.usage.exceeds for place in places if place.usage is not None and place.usage.exceeds is not None]
    rows: Rows = [
        [
            number,
            place.pod.key,
            place.pod.priority,
            place.reason + (f" (tied with {number - 1})" if place.tied else ""),
        ]
        for number, place in enumerate(places, 1)
    ]
    return AnswerDocument(
        status=AnswerStatus.WARN if places else AnswerStatus.OK,
        question=f"{order.what} pressure",
        clause=f"{first}{condition}" if places else "no Pod is evicted",
        shown=[
            Counter("Pods that may be evicted", len(places)),
            *([Counter("above their request", sum(counts))] if counts else []),
            Counter("never evicted", len(order.never), optional=True),
        ],
        warnings=[*_of_unknown_usage(order)],
        tables=[
            Table(("ORDER", "POD", "VALUE", "REASON"), rows),
            Table(("NEVER EVICTED, BECAUSE CRITICAL OR STATIC",), [[key] for key in order.never], detail=1),
        ],
    )


def _of_unknown_usage(order: Order) -> Iterator[str]:
    unknown = sum(place.usage is None for place in order.places)
    if order.fix and order.what == "pids":
        yield f"usage of Pods unknown: so is the order of Pods with equal priority. {order.fix}"
    elif order.fix:
        yield f"usage of Pods unknown: those above their request come before all others. {order.fix}"
    elif unknown:
        yield f"usage unknown for {plural(unknown, 'Pod')}: they come first"


def _of_admission(admission: Admission) -> AnswerDocument:
    preempted, rejection = admission.preempted, admission.rejection
    missing = listed([f"{amount_of(name, number)} {name}" for name, number in admission.insufficient.items()])
    lacks = f"insufficient capacity, missing {missing}" if missing else ""
    clause, status, why = "admitted, the kubelet preempts no Pod", AnswerStatus.OK, None
    if rejection is not None:
        if not missing:
            clause = "the kubelet rejects it"
        elif not admission.admitted.critical:
            clause = "the kubelet rejects it: not critical"
        elif admission.failed:
            clause = "the kubelet rejects it: preemption would not help"
        else:
            clause = "the kubelet rejects it: preempting every eligible Pod would not free enough"
        cause = Cause(1, "kubelet", f"{rejection.reason}: {rejection.message}")
        status, why = AnswerStatus.REJECTED, Why("rejected", 1, "THE POD IS REJECTED", [cause])
    elif missing:
        status = AnswerStatus.HARM
        victims = cut(preempted[0].key, _LONGEST) if len(preempted) == 1 else plural(len(preempted), "Pod")
        clause = f"the kubelet preempts {victims} and ignores PDBs"
    rows: Rows = [[pod.key, pod.priority, pod.qos] for pod in preempted]
    instead = f"the kubelet may preempt instead, with equal requests: {listed([*admission.equal])}"
    return AnswerDocument(
        status=status,
        question=f"Pod {cut(admission.admitted.key, _LONGEST)}",
        clause=clause,
        shown=[Counter("Pods preempted", len(preempted))],
        warnings=[*([lacks] if lacks else []), *([instead] if admission.equal else [])],
        why=why,
        tables=[Table(("POD PREEMPTED BY THE KUBELET", "VALUE", "QOS CLASS"), rows)],
    )


def _of_shutdown(groups: Sequence[Group]) -> AnswerDocument:
    waited = [group for group in groups if group.pods]
    seconds, pods = sum(group.seconds for group in waited), sum(len(group.pods) for group in waited)
    short = [(pod.grace - group.seconds, pod.priority, pod, group.seconds) for group in waited for pod in group.pods]
    short = [each for each in short if each[0] > 0]
    rows: Rows = [
        [group.priority, group.seconds, len(group.pods), listed([pod.key for pod in group.pods], _NAMED)]
        for group in groups
    ]
    members: Rows = [
        [pod.key, pod.priority, group.priority, group.seconds, pod.grace] for group in groups for pod in group.pods
    ]
    return AnswerDocument(
        status=AnswerStatus.WARN if short else AnswerStatus.OK,
        question="graceful shutdown",
        clause=f"at most {duration(seconds)} for {plural(pods, 'Pod')}, lowest priority first",
        shown=[
            Counter("groups", len(waited)),
            Counter("with less than their grace period", len(short)),
        ],
        warnings=[_too_short(short)] if short else (),
        tables=[
            Table(("MINIMUM PRIORITY", "SECONDS", "PODS", "NAMES"), rows),
            Table(("POD", "VALUE", "GROUP", "SECONDS", "GRACE PERIOD"), members, detail=1),
        ],
    )


def _too_short(short: Sequence[tuple[int, int, KubeletPod, int]]) -> str:
    _, _, pod, seconds = max(short, key=lambda each: each[:2])
    count = plural(len(short), "Pod gets", "Pods get")
    worst = "at worst " if len(short) > 1 else ""
    return f"{count} less than the grace period: {worst}{cut(pod.key, _LONGEST)}, {seconds} s of {pod.grace} s"


def size(number: int) -> str:
    """A number of bytes as text, for example `1.5Gi`."""
    return next((f"{number / factor:.4g}{unit}" for unit, factor in _UNITS if number >= factor), str(number))


processes: Final = partial(plural, noun="process", many="processes")
inodes: Final = partial(plural, noun="inode")


def amount_of(resource: str, amount: int) -> str:
    """An amount of a resource as text: cores, bytes with their unit, others as a number."""
    in_bytes = resource in ("memory", "ephemeral-storage") or resource.startswith("hugepages-")
    return size(amount) if in_bytes else cores(amount) if resource == "cpu" else str(amount)
