"""`forewarn whatif`: a change simulated, and the cluster before and after it."""

from __future__ import annotations

import sys
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from policies.commands.autoscaling import add_autoscaling_options, autoscaling_of, recreated_by
from policies.commands.cluster_command import (
    add_cluster_option,
    add_color_option,
    add_namespace_option,
    add_output_option,
    answered,
    loaded,
    options_with_cluster,
    require_nodes,
)
from policies.commands.parser import Parser, whole
from policies.commands.places import Places
from policies.commands.release import add_release_options, release_of, settle
from policies.commands.shards import add_shard_option, shard_given
from policies.commands.simulated import (
    DEFAULT_UNTIL,
    MOST_UNTIL,
    add_runs_options,
    add_until_option,
    admit_at_once,
    applied,
    events_of,
    nowhere,
    passed_over,
    rejected,
    rejected_classes,
    simulated_time,
    watched,
    world_with,
)
from policies.commands.sweep import FORMATS as SWEEP_FORMATS
from policies.commands.sweep import HAPPENINGS, answer_sweep
from policies.kinds import NODE
from policies.objects.fields import group_kind
from policies.sources import SourceError
from policies.terminal import as_json, as_markdown, clean, complain, painter, wants_color

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from policies.releases import Release
    from policies.simulation.dump import DumpCache
    from policies.simulation.outcomes import Outcome
    from policies.simulation.scenario import Arrival, World
    from policies.simulation.summary import Summary
    from policies.whatif.autoscalers import Autoscaling
    from policies.whatif.class_change import ClassChange
    from policies.whatif.comparison import Answer
    from policies.whatif.questions import Question

OK, FOUND, USAGE, FAILED = range(4)
FORMATS: Final = ("text", "json", "markdown", "html", "svg")
DRAWN: Final = ("html", "svg")
"""Formats for which a run is watched node by node."""
SETTLED: Final = "counts cover the whole rollout at its end; `lint` and `predict` evaluate its start"
"""The basis of the counts of `whatif apply`."""
MOST_VALUE: Final = 2**31 - 1
SCOPES: Final = {"node": "one or more nodes", "zone": "one zone", "pool": "LABEL=VALUE[,LABEL=VALUE]"}
"""What `whatif lose` loses -> what names it."""


def main(arguments: Sequence[str]) -> int:
    """Run the command; returns the exit status: 0 answered, 1 --fail-on was met, 2 usage, 3 not done."""
    options = options_with_cluster(_parser(), arguments)
    parser = options.own
    _check(options, parser)
    release = release_of(options, parser)
    autoscaling, places = autoscaling_of(options, parser), Places()
    if getattr(options, "each", None):
        shard = shard_given(options, parser)
        options.until = options.until or DEFAULT_UNTIL
        return answered("whatif", options, lambda: answer_sweep(options, release, shard, autoscaling))
    return answered("whatif", options, lambda: _answer(options, release, autoscaling, places), places)


def _check(options: argparse.Namespace, parser: argparse.ArgumentParser) -> None:
    """End the program if arguments do not go together."""
    if options.what == "lose":
        _check_loss(options, parser)
    if options.what == "class":
        _check_class(options, parser)
    if options.what == "events" and not options.filename and not options.events:
        parser.error("give -f, --events or both")
    sweep = bool(getattr(options, "each", None))
    if not sweep and getattr(options, "shard", None):
        parser.error("--shard goes with --each")
    if sweep and (options.output not in SWEEP_FORMATS or options.timeline or "blocked" in options.fail_on):
        parser.error("--each goes with -o text, json, markdown and html, without --timeline and --fail-on blocked")
    if options.timeline and options.output not in ("text", "json"):
        parser.error("--timeline goes with -o text and json; the html page has a slider for it")


def _check_loss(options: argparse.Namespace, parser: argparse.ArgumentParser) -> None:
    if options.each:
        if options.scope:
            parser.error("give --each, or name what is lost")
        return
    if options.scope not in SCOPES or not options.names:
        said = ", ".join(f"{scope} {each.upper()}" for scope, each in (("node", "name…"), ("zone", "name")))
        parser.error(f"name what is lost: {said}, pool LABEL=VALUE, or --each node|zone")
    if options.scope != "node" and len(options.names) > 1:
        parser.error(f"name {SCOPES[options.scope]}")


