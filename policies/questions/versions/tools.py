"""Runs helm and kustomize on directories: in parallel, with limits of time and output, with a minimal environment and
without network.
"""

from __future__ import annotations

import gzip
import io
import json
import os
import posixpath
import re
import shlex
import shutil
import stat
import sys
import tarfile
import tempfile
import time
import zlib
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import islice
from threading import Event
from typing import IO, Any, Final, NamedTuple

from forewarn.policies.base.findings import cut, one_line
from forewarn.policies.base.forks import cores
from forewarn.policies.inputs.sources.programs import (
    LOCALE,
    REPOSITORY,
    Exceeded,
    Outside,
    Trees,
    inherited,
    run_program,
    without_network,
)

_MAX_FILES: Final = 20_000
_MAX_BYTES: Final = 512 << 20
_MAX_SECONDS: Final = 60.0
_MAX_UNPACKED: Final = 100 << 20
"""Maximum bytes of a packed chart's files, as in helm."""
_MAX_NESTED: Final = 8
_SCHEMA: Final = "values.schema.json"
_REFERENCES: Final = ("$ref", "$dynamicRef", "$recursiveRef", "$schema")
_BUILT_IN: Final = ("#", "http://json-schema.org/", "https://json-schema.org/")


class Stage:
    """Copies charts and values files for helm to a private directory, in which no link leads elsewhere."""

    def __init__(self, trees: Trees, directory: str) -> None:
        self._trees, self._directory = trees, directory
        self._files = self._bytes = 0
        self._until = time.monotonic() + _MAX_SECONDS

    def chart(self, path: str) -> str:
        """Copy a chart; returns the path of the copy. Raises Outside, OSError."""
        directory = os.path.join(self._directory, "chart")
        os.mkdir(directory)
        copy = os.path.join(directory, os.path.basename(os.path.abspath(path)) or "root")
        self._copy(path, copy)
        return copy

    def values(self, path: str) -> str:
        """Copy a values file under a name without commas, which separate files for helm. Raises Outside, OSError."""
        copy = os.path.join(self._directory, f"values-{self._files}.yaml")
        self._copy(path, copy)
        return copy

    def _copy(self, path: str, target: str) -> None:
        to_do: list[tuple[str, str, str, tuple[str, ...]]] = [(path, self._trees.resolved(path), target, ())]
        while to_do:
            source, real, copy, above = to_do.pop()
            self._count(files=1)
            if not os.path.isdir(real):
                self._copy_file(source, real, copy)
                continue
            if real in above:
                raise Outside(f"{os.path.normpath(source)}: link leads to a directory above it")
            os.mkdir(copy)
            with os.scandir(real) as entries:
                last_first = sorted(entries, key=lambda entry: entry.name, reverse=True)
            for entry in last_first:
                if entry.name.lower() not in REPOSITORY:
                    shown = os.path.join(source, entry.name)
                    inner = self._trees.resolved(shown) if entry.is_symlink() else os.path.join(real, entry.name)
                    to_do.append((shown, inner, os.path.join(copy, entry.name), (*above, real)))

    def _copy_file(self, source: str, real: str, copy: str) -> None:
        descriptor = os.open(real, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        with open(descriptor, "rb") as stream:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                raise Outside(f"{os.path.normpath(source)}: not a file or directory")
            self._count(size=status.st_size)
            directory, name = os.path.split(copy)
            changed: IO[bytes] = stream
            if name.endswith(".tgz") and os.path.basename(directory) == "charts":
                try:
                    changed = io.BytesIO(self._repacked(stream.read()))
                except (tarfile.TarError, zlib.error, EOFError, OSError, ValueError) as fault:
                    raise Outside(f"{os.path.normpath(source)}: {fault}") from None
            elif name == _SCHEMA:
                if _refers_elsewhere(schema := stream.read()):
                    return
                changed = io.BytesIO(schema)
            with open(copy, "xb") as target:
                shutil.copyfileobj(changed, target)

    def _repacked(self, archive: bytes, nested: int = 0) -> bytes:
        """A packed chart with only its files, as this program reads them, and without schemas that refer elsewhere.

        Raises TarError, OSError, EOFError, ValueError, zlib.error.
        """
        with gzip.open(io.BytesIO(archive)) as stream:
            unpacked = stream.read(_MAX_UNPACKED + 1)
        self._count(size=len(unpacked))
        if len(unpacked) > _MAX_UNPACKED or nested > _MAX_NESTED:
            raise Outside(f"more than {_MAX_UNPACKED >> 20} MiB, or than {_MAX_NESTED} charts in each other")
        packed = io.BytesIO()
        with (
            tarfile.open(fileobj=io.BytesIO(unpacked), mode="r:") as source,
            tarfile.open(fileobj=packed, mode="w:gz", compresslevel=1) as target,
        ):
            for member in source:
                if member.issparse():
                    raise Outside("a packed chart has a sparse file")
                stream_of = source.extractfile(member) if member.isreg() else None
                data = stream_of.read() if stream_of else b""
                member_name = posixpath.normpath(member.name.replace("\\", "/"))
                if not member_name.isprintable() or os.pardir in member_name.split("/"):
                    raise Outside("a packed chart has a file whose name helm would read differently")
                directory, name = posixpath.split(member_name)
                if stream_of is None or (name == _SCHEMA and _refers_elsewhere(data)):
                    continue
                if name.endswith(".tgz") and posixpath.basename(directory) == "charts":
                    data = self._repacked(data, nested + 1)
                entry = tarfile.TarInfo(member_name)
                entry.size = len(data)
                target.addfile(entry, io.BytesIO(data))
        return packed.getvalue()

    def _count(self, *, files: int = 0, size: int = 0) -> None:
        self._files, self._bytes = self._files + files, self._bytes + size
        if self._files > _MAX_FILES or self._bytes > _MAX_BYTES:
            raise Outside(f"a chart with more than {_MAX_FILES:,} files or {_MAX_BYTES >> 20} MiB")
        if time.monotonic() > self._until:
            raise Outside(f"copying the chart takes more than {_MAX_SECONDS:.0f} s")


def _refers_elsewhere(schema: bytes) -> bool:
    """True if helm would read other files or addresses for a schema of values; also for a schema that is not JSON."""
    elsewhere: list[Any] = []

    def visit(pairs: list[tuple[str, Any]]) -> None:
        elsewhere.extend(value for key, value in pairs if key in _REFERENCES and not str(value).startswith(_BUILT_IN))
        # Helm before 3.18.5 reads the file of an id with a fragment to resolve "#/definitions/x".
        ids = (value for key, value in pairs if key in ("$id", "id") and isinstance(value, str))
        elsewhere.extend(value for value in ids if "#" in value[1:-1])

    with suppress(ValueError, RecursionError):
        json.loads(schema, object_pairs_hook=visit)
        return bool(elsewhere)
    return True


MAX_PARALLEL: Final = 1 << 30
"""Maximum bytes of all tools' output together."""
_MAX_LENGTH: Final = 140
"""Maximum characters of a tool's error in a finding."""
_LEAST: Final = 40
_ALWAYS: Final = {"HELM_NO_PLUGINS": "1", "GIT_TERMINAL_PROMPT": "0", "GIT_ALLOW_PROTOCOL": "https"}
_NOWHERE: Final = "http://127.0.0.1:1"
"""A proxy that does not exist."""
_NO_NETWORK: Final = {"GIT_ALLOW_PROTOCOL": "", "HTTP_PROXY": _NOWHERE, "HTTPS_PROXY": _NOWHERE}


class Job(NamedTuple):
    """A command that renders a directory. `arguments`: returns the arguments of the command; called with an empty
    directory for files of the job; raises Outside and OSError. `path`: $PATH of the tool.
    """

    directory: str
    program: str
    command: str
    arguments: Callable[[str], Sequence[str]]
    program_path: str
    path: str
    network: bool = False

    @property
    def called(self) -> str:
        return f"{self.program} {self.command}"


class Failure(NamedTuple):
    """The reason why a directory could not be rendered. `file`, `line`: its position, if known."""

    why: str
    file: str = ""
    line: int = 1


def run(jobs: Sequence[Job]) -> Iterator[tuple[Job, bytes | Failure]]:
    """Yield the output or failure of each job in order, running one per core at a time."""
    stop, left, to_do = Event(), MAX_PARALLEL, iter(jobs)
    with ThreadPoolExecutor(cores()) as pool:
        started = deque((job, pool.submit(_run, job, stop)) for job in islice(to_do, 2 * cores()))
        try:
            while started:
                job, future = started.popleft()
                result = future.result()
                if (following := next(to_do, None)) is not None:
                    started.append((following, pool.submit(_run, following, stop)))
                if isinstance(result, bytes):
                    left -= len(result)
                yield job, result if left >= 0 else Failure(f"more than {MAX_PARALLEL >> 20} MiB of rendered output")
        finally:
            stop.set()


def _run(job: Job, stop: Event) -> bytes | Failure:
    """The output of a tool, or its failure, within limits of time and size."""
    with tempfile.TemporaryDirectory(prefix="forewarn-", ignore_cleanup_errors=True) as private:
        home, temporary, files = (os.path.join(private, name) for name in ("home", "tmp", "files"))
        for directory in (home, temporary, files):
            os.mkdir(directory)
        try:
            command = [*_isolated(job), job.program_path, job.command, *job.arguments(files)]
            ended = run_program(command, _environment(job, home, temporary), home, stop=stop)
        except Outside as fault:
            return Failure(one_line(str(fault)))
        except Exceeded as fault:
            return Failure(f"{job.called} {fault}")
        except OSError as fault:
            return Failure(one_line(f"{fault.filename or job.called}: {fault.strerror}"))
        except ValueError as fault:
            return Failure(f"{job.called}: {one_line(str(fault))}")
        if ended.status:
            said = end_of(ended.complaint.replace(os.path.join(files, ""), ""))
            return Failure(f"{job.called}: {said or f'exit status {ended.status}'}")
        return ended.output


_DEPENDENCIES: Final = "missing in charts/ directory: "
"""Begins the list of dependencies in helm's error, which may be longer than the end of an error."""


_SECOND_TRY: Final = re.compile(r"': must build at directory: '[^']*': file is not directory$")
"""The end of kustomize's error about a file, which follows the cause because kustomize also tries it as a directory."""


_OF_TEMPLATE: Final = re.compile(r"(?:execution error at |at <(?!.* at <)).*")
"""The end of helm's error: the message of a template, or the expression that failed and its error."""


def end_of(output: str) -> str:
    """The end of a tool's error, without warnings and hints: it names the cause."""
    lines = (line for line in output.strip().split("\n") if not line.startswith(("# Warning", "Use --debug flag")))
    text = one_line(" ".join(" ".join(lines).split())).replace(os.path.join(os.path.realpath(os.curdir), ""), "")
    text = _SECOND_TRY.sub("", text.removeprefix("Error: "))
    if (at := text.find(_DEPENDENCIES)) >= 0:
        return cut(text[at:], _MAX_LENGTH)
    if len(text) <= _MAX_LENGTH:
        return text
    if (cause := _OF_TEMPLATE.search(text)) is not None:
        return f"…{cut(cause[0], _MAX_LENGTH)}"
    start = text.find(": ", len(text) - _MAX_LENGTH)
    return f"…{text[start + 2 :] if 0 < start < len(text) - _LEAST else text[1 - _MAX_LENGTH :]}"


def _environment(job: Job, home: str, temporary: str) -> dict[str, str]:
    limits = _ALWAYS if job.network else {**_ALWAYS, **_NO_NETWORK}
    return {"PATH": job.path, "HOME": home, "TMPDIR": temporary, **inherited(LOCALE), **limits}


def _isolated(job: Job) -> tuple[str, ...]:
    """The command that starts a tool without network, if the system allows it."""
    if job.network or os.path.basename(os.path.realpath(job.program_path)) == "snap":
        return ()
    return without_network(job.path)


_FILES: Final = ("-f", "--values")
_TEXTS: Final = ("--namespace", "--name-template", "--api-versions", "--kube-version")
_ENVIRONMENT: Final = re.compile(r"\{\{.*\b(?:env|expandenv|getHostByName)\b", re.DOTALL)
"""Functions of name templates, but not of charts, that read variables and ask DNS servers."""
_SWITCHES: Final = ("--generate-name", "--include-crds", "--skip-tests", "--no-hooks", "--debug", "--devel")
_DIRECTORIES: Final = ("HELM_CONFIG_HOME", "HELM_CACHE_HOME", "HELM_DATA_HOME")
_START: Final = (
    "import sys; sys.path.insert(0, sys.argv.pop(1));"
    " from forewarn.policies.questions.versions.tools import main; main()"
)


def write_gate(path: str, helm: str, trees: Trees) -> None:
    """Write the program that kustomize runs as helm. `helm`: the path of the real one."""
    packages = os.path.dirname(os.path.dirname(os.path.abspath(str(sys.modules["forewarn"].__file__))))
    command = shlex.join((sys.executable, "-I", "-S", "-c", _START, packages, helm, json.dumps(trees.roots)))
    with open(path, "x", encoding="utf-8") as file:
        file.write(f'#!/bin/sh\nexec {command} "$@"\n')
    os.chmod(path, 0o700)


def main() -> None:
    """Replace this process with helm."""
    helm, roots, *arguments = sys.argv[1:]
    trees = Trees(tuple(json.loads(roots)))
    environment = {name: value for name, value in os.environ.items() if name not in _DIRECTORIES}
    try:
        os.execve(helm, (helm, *allowed(arguments, trees, tempfile.mkdtemp())), environment)
    except (Outside, OSError) as fault:
        sys.exit(f"forewarn: {fault}")


def allowed(arguments: Sequence[str], trees: Trees, directory: str) -> list[str]:
    """Return the arguments for helm, which name copies in a directory. Raises Outside, OSError."""
    if arguments[:1] == ["version"]:
        return ["version", "--short"]
    if arguments[:1] != ["template"]:
        raise Outside(f"helm {' '.join(arguments[:1])} is not allowed: download the chart to the chartHome first")
    written = Trees((*trees.roots, os.path.realpath(tempfile.gettempdir())))
    values, rest = Stage(written, directory), iter(arguments[1:])
    names, options = list[str](), list[str]()
    for argument in rest:
        if argument in _SWITCHES:
            options.append(argument)
        elif argument in (*_FILES, *_TEXTS):
            value = next(rest, "")
            refuse_option(value)
            if argument == "--name-template" and _ENVIRONMENT.search(value):
                raise Outside(f"nameTemplate must not use env, expandenv or getHostByName: {value[:100]}")
            options.append(f"{argument}={value}" if argument in _TEXTS else f"--values={values.values(value)}")
        else:
            refuse_option(argument)
            names.append(argument)
    if not names:
        raise Outside("helm template without a chart")
    *release, chart = names
    return ["template", *release, Stage(trees, directory).chart(chart), *options]


def refuse_option(value: str) -> None:
    """Raise Outside for a value that helm would take for an option."""
    if value.startswith("-"):
        raise Outside(f'"{value[:100]}" would become an option of helm')
