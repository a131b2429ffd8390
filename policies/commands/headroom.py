"""`forewarn headroom`: how many more replicas fit, and what runs out first."""

from __future__ import annotations

import argparse
import sys
from functools import partial
from typing import TYPE_CHECKING, Final

from policies.commands.autoscaling import add_autoscaling_options, autoscaling_of
from policies.commands.cluster_command import add_cluster_option, add_color_option, answered, options_with_cluster
from policies.commands.parser import Parser
from policies.commands.places import Places
from policies.commands.preempt import given_objects
from policies.commands.release import add_release_options, release_of, settle
from policies.objects.fields import InvalidObject, ref_of
from policies.sources import load_cluster
from policies.terminal import as_json, as_markdown, clean, columns, painter, wants_color

if TYPE_CHECKING:
    from collections.abc import Sequence

    from policies.headroom import Headroom
    from policies.releases import Release
    from policies.whatif.autoscalers import Autoscaling

OK, FOUND, USAGE, FAILED = range(4)
FORMATS: Final = ("text", "json", "markdown", "html")


def main(arguments: Sequence[str]) -> int:
    """Run the command; returns the exit status: 0 answered, 1 fewer fit than --at-least, 2 usage, 3 not done."""
    parser = _parser()
    options = options_with_cluster(parser, arguments)
    if options.preempting and options.at_least is None:
        parser.error("--preempting goes with --at-least")
    release = release_of(options, parser)
    places = Places()
    autoscaling = autoscaling_of(options, parser)
    return answered("headroom", lambda: _answer(options, release, autoscaling, places), places)


def _answer(options: argparse.Namespace, release: Release, autoscaling: Autoscaling, places: Places) -> int:
    from policies.headroom import headroom

    cluster = settle(load_cluster(*options.cluster), release).snapshot()
    objects, cluster = given_objects(options.filename, options.namespace, cluster, places)
    found = [headroom(cluster, obj, autoscaling) for obj in objects]
    if options.output == "html":
        if len(found) > 1:
            raise InvalidObject("-o html is a page for one object", ref=ref_of(objects[1], options.namespace))
        from policies.render.html.headroom import page

        sys.stdout.write(page(found[0], cluster))
    else:
        _print(options, found)
    counts = [(each.preempting if options.preempting else each.without).pods for each in found]
    return FOUND if options.at_least is not None and min(counts) < options.at_least else OK


def _print(options: argparse.Namespace, found: Sequence[Headroom]) -> None:
    from policies.headroom import as_dict
    from policies.render import headroom

    if options.output == "json":
        for each in found:
            sys.stdout.write(as_json(as_dict(each)))
        return
    if options.output == "markdown":
        sys.stdout.write(as_markdown("\n".join(map(headroom.markdown, found))))
        return
    color = wants_color(options.color, sys.stdout)
    for each in found:
        sys.stdout.writelines(clean(line, color) + "\n" for line in headroom.render(each, painter(color)))


def _number(text: str) -> int:
    try:
        number = int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be a whole number, not {text!r}") from None
    if not 0 <= number < 2**31:
        raise argparse.ArgumentTypeError("must be between 0 and 2147483647")
    return number


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="forewarn headroom",
        formatter_class=partial(argparse.HelpFormatter, width=columns()),
        description="Say how many more pods like those of a pod or workload fit, without preemption and with it, and"
        " what runs out first.",
        epilog="Exit status: 0 an answer was given, 1 fewer fit than --at-least, 2 wrong usage, "
        "3 could not do the job.",
    )
    add = parser.add_argument
    add("-f", "--filename", required=True, metavar="FILE", help="a pod or a workload (- for standard input)")
    add_cluster_option(add)
    add_release_options(add)
    add("-n", "--namespace", default="default", help="namespace of objects without one (default: default)")
    add("--at-least", type=_number, metavar="N", help="exit with 1 where fewer fit without preemption")
    add("--preempting", action="store_true", help="--at-least is about what fits with preemption")
    add_autoscaling_options(add)
    add("-o", "--output", choices=FORMATS, default="text", help="default: text")
    add_color_option(add)
    return parser
