"""Answer recorded cases line by line; cases of `forewarn dry-run`: a request, and the objects of its cluster."""

from __future__ import annotations

import gzip
import json
import sys
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import time
from typing import IO, Any

from forewarn.policies.cli.terminal import as_json, progress
from forewarn.policies.inputs.sources.files import SourceError, unreadable
from forewarn.policies.kubernetes.cluster.cache import Cache, ClusterSnapshot
from forewarn.policies.kubernetes.kinds import registry
from forewarn.policies.kubernetes.objects.fields import ApiObject, InvalidObject, group_kind, json_type
from forewarn.policies.kubernetes.objects.reviewed_object import Operation, ReviewedObject
from forewarn.policies.kubernetes.options import Options
from forewarn.policies.kubernetes.releases.semantics import DEFAULT, Semantics
from tests.recorded.dry_run import Answer, dry_run, kind_of
from tests.recorded.validation import strict_error


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


def answer_case(case: ApiObject, *, options: Options, semantics: Semantics = DEFAULT) -> ApiObject:
    """Return the response to one case: a request, and the objects of its cluster. Raises InvalidObject, ValueError.

    `evaluated` is false for kinds that dry-run does not model; such objects are accepted. For PodGroups and
    Workloads, the response also has the `reason`, and unknown fields are rejected.
    """
    subject, cluster = _case(case, semantics)
    if group_kind(subject.object) not in (registry.POD_GROUP, registry.GROUP_TEMPLATES):
        answer = dry_run(subject, cluster, options, now=time())
        answered = answer.to_dict()
        is_evaluated = not answer.allowed or kind_of(subject.object) is not None
        return answered if is_evaluated else answered | {"evaluated": False}
    error = strict_error(subject.object, options.minor)
    answer = Answer(False, 400, error) if error else dry_run(subject, cluster, options, now=time())
    return answer.to_dict() | {"reason": answer.reason}


def decode_case(line: bytes) -> object:
    """Decode a line of JSON. Numbers with a fraction or exponent keep their text. Raises ValueError."""
    try:
        return json.loads(line, parse_float=Literal, parse_constant=_not_json)
    except (ValueError, RecursionError) as problem:
        raise ValueError(f"not JSON: {problem}") from None


def _case(case: ApiObject, semantics: Semantics) -> tuple[ReviewedObject, ClusterSnapshot]:
    """Return the request of a case, and the case's cluster. Raises ValueError, InvalidObject.

    The case itself may contain `priorityClasses`.
    """
    operation = case.get("operation", "CREATE")
    if operation not in list(Operation):
        raise ValueError(f"unknown operation; known: {', '.join(Operation)}")
    for key in ("object", "oldObject", "cluster"):
        if not isinstance(case.get(key) or {}, dict):
            raise ValueError(f"{key} must be an object")
    if not (case.get("object") or case.get("oldObject")):
        raise ValueError("object is missing")
    cache = Cache(semantics=semantics)
    classes = {key: case[key] for key in ("priorityClasses",) if key in case}
    for kind, objects in {**(case.get("cluster") or {}), **classes}.items():
        if not isinstance(objects, list) or not all(isinstance(obj, dict) for obj in objects):
            raise ValueError(f"cluster.{kind} must be a list of objects")
        for obj in objects:
            cache.add(obj if obj.get("kind") else {**obj, **_header(kind)})
    return ReviewedObject(case.get("object") or {}, Operation(operation), case.get("oldObject")), cache.snapshot()


def _header(kind: str) -> ApiObject:
    """The apiVersion and kind of the objects in a list with this plural; empty for an unknown plural."""
    spec = next((spec for spec in registry.BY_GROUP_KIND.values() if spec.plural == kind.lower()), None)
    return {"apiVersion": spec.api_version, "kind": spec.kind} if spec else {}


class Literal(float):
    """A JSON number that prints as written in the input, for error messages and quantities."""

    def __new__(cls, text: str) -> Literal:
        """Create a Literal from the text of a number."""
        number = super().__new__(cls, text)
        number.text = text
        return number

    text: str

    def __repr__(self) -> str:
        return self.text

    __str__ = __repr__


def _not_json(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")
