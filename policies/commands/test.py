"""`forewarn test`: whether what you promise of a cluster holds."""

from __future__ import annotations

import argparse
import os
import sys
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from policies.commands.autoscaling import add_config_option, recreated_by, refuse_node_templates
from policies.commands.cluster_command import add_cluster_option, add_color_option, answered, options_with_cluster
from policies.commands.parser import Parser
from policies.commands.places import Places
from policies.commands.preempt import given_objects
from policies.commands.release import add_release_options, release_of, settle
from policies.commands.shards import (
    add_output_option,
    add_shard_option,
    asked_of,
    digest_of,
    marked,
    shard_given,
)
from policies.commands.simulate import AT_ONCE, DEFAULT_UNTIL, applied, simulated_until, world_with
from policies.objects.fields import InvalidObject, group_kind
from policies.sources import SourceError, find_files, load_cluster, read_file
from policies.terminal import as_json, clean, columns, complain, painter, progress, wants_color

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from policies.commands.shards import Output, Shard
    from policies.expectations.document import Expectation
    from policies.expectations.judge import Setting
    from policies.releases import Release
    from policies.render.expectations import Result
    from policies.simulation.dump import DumpCache
    from policies.simulation.scenario import Arrival, World

OK, BROKEN, USAGE, FAILED = range(4)
FORMATS: Final = ("text", "junit", "json")
MOST_CASES: Final = 100


def main(arguments: Sequence[str]) -> int:
    """Run the command; returns the exit status: 0 all hold, 1 one is broken, 2 usage, 3 no answer."""
    parser = _parser()
    options = options_with_cluster(parser, arguments)
    release = release_of(options, parser)
    shard = shard_given(options, parser)
    try:
        given = [(place, each) for path in options.paths for place, each in _expectations(path)]
    except SourceError as fault:
        return complain("test", fault, USAGE)
    return answered("test", lambda: _judged(options, given, release, shard))


def _expectations(path: str) -> Iterator[tuple[str, Expectation]]:
    """The expectations of files, each with the directory that its own files are looked for in. Raises SourceError."""
    from policies.config.document import place_of_entry
    from policies.expectations.document import read_expectations
    from policies.manifests import Fault, values
    from policies.simulation.events_file import EntryFault

    found = False
    for file in find_files([path]):
        data = read_file(file)
        try:
            for each in read_expectations(values(data, file.name)):
                found = True
                yield os.path.dirname(file.path), each
        except Fault as fault:
            raise SourceError(file.name, fault.message, fault.start) from None
        except EntryFault as fault:
            raise SourceError(file.name, str(fault), *place_of_entry(data, fault.number)) from None
        except ValueError as fault:
            raise SourceError(file.name, str(fault)) from None
    if not found:
        raise SourceError(path, "no expectations in it")


def _judged(
    options: argparse.Namespace, given: Sequence[tuple[str, Expectation]], release: Release, shard: Shard | None
) -> int:
    from policies.commands.forks import mapped
    from policies.render.expectations import from_dict

    cluster = _Cluster(options, release, digested=shard is not None)
    part = shard.part_of(given) if shard else given
    if any(each.fit is None for _, each in part):
        cluster.world([])  # once for all of them
    digest, asked = cluster.digest(), _asked(options, given, cluster.read()) if shard else {}
    found = mapped(part, lambda each: _result(options, *each, cluster))
    results = [from_dict(each) for each in progress(found, len(part), "expectations", sys.stderr)]
    if shard:
        options.output.write(as_json(marked(_told(results), shard, len(given), digest, asked)))
        return OK  # whether one is broken is asked of the whole
    write_results(results, options.output, options.color)
    return status_of(results)


def status_of(results: Sequence[Result]) -> int:
    """The exit status: whether one of them is broken, or has no answer."""
    if any(result.broken for result in results):
        return BROKEN
    return FAILED if any(result.unanswered for result in results) else OK


def _result(options: argparse.Namespace, place: str, each: Expectation, cluster: _Cluster) -> dict[str, Any]:
    """What becomes of one, as JSON. Raises InvalidObject."""
    from policies.expectations.judge import judge
    from policies.render.expectations import as_dict, result_of

    places = Places()
    try:
        verdict = judge(each, _setting(options, place, cluster, places))
        return as_dict(result_of(verdict, allow_empty=options.allow_empty))
    except (InvalidObject, ValueError) as fault:
        raise InvalidObject(f"{each.name}: {places.located(fault)}") from None


