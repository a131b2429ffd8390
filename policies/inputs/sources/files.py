"""Files: selects those to read in directories, in order, and reads them; output files; errors of both, and the exit
status for them. Content of directory trees is not trusted.
"""

from __future__ import annotations

import errno
import os
import stat
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from os import PathLike as PathLike
from os import fspath as fspath
from typing import IO, Final

from forewarn.policies.base.findings import nearest_word, with_fix
from forewarn.policies.base.light import NamedTuple, later
from forewarn.policies.inputs.manifests.reading import MAX_FILE
from forewarn.policies.inputs.sources.git import GITIGNORE, Ignores, contents, upwards
from forewarn.policies.kubernetes.objects.fields import ForewarnError, InvalidInput

_FIXES: Final = {
    errno.EACCES: "allow this user to read it",
    errno.EISDIR: "pass a file",
    errno.ELOOP: "pass the target of the link",
}
_AN_EXISTING_FILE: Final = "pass the path of an existing file or directory"
USAGE: Final = 2
FAILED: Final = 3


class SourceError(ForewarnError):
    """An input cannot be read: `file`, the `line` and `column` (0 if unknown), the problem and the fix.

    `file` is empty for an input that the user has not named.
    """

    def __init__(self, file: str, problem: str, line: int = 0, column: int = 0, *, fix: str = "") -> None:
        self.file, self.problem, self.line, self.fix = file, problem, line, fix
        where = f"{file}:{line}:{column}" if line and column else f"{file}:{line}" if line else file
        super().__init__(f"{where}: {problem}" if where else problem)


class MissingFile(SourceError):
    """A file, directory or kubeconfig context that the user named does not exist."""


class WrongFile(SourceError):
    """A file that the user named has contents that the option does not accept."""


def status_of(fault: BaseException | None) -> int:
    """Return the exit status of a command that ends with this error, or with an error caused by it."""
    usage = isinstance(fault, (MissingFile, WrongFile, InvalidInput, FileNotFoundError, NotADirectoryError))
    return USAGE if usage else FAILED


def unreadable(path: str, error: Exception, *, named: bool = True) -> SourceError:
    """The error for a file that cannot be opened or read. `named`: the user has given exactly this path."""
    if named and status_of(error) == USAGE:
        return MissingFile(path, no_such_file(path))
    return SourceError(path, reason(error), fix=_FIXES.get(error.errno or 0, "") if isinstance(error, OSError) else "")


def no_such_file(path: str, problem: str = "no such file or directory", fix: str = _AN_EXISTING_FILE) -> str:
    """Return the error for a path that does not exist, with a similar name from its directory."""
    if "://" in path:
        return "forewarn reads no URLs. Fix: download the file, or pipe it to forewarn and pass -"
    directory, name = os.path.split(path.rstrip("/"))
    if os.path.isfile(directory):
        return "not a directory. Fix: pass the file"
    with suppress(OSError):
        if near := nearest_word(name, os.listdir(directory or os.curdir), 0.75):
            return f'{problem}; did you mean "{os.path.join(directory, near)}"?'
    return with_fix(problem, fix)


