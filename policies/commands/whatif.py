"""`forewarn whatif`: simulate a change, and compare the cluster before and after it."""

from __future__ import annotations

import sys
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from forewarn.policies.application.places import Places
from forewarn.policies.application.simulated import (
    DEFAULT_UNTIL,
    MAX_UNTIL,
    admit_at_once,
    applied,
    events_of,
    events_without_effect,
    passed_over,
    rejected,
    world_with,
)
from forewarn.policies.commands.autoscaling import autoscaling_of, recreated_by, with_node_groups
from forewarn.policies.commands.cluster_command import (
    answered,
    loaded,
    options_with_cluster,
    require_nodes,
    status_of_conditions,
)
from forewarn.policies.commands.release import release_of, settle
from forewarn.policies.commands.shards import shard_given
from forewarn.policies.commands.simulated import watched
from forewarn.policies.commands.sweep import FORMATS as SWEEP_FORMATS
from forewarn.policies.commands.sweep import answer_sweep
from forewarn.policies.commands.whatif_options import SCOPES, argument_parser
from forewarn.policies.findings import listed, plural
from forewarn.policies.kinds.registry import NODE, POD_TEMPLATE_PATHS
from forewarn.policies.objects.fields import group_kind, ref_of
from forewarn.policies.sources import SourceError
from forewarn.policies.terminal import as_json, as_markdown, clean, complain, painter, wants_color

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from forewarn.policies.cluster.answer_head import AnswerHead
    from forewarn.policies.cluster.cache import ClusterSnapshot
    from forewarn.policies.releases.release import Release
    from forewarn.policies.simulation.dump import DumpCache
    from forewarn.policies.simulation.outcomes import Outcome
    from forewarn.policies.simulation.scenario import Arrival, World
    from forewarn.policies.simulation.summary import Summary
    from forewarn.policies.whatif.answer import Answer
    from forewarn.policies.whatif.autoscalers import Autoscaling
    from forewarn.policies.whatif.class_change import ClassChange
    from forewarn.policies.whatif.questions import Question

OK, FOUND, USAGE, FAILED = range(4)
DRAWN: Final = ("html", "svg")
"""Output formats with a picture of the nodes over time."""
SETTLED: Final = "counts cover the whole rollout at its end; `lint` and `predict` evaluate its start"
"""The note about the basis of the counts of `whatif apply`."""
_A_DAY: Final = 86_400.0
"""Default duration of simulated DaemonSet rollouts in seconds: a DaemonSet replaces its Pods node by node."""


def main(arguments: Sequence[str]) -> int:
    """Run the command; returns 0, 1 if a condition of --fail-on is met, 2 for wrong usage, or 3 without a result."""
    options = options_with_cluster(argument_parser(), arguments)
    parser = options.own
    check(options, parser)
    release = release_of(options, parser)
    autoscaling, places = autoscaling_of(options, parser), Places()
    if getattr(options, "each", None):
        shard = shard_given(options, parser)
        options.until = options.until or DEFAULT_UNTIL
        return answered("whatif", options, lambda: answer_sweep(options, release, shard, autoscaling))
    return answered("whatif", options, lambda: _answer(options, release, autoscaling, places), places)


def check(options: argparse.Namespace, parser: argparse.ArgumentParser) -> None:
    """Exit if options cannot be combined."""
    if options.what == "lose":
        _check_loss(options, parser)
    if options.what == "class":
        _check_class(options, parser)
    if options.what == "upgrade" and options.max_surge and options.max_unavailable:
        parser.error("give --max-surge or --max-unavailable")
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
        usage = ", ".join(f"{scope} {each.upper()}" for scope, each in (("node", "name…"), ("zone", "name")))
        parser.error(f"name what is lost: {usage}, pool LABEL=VALUE, or --each node|zone")
    if options.scope != "node" and len(options.names) > 1:
        parser.error(f"name {SCOPES[options.scope]}")


def _check_class(options: argparse.Namespace, parser: argparse.ArgumentParser) -> None:
    changes = options.value is not None or options.default or bool(options.preemption_policy)
    if not changes and not options.delete and not options.workloads:
        parser.error("give --value, --default, --delete, --preemption-policy or --workloads")
    elif options.delete and (changes or options.workloads):
        parser.error("--delete goes without --value, --default, --preemption-policy and --workloads")
    elif options.workloads and options.filename:
        parser.error("give --workloads or -f")


class Simulated(NamedTuple):
    """The result of a simulation. `change`: a simulated change of PriorityClasses; None for other changes. `notes`:
    about parts that are not simulated. `faults`: errors of rejected objects.
    """

    head: AnswerHead

    answer: Answer
    change: ClassChange | None
    notes: Sequence[str]
    world: World
    faults: Sequence[Exception]


