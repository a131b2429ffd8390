"""`forewarn simulate`: what becomes of a cluster, one event after the other."""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from policies.commands.autoscaling import add_autoscaling_options, autoscaling_of, recreated_by
from policies.commands.batch import run_batch
from policies.commands.cluster_command import add_cluster_option, add_color_option, answered, need_cluster
from policies.commands.parser import Parser
from policies.commands.places import Places
from policies.commands.release import add_release_options, release_of, settle
from policies.findings import listed, plural
from policies.kinds import LIMIT_RANGE, NAMESPACE, NODE, POD_TEMPLATE_PATHS, PRIORITY_CLASS
from policies.minors import RECORDED_MINOR
from policies.objects.fields import group_kind, mapping, ref_of
from policies.semantics import DEFAULT
from policies.sources import SourceError, find_files, load_cluster, read_file
from policies.terminal import as_json, clean, columns, painter, say, wants_color

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from policies.cluster import ClusterSnapshot
    from policies.objects.fields import ApiObject
    from policies.releases import Release
    from policies.semantics import Semantics
    from policies.simulation.dump import DumpCache
    from policies.simulation.scenario import Arrival, World
    from policies.simulation.simulation import Simulation
    from policies.simulation.summary import Summary
    from policies.whatif.autoscalers import Autoscaling

OK, FOUND, USAGE, FAILED = range(4)
BUDGET: Final = "policy/PodDisruptionBudget"
AT_ONCE: Final = (PRIORITY_CLASS, NAMESPACE, LIMIT_RANGE)
"""What counts from time 0 on, whenever it comes: admission asks for it."""
MOST_RUNS: Final = 1000
DEFAULT_UNTIL: Final = 3600.0
"""Seconds."""
MOST_UNTIL: Final = 31 * 86400.0


def main(arguments: Sequence[str]) -> int:
    """Run the command; returns the exit status: 0 answered, 1 --fail-on (or a bad line), 2 usage, 3 not done."""
    parser = _parser()
    options = parser.parse_args(arguments)
    if options.batch:
        if options.cluster or options.filename or options.events:
            parser.error("--batch brings its clusters and arrivals along: leave out -f, --events and --cluster")
        if options.fail_on:
            parser.error("--fail-on goes with -f and --events: each line of a batch has its outcomes")
    else:
        need_cluster(parser, options)
        if not options.filename and not options.events:
            parser.error("give what arrives: -f, --events or both (or --batch)")
    if options.output == "html" and (options.batch or options.runs > 1):
        parser.error("-o html shows one run: leave out --batch and --runs")
    release = release_of(options, parser)
    if options.batch:
        return answered("simulate", lambda: _answer_batch(options, release))
    autoscaling, places = autoscaling_of(options, parser), Places()
    return answered("simulate", lambda: _simulate(options, release, autoscaling, places), places)


def _answer_batch(options: argparse.Namespace, release: Release) -> int:
    from policies.simulation.scenario import is_recording

    semantics, recordings = release.semantics(RECORDED_MINOR), 0

    def answer(case: ApiObject) -> ApiObject:
        nonlocal recordings
        recordings += is_recording(case)
        return answer_case(case, runs=options.runs, seed=options.seed, semantics=semantics)

    status = run_batch(options.batch, answer)
    if recordings:
        what = plural(
            recordings, "recording (`category` without `scalingDown`)", "recordings (`category` without `scalingDown`)"
        )
        say(f"forewarn simulate: {what}: ReplicaSets and StatefulSets delete no Pods in them, unlike in a cluster")
    return status