def reason(error: Exception) -> str:
    """The system's error message without the path."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror[:1].lower() + error.strerror[1:]
    return str(error)


MANIFESTS: Final = (".yaml", ".yml", ".json")
STDIN: Final = "-"
STDIN_NAME: Final = "<stdin>"
TEST_DATA: Final = "testdata directory"
PACKED: Final = "packed chart"
OUTSIDE: Final = "link out of the directory"
NO_FILE: Final = "pipe or device"
TEMPLATES: Final = "chart's templates"
IGNORED: Final = "file or directory ignored by git"
NAMED: Final = "file or directory that .gitignore names (git's index is unreadable)"
VENDORED: Final = "vendor directory of Go"
OLDER: Final = "older chart version"
_VENDOR: Final = "vendor"
_TEST_DATA_NAME: Final = "testdata"
"""The directory with test inputs of a Go package; the go command ignores it, too."""
_GO: Final = (".go", "go.mod")
"""Suffixes of Go files: `testdata` is skipped only beside one of these."""
_REPOSITORY: Final = ".git"
"""A directory that never contains manifests, because git does not track it: skipped without a message."""


class File(NamedTuple):
    """A file to read. `tree`: the directory that links of the file must not leave; "" for a file that the user named.

    `called`: the name of standard input in findings. `data`: the content of a file in memory.
    """

    path: str
    tree: str = ""
    called: str = ""
    data: bytes | None = None

    @property
    def name(self) -> str:
        return self.called or (STDIN_NAME if self.path == STDIN else self.path)

    @property
    def is_stream(self) -> bool:
        """True if the file can be read only once."""
        return self.path == STDIN or (not self.tree and not os.path.isfile(self.path))


def find_files(
    paths: Iterable[str],
    suffixes: tuple[str, ...] = MANIFESTS,
    omitted: Callable[[str, str], object] = lambda *_: None,
    *,
    as_git: bool = False,
    deployed: bool = False,
) -> Iterator[File]:
    """Yield the files of these paths: named files and `-` unchanged; in directories, files with a suffix, sorted.

    `omitted`: called with the path and the type of skipped entries: `testdata` of Go packages, links out of the
    directory, pipes, devices, and chart templates. Each file is yielded once, even if several paths lead to it.
    Unreadable entries are yielded, so that reading reports the error. `as_git`: skip entries that git ignores in a
    work tree. `deployed`: a tool deploys the directories, so `testdata` is not skipped.
    """
    seen: set[str] = set()
    directories: dict[str, str] = {}
    ignores: dict[str, Ignores] | None = {} if as_git else None
    for path in paths:
        files: Iterable[tuple[File, bool]] = ((File(path), path != STDIN and os.path.islink(path)),)
        if path != STDIN and os.path.isdir(path):
            files = _Walk(path, suffixes, omitted, ignores, deployed=deployed).files()
        for file, is_link in files:
            real = file.path if file.path == STDIN else real_path(file.path, directories, is_link=is_link)
            if real not in seen:
                seen.add(real)
                yield file


def real_path(path: str, directories: dict[str, str], *, is_link: bool | None = None) -> str:
    """Return the real path of a file. Caches the real paths of directories, because resolving them is slow."""
    if os.path.islink(path) if is_link is None else is_link:
        return os.path.realpath(path)
    parent, name = os.path.split(path)
    return os.path.join(real_directory(parent, directories), name)


def real_directory(path: str, directories: dict[str, str]) -> str:
    """Return a directory's real path from the nearest cached parent: trees may be thousands of levels deep."""
    way = []
    while path not in directories:
        parent, name = os.path.split(path)
        if name in ("", os.curdir, os.pardir) or os.path.islink(path):
            directories[path] = os.path.realpath(path)
            break
        way.append(path)
        path = parent
    real = directories[path]
    for below in reversed(way):
        real = directories[below] = os.path.join(real, os.path.basename(below))
    return real


