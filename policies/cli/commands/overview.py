"""`forewarn` without a command: show what is at risk in a cluster, and the commands for details."""

from __future__ import annotations

import argparse
import os
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from forewarn.policies.cli.commands import cluster_command, simulated
from forewarn.policies.cli.commands.known_findings import compared, read_since
from forewarn.policies.cli.commands.parser import Parser, integer_between

if TYPE_CHECKING:
    from forewarn.policies.questions.application.overview import Overview
    from forewarn.policies.questions.why.evidence import PreemptionEvents

_MAX_NODES = 100_000


def _ask(options: argparse.Namespace, subject: simulated.Subject) -> Overview:
    from forewarn.policies.questions.application.overview import changes_since, overview

    settings: dict[str, Any] = {"autoscaling": subject.settings(), "progress": subject.progress}
    result = overview(subject.cluster, subject.collected, nodes=options.most, **settings)
    if options.previous is None:
        return result
    changes = compared(options.since, lambda: changes_since(result.lines, options.previous))
    return replace(result, changes=changes)


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


def _events(_: argparse.Namespace) -> PreemptionEvents:
    from forewarn.policies.questions.why.evidence import PreemptionEvents

    return PreemptionEvents()


QUESTION: Final = simulated.Question("overview", argument_parser, _ask, "losses", check=read_since, collector=_events)
main: Final = QUESTION.main
