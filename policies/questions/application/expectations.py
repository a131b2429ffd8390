"""Evaluate expectations about a cluster."""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from forewarn.policies.base.process_pool import mapped
from forewarn.policies.inputs.manifests.documents import Fault
from forewarn.policies.inputs.manifests.values import values
from forewarn.policies.inputs.sources.files import PathLike, SourceError, find_files, fspath, read_file
from forewarn.policies.kubernetes.cluster.cache import head_of
from forewarn.policies.kubernetes.objects.fields import InvalidObject, group_kind
from forewarn.policies.linting.config.load import place_of_entry
from forewarn.policies.prediction.simulation.scenario import Arrival, DumpCache, EntryFault, World
from forewarn.policies.questions import expectations
from forewarn.policies.questions.application.cluster import Cluster, Progress, counted_results
from forewarn.policies.questions.application.manifests import applied, with_manifests
from forewarn.policies.questions.application.places import Places
from forewarn.policies.questions.application.simulated import AT_ONCE, admit_at_once, checked, rejected, world_with
from forewarn.policies.questions.whatif import DEFAULT_UNTIL

MAX_CASES: Final = 100


class Given(NamedTuple):
    """An expectation, and the directory of the files that it names."""

    directory: str
    expectation: expectations.Expectation

    def path(self, name: str) -> str:
        return posixpath.join(self.directory, name)


@dataclass(frozen=True, slots=True)
class ExpectationsRequest:
    """Files or directories with expectations.

    `most`: maximum number of cases of one expectation. `allow_empty`: parts that select no Pod count as met.
    `until`: simulated seconds. `namespace`: namespace of objects that name none.
    """

    paths: Sequence[str | PathLike[str]]
    namespace: str = "default"
    until: float = DEFAULT_UNTIL
    most: int = MAX_CASES
    allow_empty: bool = False
    given: Sequence[Given] = ()
    """Expectations that have been read."""


def expectations_in(paths: Iterable[str | PathLike[str]]) -> list[Given]:
    """Return the expectations in files and directories. Raises SourceError."""
    return [given for path in paths for given in _expectations_at(fspath(path))]


def _expectations_at(path: str) -> Iterator[Given]:
    is_empty = True
    for file in find_files([path]):
        data = read_file(file)
        try:
            for expectation in expectations.read_expectations(values(data, file.name)):
                is_empty = False
                yield Given(posixpath.dirname(file.path), expectation)
        except Fault as fault:
            raise SourceError(file.name, fault.message, fault.start) from None
        except EntryFault as fault:
            raise SourceError(file.name, str(fault), *place_of_entry(data, fault.number)) from None
        except ValueError as fault:
            raise SourceError(file.name, str(fault)) from None
    if is_empty:
        raise SourceError(path, "no expectations found. Fix: write a list of {name, when, expect}")


def test(
    cluster: Cluster,
    request: ExpectationsRequest | str | PathLike[str] | Sequence[str | PathLike[str]],
    *,
    part: Callable[[Sequence[Given]], Sequence[Given]] = lambda items: items,  # noqa: PT028  (pytest does not run it)
    progress: Progress | None = None,  # noqa: PT028
) -> expectations.Expectations:
    """Evaluate expectations, on all CPUs. `request`: an ExpectationsRequest, or its paths alone.

    `part`: selects expectations. Raises SourceError and InvalidObject.
    """
    if not isinstance(request, ExpectationsRequest):
        request = ExpectationsRequest([request] if isinstance(request, str | PathLike) else request)
    state, given = _State(cluster.cache, request.until), part([*request.given, *expectations_in(request.paths)])
    if any(one.expectation.fit is None for one in given):
        state.world([])  # once for all of them
    results, assumed = list[expectations.Tested](), dict[str, None]()

    def evaluated(report: Callable[..., None]) -> Iterator[Any]:
        return mapped(given, lambda one: _result(one, request, state), waiting=report)

    for result, assumes in counted_results(evaluated, len(given), progress):
        results.append(result)
        assumed |= dict.fromkeys(assumes)
    return expectations.Expectations(head_of(cluster.snapshot, assumed), results)


def _result(item: Given, request: ExpectationsRequest, state: _State) -> tuple[expectations.Tested, Sequence[str]]:
    """Return the result of one expectation, and what it assumes. Raises InvalidObject."""
    places, snapshot, namespace = Places(), state.cache.snapshot(), request.namespace
    setting = expectations.Setting(
        cluster=snapshot,
        world=state.world,
        objects=lambda name: [*applied([item.path(name)], namespace, places)],
        workloads=lambda name: with_manifests(snapshot, item.path(name), namespace, places),
        namespace=namespace,
        max_cases=request.most,
    )
    try:
        verdict = expectations.evaluate(item.expectation, setting)
        return expectations.result_of(verdict, allow_empty=request.allow_empty), verdict.assumes
    except (InvalidObject, ValueError) as fault:
        raise InvalidObject(f"{item.expectation.name}: {places.located(fault)}") from None


class _State:
    """The cluster, and its World without arrivals."""

    def __init__(self, cache: DumpCache, until: float) -> None:
        self.cache, self._until = cache, until
        self._world: World | None = None

    def world(self, arrivals: Sequence[Arrival]) -> World:
        """Return the World to simulate: the cluster with these arrivals. Raises InvalidObject."""
        at_once = any(group_kind(arrival.object) in AT_ONCE for arrival in arrivals)
        cache = self.cache.copy() if at_once else self.cache
        for _, fault in admit_at_once(cache, arrivals) if at_once else ():
            raise fault
        for _, fault in rejected(cache.snapshot(), *checked(arrivals)):
            raise fault
        if at_once:
            return world_with(cache, arrivals, self._until)
        if self._world is None:
            self._world = world_with(cache, [], self._until)
        return self._world._replace(arrivals=sorted(arrivals, key=lambda arrival: arrival.at))