class _Walk:
    """Walks one directory: depth first, sorted by name."""

    def __init__(
        self,
        root: str,
        suffixes: tuple[str, ...],
        omitted: Callable[[str, str], object],
        ignores: dict[str, Ignores] | None,
        *,
        deployed: bool,
    ) -> None:
        self._root, self._real = root, os.path.realpath(root)
        self._suffixes, self._omitted, self._deployed = suffixes, omitted, deployed
        self._seen: set[tuple[int, int]] = set()
        """The device and inode of each directory read so far, so that links cause no loops."""
        above = Ignores.load_inherited(root, ignores) if ignores is not None else None
        self._ignores = {} if above is None else {root: above}

    def files(self) -> Iterator[tuple[File, bool]]:
        """Yield the files with one of the suffixes, and whether each is a link."""
        to_do: list[os.DirEntry[str] | str] = [self._root]
        while to_do:
            entry = to_do.pop()
            if isinstance(entry, str) or _is_directory(entry):
                path = entry if isinstance(entry, str) else entry.path
                children = self._children(path)
                if children is None:
                    yield File(path, self._root), os.path.islink(path)
                else:
                    to_do += reversed(children)
            elif self._is_manifest(entry):
                yield File(entry.path, self._root), entry.is_symlink()

    def _children(self, path: str) -> list[os.DirEntry[str]] | None:
        """Return a directory's sorted entries; none for one that was read before; None if it is unreadable."""
        try:
            status = os.stat(path)
            if (status.st_dev, status.st_ino) in self._seen:
                return []
            self._seen.add((status.st_dev, status.st_ino))
            with os.scandir(path) as entries:
                children = [*entries]
            children = self._without_others(path, children)
            let_in = sorted(filter(self._is_let_in, children), key=_order)
            return self._not_ignored(path, children, let_in) if path in self._ignores else let_in
        except OSError:
            return None

    def _not_ignored(
        self, path: str, all_of_it: list[os.DirEntry[str]], let_in: list[os.DirEntry[str]]
    ) -> list[os.DirEntry[str]]:
        """The entries that git does not ignore; git never ignores tracked files."""
        names = {entry.name for entry in all_of_it}
        above = self._ignores.pop(path)
        ignores = Ignores.from_directory(path) if ".git" in names else above
        if GITIGNORE in names:
            ignores = ignores.extended_by(path)
        kept = []
        for entry in let_in:
            is_directory = _is_directory(entry)
            inside = ignores.rules_for(entry.path, is_directory=is_directory)
            if inside is None:
                self._omitted(entry.path, IGNORED if ignores.tree.is_readable else NAMED)
                continue
            kept.append(entry)
            if is_directory:
                self._ignores[entry.path] = inside
        return kept

    def _without_others(self, path: str, children: list[os.DirEntry[str]]) -> list[os.DirEntry[str]]:
        """Return the entries of a directory that may be manifests; call `omitted` for others."""
        others = self._others(path, {child.name for child in children})
        kept = []
        for child in children if others else ():
            what = others.get(child.name, "")
            if what and (what == PACKED or _is_directory(child)):
                self._omitted(child.path, what)
            else:
                kept.append(child)
        return kept if others else children

    def _others(self, path: str, names: set[str]) -> dict[str, str]:
        """Return the names in a directory that are no manifests, judging by its other names; each with the reason."""
        others = {}
        if "Chart.yaml" in names and "templates" in names:
            others["templates"] = TEMPLATES
        if _TEST_DATA_NAME in names and not self._deployed and any(name.endswith(_GO) for name in names):
            others[_TEST_DATA_NAME] = TEST_DATA
        if _VENDOR in names and os.path.isfile(os.path.join(path, _VENDOR, "modules.txt")):
            others[_VENDOR] = VENDORED
        versions = sorted((version, name) for name in names if (version := _version_of(name)))
        for _, name in versions[:-1]:
            if not self._deployed and _is_same_chart(os.path.join(path, name), os.path.join(path, versions[-1][1])):
                others[name] = OLDER
        if os.path.basename(path) == "charts" and os.path.lexists(os.path.join(os.path.dirname(path), "Chart.yaml")):
            others |= {name: PACKED for name in names if name.endswith(".tgz")}
        return others

    def _is_let_in(self, entry: os.DirEntry[str]) -> bool:
        """Report whether to read an entry; call `omitted` for skipped entries."""
        is_directory = _is_directory(entry)
        if is_directory and entry.name == _REPOSITORY:
            return False
        if not is_directory and not entry.name.lower().endswith(self._suffixes):
            return False
        if entry.is_symlink() and not is_inside(entry.path, self._real):
            self._omitted(entry.path, OUTSIDE)
            return False
        return True

    def _is_manifest(self, entry: os.DirEntry[str]) -> bool:
        """Report whether an entry is a regular file, unlike pipes, sockets and devices; call `omitted` for these."""
        if entry.is_file(follow_symlinks=False):
            return True
        try:
            mode = os.stat(entry.path).st_mode
        except OSError:
            return True  # reading it reports the error
        if not stat.S_ISREG(mode):
            self._omitted(entry.path, NO_FILE)
        return stat.S_ISREG(mode)


def _version_of(name: str) -> tuple[int, ...]:
    """The numbers in the name of a directory if the name is a version such as `1.2.0`; empty for other names."""
    match = _VERSION.fullmatch(name) if name[:1] in _BEGINS_VERSION else None
    return tuple(map(int, match[1].split("."))) if match else ()


_BEGINS_VERSION: Final = "v0123456789"
_VERSION: Final = later(r"v?(\d{1,9}(?:\.\d{1,9}){1,3})(?:\+[\w.-]{1,50})?")
_CHARTS: Final = ("Chart.yaml", os.path.join("src", "Chart.yaml"))
"""Where a directory may contain a chart; `src` is used by repositories that publish a report beside each chart."""


def _is_same_chart(older: str, newest: str) -> bool:
    """Report whether two directories have a chart at the same place."""
    return any(all(os.path.isfile(os.path.join(path, chart)) for path in (older, newest)) for chart in _CHARTS)


def _order(entry: os.DirEntry[str]) -> tuple[bool, str]:
    """The sort key: by name; directories such as `..data` of a ConfigMap volume come last, after links into them."""
    return entry.name.startswith(".."), entry.name