def _check_class(options: argparse.Namespace, parser: argparse.ArgumentParser) -> None:
    changes = options.value is not None or options.default or bool(options.preemption_policy)
    if options.each:
        if options.name or changes or options.delete or options.filename:
            parser.error("--each deletes each class in turn; leave out the rest")
        options.each = "class"
    elif not options.name:
        parser.error("name a PriorityClass, or --each")
    elif not changes and not options.delete:
        parser.error("give --value, --default, --delete or --preemption-policy")
    elif changes and options.delete:
        parser.error("--delete goes without --value, --default and --preemption-policy")


def _answer(options: argparse.Namespace, release: Release, autoscaling: Autoscaling, places: Places) -> int:
    from policies.simulation.dump import DumpCache, not_simulated
    from policies.whatif.comparison import ask
    from policies.whatif.occupancy import Occupancy

    cache = DumpCache()
    cache.recreated = recreated_by(options)
    loaded(options, cache)
    settle(cache, release)
    if cache.semantics.unknown:
        raise SourceError("--kubernetes-version", cache.semantics.unknown)
    question, change = _question(options, cache, places)
    if not autoscaling.groups and all(group_kind(arrival.object) != NODE for arrival in question.arrivals):
        require_nodes(cache.snapshot())
    classes = [note for _, note in rejected_classes(cache.snapshot(), question.arrivals)]
    question, faults = _without_rejected(question, cache, places)
    left_out = [*passed_over(question.arrivals), *nowhere(cache.snapshot(), question.arrivals), *classes]
    left_out += [f"not simulated: {fault}" for fault in faults if options.output != "text"]
    horizon = question.upgrade.horizon if question.upgrade is not None else 0.0
    world = world_with(cache, question.arrivals, options.until or max(DEFAULT_UNTIL, min(horizon, MOST_UNTIL)))
    watch = Occupancy if options.output in DRAWN else None
    with watched() as show:
        answer = ask(question, world, show, watch, autoscaling)
    settled = [SETTLED] if options.what == "apply" else []
    notes = [*not_simulated(cache), *left_out, *answer.summary.assumes, *settled]
    if options.output in DRAWN:
        sys.stdout.write(_drawn(options.output, answer, change, notes))
    else:
        _print(options, answer, change, notes, _explored(options, world, answer))
    return FAILED if faults else _status(options, answer)


def _without_rejected(question: Question, cache: DumpCache, places: Places) -> tuple[Question, list[Exception]]:
    """The question without objects whose Pods admission rejects, which are printed as errors.

    Raises SourceError or InvalidObject if nothing is left.
    """
    admit_at_once(cache, question.arrivals)
    found = [*rejected(cache.snapshot(), question.arrivals)]
    faults, objects = [places.located(fault) for _, fault in found], [arrival for arrival, _ in found]
    left = [arrival for arrival in question.arrivals if arrival not in objects]
    for fault in faults if left else faults[:-1]:
        complain("whatif", fault, FAILED)
    if faults and not left:
        raise faults[-1]
    return question._replace(arrivals=left), faults


def _drawn(form: str, answer: Answer, change: ClassChange | None, notes: Iterable[str]) -> str:
    if form == "svg":
        from policies.render.node_picture import picture

        return picture(answer)
    from policies.render import html

    return html.page(answer, change, notes)


def _status(options: argparse.Namespace, answer: Answer) -> int:
    return FOUND if set(_happens(answer)) & set(options.fail_on) else OK


def _question(options: argparse.Namespace, cache: DumpCache, places: Places) -> tuple[Question, ClassChange | None]:
    from policies.whatif import questions

    cluster = cache.snapshot()
    if options.what == "class":
        return _class_question(options, cache, places)

    def files() -> list[Arrival]:
        return [*applied(options.filename, options.namespace, places)]

    asked: dict[str, Callable[[], Question]] = {
        "node": lambda: questions.nodes_lost(cluster, options.names),
        "zone": lambda: questions.zone_lost(cluster, options.names[0]),
        "pool": lambda: questions.pool_lost(cluster, options.names[0]),
        "drain": lambda: questions.drained(cluster, options.names),
        "upgrade": lambda: questions.upgraded(cluster, options.pool, options.max_unavailable, options.away),
        "scale": lambda: questions.scaled(cluster, options.name, options.replicas, options.namespace),
        "apply": lambda: questions.Question(f"{_named(options)} applied", files()),
        "delete": lambda: questions.deleted(cluster, _named(options), files()),
        "events": lambda: questions.Question(_events_title(options), [*files(), *_events(options)]),
    }
    return asked[options.scope if options.what == "lose" else options.what](), None


def _events(options: argparse.Namespace) -> list[Arrival]:
    return [*events_of(options.events)] if options.events else []


