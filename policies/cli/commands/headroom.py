"""`forewarn headroom`: predict how many more replicas fit, and the resource that prevents more."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from forewarn.policies.base.findings import cut, quote
from forewarn.policies.cli.commands import cluster_command, simulated
from forewarn.policies.cli.commands.parser import Parser, add_files_option, document_in, integer_between
from forewarn.policies.cli.commands.release import release_of, settle
from forewarn.policies.cli.commands.simulated import loaded_for
from forewarn.policies.cli.terminal import counting, print_faults
from forewarn.policies.inputs.sources.files import status_of

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

OK, FOUND, USAGE, FAILED = range(4)
_SCOPES: Final = ("zone", "node", "pool")
_SECONDS: Final = 600
"""Maximum seconds of a search for nodes to add."""


def main(arguments: Sequence[str]) -> int:
    """Run the command; returns 0, 1 if fewer fit than --at-least, 2 for wrong usage, or 3 without a result."""
    parser = _parser()
    options, run = cluster_command.options_with_cluster(parser, arguments)
    _check_survival(options, parser)
    if options.preempting and options.at_least is None:
        parser.error("--preempting goes with --at-least. Fix: pass --at-least N")
    if options.workload and options.filename:
        parser.error("KIND/NAME and -f are given. Fix: pass one of them")
    if not (options.workload or options.filename) and (options.placeholders or options.at_least is not None):
        parser.error("--at-least and --placeholders are about an object. Fix: pass KIND/NAME or -f FILE")
    release, settings_of = release_of(options, parser), simulated.autoscaling_of(options, parser)

    def survival() -> int:
        from forewarn.policies.questions.application.survival import SurvivalRequest, survive

        cluster = loaded_for(run, options.config, release)
        scope, *selector = options.survive
        settings = settings_of(cluster.cache, run.cluster)
        request = SurvivalRequest(scope, "".join(selector), options.protect or (), options.like, settings)
        with counting(f"simulated losses, at most {_SECONDS // 60} min", run.errors) as show:
            result = survive(cluster, request, progress=show, limit=_SECONDS)
        return cluster_command.print_result(run.output, result) or int(not result.survives)

    if options.survive:
        return cluster_command.answered("headroom", run.output, survival)

    def answer() -> int:
        from forewarn.policies.prediction.autoscaling.cluster_autoscaler.discovery import GroupCache
        from forewarn.policies.questions.application.cluster import require_nodes
        from forewarn.policies.questions.application.headroom import HeadroomRequest, capacity, headroom, read_buffers
        from forewarn.policies.questions.whatif.capacity_buffers import CapacityBuffers

        buffers = CapacityBuffers()
        cache = GroupCache(buffers.collect)
        cluster = settle(cluster_command.loaded(run, cache), release).snapshot()
        settings = settings_of(cache, run.cluster)
        if not settings.groups:
            require_nodes(cluster)
        rules = simulated.configuration(options.config).options
        if not options.workload and not options.filename:
            return cluster_command.print_result(run.output, capacity(cluster, rules))
        request = HeadroomRequest(
            options.filename,
            options.namespace,
            options.placeholders,
            settings,
            options.workload,
            rules,
            options.at_least,
            options.preempting,
        )
        with counting("counting replicas", run.errors):
            result = headroom(cluster, request, read_buffers(run.cluster, buffers))
        print_faults("headroom", result.faults, run.errors)
        notices = [f"forewarn: {result.lacks}"] if result.lacks else []
        cluster_command.print_answer(document_in(run.output, result), notices)
        return max(map(status_of, result.faults), default=FOUND if notices else OK)

    return cluster_command.answered("headroom", run.output, answer)


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