def is_inside(path: str, directory: str) -> bool:
    """True if the target of a path is in a directory (a real path)."""
    return os.path.realpath(path).startswith(directory.rstrip(os.sep) + os.sep)


def _is_directory(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:
        return False


def read_file(file: File | str, limit: int = MAX_FILE) -> bytes:
    """The bytes of a file, or of standard input for `-`. Raises SourceError.

    Reads at most `limit` bytes and one more, so that the caller detects larger files.
    """
    if isinstance(file, File) and file.data is not None:
        return file.data
    if isinstance(file, File) and file.tree:
        with suppress(OSError, ValueError):
            if data := contents(file.path, limit):
                return data
    with open_file(file) as stream:
        try:
            return stream.read(limit + 1)
        except OSError as error:
            raise unreadable(_path(file), error, named=False) from None


def kept(path: File | str) -> File | str:
    """Return a file that can be read only once together with its content; other files unchanged. Raises SourceError."""
    if isinstance(path, File):
        return path
    file = File(path)
    is_read_once = path == STDIN or (file.is_stream and os.path.exists(path) and not os.path.isdir(path))
    return file._replace(data=read_file(file)) if is_read_once else path


def readable(file: File | str) -> bytes:
    """The bytes of a file; b"" if it is unreadable: the error is reported when the file itself is an input."""
    with suppress(SourceError):
        return read_file(file)
    return b""


@contextmanager
def open_file(file: File | str) -> Iterator[IO[bytes]]:
    """Open a file or standard input for reading. Raises SourceError.

    Named files may be pipes (`<(helm template .)`). The target of a link must be a file in the tree, in the working
    directory, or beside the link.
    """
    path = _path(file)
    if path == STDIN:
        yield sys.stdin.buffer
        return
    try:
        _check(path, "" if isinstance(file, str) else file.tree)
        stream = open(path, "rb")  # noqa: SIM115  (closed below)
    except (OSError, ValueError) as error:
        raise unreadable(path, error, named=isinstance(file, str) or not file.tree) from None
    with stream:
        yield stream


def _path(file: File | str) -> str:
    return file if isinstance(file, str) else file.path


def _check(path: str, tree: str) -> None:
    """Raise ValueError or OSError if a path must not be opened."""
    mode = os.stat(path).st_mode
    own = path.startswith("/dev/")  # standard input and the shells' substitutes for files
    is_link = os.path.islink(path) and not own
    if stat.S_ISDIR(mode) or stat.S_ISREG(mode) or own or (stat.S_ISFIFO(mode) and not is_link and not tree):
        homes = (tree or os.curdir, os.path.dirname(path) or os.curdir)
        if is_link and not any(is_inside(path, os.path.realpath(home)) for home in homes):
            raise ValueError("link out of its directory is not followed. Fix: pass the file itself")
        return
    raise ValueError("not a file or pipe" if not is_link else "link to something other than a file is not followed")


_OPEN_STREAM: Final = later(r"/dev/(?:(stdout)|(stderr)|fd/(\d{1,6}))|/proc/self/fd/(\d{1,6})")
_DIRECTORY: Final = os.O_DIRECTORY | os.O_CLOEXEC | getattr(os, "O_PATH", os.O_RDONLY)
_FILE: Final = os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC
_MAX_LINKS: Final = 40
"""Maximum number of links to resolve. Source: Linux, MAXSYMLINKS."""
_OUTPUT_FIXES: Final = {
    errno.ENOENT: "create its directory",
    errno.ENOTDIR: "pass a file in an existing directory",
    errno.EISDIR: "pass a file",
    errno.ENOSPC: "free space on that disk",
    errno.EDQUOT: "free space on that disk",
}


class _Link(Exception):
    """The path contains a symbolic link that is not followed; the message gives the fix."""


@contextmanager
def output_file(path: str, mode: int | None = None) -> Iterator[IO[bytes]]:
    """Yield a stream to write to; when the block ends without an error, its content replaces the file. Raises
    SourceError.

    An existing file keeps its permissions, unless `mode` is given. Pipes, devices, and open descriptors such as
    /dev/stdout and /dev/fd/3 are written directly. Raises SourceError for a file that is a symbolic link, and for a
    directory of the path that is a symbolic link inside the working directory or a git work tree.
    """
    with _faults_named(path):
        handle = _descriptor_of(path)
        if handle is not None:
            with open(handle, "wb") as stream:
                yield stream
            return
        directory, name = _parent(path)
        try:
            with _replaced(directory, name, mode) as stream:
                yield stream
        finally:
            os.close(directory)


def write_file(path: str, data: bytes) -> None:
    """Replace the content of a file. Raises SourceError."""
    with output_file(path) as stream:
        stream.write(data)


def append_file(path: str, data: bytes) -> None:
    """Append to a file that other processes also write to. Raises SourceError."""
    with _faults_named(path), open(os.open(path, _FILE | os.O_APPEND | os.O_CREAT, 0o666), "ab") as stream:
        stream.write(data)


@contextmanager
def _faults_named(path: str) -> Iterator[None]:
    try:
        yield
    except OSError as fault:
        fix = _OUTPUT_FIXES.get(fault.errno or 0, "pass a file that you can write to")
        raise SourceError(path or '""', reason(fault), fix=fix) from None
    except _Link as fault:
        raise SourceError(path, str(fault)) from None


def _descriptor_of(path: str) -> int | None:
    """A duplicate of the open descriptor that a path such as /dev/stdout names; None for other paths."""
    match = _OPEN_STREAM.fullmatch(path)
    if match is None:
        return None
    if match[1]:
        sys.stdout.flush()  # keeps the order with output printed earlier
    return os.dup(1 if match[1] else 2 if match[2] else int(match[3] or match[4]))


@contextmanager
def _replaced(directory: int, name: str, mode: int | None) -> Iterator[IO[bytes]]:
    try:
        status = os.stat(name, dir_fd=directory, follow_symlinks=False)
    except FileNotFoundError:
        status = None
    if status is not None and stat.S_ISLNK(status.st_mode):
        raise _Link("forewarn does not write through a symbolic link. Fix: remove the link, or pass its target")
    if status is not None and not stat.S_ISREG(status.st_mode):
        with open(os.open(name, _FILE, dir_fd=directory), "wb") as stream:
            yield stream
        return
    temporary = f".forewarn-{os.urandom(8).hex()}"
    handle = os.open(temporary, _FILE | os.O_CREAT | os.O_EXCL, 0o666 if mode is None else mode, dir_fd=directory)
    try:
        with open(handle, "wb") as stream:
            if status is not None and mode is None:
                with suppress(PermissionError):
                    os.fchown(handle, status.st_uid, status.st_gid)
                os.fchmod(handle, stat.S_IMODE(status.st_mode) & 0o777)
            yield stream
        os.replace(temporary, name, src_dir_fd=directory, dst_dir_fd=directory)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary, dir_fd=directory)
        raise