def _events_title(options: argparse.Namespace) -> str:
    titles = [f"{_named(options)} applied"] if options.filename else []
    return ", ".join([*titles, *([f"events of {options.events}"] if options.events else [])])


def _class_question(options: argparse.Namespace, cache: DumpCache, places: Places) -> tuple[Question, ClassChange]:
    from policies.whatif.class_change import Change, apply_change, restarts, title
    from policies.whatif.questions import Question

    asked = Change(options.name, options.value, options.default, options.preemption_policy, options.delete)
    change = apply_change(cache, asked)
    files = [*applied(options.filename, options.namespace, places)]
    told = f"{title(change)}; then {_named(options)} applied" if files else title(change)
    return Question(told, files or restarts(change)), change._replace(restarted=not files)


def _named(options: argparse.Namespace) -> str:
    return " and ".join(options.filename)


def _print(
    options: argparse.Namespace,
    answer: Answer,
    change: ClassChange | None,
    notes: Sequence[str],
    outcomes: Sequence[tuple[Outcome, Summary]],
) -> None:
    if options.output == "json":
        sys.stdout.write(as_json(_as_dict(options, answer, change, notes, outcomes)))
        return
    from policies.render import whatif

    if options.output == "markdown":
        sys.stdout.write(as_markdown(whatif.markdown(answer, change, notes)))
        return
    color = wants_color(options.color, sys.stdout)
    if options.timeline:
        from policies.render.simulation import timeline

        lines = timeline(answer.simulation, painter(color))
        sys.stdout.writelines(clean(line, color) + "\n" for line in lines)
    sys.stdout.writelines(clean(line, color) + "\n" for line in whatif.render(answer, change, painter(color)))
    if len(outcomes) > 1:
        from policies.render.simulation import odds

        sys.stdout.writelines(clean(f"  {line}", color) + "\n" for line in odds(outcomes, painter(color)))
    sys.stdout.writelines(clean(f"  note: {note}", color=False) + "\n" for note in notes)


def _as_dict(
    options: argparse.Namespace,
    answer: Answer,
    change: ClassChange | None,
    notes: Sequence[str],
    outcomes: Sequence[tuple[Outcome, Summary]],
) -> dict[str, Any]:
    from policies.whatif import class_change
    from policies.whatif.comparison import as_dict

    told = as_dict(answer) | ({"classChange": class_change.as_dict(change)} if change else {})
    told |= {"basis": "settled"} if options.what == "apply" else {}
    told |= {"timeline": answer.simulation.outcome()["timeline"]} if options.timeline else {}
    if outcomes:
        entries = [{**outcome.to_dict(), "summary": summary.to_dict()} for outcome, summary in outcomes]
        told |= {"runs": options.runs, "seed": options.seed, "outcomes": entries}
    return told | {"notes": list(notes)}


def _explored(options: argparse.Namespace, world: World, answer: Answer) -> list[tuple[Outcome, Summary]]:
    """The outcomes of `whatif events`, that of the answer first; nothing of other changes."""
    from policies.simulation.outcomes import Outcome, explore
    from policies.simulation.simulation import Simulation
    from policies.simulation.summary import summarize

    if options.what != "events" or options.output in DRAWN:
        return []
    if options.runs == 1:
        return [(Outcome(answer.simulation), answer.summary)]
    with watched() as show:
        outcomes = explore(partial(Simulation, world, progress=show), options.runs, options.seed)
    return [(outcome, summarize(outcome.simulation)) for outcome in outcomes]


def _happens(answer: Answer) -> Iterator[str]:
    if any(standing.missed for standing in answer.standings):
        yield "fewer"
    if any(standing.pending > standing.pending_before for standing in answer.standings):
        yield "pending"
    if answer.pushes:
        yield "preemption"
    if answer.budgets or answer.summary.broken_budgets:
        yield "pdb"
    if answer.blocked:
        yield "blocked"


