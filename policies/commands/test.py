"""`forewarn test`: evaluate expectations about a cluster."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any, Final

from forewarn.policies.application.manifests import applied
from forewarn.policies.application.places import Places
from forewarn.policies.application.simulated import AT_ONCE, DEFAULT_UNTIL, admit_at_once, rejected, world_with
from forewarn.policies.commands.autoscaling import add_config_option, recreated_by, reject_node_templates
from forewarn.policies.commands.cluster_command import (
    add_cluster_option,
    add_color_option,
    add_namespace_option,
    add_output_option,
    answered,
    loaded,
    options_with_cluster,
)
from forewarn.policies.commands.parser import Parser, integer_between
from forewarn.policies.commands.release import add_release_options, release_of, settle
from forewarn.policies.commands.shards import add_shard_option, digest_of, marked, run_options, shard_given
from forewarn.policies.commands.simulated import add_until_option
from forewarn.policies.objects.fields import InvalidObject, group_kind
from forewarn.policies.sources import SourceError, find_files, read_file
from forewarn.policies.terminal import as_json, clean, complain, painter, progress, wants_color

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Sequence

    from forewarn.policies.cluster.answer_head import AnswerHead
    from forewarn.policies.commands.shards import Shard
    from forewarn.policies.expectations import Expectation, Setting
    from forewarn.policies.releases.release import Release
    from forewarn.policies.render.expectations import Result
    from forewarn.policies.simulation.dump import DumpCache
    from forewarn.policies.simulation.scenario import Arrival, World

OK, BROKEN, USAGE, FAILED = range(4)
FORMATS: Final = ("text", "junit", "json")
MAX_CASES: Final = 100


def main(arguments: Sequence[str]) -> int:
    """Run the command; returns 0 if all are met, 1 for a violation, 2 for wrong usage, 3 without a result."""
    parser = _parser()
    options = options_with_cluster(parser, arguments)
    release = release_of(options, parser)
    shard = shard_given(options, parser)
    options.until = options.until or DEFAULT_UNTIL
    try:
        given = [(place, each) for path in options.paths for place, each in _expectations(path)]
    except SourceError as fault:
        return complain("test", fault, USAGE)
    return answered("test", options, lambda: _evaluated(options, given, release, shard))


def _expectations(path: str) -> Iterator[tuple[str, Expectation]]:
    """Yield (directory for files that the expectation names, expectation) for all files at a path. Raises
    SourceError.
    """
    from forewarn.policies.config.document import place_of_entry
    from forewarn.policies.expectations import read_expectations
    from forewarn.policies.manifests import Fault, values
    from forewarn.policies.simulation.events_file import EntryFault

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
        raise SourceError(path, "no expectations found")


def _evaluated(
    options: argparse.Namespace, given: Sequence[tuple[str, Expectation]], release: Release, shard: Shard | None
) -> int:
    from forewarn.policies.cluster.answer_head import head_of
    from forewarn.policies.process_pool import mapped
    from forewarn.policies.render.expectations import from_dict

    cluster = _Cluster(options, release, digested=shard is not None)
    part = shard.part_of(given) if shard else given
    if any(each.fit is None for _, each in part):
        cluster.world([])  # once for all of them
    state = cluster.read().snapshot()
    digest, options_of_run = cluster.digest(), _run_options(options, given, cluster.read()) if shard else {}
    found = mapped(part, lambda each: _result(options, *each, cluster))
    results, assumed = [], dict[str, None]()
    for result, assumes in progress(found, len(part), "expectations", sys.stderr):
        results.append(from_dict(result))
        assumed |= dict.fromkeys(assumes)
    head = head_of(state, assumed)
    if shard:
        document = _results_as_dict(results, head)
        sys.stdout.write(as_json(marked(document, shard, len(given), digest, options_of_run)))
        return OK  # whether one is broken is asked of the whole
    write_results(results, head, options)
    return status_of(results)


def status_of(results: Sequence[Result]) -> int:
    """The exit status: FAILED if one was not evaluated, BROKEN if one is violated, otherwise OK."""
    if any(result.unanswered for result in results):
        return FAILED
    return BROKEN if any(result.broken for result in results) else OK


def _result(
    options: argparse.Namespace, place: str, each: Expectation, cluster: _Cluster
) -> tuple[dict[str, Any], list[str]]:
    """Return the result of one expectation as JSON, and what it assumes. Raises InvalidObject. `place`: the directory
    for files that the expectation names.
    """
    from forewarn.policies.expectations import evaluate
    from forewarn.policies.render.expectations import as_dict, result_of

    places = Places()
    try:
        verdict = evaluate(each, _setting(options, place, cluster, places))
        return as_dict(result_of(verdict, allow_empty=options.allow_empty)), list(verdict.assumes)
    except (InvalidObject, ValueError) as fault:
        raise InvalidObject(f"{each.name}: {places.located(fault)}") from None


def _run_options(
    options: argparse.Namespace, given: Sequence[tuple[str, Expectation]], cache: DumpCache
) -> dict[str, Any]:
    """Return the data that identify a run of several parts, except the cluster. Raises SourceError."""
    parts = [repr(each._replace(line=0)).encode() for _, each in given]
    for place, each in given:
        files = [each.when.name] if each.when.what == "file" else []
        files += [each.fit.file] if each.fit else []
        parts += [read_file(file) for name in files for file in find_files([os.path.join(place, name)])]
    more = {"expectations": digest_of(*parts), "most": options.most, "namespace": options.namespace}
    more["allowEmpty"] = options.allow_empty
    return run_options("test", options, cache) | more


class _Cluster:
    """The cluster of --cluster, loaded once for all expectations.

    Loaded again after an expectation that changes the loaded objects, because other expectations must not see the
    changes.
    """

    def __init__(self, options: argparse.Namespace, release: Release, *, digested: bool) -> None:
        self._options, self._release, self._digested = options, release, digested
        self._cache: DumpCache | None = None
        self._world: World | None = None

    def read(self) -> DumpCache:
        """Load the cluster, or return the loaded one. Raises SourceError."""
        from forewarn.policies.application.digested_cache import DigestedCache
        from forewarn.policies.simulation.dump import DumpCache

        if self._cache is None:
            self._cache, self._world = DigestedCache() if self._digested else DumpCache(), None
            self._cache.recreated = recreated_by(self._options)
            loaded(self._options, self._cache)
            settle(self._cache, self._release)
        return self._cache

    def digest(self) -> str:
        """The digest of the cluster's objects; "" if it is not needed."""
        return str(getattr(self.read(), "digest", ""))

    def world(self, arrivals: Sequence[Arrival]) -> World:
        """Return the World to simulate: the cluster with these arrivals. Raises InvalidObject."""
        cache, until = self.read(), self._options.until
        at_once = any(group_kind(arrival.object) in AT_ONCE for arrival in arrivals)
        if at_once:
            self._cache = None
            for _, fault in admit_at_once(cache, arrivals):
                raise fault
        for _, fault in rejected(cache.snapshot(), arrivals):
            raise fault
        if at_once:
            return world_with(cache, arrivals, until)
        if self._world is None:
            self._world = world_with(cache, [], until)
        return self._world._replace(arrivals=sorted(arrivals, key=lambda arrival: arrival.at))


