"""Files of a git revision, written to a private directory.

Nothing of a repository is trusted. git gets a git directory of its own, with links to the objects and references of the
repository, and nothing else: no settings, hooks, attributes, grafts or index, neither of the repository nor of the user
or the system, no replaced objects, and not the work tree. So it finds no program to run and no other place to read:
all of them are named in these files, or in the environment, which git does not get. It only runs commands that read
objects (`rev-parse`, `merge-base`, `ls-tree`, `cat-file`), and does not fetch what a partial clone lacks.

The tree of a revision is bounded before its contents are read; names that leave the directory, and names such as
`.git`, are not written. Sources: git's gitrepository-layout, git-config, and "Environment Variables" in git.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from tempfile import TemporaryDirectory
from typing import Final, NamedTuple

from forewarn.policies.base.findings import cut, one_line, quote
from forewarn.policies.inputs.sources.files import SourceError, is_inside
from forewarn.policies.inputs.sources.git import contents, git_directory, work_trees
from forewarn.policies.inputs.sources.programs import Exceeded, Trees, find_program, inherited, run_program, safe_path

MAX_FILES: Final = 100_000
MAX_BYTES: Final = 256 << 20
_MAX_SETTINGS: Final = 1 << 20
"""Maximum bytes of a small file of a git directory."""
_MAX_PATHS: Final = 4096
"""Maximum characters of paths in a message, whose commands need complete paths."""
_SETTINGS: Final = ("safe.bareRepository=explicit", "core.fsmonitor=false", "protocol.allow=never")
_VARIABLES: Final = {
    "GIT_ALLOW_PROTOCOL": "",
    "GIT_ATTR_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
    "LC_ALL": "C",
}
_ALTERNATES: Final = "GIT_ALTERNATE_OBJECT_DIRECTORIES"
"""The only variable that git inherits: further directories of objects."""
_OWN: Final = ("logs", "refs", "reftable")
"""Entries of a git directory that each work tree has for itself."""
_SHARED: Final = ("logs", "packed-refs", "refs", "reftable", "shallow")
_OBJECTS: Final = re.compile(r"[0-9a-f]{2}|pack")
_GRAPHS: Final = ("commit-graph", "commit-graphs")
_HEADS: Final = ("HEAD", *(f"{name}_HEAD" for name in ("CHERRY_PICK", "FETCH", "MERGE", "ORIG", "REBASE", "REVERT")))
_SHA256: Final = re.compile(rb"^[ \t]*objectformat[ \t]*=[ \t]*sha256\b", re.IGNORECASE | re.MULTILINE)
_MAIN: Final = ("origin/HEAD", "origin/main", "origin/master", "main", "master")
"""Names of the main branch, the best first."""
_LINK: Final = "120000"
_MODULE: Final = "160000"
_TEXTS: Final = (b".yaml", b".yml", b".json", b".tpl")
"""Ends of names of manifests and templates."""
_IN_CLONE: Final = "run forewarn in a clone, or pass two directories"


@contextmanager
def open_repository(directory: str, git: str, path: str) -> Iterator[Repository]:
    """Yield the repository whose work tree contains a directory. Raises SourceError if there is none.

    `git`: the path of the program. `path`: its $PATH.
    """
    top = next(work_trees(directory), "")
    if not top:
        raise SourceError("git", "the working directory is not in a clone", fix=_IN_CLONE)
    with TemporaryDirectory(prefix="forewarn-", ignore_cleanup_errors=True) as private:
        try:
            _link_data(git_directory(top), private)
        except OSError as fault:
            raise SourceError("git", f"{fault.filename or top}: {one_line(fault.strerror or str(fault))}") from None
        yield Repository(top, git, path, private)


@contextmanager
def working_repository() -> Iterator[Repository]:
    """Yield the repository that contains the working directory. Raises SourceError."""
    trees = Trees.from_paths([os.curdir])
    git = find_program("git", trees)
    if not git:
        raise SourceError("git", "not installed, or only in a checked directory")
    with open_repository(os.curdir, git, safe_path(trees)) as repository:
        yield repository


class Repository:
    """A git work tree. `top`: its top directory. `git`, `path`: the program and its $PATH. `private`: a directory with
    links to the objects and references.
    """

    def __init__(self, top: str, git: str, path: str, private: str) -> None:
        self.top: Final = top
        self._git, self._path, self._private = git, path, private
        self._listed: dict[str, list[_Entry]] = {}

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
        raise SourceError(self.top, f"no branch {' or '.join(_MAIN[1:])}", fix="name the revision to compare with")

    def common_commit(self, revision: str) -> str:
        """Return the newest common commit of HEAD and a revision. Raises SourceError."""
        try:
            return self._asked("merge-base", self.commit(revision), self.commit("HEAD"))
        except SourceError:
            if not os.path.exists(os.path.join(self._private, "shared", "shallow")):
                raise
            problem = f"no common commit with {quote(cut(revision, 80))}: shallow clone"
            fix = "fetch the whole history (actions/checkout: fetch-depth: 0)"
            raise SourceError("git", problem, fix=fix) from None

    def changed(self, base: str, head: str) -> list[str]:
        """Return the paths that differ between two commits. Raises SourceError."""
        before, after = ({entry.path: entry for entry in self._entries(commit)} for commit in (base, head))
        return sorted(path for path in before.keys() | after if before.get(path) != after.get(path))

    def write(self, commit: str, directory: str) -> list[str]:
        """Write the files of a commit to an empty directory; return the submodules, which are left out.

        Raises SourceError, also for trees above MAX_FILES or MAX_BYTES.
        """
        entries = self._entries(commit)
        if sum(entry.size for entry in entries) > MAX_BYTES:
            raise SourceError(commit, f"the files have more than {MAX_BYTES >> 20} MiB")
        files = [entry for entry in entries if entry.mode != _MODULE and _is_safe(entry.path)]
        names = "".join(f"{entry.object}\n" for entry in files).encode()
        data, start = self._run("cat-file", "--batch", stdin=names, limit=2 * MAX_BYTES), 0
        for entry in files:
            end = data.index(b"\n", start)
            content = data[end + 1 : end + 1 + entry.size]
            start = end + entry.size + 2
            _write(os.path.join(directory, entry.path), content, is_link=entry.mode == _LINK)
        return [entry.path for entry in entries if entry.mode == _MODULE]

    def _entries(self, commit: str) -> list[_Entry]:
        if commit not in self._listed:
            listing = self._run("ls-tree", "-r", "-z", "--long", "--full-tree", commit)
            self._listed[commit] = list(_entries_in(listing, commit))
        return self._listed[commit]

    def _asked(self, *arguments: str) -> str:
        return os.fsdecode(self._run(*arguments)).removesuffix("\n")

    def _run(self, *arguments: str, stdin: bytes = b"", limit: int = 0) -> bytes:
        """Return the output of a command of git. Every call of git is made here."""
        environment = {
            "PATH": self._path,
            "HOME": self._private,
            "GIT_DIR": os.path.join(self._private, "own"),
            **_VARIABLES,
        }
        settings = (option for setting in _SETTINGS for option in ("-c", setting))
        try:
            command = (self._git, *settings, *arguments)
            ended = run_program(
                command, environment | inherited([_ALTERNATES]), self._private, stdin=stdin, limit=limit
            )
        except Exceeded as fault:
            raise SourceError("git", f"{arguments[0]} {fault}") from None
        except (OSError, ValueError) as fault:  # ValueError: a null byte in a revision
            raise SourceError("git", one_line(str(fault))) from None
        if ended.status:
            said = one_line(ended.complaint.strip()).removeprefix("fatal: ")
            revision = quote(cut(arguments[-1].removesuffix("^{commit}"), 80))
            fix = "" if said else "pass a branch, tag or commit of this clone, or two directories"
            if "not a git repository" in said:
                said, fix = "the working directory is not in a clone", _IN_CLONE
            raise SourceError("git", cut(said, 200) or f"no revision {revision}", fix=fix)
        return ended.output


def _link_data(directory: str, private: str) -> None:
    """Create two directories in a private one: `own`, the git directory of a linked work tree, and `shared`, the data
    that all work trees share. They contain links to the data of a git directory, and no settings. Raises OSError,
    SourceError.
    """
    common = os.path.realpath(os.path.join(directory, os.fsdecode(_small(directory, "commondir").strip())))
    for name, source, links in (("own", directory, _OWN), ("shared", common, _SHARED)):
        target = os.path.join(private, name)
        os.mkdir(target)
        for link in links:
            _link(source, link, target)
    for name in _HEADS:
        if content := _small(directory, name):
            _put(os.path.join(private, "own", name), content)
    _link_objects(common, os.path.join(private, "shared", "objects"))
    extensions = "\tobjectformat = sha256\n" if _SHA256.search(_small(common, "config")) else ""
    extensions += "\trefstorage = reftable\n" if os.path.isdir(os.path.join(common, "reftable")) else ""
    version = f"[core]\n\trepositoryformatversion = {int(bool(extensions))}\n"
    _put(os.path.join(private, "own", "commondir"), b"../shared\n")
    _put(os.path.join(private, "shared", "config"), f"{version}[extensions]\n{extensions}".encode())


def _link_objects(common: str, target: str) -> None:
    """Link the objects of a repository, except objects that it stores in other directories. Raises SourceError."""
    source = os.path.join(common, "objects")
    others = os.fsdecode(_small(os.path.join(source, "info"), "alternates")).strip()
    if not is_inside(source, common):
        others = os.path.realpath(source)
    if others and _ALTERNATES not in os.environ:
        where = shlex.quote(cut(others.replace("\n", os.pathsep), _MAX_PATHS))
        fix = f"set {_ALTERNATES}={where} if you trust this clone"
        raise SourceError("git", "the clone has its objects in another directory", fix=fix)
    os.makedirs(os.path.join(target, "info"))
    for name in filter(_OBJECTS.fullmatch, os.listdir(source)):
        _link(source, name, target)
    for name in _GRAPHS:
        _link(os.path.join(source, "info"), name, os.path.join(target, "info"))


def _link(source: str, name: str, target: str) -> None:
    """Link a file or directory, unless it leads out of its directory, or is a pipe, for which git would wait."""
    path = os.path.join(source, name)
    if (os.path.isfile(path) or os.path.isdir(path)) and is_inside(path, os.path.realpath(source)):
        os.symlink(path, os.path.join(target, name))


def _small(directory: str, name: str) -> bytes:
    """The contents of a small file of a git directory; empty if there is none."""
    with suppress(OSError):
        return contents(os.path.join(directory, name), _MAX_SETTINGS)
    return b""


def _put(path: str, content: bytes) -> None:
    with open(path, "xb") as file:
        file.write(content)


def _entries_in(listing: bytes, commit: str) -> Iterator[_Entry]:
    for number, line in enumerate(filter(None, listing.split(b"\0"))):
        if number == MAX_FILES:
            raise SourceError(commit, f"more than {MAX_FILES:,} files")
        fields, _, path = line.partition(b"\t")
        mode, _, name, size = fields.decode().split()
        if size == "BAD" and not path.endswith(_TEXTS):
            continue  # a tool that needs the file reports the error
        if size == "BAD":
            fix = "fetch all objects, as a clone without --filter does"
            raise SourceError(commit, f"{os.fsdecode(path)} is not in this partial clone", fix=fix)
        yield _Entry(mode, name, 0 if size == "-" else int(size), os.fsdecode(path))


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
        if os.path.realpath(parent) != parent:
            return
        os.makedirs(parent, exist_ok=True)
        if is_link:
            os.symlink(os.fsdecode(content), path)
        else:
            with open(path, "xb") as stream:
                stream.write(content)
    except (OSError, ValueError) as fault:
        raise SourceError(cut(path, 200), one_line(str(getattr(fault, "strerror", fault)))) from None
