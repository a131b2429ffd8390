"""`forewarn classes`: show the PriorityClasses that may preempt each other, and the requests of their Pods."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from forewarn.policies.commands import cluster_command
from forewarn.policies.commands.many_clusters import Evaluated, Evaluation, answered_each
from forewarn.policies.commands.parser import Parser, answer_in
from forewarn.policies.commands.release import add_release_options, release_of, settle

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

_MODULES: Final = ("sources.cluster", "render.classes", "application.classes", "releases.release")


def main(arguments: Sequence[str]) -> int:
    """Run the command; returns 0, 2 for wrong usage, or 3 without a result."""
    parser = _parser()
    options, run = cluster_command.options_with_cluster(parser, arguments)
    release = release_of(options, parser)

    def evaluate(run: cluster_command.Run) -> Evaluated:
        from forewarn.policies.application.classes import classes
        from forewarn.policies.render import classes as text

        levels = classes(settle(cluster_command.loaded(run), release).snapshot())
        printed = answer_in(run.output, levels, text.render, text.markdown)
        pending = sum(level.pending for level in levels.classes)
        old = sum(level.running.pods for level in levels.classes if level.new_pods is None)
        running = sum(level.running.pods for level in levels.classes)
        # OLD VALUE: running Pods with a priority that new Pods of their class do not get
        row: dict[str, str | int] = {"CLASSES": text.count(levels), "RUNNING": running, "PENDING": pending}
        row |= {"OLD VALUE": old, "REQUESTED": text.shares(levels)}
        return Evaluated(0, (pending, old, text.percent_of_cpu(levels)), row, printed)

    return answered_each(Evaluation("classes", evaluate, modules=_MODULES), run)


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="forewarn classes",
        description="For each PriorityClass, show the cpu and memory that its Pods request, and the running Pods that "
        "a new Pod may preempt. `forewarn classes plan` divides a change of PriorityClasses into steps.",
        epilog="Exit status: 0: shown. 2: wrong usage. 3: no answer.",
        examples=("classes --cluster cluster.json.gz -o markdown", "classes --context 'prod-*'"),
    )
    add = parser.add_argument
    cluster_command.add_cluster_option(add, several=True)
    add_release_options(add)
    cluster_command.add_printing_options(add, cluster_command.TABLES)
    return parser
