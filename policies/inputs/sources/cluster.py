"""Loads cluster state from snapshots, and from sources of other packages."""

from __future__ import annotations

import codecs
import io
import json
import os
import re
import zlib
from array import array
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from functools import partial
from operator import itemgetter
from typing import IO, TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypeGuard

from forewarn.policies.base.findings import MAX_PATH_LENGTH, Finding, brief, listed, plural
from forewarn.policies.base.light import no_collection
from forewarn.policies.inputs.manifests.documents import NOT_TEXT, Fault
from forewarn.policies.inputs.manifests.object_finder import NO_KIND, items_of
from forewarn.policies.inputs.manifests.reading import values
from forewarn.policies.inputs.sources import files
from forewarn.policies.inputs.sources.json_stream import JsonFault, flat, json_objects
from forewarn.policies.kubernetes.cluster.cache import TIME, Cache, Origin
from forewarn.policies.kubernetes.kinds import registry
from forewarn.policies.kubernetes.objects.fields import ApiObject, InvalidObject, at, group_kind, mapping, ref_of
from forewarn.policies.kubernetes.objects.resources import read_resource_list

if TYPE_CHECKING:
    _Function = Literal[
        "autoscalers",
        "capacity_buffers",
        "definitions",
        "events",
        "node_groups",
        "preemptions",
    ]


_FIX_OF_SOURCE: Final = "pass the output of `forewarn snapshot`"
_FIX: Final = "pass the objects of one cluster at one time"
_WIDTH: Final = 5


class Identities:
    """The objects read so far. A later source may replace an object that has no UID, an earlier one may not.

    Keeps five numbers for each object in an array, with hashes instead of texts: many small objects that are freed
    after loading would fragment the memory of the others, which makes everything else slower.
    """

    def __init__(self, *, several: bool) -> None:
        """Set whether there are `several` sources, whose objects are compared."""
        self._several = several
        self._replaced, self._others = "", 0
        self._seen: set[int] = set()
        self._numbers = array("q")
        self._starts: dict[int, int] = {}
        """Hash of a name -> start of its numbers, for objects up to the last one whose name occurred twice."""
        self._files: list[tuple[int, str, str]] = []
        """Each file: the start of its numbers, source and name."""

    def open(self, source: str, file: str) -> None:
        """Start the next file."""
        self._files.append((len(self._numbers), source, file))

    def check(self, obj: ApiObject, line: int) -> None:
        """Raise SourceError if an earlier object of the same name has another UID, or is a Node of the same source
        with other allocatable resources.
        """
        metadata = obj.get("metadata")
        # Empty Lists and the version of a snapshot have no name.
        if not isinstance(metadata, dict) or not metadata.get("name"):
            return
        kind, uid, allocatable = group_kind(obj), hash(str(metadata.get("uid") or "")), 0
        namespace = metadata.get("namespace") or registry.DEFAULT_NAMESPACE if registry.is_namespaced(kind) else ""
        name = hash(f"{kind}\0{namespace}\0{metadata['name']}")
        if kind == registry.NODE:
            allocatable = hash(frozenset(read_resource_list(obj, "status", "allocatable").items()))
        content = _content(obj) if self._several else 0
        if name not in self._seen:
            self._seen.add(name)
            self._numbers.extend((name, uid, allocatable, line, content))
            return
        for start in range(_WIDTH * len(self._starts), len(self._numbers), _WIDTH):
            self._starts[self._numbers[start]] = start
        start = self._starts[name]
        _, uid_before, allocatable_before, line_before, content_before = self._numbers[start : start + _WIDTH]
        _, source_before, file_before = self._files[bisect_right(self._files, start, key=itemgetter(0)) - 1]
        _, source, file = self._files[-1]
        if uid_before and uid and uid_before != uid:  # without a UID: the hash of "" is 0
            what = "another UID"
        elif allocatable_before != allocatable and source_before == source:
            what = "other allocatable resources"
        else:
            if source_before != source and content_before != content and not (uid and uid_before):
                self._note_replaced(obj, source, source_before)
            return
        place = f"{file_before}:{line_before}" if line_before else file_before
        problem = f"{ref_of(obj)} has {what} than in {place}: these are two clusters"
        raise files.SourceError(file, problem, line, fix=_FIX)

    def _note_replaced(self, obj: ApiObject, source: str, before: str) -> None:
        self._others += bool(self._replaced)
        what, then, first = (brief(str(x), MAX_PATH_LENGTH) for x in (ref_of(obj), source, before))
        self._replaced = self._replaced or f"{what} as in {then}, not as in {first}"

    @property
    def replaced(self) -> str:
        """A clause about the objects that a later source defines differently; "" if there are none."""
        more = f", and {plural(self._others, 'more such object')}" if self._others else ""
        return f"{self._replaced}{more} (--cluster combines its sources into one cluster)" if self._replaced else ""


