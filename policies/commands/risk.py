"""`forewarn risk`: show the risks of each workload."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from forewarn.policies.application.simulated import DEFAULT_UNTIL
from forewarn.policies.commands import autoscaling, cluster_command
from forewarn.policies.commands.known_findings import earlier_report, read_report
from forewarn.policies.commands.many_clusters import Evaluated, Evaluation, answered_each
from forewarn.policies.commands.parser import Output, Parser, Printed, answer_in, integer_between
from forewarn.policies.commands.release import add_release_options, release_of
from forewarn.policies.commands.simulated import add_until_option, loaded_for
from forewarn.policies.objects.fields import InvalidInput, InvalidObject, at
from forewarn.policies.terminal import complain, counting

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Sequence

    from forewarn.policies.application.whatif import Workloads
    from forewarn.policies.render import Painter
    from forewarn.policies.whatif.risk import Risks

OK, FOUND, USAGE, FAILED = range(4)
MAX: Final = 100_000

_MODULES: Final = ("sources.cluster", "render.risk", "application.whatif", "simulation.dump")


def main(arguments: Sequence[str]) -> int:
    """Run the command; returns 0, 1 if a condition of --fail-on is met, 2 for wrong usage, or 3 without a result."""
    parser = argument_parser()
    options, run = cluster_command.options_with_cluster(parser, arguments)
    release, settings_of = release_of(options, parser), autoscaling.autoscaling_of(options, parser)
    try:
        previous = read_report(options.since, of_several=bool(run.several))
    except ValueError as fault:
        return complain("risk", fault, USAGE)

    def evaluate(run: cluster_command.Run) -> Evaluated:
        from forewarn.policies.application.cluster import Cluster
        from forewarn.policies.application.whatif import Workloads, risk

        since = options.since or ""
        earlier = earlier_report(previous, since, run)
        cache = loaded_for(run, options.config, release)
        cluster, workloads = Cluster(cache, sources=run.cluster), Workloads(options.namespace, options.priority_class)
        settings = settings_of(cache, run.cluster)
        with counting("losses", run.errors) as show:
            risks = risk(
                cluster, workloads, most=options.most, until=options.until, autoscaling=settings, progress=show
            )
        if not risks.workloads and str(workloads):
            raise InvalidObject(f"no running workload{workloads}")
        risks = risks if earlier is None else _with_changes(since, risks, earlier, workloads)
        printed = _printed(run.output, risks, since=since, verbose=options.verbose)
        return _evaluated(risks, printed, options.fail_on)

    return answered_each(Evaluation("risk", evaluate, modules=_MODULES), run)


def _evaluated(risks: Risks, printed: Printed, fail_on: str | None) -> Evaluated:
    from forewarn.policies.render.risk import worst_loss
    from forewarn.policies.whatif.answer import rank_of_loss

    losing = [risk for risk in risks.workloads if risk.loses_replicas_with]
    row: dict[str, str | int] = {"WORKLOADS": len(risks.workloads), "LOSE REPLICAS": len(losing)}
    row["WORST LOSS"] = worst_loss(losing[0]) if losing else "-"
    worst = (max(losing[0].loses_replicas_with.values()), losing[0].priority) if losing else (0, 0)
    total = sum(replicas for risk in losing for replicas in risk.loses_replicas_with.values())
    rank = *rank_of_loss(*worst), len(losing), total
    lasting = any(risk.lasting_losses for risk in risks.workloads)
    fails = bool({"loss": losing, "lasting-loss": lasting}.get(fail_on or ""))
    notices = [f"forewarn: fails on {fail_on} (--fail-on)"] if fails else []
    return Evaluated(FAILED if risks.is_incomplete else FOUND if fails else OK, rank, row, printed, notices)


def _printed(output: Output, risks: Risks, *, since: str, verbose: bool) -> Printed:
    from forewarn.policies.render.audit import lines as lines_of
    from forewarn.policies.render.html.pages import risk_page
    from forewarn.policies.render.risk import markdown, render, render_summary
    from forewarn.policies.render.table import markdown_changes

    changes = risks.changes
    more = "" if changes is None else markdown_changes(changes, since) + "\n"

    def lines(risks: Risks, paint: Painter) -> Iterator[str]:
        yield from render(risks, paint) if verbose else render_summary(risks, paint, output.width)
        yield from () if changes is None else lines_of(changes, since)

    return answer_in(output, risks, lines, lambda risks: markdown(risks) + more, risk_page)


def _with_changes(since: str, risks: Risks, previous: dict[str, Any], workloads: Workloads) -> Risks:
    """Add the changes since the previous report, for the selected workloads. Raises InvalidInput."""
    from dataclasses import replace

    from forewarn.policies.render.audit import of_risks

    try:
        if isinstance(rows := previous.get("workloads"), list):
            names = [(str(at(row, "namespace")), str(at(row, "priorityClass"))) for row in rows]
            rows_of_selected = [row for row, of in zip(rows, names, strict=True) if workloads.has(*of)]
            previous = {**previous, "workloads": rows_of_selected}
        return replace(risks, changes=of_risks(risks, previous))
    except ValueError as fault:
        raise InvalidInput(f"{since}: {fault}") from None


def argument_parser() -> argparse.ArgumentParser:
    """Return the parser of the options of `forewarn risk`."""
    parser = Parser(
        prog="forewarn risk",
        description="For each workload, list PriorityClasses whose Pods can preempt its Pods, and the nodes and zones "
        "that cost replicas if they are lost.",
        epilog="Exit status: 0: listed. 1: a condition of --fail-on is met. 2: wrong usage. 3: no answer.",
        examples=("risk --class gold --fail-on loss -o html=risk.html", "risk --context 'prod-*'"),
    )
    add = parser.add_argument
    cluster_command.add_cluster_option(add, several=True)
    autoscaling.add_autoscaling_options(add)
    autoscaling.add_arrival_options(add)
    add_release_options(add)
    add("-n", "--namespace", help="only workloads of this namespace")
    help_text = 'only workloads of this PriorityClass ("": workloads without a class)'
    add("--class", dest="priority_class", metavar="NAME", help=help_text)
    help_text = "maximum number of simulated zones, and of simulated nodes (default: 100)"
    add("--most", type=integer_between(0, MAX), default=100, metavar="N", help=help_text)
    add_until_option(add, default=DEFAULT_UNTIL)
    help_text = (
        "exit with 1 if a workload loses replicas with a zone or node: without new nodes (loss), or even with new "
        "nodes (lasting-loss)"
    )
    add("--fail-on", choices=("loss", "lasting-loss"), help=help_text)
    cluster_command.add_since_option(add)
    add("-v", "--verbose", action="store_true", help="print the details of each workload instead of a table")
    cluster_command.add_printing_options(add, cluster_command.PAGES)
    return parser
