"""`forewarn classes`, `forewarn classes plan` and `forewarn classes suggest`: PriorityClasses of a cluster."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Final

from forewarn.policies.cli.commands import cluster_command, simulated
from forewarn.policies.cli.commands.parser import NOTHING_TO_SUGGEST, Parser, add_config_option, add_files_option
from forewarn.policies.cli.commands.release import add_release_options

if TYPE_CHECKING:
    from forewarn.policies.questions.application.class_suggestion import Suggestion
    from forewarn.policies.questions.application.classes import Classes, ClassPlan

FORMATS: Final = (*cluster_command.PAGES, "yaml")
"""Formats of a suggestion."""


def _ask(_: argparse.Namespace, subject: simulated.Subject) -> Classes:
    """Return the PriorityClasses that may preempt each other, and the requests of their Pods."""
    from forewarn.policies.questions.application.classes import classes

    return classes(subject.cluster)


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


def _check_plan(options: argparse.Namespace, parser: argparse.ArgumentParser) -> None:
    if not options.filename and not options.delete:
        parser.error("no change given. Fix: pass -f, --delete or both")


def _ask_plan(options: argparse.Namespace, subject: simulated.Subject) -> ClassPlan:
    """Order the steps of a change of PriorityClasses, and simulate each step."""
    from forewarn.policies.questions.application.classes import ClassPlanRequest, plan_classes
    from forewarn.policies.questions.application.cluster import require_nodes

    require_nodes(subject.cluster.snapshot)
    files = [name for name in options.filename if not isinstance(name, str) or not _is_empty_suggestion(Path(name))]
    request = ClassPlanRequest(files, options.delete, options.namespace)
    return plan_classes(subject.cluster, request, progress=subject.progress)


def _failures_of_plan(options: argparse.Namespace, result: ClassPlan) -> list[str] | None:
    planned = result.plan
    more_pending = any(step.pending > planned.pending_before for step in planned.steps)
    met = {"preemption": planned.preempted, "pending": more_pending, "unfinished": not planned.complete}
    return cluster_command.failures_of([what for what, is_met in met.items() if is_met], options.fail_on) or None


def _is_empty_suggestion(path: Path) -> bool:
    """Report whether this is the output of `classes suggest -o yaml` if there is nothing to suggest."""
    return path.is_file() and path.read_bytes().startswith(f"# {NOTHING_TO_SUGGEST}".encode())


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


def _ask_suggestion(_: argparse.Namespace, subject: simulated.Subject) -> Suggestion:
    """Suggest PriorityClasses for workloads without one."""
    from forewarn.policies.questions.application.class_suggestion import suggest_classes
    from forewarn.policies.questions.application.cluster import require_nodes

    require_nodes(subject.cluster.snapshot)
    return suggest_classes(subject.cluster, autoscaling=subject.settings(), progress=subject.progress)


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


CLASSES: Final = simulated.Question("classes", _parser, _ask, "counting Pods", simulates=False)
PLAN: Final = simulated.Question(
    *("classes plan", _plan_parser, _ask_plan, "simulating", simulated.STEPS, _check_plan), failures=_failures_of_plan
)
SUGGESTION: Final = simulated.Question(
    "classes suggest", _suggest_parser, _ask_suggestion, "simulating lost zones", lambda *_: ""
)
main: Final = CLASSES.main
plan: Final = PLAN.main
suggest: Final = SUGGESTION.main
