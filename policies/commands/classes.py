"""`forewarn classes`: which PriorityClasses may preempt which, and the capacity that their Pods request."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

from forewarn.policies.commands.cluster_command import (
    add_cluster_option,
    add_color_option,
    add_output_option,
    answered,
    loaded,
    options_with_cluster,
)
from forewarn.policies.commands.parser import Parser
from forewarn.policies.commands.release import add_release_options, release_of, settle
from forewarn.policies.terminal import as_json, as_markdown, clean, painter, wants_color

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from forewarn.policies.releases.release import Release

FORMATS: Final = ("text", "json", "markdown")


def main(arguments: Sequence[str]) -> int:
    """Run the command; returns the exit status: 0 answered, 2 usage, 3 not done."""
    parser = _parser()
    options = options_with_cluster(parser, arguments)
    release = release_of(options, parser)
    return answered("classes", options, lambda: _answer(options, release))


def _answer(options: argparse.Namespace, release: Release) -> int:
    from forewarn.policies.render import classes
    from forewarn.policies.whatif.priority_levels import as_dict, priority_levels

    found = priority_levels(settle(loaded(options), release).snapshot())
    if options.output == "json":
        sys.stdout.write(as_json(as_dict(found)))
    elif options.output == "markdown":
        sys.stdout.write(as_markdown(classes.markdown(found)))
    else:
        color = wants_color(options.color, sys.stdout)
        sys.stdout.writelines(clean(line, color) + "\n" for line in classes.render(found, painter(color)))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="forewarn classes",
        description="Show which PriorityClasses may preempt which, the cpu and memory that their Pods request, and how "
        "much each class could displace. `forewarn classes plan` orders a change of PriorityClasses.",
        epilog="Exit status: 0: shown. 2: wrong usage. 3: no answer.",
        examples=("classes", "classes --cluster cluster.json.gz -o markdown"),
    )
    add = parser.add_argument
    add_cluster_option(add)
    add_release_options(add)
    add_output_option(add, FORMATS)
    add_color_option(add)
    return parser
