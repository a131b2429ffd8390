"""`forewarn whatif resize`: predict whether kube-apiserver and the kubelet accept an in-place resize of Pods."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Any, Final

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
from forewarn.policies.commands.release import add_release_options, release_of, settle
from forewarn.policies.objects.fields import InvalidInput, group_kind
from forewarn.policies.quantity import InvalidQuantity, parse_quantity
from forewarn.policies.sources import SourceError
from forewarn.policies.terminal import as_json, clean

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from forewarn.policies.releases.release import Release
    from forewarn.policies.whatif.resize import Resized, StoredPods

OK, _, USAGE, FAILED = range(4)
_RESOURCES: Final = ("cpu", "memory")
_POD: Final = ("pod", "pods", "po")
_NOT_CHECKED: Final = "ResourceQuotas, LimitRanges and resizes that are already pending are not evaluated"


def main(arguments: Sequence[str]) -> int:
    """Run the command; returns 0, 2 for wrong usage, or 3 without a result."""
    from forewarn.policies.whatif.resize import GATE

    parser = _parser()
    options = options_with_cluster(parser, arguments)
    if not options.requests and not options.limits:
        parser.error("give --requests, --limits or both")
    preempts = options.feature_gates.pop(GATE, False)
    release = release_of(options, parser)
    return answered("whatif resize", options, lambda: _answer(options, release, preempts=preempts))


def _answer(options: argparse.Namespace, release: Release, *, preempts: bool) -> int:
    from forewarn.policies.cluster.answer_head import head_of
    from forewarn.policies.render.head import after_verdict, headed
    from forewarn.policies.whatif.resize import GATE, StoredPods, Wanted, resize

    cache = StoredPods(options.namespace)
    loaded(options, cache)
    settle(cache, release)
    if cache.semantics.unknown:
        raise SourceError("--kubernetes-version", cache.semantics.unknown)
    if preempts and not cache.semantics.resizes_can_preempt:
        raise SourceError("--feature-gates", f"{GATE} came with Kubernetes 1.37")
    wanted = Wanted(options.container, options.requests, options.limits)
    names = _names(options, cache)
    found = list(resize(cache, names, wanted, preempts=preempts))
    head = head_of(cache.snapshot())
    if options.output == "json":
        document = {"pods": [_as_dict(each, preempts=preempts) for each in found], "notes": [_NOT_CHECKED]}
        sys.stdout.write(as_json(headed(document, head)))
        return OK
    lines = [line for each in found for line in _lines(each, preempts=preempts)]
    lines.append(f"note: {_NOT_CHECKED}")
    sys.stdout.writelines(clean(line, color=False) + "\n" for line in after_verdict(lines, head))
    return OK


def _names(options: argparse.Namespace, cache: StoredPods) -> list[str]:
    """Return the names of the Pods to resize: of the named Pod, or of a workload's Pods. Raises SourceError,
    InvalidInput.
    """
    from forewarn.policies.controllers.own_pods import pods_of
    from forewarn.policies.whatif.questions import pod_not_found, scaled

    kind, slash, name = options.name.rpartition("/")
    cluster = cache.snapshot()
    if not slash or kind.lower() in _POD:
        if name not in cache.stored:
            raise InvalidInput(f"{options.namespace}/{name}: {pod_not_found(cluster, options.namespace, name)}")
        return [name]
    (arrival,) = scaled(cluster, options.name, 0, options.namespace).arrivals
    stored = cluster.workload(group_kind(arrival.object), options.namespace, name)
    assert stored is not None
    found = sorted(pod.name for pod in pods_of(cluster, stored.object) if pod.name in cache.stored)
    if not found:
        raise SourceError(options.name, "has no Pods")
    return found


def _as_dict(resized: Resized, *, preempts: bool) -> dict[str, Any]:
    return {
        "pod": resized.pod,
        "node": resized.node,
        "verdict": resized.verdict,
        "reason": resized.reason,
        "insufficient": dict(resized.insufficient),
        "evicted": list(resized.evicted),
        "preempted": list(resized.preempted) if preempts else [],
        "inTheWay": [] if preempts else list(resized.preempted),
        "dependsOn": list(resized.depends),
    }


def _lines(resized: Resized, *, preempts: bool) -> Iterator[str]:
    where = f" on {resized.node}" if resized.node else ""
    yield f"Pod {resized.pod}{where}: {resized.verdict}{f': {resized.reason}' if resized.reason else ''}"
    if resized.insufficient:
        yield "  lacks " + ", ".join(f"{name} {_amount(name, n)}" for name, n in resized.insufficient.items())
    if resized.evicted:
        yield f"  the kubelet evicts: {', '.join(resized.evicted)}"
    if resized.preempted:
        does = "kube-scheduler preempts" if preempts else "would have to leave"
        yield f"  {does}: {', '.join(resized.preempted)}"
    elif resized.verdict == "deferred" and resized.insufficient:
        yield "  no Pods of lower priority free enough resources"
    yield from (f"  {each}" for each in resized.depends)


def _amount(name: str, number: int) -> str:
    from forewarn.policies.render.node_pressure import amount_of

    return f"{number}m" if name == "cpu" else amount_of(name, number)


def _amounts(value: str) -> dict[str, str]:
    """Parse `cpu=1,memory=2Gi` into resource -> amount. Raises argparse.ArgumentTypeError."""
    found: dict[str, str] = {}
    for part in value.split(","):
        name, _, amount = part.partition("=")
        try:
            is_right = name in _RESOURCES and name not in found and parse_quantity(amount).nano >= 0
        except InvalidQuantity:
            is_right = False
        if not is_right:
            raise argparse.ArgumentTypeError("write cpu=AMOUNT,memory=AMOUNT, such as cpu=500m,memory=2Gi")
        found[name] = amount
    return found


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="forewarn whatif resize",
        description="Predict whether kube-apiserver and the kubelet accept an in-place resize of a Pod, or of all Pods "
        "of a workload one after the other: accepted, deferred, infeasible or rejected. For a deferred resize, show "
        "the Pods that are in the way.",
        epilog="Exit status: 0: predicted. 2: wrong usage. 3: no answer.",
        examples=(
            "whatif resize web-1 -c app --requests cpu=2,memory=4Gi -n shop",
            "whatif resize deployment/web --requests cpu=2 --limits cpu=4 -n shop",
        ),
    )
    add = parser.add_argument
    add("name", metavar="POD|KIND/NAME")
    add("-c", "--container", default="", metavar="NAME", help="container (default: all containers)")
    add("--requests", type=_amounts, default={}, metavar="cpu=N,memory=N", help="new requests")
    add("--limits", type=_amounts, default={}, metavar="cpu=N,memory=N", help="new limits")
    add_cluster_option(add)
    add_release_options(add)
    add_namespace_option(add)
    add_output_option(add)
    add_color_option(add)
    return parser
