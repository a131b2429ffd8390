"""`forewarn dry-run`: predict kube-apiserver's response to manifests or recorded requests."""

from __future__ import annotations

import argparse
import gzip
import json
import sys
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from time import time
from typing import IO, Any, Final

from forewarn.policies.cluster.cache import AnswerHead, Cache, ClusterSnapshot, head_of
from forewarn.policies.commands import cluster_command
from forewarn.policies.commands.parser import Parser, add_admission_option, add_files_option
from forewarn.policies.commands.release import add_release_options, release_of, settle
from forewarn.policies.config.load import load_limited_resources
from forewarn.policies.config.model import ConfigError
from forewarn.policies.documents import to_dict
from forewarn.policies.dry_run import Answer, AnswerLine, dry_run, dry_run_apply
from forewarn.policies.findings import first_of, listed, plural
from forewarn.policies.kinds import registry
from forewarn.policies.kube_apiserver.validation.pod import NEEDS_GATE
from forewarn.policies.kube_apiserver.validation.strict import strict_error, unknown_field_texts
from forewarn.policies.objects.fields import ApiObject, InvalidObject, at, group_kind, json_type
from forewarn.policies.objects.reviewed_object import Operation, ReviewedObject
from forewarn.policies.options import Options
from forewarn.policies.releases.semantics import DEFAULT, Semantics
from forewarn.policies.render.head import line_of
from forewarn.policies.scheduling.caveats import assumptions
from forewarn.policies.sources.files import SourceError, find_files, read_file, status_of, unreadable
from forewarn.policies.terminal import as_json, clean, complain, print_notice, progress


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


ACCEPTED, REFUSED, USAGE, FAILED = range(4)
_GROUPS: Final = (registry.POD_GROUP, registry.GROUP_TEMPLATES)
_EVALUATED: Final = (registry.POD, registry.RESOURCE_QUOTA, registry.PRIORITY_CLASS, *_GROUPS)
_READ: Final = frozenset((*registry.LINTED, *registry.POD_TEMPLATE_PATHS))
_SHOWN: Final = 10
"""Maximum kinds in a message."""
_UNREADABLE: Final = ("parse-error", "template-braces")


def main(arguments: Sequence[str]) -> int:
    """Run the command; returns 0 if all are accepted, 1 for a rejection or --fail-on, 2 for wrong usage, 3 without a
    result.
    """
    parser = _parser()
    given = parser.parse_args(arguments)
    run = cluster_command.choose_cluster(given, parser, given.output, required=False)
    if bool(given.batch) == bool(given.filename):
        parser.error("no manifests given. Fix: pass -f FILE")
    if given.batch and given.fail_on:
        parser.error("--fail-on goes with -f: each line of a batch says whether it is evaluated")
    try:
        limited = load_limited_resources(given.admission_config) if given.admission_config else ()
    except ConfigError as fault:
        return _complain(fault, USAGE)
    release = release_of(given, parser, of_apiserver=True)
    options = Options(limited_resources=limited, minor=release.minor)
    try:
        if given.batch:
            answer = partial(answer_case, options=options, semantics=release.semantics())
            return run_batch(given.batch, answer, _decode)
        cache = settle(cluster_command.loaded(run) if run.cluster else Cache(), release)
        cache.check_release()
    except (SourceError, InvalidObject) as fault:
        return _complain(fault, status_of(fault))
    if cache.semantics.preview:
        print_notice(f"forewarn dry-run: {cache.semantics.preview}")
    with run.output.redirected():
        status = _files(
            given, run.output.form, cache.snapshot(), options._replace(minor=release.minor or cache.reported_minor)
        )
    if run.cluster and run.output.form != "json":
        print_notice(line_of(_head(cache.snapshot())))
    return status


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="forewarn dry-run",
        description="Predict whether kube-apiserver accepts PriorityClasses, Pods, ResourceQuotas, PodGroups and "
        "Workloads (scheduling.k8s.io). Of other kinds, forewarn checks at most the names of fields.",
        epilog="Exit status: 0: no object is rejected. 1: an object is rejected, or a condition of --fail-on is "
        "met. 2: wrong usage or configuration. 3: no answer.",
        examples=("dry-run -f manifests/", "dry-run -f class.yaml --cluster cluster.json.gz -o json"),
    )
    add = parser.add_argument
    add_files_option(add, "manifest (file, directory, or -; repeatable)")
    cluster_command.add_cluster_option(add, required=False)
    cluster_command.add_namespace_option(add)
    add_admission_option(add)
    validations = "handling of unknown fields, as in kubectl (default: strict)"
    add("--validate", choices=("strict", "warn", "ignore"), default="strict", help=validations)
    never = "exit with 1 if an object is not evaluated (default: exit with 3 if no object is evaluated)"
    add("--fail-on", action="append", choices=("not-evaluated",), default=[], help=never)
    add("--batch", metavar="CASES", help=argparse.SUPPRESS)  # recorded cases, see CONTRIBUTING.md
    add_release_options(add)
    cluster_command.add_output_option(add)
    return parser