def _simulate(options: argparse.Namespace, release: Release, autoscaling: Autoscaling, places: Places) -> int:
    """Simulate what files bring to a cluster, and print it."""
    from policies.render.simulation import render
    from policies.simulation.dump import DumpCache, not_simulated
    from policies.simulation.outcomes import explore
    from policies.simulation.simulation import Simulation
    from policies.simulation.summary import summarize
    from policies.whatif.autoscalers import after_simulation

    cache = DumpCache()
    cache.recreated = recreated_by(options)
    settle(load_cluster(*options.cluster, into=cache), release)
    if cache.semantics.unknown:
        raise SourceError("--kubernetes-version", cache.semantics.unknown)
    arrivals = [*applied(options.filename, options.namespace, places), *_events(options.events)]
    world = world_with(cache, arrivals, options.until)
    left_out = [*not_simulated(cache), *passed_over(arrivals), *nowhere(cache.snapshot(), arrivals)]
    if options.output == "html":
        return _page(options, world, left_out, autoscaling)
    with watched() as show:
        outcomes = explore(partial(Simulation, world, progress=show), options.runs, options.seed)
    told = [(outcome, summarize(outcome.simulation)) for outcome in outcomes]
    if options.output == "json":
        finals = {repr(outcome.simulation.final()) for outcome in outcomes}
        entries = [
            {**outcome.to_dict(), "summary": summary.to_dict(), **_autoscaled(outcome.simulation, summary, autoscaling)}
            for outcome, summary in told
        ]
        left_out += outcomes[0].simulation.storage.not_modelled
        notes = {"notes": left_out} if left_out else {}
        sys.stdout.write(as_json({"runs": options.runs, "distinctFinals": len(finals), "outcomes": entries, **notes}))
    else:
        color = wants_color(options.color, sys.stdout)
        scaled = after_simulation(outcomes[0].simulation, autoscaling, told[0][1].names)
        sys.stdout.writelines(clean(line, color) + "\n" for line in render(told, painter(color), scaled))
        first = outcomes[0].simulation
        told_too = [*left_out, *_unread(first), *told[0][1].assumes, *first.storage.not_modelled]
        sys.stdout.writelines(clean(f"  note: {note}", color) + "\n" for note in told_too)
    happens = {name for _, summary in told for name in _happens(summary)}
    return FOUND if happens & set(options.fail_on) else OK


def world_with(cache: DumpCache, arrivals: Sequence[Arrival], until: float) -> World:
    """The world of a dump with what arrives in it. Raises InvalidObject."""
    from policies.simulation.dump import world_of

    for arrival in arrivals:
        if group_kind(arrival.object) in AT_ONCE and arrival.op == "create":
            cache.add(arrival.object)
    return world_of(cache, sorted(arrivals, key=lambda arrival: arrival.at), until=until)


def passed_over(arrivals: Iterable[Arrival]) -> Iterator[str]:
    """What is asked for and plays no part, a sentence for each kind of change."""
    changes = Counter(
        (group_kind(arrival.object).rpartition("/")[2], arrival.op)
        for arrival in arrivals
        if group_kind(arrival.object) in AT_ONCE and arrival.op != "create"
    )
    for (kind, operation), count in sorted(changes.items()):
        what = f"{operation}s of {kind}" if count > 1 else f"{operation} of a {kind}"
        yield f"{count} {what} passed over: what is there counts from the beginning to the end"


def nowhere(cluster: ClusterSnapshot, arrivals: Iterable[Arrival]) -> Iterator[str]:
    """A sentence on events about what is neither in the cluster nor made by an event before."""
    from policies.whatif.questions import is_there

    made, missing = set[tuple[str, str, str]](), list[str]()
    for arrival in sorted(arrivals, key=lambda arrival: arrival.at):
        kind, ref = group_kind(arrival.object), ref_of(arrival.object, "default")
        key = kind, ref.namespace, ref.name
        if arrival.op == "create":
            made.add(key)
        elif kind not in AT_ONCE and key not in made and not is_there(cluster, *key):
            named = f"node {ref.name}" if kind == NODE else f"{ref.kind} {ref.namespace}/{ref.name}"
            missing.append(f"{'loss' if arrival.op == 'lost' else arrival.op} of {named}")
    if missing:
        events = "1 event names" if len(missing) == 1 else f"{len(missing)} events name"
        yield f"{events} what is not in the cluster, and nothing comes of that: {listed(missing)}"


