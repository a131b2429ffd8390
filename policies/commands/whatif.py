"""`forewarn whatif`: what a lost zone, a drained node, a changed class comes to."""

from __future__ import annotations

import argparse
import sys
from functools import partial
from typing import TYPE_CHECKING, Final

from policies.commands.autoscaling import add_autoscaling_options, autoscaling_of, recreated_by
from policies.commands.cluster_command import add_cluster_option, add_color_option, answered, options_with_cluster
from policies.commands.parser import Parser
from policies.commands.places import Places
from policies.commands.release import add_release_options, release_of, settle
from policies.commands.shards import shard_given
from policies.commands.simulate import DEFAULT_UNTIL, MOST_UNTIL, applied, simulated_until, watched, world_with
from policies.commands.sweep import HAPPENINGS, add_sweep_options, answer_sweep
from policies.sources import load_cluster
from policies.terminal import as_json, as_markdown, clean, columns, painter, wants_color
from policies.whatif import EVERY

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from policies.releases import Release
    from policies.simulation.dump import DumpCache
    from policies.simulation.scenario import Arrival
    from policies.whatif.autoscalers import Autoscaling
    from policies.whatif.class_change import ClassChange
    from policies.whatif.comparison import Answer
    from policies.whatif.questions import Question

OK, FOUND, USAGE, FAILED = range(4)
FORMATS: Final = ("text", "json", "markdown", "html", "svg")
DRAWN: Final = ("html", "svg")
"""Formats for which a run is watched node by node."""
SETTLED: Final = "counts are those of the whole rollout, when it has settled; `lint` and `preempt` predict before that"
"""The basis of the counts of `whatif apply`."""
MOST_VALUE: Final = 2**31 - 1


def main(arguments: Sequence[str]) -> int:
    """Run the command; returns the exit status: 0 answered, 1 --fail-on was met, 2 usage, 3 not done."""
    parser = _parser()
    options = options_with_cluster(parser, arguments)
    if options.what == "class":
        changes = options.value is not None or options.default or bool(options.preemption_policy)
        if not changes and not options.delete:
            parser.error("class: say what changes: --value, --default, --delete or --preemption-policy")
        if changes and options.delete:
            parser.error("class: --delete goes without --value, --default and --preemption-policy")
    release = release_of(options, parser)
    autoscaling, places = autoscaling_of(options, parser), Places()
    if options.what in EVERY:
        shard = shard_given(options, parser)
        return answered("whatif", lambda: answer_sweep(options, release, shard, autoscaling))
    return answered("whatif", lambda: _answer(options, release, autoscaling, places), places)


def _answer(options: argparse.Namespace, release: Release, autoscaling: Autoscaling, places: Places) -> int:
    from policies.simulation.dump import DumpCache, not_simulated
    from policies.whatif.comparison import ask
    from policies.whatif.occupancy import Occupancy

    cache = DumpCache()
    cache.recreated = recreated_by(options)
    load_cluster(*options.cluster, into=cache)
    settle(cache, release)
    question, change = _question(options, cache, places)
    horizon = question.upgrade.horizon if question.upgrade is not None else 0.0
    world = world_with(cache, question.arrivals, options.until or max(DEFAULT_UNTIL, min(horizon, MOST_UNTIL)))
    watch = Occupancy if options.output in DRAWN else None
    with watched() as show:
        answer = ask(question, world, show, watch, autoscaling)
    settled = [SETTLED] if options.what == "apply" else []
    notes = [*not_simulated(cache), *answer.summary.assumes, *settled]
    if options.output in DRAWN:
        sys.stdout.write(_drawn(options.output, answer, change, notes))
    else:
        _print(options, answer, change, notes)
    if options.output == "text":
        sys.stdout.writelines(clean(f"  note: {note}", color=False) + "\n" for note in notes)
    return _status(options, answer)


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
        "zone": lambda: questions.zone_lost(cluster, options.name),
        "pool": lambda: questions.pool_lost(cluster, options.name),
        "drain": lambda: questions.drained(cluster, options.names),
        "upgrade": lambda: questions.upgraded(cluster, options.pool, options.max_unavailable, options.away),
        "scale": lambda: questions.scaled(cluster, options.name, options.replicas, options.namespace),
        "apply": lambda: questions.Question(f"{_named(options)} applied", files()),
        "delete": lambda: questions.deleted(cluster, _named(options), files()),
    }
    return asked[options.what](), None


def _class_question(options: argparse.Namespace, cache: DumpCache, places: Places) -> tuple[Question, ClassChange]:
    from policies.whatif.class_change import Change, apply_change, restarts, title
    from policies.whatif.questions import Question

    asked = Change(options.name, options.value, options.default, options.preemption_policy, options.delete)
    change = apply_change(cache, asked)
    files = [*applied(options.filename, options.namespace, places)]
    told = f"{title(change)}; then {_named(options)} is applied" if files else title(change)
    return Question(told, files or restarts(change)), change


def _named(options: argparse.Namespace) -> str:
    return " and ".join(options.filename)