def _files(given: argparse.Namespace, form: str, cluster: ClusterSnapshot, options: Options) -> int:
    from forewarn.policies.manifests import read

    subjects: list[tuple[str, ReviewedObject]] = []
    status, evaluated, others, unread = ACCEPTED, 0, Counter[str](), set[str]()
    for file in find_files(given.filename):
        path = file.path
        try:
            reading = read(read_file(file), path, _READ, namespace=given.namespace)
        except SourceError as fault:
            status = max(status, _complain(fault, status_of(fault)))
            unread.add(path)
            continue
        for diagnostic in reading.diagnostics:
            if diagnostic.rule in _UNREADABLE:
                status = _complain(f"{diagnostic.location}: {diagnostic.in_one_line}", FAILED)
                unread.add(path)
            elif diagnostic.rule == "unknown-kind":
                status = max(status, _complain(f"{diagnostic.location}: {diagnostic.message}", REFUSED))
        subjects += [(path, subject) for subject in reading.subjects]
        others += reading.skipped
    strict = given.validate == "strict"
    answers = [*dry_run_apply((subject for _, subject in subjects), cluster, options, now=time(), strict=strict)]
    sys.stdout.write(_verdict(form, answers, others, sorted(unread)))
    for (path, _), (subject, answer) in zip(subjects, answers, strict=True):
        if given.validate == "warn" and answer.allowed:
            _warn(subject, options.minor)
        if not _is_evaluated(subject, answer):
            others[group_kind(subject.object).rpartition("/")[2]] += 1
            continue
        evaluated += 1
        _print(form, cluster, path, subject, answer)
        status = status if answer.allowed else max(status, REFUSED)
    if any(group_kind(s.object) in _GROUPS for _, s in subjects) and cluster.semantics.pods_are_grouped is None:
        print_notice(f"forewarn dry-run: PodGroup, Workload: {NEEDS_GATE}")
    if others:
        status = max(status, _report_others(others, given.fail_on, none=not evaluated))
    if not subjects and not others and status == ACCEPTED:
        return _complain("no objects to apply", FAILED)
    return status


def _verdict(
    form: str, answers: Sequence[tuple[ReviewedObject, Answer]], others: Counter[str], unread: Sequence[str]
) -> str:
    """A line with the number of objects with each answer; "" for one object or JSON. `others`: kinds of others.
    `unread`: the files that cannot be read.
    """
    if (total := len(answers) + others.total()) + len(unread) <= 1 or form == "json":
        return ""
    names: dict[str, list[str]] = {"rejected": [], "accepted": [], "not evaluated": []}
    for subject, answer in answers:
        evaluated = "accepted" if _is_evaluated(subject, answer) else "not evaluated"
        names[evaluated if answer.allowed else "rejected"].append(str(subject.ref))
    names["not evaluated"] += (kind or "no kind" for kind in others.elements())
    why = {"not evaluated": ": unsupported kind"}
    counts = [
        f"{len(which)} {answer} ({first_of(which, 'object')}{why.get(answer, '')})"
        for answer, which in names.items()
        if which
    ]
    counts += [f"{plural(len(unread), 'file')} not read ({first_of([*unread], 'file')})"] if unread else []
    return clean(f"{', '.join(counts)}: dry run of {plural(total, 'object')}", color=False) + "\n"