def _asked(options: argparse.Namespace, given: Sequence[tuple[str, Expectation]], cache: DumpCache) -> dict[str, Any]:
    """What makes a run that run, besides the cluster. Raises SourceError."""
    parts = [repr(each._replace(line=0)).encode() for _, each in given]
    for place, each in given:
        files = [each.when.name] if each.when.what == "file" else []
        files += [each.fit.file] if each.fit else []
        parts += [read_file(file) for name in files for file in find_files([os.path.join(place, name)])]
    more = {"expectations": digest_of(*parts), "most": options.most, "namespace": options.namespace}
    more["allowEmpty"] = options.allow_empty
    return asked_of("test", options, cache) | more


class _Cluster:
    """The cluster of --cluster, read once, and anew after what an expectation applies: it is not there for the next."""

    def __init__(self, options: argparse.Namespace, release: Release, *, digested: bool) -> None:
        self._options, self._release, self._digested = options, release, digested
        self._cache: DumpCache | None = None
        self._world: World | None = None

    def read(self) -> DumpCache:
        """Raises SourceError."""
        from policies.commands.digested_cache import DigestedCache
        from policies.simulation.dump import DumpCache

        if self._cache is None:
            self._cache, self._world = DigestedCache() if self._digested else DumpCache(), None
            self._cache.recreated = recreated_by(self._options)
            load_cluster(*self._options.cluster, into=self._cache)
            settle(self._cache, self._release)
        return self._cache

    def digest(self) -> str:
        """Of its objects; empty where nobody asks for it."""
        return str(getattr(self.read(), "digest", ""))

    def world(self, arrivals: Sequence[Arrival]) -> World:
        """Its world with these arrivals. Raises InvalidObject."""
        cache, until = self.read(), self._options.until
        if any(group_kind(arrival.object) in AT_ONCE for arrival in arrivals):
            self._cache = None
            return world_with(cache, arrivals, until)
        if self._world is None:
            self._world = world_with(cache, [], until)
        return self._world._replace(arrivals=sorted(arrivals, key=lambda arrival: arrival.at))


def _setting(options: argparse.Namespace, place: str, cluster: _Cluster, places: Places) -> Setting:
    from policies.expectations.judge import Setting

    there = cluster.read().snapshot()
    return Setting(
        cluster=there,
        world=cluster.world,
        objects=lambda path: [*applied([os.path.join(place, path)], options.namespace, places)],
        workloads=lambda path: given_objects(os.path.join(place, path), options.namespace, there, places),
        most=options.most,
    )


def write_results(results: Sequence[Result], output: Output, color: str) -> None:
    """Raises SourceError."""
    from policies.render import expectations

    if output.form == "junit":
        output.write(expectations.junit(results, "forewarn test") + "\n")
    elif output.form == "json":
        output.write(as_json(_told(results)))
    else:
        colored = not output.file and wants_color(color, sys.stdout)
        lines = expectations.render(results, painter(colored))
        output.write("".join(clean(line, colored) + "\n" for line in lines))


def _told(results: Sequence[Result]) -> dict[str, Any]:
    from policies.render.expectations import as_dict

    return {"version": 1, "expectations": [as_dict(each) for each in results]}


def _most(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text[:9]) <= 100_000:
        raise argparse.ArgumentTypeError("must be between 1 and 100000")
    return int(text)


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="forewarn test",
        formatter_class=partial(argparse.HelpFormatter, width=columns()),
        description="Say whether expectations of a cluster hold: what runs after a loss, who is pushed out, what fits.",
        epilog="Exit status: 0 all hold, 1 one is broken, 2 wrong usage or expectations, 3 no answer: an expectation "
        "selects no Pod, or the cluster cannot be read.",
    )
    add = parser.add_argument
    add("paths", nargs="+", metavar="EXPECTATIONS", help="files or directories")
    add_cluster_option(add)
    add_config_option(add)
    add_release_options(add)
    refuse_node_templates(add, "expectations are held to the nodes that are there: ask `forewarn whatif`")
    add("--until", type=simulated_until, default=DEFAULT_UNTIL, metavar="DURATION", help="when to stop (default 1h)")
    add("--most", type=_most, default=MOST_CASES, metavar="N", help=f"cases of one expectation (default {MOST_CASES})")
    add("--allow-empty", action="store_true", help="accept expectations that select no Pod (default: exit with 3)")
    add("-n", "--namespace", default="default", help="namespace of objects without one (default: default)")
    add_shard_option(add)
    add_output_option(add, FORMATS)
    add_color_option(add)
    return parser
