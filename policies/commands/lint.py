"""`forewarn lint`: manifests in, findings out."""

from __future__ import annotations

import argparse
import gc
import os
import sys
from collections import Counter
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Final, TextIO

from policies.config.model import Config, ConfigError
from policies.config.search import find_config
from policies.evaluator import Phase, count_open, evaluate
from policies.findings import Finding, Severity, plural
from policies.kinds import LINTED, POD, PRIORITY_CLASS, RESOURCE_QUOTA
from policies.objects.fields import group_kind
from policies.objects.subject import Apply, Operation, Remark, Subject
from policies.sources import SourceError, find_files, read_file
from policies.terminal import COLOR_CHOICES, columns, painter, wants_color

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from policies.cluster import ClusterSnapshot
    from policies.objects.fields import ApiObject

OK, FINDINGS, USAGE, FAILED = range(4)
FORMATS: Final = ("text", "json")
FAIL_ON: Final = {"error": Severity.ERROR, "warning": Severity.WARNING, "note": Severity.NOTE, "never": None}


class Input:
    """What was read: the apply, and what the summary and the excerpts need."""

    def __init__(self) -> None:
        self.subjects: list[Subject] = []
        self.remarks: list[Remark] = []
        self.texts: dict[str, bytes] = {}
        self.files = 0
        self.skipped: Counter[str] = Counter()
        self.unreadable: list[str] = []


def main(arguments: Sequence[str]) -> int:
    """Run the command; returns the exit status: 0 clean, 1 findings, 2 wrong usage, 3 could not do the job."""
    options = _parser().parse_args(arguments)
    if options.list_rules:
        _list_rules()
        return OK
    try:
        outputs = _outputs(options.output)
        config = _config(options.config, options.admission_config)
    except (ConfigError, ValueError) as fault:
        return _complain(fault, USAGE)
    with _no_collector():
        return _lint(options, outputs, config)


def _lint(options: argparse.Namespace, outputs: list[tuple[str, str]], config: Config) -> int:
    try:
        cluster = _cluster(options.cluster, config)
    except SourceError as fault:
        return _complain(fault, FAILED)
    given = read_input(options.paths, config, options.namespace)
    for message in given.unreadable:
        _complain(message, FAILED)
    apply = Apply(tuple(as_update(subject, cluster) for subject in given.subjects), tuple(given.remarks))
    now = datetime.now(UTC)
    findings = evaluate(apply, cluster, config, phase=Phase.LINT, now=now)
    try:
        for form, target in outputs:
            _write(form, target, findings, given, options.color)
    except OSError as fault:
        if not target:
            raise
        return _complain(f"{target}: {fault.strerror}", FAILED)
    _summarize(findings, given)
    _tell_open(count_open(apply, config, cluster, now))
    if given.unreadable or not given.files:
        return FAILED if given.files or given.unreadable else _complain("no .yaml, .yml or .json file to read", FAILED)
    threshold = FAIL_ON[options.fail_on]
    return FINDINGS if threshold is not None and any(f.severity <= threshold for f in findings) else OK


def read_input(paths: Sequence[str], config: Config, namespace: str) -> Input:
    """Read every file; one that cannot be read is noted and the rest goes on."""
    from policies.manifests import read

    given, wanted = Input(), frozenset((*LINTED, *config.options.pod_template_paths))
    for path in find_files(paths):
        name = "<stdin>" if path == "-" else path
        try:
            content = read_file(path)
        except SourceError as fault:
            given.unreadable.append(str(fault))
            continue
        reading = read(content, name, wanted, namespace=namespace)
        given.files += 1
        given.subjects += reading.subjects
        given.remarks += reading.remarks
        given.skipped.update(reading.skipped)
        if path == "-":
            given.texts[name] = content
    return given


