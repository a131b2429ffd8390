"""Forked processes that read, ahead of the linter, the files of a large tree that contain no checked objects.

These files are most of the bytes. For each of them, a process returns the number of objects by kind and the kinds
that the file defines. The main process reads all other files, so the findings do not depend on these processes.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from typing import Final

from forewarn.policies.base.forks import cores, forked
from forewarn.policies.base.light import later
from forewarn.policies.inputs.manifests import BROKEN, Reading, is_definition, read
from forewarn.policies.inputs.sources.files import File, SourceError, read_file

LEAST: Final = 16_000
"""Minimum bytes of a file for which communication between processes is worthwhile."""
MAX_BYTES: Final = 8 << 20
"""Maximum bytes of a file that helpers read: each holds one file in its own memory."""
MIN_PARALLEL_BYTES: Final = 16_000_000
"""Minimum bytes of all such files to use helpers: a fork takes 20 ms of CPU time, 1 MB 12 ms."""
_MAX_FILES: Final = 8_000
_MAX_PROCESSES: Final = 3
_TICKET: Final = 4
_KIND: Final = later(rb"kind[\"']?[ \t]*:[ \t]*[\"']?(\w+)")


def read_ahead(files: Sequence[File], wanted: Collection[str], namespace: str) -> dict[str, Reading]:
    """Return the contents of some files by path; the caller reads the others. `wanted`: kinds of checked objects."""
    helpers = min(cores() - 1, _MAX_PROCESSES)
    large = _large(files) if helpers > 0 and _is_alone() else []
    if not large:
        return {}
    readings: dict[str, Reading] = {}
    tickets = _tickets(len(large))
    pipes = [pipe for pipe in (_helper(large, tickets, wanted) for _ in range(helpers)) if pipe is not None]
    for index in _indexes(tickets):
        file = large[index]
        with suppress(SourceError):  # it is told when its turn comes
            content = read_file(file)
            if _has_names(content):
                continue
            reading = read(content, file.name, wanted, namespace=namespace)
            if not any(diagnostic.rule in BROKEN for diagnostic in reading.diagnostics):
                readings[file.path] = reading  # what is broken is read in its turn: its text says whether it counts
    os.close(tickets)
    for process, pipe in pipes:
        readings |= {large[index].path: reading for index, reading in _readings(pipe)}
        os.waitpid(process, 0)
    return readings


def _is_alone() -> bool:
    """Report whether this process has one thread: a fork with several threads copies locks that nothing releases."""
    with suppress(OSError):
        return sys.platform == "linux" and len(os.listdir("/proc/self/task")) == 1
    return False


def _large(files: Sequence[File]) -> list[File]:
    """Return the files for helper processes, the largest first; none if all together are too small."""
    sizes = []
    for file in files:
        if file.tree and not os.path.basename(file.path).lower().startswith("kustomization"):
            with suppress(OSError):
                size = os.stat(file.path).st_size
                if LEAST <= size <= MAX_BYTES:
                    sizes.append((size, file))
    if sum(size for size, _ in sizes) < MIN_PARALLEL_BYTES:
        return []
    sizes.sort(key=lambda entry: -entry[0])
    return [file for _, file in sizes[:_MAX_FILES]]


def _tickets(count: int) -> int:
    """Return a pipe with the numbers below `count`: the process that reads a number reads the file with this index."""
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    with suppress(BlockingIOError):  # what does not fit is read by nobody ahead
        os.write(writer, b"".join(number.to_bytes(_TICKET, "big") for number in range(count)))
    os.close(writer)
    return reader


def _indexes(tickets: int) -> Iterator[int]:
    while ticket := os.read(tickets, _TICKET):
        yield int.from_bytes(ticket, "big")


def _helper(large: Sequence[File], tickets: int, wanted: Collection[str]) -> tuple[int, int] | None:
    """Fork a helper process; return its id and a pipe with its results, or None if a fork is impossible."""

    def help_out(pipe: int) -> None:
        lines = [
            json.dumps([index, reading.objects, dict(reading.skipped), sorted(reading.defined)])
            for index in _indexes(tickets)
            if (reading := skimmed(large[index], wanted)) is not None
        ]
        with os.fdopen(pipe, "w", encoding="ascii") as stream:
            stream.writelines(f"{line}\n" for line in lines)

    return forked(help_out)


def skimmed(file: File, wanted: Collection[str]) -> Reading | None:
    """Return the counts of a file's objects; None if unreadable, or if it may contain `wanted` kinds."""
    kinds = {kind.rpartition("/")[2] for kind in wanted}
    try:
        content = read_file(file)
    except SourceError:
        return None
    if _has_names(content) or any(match[1].decode("ascii", "replace") in kinds for match in _KIND.finditer(content)):
        return None
    reading = read(content, file.name, wanted)
    return None if reading.subjects or reading.diagnostics or reading.comments else reading


def _has_names(content: bytes) -> bool:
    """Report whether a file may name PriorityClasses outside of the objects that rules read."""
    return b"riorityClassName" in content and not is_definition(content)


def _readings(pipe: int) -> Iterator[tuple[int, Reading]]:
    """Yield (file index, contents) from a helper process; fewer if it ended early."""
    with os.fdopen(pipe, "rb") as stream:
        for line in stream:
            with suppress(ValueError):
                index, objects, skipped, defined = json.loads(line)
                yield index, Reading(objects=objects, skipped=skipped, defined=frozenset(defined))
