"""`forewarn whatif`: simulate a change, and compare the cluster before and after it."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

from forewarn.policies.application.simulated import DEFAULT_UNTIL
from forewarn.policies.commands.autoscaling import autoscaling_of, recreated_by
from forewarn.policies.commands.cluster_command import answered, loaded, options_with_cluster, status_of_conditions
from forewarn.policies.commands.printing import Output, print_answer, print_lines
from forewarn.policies.commands.release import release_of, settle
from forewarn.policies.commands.shards import shard_given
from forewarn.policies.commands.simulated import watched
from forewarn.policies.commands.sweep import FORMATS as SWEEP_FORMATS
from forewarn.policies.commands.sweep import answer_sweep
from forewarn.policies.commands.whatif_options import argument_parser, check_request
from forewarn.policies.terminal import clean, complain

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from forewarn.policies.application.whatif import WhatIf

OK, FOUND, USAGE, FAILED = range(4)
DRAWN: Final = ("html", "svg")
"""Output formats with a picture of the nodes over time."""


def main(arguments: Sequence[str]) -> int:
    """Run the command; returns 0, 1 if a condition of --fail-on is met, 2 for wrong usage, or 3 without a result."""
    options = options_with_cluster(argument_parser(), arguments)
    parser = options.own
    check_request(options, parser)
    _check(options, parser)
    release = release_of(options, parser)
    autoscaling = autoscaling_of(options, parser)
    if getattr(options, "each", None):
        shard = shard_given(options, parser)
        options.until = options.until or DEFAULT_UNTIL
        return answered("whatif", options, lambda: answer_sweep(options, release, shard, autoscaling))
    request, output = options.request(options), Output(options.output, options.color)

    def answer() -> int:
        from forewarn.policies.application.cluster import Cluster, with_node_groups
        from forewarn.policies.application.whatif import Rejected, whatif
        from forewarn.policies.simulation.dump import DumpCache

        cache = DumpCache()
        cache.recreated = recreated_by(options)
        settle(loaded(options, cache), release)
        cluster = Cluster(cache, sources=options.cluster)
        settings = with_node_groups(autoscaling, cluster, options.expendable_pods_priority_cutoff)
        drawn = options.output in DRAWN
        try:
            with watched() as show:
                result = whatif(
                    cluster, request, until=options.until, autoscaling=settings, nodes_over_time=drawn, progress=show
                )
        except Rejected as fault:
            _complain(fault.faults[:-1])
            raise
        _complain(result.faults)
        _print(result, output, timeline=options.timeline)
        return FAILED if result.faults else status_of_conditions(result.conditions, options.fail_on)

    return answered("whatif", options, answer)


def _complain(faults: Sequence[Exception]) -> None:
    for fault in faults:
        complain("whatif", fault, FAILED)


def _check(options: argparse.Namespace, parser: argparse.ArgumentParser) -> None:
    """Exit if options cannot be combined."""
    sweep = bool(getattr(options, "each", None))
    if not sweep and getattr(options, "shard", None):
        parser.error("--shard goes with --each")
    if sweep and (options.output not in SWEEP_FORMATS or options.timeline or "blocked" in options.fail_on):
        parser.error("--each goes with -o text, json, markdown and html, without --timeline and --fail-on blocked")
    if options.timeline and options.output not in ("text", "json"):
        parser.error("--timeline goes with -o text and json; the html page has a slider for it")


def _print(result: WhatIf, output: Output, *, timeline: bool) -> None:
    from forewarn.policies.render import whatif
    from forewarn.policies.render.html import report
    from forewarn.policies.render.simulation import odds
    from forewarn.policies.simulation.summary import timeline_lines

    answer, change = result.answer, result.class_change
    if output.form == "svg":
        from forewarn.policies.render.node_picture import picture

        sys.stdout.write(picture(answer))
        return
    print_answer(
        output,
        result.head,
        lambda paint: whatif.render(answer, change, paint),
        lambda: [result.to_dict(timeline=timeline)],
        lambda: whatif.markdown(answer, change, result.notes),
        lambda: report(answer, change, result.notes),
    )
    if output.form == "text":
        if len(result.outcomes) > 1:
            print_lines(output, lambda paint: (f"  {line}" for line in odds(result.outcomes, paint)))
        sys.stdout.writelines(clean(f"  note: {note}", color=False) + "\n" for note in result.notes_without_faults)
        if timeline:
            print_lines(output, lambda paint: timeline_lines(answer.simulation, paint))
