"""`forewarn whatif resize`: predict whether kube-apiserver and the kubelet accept an in-place resize of Pods."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Final

from forewarn.policies.commands import cluster_command
from forewarn.policies.commands.parser import Parser, answer_in
from forewarn.policies.commands.release import add_release_options, release_of, settle
from forewarn.policies.quantity import InvalidQuantity, parse_quantity

OK, _, USAGE, FAILED = range(4)
_RESOURCES: Final = ("cpu", "memory")


def main(arguments: Sequence[str]) -> int:
    """Run the command; returns 0, 2 for wrong usage, or 3 without a result."""
    from forewarn.policies.whatif.resize import GATE

    parser = _parser()
    options, run = cluster_command.options_with_cluster(parser, arguments)
    if not options.requests and not options.limits:
        parser.error("no new resources given. Fix: pass --requests, --limits or both")
    preempts = options.feature_gates.pop(GATE, False)
    release = release_of(options, parser)

    def answer() -> int:
        from forewarn.policies.application.node import ResizeRequest, resize
        from forewarn.policies.render.node_pressure import resize_lines
        from forewarn.policies.whatif.resize import StoredPods
        from forewarn.policies.why.troubles import meanings

        name, namespace = options.name, options.namespace
        pods = StoredPods(each for each, _ in meanings(name, namespace))
        settle(cluster_command.loaded(run, pods.cache), release)
        request = ResizeRequest(name, options.requests, options.limits, options.container, namespace, preempts)
        result = resize(pods, request)
        answer_in(run.output, result, lambda result, _: resize_lines(result)).print()
        return OK

    return cluster_command.answered("whatif resize", run.output, answer)


def _amounts(value: str) -> dict[str, str]:
    """Parse `cpu=1,memory=2Gi` into resource -> amount. Raises argparse.ArgumentTypeError."""
    amounts: dict[str, str] = {}
    for part in value.split(","):
        name, _, amount = part.partition("=")
        try:
            is_right = name in _RESOURCES and name not in amounts and parse_quantity(amount).nano >= 0
        except InvalidQuantity:
            is_right = False
        if not is_right:
            raise argparse.ArgumentTypeError("must be cpu=AMOUNT,memory=AMOUNT, such as cpu=500m,memory=2Gi")
        amounts[name] = amount
    return amounts


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
    add("name", metavar="NAMESPACE/POD|KIND/NAME")
    add("-c", "--container", default="", metavar="NAME", help="container (default: all containers)")
    add("--requests", type=_amounts, default={}, metavar="cpu=N,memory=N", help="new requests")
    add("--limits", type=_amounts, default={}, metavar="cpu=N,memory=N", help="new limits")
    cluster_command.add_cluster_option(add)
    add_release_options(add)
    cluster_command.add_namespace_option(add)
    cluster_command.add_printing_options(add)
    return parser
