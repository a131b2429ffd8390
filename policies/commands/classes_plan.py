"""`forewarn classes plan`: order the steps of a change of PriorityClasses, and simulate each step."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

from forewarn.policies.application.places import Places
from forewarn.policies.application.simulated import MAX_UNTIL, applied
from forewarn.policies.commands.autoscaling import add_config_option, recreated_by, reject_node_templates
from forewarn.policies.commands.cluster_command import (
    add_cluster_option,
    add_color_option,
    add_namespace_option,
    add_output_option,
    answered,
    loaded,
    options_with_cluster,
    require_nodes,
    status_of_conditions,
)
from forewarn.policies.commands.parser import Parser
from forewarn.policies.commands.release import add_release_options, release_of, settle
from forewarn.policies.commands.simulated import watched
from forewarn.policies.kinds.registry import POD_TEMPLATE_PATHS, PRIORITY_CLASS
from forewarn.policies.objects.fields import group_kind
from forewarn.policies.terminal import as_json, as_markdown, clean, painter, wants_color

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from forewarn.policies.cluster.answer_head import AnswerHead
    from forewarn.policies.releases.release import Release
    from forewarn.policies.whatif.class_plan import Plan

FORMATS: Final = ("text", "json", "markdown")


def main(arguments: Sequence[str]) -> int:
    """Run the command; returns 0, 1 if a condition of --fail-on is met, 2 for wrong usage, or 3 without a result."""
    parser = _parser()
    options = options_with_cluster(parser, arguments)
    if not options.filename and not options.delete:
        parser.error("give -f, --delete or both")
    release, places = release_of(options, parser), Places()
    return answered("classes plan", options, lambda: _answer(options, release, places), places)


def _answer(options: argparse.Namespace, release: Release, places: Places) -> int:
    from forewarn.policies.cluster.answer_head import head_of
    from forewarn.policies.objects.priority_class import PriorityClass
    from forewarn.policies.simulation.dump import DumpCache, not_simulated, world_of
    from forewarn.policies.whatif.class_plan import plan
    from forewarn.policies.whatif.class_steps import wanted

    cache = DumpCache()
    cache.recreated = recreated_by(options)
    loaded(options, cache)
    cluster = settle(cache, release).snapshot()
    require_nodes(cluster)
    objects = [arrival.object for arrival in applied(options.filename, options.namespace, places)]
    classes = [PriorityClass.from_api(obj) for obj in objects if group_kind(obj) == PRIORITY_CLASS]
    workloads = [obj for obj in objects if group_kind(obj) in POD_TEMPLATE_PATHS]
    change = wanted(cluster, classes, workloads, options.delete)
    with watched() as show:
        found = plan(cluster, world_of(cache, (), until=MAX_UNTIL), change, show)
    found = found._replace(not_modelled=[*found.not_modelled, *not_simulated(cache)])
    _print(options, found, head_of(cluster, found.summary.assumes))
    met = {"preemption": found.preempted, "pending": _more_pending(found), "unfinished": not found.is_complete}
    return status_of_conditions([what for what, is_met in met.items() if is_met], options.fail_on)


def _more_pending(plan: Plan) -> bool:
    return any(result.pending > plan.pending_before for result in plan.results)


def _print(options: argparse.Namespace, plan: Plan, head: AnswerHead) -> None:
    from forewarn.policies.render import classes
    from forewarn.policies.render.head import after_verdict, below_title, headed
    from forewarn.policies.whatif.class_plan import as_dict

    if options.output == "json":
        sys.stdout.write(as_json(headed(as_dict(plan), head)))
    elif options.output == "markdown":
        sys.stdout.write(as_markdown(below_title(classes.plan_markdown(plan), head)))
    else:
        color = wants_color(options.color, sys.stdout)
        lines = after_verdict(classes.render_plan(plan, painter(color)), head)
        sys.stdout.writelines(clean(line, color) + "\n" for line in lines)


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="forewarn classes plan",
        description="Order a change of PriorityClasses into steps: create classes, set the class of workloads, restart "
        "workloads, delete old classes. Simulate each step after the previous one, and show which Pods it preempts.",
        epilog="Exit status: 0: planned. 1: --fail-on is met. 2: wrong usage. 3: no answer.",
        examples=("classes plan -f classes.yaml", "classes plan -f priorities/ --delete legacy --fail-on preemption"),
    )
    add = parser.add_argument
    help_text = "PriorityClasses, and workloads with their new priorityClassName (file or directory, repeatable)"
    add("-f", "--filename", action="append", default=[], metavar="FILE", help=help_text)
    add("--delete", action="append", default=[], metavar="NAME", help="old PriorityClass to delete (repeatable)")
    add_cluster_option(add)
    add_config_option(add)
    add_release_options(add)
    reject_node_templates(add, "a plan assumes that no nodes are added")
    add_namespace_option(add)
    help_text = "exit with 1 if a step preempts Pods, leaves more Pods Pending, or does not finish (repeatable)"
    add("--fail-on", action="append", choices=("preemption", "pending", "unfinished"), default=[], help=help_text)
    add_output_option(add, FORMATS)
    add_color_option(add)
    return parser
