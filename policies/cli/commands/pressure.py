"""`forewarn whatif pressure`: predict the order of evictions on a node, by the kubelet's rules."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Final

from forewarn.policies.cli.commands import cluster_command, simulated
from forewarn.policies.cli.commands.parser import Parser, converted, existing
from forewarn.policies.kubernetes.objects.fields import InvalidInput

if TYPE_CHECKING:
    from forewarn.policies.questions.application.node import NodePods, NodePressure

SIGNALS: Final = ("memory", "nodefs", "imagefs", "containerfs", "pids")
IMAGES: Final = ("shared", "own", "split")


def _check(options: argparse.Namespace, parser: argparse.ArgumentParser) -> None:
    if not (options.signal or options.admit or options.shutdown):
        parser.error("no event given. Fix: choose --signal, --admit or --shutdown")
    if options.inodes and options.signal in (None, "memory", "pids"):
        parser.error("--inodes goes with --signal nodefs, imagefs or containerfs")


def _pods(options: argparse.Namespace) -> NodePods:
    from forewarn.policies.questions.application.node import NodePods

    return NodePods(options.node)


def _ask(options: argparse.Namespace, subject: simulated.Subject) -> NodePressure:
    from forewarn.policies.questions.application.node import PressureRequest, node_pressure

    pressure = options.signal or "", options.inodes, options.stats or "", options.image_fs
    request = PressureRequest(options.node, *pressure, options.admit or "", options.shutdown or (), options.namespace)
    return node_pressure(subject.cluster.cache, subject.collected, request)


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


QUESTION: Final = simulated.Question(
    *("whatif pressure", _parser, _ask, "ranking Pods"), check=_check, collector=_pods, simulates=False
)
main: Final = QUESTION.main