def aftermath(cache: DumpCache, paths: Sequence[str], namespace: str, places: Places) -> Iterator[str]:
    """What comes of it when these files are applied, line by line. Raises SourceError, InvalidObject and ValueError."""
    from policies.render.simulation import ending, settled
    from policies.simulation.simulation import Simulation
    from policies.simulation.summary import summarize

    simulation = Simulation(world_with(cache, [*applied(paths, namespace, places)], DEFAULT_UNTIL))
    simulation.run()
    summary = summarize(simulation)
    yield f"aftermath: {settled(summary)}"
    yield from (f"  {line}" for line in ending(summary))
    yield from (f"  note: {line}" for line in (*summary.assumes, *simulation.storage.not_modelled))


def _autoscaled(simulation: Simulation, summary: Summary, autoscaling: Autoscaling) -> dict[str, Any]:
    """What autoscalers would make of the pods that wait in the end; nothing where none waits."""
    from policies.whatif.autoscalers import after_simulation, as_dict

    found = after_simulation(simulation, autoscaling, summary.names)
    return {"autoscalers": as_dict(found)} if found.cluster_autoscaler.pending else {}


def _page(options: argparse.Namespace, world: World, notes: Iterable[str], autoscaling: Autoscaling) -> int:
    """Print the page of the run."""
    from policies.render import html
    from policies.whatif.comparison import ask
    from policies.whatif.occupancy import Occupancy
    from policies.whatif.questions import Question

    applied_files = [f"{' and '.join(options.filename)} applied"] if options.filename else []
    title = ", ".join([*applied_files, *([f"events of {options.events}"] if options.events else [])])
    with watched() as show:
        answer = ask(Question(title, world.arrivals), world, show, Occupancy, autoscaling)
    sys.stdout.write(html.page(answer, notes=[*notes, *answer.summary.assumes]))
    return FOUND if set(_happens(answer.summary)) & set(options.fail_on) else OK


def _happens(summary: Summary) -> Iterator[str]:
    if summary.evictions:
        yield "preemption"
    if any(waiting.pods > waiting.before for waiting in summary.waiting):
        yield "pending"


def _unread(simulation: Simulation) -> Iterator[str]:
    for _, problem in sorted(simulation.controllers.unreadable.items()):
        yield f"nothing is done for {problem}"


def applied(paths: Sequence[str], namespace: str, places: Places) -> Iterator[Arrival]:
    """The objects of files and directories, as one apply at time 0 brings them. `places` learns where they stand.

    Raises SourceError, and InvalidObject where no pod could be made of a template.
    """
    from policies.controllers.new_pods import check_template
    from policies.manifests import read
    from policies.simulation.scenario import Arrival, bounded

    wanted = frozenset(("/Pod", "/Node", BUDGET, *AT_ONCE, *POD_TEMPLATE_PATHS))
    for path in paths:
        found = False
        for file in find_files([path]):
            reading = read(read_file(file), file.name, wanted, namespace=namespace)
            for diagnostic in reading.diagnostics:
                if diagnostic.rule in ("parse-error", "template-braces"):
                    raise SourceError(diagnostic.location.file, diagnostic.message, diagnostic.location.line)
            for subject in reading.subjects:
                found = True
                places.add(subject)
                check_template(subject.object)
                names = {"name": subject.ref.name}
                if subject.ref.namespace:
                    names["namespace"] = subject.ref.namespace
                metadata = {**mapping(subject.object, "metadata"), **names}
                yield Arrival(0.0, "create", bounded({**subject.object, "metadata": metadata}))
        if not found:
            raise SourceError(path, "nothing in it that could be simulated")


def _events(path: str | None) -> Iterator[Arrival]:
    """The events of a file. Raises SourceError."""
    from policies.config.document import place_of_entry
    from policies.manifests import Fault, values
    from policies.simulation.events_file import MOST_BYTES, EntryFault, read_events

    if path is None:
        return
    name = "<stdin>" if path == "-" else path
    data = read_file(path, MOST_BYTES)
    if len(data) > MOST_BYTES:
        raise SourceError(name, f"more than {MOST_BYTES // 2**20} MiB: so many events are not simulated")
    found = False
    try:
        for event in read_events(value for value, _ in values(data, name)):
            found = True
            yield event
    except Fault as fault:
        raise SourceError(name, fault.message, fault.start) from None
    except EntryFault as fault:
        raise SourceError(name, str(fault), *place_of_entry(data, fault.number)) from None
    except ValueError as fault:
        raise SourceError(name, str(fault)) from None
    if not found:
        raise SourceError(name, "no event in it: a list of `{at, create|update|delete|scale|cordon|drain|lost}`")


