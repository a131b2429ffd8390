"""`forewarn whatif lose --each`: simulate each case, on all cores, or a part of them."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Final

from forewarn.policies.commands.autoscaling import recreated_by
from forewarn.policies.commands.cluster_command import loaded, status_of_conditions
from forewarn.policies.commands.release import settle
from forewarn.policies.commands.shards import digest_of, marked, run_options
from forewarn.policies.commands.simulated import world_with
from forewarn.policies.config.document import contents
from forewarn.policies.objects.fields import InvalidObject
from forewarn.policies.terminal import as_json, as_markdown, clean, painter, progress, wants_color

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from forewarn.policies.cluster.answer_head import AnswerHead
    from forewarn.policies.commands.shards import Shard
    from forewarn.policies.releases.release import Release
    from forewarn.policies.simulation.dump import DumpCache
    from forewarn.policies.simulation.simulation import Simulation
    from forewarn.policies.whatif.autoscalers import Autoscaling
    from forewarn.policies.whatif.questions import Question
    from forewarn.policies.whatif.sweep import Sweep, Tally

FORMATS: Final = ("text", "json", "markdown", "html")
HAPPENINGS: Final = ("fewer", "pending", "preemption", "pdb")
_NOTHING: Final = "nothing"
"""The name of the question about the outcome without a change."""
_MAX_NOTES: Final = 10


def add_fail_on(add: Callable[..., object]) -> None:
    """Add `--fail-on` by a parser's `add_argument`."""
    help_text = "exit with 1 if this happens in any of the simulations (repeatable)"
    add("--fail-on", action="append", choices=HAPPENINGS, default=[], help=help_text)


def answer_sweep(options: argparse.Namespace, release: Release, shard: Shard | None, autoscaling: Autoscaling) -> int:
    """Simulate all cases of a sweep, and print the result; return the exit status. Raises SourceError, InvalidObject,
    ValueError.

    `shard`: simulate only this part of the cases; None for all.
    """
    from forewarn.policies.cluster.answer_head import head_of
    from forewarn.policies.commands.digested_cache import DigestedCache
    from forewarn.policies.render.head import headed
    from forewarn.policies.scheduling.missing_lists import assumptions
    from forewarn.policies.simulation.dump import DumpCache, not_simulated
    from forewarn.policies.whatif.sweep import as_dict

    cache = DigestedCache() if shard else DumpCache()
    cache.recreated = recreated_by(options)
    loaded(options, cache)
    settle(cache, release)
    names = names_of(options.each, cache)
    if not names:
        raise InvalidObject(f"the cluster has no {options.each}s")
    part = shard.part_of(names) if shard else names
    sweep = swept(options.each, cache, part, options.until, autoscaling)
    snapshot, victims = cache.snapshot(), any(row.preempted or row.pdbs for row in sweep.rows)
    running = (pod for pod in snapshot.pods.values() if pod.node_name)
    assumed = assumptions(snapshot.objects, running, victims=victims, created=True)
    sweep, head = sweep._replace(notes=[*not_simulated(cache), *sweep.notes]), head_of(snapshot, assumed)
    if isinstance(cache, DigestedCache) and shard is not None:
        options_of_run = run_options(f"each {options.each}", options, cache) | _group_options(options, autoscaling)
        document = marked(headed(as_dict(sweep), head), shard, len(names), cache.digest, options_of_run)
        sys.stdout.write(as_json(document))
        return 0  # whether anything has happened is asked of the whole
    write_sweep(sweep, head, options)
    return status_of(sweep, options.fail_on)


def names_of(kind: str, cache: DumpCache) -> list[str]:
    """Return the names of all cases of a sweep, for example `node a-1`. `kind`: node or zone."""
    return list(_losses(kind, cache))


def _losses(kind: str, cache: DumpCache) -> dict[str, Question]:
    """Return the question of each case by its name."""
    from forewarn.policies.whatif import questions

    loss = questions.each_node_lost if kind == "node" else questions.each_zone_lost
    return {question.title: question for question in loss(cache.snapshot())}


def swept(kind: str, cache: DumpCache, names: Sequence[str], until: float, autoscaling: Autoscaling) -> Sweep:
    """Return the results of the named cases. `kind`: node or zone. Raises InvalidObject, ValueError."""
    from forewarn.policies.commands.losses import counted
    from forewarn.policies.whatif.comparison import at_rest
    from forewarn.policies.whatif.questions import Question
    from forewarn.policies.whatif.sweep import Sweep, Tally, row_of, worst_first

    questions_by_name, tallies = _losses(kind, cache), list[Tally]()
    world = world_with(cache, [], until)

    def counting(simulation: Simulation) -> Tally:
        tallies.append(Tally(simulation, autoscaling))
        return tallies[0]

    found = counted(world, [Question(_NOTHING), *(questions_by_name[name] for name in names)], counting)
    without_event = row_of(_NOTHING, next(iter(found)))
    counts = list(_watched(found, len(names)))
    rows = [row_of(name, tallied) for name, tallied in zip(names, counts, strict=True)]
    notes = list(dict.fromkeys(note for tallied in counts for note in tallied["not_modelled"]))[:_MAX_NOTES]
    (tally,) = tallies
    nothing_else = at_rest(world) and not (without_event.fewer or without_event.preempted or without_event.pending)
    return Sweep(kind, tally.running, tally.pending, worst_first(rows), None if nothing_else else without_event, notes)


def _group_options(options: argparse.Namespace, autoscaling: Autoscaling) -> dict[str, Any]:
    """Return the options about node groups that identify a run of several parts; empty without node groups."""
    if not options.node_templates:
        return {}
    groups = digest_of(contents(options.node_templates))
    return {"node templates": groups, "node templates, cutoff": autoscaling.cutoff}


def _watched(found: Iterable[Any], count: int) -> Iterator[Any]:
    return progress(found, count, "cases", sys.stderr)


def write_sweep(sweep: Sweep, head: AnswerHead, options: argparse.Namespace) -> None:
    """Print the sweep in the format of the options."""
    from forewarn.policies.render import sweep as rendering
    from forewarn.policies.render.head import after_verdict, below_title, headed, on_page
    from forewarn.policies.whatif.sweep import as_dict

    if options.output == "json":
        sys.stdout.write(as_json(headed(as_dict(sweep), head)))
    elif options.output == "markdown":
        sys.stdout.write(as_markdown(below_title(rendering.markdown(sweep), head)))
    elif options.output == "html":
        from forewarn.policies.render.html import sweep as pages

        sys.stdout.write(on_page(pages.report(sweep), head).document())
    else:
        color = wants_color(options.color, sys.stdout)
        lines = after_verdict(rendering.render(sweep, painter(color)), head)
        sys.stdout.writelines(clean(line, color) + "\n" for line in lines)


def status_of(sweep: Sweep, fail_on: Sequence[str]) -> int:
    """Return the exit status: 1 if any row meets a condition of `fail_on`, otherwise 0."""
    happens = {
        "fewer": any(row.fewer for row in sweep.rows),
        "pending": any(row.pending > sweep.pending for row in sweep.rows),
        "preemption": any(row.preempted for row in sweep.rows),
        "pdb": any(row.pdbs for row in sweep.rows),
    }
    return status_of_conditions([what for what, is_met in happens.items() if is_met], fail_on)
