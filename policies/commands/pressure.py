"""`forewarn whatif pressure`: predict the order of evictions on a node, by the kubelet's rules."""

from __future__ import annotations

import argparse
import json
import re
import sys
from typing import TYPE_CHECKING, Any, Final

from forewarn.policies.cluster.cache import Cache
from forewarn.policies.commands.cluster_command import (
    add_cluster_option,
    add_color_option,
    add_namespace_option,
    add_output_option,
    answered,
    loaded,
    options_with_cluster,
)
from forewarn.policies.commands.parser import Parser
from forewarn.policies.commands.release import settle
from forewarn.policies.objects.fields import InvalidObject, at, group_kind, text
from forewarn.policies.sources import SourceError, find_files, read_file
from forewarn.policies.terminal import as_json, as_markdown, clean, painter, wants_color

if TYPE_CHECKING:
    from collections.abc import Sequence

    from forewarn.policies.kubelet.admission import Admission
    from forewarn.policies.kubelet.eviction import Place
    from forewarn.policies.kubelet.pods import KubeletPod
    from forewarn.policies.kubelet.stats import PodStats
    from forewarn.policies.objects.fields import ApiObject
    from forewarn.policies.render.node_pressure import Answer, Order

OK, _, USAGE, FAILED = range(4)
SIGNALS: Final = ("memory", "nodefs", "imagefs", "containerfs", "pids")
FORMATS: Final = ("text", "json", "markdown", "html")
IMAGES: Final = ("shared", "own", "split")
_PERIOD: Final = re.compile(r"(-?\d{1,10})=(\d{1,6})s?")


class NodeCache(Cache):
    """A Cache that also stores the API objects of one node's Pods."""

    def __init__(self, node: str) -> None:
        super().__init__()
        self._node = node
        self.stored: dict[tuple[str, str], ApiObject] = {}

    def add(self, obj: ApiObject) -> bool:
        """Add an object; also store a Pod that is on the node and has not finished. Returns as `Cache.add`."""
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
    """Run the command; returns 0, 2 for wrong usage, or 3 without a result."""
    parser = _parser()
    options = options_with_cluster(parser, arguments)
    if not (options.signal or options.admit or options.shutdown):
        parser.error("say what is asked: --signal, --admit or --shutdown")
    if options.inodes and options.signal in (None, "memory", "pids"):
        parser.error("--inodes goes with --signal nodefs, imagefs or containerfs")
    return answered("whatif pressure", options, lambda: _answer(options))


def _answer(options: argparse.Namespace) -> int:
    from forewarn.policies.cluster.answer_head import head_of
    from forewarn.policies.kubelet.pods import read_pod
    from forewarn.policies.kubelet.shutdown import shutdown_groups
    from forewarn.policies.releases.release import Release
    from forewarn.policies.render import node_pressure
    from forewarn.policies.render.head import after_verdict, below_title, headed, on_page
    from forewarn.policies.render.node_pressure import Answer
    from forewarn.policies.whatif.questions import node_named

    cache = NodeCache(options.node)
    settle(loaded(options, cache), Release())
    node_named(cache.snapshot(), options.node)
    head = head_of(cache.snapshot())
    if options.signal and not options.stats:
        raise SourceError(
            options.node,
            "order not predicted: the kubelet ranks Pods by their usage. Fix: pass --stats with the output of "
            "kubectl get --raw /api/v1/nodes/NODE/proxy/stats/summary",
        )
    pods = [read_pod(obj) for _, obj in sorted(cache.stored.items())]
    answer = Answer(
        options.node,
        _evicted(options, pods) if options.signal else None,
        _kubelet_admission(options, cache, pods) if options.admit else None,
        shutdown_groups(options.shutdown, pods) if options.shutdown else None,
    )
    if options.output == "json":
        sys.stdout.write(as_json(headed(_as_dict(answer), head)))
    elif options.output == "html":
        from forewarn.policies.render.html.node_pressure import report

        sys.stdout.write(on_page(report(answer), head).document())
    elif options.output == "markdown":
        sys.stdout.write(as_markdown(below_title(node_pressure.markdown(answer), head)))
    else:
        color = wants_color(options.color, sys.stdout)
        lines = after_verdict(node_pressure.render(answer, painter(color)), head)
        sys.stdout.writelines(clean(line, color) + "\n" for line in lines)
    return OK


def _evicted(options: argparse.Namespace, pods: Sequence[KubeletPod]) -> Order:
    from forewarn.policies.kubelet.eviction import rank
    from forewarn.policies.render import node_pressure

    stats = _stats(options.stats, options.node)
    # Apart: what is tied with one that the kubelet passes over is not tied with the one before that.
    evicted, never = (
        rank(
            (pod for pod in pods if pod.critical is critical),
            stats,
            options.signal,
            inodes=options.inodes,
            images=options.image_fs,
        )
        for critical in (False, True)
    )
    amount = node_pressure.processes if options.signal == "pids" else node_pressure.size
    amount = node_pressure.inodes if options.inodes else amount
    what = f"{options.signal}{' inodes' if options.inodes else ''}"
    return node_pressure.Order(what, amount, evicted, [place.pod.key for place in never])


