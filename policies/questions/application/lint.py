"""`lint`: check manifests in files and directories, alone or against a cluster."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, Final

from forewarn.policies.base.documents import to_dict
from forewarn.policies.base.findings import Finding, ObjectRef, Text, described, listed, plural, sort_findings
from forewarn.policies.base.findings import grouped as by_key
from forewarn.policies.base.light import NamedTuple
from forewarn.policies.inputs.sources.files import MissingFile, PathLike, SourceError, fspath, read_file
from forewarn.policies.kubernetes.objects.fields import InvalidInput
from forewarn.policies.kubernetes.objects.reviewed_object import ChangeSet
from forewarn.policies.linting.evaluation.evaluator import (
    EvaluationRequest,
    Phase,
    count_open,
    evaluate,
    with_autoscaler,
)
from forewarn.policies.linting.lint import input as lint_input
from forewarn.policies.linting.lint.charts import lowered
from forewarn.policies.linting.rules.support.rule_text import PRODUCTION
from forewarn.policies.questions.application.findings import Report, configured

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from forewarn.policies.inputs.manifests.groups import Grouping
    from forewarn.policies.kubernetes.cluster.cache import AnswerHead, ClusterSnapshot
    from forewarn.policies.linting.config.model import Config
    from forewarn.policies.linting.lint.fixes import Edit
    from forewarn.policies.questions.application.cluster import Cluster

_CACHE_SIZE: Final = 8
"""Maximum number of files whose lines are cached: findings are sorted by file."""


class Lint(NamedTuple):
    """The findings on manifests.

    `suppressed`: number of suppressed findings. `unchecked`: number of objects that the rule class-not-allowed cannot
    evaluate.
    `cluster`, `head`: None without a cluster. `given`, `grouping`, `config`: the input, its objects by apply, and the
    configuration.
    """

    findings: list[Finding]
    suppressed: int
    head: AnswerHead | None
    given: lint_input.Input
    grouping: Grouping
    unchecked: int
    cluster: ClusterSnapshot | None
    config: Config

    @property
    def faults(self) -> Sequence[Exception]:
        """The errors of unreadable files."""
        return self.given.unreadable

    @property
    def files(self) -> Sequence[str]:
        """The checked files."""
        return [*self.given.reported]

    @property
    def left_out(self) -> Mapping[str, int]:
        """Number of skipped files and directories, by reason."""
        return self.given.omitted

    @property
    def report(self) -> Report:
        """The findings with the counts of the input, for all formats."""
        given = self.given
        counts = list(given.reported), len(given.subjects), given.skipped
        lines = SourceLines(given)
        report = Report(self.findings, *counts, lines.line_of, self.suppressed, self.head, given.omitted, self._edits)
        return report._replace(errors=[*map(str, given.unreadable)])

    def _edits(self) -> Iterator[tuple[Finding, Edit]]:
        """The safe fixes, each with its finding."""
        from forewarn.policies.linting.lint.fixes import fixed

        for file in fixed(self.findings, self.given, self.config, self.cluster):
            yield from file.edits

    def to_dict(self) -> dict[str, Any]:
        """The JSON document, in the format of `-o json`."""
        return to_dict(self.report)

    def __repr__(self) -> str:
        return described(self, f"{plural(len(self.given.reported), 'file')}, {plural(len(self.findings), 'finding')}")


def lint(
    paths: str | PathLike[str] | Sequence[str | PathLike[str]],
    cluster: Cluster | None = None,
    *,
    config: str | PathLike[str] = "",
    select: Sequence[str] = (),
    ignore: Sequence[str] = (),
    namespace: str | None = None,
    definitions: Sequence[str | PathLike[str]] = (),
    one_apply: bool = False,
) -> Lint:
    """Check manifests: files, directories, or `-` for standard input.

    `cluster`: check against this cluster, and predict preemption. `config`: a configuration file. `select`: ids of
    rules to run. `ignore`: ids of rules not to run. `namespace`: namespace of objects that name none. `definitions`:
    files and directories with PriorityClasses and other definitions, which are not checked. `one_apply`: treat all
    files as one apply, whatever their directories. Raises ConfigError, InvalidInput and SourceError.
    """
    settings, snapshot = configured(fspath(config), select=select, ignore=ignore), None
    if cluster is not None:
        snapshot = cluster.snapshot
        minor, gates = cluster.minor, snapshot.semantics.gates
        settings = settings._replace(options=settings.options._replace(minor=minor, gates=gates))
    given = [fspath(path) for path in ([paths] if isinstance(paths, str | PathLike) else paths)]
    if not given:
        raise InvalidInput("no path given")
    others = [fspath(path) for path in definitions]
    result = checked(lint_input.LintRequest(given, settings, namespace, others, one_apply=one_apply), snapshot)
    for fault in result.faults:
        if isinstance(fault, MissingFile):
            raise fault
    return result


def checked(request: lint_input.LintRequest, cluster: ClusterSnapshot | None = None) -> Lint:
    """Read the input and evaluate all rules. Raises SourceError."""
    options = request.config.options._replace(namespace=request.namespace or "")
    request = request._replace(config=request.config._replace(options=options))
    given = lint_input.read_input(request)
    request = request._replace(config=lint_input.with_schemas(request.config, given))
    lint_input.read_templates(given, request)
    if request.before:
        from forewarn.policies.linting.lint.base import update

        update(given, request.before)
    named = request.config.options._replace(
        base=request.base,
        deleted_classes=frozenset(request.before) - given.defined_classes - given.class_names,
        template_classes=frozenset((*given.class_names, *given.renamed_classes)),
        input_classes=given.defined_classes,
        class_uses=given.class_uses,
        class_values=given.class_values,
        unread_names=frozenset(given.unread_names),
        keeps_replicas=given.keeps_replicas,
    )
    config = request.config._replace(options=named)
    config = with_autoscaler(config, cluster) if cluster else config
    grouping = given.grouping(config, one=request.one_apply, limits_stay=request.namespace is None)
    config = config._replace(options=config.options._replace(alternatives=grouping.alternatives))
    return evaluated(given, grouping, config, cluster)


def evaluated(
    files: lint_input.Input, grouping: Grouping, config: Config, cluster: ClusterSnapshot | None = None
) -> Lint:
    """Return the findings on an input that are not suppressed."""
    findings, unchecked = findings_on(grouping, files, cluster, config)
    findings, suppressed = _unsuppressed(findings, files, config, with_cluster=cluster is not None)
    if any(b"\n# Source: " in text for text in files.texts.values()):
        from forewarn.policies.linting.lint.helm_output import placed

        findings = placed(findings, files)
    return Lint(findings, suppressed, _head(cluster, findings), files, grouping, unchecked, cluster, config)


def findings_on(
    grouping: Grouping, files: lint_input.Input, cluster: ClusterSnapshot | None, config: Config
) -> tuple[list[Finding], int]:
    """Return the sorted findings of all groups without duplicates, and the number of objects that class-not-allowed
    cannot evaluate.
    """
    now = datetime.now(UTC)
    request = EvaluationRequest(ChangeSet((), tuple(files.diagnostics)), cluster, config, phase=Phase.LINT, now=now)
    found, unchecked = evaluate(request), 0
    for group in grouping.groups:
        sent = lint_input.as_updates(group, cluster)
        request = request._replace(change_set=ChangeSet(sent.subjects), evaluated=sent.evaluated)
        found += evaluate(request)
        unchecked += count_open(request.change_set, config, cluster, now, sent.evaluated)
    # If nothing can be checked, an error must not pass because its file is named `broken.yaml`.
    ordered = lowered if grouping.groups else sort_findings
    findings = lint_input.merge_value_findings(ordered({finding.order: finding for finding in found}.values()), files)
    return _with_overlays(findings, found, grouping) if any(f.overlay for f in found) else findings, unchecked


def _with_overlays(findings: Iterable[Finding], every: Sequence[Finding], grouping: Grouping) -> list[Finding]:
    """Return the findings; a finding that holds only in some overlays of an object names these overlays.

    If none of these is for production, a finding about blocked evictions is a note: a small environment has one replica
    on purpose. `every`: all findings, also those with the same text in other overlays.
    """
    having = by_key((_place_of(f), f.overlay) for f in every)
    refs = {_without_namespace(finding.object) for finding in every if finding.overlay}
    subjects = [s for group in grouping.groups for s in group.evaluated if _without_namespace(s.ref) in refs]
    overlays = by_key(((_without_namespace(s.ref), s.source.locate(()).file), s.overlay) for s in subjects)
    result = []
    for finding in findings:
        own = {*having.get(_place_of(finding), ())}
        if "" not in own and not own.issuperset(overlays.get((_without_namespace(finding.object), finding.file), ())):
            where = f"In {'overlays' if len(own) > 1 else 'overlay'} {listed(sorted(own), _MAX_OVERLAYS)}"
            finding = finding.with_texts(partial(Text.with_caveat, caveat=where))
            if finding.rule == "evictions-blocked" and not any(map(PRODUCTION.search, own)):
                finding = finding.as_note
        result.append(finding)
    return result


def _place_of(finding: Finding) -> tuple[Any, ...]:
    return finding.location, finding.rule, _without_namespace(finding.object), finding.message


def _without_namespace(ref: ObjectRef) -> ObjectRef:
    """Return the reference without the namespace, which overlays set."""
    return ref._replace(namespace="")


_MAX_OVERLAYS: Final = 3


def _unsuppressed(
    findings: list[Finding], files: lint_input.Input, config: Config, *, with_cluster: bool
) -> tuple[list[Finding], int]:
    """The findings that are not suppressed, and the number of suppressed ones."""
    if not files.suppressions and not config.options.ignored:
        return findings, 0
    from forewarn.policies.linting.evaluation.suppressions import configuration_suppressions, suppress

    suppressions = [*files.suppressions, *configuration_suppressions(config.options.ignored)]
    return suppress(
        findings,
        suppressions,
        config.linter_severity,
        datetime.now(UTC).date(),
        read=files.reported,
        with_cluster=with_cluster,
        with_release=config.options.minor is not None,
    )


def _head(cluster: ClusterSnapshot | None, findings: Sequence[Finding]) -> AnswerHead | None:
    if cluster is None:
        return None
    from forewarn.policies.kubernetes.cluster.cache import head_of_findings

    return head_of_findings(cluster, findings)


class SourceLines:
    """Source lines for excerpts, from files with findings, which are read again."""

    def __init__(self, files: lint_input.Input) -> None:
        self._given = files
        self._lines = lru_cache(_CACHE_SIZE)(self._read)

    def line_of(self, file: str, line: int) -> str | None:
        """A line of a file (from 1); None if it does not exist."""
        lines = self._lines(file)
        return lines[line - 1] if 0 < line <= len(lines) else None

    def _read(self, file: str) -> list[str]:
        from forewarn.policies.inputs.manifests.documents import as_utf8

        try:
            content = self._given.texts.get(file) or read_file(self._given.sources[file])
        except (SourceError, KeyError):
            content = b""
        return as_utf8(content).decode("utf-8", "replace").split("\n")
