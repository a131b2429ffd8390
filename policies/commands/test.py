"""`forewarn test`: whether what you promise of a cluster holds."""

from __future__ import annotations

import argparse
import json
import os
import sys
from functools import partial
from typing import TYPE_CHECKING, Final

from policies.commands.cluster_command import add_cluster_option, add_color_option, answered, options_with_cluster
from policies.commands.preempt import given_objects
from policies.commands.release import add_release_options, release_of, settle
from policies.commands.simulate import AT_ONCE, DEFAULT_UNTIL, applied, simulated_until, world_with
from policies.objects.fields import InvalidObject, group_kind
from policies.sources import SourceError, find_files, load_cluster, read_file
from policies.terminal import clean, columns, complain, painter, progress, wants_color

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from policies.expectations.document import Expectation
    from policies.expectations.judge import Setting, Verdict
    from policies.releases import Release
    from policies.simulation.dump import DumpCache
    from policies.simulation.scenario import Arrival, World

OK, BROKEN, USAGE, FAILED = range(4)
FORMATS: Final = ("text", "junit", "json")
MOST_CASES: Final = 100


def main(arguments: Sequence[str]) -> int:
    """Run the command; returns the exit status: 0 all hold, 1 one is broken, 2 usage, 3 not done."""
    parser = _parser()
    options = options_with_cluster(parser, arguments)
    release = release_of(options, parser)
    try:
        given = [(place, each) for path in options.paths for place, each in _expectations(path)]
    except SourceError as fault:
        return complain("test", fault, USAGE)
    return answered("test", lambda: _judged(options, given, release))


def _expectations(path: str) -> Iterator[tuple[str, Expectation]]:
    """The expectations of files, each with the directory that its own files are looked for in. Raises SourceError."""
    from policies.expectations.document import read_expectations
    from policies.manifests import Fault, values

    for file in find_files([path]):
        try:
            for each in read_expectations(values(read_file(file), file.name)):
                yield os.path.dirname(file.path), each
        except Fault as fault:
            raise SourceError(file.name, fault.message, fault.start) from None
        except ValueError as fault:
            raise SourceError(file.name, str(fault)) from None


def _judged(options: argparse.Namespace, given: Sequence[tuple[str, Expectation]], release: Release) -> int:
    from policies.expectations.judge import judge

    if not given:
        raise SourceError(options.paths[0], "no expectations in it")
    verdicts: list[Verdict] = []
    cluster = _Cluster(options, release)
    for place, each in progress(given, len(given), "expectations", sys.stderr):
        try:
            verdicts.append(judge(each, _setting(options, place, cluster)))
        except (InvalidObject, ValueError) as fault:
            raise InvalidObject(f"{each.name}: {fault}") from None
    _print(options, verdicts)
    return BROKEN if any(verdict.broken for verdict in verdicts) else OK


class _Cluster:
    """The cluster of --cluster, read once, and anew after what an expectation applies: it is not there for the next."""

    def __init__(self, options: argparse.Namespace, release: Release) -> None:
        self._options, self._release = options, release
        self._cache: DumpCache | None = None
        self._world: World | None = None

    def read(self) -> DumpCache:
        """Raises SourceError."""
        from policies.simulation.dump import DumpCache

        if self._cache is None:
            self._cache, self._world = DumpCache(), None
            load_cluster(*self._options.cluster, into=self._cache)
            settle(self._cache, self._release)
        return self._cache

    def world(self, arrivals: Sequence[Arrival]) -> World:
        """Its world with these arrivals. Raises InvalidObject."""
        cache, until = self.read(), self._options.until
        if any(group_kind(arrival.object) in AT_ONCE for arrival in arrivals):
            self._cache = None
            return world_with(cache, arrivals, until)
        if self._world is None:
            self._world = world_with(cache, [], until)
        return self._world._replace(arrivals=sorted(arrivals, key=lambda arrival: arrival.at))


def _setting(options: argparse.Namespace, place: str, cluster: _Cluster) -> Setting:
    from policies.expectations.judge import Setting

    there = cluster.read().snapshot()
    return Setting(
        cluster=there,
        world=cluster.world,
        objects=lambda path: [*applied([os.path.join(place, path)], options.namespace)],
        workloads=lambda path: given_objects(os.path.join(place, path), options.namespace, there),
        most=options.most,
    )


def _print(options: argparse.Namespace, verdicts: Sequence[Verdict]) -> None:
    from policies.render import expectations

    if options.output == "junit":
        sys.stdout.write(expectations.junit(verdicts, "forewarn test") + "\n")
    elif options.output == "json":
        print(json.dumps({"version": 1, "expectations": [expectations.as_dict(each) for each in verdicts]}))  # noqa: T201
    else:
        color = wants_color(options.color, sys.stdout)
        sys.stdout.writelines(clean(line, color) + "\n" for line in expectations.render(verdicts, painter(color)))


def _most(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text[:9]) <= 100_000:
        raise argparse.ArgumentTypeError("must be between 1 and 100000")
    return int(text)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="forewarn test",
        formatter_class=partial(argparse.HelpFormatter, width=columns()),
        description="Say whether expectations of a cluster hold: what runs after a loss, who is pushed out, what fits.",
        epilog="Exit status: 0 all hold, 1 one is broken, 2 wrong usage or expectations, 3 could not do the job.",
    )
    add = parser.add_argument
    add("paths", nargs="+", metavar="EXPECTATIONS", help="files or directories")
    add_cluster_option(add)
    add_release_options(add)
    add("--until", type=simulated_until, default=DEFAULT_UNTIL, metavar="DURATION", help="when to stop (default 1h)")
    add("--most", type=_most, default=MOST_CASES, metavar="N", help=f"cases of one expectation (default {MOST_CASES})")
    add("-n", "--namespace", default="default", help="namespace of objects without one (default: default)")
    add("-o", "--output", choices=FORMATS, default="text", help="default: text")
    add_color_option(add)
    return parser