def _answer(options: argparse.Namespace, release: Release, autoscaling: Autoscaling, places: Places) -> int:
    from forewarn.policies.simulation.dump import DumpCache

    cache = DumpCache()
    cache.recreated = recreated_by(options)
    loaded(options, cache)
    settle(cache, release)
    autoscaling = with_node_groups(autoscaling, options, cache)
    with watched() as show:
        head, answer, change, notes, world, faults = simulate(options, cache, autoscaling, places, show)
    if options.output in DRAWN:
        sys.stdout.write(_drawn(options.output, head, answer, change, notes))
    else:
        _print(options, head, answer, change, notes, _explored(options, world, answer))
    return FAILED if faults else status_of_conditions({*_happens(answer)}, options.fail_on)


def simulate(
    options: argparse.Namespace,
    cache: DumpCache,
    autoscaling: Autoscaling,
    places: Places,
    show: Callable[[float, int], None] | None = None,
) -> Simulated:
    """Simulate the change that the options describe, and return the result. Changes the cache.

    `show`: called with simulated seconds and steps. Raises SourceError, InvalidObject and ValueError.
    """
    from forewarn.policies.cluster.answer_head import head_of
    from forewarn.policies.simulation.dump import not_simulated
    from forewarn.policies.whatif.arrivals import with_new_nodes
    from forewarn.policies.whatif.comparison import ask, typical
    from forewarn.policies.whatif.occupancy import Occupancy

    if cache.semantics.unknown:
        raise SourceError("--kubernetes-version", cache.semantics.unknown)
    question, change = _question(options, cache, places, autoscaling)
    if not autoscaling.groups and all(group_kind(arrival.object) != NODE for arrival in question.arrivals):
        require_nodes(cache.snapshot())
    question, faults = _without_rejected(question, cache, places)
    omitted = [*passed_over(question.arrivals), *events_without_effect(cache.snapshot(), question.arrivals)]
    omitted += [f"not simulated: {fault}" for fault in faults if options.output != "text"]
    horizon = question.upgrade.horizon if question.upgrade is not None else 0.0
    horizon = _A_DAY if options.what == "restart" else horizon
    world = world_with(cache, question.arrivals, options.until or max(DEFAULT_UNTIL, min(horizon, MAX_UNTIL)))
    watch = Occupancy if options.output in DRAWN else None
    answer = (ask if getattr(options, "runs", 1) > 1 else typical)(question, world, show, watch, autoscaling)
    answer = answer._replace(arrived=with_new_nodes(answer, world, autoscaling.after(question.lost)))
    settled = [SETTLED] if options.what == "apply" else []
    notes = [*not_simulated(cache), *omitted, *settled]
    return Simulated(head_of(cache.snapshot(), answer.summary.assumes), answer, change, notes, world, faults)


def _without_rejected(question: Question, cache: DumpCache, places: Places) -> tuple[Question, list[Exception]]:
    """Return the question without PriorityClasses that kube-apiserver rejects and objects whose Pods admission rejects
    because of their PriorityClass, and the errors.

    Adds created objects that admission reads to `cache` (`admit_at_once`). `places`: adds file positions to errors.
    Prints the errors. If no object is left, raises the last error instead of printing it.
    """
    found = admit_at_once(cache, question.arrivals)
    found += rejected(cache.snapshot(), question.arrivals)
    faults, objects = [places.located(fault) for _, fault in found], [arrival for arrival, _ in found]
    left = [arrival for arrival in question.arrivals if arrival not in objects]
    for fault in faults if left else faults[:-1]:
        complain("whatif", fault, FAILED)
    if faults and not left:
        raise faults[-1]
    without = f" without {listed([str(ref_of(each.object)) for each in objects])}" if objects else ""
    return question._replace(title=f"{question.title}{without}", arrivals=left), faults


def _drawn(form: str, head: AnswerHead, answer: Answer, change: ClassChange | None, notes: Iterable[str]) -> str:
    if form == "svg":
        from forewarn.policies.render.node_picture import picture

        return picture(answer)
    from forewarn.policies.render import html
    from forewarn.policies.render.head import on_page

    return on_page(html.report(answer, change, notes), head).document()


def _question(
    options: argparse.Namespace, cache: DumpCache, places: Places, autoscaling: Autoscaling
) -> tuple[Question, ClassChange | None]:
    from forewarn.policies.whatif import questions

    cluster = cache.snapshot()
    if options.what == "class":
        return _class_question(options, cache, places)

    def files() -> list[Arrival]:
        return [*applied(options.filename, options.namespace, places)]

    questions_by_name: dict[str, Callable[[], Question]] = {
        "node": lambda: questions.nodes_lost(cluster, options.names),
        "zone": lambda: questions.zone_lost(cluster, options.names[0]),
        "pool": lambda: questions.pool_lost(cluster, options.names[0]),
        "drain": lambda: questions.drained(cluster, options.names),
        "upgrade": lambda: _upgrade(options, cluster),
        "add": lambda: questions.added(cluster, options.scope, options.name, options.count, autoscaling.groups),
        "restart": lambda: questions.restart(cluster, options.name, options.namespace),
        "scale": lambda: questions.scaled(cluster, options.name, options.replicas, options.namespace),
        "apply": lambda: questions.Question(f"{_named(options)} applied", files()),
        "delete": lambda: questions.deleted(cluster, _named(options), files()),
        "events": lambda: questions.Question(_events_title(options), _events(options, cluster, files())),
    }
    return questions_by_name[options.scope if options.what == "lose" else options.what](), None