def _content(obj: ApiObject) -> int:
    """Return a hash of an object without its status and metadata, but with its labels."""
    defined = {**obj, "metadata": mapping(obj, "metadata", "labels"), "status": None}
    return hash(json.dumps(defined, sort_keys=True, default=str))


_GZIP: Final = b"\x1f\x8b"
_UTF_16: Final = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_BLOCK: Final = 1 << 16


@contextmanager
def _text_of(binary: IO[bytes]) -> Iterator[io.TextIOWrapper]:
    """Yield the text of a file or pipe. Raises UnicodeDecodeError; for compressed data also OSError, EOFError,
    zlib.error.
    """
    reader = io.BufferedReader(binary)  # type: ignore[type-var]
    try:
        data: Any = reader
        if reader.peek(2)[:2] == _GZIP:
            import gzip

            data = gzip.GzipFile(fileobj=reader)
        encoding = "utf-16" if data.peek(2)[:2] in _UTF_16 else "utf-8-sig"
        text = io.TextIOWrapper(data, encoding, newline="")
        try:
            yield text
        finally:
            text.detach()
    finally:
        reader.detach()  # the caller closes the file


GROUP: Final = "forewarn.sources"
"""Entry-point group of sources `NAME[:ARGUMENT]`: functions of the argument (may be "") that yield API objects.

See also `objects_of`.
"""

_SUFFIXES: Final = tuple(suffix + packed for suffix in files.MANIFESTS for packed in ("", ".gz"))
_PROGRESS_EVERY: Final = 1000
_NAMED: Final = 10
_TIME: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")
_JSON: Final = re.compile(r"""\[|\{(["}]|$)""")
"""The start of JSON, without spaces: `{kind: Node}` is YAML, as kubectl reads it."""


def load_cluster(
    *sources: str,
    progress: Callable[[int], None] | None = None,
    templates: Collection[str] = registry.POD_TEMPLATE_PATHS,
    into: Cache | None = None,
) -> Cache:
    """Load cluster state: snapshots (file, directory, `-`; YAML, JSON, .gz) or named sources; later sources override.

    `progress`: called repeatedly with the number of objects. `templates`: the `group/Kind` of workloads. `into`: an
    existing cache. `Cache.skipped` counts objects of other kinds. Raises SourceError, even if the sources contain no
    other objects.
    """
    cache = Cache(templates=templates) if into is None else into
    if cache.listed is None:
        cache.listed = set()
    loading = _Loading(cache, progress, several=len(sources) > 1)
    with no_collection():  # loading creates no reference cycles, and searching for them is slow
        for source in sources:
            loading.source(source)
    if sources:
        loading.check(sources[0])
    if progress is not None:
        progress(loading.count)
    cache.origin = loading.origin
    if cache.keys(registry.RESOURCE_QUOTA):
        _complete_quotas(cache)
    if cache.keys(registry.POD):
        adopt_pods(cache)
    if cache.keys(registry.DISRUPTION_BUDGET):
        _complete_pdbs(cache)
    return cache


def adopt_pods(cache: Cache) -> None:
    """Set the owner references that kube-controller-manager sets soon after creation, where Pods lack them.

    Changes them by name: that changes the order of their node's Pods, which decides between equal victims, and must not
    depend on the hashes of strings.
    """
    from forewarn.policies.kubernetes.controllers.own_pods import Adoption  # imported only if needed

    snapshot = cache.snapshot()
    adoption = Adoption(snapshot)
    adopted = {key: new for key, pod in snapshot.pods.items() if (new := adoption.adopt(pod)) is not pod}
    cache.put_views({registry.POD: {key: adopted[key] for key in sorted(adopted)}})


