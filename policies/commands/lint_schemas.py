"""Custom resources with a known CustomResourceDefinition: read at the paths where the schema names PriorityClasses."""

from __future__ import annotations

import os
from itertools import chain
from typing import TYPE_CHECKING, Final

from forewarn.policies.evaluation.suppressions import of_annotations
from forewarn.policies.kinds.class_paths import CRD, class_paths_of
from forewarn.policies.manifests import read
from forewarn.policies.manifests.groups import Member
from forewarn.policies.sources import SourceError, find_files, read_file

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from forewarn.policies.commands.lint_input import Input
    from forewarn.policies.config.model import Config
    from forewarn.policies.objects.fields import ApiObject
    from forewarn.policies.sources.files import File

_DEFINITION: Final = b"CustomResourceDefinition"


def read_by_schema(given: Input, config: Config, namespace: str, more: Sequence[str], *, every: bool) -> None:
    """Add the objects of custom kinds whose definition is in the input, or in `more` files and named sources.

    Kinds with built-in or configured paths are unchanged. `every`: also record the paths of kinds that no file uses.
    """
    defining = [*given.defining, *((file, frozenset(("",))) for file in _files(more))]
    done = {*config.options.class_paths, *config.options.pod_template_paths}
    texts = _Texts(given)
    for file, kinds in defining:
        if any(kind not in done and (every or not kind or texts.of(kind)) for kind in kinds):
            _add_paths(file, given, done)
    if more and any(texts.of(kind) for kind in given.files_of):
        from forewarn.policies.sources.cluster import definitions_of

        for definition in chain.from_iterable(map(definitions_of, more)):
            kind, paths = class_paths_of(definition)
            if paths and kind not in done and (every or texts.of(kind)):
                given.class_paths[kind] = paths
    for name in dict.fromkeys(name for kind in given.class_paths for name in texts.of(kind)):
        _add(given.sources[name], texts.found[name], given, namespace)


def _add_paths(file: File, given: Input, done: set[str]) -> None:
    """Record the PriorityClass paths of the kinds that a file defines; add these kinds to `done`."""
    for definition in _definitions(file):
        kind, paths = class_paths_of(definition)
        if paths and kind not in done:
            given.class_paths[kind] = paths
        done.add(kind)


class _Texts:
    """The texts of input files that may name a PriorityClass or priority in objects of unknown kinds."""

    def __init__(self, given: Input) -> None:
        self._files_of = given.files_of
        self._texts = given.texts
        self.found: dict[str, bytes] = {}

    def of(self, kind: str) -> list[str]:
        """Return the names of the files with objects of a kind (in any API group) that may name a PriorityClass."""
        return [file.name for file in self._files_of.get(kind.rpartition("/")[2], ()) if self._text(file)]

    def _text(self, file: File) -> bytes:
        if file.name not in self.found:
            content = self._texts.get(file.name) or _content(file)
            self.found[file.name] = content if any(word in content for word in _WORDS) else b""
        return self.found[file.name]


_WORDS: Final = b"riority", b"preemptionPolicy"


def _content(file: File) -> bytes:
    try:
        return read_file(file)
    except SourceError:
        return b""  # it was told when it was read


def with_schemas(config: Config, given: Input) -> Config:
    """Return the configuration with the PriorityClass paths from definitions in the input."""
    paths = {**config.options.class_paths, **given.class_paths}
    return config._replace(options=config.options._replace(class_paths=paths)) if given.class_paths else config


def _files(sources: Sequence[str]) -> Iterator[File]:
    """Yield the files of the sources that exist as files or directories."""
    for source in sources:
        if os.path.exists(source):
            yield from find_files([source])


def _definitions(file: File) -> Iterator[ApiObject]:
    content = _content(file)
    if _DEFINITION in content:
        yield from (each.object for each in read(content, file.name, frozenset((CRD,)), again=True).subjects)


def _add(file: File, content: bytes, given: Input, namespace: str) -> None:
    """Read a file again, only for the kinds whose definition was found."""
    reading = read(content, file.name, given.class_paths, namespace=namespace, again=True)
    place = file.called or file.path
    for subject in reading.subjects:
        given.members.append(Member.of(subject, place))
        given.skipped[str(subject.object["kind"])] -= 1
    given.skipped += type(given.skipped)()  # without what is 0
    given.suppressions += of_annotations(reading.subjects)