def _upgrade(options: argparse.Namespace, cluster: ClusterSnapshot) -> Question:
    from forewarn.policies.whatif.questions import upgraded

    most, surge = options.max_surge or options.max_unavailable or 1, bool(options.max_surge)
    return upgraded(cluster, options.pool, most, options.away, surge=surge, force=options.drain_timeout)


def _events(options: argparse.Namespace, cluster: ClusterSnapshot, files: Sequence[Arrival]) -> list[Arrival]:
    return [*files, *(events_of(options.events, cluster, files) if options.events else ())]


def _events_title(options: argparse.Namespace) -> str:
    titles = [f"{_named(options)} applied"] if options.filename else []
    return ", ".join([*titles, *([f"events of {options.events}"] if options.events else [])])


def _class_question(options: argparse.Namespace, cache: DumpCache, places: Places) -> tuple[Question, ClassChange]:
    from forewarn.policies.whatif.class_change import Change, apply_change, effect_of, restarts, title, with_class
    from forewarn.policies.whatif.class_change import workload_key as key_of
    from forewarn.policies.whatif.questions import Question, workloads_of

    before = cache.snapshot()
    chosen = workloads_of(before, options.workloads, options.namespace)
    apply_change(cache, Change(options.name, options.value, options.default, options.preemption_policy, options.delete))
    files = [*applied(options.filename, options.namespace, places)]
    admit_at_once(cache, files)
    given = [arrival.object for arrival in files if group_kind(arrival.object) in POD_TEMPLATE_PATHS]
    templates = {key_of(obj): obj for obj in given or (with_class(obj, options.name) for obj in chosen)}
    change = effect_of(before, cache.snapshot(), options.name, templates)
    heading = f"{title(change)}; then {_named(options)} applied" if files else title(change)
    heading += f"; {plural(len(chosen), 'workload')} of {listed(options.workloads)} with this class" if chosen else ""
    return Question(heading, files or restarts(change)), change._replace(restarted=not files)


def _named(options: argparse.Namespace) -> str:
    return " and ".join(options.filename)


def _print(
    options: argparse.Namespace,
    head: AnswerHead,
    answer: Answer,
    change: ClassChange | None,
    notes: Sequence[str],
    outcomes: Sequence[tuple[Outcome, Summary]],
) -> None:
    if options.output == "json":
        sys.stdout.write(as_json(as_document(options, head, answer, change, notes, outcomes)))
        return
    from forewarn.policies.render import whatif
    from forewarn.policies.render.head import after_verdict, below_title

    if options.output == "markdown":
        sys.stdout.write(as_markdown(below_title(whatif.markdown(answer, change, notes), head)))
        return
    color = wants_color(options.color, sys.stdout)
    if options.timeline:
        from forewarn.policies.render.simulation import timeline

        lines = timeline(answer.simulation, painter(color))
        sys.stdout.writelines(clean(line, color) + "\n" for line in lines)
    lines = after_verdict(whatif.render(answer, change, painter(color)), head)
    sys.stdout.writelines(clean(line, color) + "\n" for line in lines)
    if len(outcomes) > 1:
        from forewarn.policies.render.simulation import odds

        sys.stdout.writelines(clean(f"  {line}", color) + "\n" for line in odds(outcomes, painter(color)))
    sys.stdout.writelines(clean(f"  note: {note}", color=False) + "\n" for note in notes)


def as_document(
    options: argparse.Namespace,
    head: AnswerHead,
    answer: Answer,
    change: ClassChange | None,
    notes: Sequence[str],
    outcomes: Sequence[tuple[Outcome, Summary]] = (),
) -> dict[str, Any]:
    """Return the JSON document of `-o json`. `outcomes`: of several runs with random ties."""
    from forewarn.policies.render.head import headed
    from forewarn.policies.whatif import class_change
    from forewarn.policies.whatif.answer import as_dict

    document = as_dict(answer) | ({"classChange": class_change.as_dict(change)} if change else {})
    document |= {"basis": "settled"} if options.what == "apply" else {}
    document |= {"timeline": answer.simulation.outcome()["timeline"]} if options.timeline else {}
    if outcomes:
        entries = [{**outcome.to_dict(), "summary": summary.to_dict()} for outcome, summary in outcomes]
        document |= {"runs": options.runs, "seed": options.seed, "outcomes": entries}
    return headed(document | {"notes": list(notes)}, head)


def _explored(options: argparse.Namespace, world: World, answer: Answer) -> list[tuple[Outcome, Summary]]:
    """Return the outcomes of the runs of `whatif events`, that of `answer` first; empty for other changes."""
    from forewarn.policies.simulation.outcomes import Outcome, explore
    from forewarn.policies.simulation.simulation import Simulation
    from forewarn.policies.simulation.summary import summarize

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
    if answer.preemptions:
        yield "preemption"
    forced = answer.upgrade is not None and answer.upgrade.forced
    if answer.pdbs or answer.summary.violated_pdbs or forced:
        yield "pdb"
    if answer.blocked:
        yield "blocked"
