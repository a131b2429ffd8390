"""`forewarn classes plan`: order the steps of a change of PriorityClasses, and simulate each step."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from forewarn.policies.cli.commands import cluster_command
from forewarn.policies.cli.commands.autoscaling import reject_node_templates
from forewarn.policies.cli.commands.parser import Parser, add_config_option, add_files_option
from forewarn.policies.cli.commands.release import add_release_options, release_of
from forewarn.policies.cli.commands.simulated import STEPS, loaded_for
from forewarn.policies.cli.terminal import counting


def main(arguments: Sequence[str]) -> int:
    """Run the command; returns 0, 1 if a condition of --fail-on is met, 2 for wrong usage, or 3 without a result."""
    parser = _parser()
    options, run = cluster_command.options_with_cluster(parser, arguments)
    if not options.filename and not options.delete:
        parser.error("no change given. Fix: pass -f, --delete or both")
    release = release_of(options, parser)

    def answer() -> int:
        from forewarn.policies.questions.application.classes import ClassPlanRequest, plan_classes
        from forewarn.policies.questions.application.cluster import require_nodes

        cluster = loaded_for(run, options.config, release)
        require_nodes(cluster.snapshot)
        request = ClassPlanRequest(options.filename, options.delete, options.namespace)
        with counting("simulating", run.errors, STEPS) as show:
            result = plan_classes(cluster, request, progress=show)
        plan = result.plan
        more_pending = any(step.pending > plan.pending_before for step in plan.steps)
        met = {"preemption": plan.preempted, "pending": more_pending, "unfinished": not plan.complete}
        failures = cluster_command.failures_of([what for what, is_met in met.items() if is_met], options.fail_on)
        return cluster_command.print_result(run.output, result, failures)

    return cluster_command.answered("classes plan", run.output, answer)


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="forewarn classes plan",
        description="Order a change of PriorityClasses into steps: create classes, set the class of workloads, restart "
        "workloads, delete old classes. Simulate each step after the previous one, and show which Pods it preempts.",
        epilog="Exit status: 0: planned. 1: a condition of --fail-on is met. 2: wrong usage. 3: no answer.",
        examples=("classes plan -f classes.yaml", "classes plan -f priorities/ --delete legacy --fail-on preemption"),
    )
    add = parser.add_argument
    help_text = "PriorityClasses, and workloads with their new priorityClassName (file or directory, repeatable)"
    add_files_option(add, help_text)
    add("--delete", action="append", default=[], metavar="NAME", help="old PriorityClass to delete (repeatable)")
    cluster_command.add_cluster_option(add)
    add_config_option(add)
    add_release_options(add)
    reject_node_templates(add, "a plan assumes that no nodes are added")
    cluster_command.add_namespace_option(add)
    help_text = "exit with 1 if a step preempts Pods, leaves more Pods Pending, or does not finish (repeatable)"
    add("--fail-on", action="append", choices=("preemption", "pending", "unfinished"), default=[], help=help_text)
    cluster_command.add_answer_options(add)
    return parser
