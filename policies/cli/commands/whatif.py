"""`forewarn whatif` and its options: simulate a change, and compare the cluster before and after it."""

from __future__ import annotations

import time
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import forewarn  # imports requests when they are used
from forewarn.policies.base.findings import duration
from forewarn.policies.cli.commands import cluster_command, simulated
from forewarn.policies.cli.commands.many_clusters import Evaluated, Evaluation, answered_each
from forewarn.policies.cli.commands.parser import (
    Output,
    Parser,
    Printed,
    add_files_option,
    document_in,
    existing,
    integer_between,
)
from forewarn.policies.cli.commands.shards import Shard, add_shard_option, digest_of, marked, run_options, shard_given
from forewarn.policies.cli.terminal import as_json, counting, of_total, print_notice
from forewarn.policies.inputs.sources.files import kept
from forewarn.policies.linting.config.load import contents
from forewarn.policies.prediction.simulation.scenario import DigestedCache
from forewarn.policies.questions.whatif import DEFAULT_AWAY, DEFAULT_UNTIL, MAX_ADDED

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterator, Sequence

    from forewarn.policies.cli.render import Painter
    from forewarn.policies.kubernetes.releases.release import Release
    from forewarn.policies.questions.application.changes import Change
    from forewarn.policies.questions.application.whatif import WhatIf
    from forewarn.policies.questions.whatif.autoscalers import Autoscaling
    from forewarn.policies.questions.whatif.sweep import Sweep

    _Request = Callable[[argparse.Namespace], Change]
    _Add = Callable[..., Callable[..., object]]


def main(arguments: Sequence[str]) -> int:
    """Run the command; returns 0, 1 if a condition of --fail-on is met, 2 for wrong usage, or 3 without a result."""
    options, run = cluster_command.options_with_cluster(argument_parser(), arguments)
    parser = options.own
    check_request(options, parser)
    _check(options, run.output.forms, parser)
    release, settings_of = QUESTION.settings(options, parser)
    is_sweep = bool(getattr(options, "each", None))
    options.change = None if is_sweep else options.request(options)  # reads standard input once
    if options.namespace and not hasattr(options.change, "namespace"):
        print_notice("forewarn whatif: -n has no effect on this change; the answer is about all namespaces")
    if is_sweep and (shard := shard_given(options.shard, run.output, parser)):
        options.until = options.until or DEFAULT_UNTIL
        part = partial(_evaluate_part, options, release, shard, settings_of)
        return answered_each(Evaluation("whatif", part, modules=_MODULES), run)
    question = LOSSES if is_sweep else QUESTION
    from forewarn.policies.questions.application.several_clusters import rank_of, row_of

    def evaluate(run: cluster_command.Run) -> Evaluated:
        result, printed, status, failures = question.answer(options, run, release, settings_of)
        cells = row_of(result.document)
        cells |= {"CASES": len(result.cases), "WORST CASE": result.cases[0].case} if question is LOSSES else {}
        return Evaluated(status, rank_of(result.document), cells, printed, failures, head=result.head)

    return answered_each(Evaluation("whatif", evaluate, modules=_MODULES), run)


_MODULES: Final = ("inputs.sources.cluster", "cli.render.answer", "questions.application.whatif")


def _evaluate_part(
    options: argparse.Namespace,
    release: Release,
    shard: Shard,
    settings_of: simulated.AutoscalingOf,
    run: cluster_command.Run,
) -> Evaluated:
    """Simulate a part of the losses on a cluster. Raises SourceError, InvalidObject, ValueError."""
    from forewarn.policies.questions.application.whatif import names_of, whatif_each

    cluster = simulated.loaded_for(run, options.config, release, digested=True)
    autoscaling = settings_of(cluster.cache, run.cluster)
    with counting("cases", run.errors) as show:
        settings: dict[str, Any] = {"until": options.until, "autoscaling": autoscaling, "progress": show}
        sweep = whatif_each(cluster, options.each, part=shard.part_of, **settings)
    identity = run_options(f"each {options.each}", release, options.until, cluster.cache, options.config)
    identity |= _group_options(options.node_templates, autoscaling)
    of, cache = len(names_of(cluster, options.each)), cluster.cache
    assert isinstance(cache, DigestedCache)
    part = as_json(marked(sweep.to_dict(), shard, of, cache.digest, identity))
    return Evaluated(0, printed=Printed([part]))  # the merge of all parts decides the status


def _group_options(node_templates: str | None, autoscaling: Autoscaling) -> dict[str, Any]:
    """Return the options about node groups that identify a run of several parts; empty without node groups."""
    if not autoscaling.groups:
        return {}
    groups = digest_of(contents(node_templates)) if node_templates else "of the cluster"
    of = {"cutoff": autoscaling.cutoff, "delay": autoscaling.node_delay}
    return {"node templates": groups, **{f"node templates, {name}": value for name, value in of.items()}}


