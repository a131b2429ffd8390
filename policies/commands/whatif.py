"""`forewarn whatif`: simulate a change, and compare the cluster before and after it."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from forewarn.policies.application.simulated import DEFAULT_UNTIL
from forewarn.policies.commands.autoscaling import autoscaling_of, configuration
from forewarn.policies.commands.cluster_command import PAGES, Run, failures_of, options_with_cluster
from forewarn.policies.commands.many_clusters import Evaluated, Evaluation, answered_each
from forewarn.policies.commands.printing import Output, Printed, answer_in, cleaned
from forewarn.policies.commands.release import release_of
from forewarn.policies.commands.shards import shard_given
from forewarn.policies.commands.simulated import STEPS, loaded_for
from forewarn.policies.commands.sweep import HEADS_OF_EACH, SweepRequest, evaluate_sweep
from forewarn.policies.commands.whatif_options import argument_parser, check_request
from forewarn.policies.terminal import counting, print_faults

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Sequence

    from forewarn.policies.application.whatif import WhatIf
    from forewarn.policies.render import Painter

OK, FOUND, USAGE, FAILED = range(4)
DRAWN: Final = ("html", "svg")
"""Output formats with a picture of the nodes over time."""


def main(arguments: Sequence[str]) -> int:
    """Run the command; returns 0, 1 if a condition of --fail-on is met, 2 for wrong usage, or 3 without a result."""
    options, run = options_with_cluster(argument_parser(), arguments)
    parser = options.own
    check_request(options, parser)
    _check(options, run.output.form, parser)
    release = release_of(options, parser)
    autoscaling = autoscaling_of(options, parser)
    if getattr(options, "each", None):
        of_each = SweepRequest(
            options.each,
            options.until or DEFAULT_UNTIL,
            release,
            shard_given(options.shard, run.output, parser),
            autoscaling,
            options.expendable_pods_priority_cutoff,
            options.node_templates,
            options.config,
            options.fail_on,
        )
        each = partial(evaluate_sweep, of_each)
        return answered_each(
            Evaluation("whatif", HEADS_OF_EACH, each, modules=("application.sweep", "render.sweep")), run
        )
    from forewarn.policies.render.whatif import HEADS, row

    def evaluate(run: Run) -> Evaluated:
        from forewarn.policies.application.cluster import Cluster, with_node_groups
        from forewarn.policies.application.whatif import whatif

        cache = loaded_for(run, options.config, release)
        cluster = Cluster(cache, configuration(options.config), run.cluster)
        settings = with_node_groups(autoscaling, cache, run.cluster, options.expendable_pods_priority_cutoff)
        drawn = run.output.form in DRAWN
        with counting("simulating", run.errors, STEPS) as show:
            result = whatif(
                cluster, request, until=options.until, autoscaling=settings, nodes_over_time=drawn, progress=show
            )
        print_faults("whatif", result.faults, run.errors)
        failures = [] if result.faults else failures_of(result.conditions, options.fail_on)
        status, cells = FAILED if result.faults else len(failures), row(result.answer.of_upgrade)
        return Evaluated(
            status, [*cells[3::-1], cells[4]], cells, _printed(result, run.output, timeline=options.timeline), failures
        )

    request = options.request(options)
    modules = ("sources.cluster", "render.whatif", "application.whatif")
    return answered_each(Evaluation("whatif", [*HEADS], evaluate, modules=modules), run)


def _check(options: argparse.Namespace, form: str, parser: argparse.ArgumentParser) -> None:
    """Exit if options cannot be combined."""
    sweep = bool(getattr(options, "each", None))
    if not sweep and getattr(options, "shard", None):
        parser.error("--shard goes with --each. Fix: pass --each node or --each zone")
    if sweep and (form not in PAGES or options.timeline or {"quota", "blocked"} & {*options.fail_on}):
        parser.error(
            "--each goes with -o text, json, markdown and html, without --timeline and --fail-on quota and blocked"
        )
    if options.timeline and form not in ("text", "json"):
        parser.error("--timeline goes with -o text and json; the html page has a slider for it")


def _printed(result: WhatIf, output: Output, *, timeline: bool) -> Printed:
    from forewarn.policies.render import whatif
    from forewarn.policies.render.html import report
    from forewarn.policies.render.simulation import odds
    from forewarn.policies.simulation.summary import timeline_lines

    answer, change, runs = result.answer, result.class_change, [*odds(result.outcomes)]
    if output.form == "svg":
        from forewarn.policies.render.node_picture import picture

        return Printed([picture(answer)])
    printed = answer_in(
        output,
        result.head,
        lambda paint: whatif.render(answer, change, paint),
        lambda: [result.to_dict(timeline=timeline)],
        lambda: whatif.markdown(answer, change, [*runs, *result.notes]),
        lambda: report(answer, change, [*runs, *result.notes]),
    )
    if output.form != "text":
        return printed

    def more(paint: Painter) -> Iterator[str]:
        yield from (f"  {line}" for line in runs)
        yield from (f"  note: {note}" for note in result.notes_without_faults)
        if timeline:
            if answer.with_new_nodes:
                yield paint("timeline without new nodes:", "bold")
            yield from timeline_lines(answer.simulation, paint)

    text = "".join([*printed.parts, *cleaned(output, more)])
    return printed._replace(parts=[text], data=lambda: text)