def _common(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add_cluster_option(add)
    add_release_options(add)
    add_until_option(add, ", or as long as the upgrade takes")
    add_namespace_option(add)
    add_output_option(add, FORMATS)
    add("--timeline", action="store_true", help="also show all events in order")
    add(
        "--fail-on",
        action="append",
        choices=(*HAPPENINGS, "blocked"),
        default=[],
        help="exit with 1 if this happens; blocked means that a node cannot be drained or upgraded (repeatable)",
    )
    add_autoscaling_options(add)
    add_color_option(add)


_EXAMPLES: Final = {
    "lose": ("whatif lose zone eu-1a", "whatif lose --each node -o json=losses.json"),
    "drain": ("whatif drain node-1 node-2", "whatif drain node-1 --fail-on blocked"),
    "upgrade": ("whatif upgrade --fail-on blocked", "whatif upgrade --pool pool=blue --max-unavailable 2"),
    "class": ("whatif class gold --value 100000", "whatif class bronze --delete --cluster cluster.json.gz"),
    "scale": ("whatif scale deployment/web 10 -n shop", "whatif scale statefulset/db 5 -n shop -o json"),
    "apply": ("whatif apply -f manifests/", "whatif apply -f web.yaml --timeline"),
    "delete": ("whatif delete -f web.yaml", "whatif delete -f web.yaml --cluster cluster.json.gz"),
    "events": ("whatif events --events outage.yaml --timeline", "whatif events -f web.yaml --runs 20"),
}


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="forewarn whatif",
        description="Simulate a change, and compare running Pods, Pending Pods and preemptions before and after the "
        "change.",
        epilog="Exit status: 0: simulated. 1: --fail-on is met. 2: wrong usage. 3: no answer.",
        examples=("whatif lose zone eu-1a", "whatif upgrade --fail-on blocked"),
    )
    kinds = parser.add_subparsers(dest="what", required=True, metavar="CHANGE")

    def add(name: str, told: str) -> Parser:
        sub = kinds.add_parser(name, help=told, description=f"Simulate: {told}.", examples=_EXAMPLES[name])
        sub.set_defaults(own=sub)
        _common(sub)
        return sub

    lose = add("lose", "a node, zone or pool is lost, or each node or zone separately")
    lose.add_argument("scope", nargs="?", choices=SCOPES, metavar="node|zone|pool")
    lose.add_argument("names", nargs="*", metavar="NAME", help="names of nodes, of a zone, or LABEL=VALUE of a pool")
    lose.add_argument("--each", choices=("node", "zone"), help="simulate the loss of each node or each zone separately")
    add_shard_option(lose.add_argument)
    add("drain", "nodes are drained, as kubectl drain does").add_argument("names", nargs="+", metavar="NODE")
    upgrade = add("upgrade", "each node is drained, replaced and uncordoned in turn")
    upgrade.add_argument("--pool", default="", metavar="LABEL=VALUE", help="upgrade only nodes with these labels")
    told = "number of nodes upgraded at the same time (default: 1)"
    upgrade.add_argument("--max-unavailable", type=whole(1, 100_000), default=1, metavar="N", help=told)
    told = "time until a drained node returns (default: 2m)"
    upgrade.add_argument("--away", type=simulated_time, default=120.0, metavar="DURATION", help=told)
    scale = add("scale", "the number of replicas of a workload changes")
    scale.add_argument("name", metavar="KIND/NAME")
    scale.add_argument("replicas", type=whole(0, MOST_VALUE), metavar="N")
    _class(add("class", "a PriorityClass is created, changed or deleted"))
    for name, told in (("apply", "manifests are applied"), ("delete", "the objects of manifests are deleted")):
        add(name, told).add_argument("-f", "--filename", action="append", required=True, metavar="FILE", help=_FILE)
    events = add("events", "several events at different times")
    events.add_argument("-f", "--filename", action="append", default=[], metavar="FILE", help=f"{_FILE}, at time 0")
    told = "list of `{at, create|update|delete|scale|cordon|drain|lost}`"
    events.add_argument("--events", metavar="FILE", help=told)
    add_runs_options(events.add_argument)
    for name, told in (
        ("pressure", "a node runs out of memory or disk"),
        ("merge", "combine the parts of a divided run"),
    ):
        kinds.add_parser(name, help=told)  # for the list alone: policies.cli runs them
    return parser


_FILE: Final = "manifest (file or directory, repeatable)"


def _class(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("name", nargs="?", metavar="NAME")
    add("--value", type=whole(-(2**31), MOST_VALUE), metavar="N", help="new value; a missing PriorityClass is created")
    add("--default", action="store_true", help="make the PriorityClass the global default")
    add("--delete", action="store_true", help="delete the PriorityClass")
    add("--preemption-policy", choices=("PreemptLowerPriority", "Never"), help="new preemptionPolicy")
    add("--each", action="store_true", help="delete each PriorityClass separately")
    add_shard_option(add)
    told = "manifest to apply after the change (default: restart all workloads whose Pods change priority)"
    add("-f", "--filename", action="append", default=[], metavar="FILE", help=told)