def _print(options: argparse.Namespace, answer: Answer, change: ClassChange | None, notes: Iterable[str]) -> None:
    if options.output == "json":
        from policies.whatif import class_change
        from policies.whatif.comparison import as_dict

        told = as_dict(answer) | ({"classChange": class_change.as_dict(change)} if change else {})
        told |= {"basis": "settled"} if options.what == "apply" else {}
        sys.stdout.write(as_json(told))
        return
    from policies.render import whatif

    if options.output == "markdown":
        sys.stdout.write(as_markdown(whatif.markdown(answer, change, notes)))
        return
    color = wants_color(options.color, sys.stdout)
    sys.stdout.writelines(clean(line, color) + "\n" for line in whatif.render(answer, change, painter(color)))


def _happens(answer: Answer) -> Iterator[str]:
    if any(standing.missed for standing in answer.standings):
        yield "fewer"
    if any(standing.pending > standing.pending_before for standing in answer.standings):
        yield "pending"
    if answer.pushes:
        yield "preemption"
    if answer.budgets or answer.summary.broken_budgets:
        yield "budget"
    if answer.blocked:
        yield "blocked"


def _count(least: int, most: int, text: str) -> int:
    try:
        number = int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be a whole number, not {text!r}") from None
    if not least <= number <= most:
        raise argparse.ArgumentTypeError(f"must be between {least} and {most}")
    return number


def _common(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add_cluster_option(add)
    add_release_options(add)
    stop = "when to stop: 90s, 5m (default 1h; for upgrade as long as each node takes, and 10m)"
    add("--until", type=simulated_until, metavar="DURATION", help=stop)
    add("-n", "--namespace", default="default", help="namespace of what is named without one (default: default)")
    add("-o", "--output", choices=FORMATS, default="text", help="default: text")
    add(
        "--fail-on",
        action="append",
        choices=(*HAPPENINGS, "blocked"),
        default=[],
        help="exit with 1 when this happens; blocked: a node is not drained or upgraded",
    )
    add_autoscaling_options(add)
    add_color_option(add)


def _parser() -> argparse.ArgumentParser:
    shape = partial(argparse.HelpFormatter, width=columns())
    parser = Parser(
        prog="forewarn whatif",
        formatter_class=shape,
        description="Say what a cluster comes to if something happens: the state after it has settled against the state"
        " before, who waits, who was pushed out by whom.",
        epilog="Exit status: 0 an answer was given, 1 --fail-on was met, 2 wrong usage, 3 could not do the job.",
    )
    kinds = parser.add_subparsers(dest="what", required=True, metavar="WHAT")

    def add(name: str, told: str) -> Parser:
        sub = kinds.add_parser(name, help=told, description=told[0].upper() + told[1:] + ".", formatter_class=shape)
        _common(sub)
        return sub

    add("node", "nodes are lost").add_argument("names", nargs="+", metavar="NODE")
    add("zone", "all nodes of a zone are lost").add_argument("name", metavar="ZONE")
    add("pool", "all nodes with these labels are lost").add_argument("name", metavar="KEY=VALUE[,KEY=VALUE]")
    add("drain", "nodes are drained, as kubectl drain does").add_argument("names", nargs="+", metavar="NODE")
    upgrade = add("upgrade", "each node is drained, replaced and taken back, one after the other")
    upgrade.add_argument("--pool", default="", metavar="KEY=VALUE", help="only nodes with these labels")
    upgrade.add_argument(
        "--max-unavailable", type=partial(_count, 1, 100_000), default=1, metavar="N", help="at a time"
    )
    upgrade.add_argument(
        "--away",
        type=simulated_until,
        default=120.0,
        metavar="DURATION",
        help="until an empty node is back (default 2m)",
    )
    scale = add("scale", "a workload gets another number of replicas")
    scale.add_argument("name", metavar="KIND/NAME")
    scale.add_argument("replicas", type=partial(_count, 0, MOST_VALUE), metavar="N")
    _class(add("class", "a PriorityClass comes, changes or goes"))
    for name, told in EVERY.items():
        sub = kinds.add_parser(name, help=told, description=f"What if {told}, one by one.", formatter_class=shape)
        add_sweep_options(sub)
    for name, told in (("apply", "files are applied"), ("delete", "what files name is deleted")):
        sub = add(name, told)
        sub.add_argument("-f", "--filename", action="append", required=True, metavar="FILE", help="repeatable")
    return parser


def _class(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("name", metavar="NAME")
    add(
        "--value",
        type=partial(_count, -(2**31), MOST_VALUE),
        metavar="N",
        help="its value; it comes where it is not there",
    )
    add("--default", action="store_true", help="it becomes the global default")
    add("--delete", action="store_true", help="it is deleted")
    add("--preemption-policy", choices=("PreemptLowerPriority", "Never"), help="its preemptionPolicy")
    add(
        "-f",
        "--filename",
        action="append",
        default=[],
        metavar="FILE",
        help="what is applied then, instead of restarts",
    )
