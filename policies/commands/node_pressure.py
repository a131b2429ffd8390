"""`forewarn node-pressure`: who goes first on a node, by the kubelet's own rules."""

from __future__ import annotations

import argparse
import json
import re
import sys
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from policies.cluster import Cache
from policies.commands.cluster_command import (
    add_cluster_option,
    add_color_option,
    answered,
    options_with_cluster,
)
from policies.objects.fields import InvalidObject, at, group_kind, text
from policies.sources import SourceError, find_files, load_cluster, read_file
from policies.terminal import clean, columns, painter, wants_color

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from policies.kubelet.eviction import Place
    from policies.kubelet.pods import KubeletPod
    from policies.kubelet.stats import PodStats
    from policies.objects.fields import ApiObject

OK, _, USAGE, FAILED = range(4)
SIGNALS: Final = ("memory", "nodefs", "imagefs", "containerfs", "pids")
IMAGES: Final = ("shared", "own", "split")
_PERIOD: Final = re.compile(r"(-?\d{1,10})=(\d{1,6})s?")


class NodeCache(Cache):
    """A Cache that keeps the pods of one node as they are stored."""

    def __init__(self, node: str) -> None:
        super().__init__()
        self._node = node
        self.stored: dict[tuple[str, str], ApiObject] = {}

    def add(self, obj: ApiObject) -> bool:
        """See Cache."""
        added = super().add(obj)
        if group_kind(obj) == "/Pod":
            key = text(obj, "metadata", "namespace", default="default"), text(obj, "metadata", "name")
            on_it = at(obj, "spec", "nodeName") == self._node
            if on_it and at(obj, "status", "phase") not in ("Succeeded", "Failed"):
                self.stored[key] = obj
            else:
                self.stored.pop(key, None)
        return added


def main(arguments: Sequence[str]) -> int:
    """Run the command; returns the exit status: 0 answered, 2 usage, 3 not done."""
    parser = _parser()
    options = options_with_cluster(parser, arguments)
    if not (options.signal or options.admit or options.shutdown):
        parser.error("say what is asked: --signal, --admit or --shutdown")
    if options.inodes and options.signal in (None, "memory", "pids"):
        parser.error("--inodes goes with --signal nodefs, imagefs or containerfs")
    return answered("node-pressure", lambda: _answer(options))


def _answer(options: argparse.Namespace) -> int:
    from policies.kubelet.pods import read_pod

    cache = NodeCache(options.node)
    load_cluster(*options.cluster, into=cache)
    if ("", options.node) not in cache.snapshot().objects.nodes:
        raise InvalidObject(f'there is no node "{options.node}" in the cluster')
    pods = [read_pod(obj) for _, obj in sorted(cache.stored.items())]
    color = options.output == "text" and wants_color(options.color, sys.stdout)
    told: dict[str, Any] = {"node": options.node}
    lines: list[str] = []
    if options.signal:
        lines += _evicted(options, pods, told, painter(color))
    if options.admit:
        lines += _at_the_door(options, cache, pods, told)
    if options.shutdown:
        lines += _shut_down(options, pods, told)
    if options.output == "json":
        print(json.dumps(told))  # noqa: T201
    else:
        sys.stdout.writelines(clean(line, color) + "\n" for line in lines)
    return OK


def _evicted(
    options: argparse.Namespace, pods: Sequence[KubeletPod], told: dict[str, Any], paint: Callable[[str, str], str]
) -> Iterator[str]:
    from policies.kubelet.eviction import rank
    from policies.render import node_pressure

    stats = _stats(options.stats)
    # Apart: what is tied with one that the kubelet passes over is not tied with the one before that.
    places = [
        place
        for critical in (False, True)
        for place in rank(
            (pod for pod in pods if pod.critical is critical),
            stats,
            options.signal,
            inodes=options.inodes,
            images=options.image_fs,
        )
    ]
    amount = node_pressure.processes if options.signal == "pids" else node_pressure.size
    amount = node_pressure.inodes if options.inodes else amount
    told["order"] = [_place(place, node_pressure.why(place, amount)) for place in places if not place.pod.critical]
    told["never"] = [place.pod.key for place in places if place.pod.critical]
    what = f"{options.signal}{' inodes' if options.inodes else ''}"
    return node_pressure.order(options.node, what, places, amount, paint)


def _place(place: Place, why: str) -> dict[str, Any]:
    used = {"used": place.used, "requested": place.requested, "exceeds": place.exceeds} if place.known else {}
    return {"pod": place.pod.key, "priority": place.pod.priority, **used, "tied": place.tied, "why": why}


def _stats(path: str | None) -> dict[str, PodStats]:
    """What pods use, by a `/stats/summary`; nothing where none is given. Raises SourceError and InvalidObject."""
    from policies.kubelet.stats import read_stats

    if path is None:
        return {}
    try:
        return read_stats(json.loads(read_file(path)))
    except (json.JSONDecodeError, UnicodeDecodeError, RecursionError) as fault:
        raise SourceError(path, f"this is no JSON: {fault}") from None


