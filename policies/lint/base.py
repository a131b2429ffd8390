"""The files of a commit, to compare findings before and after a change (`lint --base`)."""

from __future__ import annotations

import os
import subprocess
import tarfile
from contextlib import contextmanager
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final

from forewarn.policies.kinds.registry import PRIORITY_CLASS
from forewarn.policies.objects.reviewed_object import Operation
from forewarn.policies.sources import SourceError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from forewarn.policies.lint.input import Input
    from forewarn.policies.objects.fields import ApiObject

_MAX_BYTES: Final = 2 << 30
"""Maximum bytes of all files of a commit."""
_MAX_FILES: Final = 500_000
_GIT: Final = ("git", "-c", "core.fsmonitor=false")


@contextmanager
def commit_directory(ref: str) -> Iterator[str]:
    """Yield a directory with the files that the working directory has in a commit. Raises SourceError."""
    commit = _output("rev-parse", "--verify", "--quiet", "--end-of-options", f"{ref}^{{commit}}")
    top, here = _output("rev-parse", "--show-toplevel"), os.path.realpath(os.curdir)
    with TemporaryDirectory(prefix="forewarn-", ignore_cleanup_errors=True) as directory:
        command = [*_GIT, "-C", top, "archive", "--format=tar", commit]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL) as process:
            assert process.stdout is not None
            try:
                with tarfile.open(fileobj=process.stdout, mode="r|") as archive:
                    _extract(archive, directory)
            except (tarfile.TarError, OSError) as fault:
                process.kill()
                raise SourceError(f"--base {ref}", str(fault)) from None
        inside = os.path.join(directory, os.path.relpath(here, os.path.realpath(top)))
        os.makedirs(inside, exist_ok=True)
        yield inside


def _output(*arguments: str) -> str:
    """The output of git, one line. Raises SourceError."""
    try:
        done = subprocess.run([*_GIT, *arguments], capture_output=True, text=True, check=False, timeout=60)
    except (OSError, subprocess.TimeoutExpired) as fault:
        raise SourceError("--base", f"git: {fault}") from None
    if done.returncode or not done.stdout.strip():
        raise SourceError("--base", done.stderr.strip()[:200] or "no such commit")
    return done.stdout.strip()


def _extract(archive: tarfile.TarFile, directory: str) -> None:
    """Write the regular files of an archive into a directory; links are left out. Raises OSError, TarError."""
    left = _MAX_BYTES
    for number, member in enumerate(archive):
        path = os.path.normpath(member.name)
        left -= member.size
        if left < 0 or number > _MAX_FILES:
            raise OSError("the commit is too large")
        if not member.isfile() or os.path.isabs(path) or path.split(os.sep)[0] == os.pardir:
            continue
        os.makedirs(os.path.join(directory, os.path.dirname(path)), exist_ok=True)
        content = archive.extractfile(member)
        if content is not None:
            with open(os.path.join(directory, path), "wb") as file:
                file.write(content.read())


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