def _ask(options: argparse.Namespace, subject: simulated.Subject) -> WhatIf | Sweep:
    from forewarn.policies.questions.application.whatif import whatif, whatif_each

    settings: dict[str, Any] = {"autoscaling": subject.settings(), "progress": subject.progress}
    if getattr(options, "each", None):
        return whatif_each(subject.cluster, options.each, until=options.until or DEFAULT_UNTIL, **settings)
    change = getattr(options, "change", None) or options.request(options)
    return whatif(subject.cluster, change, until=options.until, nodes_over_time=subject.draws, **settings)


def _check(options: argparse.Namespace, forms: Sequence[str], parser: argparse.ArgumentParser) -> None:
    """Exit if options cannot be combined."""
    sweep = bool(getattr(options, "each", None))
    if not sweep and getattr(options, "shard", None):
        parser.error("--shard goes with --each. Fix: pass --each node or --each zone")
    if sweep and options.timeline:
        parser.error("--each goes without --timeline")
    if options.timeline and not {"text", "json"}.issuperset(forms):
        parser.error("--timeline goes with -o text and json; the html page has a slider for it")


def _printed(options: argparse.Namespace, output: Output, result: WhatIf) -> Printed:
    from forewarn.policies.prediction.simulation.summary import timeline_rows

    if not options.timeline:
        return document_in(output, result)
    answer = result.answer

    def events(paint: Painter) -> Iterator[str]:
        yield ""
        start = time.strftime(" from %H:%M:%SZ", time.gmtime(answer.after.simulation.world.epoch))
        without = " without new nodes" if answer.with_new_nodes else ""
        yield paint(f"TIMELINE{start if result.head.origin.time else ''}{without}", "bold")
        yield from (f"{paint(at, 'dim')}  {event}" for at, event in timeline_rows(answer.after.simulation))

    return document_in(output, replace(result, timeline=answer.after.simulation.timeline.events), events)


FORMATS: Final = ("text", "json", "markdown", "html")
MAX_VALUE: Final = 2**31 - 1
SCOPES: Final = {"node": "one or more nodes", "zone": "one zone", "pool": "LABEL=VALUE[,LABEL=VALUE]"}
"""Kind of loss in `whatif lose` -> its argument."""


_NAMESPACE: Final = {"hpa": "only HorizontalPodAutoscalers of this namespace (default: of all namespaces)"}
"""Change -> the help of -n, if it is not that of other commands."""


def _common_options(parser: argparse.ArgumentParser, change: str) -> None:
    add = parser.add_argument
    simulated.add_until_option(add)
    cluster_command.add_namespace_option(add, _NAMESPACE.get(change))
    parser.set_defaults(namespace=None)  # requests have defaults
    add("--timeline", action="store_true", help="also show all events in order")
    cluster_command.add_fail_on(add)
    simulated.add_simulation_options(add, several=True)
    cluster_command.add_answer_options(add, FORMATS)


def argument_parser() -> argparse.ArgumentParser:
    """Return the parser, with one subcommand for each kind of change.

    `options.request` returns the request for `options`; the request's docstring describes the subcommand.
    """
    parser = Parser(
        prog="forewarn whatif",
        description="Simulate a change, and compare running Pods, Pending Pods and preemptions before and after the "
        "change.",
        epilog="Exit status: 0: simulated. 1: a condition of --fail-on is met. 2: wrong usage. 3: no answer.",
        examples=("whatif lose zone eu-1a", "whatif upgrade --fail-on blocked"),
        hints={scope: f"lose {scope}" for scope in SCOPES},
    )
    kinds = parser.add_subparsers(dest="what", required=True, metavar="CHANGE")

    def add(name: str, help_text: str, *examples: str, request: _Request | None = None) -> Callable[..., object]:
        sub = kinds.add_parser(name, help=help_text, description=f"Simulate: {help_text}.", examples=examples)
        sub.set_defaults(own=sub, request=request or _request_creator(name.capitalize()))
        _common_options(sub, name)
        return sub.add_argument

    _lose(add)
    _add_node_options(add)
    _add_workload_options(add)
    _add_class_options(add)
    _add_manifest_options(add)
    for name, help_text in (
        ("pressure", "a node runs out of memory, disk or process IDs, shuts down, or admits a critical Pod"),
        ("merge", "combine the parts of a divided run"),
    ):
        kinds.add_parser(name, help=help_text)  # for the list alone: policies.cli runs them
    return parser