def _setting(options: argparse.Namespace, place: str, cluster: _Cluster, places: Places) -> Setting:
    from forewarn.policies.application.manifests import with_manifests
    from forewarn.policies.expectations import Setting

    snapshot = cluster.read().snapshot()
    return Setting(
        cluster=snapshot,
        world=cluster.world,
        objects=lambda path: [*applied([os.path.join(place, path)], options.namespace, places)],
        workloads=lambda path: with_manifests(snapshot, [os.path.join(place, path)], options.namespace, places),
        max_cases=options.most,
    )


def write_results(results: Sequence[Result], head: AnswerHead, options: argparse.Namespace) -> None:
    """Print the results in the format of the options."""
    from forewarn.policies.render import expectations
    from forewarn.policies.render.head import after_verdict

    if options.output == "junit":
        sys.stdout.write(expectations.junit(results, "forewarn test") + "\n")
    elif options.output == "json":
        sys.stdout.write(as_json(_results_as_dict(results, head)))
    else:
        color = wants_color(options.color, sys.stdout)
        lines = after_verdict(expectations.render(results, painter(color)), head)
        sys.stdout.writelines(clean(line, color) + "\n" for line in lines)


def _results_as_dict(results: Sequence[Result], head: AnswerHead) -> dict[str, Any]:
    from forewarn.policies.render.expectations import as_dict
    from forewarn.policies.render.head import headed

    return headed({"version": 1, "expectations": [as_dict(each) for each in results]}, head)


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="forewarn test",
        description="Check expectations about a cluster: which Pods run after a loss, are preempted, or fit.",
        epilog="Exit status: 0: all expectations are met. 1: an expectation is broken. 2: wrong usage or wrong "
        "expectations. 3: an expectation selects no Pod, or the cluster cannot be read.",
        examples=("test expectations.yaml", "test expectations/ --cluster cluster.json.gz -o junit=report.xml"),
    )
    add = parser.add_argument
    add("paths", nargs="+", metavar="EXPECTATIONS", help="files or directories")
    add_cluster_option(add)
    add_config_option(add)
    add_release_options(add)
    reject_node_templates(add, "expectations are about the nodes that exist; use `forewarn whatif`")
    add_until_option(add)
    help_text = f"maximum number of cases of one expectation (default: {MAX_CASES})"
    add("--most", type=integer_between(1, 100_000), default=MAX_CASES, metavar="N", help=help_text)
    add("--allow-empty", action="store_true", help="accept expectations that select no Pod (default: exit with 3)")
    add_namespace_option(add)
    add_shard_option(add)
    add_output_option(add, FORMATS)
    add_color_option(add)
    return parser