def _complete_quotas(cache: Cache) -> None:
    """Write the status of quotas that lack usage, as kube-controller-manager does soon after creation."""
    from forewarn.policies.kubernetes.controllers.applied import with_usage  # imported only if needed

    cluster = cache.snapshot()
    lacking = [q for q in cluster.resource_quotas.values() if q.spec_hard.keys() - q.used.keys()]
    cache.counted_quotas = len(lacking)
    cache.put_views({registry.RESOURCE_QUOTA: {(q.namespace, q.name): with_usage(q, cluster) for q in lacking}})


def _complete_pdbs(cache: Cache) -> None:
    """Write the status of PDBs without one, as kube-controller-manager does soon after creation."""
    from forewarn.policies.kubernetes.controllers.applied import with_allowed_disruptions  # imported only if needed

    cluster, counted = cache.snapshot(), dict[Any, Any]()
    for key, pdb in cluster.objects.pdbs.items():
        with suppress(InvalidObject):  # then it allows no disruptions
            if not pdb.has_status:
                counted[key] = with_allowed_disruptions(pdb, cluster)
    cache.counted_pdbs = len(counted)
    cache.put_views({registry.DISRUPTION_BUDGET: counted})


def _is_time(value: Any) -> TypeGuard[str]:
    return isinstance(value, str) and _TIME.fullmatch(value) is not None


def objects_of(source: str, attribute: _Function, *arguments: str) -> Iterable[dict[str, Any]]:
    """Return the objects that a function of a named source reads; nothing for files, which are read with the other
    objects, and for sources without this function.

    `attribute`: "autoscalers" (HorizontalPodAutoscalers), "capacity_buffers" (CapacityBuffers, up to its limit),
    "definitions" (CustomResourceDefinitions), "node_groups" (objects about node groups), "preemptions" (Events about
    preempted Pods), or "events" (Events; `arguments`: a namespace, "" for a Node, and the name of the object, "" for
    the whole namespace). The function is an attribute of the source with this name; its first parameter is the
    argument of the source. Raises SourceError.
    """
    function = _attribute(source, attribute)
    objects: Iterable[dict[str, Any]] = () if function is None else function(*arguments)
    return objects


def has_events(source: str, attribute: Literal["events", "preemptions"] = "events") -> bool:
    """True if `objects_of` can read these Events of this source."""
    return _attribute(source, attribute) is not None


class Written(NamedTuple):
    """The result of writing reports.

    `namespaces`: number of namespaces with a Report. `omitted`: number of namespaces beyond the maximum. `denied`: the
    namespaces whose Report the API server denied, with the reason.
    """

    namespaces: int
    omitted: int
    denied: dict[str, str]


def report_writer_of(source: str) -> Callable[[Sequence[Finding]], Written]:
    """A function that writes the findings on a named source into its cluster as OpenReports.

    The source must have an attribute `report_writer`, a function of the argument. Raises SourceError, also for files.
    """
    function = _attribute(source, "report_writer")
    if function is None:
        fix = "pass --context NAME, or omit --apply"
        raise files.SourceError(source, "reports can only be written into a running cluster", fix=fix)
    writer: Callable[[Sequence[Finding]], Written] = function()
    return writer


def contexts_of(source: str) -> list[str]:
    """Return the clusters that a named source can read, for example the contexts of a kubeconfig; empty for other
    sources.

    The source must have an attribute `contexts`, a function of the argument. Raises SourceError.
    """
    function = _attribute(source, "contexts")
    return [] if function is None else [str(name) for name in function()]


def _attribute(source: str, attribute: str) -> Callable[..., Any] | None:
    """Return a function of a named source, bound to its argument; None for files, or without this attribute."""
    named = _named_source(source)
    function = getattr(named[0], attribute, None) if named is not None else None
    return None if named is None or function is None else partial(function, named[1])


def described(source: str) -> str:
    """The description of a named source, for example `context prod`; by default, the source itself.

    The source may have an attribute `described`, a function of the argument.
    """
    function = _attribute(source, "described")
    return source if function is None else str(function())


def _named_source(source: str) -> tuple[Callable[[str], Iterable[dict[str, Any]]], str] | None:
    """Return the function of a named source (`NAME:ARGUMENT`), and its argument; None for files or if not installed."""
    if source == files.STDIN or os.path.exists(source):
        return None
    from importlib.metadata import entry_points  # Slow to import, and seldom needed.

    name, _, argument = source.partition(":")

    for entry_point in entry_points(group=GROUP, name=name):
        return entry_point.load(), argument
    return None


