"""`forewarn risk`: show the risks of each workload."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from forewarn.policies.cli.commands import cluster_command, simulated
from forewarn.policies.cli.commands.known_findings import compared, read_since
from forewarn.policies.cli.commands.parser import Parser, integer_between
from forewarn.policies.cli.commands.release import release_of
from forewarn.policies.cli.commands.simulated import add_until_option, loaded_for
from forewarn.policies.cli.terminal import counting
from forewarn.policies.kubernetes.objects.fields import InvalidObject, at
from forewarn.policies.questions.whatif import DEFAULT_UNTIL

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from forewarn.policies.questions.application.whatif import Workloads
    from forewarn.policies.questions.whatif.risk_answer import Risks

MAX: Final = 100_000


def main(arguments: Sequence[str]) -> int:
    """Run the command; returns 0, 1 if a condition of --fail-on is met, 2 for wrong usage, or 3 without a result."""
    parser = argument_parser()
    options, run = cluster_command.options_with_cluster(parser, arguments)
    release, settings_of = release_of(options, parser), simulated.autoscaling_of(options, parser)
    previous = read_since(options, parser)

    def answer() -> int:
        from forewarn.policies.questions.application.whatif import Workloads, risk

        since = options.since or ""
        cluster = loaded_for(run, options.config, release)
        workloads = Workloads(options.namespace, options.priority_class)
        settings = settings_of(cluster.cache, run.cluster)
        with counting("losses", run.errors) as show:
            risks = risk(
                cluster, workloads, limit=options.most, until=options.until, autoscaling=settings, progress=show
            )
        if not risks.workloads and str(workloads):
            raise InvalidObject(f"no running workload{workloads}")
        risks = risks if previous is None else _with_changes(since, risks, previous, workloads)
        return cluster_command.print_result(run.output, risks, _failures(risks, options.fail_on))

    return cluster_command.answered("risk", run.output, answer)


def _failures(risks: Risks, fail_on: str | None) -> list[str]:
    losing = any(risk.loses_replicas_with for risk in risks.workloads)
    lasting = any(risk.lasting_losses for risk in risks.workloads)
    met = [name for name, is_met in (("loss", losing), ("lasting-loss", lasting)) if is_met]
    return cluster_command.failures_of(met, [fail_on] if fail_on else [])


def _with_changes(since: str, risks: Risks, previous: dict[str, Any], workloads: Workloads) -> Risks:
    """Add the changes since the previous report, for the selected workloads. Raises InvalidInput."""
    from dataclasses import replace

    from forewarn.policies.questions.application.report_changes import of_risks

    if isinstance(rows := previous.get("workloads"), list):
        names = [(str(at(row, "namespace")), str(at(row, "priorityClass"))) for row in rows]
        rows_of_selected = [row for row, of in zip(rows, names, strict=True) if workloads.has(*of)]
        previous = {**previous, "workloads": rows_of_selected}
    return replace(risks, changes=compared(since, lambda: of_risks(risks, previous)))


def argument_parser() -> argparse.ArgumentParser:
    """Return the parser of the options of `forewarn risk`."""
    parser = Parser(
        prog="forewarn risk",
        description="For each workload, list PriorityClasses whose Pods can preempt its Pods, and the nodes and zones "
        "that cost replicas if they are lost.",
        epilog="Exit status: 0: listed. 1: a condition of --fail-on is met. 2: wrong usage. 3: no answer.",
        examples=("risk --class gold --fail-on loss -o html=risk.html", "risk --context production"),
    )
    add = parser.add_argument
    simulated.add_simulation_options(add)
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
    cluster_command.add_answer_options(add)
    return parser
