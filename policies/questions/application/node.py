"""One node: the order of evictions under pressure, admission of a critical Pod, and shutdown."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from forewarn.policies.base.documents import Hidden, Inlined, inlined_in_json
from forewarn.policies.base.documents.answer import AnswerDocument, AnswerStatus, Cause, Counter, Rows, Table, Why
from forewarn.policies.base.findings import cut, duration, listed, plural, quote, with_fix
from forewarn.policies.inputs.sources.files import SourceError, read_file
from forewarn.policies.kubernetes.cluster.cache import Cache, Result, head_of
from forewarn.policies.kubernetes.kube_apiserver.priority import Forbidden, admit_pod, resolved_spec
from forewarn.policies.kubernetes.kubelet import (
    Admission,
    KubeletPod,
    PodStats,
    Usage,
    admit,
    rank,
    read_pod,
    read_stats,
    shutdown_groups,
)
from forewarn.policies.kubernetes.objects.fields import ApiObject, InvalidInput, InvalidObject, at, group_kind, text
from forewarn.policies.kubernetes.objects.pod import Pod
from forewarn.policies.kubernetes.quantity import cores
from forewarn.policies.questions.application.manifests import Read, files_of, reading_of
from forewarn.policies.questions.whatif.questions import node_named

if TYPE_CHECKING:
    from forewarn.policies.kubernetes.kubelet import Group, Place

_PERIOD: Final = re.compile(r"(-?\d{1,10})=(\d{1,6})s?")


@dataclass(frozen=True, slots=True)
class PressureRequest:
    """A node, and what happens there: pressure (`signal`), the admission of a Pod, and a graceful shutdown.

    `inodes`: the disk of the signal runs out of inodes. `stats`: file with the kubelet's /stats/summary; without it,
    Pods with a request use no more. `images`: the
    disk of container images, `shared`, `own` or `split`. `admit`: manifest of a Pod. `shutdown`: priority and seconds.
    """

    node: str
    signal: str = ""
    inodes: bool = False
    stats: str = ""
    images: str = "shared"
    admit: Read = ""
    shutdown: Sequence[tuple[int, int]] = ()
    namespace: str = "default"


class NodePods:
    """The API objects of the Pods that are on a node and have not finished."""

    def __init__(self, node: str) -> None:
        self._node = node
        self.stored: dict[tuple[str, str], ApiObject] = {}

    def collect(self, obj: ApiObject) -> None:
        """Add an object of the cluster (see `Cache`)."""
        if group_kind(obj) == "/Pod":
            key = text(obj, "metadata", "namespace", default="default"), text(obj, "metadata", "name")
            on_it = at(obj, "spec", "nodeName") == self._node
            if on_it and at(obj, "status", "phase") not in ("Succeeded", "Failed"):
                self.stored[key] = obj
            else:
                self.stored.pop(key, None)


def periods(text: str) -> list[tuple[int, int]]:
    """Parse `0=30,1000=20` into pairs of priority and seconds. Raises InvalidInput."""
    matches = [_PERIOD.fullmatch(part.strip()) for part in text.split(",")]
    if not all(matches) or len(matches) > 1000:
        raise InvalidInput("must be PRIORITY=SECONDS, several with commas: 0=30,100000=20")
    return [(int(match[1]), int(match[2])) for match in matches if match]


def node_pressure(cache: Cache, node_pods: NodePods, request: PressureRequest) -> NodePressure:
    """Return the kubelet's evictions, its admission of a Pod, and the order of a shutdown, as `request` asks.

    `node_pods`: the Pods of the node, collected while `cache` was loaded; the Pod of `request.admit` is removed from
    them. Raises SourceError, InvalidInput and InvalidObject.
    """
    if why := cache.semantics.unknown:
        raise InvalidObject(f"not predicted: {why}")
    node_named(cache.snapshot(), request.node)
    head = head_of(cache.snapshot())
    pods = [read_pod(obj) for _, obj in sorted(node_pods.stored.items())]
    order = _evicted(request, pods) if request.signal else None
    admission = _kubelet_admission(request, cache, pods) if request.admit else None
    shutdown = shutdown_groups(request.shutdown, pods) if request.shutdown else None
    return NodePressure(head, request.node, order, admission, shutdown)


def _fix_of_stats(node: str) -> str:
    return f"pass --stats with the output of kubectl get --raw /api/v1/nodes/{node}/proxy/stats/summary"


def _evicted(request: PressureRequest, pods: Sequence[KubeletPod]) -> Order:
    stats = _stats(request.stats, request.node) if request.stats else None
    # Ranked separately: a Pod that ties with a skipped Pod does not tie with the Pod before that one.
    evicted, never = (
        rank(those, stats, request.signal, inodes=request.inodes, images=request.images)
        for those in ([pod for pod in pods if pod.critical is critical] for critical in (False, True))
    )
    amount = inodes if request.inodes else processes if request.signal == "pids" else size
    what = f"{request.signal}{' inodes' if request.inodes else ''}"
    if stats is None:
        places = [place._replace(usage=None, reason=_assumed(place.usage, amount)) for place in evicted]
    else:
        places = [place._replace(reason=_why(place.usage, amount)) for place in evicted]
    without_stats = "" if stats is not None else _fix_of_stats(request.node)
    return Order(what, [place.pod.key for place in never], places, without_stats)


def _assumed(usage: Usage | None, amount: Callable[[int], str]) -> str:
    """Return the reason for a Pod's position if its usage is unknown, and not above its request."""
    if usage is None or usage.exceeds is None:
        return ""
    return "no request, so any usage is above it" if usage.exceeds else f"requests {amount(usage.requested)}"