def _as_dict(answer: Answer) -> dict[str, Any]:
    from forewarn.policies.render.node_pressure import why

    document: dict[str, Any] = {"node": answer.node}
    if answer.order:
        document["order"] = [_place(place, why(place, answer.order.amount)) for place in answer.order.places]
        document["never"] = answer.order.never
    if answer.admission:
        rejection = answer.admission.rejection
        document["admission"] = {
            "pod": answer.admission.admitted.key,
            "insufficient": answer.admission.insufficient,
            "rejected": rejection is not None,
            "reason": rejection.reason if rejection else "",
            "message": rejection.message if rejection else "",
            "preempted": [pod.key for pod in answer.admission.preempted],
        }
    if answer.shutdown is not None:
        document["shutdown"] = [
            {"priority": group.priority, "seconds": group.seconds, "pods": [pod.key for pod in group.pods]}
            for group in answer.shutdown
        ]
    return document


def _place(place: Place, why: str) -> dict[str, Any]:
    used = {"used": place.used, "requested": place.requested, "exceeds": place.exceeds} if place.known else {}
    return {"pod": place.pod.key, "priority": place.pod.priority, **used, "tied": place.tied, "reason": why}


def _stats(path: str | None, node: str) -> dict[str, PodStats]:
    """The usage of Pods from a file with the node's `/stats/summary`; empty without a file. Raises SourceError."""
    from forewarn.policies.kubelet.stats import read_stats

    if path is None:
        return {}
    try:
        return read_stats(json.loads(read_file(path)), node)
    except json.JSONDecodeError as fault:
        raise SourceError(path, f"invalid JSON: {fault.msg}", fault.lineno, fault.colno) from None
    except (UnicodeDecodeError, RecursionError) as fault:
        raise SourceError(path, f"invalid JSON: {fault}") from None
    except InvalidObject as fault:
        raise SourceError(path, str(fault)) from None


def _kubelet_admission(options: argparse.Namespace, cache: NodeCache, pods: Sequence[KubeletPod]) -> Admission:
    from forewarn.policies.kubelet.admission import admit
    from forewarn.policies.kubelet.pods import read_pod
    from forewarn.policies.objects.pod import Pod

    obj = _pod_of(options.admit, options.namespace, cache)
    admitted = read_pod(obj)
    cache.remove(obj)  # the kubelet compares the Pod with the other Pods
    info = cache.snapshot().scheduling.get(options.node)
    assert info is not None
    return admit(admitted, Pod.from_api(obj), info, (pod for pod in pods if pod.key != admitted.key))


def _pod_of(path: str, namespace: str, cache: NodeCache) -> ApiObject:
    """Return the only Pod in a file, with the priority of its class. Raises SourceError, InvalidObject."""
    from forewarn.policies.kube_apiserver.priority import Forbidden, admit_pod, resolved_spec
    from forewarn.policies.manifests import read

    found = [
        (file, subject.object)
        for file in find_files([path])
        for subject in read(read_file(file), file.name, frozenset(("/Pod",)), namespace=namespace).subjects
    ]
    if len(found) != 1:
        raise SourceError(path, f"found {len(found)} Pods. Fix: give one Pod" if found else "no Pod found")
    ((file, obj),) = found
    try:
        spec = resolved_spec(obj["spec"], admit_pod(obj["spec"], cache.snapshot().priority_classes))
    except (Forbidden, KeyError, TypeError, AttributeError) as fault:
        raise SourceError(file.name, str(fault)) from None
    return {**obj, "spec": spec}


def _periods(text_: str) -> list[tuple[int, int]]:
    """Parse `0=30,1000=20` into pairs of priority and seconds. Raises argparse.ArgumentTypeError."""
    found = [_PERIOD.fullmatch(part.strip()) for part in text_.split(",")]
    if not all(found) or len(found) > 1000:
        raise argparse.ArgumentTypeError("write PRIORITY=SECONDS, several with commas: 0=30,100000=20")
    return [(int(match[1]), int(match[2])) for match in found if match]


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="forewarn whatif pressure",
        description="Show the order in which the kubelet of a node evicts Pods under pressure. Also show which Pods it "
        "evicts to admit a critical Pod, and in which order it terminates Pods at node shutdown.",
        epilog="Exit status: 0: ranked. 2: wrong usage. 3: no answer.",
        examples=(
            "whatif pressure node-1 --signal memory --stats summary.json",
            "whatif pressure node-1 --admit static-pod.yaml --cluster cluster.json.gz",
        ),
    )
    add = parser.add_argument
    add("node", metavar="NODE")
    add_cluster_option(add)
    add("--signal", choices=SIGNALS, help="resource that runs out on the node")
    add("--inodes", action="store_true", help="the disk runs out of inodes instead of bytes")
    add("--stats", metavar="FILE", help="the kubelet's /stats/summary, required by --signal (- for standard input)")
    help_text = "disk of container images: shared with nodefs, own, or split image filesystem (default: shared)"
    add("--image-fs", choices=IMAGES, default="shared", help=help_text)
    add(
        "--admit",
        metavar="FILE",
        help="manifest of a critical Pod: show the Pods that the kubelet evicts to admit this Pod",
    )
    add(
        "--shutdown", type=_periods, metavar="PRIORITY=SECONDS,…", help="the kubelet's shutdownGracePeriodByPodPriority"
    )
    add_namespace_option(add)
    add_output_option(add, FORMATS)
    add_color_option(add)
    return parser
