"""`forewarn classes`: show the PriorityClasses that may preempt each other, and the requests of their Pods."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

from forewarn.policies.commands.cluster_command import (
    add_cluster_option,
    add_color_option,
    add_output_option,
    loaded,
    options_with_cluster,
)
from forewarn.policies.commands.many_clusters import Evaluated, Evaluation, answered_each
from forewarn.policies.commands.parser import Parser
from forewarn.policies.commands.release import add_release_options, release_of, settle
from forewarn.policies.terminal import as_json, as_markdown, clean, painter, wants_color

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from forewarn.policies.releases.release import Release

FORMATS: Final = ("text", "json", "markdown")
HEADS: Final = ("CLASSES", "RUNNING", "PENDING", "OLD VALUE", "REQUESTED")
"""Of the table of several clusters. OLD VALUE: running Pods with a priority that new Pods of their class do not get."""

_MODULES: Final = ("sources.cluster", "render.classes", "whatif.priority_levels", "releases.release")


def main(arguments: Sequence[str]) -> int:
    """Run the command; returns 0, 2 for wrong usage, or 3 without a result."""
    parser = _parser()
    options = options_with_cluster(parser, arguments)
    release = release_of(options, parser)
    return answered_each(Evaluation("classes", HEADS, lambda each: _answer(each, release), modules=_MODULES), options)


def _answer(options: argparse.Namespace, release: Release) -> Evaluated:
    from forewarn.policies.cluster.answer_head import head_of
    from forewarn.policies.render import classes
    from forewarn.policies.render.head import after_verdict, below_title, headed
    from forewarn.policies.whatif.priority_levels import as_dict, priority_levels

    cluster = settle(loaded(options), release).snapshot()
    levels, head = priority_levels(cluster), head_of(cluster)
    if options.output == "json":
        sys.stdout.write(as_json(headed(as_dict(levels), head)))
    elif options.output == "markdown":
        sys.stdout.write(as_markdown(below_title(classes.markdown(levels), head)))
    else:
        color = wants_color(options.color, sys.stdout)
        lines = after_verdict(classes.render(levels, painter(color)), head)
        sys.stdout.writelines(clean(line, color) + "\n" for line in lines)
    pending = sum(level.pending for level in levels.levels)
    old = sum(level.running.pods for level in levels.levels if level.preempts is None)
    running = sum(level.running.pods for level in levels.levels)
    cells = (classes.count(levels), running, pending, old, classes.shares(levels))
    return Evaluated(0, (pending, old, classes.percent_of_cpu(levels)), cells)


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="forewarn classes",
        description="Show which PriorityClasses may preempt which, the cpu and memory that their Pods request, and how "
        "much each class could displace. `forewarn classes plan` orders a change of PriorityClasses.",
        epilog="Exit status: 0: shown. 2: wrong usage. 3: no answer.",
        examples=("classes --cluster cluster.json.gz -o markdown", "classes --context 'prod-*'"),
    )
    add = parser.add_argument
    add_cluster_option(add, several=True)
    add_release_options(add)
    add_output_option(add, FORMATS)
    add_color_option(add)
    return parser