def _at_the_door(
    options: argparse.Namespace, cache: NodeCache, pods: Sequence[KubeletPod], told: dict[str, Any]
) -> Iterator[str]:
    from policies.kubelet.admission import NotEnough, pods_to_preempt
    from policies.kubelet.pods import read_pod
    from policies.render import node_pressure

    admitted = read_pod(_pod_of(options.admit, options.namespace, cache))
    lacks = _lacks(cache, options.node, admitted)
    victims: list[KubeletPod] | NotEnough = []
    if lacks and admitted.critical:
        try:
            victims = pods_to_preempt(admitted, pods, lacks)
        except NotEnough as fault:
            victims = fault
    refused = bool(lacks) and (not admitted.critical or isinstance(victims, NotEnough))
    ended = [] if isinstance(victims, NotEnough) else [pod.key for pod in victims]
    told["admission"] = {"pod": admitted.key, "lacks": lacks, "refused": refused, "ended": ended}
    return node_pressure.door(admitted, lacks, victims, options.node)


def _pod_of(path: str, namespace: str, cache: NodeCache) -> ApiObject:
    """The one pod of a file, with the number of its class. Raises SourceError and InvalidObject."""
    from policies.kube_apiserver.priority import Forbidden, admit_pod, resolved_spec
    from policies.manifests import read

    for file in find_files([path]):
        for subject in read(read_file(file), file.name, frozenset(("/Pod",)), namespace=namespace).subjects:
            obj = subject.object
            try:
                spec = resolved_spec(obj["spec"], admit_pod(obj["spec"], cache.snapshot().priority_classes))
            except (Forbidden, KeyError, TypeError, AttributeError) as fault:
                raise SourceError(file.name, str(fault)) from None
            return {**obj, "spec": spec}
    raise SourceError(path, "no pod in it")


def _lacks(cache: NodeCache, node: str, admitted: KubeletPod) -> dict[str, int]:
    """What lacks on the node for a pod: cpu in thousandths, the rest in units. Source: `GeneralPredicates`."""
    from policies.kubelet.admission import request_of

    info = cache.snapshot().scheduling.get(node)
    assert info is not None
    allocatable = info.node.allocatable
    free = {
        "pods": allocatable.allowed_pod_number - len(info.pods),
        "cpu": allocatable.milli_cpu - info.milli_cpu,
        "memory": allocatable.memory - info.memory,
        "ephemeral-storage": allocatable.ephemeral_storage - info.ephemeral_storage,
    }
    asked = {name: request_of(admitted, name) for name in free}
    return {name: asked[name] - left for name, left in free.items() if asked[name] and asked[name] > left}


def _shut_down(options: argparse.Namespace, pods: Sequence[KubeletPod], told: dict[str, Any]) -> Iterator[str]:
    from policies.kubelet.shutdown import shutdown_groups
    from policies.render import node_pressure

    groups = shutdown_groups(options.shutdown, pods)
    told["shutdown"] = [
        {"priority": group.priority, "seconds": group.seconds, "pods": [pod.key for pod in group.pods]}
        for group in groups
    ]
    yield f"{options.node}, graceful shutdown: group after group"
    yield from node_pressure.shutdown(groups)


def _periods(text_: str) -> list[tuple[int, int]]:
    """`0=30,1000=20`: priority and seconds."""
    found = [_PERIOD.fullmatch(part.strip()) for part in text_.split(",")]
    if not all(found) or len(found) > 1000:
        raise argparse.ArgumentTypeError("write PRIORITY=SECONDS, several with commas: 0=30,100000=20")
    return [(int(match[1]), int(match[2])) for match in found if match]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="forewarn node-pressure",
        formatter_class=partial(argparse.HelpFormatter, width=columns()),
        description="Say who goes first on a node by the kubelet's own rules: under pressure, at its"
        " door, at shutdown.",
        epilog="Exit status: 0 an answer was given, 2 wrong usage, 3 could not do the job.",
    )
    add = parser.add_argument
    add("node", metavar="NODE")
    add_cluster_option(add)
    add("--signal", choices=SIGNALS, help="what runs short")
    add("--inodes", action="store_true", help="of a disk, its inodes")
    add("--stats", metavar="FILE", help="the kubelet's /stats/summary (- for standard input)")
    add(
        "--image-fs",
        choices=IMAGES,
        default="shared",
        help="where images are: on nodefs, alone, or split (default: shared)",
    )
    add("--admit", metavar="FILE", help="a pod that comes to the kubelet itself: whom it ends for it")
    add("--shutdown", type=_periods, metavar="PRIORITY=SECONDS,…", help="shutdownGracePeriodByPodPriority")
    add("-n", "--namespace", default="default", help="namespace of a pod without one (default: default)")
    add("-o", "--output", choices=("text", "json"), default="text", help="default: text")
    add_color_option(add)
    return parser
