"""`forewarn risk`: show the risks of each workload."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from forewarn.policies.cli.commands import cluster_command, simulated
from forewarn.policies.cli.commands.known_findings import compared, read_since
from forewarn.policies.cli.commands.parser import Parser, integer_between
from forewarn.policies.kubernetes.objects.fields import InvalidObject, at
from forewarn.policies.questions.whatif import DEFAULT_UNTIL

if TYPE_CHECKING:
    import argparse

    from forewarn.policies.questions.application.whatif import Workloads
    from forewarn.policies.questions.whatif.risk_answer import Risks

MAX: Final = 100_000


def _ask(options: argparse.Namespace, subject: simulated.Subject) -> Risks:
    from forewarn.policies.questions.application.whatif import Workloads, risk

    workloads = Workloads(options.namespace, options.priority_class)
    settings: dict[str, Any] = {"autoscaling": subject.settings(), "progress": subject.progress}
    risks = risk(subject.cluster, workloads, limit=options.most, until=options.until, **settings)
    if not risks.workloads and str(workloads):
        raise InvalidObject(f"no running workload{workloads}")
    return risks if options.previous is None else _with_changes(options.since, risks, options.previous, workloads)


def _failures(options: argparse.Namespace, risks: Risks) -> list[str] | None:
    losing = any(risk.loses_replicas_with for risk in risks.workloads)
    lasting = any(risk.lasting_losses for risk in risks.workloads)
    met = [name for name, is_met in (("loss", losing), ("lasting-loss", lasting)) if is_met]
    return cluster_command.failures_of(met, [options.fail_on]) or None


def _with_changes(since: str, risks: Risks, previous: dict[str, Any], workloads: Workloads) -> Risks:
    """Add the changes since the previous report, for the selected workloads. Raises InvalidInput."""
    from dataclasses import replace

    from forewarn.policies.questions.application.report_changes import risk_changes

    if isinstance(rows := previous.get("workloads"), list):
        names = [(str(at(row, "namespace")), str(at(row, "priorityClass"))) for row in rows]
        rows_of_selected = [row for row, of in zip(rows, names, strict=True) if workloads.has(*of)]
        previous = {**previous, "workloads": rows_of_selected}
    return replace(risks, changes=compared(since, lambda: risk_changes(risks, previous)))


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
    simulated.add_until_option(add, default=DEFAULT_UNTIL)
    help_text = (
        "exit with 1 if a workload loses replicas with a zone or node: without new nodes (loss), or even with new "
        "nodes (lasting-loss)"
    )
    add("--fail-on", choices=("loss", "lasting-loss"), help=help_text)
    cluster_command.add_since_option(add)
    cluster_command.add_answer_options(add)
    return parser


QUESTION: Final = simulated.Question("risk", argument_parser, _ask, "losses", check=read_since, failures=_failures)
main: Final = QUESTION.main
