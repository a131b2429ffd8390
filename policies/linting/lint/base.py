"""`forewarn lint --base`: the files of a commit, and PriorityClasses before and after a change."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from forewarn.policies.inputs.sources.files import SourceError
from forewarn.policies.inputs.sources.revisions import working_repository
from forewarn.policies.kubernetes.kinds.registry import PRIORITY_CLASS
from forewarn.policies.kubernetes.objects.reviewed_object import Operation

if TYPE_CHECKING:
    from forewarn.policies.kubernetes.objects.fields import ApiObject
    from forewarn.policies.linting.lint.input import Input


@contextmanager
def commit_directory(ref: str) -> Iterator[str]:
    """Yield a directory with the files of the working directory in the newest common commit of HEAD and a revision.

    Raises SourceError.
    """
    with TemporaryDirectory(prefix="forewarn-", ignore_cleanup_errors=True) as directory:
        directory = os.path.realpath(directory)
        try:
            with working_repository() as repository:
                repository.write(repository.common_commit(ref), directory)
        except SourceError as fault:
            raise SourceError("--base", fault.problem, fix=fault.fix) from None
        inside = os.path.join(directory, os.path.relpath(os.path.realpath(os.curdir), repository.top))
        os.makedirs(inside, exist_ok=True)
        yield inside


def classes_of(files: Input) -> Mapping[str, Mapping[str, ApiObject]]:
    """Return the PriorityClasses of an input by name and file."""
    classes: dict[str, dict[str, ApiObject]] = {}
    for member in files.members:
        kind, _, name = member.identity
        if kind == PRIORITY_CLASS and name:
            classes.setdefault(name, {})[member.file] = member.subject.object
    return classes


def update(files: Input, before: Mapping[str, Mapping[str, ApiObject]]) -> None:
    """Make each PriorityClass of an input an update of its version before the change.

    `before`: name -> file -> PriorityClass. The earlier version is the one in the same file, or the only one with the
    name.
    """
    for number, member in enumerate(files.members):
        kind, _, name = member.identity
        by_file = before.get(name, {}) if kind == PRIORITY_CLASS else {}
        old = by_file.get(member.file) or (next(iter(by_file.values())) if len(by_file) == 1 else None)
        if old is not None:
            changed = member.subject._replace(operation=Operation.UPDATE, old=old)
            files.members[number] = member._replace(subject=changed)