class _Loading:
    """Loads sources into a cache."""

    def __init__(self, cache: Cache, progress: Callable[[int], None] | None, *, several: bool) -> None:
        self.cache, self.count, self._progress = cache, 0, progress
        self._found, self._identities = False, Identities(several=several)
        self._names: list[str] = []
        self._read: list[str] = []
        self._newest = ""

    def source(self, source: str) -> None:
        """Load all objects of one source. Raises SourceError."""
        named = _named_source(source)
        self._names.append(source if named is None else described(source))
        if named is not None:
            self._read.append(datetime.now(UTC).strftime(TIME))
            self._identities.open(source, source)
            for obj in named[0](named[1]):
                self._add(obj, source)
            return
        self._found = False
        for file in files.find_files([source], _SUFFIXES):
            self._identities.open(source, file.name)
            self._file(file)
        if not self._found:
            where = f" in {', '.join(_SUFFIXES)} files" if os.path.isdir(source) else ""
            raise files.SourceError(source, f"no Kubernetes objects found{where}", fix=_FIX_OF_SOURCE)

    @property
    def origin(self) -> Origin:
        """The origin of the loaded state. The state of several sources is as old as the oldest."""
        names = ["<stdin>" if name == files.STDIN else brief(name, MAX_PATH_LENGTH) for name in self._names]
        left = len(names) - _NAMED
        names[_NAMED:] = [plural(left, "more source")] if left > 0 else []
        time, is_read = min(self._read, default=self._newest), bool(self._read)
        return Origin(", ".join(names), time, is_read, self._identities.replaced)

    def _note_time(self, obj: dict[str, Any]) -> None:
        """Note the time of a snapshot, or the newest timestamp of its objects: kubelets report every few minutes."""
        if registry.is_snapshot_version(obj) and _is_time(read := obj.get("time")):
            self._read.append(read)
        times = [at(obj, "metadata", "creationTimestamp"), at(obj, "status", "startTime")]
        if isinstance(conditions := at(obj, "status", "conditions"), list):
            times += [
                at(condition, f"last{what}Time") for condition in conditions for what in ("Heartbeat", "Transition")
            ]
        for time in times:
            if isinstance(time, str) and time > self._newest and _is_time(time):
                self._newest = time

    def check(self, source: str) -> None:
        """Raise SourceError for `source` if no source contained an object that the cache keeps."""
        others = self.cache.skipped
        if self.count <= others.total():
            others_text = f", found only {listed(sorted(others))}" if others else ""
            problem = f"no objects of a cluster, such as Nodes and Pods{others_text}"
            raise files.SourceError(source, problem, fix=_FIX_OF_SOURCE)

    def _add(self, obj: Any, file: str, line: int = 0) -> None:
        if not isinstance(obj, dict):
            self.cache.skipped[NO_KIND] += 1
            return
        self._found = True
        try:
            if self.cache.add(obj):
                self._identities.check(obj, line)
        except InvalidObject as error:
            raise files.SourceError(file, str(error), line) from None
        self._note_time(obj)
        self.count += 1
        if self._progress is not None and self.count % _PROGRESS_EVERY == 0:
            self._progress(self.count)

    def _file(self, file: files.File) -> None:
        name = file.name
        try:
            with files.open_file(file) as stream:
                self._stream(stream, name)
        except JsonFault as error:
            raise files.SourceError(name, error.problem, error.line) from None
        except Fault as error:
            fix = _FIX_OF_SOURCE if error.message == NOT_TEXT else ""
            raise files.SourceError(name, error.message, error.start, fix=fix) from None
        except UnicodeError:
            raise files.SourceError(name, NOT_TEXT, fix=_FIX_OF_SOURCE) from None
        except (OSError, EOFError, zlib.error, ValueError) as error:
            raise files.unreadable(name, error, named=False) from None

    def _stream(self, binary: IO[bytes], name: str) -> None:
        with _text_of(binary) as text:
            start = first = ""
            while len(first) < 2 and (block := text.read(_BLOCK)):
                start += block
                first += "".join(block.split())[:2]
            if _JSON.match(first):
                self._found = True
                for obj, line in json_objects(text, start):
                    self._add(obj, name, line)
            else:
                for value, line in values((start + text.read()).encode(), name):
                    self._found = self._found or items_of(value) is not None
                    for obj, _ in flat(value, line):
                        self._add(obj, name, line)
