"""`forewarn headroom`: predict how many more replicas fit, and the resource that prevents more."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from forewarn.policies.base.findings import cut, quote
from forewarn.policies.cli.commands import cluster_command, simulated
from forewarn.policies.cli.commands.parser import Parser, add_files_option, integer_between

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from forewarn.policies.questions.application.headroom import Capacity, HeadroomResult
    from forewarn.policies.questions.application.survival_answer import Survival
    from forewarn.policies.questions.whatif.capacity_buffers import CapacityBuffers

_SCOPES: Final = ("zone", "node", "pool")
_SECONDS: Final = 600
"""Maximum seconds of a search for nodes to add."""


def _check(options: argparse.Namespace, parser: argparse.ArgumentParser) -> None:
    """Exit if options cannot be combined."""
    _check_survival(options, parser)
    if options.preempting and options.at_least is None:
        parser.error("--preempting goes with --at-least. Fix: pass --at-least N")
    if options.workload and options.filename:
        parser.error("KIND/NAME and -f are given. Fix: pass one of them")
    if not (options.workload or options.filename) and (options.placeholders or options.at_least is not None):
        parser.error("--at-least and --placeholders are about an object. Fix: pass KIND/NAME or -f FILE")


def _ask(options: argparse.Namespace, subject: simulated.Subject) -> Capacity | HeadroomResult:
    from forewarn.policies.questions.application.cluster import require_nodes
    from forewarn.policies.questions.application.headroom import HeadroomRequest, capacity, headroom, read_buffers

    cluster, settings, rules = subject.cluster.snapshot, subject.settings(), subject.cluster.config.options
    if not settings.groups:
        require_nodes(cluster)
    if not options.workload and not options.filename:
        return capacity(cluster, rules)
    asked = options.filename, options.namespace, options.placeholders, settings, options.workload or "", rules
    request = HeadroomRequest(*asked, options.at_least, options.preempting)
    return headroom(cluster, request, read_buffers(subject.cluster.sources, subject.collected))


def _survival(options: argparse.Namespace, subject: simulated.Subject) -> Survival:
    from forewarn.policies.questions.application.survival import SurvivalRequest, survive

    scope, *selector = options.survive
    request = SurvivalRequest(scope, "".join(selector), options.protect or (), options.like, subject.settings())
    return survive(subject.cluster, request, progress=subject.progress, limit=_SECONDS)


def _check_survival(options: argparse.Namespace, parser: argparse.ArgumentParser) -> None:
    """Exit if `--survive` or its options cannot be combined."""
    if not options.survive:
        if options.protect or options.like:
            parser.error("--protect and --like go with --survive. Fix: pass --survive zone, node or pool LABEL=VALUE")
        return
    scope, *selector = options.survive
    if scope not in _SCOPES:
        parser.error(f"--survive: unknown value {quote(cut(scope, 40))}; known: {', '.join(_SCOPES)}")
    if len(selector) != (scope == "pool"):
        parser.error("--survive: takes zone, node, or pool LABEL=VALUE")
    others = (options.workload, options.filename, options.placeholders, options.at_least is not None)
    if any(others):
        parser.error("--survive is about the cluster. Fix: remove KIND/NAME, -f, --at-least and --placeholders")


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="forewarn headroom",
        description="Count the replicas of a Pod or workload that still fit without and with preemption, and show "
        "which resource runs out first. Without a workload, show how full each pool of nodes is, or with --survive, "
        "how many nodes must be added.",
        epilog="Exit status: 0: counted. 1: fewer replicas fit than --at-least requires, or no number of nodes "
        "suffices. 2: wrong usage. 3: no answer.",
        examples=(
            "headroom deployment/web -n shop --at-least 20",
            "headroom --survive zone --protect gold --node-templates groups.yaml",
        ),
    )
    add = parser.add_argument
    add("workload", nargs="?", default="", metavar="KIND/NAME", help="workload of the cluster")
    add_files_option(add, "manifest of a Pod or workload (file, directory, or -; repeatable)")
    cluster_command.add_namespace_option(add)
    help_text = "exit with 1 if fewer than N replicas fit without preemption"
    add("--at-least", type=integer_between(0, 2**31 - 1), metavar="N", help=help_text)
    add("--preempting", action="store_true", help="--at-least counts replicas that fit with preemption")
    help_text = "show the placeholder Pods that let N Pods start without waiting for new nodes"
    add("--placeholders", type=integer_between(1, 100_000), metavar="N", help=help_text)
    help_text = (
        "show the nodes to add so that no such loss preempts protected Pods or leaves them Pending; takes at most "
        f"{_SECONDS // 60} min"
    )
    add("--survive", nargs="+", metavar=("zone|node|pool", "LABEL=VALUE"), help=help_text)
    help_text = "PriorityClasses of protected Pods, with --survive (default: all Pods with a priority above 0)"
    add("--protect", nargs="+", action="extend", metavar="CLASS", help=help_text)
    help_text = "node, pool or node group that new nodes are like, with --survive (default: any)"
    add("--like", default="", metavar="NAME", help=help_text)
    simulated.add_simulation_options(add, nodes_arrive=False)
    cluster_command.add_answer_options(add)
    return parser


def _buffers(_: argparse.Namespace) -> CapacityBuffers:
    from forewarn.policies.questions.whatif.capacity_buffers import CapacityBuffers

    return CapacityBuffers()


def _lacks(_: argparse.Namespace, result: Capacity | HeadroomResult) -> list[str] | None:
    return [f"forewarn: {lacks}"] if (lacks := getattr(result, "lacks", "")) else None


SURVIVAL: Final = simulated.Question(
    *("headroom", _parser, _survival, f"simulated losses, at most {_SECONDS // 60} min"),
    check=_check,
    failures=lambda _, result: None if result.survives else [],
)
QUESTION: Final = simulated.Question(
    *("headroom", _parser, _ask, "counting replicas"),
    check=_check,
    collector=_buffers,
    failures=_lacks,
    simulates=False,
)


def question_of(words: Sequence[str]) -> simulated.Question:
    """Return the question about the loss of nodes, or about replicas."""
    return SURVIVAL if any(word.partition("=")[0] == "--survive" for word in words) else QUESTION


def main(arguments: Sequence[str]) -> int:
    """Run the command; returns 0, 1 if fewer fit than --at-least, 2 for wrong usage, or 3 without a result."""
    return question_of(arguments).main(arguments)