def _request_creator(name: str) -> _Request:
    """Return a function that creates a request of the type `name` from options: each field has the value of the option
    with its name; `manifests` are the files of -f. Each fix that is tried reads the manifests again.
    """

    def request(options: argparse.Namespace) -> Change:
        of = getattr(forewarn, name)
        given = {**vars(options), "manifests": [kept(path) for path in getattr(options, "filename", None) or ()]}
        if given.get("events"):
            given["events"] = kept(given["events"])
        made: Change = of(**{name: given[name] for name in of.__dataclass_fields__ if given[name] is not None})
        return made

    return request


def _lose(add: _Add) -> None:
    argument = add(
        "lose",
        "a node, zone or pool is lost, or each node or zone separately",
        "whatif lose zone eu-1a",
        "whatif lose --each node -o json=losses.json",
        request=_loss,
    )
    argument("scope", nargs="?", choices=SCOPES, metavar="node|zone|pool")
    argument("names", nargs="*", metavar="NAME", help="names of nodes, of a zone, or LABEL=VALUE of a pool")
    argument("--each", choices=("node", "zone"), help="simulate the loss of each node or each zone separately")
    add_shard_option(argument)


def _loss(options: argparse.Namespace) -> Change:
    if options.scope == "node":
        return forewarn.LoseNodes(options.names)
    return (forewarn.LoseZone if options.scope == "zone" else forewarn.LosePool)(options.names[0])


def _add_node_options(add: _Add) -> None:
    argument = add(
        "drain",
        "nodes are cordoned and drained, all at the same time",
        "whatif drain node-1 node-2",
        "whatif drain node-1 --fail-on blocked",
    )
    argument("names", nargs="+", metavar="NODE")
    argument = add(
        "remove",
        "the nodes whose removal costs no Pod its place are drained",
        "whatif remove 5",
        "whatif remove 3 --pool pool=general",
    )
    argument("count", type=integer_between(1, 100_000), metavar="N", help="number of nodes to remove")
    argument("--pool", metavar="LABEL=VALUE", help="only nodes with these labels")
    argument = add(
        "upgrade",
        "nodes are drained, replaced and uncordoned, by default one after the other",
        "whatif upgrade --fail-on blocked",
        "whatif upgrade --pool pool=blue --max-surge 2 --drain-timeout 1h",
    )
    argument("--pool", default="", metavar="LABEL=VALUE", help="upgrade only nodes with these labels")
    help_text = "number of nodes upgraded at the same time (default: 1)"
    argument("--max-unavailable", type=integer_between(0, 100_000), metavar="N", help=help_text)
    help_text = "number of nodes replaced at the same time, each after a new node is ready"
    argument("--max-surge", type=integer_between(1, 100_000), metavar="N", help=help_text)
    help_text = f"time until a drained node returns, or a new node is ready (default: {duration(DEFAULT_AWAY)})"
    argument("--away", type=simulated.simulated_time, default=DEFAULT_AWAY, metavar="DURATION", help=help_text)
    help_text = "delete the remaining Pods of a node after this time, regardless of PDBs (default: wait)"
    argument("--drain-timeout", type=simulated.simulated_until, default=0.0, metavar="DURATION", help=help_text)
    help_text = "limit of PDBs that allow no disruptions, such as maxUnavailable=1 (default: their own)"
    argument("--assume-pdbs", default="", metavar="FIELD=N", help=help_text)
    argument = add(
        "add",
        "nodes are added",
        "whatif add node gen-0001 --count 3",
        "whatif add pool pool=general --until-scheduled",
        request=lambda options: forewarn.Add(
            **{options.scope: options.name}, count=options.count or 1, until_scheduled=options.until_scheduled
        ),
    )
    argument("scope", choices=("node", "pool"), metavar="node|pool")
    argument("name", metavar="NAME", help="node or pool (LABEL=VALUE) to copy, or group of --node-templates")
    argument("--count", type=integer_between(1, MAX_ADDED), metavar="N", help="number of nodes (default: 1)")
    argument("--until-scheduled", action="store_true", help="add as many nodes as Pending Pods need")


def _add_workload_options(add: _Add) -> None:
    argument = add(
        "restart",
        "the Pods of a workload are replaced",
        "whatif restart daemonset/log-agent -n monitoring",
        "whatif restart deployment/web --fail-on preempted",
    )
    argument("workload", metavar="KIND/NAME")
    argument = add(
        "scale",
        "the number of replicas of a workload changes",
        "whatif scale deployment/web 10 -n shop",
        "whatif scale statefulset/db 5 -n shop -o json",
    )
    argument("workload", metavar="KIND/NAME")
    argument("replicas", type=integer_between(0, MAX_VALUE), metavar="N")
    add(
        "hpa",
        "HorizontalPodAutoscalers scale to maxReplicas",
        "whatif hpa",
        "whatif hpa --fail-on pending",
        request=_request_creator("MaxReplicas"),
    )


