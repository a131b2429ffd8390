"""`forewarn classes`, `forewarn classes plan` and `forewarn classes suggest`: PriorityClasses of a cluster."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from forewarn.policies.cli.commands import cluster_command, simulated
from forewarn.policies.cli.commands.parser import Parser, add_config_option, add_files_option
from forewarn.policies.cli.commands.release import add_release_options, release_of, settle
from forewarn.policies.cli.commands.simulated import STEPS, loaded_for
from forewarn.policies.cli.terminal import counting, print_notice

FORMATS: Final = (*cluster_command.PAGES, "yaml")
"""Formats of a suggestion."""
_NOTHING: Final = "nothing to suggest: all workloads have a PriorityClass"


def main(arguments: Sequence[str]) -> int:
    """Show the PriorityClasses that may preempt each other, and the requests of their Pods.

    Returns 0, 2 for wrong usage, or 3 without a result.
    """
    parser = _parser()
    options, run = cluster_command.options_with_cluster(parser, arguments)
    release = release_of(options, parser)

    def answer() -> int:
        from forewarn.policies.questions.application.classes import classes

        levels = classes(settle(cluster_command.loaded(run), release).snapshot())
        return cluster_command.print_result(run.output, levels)

    return cluster_command.answered("classes", run.output, answer)


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="forewarn classes",
        description="For each PriorityClass, show the cpu and memory that its Pods request, and the running Pods that "
        "a new Pod may preempt. `forewarn classes plan` divides a change of PriorityClasses into steps.",
        epilog="Exit status: 0: shown. 2: wrong usage. 3: no answer.",
        examples=("classes --context production", "classes --cluster cluster.json.gz -o markdown"),
    )
    add = parser.add_argument
    cluster_command.add_cluster_option(add)
    add_release_options(add)
    cluster_command.add_answer_options(add)
    return parser


def plan(arguments: Sequence[str]) -> int:
    """Order the steps of a change of PriorityClasses, and simulate each step.

    Returns 0, 1 if a condition of --fail-on is met, 2 for wrong usage, or 3 without a result.
    """
    parser = _plan_parser()
    options, run = cluster_command.options_with_cluster(parser, arguments)
    if not options.filename and not options.delete:
        parser.error("no change given. Fix: pass -f, --delete or both")
    release = release_of(options, parser)

    def answer() -> int:
        from forewarn.policies.questions.application.classes import ClassPlanRequest, plan_classes
        from forewarn.policies.questions.application.cluster import require_nodes

        cluster = loaded_for(run, options.config, release)
        require_nodes(cluster.snapshot)
        files = [name for name in options.filename if not _is_empty_suggestion(Path(name))]
        request = ClassPlanRequest(files, options.delete, options.namespace)
        with counting("simulating", run.errors, STEPS) as show:
            result = plan_classes(cluster, request, progress=show)
        planned = result.plan
        more_pending = any(step.pending > planned.pending_before for step in planned.steps)
        met = {"preemption": planned.preempted, "pending": more_pending, "unfinished": not planned.complete}
        failures = cluster_command.failures_of([what for what, is_met in met.items() if is_met], options.fail_on)
        return cluster_command.print_result(run.output, result, failures)

    return cluster_command.answered("classes plan", run.output, answer)


def _is_empty_suggestion(path: Path) -> bool:
    """Report whether this is the output of `classes suggest -o yaml` if there is nothing to suggest."""
    return path.is_file() and path.read_bytes().startswith(f"# {_NOTHING}".encode())


def _plan_parser() -> argparse.ArgumentParser:
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
    simulated.reject_node_templates(add, "a plan assumes that no nodes are added")
    cluster_command.add_namespace_option(add)
    help_text = "exit with 1 if a step preempts Pods, leaves more Pods Pending, or does not finish (repeatable)"
    add("--fail-on", action="append", choices=("preemption", "pending", "unfinished"), default=[], help=help_text)
    cluster_command.add_answer_options(add)
    return parser


def suggest(arguments: Sequence[str]) -> int:
    """Suggest PriorityClasses for workloads without one; returns 0, 2 for wrong usage, or 3 without a result."""
    parser = _suggest_parser()
    options, run = cluster_command.options_with_cluster(parser, arguments)
    release, settings_of = release_of(options, parser), simulated.autoscaling_of(options, parser)

    def answer() -> int:
        import yaml

        from forewarn.policies.questions.application.class_suggestion import suggest_classes
        from forewarn.policies.questions.application.cluster import require_nodes

        cluster = loaded_for(run, options.config, release)
        require_nodes(cluster.snapshot)
        with counting("simulating lost zones", run.errors, lambda *_: "") as show:
            result = suggest_classes(cluster, autoscaling=settings_of(cluster.cache, run.cluster), progress=show)
        if run.output.form != "yaml":
            return cluster_command.print_result(run.output, result)
        if result.manifest:
            sys.stdout.write(yaml.safe_dump_all(result.manifest, sort_keys=False))
        else:
            print_notice(_NOTHING)
            sys.stdout.write(f"# {_NOTHING}\n")
        return 0

    return cluster_command.answered("classes suggest", run.output, answer)


def _suggest_parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="forewarn classes suggest",
        description="Suggest a PriorityClass for each workload without one, by the kind of the workload, its "
        "PodDisruptionBudgets and HorizontalPodAutoscalers, and the classes of others. Show what this changes if a "
        "zone is lost.",
        epilog="Exit status: 0: suggested. 2: wrong usage. 3: no answer.",
        examples=("classes suggest", "classes suggest --cluster cluster.json.gz -o yaml=classes.yaml"),
    )
    add = parser.add_argument
    simulated.add_simulation_options(add)
    cluster_command.add_answer_options(add, FORMATS, repeatable=False)
    return parser
