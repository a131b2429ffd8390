"""Files of a git revision, written to a private directory.

The tree of a revision is not trusted: its size is bounded before its contents are read; names that leave the directory,
and names such as `.git`, are not written. git runs without prompts and filters, and does not fetch what a partial clone
lacks. Attributes of the tree (`export-ignore`) do not hide files.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from forewarn.policies.findings import cut, one_line, quote
from forewarn.policies.sources.files import SourceError

MAX_FILES: Final = 100_000
MAX_BYTES: Final = 256 << 20
_SECONDS: Final = 60
_VARIABLES: Final = {"GIT_TERMINAL_PROMPT": "0", "GIT_OPTIONAL_LOCKS": "0", "GIT_NO_LAZY_FETCH": "1", "LC_ALL": "C"}
_MAIN: Final = ("origin/HEAD", "origin/main", "origin/master", "main", "master")
"""Names of the main branch, the best first."""
_LINK: Final = "120000"
_MODULE: Final = "160000"
_TEXTS: Final = (b".yaml", b".yml", b".json", b".tpl")
"""Ends of names of manifests and templates."""


class Repository(NamedTuple):
    """A git work tree. `top`: its top directory. `git`: the path of the program."""

    top: str
    git: str

    @classmethod
    def of(cls, directory: str, git: str) -> Repository:
        """The work tree that contains a directory. Raises SourceError if there is none."""
        revision = cls(directory, git)
        return revision._replace(top=revision._asked("rev-parse", "--show-toplevel"))

    def commit(self, revision: str) -> str:
        """Return the commit of a revision as 40 hexadecimal digits. Raises SourceError."""
        return self._asked("rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}")

    def merge_base(self, revision: str = "HEAD") -> str:
        """Return the newest common commit of a revision and the main branch. Raises SourceError."""
        for main in _MAIN:
            try:
                return self._asked("merge-base", self.commit(main), self.commit(revision))
            except SourceError:
                continue
        raise SourceError(self.top, f"no branch {' or '.join(_MAIN[1:])}. Fix: name the revision to compare with")

    def changed(self, base: str, head: str = "") -> list[str]:
        """Return the paths that differ between two commits, or between a commit and the working tree; without those
        that git ignores.
        """
        untracked = b"" if head else self._run("ls-files", "--others", "--exclude-standard", "-z", "--full-name")
        differing = self._run(
            "diff", "--name-only", "--no-renames", "--no-ext-diff", "-z", base, *([head] if head else [])
        )
        return [os.fsdecode(path) for path in (differing + untracked).split(b"\0") if path]

    def write(self, commit: str, directory: str) -> list[str]:
        """Write the files of a commit to an empty directory; return the submodules, which are left out.

        Raises SourceError, also for trees above MAX_FILES or MAX_BYTES.
        """
        entries, omitted = list(self._entries(commit)), list[str]()
        if sum(entry.size for entry in entries) > MAX_BYTES:
            raise SourceError(commit, f"the files have more than {MAX_BYTES >> 20} MiB")
        files = [entry for entry in entries if entry.mode != _MODULE and _is_safe(entry.path)]
        omitted = [entry.path for entry in entries if entry.mode == _MODULE]
        names = "".join(f"{entry.object}\n" for entry in files).encode()
        data, start = self._run("cat-file", "--batch", given=names), 0
        for entry in files:
            end = data.index(b"\n", start)
            content = data[end + 1 : end + 1 + entry.size]
            start = end + entry.size + 2
            _write(os.path.join(directory, entry.path), content, is_link=entry.mode == _LINK)
        return omitted

    def _entries(self, commit: str) -> Iterator[_Entry]:
        listing = self._run("ls-tree", "-r", "-z", "--long", "--full-tree", commit)
        for number, line in enumerate(filter(None, listing.split(b"\0"))):
            if number == MAX_FILES:
                raise SourceError(commit, f"more than {MAX_FILES:,} files")
            fields, _, path = line.partition(b"\t")
            mode, _, name, size = fields.decode().split()
            if size == "BAD" and not path.endswith(_TEXTS):
                continue  # if a tool needs the file, it says so
            if size == "BAD":
                missing = f"{os.fsdecode(path)} is not in this partial clone"
                raise SourceError(commit, f"{missing}. Fix: fetch all objects, as a clone without --filter does")
            yield _Entry(mode, name, 0 if size == "-" else int(size), os.fsdecode(path))

    def _asked(self, *arguments: str) -> str:
        return os.fsdecode(self._run(*arguments)).removesuffix("\n")

    def _run(self, *arguments: str, given: bytes = b"") -> bytes:
        try:
            done = subprocess.run(
                (self.git, *arguments),
                cwd=self.top,
                input=given,
                capture_output=True,
                timeout=_SECONDS,
                check=False,
                env={**os.environ, **_VARIABLES},
            )
        except subprocess.TimeoutExpired:
            raise SourceError("git", f"{arguments[0]} takes more than {_SECONDS} s") from None
        except (OSError, ValueError) as fault:  # ValueError: a null byte in a revision
            raise SourceError("git", one_line(str(fault))) from None
        if done.returncode:
            said = one_line(done.stderr.decode("utf-8", "replace").strip()).removeprefix("fatal: ")
            revision = quote(cut(arguments[-1].removesuffix("^{commit}"), 80))
            fix = "pass a branch, tag or commit of this clone, or two directories"
            if "not a git repository" in said:
                said = "the working directory is not in a clone. Fix: run forewarn in a clone, or pass two directories"
            raise SourceError("git", cut(said, 200) if said else f"no revision {revision}. Fix: {fix}")
        return done.stdout


class _Entry(NamedTuple):
    mode: str
    object: str
    size: int
    path: str


def _is_safe(path: str) -> bool:
    """True for a path that stays in the directory and is not part of a repository."""
    steps: Sequence[str] = path.split("/")
    return not any(step in ("", ".", "..") or step.lower() == ".git" for step in steps)


def _write(path: str, content: bytes, *, is_link: bool) -> None:
    """Write a file, without following links of the same tree. Raises SourceError."""
    parent = os.path.dirname(path)
    try:
        os.makedirs(parent, exist_ok=True)
        if os.path.realpath(parent) != parent:
            return
        if is_link:
            os.symlink(os.fsdecode(content), path)
        else:
            with open(path, "xb") as stream:
                stream.write(content)
    except (OSError, ValueError) as fault:
        raise SourceError(cut(path, 200), one_line(str(getattr(fault, "strerror", fault)))) from None
