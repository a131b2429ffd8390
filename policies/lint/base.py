"""The files of a commit, to compare findings before and after a change (`lint --base`)."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from forewarn.policies.kinds.registry import PRIORITY_CLASS
from forewarn.policies.lint.versions import repository_of
from forewarn.policies.objects.reviewed_object import Operation
from forewarn.policies.sources.files import SourceError

if TYPE_CHECKING:
    from forewarn.policies.lint.input import Input
    from forewarn.policies.objects.fields import ApiObject


@contextmanager
def commit_directory(ref: str) -> Iterator[str]:
    """Yield a directory with the files that the working directory has in a commit. Raises SourceError."""
    here = os.path.realpath(os.curdir)
    try:
        repository = repository_of(os.curdir)
        commit = repository.commit(ref)
    except SourceError as fault:
        raise SourceError("--base", fault.problem) from None
    with TemporaryDirectory(prefix="forewarn-", ignore_cleanup_errors=True) as directory:
        directory = os.path.realpath(directory)
        repository.write(commit, directory)
        inside = os.path.join(directory, os.path.relpath(here, os.path.realpath(repository.top)))
        os.makedirs(inside, exist_ok=True)
        yield inside


def classes_of(given: Input) -> dict[tuple[str, str], ApiObject]:
    """The PriorityClasses of an input by file and name; with the file "" if the name is defined once."""
    members = [m for m in given.members if m.identity[0] == PRIORITY_CLASS and m.identity[2]]
    names = [m.identity[2] for m in members]
    by_place = {(m.file, m.identity[2]): m.subject.object for m in members}
    return {**{("", m.identity[2]): m.subject.object for m in members if names.count(m.identity[2]) == 1}, **by_place}


def update(given: Input, before: Mapping[tuple[str, str], ApiObject]) -> None:
    """Make the PriorityClasses of an input updates of those before the change."""
    for number, member in enumerate(given.members):
        kind, _, name = member.identity
        old = before.get((member.file, name)) or before.get(("", name)) if kind == PRIORITY_CLASS else None
        if old is not None:
            changed = member.subject._replace(operation=Operation.UPDATE, old=old)
            given.members[number] = member._replace(subject=changed)
