"""`forewarn whatif every-node`, `every-zone`, `every-class`: one question of each, on all cores, or a part of them."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Final

from policies.commands.autoscaling import add_autoscaling_options, recreated_by
from policies.commands.cluster_command import add_cluster_option, add_color_option
from policies.commands.release import add_release_options, settle
from policies.commands.shards import add_output_option, add_shard_option, asked_of, digest_of, marked
from policies.commands.simulate import simulated_until, world_with
from policies.config.document import contents
from policies.objects.fields import InvalidObject
from policies.sources import load_cluster
from policies.terminal import as_json, as_markdown, clean, painter, progress, wants_color

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from policies.commands.shards import Output, Shard
    from policies.releases import Release
    from policies.simulation.dump import DumpCache
    from policies.simulation.simulation import Simulation
    from policies.whatif.autoscalers import Autoscaling
    from policies.whatif.sweep import Sweep, Tally

OK, FOUND, USAGE, FAILED = range(4)
FORMATS: Final = ("text", "json", "markdown", "html")
HAPPENINGS: Final = ("fewer", "pending", "preemption", "budget")
_NOTHING: Final = "nothing"
"""The question what happens anyway."""
_MOST_NOTES: Final = 10


def add_sweep_options(parser: argparse.ArgumentParser) -> None:
    """What the three have in common."""
    add = parser.add_argument
    add_cluster_option(add)
    add_release_options(add)
    add("--until", type=simulated_until, default=3600.0, metavar="DURATION", help="when each is stopped (default 1h)")
    add_shard_option(add)
    add_output_option(add, FORMATS)
    add_fail_on(add)
    add_autoscaling_options(add)
    add_color_option(add)


def add_fail_on(add: Callable[..., object]) -> None:
    """Add `--fail-on` by a parser's `add_argument`."""
    told = "exit with 1 when this happens in any of them"
    add("--fail-on", action="append", choices=HAPPENINGS, default=[], help=told)


def answer_sweep(options: argparse.Namespace, release: Release, shard: Shard | None, autoscaling: Autoscaling) -> int:
    """Ask it and print it; the exit status. Raises SourceError, InvalidObject and ValueError."""
    from policies.commands.digested_cache import DigestedCache
    from policies.scheduling.missing_lists import assumptions
    from policies.simulation.dump import DumpCache, not_simulated
    from policies.whatif.sweep import as_dict

    cache = DigestedCache() if shard else DumpCache()
    cache.recreated = recreated_by(options)
    load_cluster(*options.cluster, into=cache)
    settle(cache, release)
    names = names_of(options.what, cache)
    if not names:
        raise InvalidObject(f"the cluster has no {_KINDS[options.what]}: there is nothing to ask")
    part = shard.part_of(names) if shard else names
    sweep = swept(options.what, cache, part, options.until, autoscaling)
    there, victims = cache.snapshot(), any(row.pushed_out or row.budgets for row in sweep.rows)
    running = (pod for pod in there.pods.values() if pod.node_name)
    assumed = assumptions(there.objects, running, victims=victims)
    sweep = sweep._replace(notes=[*not_simulated(cache), *assumed, *sweep.notes])
    if isinstance(cache, DigestedCache) and shard is not None:
        asked = asked_of(options.what, options, cache) | _asked_of_groups(options, autoscaling)
        told = marked(as_dict(sweep), shard, len(names), cache.digest, asked)
        options.output.write(as_json(told))
        return OK  # whether anything has happened is asked of the whole
    write_sweep(sweep, options.output, options.color)
    return status_of(sweep, options.fail_on)


_KINDS: Final = {"every-node": "nodes", "every-zone": "zones", "every-class": "PriorityClasses of its own"}


def names_of(kind: str, cache: DumpCache) -> list[str]:
    """Of what there is a question each: `node a-1`."""
    return list(_asked(kind, cache))


def _asked(kind: str, cache: DumpCache) -> dict[str, Any]:
    from policies.objects.priority_class import SYSTEM_CLASSES
    from policies.whatif import questions

    cluster = cache.snapshot()
    if kind == "every-class":
        own = {each.name for each in SYSTEM_CLASSES}
        return {f"class {name}": name for name in sorted(cluster.priority_classes) if name not in own}
    asked = questions.each_node_lost if kind == "every-node" else questions.each_zone_lost
    return {question.title: question for question in asked(cluster)}