def _parent(path: str) -> tuple[int, str]:
    """Open the directory of a file step by step; return its descriptor and the file's name. Raises OSError, _Link.

    No step follows a link implicitly: links are resolved only outside the working directory and git work trees.
    """
    parent, name = os.path.split(path)
    if name in ("", os.curdir, os.pardir):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    working = os.path.realpath(os.curdir)
    real = os.sep if os.path.isabs(path) else working
    directory = os.open(real, _DIRECTORY)
    steps, links = _steps(parent), 0
    try:
        while steps:
            step = steps.pop()
            target = _target(step, directory)
            if target is None:
                below = os.open(step, _DIRECTORY | os.O_NOFOLLOW, dir_fd=directory)
                real = os.path.dirname(real) if step == os.pardir else os.path.join(real, step)
            else:
                links += 1
                if links > _MAX_LINKS:
                    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
                if _is_in_tree(real, working):
                    where = os.path.join(real, step)
                    raise _Link(f"directory {where} is a symbolic link in a working tree. Fix: pass its target")
                steps += _steps(target)
                if not os.path.isabs(target):
                    continue
                below, real = os.open(os.sep, _DIRECTORY), os.sep
            os.close(directory)
            directory = below
    except BaseException:
        os.close(directory)
        raise
    return directory, name


def _steps(path: str) -> list[str]:
    return [step for step in reversed(path.split(os.sep)) if step not in ("", os.curdir)]


def _target(step: str, directory: int) -> str | None:
    """The target of a link; None for other or missing files."""
    with suppress(OSError):
        return os.readlink(step, dir_fd=directory)
    return None


def _is_in_tree(directory: str, working: str) -> bool:
    """True if a directory (a real path) is in the working directory or in a git work tree."""
    if working != os.sep and f"{directory}{os.sep}".startswith(f"{working}{os.sep}"):
        return True
    return any(os.path.lexists(os.path.join(above, ".git")) for above in upwards(directory))
