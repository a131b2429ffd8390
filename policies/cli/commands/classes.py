"""`forewarn classes`: show the PriorityClasses that may preempt each other, and the requests of their Pods."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from forewarn.policies.cli.commands import cluster_command
from forewarn.policies.cli.commands.parser import Parser
from forewarn.policies.cli.commands.release import add_release_options, release_of, settle


def main(arguments: Sequence[str]) -> int:
    """Run the command; returns 0, 2 for wrong usage, or 3 without a result."""
    parser = _parser()
    options, run = cluster_command.options_with_cluster(parser, arguments)
    release = release_of(options, parser)

    def answer() -> int:
        from forewarn.policies.questions.application.classes import classes

        levels = classes(settle(cluster_command.loaded(run), release).snapshot())
        return cluster_command.print_result(run.output, levels)

    return cluster_command.answered("classes", run.output, answer)


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="forewarn classes",
        description="For each PriorityClass, show the cpu and memory that its Pods request, and the running Pods that "
        "a new Pod may preempt. `forewarn classes plan` divides a change of PriorityClasses into steps.",
        epilog="Exit status: 0: shown. 2: wrong usage. 3: no answer.",
        examples=("classes --context production", "classes --cluster cluster.json.gz -o markdown"),
    )
    add = parser.add_argument
    cluster_command.add_cluster_option(add)
    add_release_options(add)
    cluster_command.add_answer_options(add)
    return parser