def _stats(path: str, node: str) -> dict[str, PodStats]:
    """The usage of Pods from a file with the node's `/stats/summary`. Raises SourceError."""
    try:
        return read_stats(json.loads(read_file(path)), node)
    except json.JSONDecodeError as fault:
        place = fault.lineno, fault.colno
        raise SourceError(path, f"invalid JSON: {fault.msg}", *place, fix=_fix_of_stats(node)) from None
    except (UnicodeDecodeError, RecursionError) as fault:
        raise SourceError(path, f"invalid JSON: {fault}") from None
    except InvalidObject as fault:
        raise SourceError(path, str(fault), fix=_fix_of_stats(node)) from None


def _kubelet_admission(request: PressureRequest, cache: Cache, pods: Sequence[KubeletPod]) -> Admission:
    obj = _pod_of(request.admit, request.namespace, cache)
    if (named := at(obj, "spec", "nodeName")) not in (None, "", request.node):
        problem = f"the Pod names node {quote(cut(str(named), 100))}, not {quote(request.node)}"
        raise InvalidInput(f"--admit: {problem}", fix="ask about that node")
    admitted = read_pod(obj)
    cache.remove(obj)  # the kubelet compares the Pod with the other Pods
    info = cache.snapshot().scheduling.get(request.node)
    assert info is not None
    return admit(admitted, Pod.from_api(obj), info, (pod for pod in pods if pod.key != admitted.key))


def _pod_of(path: Read, namespace: str, cache: Cache) -> ApiObject:
    """Return the only Pod in a file, with the priority of its class. Raises SourceError, InvalidObject."""
    pods = [
        (file, subject.object)
        for file in files_of([path])
        for subject in reading_of(file, ("/Pod",), namespace).subjects
    ]
    if len(pods) != 1:
        fix = "give one Pod" if pods else "pass the manifest of a Pod"
        problem = f"found {len(pods)} Pods" if pods else "no Pod found"
        raise SourceError(path if isinstance(path, str) else "", problem, fix=fix)
    ((file, obj),) = pods
    try:
        spec = resolved_spec(obj["spec"], admit_pod(obj["spec"], cache.snapshot().priority_classes))
    except (Forbidden, KeyError, TypeError, AttributeError) as fault:
        raise SourceError(file.name, str(fault)) from None
    return {**obj, "spec": spec}


def _why(usage: Usage | None, amount: Callable[[int], str]) -> str:
    """Return the reason for a Pod's position in the order of eviction."""
    if usage is None:
        return "usage unknown"
    used, requested, exceeds, _ = usage
    if exceeds is None:
        return f"uses {amount(used)}"
    if exceeds:
        return f"uses {amount(used)}, {amount(used - requested)} above its request"
    return f"uses {amount(used)}, within its request of {amount(requested)}"


_NAMED: Final = 5
_MAX_LENGTH: Final = 100
_UNITS: Final = (("Gi", 2**30), ("Mi", 2**20), ("Ki", 2**10))


