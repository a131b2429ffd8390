"""One node: the order of evictions under pressure, admission of a critical Pod, and shutdown."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from forewarn.policies.base.findings import cut, quote
from forewarn.policies.inputs.sources.files import SourceError, read_file
from forewarn.policies.kubernetes.cluster.cache import Cache, head_of
from forewarn.policies.kubernetes.kube_apiserver.priority import Forbidden, admit_pod, resolved_spec
from forewarn.policies.kubernetes.kubelet.admission import Admission, admit
from forewarn.policies.kubernetes.kubelet.eviction import PodStats, Usage, rank, read_stats, shutdown_groups
from forewarn.policies.kubernetes.kubelet.pods import KubeletPod, read_pod
from forewarn.policies.kubernetes.objects.fields import ApiObject, InvalidInput, InvalidObject, at, group_kind, text
from forewarn.policies.kubernetes.objects.pod import Pod
from forewarn.policies.questions.application.manifests import Read, files_of, reading_of
from forewarn.policies.questions.application.node_answer import NodePressure, Order, inodes, processes, size
from forewarn.policies.questions.whatif.questions import node_named

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
    """Return what happens on a node. `node_pods`: what the load of `cache` collected. Removes the admitted Pod from it.

    Raises SourceError, InvalidInput and InvalidObject.
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
    return f"Fix: pass --stats with the output of kubectl get --raw /api/v1/nodes/{node}/proxy/stats/summary"


def _evicted(request: PressureRequest, pods: Sequence[KubeletPod]) -> Order:
    stats = _stats(request.stats, request.node) if request.stats else None
    # Apart: what is tied with one that the kubelet passes over is not tied with the one before that.
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
    return Order(what, amount, places, [place.pod.key for place in never], without_stats)


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
        raise SourceError(
            path, f"invalid JSON: {fault.msg}. {_fix_of_stats(node)}", fault.lineno, fault.colno
        ) from None
    except (UnicodeDecodeError, RecursionError) as fault:
        raise SourceError(path, f"invalid JSON: {fault}") from None
    except InvalidObject as fault:
        raise SourceError(path, f"{fault}. {_fix_of_stats(node)}") from None


def _kubelet_admission(request: PressureRequest, cache: Cache, pods: Sequence[KubeletPod]) -> Admission:
    obj = _pod_of(request.admit, request.namespace, cache)
    if (named := at(obj, "spec", "nodeName")) not in (None, "", request.node):
        problem = f"the Pod names node {quote(cut(str(named), 100))}, not {quote(request.node)}"
        raise InvalidInput(f"--admit: {problem}. Fix: ask about that node")
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
        raise SourceError(
            path if isinstance(path, str) else "",
            f"found {len(pods)} Pods. Fix: give one Pod" if pods else "no Pod found. Fix: pass the manifest of a Pod",
        )
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
