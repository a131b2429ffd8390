"""Batches: JSON lines in, JSON lines out. A malformed line gives an error, and the run continues."""

from __future__ import annotations

import gzip
import json
import sys
import zlib
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING, Any

from forewarn.policies.objects.fields import InvalidObject, json_type
from forewarn.policies.sources import SourceError
from forewarn.policies.sources.errors import unreadable
from forewarn.policies.terminal import as_json, progress

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from forewarn.policies.objects.fields import ApiObject


def run_batch(
    path: str, answer: Callable[[ApiObject], ApiObject], decode: Callable[[bytes], object] = json.loads
) -> int:
    """Answer every line of a file (also .gz; `-` for standard input) on standard output.

    `answer`: returns the response to a case without its id; may raise InvalidObject or ValueError. `decode`: parses a
    line of JSON; may raise ValueError. Returns 1 if a line has no response, else 0. Raises SourceError for an
    unreadable file.
    """
    status = 0
    with _opened(path) as stream:
        for number, line in enumerate(progress(_lines(stream, path), None, "cases", sys.stderr), 1):
            if not line.strip():
                continue
            answered = _answer(line, number, answer, decode)
            status = status or ("error" in answered)
            sys.stdout.write(as_json(answered))
    return int(status)


def _answer(
    line: bytes, number: int, answer: Callable[[ApiObject], ApiObject], decode: Callable[[bytes], object]
) -> dict[str, Any]:
    case_id: Any = None
    try:
        case = decode(line)
        if not isinstance(case, dict):
            raise ValueError(f"a case must be an object, not {json_type(case)}")
        case_id = case.get("id")
        return {"id": case_id, **answer(case)}
    except InvalidObject as error:
        return {"id": case_id, "error": f"line {number}: {error}" if case_id is None else str(error)}
    except (ValueError, RecursionError) as error:
        return {"id": case_id, "error": f"line {number}: {error}"}


@contextmanager
def _opened(path: str) -> Iterator[IO[bytes]]:
    try:
        stream = sys.stdin.buffer if path == "-" else open(path, "rb")  # noqa: SIM115  (closed below)
    except OSError as error:
        raise unreadable(path, error) from None
    with stream:
        yield stream


def _lines(stream: IO[bytes], path: str) -> Iterator[bytes]:
    try:
        # By its first bytes, not its name: standard input has none.
        zipped = hasattr(stream, "peek") and stream.peek(2)[:2] == b"\x1f\x8b"
        yield from gzip.GzipFile(fileobj=stream) if zipped else stream
    except (OSError, EOFError, zlib.error) as error:
        raise SourceError(path, str(error)) from None