def as_update(subject: Subject, cluster: ClusterSnapshot | None) -> Subject:
    """The subject as kubectl would send it: an update of what the cluster has already."""
    kind, ref = group_kind(subject.object), subject.ref
    old: ApiObject | None = None
    if cluster is not None and kind == PRIORITY_CLASS and ref.name in cluster.priority_classes:
        old = cluster.priority_classes[ref.name].to_api()
    elif cluster is not None and kind == POD:
        pod = cluster.pods.get((ref.namespace, ref.name))
        old = pod.to_api() if pod else None
    elif cluster is not None and kind == RESOURCE_QUOTA:
        quota = cluster.resource_quotas.get((ref.namespace, ref.name))
        old = quota.to_api() if quota else None
    return subject if old is None else subject._replace(operation=Operation.UPDATE, old=old)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="forewarn lint",
        formatter_class=partial(argparse.HelpFormatter, width=columns()),
        description="Check manifests: files, directories (.yaml, .yml, .json) or - for standard input.",
        epilog="Exit status: 0 nothing at or above --fail-on, 1 findings, 2 wrong usage or configuration, "
        "3 could not do the job.",
    )
    add = parser.add_argument
    add("paths", nargs="*", default=["."], metavar="PATH", help="what to check (default: this directory)")
    add("--cluster", action="append", default=[], metavar="SOURCE", help="cluster state: a dump (repeatable), or live")
    add("-n", "--namespace", default="default", help="namespace of objects without one (default: default)")
    add("-c", "--config", metavar="FILE", help="configuration (default: .forewarn.yaml, searched upward)")
    add("--admission-config", metavar="FILE", help="kube-apiserver's AdmissionConfiguration, for limitedResources")
    add("-o", "--output", action="append", metavar="FORMAT[=FILE]", help="text or json (repeatable; default: text)")
    add("--fail-on", choices=FAIL_ON, default="error", help="least severity for exit status 1 (default: error)")
    add("--color", choices=COLOR_CHOICES, default="auto", help="default: auto, on a terminal without NO_COLOR")
    add("--list-rules", action="store_true", help="every rule with its severity and default action")
    return parser


def _cluster(sources: list[str], config: Config) -> ClusterSnapshot | None:
    if not sources:
        return None
    from policies.sources import load_cluster

    return load_cluster(*sources, templates=config.options.pod_template_paths).snapshot()


def _outputs(given: list[str] | None) -> list[tuple[str, str]]:
    """(format, file) of every output; the file is empty for standard output."""
    outputs = []
    for output in given or ["text"]:
        form, _, target = output.partition("=")
        if form not in FORMATS:
            raise ValueError(f"--output {output}: there are {' and '.join(FORMATS)}")
        outputs.append((form, target))
    return outputs


def _config(path: str | None, admission_config: str | None) -> Config:
    found, config = path or find_config(os.curdir), Config()
    if found:
        from policies.config.load import load_config

        config = load_config(found)
    if admission_config:
        from policies.config.admission_configuration import load_limited_resources

        config = config.limiting(load_limited_resources(admission_config))
    return config


def _write(form: str, target: str, findings: list[Finding], given: Input, color: str) -> None:
    if not target:
        _print(form, findings, given, sys.stdout, wants_color(color, sys.stdout))
        return
    with open(target, "w", encoding="utf-8") as stream:
        _print(form, findings, given, stream, color == "always")


def _print(form: str, findings: list[Finding], given: Input, stream: TextIO, color: bool) -> None:
    if form == "json":
        from policies.render import json

        report = json.render(findings, files=given.files, objects=len(given.subjects), skipped=given.skipped)
        stream.write(report + "\n")
        return
    from policies.render import text as text_report

    lines = _Lines(given.texts)
    stream.writelines(line + "\n" for line in text_report.render(findings, lines.line_of, painter(color)))


def _summarize(findings: list[Finding], given: Input) -> None:
    from policies.render.text import summary

    sys.stdout.flush()  # the report comes before its summary, also where both go into one pipe
    print(summary(given.files, len(given.subjects), given.skipped, findings), file=sys.stderr)  # noqa: T201


def _tell_open(count: int) -> None:
    if count:
        what = f"{plural(count, 'object')} not judged by class-not-allowed"
        print(f"{what}: it depends on who applies, or on a namespace that is not known", file=sys.stderr)  # noqa: T201


def _list_rules() -> None:
    from policies.rules import RULES

    for rule in RULES:
        print(f"{rule.ID:34} {rule.SEVERITY or '-'!s:8} {rule.ACTION or '-'}")  # noqa: T201


def _complain(fault: object, status: int) -> int:
    print(f"forewarn lint: {fault}", file=sys.stderr)  # noqa: T201
    return status


class _Lines:
    """Source lines for excerpts: the files that have findings are read once more."""

    def __init__(self, texts: dict[str, bytes]) -> None:
        self._texts = texts
        self._lines: dict[str, list[str]] = {}

    def line_of(self, file: str, line: int) -> str | None:
        """A line of a file, counted from 1; None where it is not there."""
        if file not in self._lines:
            from policies.manifests.documents import as_utf8

            try:
                content = self._texts.get(file) or read_file(file)
            except SourceError:
                content = b""
            self._lines[file] = as_utf8(content).decode("utf-8", "replace").split("\n")
        lines = self._lines[file]
        return lines[line - 1] if 0 < line <= len(lines) else None


@contextmanager
def _no_collector() -> Iterator[None]:
    """One run allocates much and drops little: the cyclic collector would only walk it all again and again."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