def _head(cluster: ClusterSnapshot) -> AnswerHead:
    return head_of(cluster, assumptions(cluster.objects, created=True))


def _print(form: str, cluster: ClusterSnapshot, path: str, subject: ReviewedObject, answer: Answer) -> None:
    if form == "json":
        ref = subject.ref
        line = AnswerLine(_head(cluster), path, ref.kind, ref.namespace, ref.name, answer)
        sys.stdout.write(as_json(to_dict(line)))
    elif answer.allowed:
        print(clean(f"{_name(subject)} {'created' if answer.code == 201 else 'configured'} (dry run)", color=False))  # noqa: T201
    else:
        print(clean(_rejection(path, subject, answer), color=False), file=sys.stderr)  # noqa: T201


def _is_evaluated(subject: ReviewedObject, answer: Answer) -> bool:
    """Report whether dry-run models the kind of the object. A rejection is a valid result for any kind."""
    return not answer.allowed or group_kind(subject.object) in _EVALUATED


def _report_others(others: Counter[str], fail_on: Sequence[str], *, none: bool) -> int:
    """Print the number of objects that dry-run does not model, by kind; return the exit status.

    `none`: dry-run has modelled no object.
    """
    kinds = listed([f"{kind or 'no kind'} ({count})" for kind, count in sorted(others.items())], _SHOWN)
    evaluated = listed([judged.rpartition("/")[2] for judged in _EVALUATED], _SHOWN)
    notice = f"{plural(others.total(), 'object')} not evaluated: {kinds}; dry-run evaluates {evaluated}"
    _complain(notice, REFUSED)
    return cluster_command.status_of_conditions(["not-evaluated"], fail_on) or (FAILED if none else ACCEPTED)


def _warn(subject: ReviewedObject, minor: int | None) -> None:
    """Print the API server's warnings as kubectl does."""
    for warning in unknown_field_texts(subject.object, minor):
        print(clean(f"Warning: {warning}", color=False), file=sys.stderr)  # noqa: T201


def _name(subject: ReviewedObject) -> str:
    """The object's name in kubectl's notation, for example `priorityclass.scheduling.k8s.io/gold`."""
    group, _, kind = group_kind(subject.object).rpartition("/")
    name = subject.ref.name.removesuffix("*") or "unknown"
    return f"{kind.lower()}{'.' + group if group else ''}/{name}"


def _rejection(path: str, subject: ReviewedObject, answer: Answer) -> str:
    """A rejection as kubectl prints it."""
    source = "STDIN" if path == "-" else path
    if answer.is_unknown_kind:
        name = f'name: "{subject.ref.name}" namespace: "{at(subject.object, "metadata", "namespace") or ""}"'
        return f'resource mapping not found for {name} from "{source}": {answer.message}'
    verb = "creating" if subject.operation is Operation.CREATE else "patching"
    return f'Error from server ({answer.reason}): error when {verb} "{source}": {answer.message}'


def answer_case(case: ApiObject, *, options: Options, semantics: Semantics = DEFAULT) -> ApiObject:
    """Return the response to one case: a request, and the objects of its cluster. Raises InvalidObject, ValueError.

    `evaluated` is false for kinds that dry-run does not model; such objects are accepted. For PodGroups and
    Workloads, the response also has the `reason`, and unknown fields are rejected.
    """
    subject, cluster = _case(case, semantics)
    if group_kind(subject.object) not in _GROUPS:
        answer = dry_run(subject, cluster, options, now=time())
        answered = answer.to_dict()
        return answered if _is_evaluated(subject, answer) else answered | {"evaluated": False}
    error = strict_error(subject.object, options.minor)
    answer = Answer(False, 400, error) if error else dry_run(subject, cluster, options, now=time())
    return answer.to_dict() | {"reason": answer.reason}


def _decode(line: bytes) -> object:
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


def _complain(fault: object, status: int) -> int:
    return complain("dry-run", fault, status)