class Order(NamedTuple):
    """The order of eviction.

    `what`: the eviction signal. `never`: Pods that the kubelet does not evict. `order`:
    the Pods in the order of eviction. `fix`: how to get the usage of the Pods, or "" if it is known.
    """

    what: Hidden[str]
    never: Sequence[str]
    order: Sequence[Place]
    fix: Hidden[str] = ""


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
        yield _order_document(result.order)
    if result.admission is not None:
        yield _admission_document(result.admission)
    if result.shutdown is not None:
        yield _shutdown_document(result.shutdown)


def _order_document(order: Order) -> AnswerDocument:
    places = order.order
    tied = next((number for number, place in enumerate(places) if number and not place.tied), len(places))
    first = f"{tied:,} Pods are tied to be evicted first"
    if tied == 1:
        first = f"the kubelet evicts {cut(places[0].pod.key, _MAX_LENGTH)} first"
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
        warnings=[*_unknown_usage_sentences(order)],
        tables=[
            Table(("ORDER", "POD", "VALUE", "REASON"), rows),
            Table(("NEVER EVICTED, BECAUSE CRITICAL OR STATIC",), [[key] for key in order.never], detail=1),
        ],
    )


def _unknown_usage_sentences(order: Order) -> Iterator[str]:
    unknown = sum(place.usage is None for place in order.order)
    if order.fix and order.what == "pids":
        yield with_fix("usage of Pods unknown: so is the order of Pods with equal priority", order.fix)
    elif order.fix:
        yield with_fix("usage of Pods unknown: those above their request come before all others", order.fix)
    elif unknown:
        yield f"usage unknown for {plural(unknown, 'Pod')}: they come first"


def _admission_document(admission: Admission) -> AnswerDocument:
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
        victims = cut(preempted[0].key, _MAX_LENGTH) if len(preempted) == 1 else plural(len(preempted), "Pod")
        clause = f"the kubelet preempts {victims} and ignores PDBs"
    rows: Rows = [[pod.key, pod.priority, pod.qos] for pod in preempted]
    instead = f"the kubelet may preempt instead, with equal requests: {listed([*admission.equal])}"
    return AnswerDocument(
        status=status,
        question=f"Pod {cut(admission.admitted.key, _MAX_LENGTH)}",
        clause=clause,
        shown=[Counter("Pods preempted", len(preempted))],
        warnings=[*([lacks] if lacks else []), *([instead] if admission.equal else [])],
        why=why,
        tables=[Table(("POD PREEMPTED BY THE KUBELET", "VALUE", "QOS CLASS"), rows)],
    )


def _shutdown_document(groups: Sequence[Group]) -> AnswerDocument:
    waited = [group for group in groups if group.pods]
    seconds, pods = sum(group.seconds for group in waited), sum(len(group.pods) for group in waited)
    short = [(pod.grace - group.seconds, pod.priority, pod, group.seconds) for group in waited for pod in group.pods]
    short = [each for each in short if each[0] > 0]
    warnings = []
    if short:
        _, _, worst, given = max(short, key=lambda each: each[:2])
        count, at_worst = plural(len(short), "Pod gets", "Pods get"), "at worst " * (len(short) > 1)
        worst_one = f"{at_worst}{cut(worst.key, _MAX_LENGTH)}, {given} s of {worst.grace} s"
        warnings.append(f"{count} less than the grace period: {worst_one}")
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
        warnings=warnings,
        tables=[
            Table(("MINIMUM PRIORITY", "SECONDS", "PODS", "NAMES"), rows),
            Table(("POD", "VALUE", "GROUP", "SECONDS", "GRACE PERIOD"), members, detail=1),
        ],
    )


def size(number: int) -> str:
    """A number of bytes as text, for example `1.5Gi`."""
    return next((f"{number / factor:.4g}{unit}" for unit, factor in _UNITS if number >= factor), str(number))


processes: Final = partial(plural, noun="process", many="processes")
inodes: Final = partial(plural, noun="inode")


def amount_of(resource: str, amount: int) -> str:
    """An amount of a resource as text: cores, bytes with their unit, others as a number."""
    in_bytes = resource in ("memory", "ephemeral-storage") or resource.startswith("hugepages-")
    return size(amount) if in_bytes else cores(amount) if resource == "cpu" else str(amount)
