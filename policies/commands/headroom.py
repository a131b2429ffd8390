"""`forewarn headroom`: predict how many more replicas fit, and the resource that prevents more."""

from __future__ import annotations

from itertools import chain, islice
from typing import TYPE_CHECKING, Any

from forewarn.policies.commands import autoscaling, cluster_command
from forewarn.policies.commands.parser import Output, Parser, Printed, add_files_option, answer_in, integer_between
from forewarn.policies.commands.release import add_release_options, release_of, settle
from forewarn.policies.objects.fields import InvalidObject
from forewarn.policies.sources.files import status_of
from forewarn.policies.terminal import counting, print_faults

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Sequence

    from forewarn.policies.application.headroom import HeadroomResult
    from forewarn.policies.render import Painter
    from forewarn.policies.render.html.elements import Page
    from forewarn.policies.whatif.headroom import Headroom

OK, FOUND, USAGE, FAILED = range(4)


def main(arguments: Sequence[str]) -> int:
    """Run the command; returns 0, 1 if fewer fit than --at-least, 2 for wrong usage, or 3 without a result."""
    parser = _parser()
    options, run = cluster_command.options_with_cluster(parser, arguments)
    if options.preempting and options.at_least is None:
        parser.error("--preempting goes with --at-least. Fix: pass --at-least N")
    if options.placeholders and run.output.form == "html":
        parser.error("--placeholders goes with -o text, json and markdown")
    release, settings_of = release_of(options, parser), autoscaling.autoscaling_of(options, parser)

    def answer() -> int:
        from forewarn.policies.application.cluster import require_nodes
        from forewarn.policies.application.headroom import HeadroomRequest, headroom, read_buffers
        from forewarn.policies.autoscaling.cluster_autoscaler.discovery import GroupCache
        from forewarn.policies.whatif.capacity_buffers import CapacityBuffers

        buffers = CapacityBuffers()
        cache = GroupCache(buffers.collect)
        cluster = settle(cluster_command.loaded(run, cache), release).snapshot()
        settings = settings_of(cache, run.cluster)
        if not settings.groups:
            require_nodes(cluster)
        rules: dict[str, Any] = (
            {"options": autoscaling.configuration(options.config).options} if options.placeholders else {}
        )
        request = HeadroomRequest(options.filename, options.namespace, options.placeholders, settings, **rules)
        with counting("counting replicas", run.errors):
            result = headroom(cluster, request, read_buffers(run.cluster, buffers))
        print_faults("headroom", result.faults, run.errors)
        printed = _printed(result, run.output, options.at_least, preempting=options.preempting)
        notices = _lacking(result.least(preempting=options.preempting), options.at_least, preempting=options.preempting)
        cluster_command.print_answer(printed, notices)
        return max(map(status_of, result.faults), default=FOUND if notices else OK)

    return cluster_command.answered("headroom", run.output, answer)


def _lacking(least: Headroom, at_least: int | None, *, preempting: bool) -> list[str]:
    """The reason, if fewer replicas fit than --at-least."""
    fitting = least.more[preempting]
    if at_least is None or fitting >= at_least:
        return []
    from forewarn.policies.render.headroom import limits_text

    how, count = ("with", least.preempting) if preempting else ("without", least.without)
    limits = limits_text(count)
    unit = "Pods" if least.pod_group is None else "groups"
    what = f"{least.name}: {fitting} of {at_least} {unit} fit {how} preemption (--at-least)"
    return [f"forewarn: {what}: {limits}" if limits else f"forewarn: {what}"]


def _printed(result: HeadroomResult, output: Output, at_least: int | None, *, preempting: bool) -> Printed:
    from forewarn.policies.application.places import left_out
    from forewarn.policies.render import headroom

    beside = left_out(result.faults)
    asked = [headroom.answer_to_number(obj.headroom, at_least, preempting=preempting) for obj in result.objects]
    objects = [*zip(result.objects, asked, strict=True)]

    def lines(result: HeadroomResult, paint: Painter) -> Iterator[str]:
        least, others = result.least(preempting=preempting), len(objects) > 1
        of_least = next(each for each in objects if each[0].headroom is least)
        least_of = f"; least of {len(objects)} objects" if others else ""
        yield next(headroom.render(*of_least, paint, [(start, f"{least_of}{end}") for start, end in beside]))
        yield from islice(chain.from_iterable(headroom.render(*each, paint) for each in objects), not others, None)

    def markdown(_: HeadroomResult) -> str:
        first, *others = objects
        return "\n".join([headroom.markdown(*first, beside), *(headroom.markdown(*each) for each in others)])

    def page(result: HeadroomResult) -> Page:
        from forewarn.policies.render.html.pages import headroom_page

        if len(result.objects) > 1:
            raise InvalidObject(f"{result.objects[1].headroom.name}: -o html takes one object")
        return headroom_page(result.objects[0].headroom, result.cluster, beside[0])

    return answer_in(output, result, lines, markdown, page)


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="forewarn headroom",
        description="Count the replicas of a Pod or workload that still fit without and with preemption, and show "
        "which resource runs out first.",
        epilog="Exit status: 0: counted. 1: fewer replicas fit than --at-least requires. 2: wrong usage. 3: no answer.",
        examples=(
            "headroom -f web.yaml --at-least 20 --cluster cluster.json.gz",
            "headroom -f web.yaml --context production",
        ),
    )
    add = parser.add_argument
    add_files_option(add, "manifest of a Pod or workload (file, directory, or -; repeatable)", required=True)
    cluster_command.add_cluster_option(add)
    add_release_options(add)
    cluster_command.add_namespace_option(add)
    help_text = "exit with 1 if fewer than N replicas fit without preemption"
    add("--at-least", type=integer_between(0, 2**31 - 1), metavar="N", help=help_text)
    add("--preempting", action="store_true", help="--at-least counts replicas that fit with preemption")
    help_text = "show the placeholder Pods that let N Pods start without waiting for new nodes"
    add("--placeholders", type=integer_between(1, 100_000), metavar="N", help=help_text)
    autoscaling.add_autoscaling_options(add)
    autoscaling.add_no_autoscaler_option(add, "ignore the node groups of the cluster")
    cluster_command.add_printing_options(add, cluster_command.PAGES)
    return parser