def _add_manifest_options(add: _Add) -> None:
    from forewarn.policies.prediction.simulation.scenario import FORM

    argument = add(
        "apply", "manifests are applied", "whatif apply -f manifests/", "whatif apply -f web.yaml --timeline"
    )
    add_files_option(argument, _FILE, required=True)
    argument = add(
        "delete",
        "the objects of manifests are deleted",
        "whatif delete -f web.yaml",
        "whatif delete -f web.yaml --cluster cluster.json.gz",
    )
    add_files_option(argument, _FILE, required=True)
    argument = add(
        "events",
        "several events at different times",
        "whatif events --events outage.yaml --timeline",
        "whatif events -f web.yaml --runs 20",
    )
    add_files_option(argument, f"{_FILE}, applied at time 0")
    argument("--events", type=existing, metavar="FILE", help=FORM)
    simulated.add_runs_options(argument)


_FILE: Final = "manifest (file or directory, repeatable)"


def _add_class_options(add: _Add) -> None:
    argument = add(
        "class",
        "a PriorityClass is created, changed or deleted",
        "whatif class gold --value 100000",
        "whatif class gold --workloads namespace=shop",
        request=_request_creator("ChangeClass"),
    )
    argument("name", metavar="NAME")
    help_text = "new value; a missing PriorityClass is created"
    argument("--value", type=integer_between(-(2**31), MAX_VALUE), metavar="N", help=help_text)
    argument("--default", action="store_true", help="make the PriorityClass the global default")
    argument("--delete", action="store_true", help="delete the PriorityClass")
    argument("--preemption-policy", choices=("PreemptLowerPriority", "Never"), help="new preemptionPolicy")
    help_text = (
        "manifest to apply after the change (default: restart Deployments, StatefulSets and DaemonSets if their new "
        "Pods change priority)"
    )
    add_files_option(argument, help_text)
    help_text = (
        "workloads that get the PriorityClass: KIND/NAME or LABEL=VALUE (see -n), or namespace=NAME (repeatable)"
    )
    argument("--workloads", action="append", default=[], metavar="WHICH", help=help_text)


def check_request(options: argparse.Namespace, parser: argparse.ArgumentParser) -> None:
    """Exit if options of a change cannot be combined."""
    if options.what == "lose":
        _check_loss(options, parser)
    if options.what == "class":
        _check_class(options, parser)
    if options.what == "upgrade" and options.max_surge and options.max_unavailable:
        parser.error("--max-surge and --max-unavailable are given. Fix: pass one of them")
    if options.what == "upgrade" and options.max_unavailable == 0 and not options.max_surge:
        parser.error("--max-unavailable 0 upgrades no node. Fix: pass --max-surge as well, or at least 1")
    if options.what == "add" and options.count and options.until_scheduled:
        parser.error("--count and --until-scheduled are given. Fix: pass one of them")
    if options.what == "events" and not options.filename and not options.events:
        parser.error("no events given. Fix: pass -f, --events or both")


def _check_loss(options: argparse.Namespace, parser: argparse.ArgumentParser) -> None:
    if options.each:
        if options.scope:
            parser.error("--each and a name are given. Fix: pass --each, or name what is lost")
        return
    if options.scope not in SCOPES or not options.names:
        usage = ", ".join(f"{scope} {item.upper()}" for scope, item in (("node", "name…"), ("zone", "name")))
        parser.error(f"nothing to lose given. Fix: name what is lost: {usage}, pool LABEL=VALUE, or --each node|zone")
    if options.scope != "node" and len(options.names) > 1:
        parser.error(f"several names given. Fix: name {SCOPES[options.scope]}, or all nodes: lose node NAME…")


def _check_class(options: argparse.Namespace, parser: argparse.ArgumentParser) -> None:
    changes = options.value is not None or options.default or bool(options.preemption_policy)
    if not changes and not options.delete and not options.workloads:
        parser.error("no change given. Fix: pass --value, --default, --delete, --preemption-policy or --workloads")
    elif options.delete and (changes or options.workloads):
        parser.error("--delete goes without --value, --default, --preemption-policy and --workloads")
    elif options.workloads and options.filename:
        parser.error("--workloads and -f are given. Fix: pass one of them")


QUESTION: Final = simulated.Question(
    *("whatif", argument_parser, _ask, "simulating", simulated.STEPS, check_request),
    failures=lambda options, result: cluster_command.failures_of(result.conditions, options.fail_on) or None,
    printed=_printed,
)
LOSSES: Final = replace(QUESTION, what="cases", counts=of_total)


def question_of(words: Sequence[str]) -> simulated.Question:
    """Return the question about each loss, or about one change."""
    return LOSSES if "--each" in words else QUESTION
