"""`forewarn lint --render`: what `helm template` and `kustomize build` print of what a tree holds for them.

Only where it is asked for: both tools do what the tree says, and kustomize fetches what is named there.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
from contextlib import suppress
from typing import IO, TYPE_CHECKING, Final, NamedTuple

from policies.commands.lint_input import KUSTOMIZATIONS, Input, wanted_kinds
from policies.findings import cut, one_line
from policies.groups import Member, reached
from policies.manifests import Fault, read, values
from policies.manifests.kustomization import read_kustomization
from policies.sources import SourceError, find_files, read_file
from policies.suppressions import of_annotations, of_comments

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from policies.config.model import Config
    from policies.groups import Kustomization

SECONDS: Final = 60.0
"""Time that a tool has for one directory."""
MOST: Final = 64 << 20
"""Bytes that it may print."""
_MOST_DIRECTORIES: Final = 1_000
_PAUSE: Final = 0.02
_CHART: Final = "Chart.yaml"
_SOURCE: Final = re.compile(rb"^# Source: ([^\n/]+)/([^\n]+?)\r?$", re.MULTILINE)
_SEPARATOR: Final = re.compile(rb"^---[ \t]*(?:#[^\n]*)?\r?\n", re.MULTILINE)
_RENDERED: Final = "(rendered)"


class _Text(NamedTuple):
    """What a tool printed: of which directory, and by which name findings call it."""

    directory: str
    name: str
    data: bytes


def render(given: Input, paths: Sequence[str], config: Config, namespace: str, *, as_git: bool) -> None:
    """Add what the tools print to the input, in place of the files that it is made of; what fails is unreadable.

    Findings are called by the template that helm names, or by the kustomization's directory; lines are those of what
    was printed.
    """
    charts, kustomizations = _found(paths, as_git=as_git)
    known = {k.directory: k for k in kustomizations.values()}
    bases = {path for k in known.values() for path in k.resources}
    replaced: set[str] = set()
    for directory in charts:
        if _take(given, _helm(directory), config, namespace):
            given.add_rendered(directory)
    for directory, kustomization in kustomizations.items():
        if kustomization.directory not in bases and _take(given, _kustomize(directory), config, namespace):
            replaced |= reached(kustomization.directory, known)
    given.members = [m for m in given.members if os.path.realpath(m.file) not in replaced]
    given.kustomizations = [k for k in given.kustomizations if k.directory not in known]


def _found(paths: Sequence[str], *, as_git: bool) -> tuple[list[str], dict[str, Kustomization]]:
    """The charts that no other one holds, and all kustomizations, by their directories."""
    charts: list[str] = []
    kustomizations: dict[str, Kustomization] = {}
    named = (_CHART, *KUSTOMIZATIONS)
    for file in find_files(paths, tuple(name.lower() for name in named), as_git=as_git):
        directory, name = os.path.split(file.path)
        if not file.tree or name not in named or len(charts) + len(kustomizations) >= _MOST_DIRECTORIES:
            continue
        try:
            text = read_file(file)
        except SourceError:
            continue  # it was told when it was read
        if name == _CHART:
            if _is_application(text, file.path) and not any(directory.startswith(c + os.sep) for c in charts):
                charts.append(directory)
        elif (kustomization := read_kustomization(text, file.path)) is not None:
            kustomizations[directory] = kustomization
    return charts, kustomizations


def _is_application(text: bytes, path: str) -> bool:
    """Whether a chart is one that can be rendered: a library only serves others."""
    try:
        chart = next((found.value for found in values(text, path)), None)
    except Fault:
        return False
    return isinstance(chart, dict) and chart.get("type") != "library"


def _helm(directory: str) -> Iterator[_Text]:
    """The objects of a chart, by the template that each is from. Raises SourceError."""
    data = _run(("helm",), ("template", directory), directory)
    by_source: dict[str, list[bytes]] = {}
    for part in _SEPARATOR.split(data):
        source = _SOURCE.search(part)
        inside = source[2].decode("utf-8", "replace") if source else ""
        name = os.path.join(directory, *(step for step in inside.split("/") if step not in ("", ".", "..")))
        if part.strip():
            by_source.setdefault(name, []).append(part)
    for name, parts in by_source.items():
        yield _Text(directory, f"{name} {_RENDERED}", b"---\n".join(parts))


def _kustomize(directory: str) -> Iterator[_Text]:
    """The objects of a kustomization. Raises SourceError."""
    tool = ("kustomize", "build") if shutil.which("kustomize") else ("kubectl", "kustomize")
    yield _Text(directory, f"{directory} {_RENDERED}", _run(tool, (directory,), directory))


def _take(given: Input, texts: Iterator[_Text], config: Config, namespace: str) -> bool:
    """Add what was printed; False where nothing was, which is told."""
    try:
        found = list(texts)
    except SourceError as fault:
        given.unreadable.append(fault)
        return False
    for text in found:
        reading = read(text.data, text.name, wanted_kinds(config), namespace=namespace)
        place = os.path.join(text.directory, _RENDERED)
        given.members += (Member(subject, place) for subject in reading.subjects)
        given.texts[text.name] = text.data
        given.reported.append(text.name)
        given.objects += reading.objects
        given.diagnostics += reading.diagnostics
        given.skipped.update(reading.skipped)
        given.suppressions += of_comments(reading.comments)
        given.suppressions += of_annotations(reading.subjects)
    return True


def _run(tool: tuple[str, ...], arguments: tuple[str, ...], directory: str) -> bytes:
    """What a tool prints, within bounds of time and length. Raises SourceError."""
    program = shutil.which(tool[0])
    called = " ".join((*tool, *arguments[:-1]))
    if program is None:
        raise SourceError(directory, f"--render: {tool[0]} is not installed")
    path = os.path.abspath(directory)  # no path begins with a dash
    command = [program, *tool[1:], *arguments[:-1], path]
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as complaint:
        try:
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=output, stderr=complaint, start_new_session=True
            )
        except OSError as fault:
            raise SourceError(directory, f"--render: {called}: {fault.strerror}") from None
        try:
            why = _watched(process, output, complaint)
        finally:
            _end(process)
        if why:
            raise SourceError(directory, f"--render: {called}: {why}")
        if process.returncode:
            complaint.seek(0)
            said = one_line(cut(complaint.read(2_000).decode("utf-8", "replace").strip(), 500))
            raise SourceError(directory, f"--render: {called}: exit status {process.returncode}: {said}")
        output.seek(0)
        return output.read(MOST + 1)


def _watched(process: subprocess.Popen[bytes], *files: IO[bytes]) -> str:
    """Wait for the end of a tool; why it may not go on, or nothing."""
    until = time.monotonic() + SECONDS
    while process.poll() is None:
        if time.monotonic() > until:
            return f"takes more than {SECONDS:.0f} s"
        if any(os.fstat(file.fileno()).st_size > MOST for file in files):
            break
        with suppress(subprocess.TimeoutExpired):
            process.wait(_PAUSE)
    if any(os.fstat(file.fileno()).st_size > MOST for file in files):
        return f"prints more than {MOST >> 20} MiB"
    return ""


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a tool and all that it started."""
    with suppress(OSError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
