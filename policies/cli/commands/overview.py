"""`forewarn` without a command: show what is at risk in a cluster, and the commands for details."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from dataclasses import replace

from forewarn.policies.cli.commands import cluster_command, simulated
from forewarn.policies.cli.commands.known_findings import compared, read_since
from forewarn.policies.cli.commands.parser import Parser, integer_between
from forewarn.policies.cli.commands.release import release_of
from forewarn.policies.cli.commands.simulated import loaded_for
from forewarn.policies.cli.terminal import counting

_MAX_NODES = 100_000


def main(arguments: Sequence[str]) -> int:
    """Run the command; returns 0, 2 for wrong usage, or 3 without a result."""
    parser = argument_parser()
    options, run = cluster_command.options_with_cluster(parser, arguments)
    release, settings_of = release_of(options, parser), simulated.autoscaling_of(options, parser)
    previous = read_since(options, parser)

    def answer() -> int:
        from forewarn.policies.questions.application.overview import changes_since, overview
        from forewarn.policies.questions.why.evidence import PreemptionEvents

        events = PreemptionEvents()
        cluster = loaded_for(run, options.config, release, collect=events.collect)
        settings = settings_of(cluster.cache, run.cluster)
        with counting("losses", run.errors) as show:
            result = overview(cluster, events, nodes=options.most, autoscaling=settings, progress=show)
        if previous is not None:
            changes = compared(options.since, lambda: changes_since(result.lines, previous))
            result = replace(result, changes=changes)
        return cluster_command.print_result(run.output, result)

    return cluster_command.answered("overview", run.output, answer)


def has_cluster() -> bool:
    """Report whether there is a kubeconfig, or this process is in a Pod."""
    paths = (os.environ.get("KUBECONFIG") or "~/.kube/config").split(os.pathsep)
    in_pod = "KUBERNETES_SERVICE_HOST" in os.environ
    return in_pod or any(os.path.exists(os.path.expanduser(path)) for path in paths if path)


def argument_parser() -> argparse.ArgumentParser:
    """Return the parser of the options."""
    parser = Parser(
        prog="forewarn overview",
        description="Show what is at risk in a cluster, a line for each question, with the command that goes on. "
        "`forewarn` without a command does the same.",
        epilog="Exit status: 0: shown. 2: wrong usage. 3: no answer.",
        examples=("overview", "overview --cluster cluster.json.gz --since monday.json"),
    )
    add = parser.add_argument
    simulated.add_simulation_options(add)
    help_text = "number of nodes whose loss is simulated, those with most Pods (default: 10; all in a small cluster)"
    add("--most", type=integer_between(0, _MAX_NODES), metavar="N", help=help_text)
    cluster_command.add_since_option(add)
    cluster_command.add_answer_options(add)
    return parser
