"""`forewarn headroom`: how many more replicas fit, and what runs out first."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

from policies.commands.autoscaling import add_autoscaling_options, autoscaling_of
from policies.commands.cluster_command import (
    add_cluster_option,
    add_color_option,
    add_namespace_option,
    add_output_option,
    answered,
    loaded,
    options_with_cluster,
    require_nodes,
)
from policies.commands.parser import Parser, whole
from policies.commands.places import Places
from policies.commands.predict import given_objects
from policies.commands.release import add_release_options, release_of, settle
from policies.objects.fields import InvalidObject, ref_of
from policies.terminal import as_json, as_markdown, clean, painter, wants_color

if TYPE_CHECKING:
    import argparse
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
    return answered("headroom", options, lambda: _answer(options, release, autoscaling, places), places)


def _answer(options: argparse.Namespace, release: Release, autoscaling: Autoscaling, places: Places) -> int:
    from policies.headroom import headroom

    cluster = settle(loaded(options), release).snapshot()
    if not autoscaling.groups:
        require_nodes(cluster)
    objects, cluster = given_objects(options.filename, options.namespace, cluster, places)
    found = [headroom(cluster, obj, autoscaling) for obj in objects]
    if options.output == "html":
        if len(found) > 1:
            raise InvalidObject("-o html takes one object", ref=ref_of(objects[1], options.namespace))
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


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="forewarn headroom",
        description="Count the replicas of a Pod or workload that still fit without and with preemption, and show "
        "which resource runs out first.",
        epilog="Exit status: 0: counted. 1: fewer replicas fit than --at-least requires. 2: wrong usage. 3: no answer.",
        examples=("headroom -f web.yaml", "headroom -f web.yaml --at-least 20 --cluster cluster.json.gz"),
    )
    add = parser.add_argument
    add("-f", "--filename", required=True, metavar="FILE", help="manifest of a Pod or workload (file, directory, or -)")
    add_cluster_option(add)
    add_release_options(add)
    add_namespace_option(add)
    add(
        "--at-least",
        type=whole(0, 2**31 - 1),
        metavar="N",
        help="exit with 1 if fewer than N replicas fit without preemption",
    )
    add("--preempting", action="store_true", help="--at-least counts replicas that fit with preemption")
    add_autoscaling_options(add)
    add_output_option(add, FORMATS)
    add_color_option(add)
    return parser
