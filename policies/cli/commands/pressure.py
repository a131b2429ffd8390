"""`forewarn whatif pressure`: predict the order of evictions on a node, by the kubelet's rules."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Final

from forewarn.policies.cli.commands import cluster_command
from forewarn.policies.cli.commands.parser import Parser, converted, existing
from forewarn.policies.cli.commands.release import settle
from forewarn.policies.kubernetes.objects.fields import InvalidInput

SIGNALS: Final = ("memory", "nodefs", "imagefs", "containerfs", "pids")
IMAGES: Final = ("shared", "own", "split")


def main(arguments: Sequence[str]) -> int:
    """Run the command; returns 0, 2 for wrong usage, or 3 without a result."""
    parser = _parser()
    options, run = cluster_command.options_with_cluster(parser, arguments)
    if not (options.signal or options.admit or options.shutdown):
        parser.error("no event given. Fix: choose --signal, --admit or --shutdown")
    if options.inodes and options.signal in (None, "memory", "pids"):
        parser.error("--inodes goes with --signal nodefs, imagefs or containerfs")

    def answer() -> int:
        from forewarn.policies.kubernetes.cluster.cache import Cache
        from forewarn.policies.kubernetes.releases.release import Release
        from forewarn.policies.questions.application.node import NodePods, PressureRequest, node_pressure

        pods = NodePods(options.node)
        cache = settle(cluster_command.loaded(run, Cache(collect=pods.collect)), Release())
        request = PressureRequest(
            options.node,
            options.signal or "",
            options.inodes,
            options.stats or "",
            options.image_fs,
            options.admit or "",
            options.shutdown or (),
            options.namespace,
        )
        result = node_pressure(cache, pods, request)
        return cluster_command.print_result(run.output, result)

    return cluster_command.answered("whatif pressure", run.output, answer)


def _periods(text: str) -> list[tuple[int, int]]:
    """Parse the value of --shutdown. Raises argparse.ArgumentTypeError."""
    from forewarn.policies.questions.application.node import periods

    return converted(periods, text, InvalidInput)


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
    cluster_command.add_cluster_option(add)
    add("--signal", choices=SIGNALS, help="resource that runs out on the node")
    add("--inodes", action="store_true", help="the disk runs out of inodes instead of bytes")
    help_text = "the kubelet's /stats/summary, with the usage of Pods (- for standard input)"
    add("--stats", type=existing, metavar="FILE", help=help_text)
    help_text = "disk of container images: shared with nodefs, own, or split image filesystem (default: shared)"
    add("--image-fs", choices=IMAGES, default="shared", help=help_text)
    help_text = "manifest of a critical Pod: show the Pods that the kubelet evicts to admit this Pod"
    add("--admit", type=existing, metavar="FILE", help=help_text)
    help_text = "the kubelet's shutdownGracePeriodByPodPriority"
    add("--shutdown", type=_periods, metavar="PRIORITY=SECONDS,…", help=help_text)
    cluster_command.add_namespace_option(add)
    cluster_command.add_answer_options(add)
    return parser
