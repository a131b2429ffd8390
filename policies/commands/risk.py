"""`forewarn risk`: show the risks of each workload."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Final

from forewarn.policies.application.simulated import DEFAULT_UNTIL, world_with
from forewarn.policies.commands.autoscaling import add_config_option, recreated_by, reject_node_templates
from forewarn.policies.commands.cluster_command import (
    add_cluster_option,
    add_color_option,
    add_output_option,
    add_since_option,
    loaded,
    options_with_cluster,
    status_of_conditions,
)
from forewarn.policies.commands.known_findings import earlier_report, read_report
from forewarn.policies.commands.many_clusters import Evaluated, Evaluation, answered_each
from forewarn.policies.commands.parser import Parser, integer_between
from forewarn.policies.commands.release import add_release_options, release_of, settle
from forewarn.policies.commands.simulated import add_until_option
from forewarn.policies.objects.fields import InvalidInput, InvalidObject, at
from forewarn.policies.terminal import (
    as_json,
    as_markdown,
    clean,
    complain,
    painter,
    progress,
    table_width,
    wants_color,
)

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from forewarn.policies.cluster.answer_head import AnswerHead
    from forewarn.policies.cluster.cache import ClusterSnapshot
    from forewarn.policies.releases.release import Release
    from forewarn.policies.render.changes import Change
    from forewarn.policies.simulation.dump import DumpCache
    from forewarn.policies.simulation.scenario import World
    from forewarn.policies.whatif.questions import Question
    from forewarn.policies.whatif.risk import Risks

    Try = Callable[[World, Sequence[Question]], Iterator[Mapping[str, Any]]]

OK, FOUND, USAGE, FAILED = range(4)
MAX: Final = 100_000
FORMATS: Final = ("text", "json", "markdown", "html")
HEADS: Final = ("WORKLOADS", "LOSE REPLICAS", "WORST LOSS")
"""Of the table of several clusters."""

_MODULES: Final = ("sources.cluster", "render.risk", "whatif.risk", "simulation.dump", "application.losses")


def main(arguments: Sequence[str]) -> int:
    """Run the command; returns 0, 1 if a condition of --fail-on is met, 2 for wrong usage, or 3 without a result."""
    parser = argument_parser()
    options = options_with_cluster(parser, arguments)
    release = release_of(options, parser)
    try:
        previous = read_report(options)
    except ValueError as fault:
        return complain("risk", fault, USAGE)
    return answered_each(
        Evaluation("risk", HEADS, lambda each: _answer(each, release, previous), modules=_MODULES), options
    )


def _answer(options: argparse.Namespace, release: Release, previous: dict[str, Any] | None) -> Evaluated:
    from forewarn.policies.cluster.answer_head import head_of
    from forewarn.policies.render.head import below_title, headed, on_page
    from forewarn.policies.simulation.dump import DumpCache
    from forewarn.policies.whatif.risk import as_dict

    previous = earlier_report(previous, options)
    cache = DumpCache()
    cache.recreated = recreated_by(options)
    loaded(options, cache)
    settle(cache, release)
    risks = risks_of(options, cache, _watched)
    changes, head = _changes(options, risks, previous), head_of(cache.snapshot(), risks.assumes)
    if options.output == "json":
        more = {} if changes is None else {"changes": [change.to_dict() for change in changes]}
        sys.stdout.write(as_json(headed({**as_dict(risks), **more}, head)))
    elif options.output == "html":
        from forewarn.policies.render.html.risk import report

        sys.stdout.write(on_page(report(risks), head).document())
    elif options.output == "markdown":
        from forewarn.policies.render.markdown import changes as as_list
        from forewarn.policies.render.risk import markdown

        changes_text = "" if changes is None else as_list(changes, options.since) + "\n"
        sys.stdout.write(as_markdown(below_title(markdown(risks), head) + changes_text))
    else:
        _print_text(options, risks, changes, head)
    return _evaluated(options, risks)


def _evaluated(options: argparse.Namespace, risks: Risks) -> Evaluated:
    from forewarn.policies.render.risk import worst_loss

    losing = [risk for risk in risks.risks if risk.losses]
    total = sum(loss.replicas for risk in losing for loss in risk.losses)
    cells = (len(risks.risks), len(losing), worst_loss(losing))
    status = status_of_conditions(["loss"] if losing else (), [options.fail_on])
    return Evaluated(status, (len(losing), total), cells)


def risks_of(options: argparse.Namespace, cache: DumpCache, tried: Try) -> Risks:
    """Return the risks of the workloads that the options select. Raises SourceError, InvalidObject, ValueError.

    `tried`: simulates the losses of nodes and zones.
    """
    from forewarn.policies.simulation.dump import unknown_owners
    from forewarn.policies.whatif.risk import risks

    cluster = cache.snapshot()
    running = (pod for pod in cluster.pods.values() if pod.node_name)
    if not any(_is_chosen(pod.namespace, pod.priority_class_name, options) for pod in running):
        _require_workloads(options, cluster)
    found = risks(cluster, world_with(cache, [], options.until or DEFAULT_UNTIL), options.most, tried)
    wanted = [risk for risk in found.risks if _is_chosen(risk.namespace, risk.priority_class, options)]
    if not wanted:
        _require_workloads(options, cluster)
    return found._replace(risks=wanted, assumes=(*found.assumes, *unknown_owners(cache)))


def _print_text(options: argparse.Namespace, risks: Risks, changes: list[Change] | None, head: AnswerHead) -> None:
    from forewarn.policies.render.head import after_verdict
    from forewarn.policies.render.risk import render, render_summary

    color = wants_color(options.color, sys.stdout)
    width = options.width if options.several else table_width(sys.stdout)
    lines = render(risks, painter(color)) if options.verbose else render_summary(risks, painter(color), width)
    sys.stdout.writelines(clean(line, color) + "\n" for line in after_verdict(lines, head))
    if changes is not None:
        from forewarn.policies.render.changes import lines as lines_of

        sys.stdout.writelines(clean(line, color) + "\n" for line in lines_of(changes, options.since))


def _changes(options: argparse.Namespace, risks: Risks, previous: dict[str, Any] | None) -> list[Change] | None:
    """Return the changes since the previous report, for the selected workloads; None without `previous`. Raises
    InvalidInput.
    """
    if previous is None:
        return None
    from forewarn.policies.render.changes import of_risks

    try:
        chosen = previous
        if isinstance(rows := previous.get("workloads"), list):
            names = [(str(at(row, "namespace")), str(at(row, "priorityClass"))) for row in rows]
            rows_of_chosen = [row for row, of in zip(rows, names, strict=True) if _is_chosen(*of, options)]
            chosen = {**previous, "workloads": rows_of_chosen}
        return of_risks(risks, chosen)
    except ValueError as fault:
        raise InvalidInput(f"{options.since}: {fault}") from None


def _is_chosen(namespace: str, name: str, options: argparse.Namespace) -> bool:
    """Report whether -n and --class select a workload. `name`: the workload's PriorityClass."""
    return options.namespace in (None, namespace) and options.priority_class in (None, name)