def swept(kind: str, cache: DumpCache, names: Sequence[str], until: float, autoscaling: Autoscaling) -> Sweep:
    """What those of these names come to. Raises InvalidObject and ValueError."""
    from policies.commands.losses import counted
    from policies.whatif.comparison import at_rest
    from policies.whatif.questions import Question
    from policies.whatif.sweep import Sweep, Tally, row_of, worst_first

    asked, tallies = _asked(kind, cache), list[Tally]()
    world = world_with(cache, [], until)

    def counting(simulation: Simulation) -> Tally:
        tallies.append(Tally(simulation, autoscaling))
        return tallies[0]

    losses = [] if kind == "every-class" else [asked[name] for name in names]
    found = counted(world, [Question(_NOTHING), *losses], counting)
    anyway = row_of(_NOTHING, next(iter(found)))
    if kind == "every-class":
        found = _of_classes(cache, [asked[name] for name in names], until, autoscaling)
    counts = list(_watched(found, len(names)))
    rows = [row_of(name, told) for name, told in zip(names, counts, strict=True)]
    notes = list(dict.fromkeys(note for told in counts for note in told["not_modelled"]))[:_MOST_NOTES]
    (tally,) = tallies
    nothing_else = at_rest(world) and not (anyway.fewer or anyway.pushed_out or anyway.pending)
    return Sweep(kind, tally.running, tally.pending, worst_first(rows), None if nothing_else else anyway, notes)


def _asked_of_groups(options: argparse.Namespace, autoscaling: Autoscaling) -> dict[str, Any]:
    """What makes rows that say which nodes are needed those of one run."""
    if not options.node_templates:
        return {}
    groups = digest_of(contents(options.node_templates))
    return {"node templates": groups, "node templates, cutoff": autoscaling.cutoff}


def _watched(found: Iterable[Any], count: int) -> Iterator[Any]:
    return progress(found, count, "questions", sys.stderr)


def _of_classes(
    cache: DumpCache, names: Sequence[str], until: float, autoscaling: Autoscaling
) -> Iterator[dict[str, Any]]:
    from policies.commands.forks import mapped
    from policies.simulation.simulation import Simulation
    from policies.whatif.class_change import Change, apply_change, restarts
    from policies.whatif.sweep import Tally

    def deleted(name: str) -> dict[str, Any]:
        change = apply_change(cache, Change(name, delete=True))
        try:
            simulation = Simulation(world_with(cache, restarts(change), until))
            tally = Tally(simulation, autoscaling)
            simulation.run()
        finally:
            assert change.old is not None
            cache.add(change.old.to_api())
        refused = (each.running for each in change.changed if each.after is None)
        return tally.of(simulation) | {"refused": sum(sum(running.values()) for running in refused)}

    return mapped(names, deleted)


def write_sweep(sweep: Sweep, output: Output, color: str) -> None:
    """Raises SourceError."""
    from policies.render import sweep as rendering
    from policies.whatif.sweep import as_dict

    if output.form == "json":
        output.write(as_json(as_dict(sweep)))
    elif output.form == "markdown":
        output.write(as_markdown(rendering.markdown(sweep)))
    elif output.form == "html":
        from policies.render.html import sweep as pages

        output.write(pages.page(sweep))
    else:
        colored = not output.file and wants_color(color, sys.stdout)
        lines = rendering.render(sweep, painter(colored))
        output.write("".join(clean(line, colored) + "\n" for line in lines))


def status_of(sweep: Sweep, fail_on: Sequence[str]) -> int:
    """The exit status, by what happens in any of its rows."""
    happens = {
        "fewer": any(row.fewer for row in sweep.rows),
        "pending": any(row.pending > sweep.pending for row in sweep.rows),
        "preemption": any(row.pushed_out for row in sweep.rows),
        "budget": any(row.budgets for row in sweep.rows),
    }
    return FOUND if any(happens[what] for what in fail_on) else OK