@contextmanager
def watched() -> Iterator[Callable[[float, int], None] | None]:
    """What says on a terminal how far a run is; that line is wiped at the end."""
    if not sys.stderr.isatty():
        yield None
        return

    def show(seconds: float, steps: int) -> None:
        sys.stderr.write(f"\r\033[K{max(seconds, 0.0):.0f} s simulated, {steps:,} steps")
        sys.stderr.flush()

    try:
        yield show
    finally:
        sys.stderr.write("\r\033[K")
        sys.stderr.flush()


def answer_case(case: ApiObject, *, runs: int = 1, seed: int = 0, semantics: Semantics = DEFAULT) -> ApiObject:
    """The answer to one scenario, as recordings have it. Raises InvalidObject and ValueError."""
    from policies.simulation.outcomes import explore
    from policies.simulation.scenario import read_scenario
    from policies.simulation.simulation import Simulation

    world = read_scenario(case, semantics)
    outcomes = explore(partial(Simulation, world), runs, seed)
    finals = {repr(outcome.simulation.final()) for outcome in outcomes}
    category = {"category": case["category"]} if "category" in case else {}
    answer = {"runs": runs, "distinctFinals": len(finals), "outcomes": [outcome.to_dict() for outcome in outcomes]}
    return {**category, **answer}


def _runs(text: str) -> int:
    number = int(text)
    if not 1 <= number <= MOST_RUNS:
        raise argparse.ArgumentTypeError(f"must be between 1 and {MOST_RUNS}")
    return number


def simulated_until(text: str) -> float:
    """Seconds, or `90s`, `5m`, `1h`. Raises argparse.ArgumentTypeError."""
    from policies.simulation.events_file import seconds

    try:
        until = seconds(int(text) if text.isdecimal() and len(text) < 10 else text, "--until")
    except ValueError as fault:
        raise argparse.ArgumentTypeError(str(fault)) from None
    if until > MOST_UNTIL:
        raise argparse.ArgumentTypeError(f"must be {MOST_UNTIL / 3600:.0f}h (31 days) at most")
    return until


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="forewarn simulate",
        description="Say what becomes of a cluster, one event after the other: who is pushed out, where replacements"
        " go, who stays pending.",
        epilog="Exit status: 0 an answer was given, 1 --fail-on was met or a line of a batch is malformed, "
        "2 wrong usage, 3 could not do the job.",
        formatter_class=partial(argparse.HelpFormatter, width=columns()),
    )
    add = parser.add_argument
    add("-f", "--filename", action="append", default=[], metavar="FILE", help="what is applied at time 0 (repeatable)")
    add(
        "--events",
        metavar="FILE",
        help="what happens when: a list of `{at, create|update|delete|scale|cordon|drain|lost}`",
    )
    add_cluster_option(add)
    add(
        "--until",
        type=simulated_until,
        default=DEFAULT_UNTIL,
        metavar="DURATION",
        help="when to stop: 90s, 5m (default 1h)",
    )
    add("-n", "--namespace", default="default", help="namespace of objects without one (default: default)")
    add("-o", "--output", choices=("text", "json", "html"), default="text", help="default: text")
    happenings = ("preemption", "pending")
    add("--fail-on", action="append", choices=happenings, default=[], help="exit with 1 when this happens to a pod")
    add_autoscaling_options(add)
    add_color_option(add)
    add("--batch", metavar="FILE", help="scenarios as JSON lines (.gz too; -: standard input), answered likewise")
    add(
        "--runs",
        metavar="N",
        type=_runs,
        default=1,
        help="explore ties and races in so many runs, the first of them with fixed latencies (default 1)",
    )
    add("--seed", metavar="N", type=int, default=0, help="of the dice of --runs (default 0)")
    add_release_options(add)
    return parser