def _require_workloads(options: argparse.Namespace, cluster: ClusterSnapshot) -> None:
    """Check that -n and --class can select a workload.

    Raises InvalidInput for an unknown namespace or class, and InvalidObject for a known one without running workload.
    """
    from forewarn.policies.rules.support.names import suggested
    from forewarn.policies.whatif.questions import namespace_not_found

    chosen, name = _chosen(options), options.priority_class
    unknown = namespace_not_found(cluster, options.namespace) if options.namespace is not None else ""
    if name and name not in cluster.priority_classes:
        unknown += f"; PriorityClass {name} not found{suggested(name, cluster.priority_classes)}"
    if unknown:
        raise InvalidInput(unknown.removeprefix("; "))
    if chosen:
        raise InvalidObject(f"no running workload{chosen}")


def _chosen(options: argparse.Namespace) -> str:
    """A phrase with the selection by --class and -n, for example ` of class gold in namespace shop`."""
    name, namespace = options.priority_class, options.namespace
    of_class = "" if name is None else f" of class {name}" if name else " without a class"
    return of_class if namespace is None else f"{of_class} in namespace {namespace}"


def _watched(world: World, questions: Sequence[Question]) -> Iterator[Mapping[str, Any]]:
    from forewarn.policies.application.losses import counted
    from forewarn.policies.whatif.risk import Tried

    return progress(counted(world, questions, Tried), len(questions), "losses", sys.stderr)


def argument_parser() -> argparse.ArgumentParser:
    """Return the parser of the options of `forewarn risk`."""
    parser = Parser(
        prog="forewarn risk",
        description="For each workload, list the PriorityClasses whose Pods can preempt its Pods, and the nodes and "
        "zones that it cannot lose. Also show on how many nodes the kubelet evicts its Pods first.",
        epilog="Exit status: 0: listed. 1: --fail-on is met. 2: wrong usage. 3: no answer.",
        examples=("risk --class gold --fail-on loss -o html=risk.html", "risk --context 'prod-*'"),
    )
    add = parser.add_argument
    add_cluster_option(add, several=True)
    add_config_option(add)
    add_release_options(add)
    reject_node_templates(add, "risk counts losses before nodes are added; use `forewarn whatif lose --each node`")
    add("-n", "--namespace", help="only workloads of this namespace")
    add(
        "--class",
        dest="priority_class",
        metavar="NAME",
        help='only workloads of this PriorityClass ("": workloads without a class)',
    )
    add(
        "--most",
        type=integer_between(0, MAX),
        default=100,
        metavar="N",
        help="maximum number of simulated zones and nodes (default: 100)",
    )
    add_until_option(add)
    add("--fail-on", choices=("loss",), help="exit with 1 if a workload does not survive a loss")
    add_since_option(add)
    add("-v", "--verbose", action="store_true", help="print the details of each workload instead of a table")
    add_output_option(add, FORMATS)
    add_color_option(add)
    return parser
