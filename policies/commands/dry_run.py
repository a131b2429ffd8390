"""`forewarn dry-run`: predict kube-apiserver's response to manifests or recorded requests."""

from __future__ import annotations

import sys
from collections import Counter
from time import time
from typing import TYPE_CHECKING, Final

from forewarn.policies.cluster.cache import AnswerHead, Cache, ClusterSnapshot, head_of
from forewarn.policies.commands import cluster_command
from forewarn.policies.commands.parser import Parser, add_admission_option, add_files_option
from forewarn.policies.commands.release import add_release_options, release_of, settle
from forewarn.policies.config.load import load_limited_resources
from forewarn.policies.config.model import ConfigError
from forewarn.policies.documents import to_dict
from forewarn.policies.dry_run import Answer, AnswerLine, dry_run_apply
from forewarn.policies.findings import first_of, listed, plural
from forewarn.policies.kinds import registry
from forewarn.policies.kube_apiserver.validation.pod import NEEDS_GATE
from forewarn.policies.kube_apiserver.validation.strict import unknown_field_texts
from forewarn.policies.objects.fields import InvalidObject, at, group_kind
from forewarn.policies.objects.reviewed_object import Operation, ReviewedObject
from forewarn.policies.options import Options
from forewarn.policies.render.head import line_of
from forewarn.policies.scheduling.caveats import assumptions
from forewarn.policies.sources.files import SourceError, find_files, read_file, status_of
from forewarn.policies.terminal import as_json, clean, complain, print_notice

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

ACCEPTED, REFUSED, USAGE, FAILED = range(4)
GROUPS: Final = (registry.POD_GROUP, registry.GROUP_TEMPLATES)
_EVALUATED: Final = (registry.POD, registry.RESOURCE_QUOTA, registry.PRIORITY_CLASS, *GROUPS)
_READ: Final = frozenset((*registry.LINTED, *registry.POD_TEMPLATE_PATHS))
_SHOWN: Final = 10
"""Maximum kinds in a message."""
_UNREADABLE: Final = ("parse-error", "template-braces")


def main(arguments: Sequence[str]) -> int:
    """Run the command; returns 0 if all are accepted, 1 for a rejection or --fail-on, 2 for wrong usage, 3 without a
    result.
    """
    parser = argument_parser()
    given = parser.parse_args(arguments)
    run = cluster_command.choose_cluster(given, parser, given.output, required=False)
    if not given.filename:
        parser.error("no manifests given. Fix: pass -f FILE")
    try:
        limited = load_limited_resources(given.admission_config) if given.admission_config else ()
    except ConfigError as fault:
        return _complain(fault, USAGE)
    release = release_of(given, parser, of_apiserver=True)
    options = Options(limited_resources=limited, minor=release.minor)
    try:
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


def argument_parser() -> argparse.ArgumentParser:
    """Return the parser of the options of `forewarn dry-run`."""
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
        if not is_evaluated(subject, answer):
            others[group_kind(subject.object).rpartition("/")[2]] += 1
            continue
        evaluated += 1
        _print(form, cluster, path, subject, answer)
        status = status if answer.allowed else max(status, REFUSED)
    if any(group_kind(s.object) in GROUPS for _, s in subjects) and cluster.semantics.pods_are_grouped is None:
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
        evaluated = "accepted" if is_evaluated(subject, answer) else "not evaluated"
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


def is_evaluated(subject: ReviewedObject, answer: Answer) -> bool:
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


def _complain(fault: object, status: int) -> int:
    return complain("dry-run", fault, status)
