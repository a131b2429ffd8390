"""Custom resources of kinds whose CustomResourceDefinition is at hand: read where their schema names classes."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from policies.groups import Member
from policies.manifests import read
from policies.schemas import CRD, class_paths_of
from policies.sources import SourceError, find_files, read_file
from policies.suppressions import of_annotations

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from policies.commands.lint_input import Input
    from policies.config.model import Config
    from policies.objects.fields import ApiObject
    from policies.sources.files import File

_DEFINITION: Final = b"CustomResourceDefinition"


def read_by_schema(given: Input, config: Config, namespace: str, more: Sequence[str], *, every: bool) -> None:
    """Add the objects of kinds that definitions in the input, or in `more` files, have.

    A kind that is known by its name is left as it is known. `every`: note the paths of kinds that no file has.
    """
    defining = [*given.defining, *((file, frozenset(("",))) for file in _files(more))]
    done = {*config.options.class_paths, *config.options.pod_template_paths}
    for file, kinds in defining:
        if any(kind not in done and (every or _is_used(kind, given)) for kind in kinds):
            for definition in _definitions(file):
                kind, paths = class_paths_of(definition)
                if paths and kind not in done:
                    given.class_paths[kind] = paths
                done.add(kind)
    files = {file.name: file for kind in given.class_paths for file in given.files_of.get(kind.rpartition("/")[2], ())}
    for file in files.values():
        _add(file, given, namespace)


def _is_used(kind: str, given: Input) -> bool:
    """Whether a file has objects of a `group/Kind`, or may have."""
    return not kind or kind.rpartition("/")[2] in given.files_of


def with_schemas(config: Config, given: Input) -> Config:
    """The configuration with what the definitions of the input say."""
    paths = {**config.options.class_paths, **given.class_paths}
    return config._replace(options=config.options._replace(class_paths=paths)) if given.class_paths else config


def _files(sources: Sequence[str]) -> Iterator[File]:
    """The files of clusters that are given as files."""
    for source in sources:
        if os.path.exists(source):
            yield from find_files([source])


def _definitions(file: File) -> Iterator[ApiObject]:
    try:
        content = read_file(file)
    except SourceError:
        return  # it was told when it was read
    if _DEFINITION in content:
        yield from (subject.object for subject in read(content, file.name, frozenset((CRD,))).subjects)


def _add(file: File, given: Input, namespace: str) -> None:
    """Read a file again, for the kinds of definitions alone."""
    content = given.texts.get(file.name)
    try:
        reading = read(
            read_file(file) if content is None else content, file.name, given.class_paths, namespace=namespace
        )
    except SourceError:
        return
    place = file.called or file.path
    for subject in reading.subjects:
        given.members.append(Member.of(subject, place))
        given.skipped[str(subject.object["kind"])] -= 1
    given.skipped += type(given.skipped)()  # without what is 0
    given.suppressions += of_annotations(reading.subjects)
