"""`forewarn lint`: check manifests."""

from __future__ import annotations

import gc
import os
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from forewarn.policies.commands import lint_output
from forewarn.policies.commands.assertion_files import ASSERTION, assertion_files
from forewarn.policies.commands.cluster_command import choose_cluster, loaded, parsed
from forewarn.policies.commands.known_findings import config_of, read_baseline, write_baseline
from forewarn.policies.commands.lint_input import (
    EXCLUDED,
    Input,
    as_update,
    as_updates,
    is_excluded,
    read_input,
    read_templates,
)
from forewarn.policies.commands.lint_options import FAIL_ON, lint_parser
from forewarn.policies.commands.release import names_a_release, release_of, settle
from forewarn.policies.config.model import Config, ConfigError
from forewarn.policies.evaluation.evaluator import EvaluationRequest, Phase, count_open, evaluate
from forewarn.policies.findings import Finding, Severity, plural
from forewarn.policies.kinds.registry import DEFAULT_NAMESPACE
from forewarn.policies.objects.reviewed_object import ChangeSet
from forewarn.policies.sources import SourceError, find_files, status_of
from forewarn.policies.terminal import complain, print_notice

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Sequence

    from forewarn.policies.cluster.answer_head import AnswerHead
    from forewarn.policies.cluster.cache import ClusterSnapshot
    from forewarn.policies.commands.lint_output import Target
    from forewarn.policies.manifests.groups import Grouping
    from forewarn.policies.objects.reviewed_object import ReviewedObject
    from forewarn.policies.releases.release import Release

__all__ = ["as_update", "findings_on", "main", "read_input", "unsuppressed"]

OK, FINDINGS, USAGE, FAILED = range(4)


def main(arguments: Sequence[str]) -> int:
    """Run the command; returns 0 without findings, 1 with findings, 2 for wrong usage, 3 without a result."""
    parser = lint_parser()
    options = parsed(parser, arguments)
    choose_cluster(options, parser, required=False)
    release = release_of(options, parser) if options.cluster or names_a_release(options) else None
    try:
        outputs = lint_output.targets(options.output, os.environ)
        config = _config(options)
        baseline = read_baseline(options.baseline)
    except (ConfigError, ValueError) as fault:
        return _complain(fault, USAGE)
    if options.list_rules:
        _list_rules(config)
        return OK
    if options.list_files:
        return _list_files(options, config)
    with _no_collector():
        return _lint(options, outputs, config, baseline, release)


class _Checked(NamedTuple):
    """The input of the linter, and its unsuppressed findings before the baseline is applied.

    `suppressed`: number of suppressed findings. `unchecked`: number of objects that class-not-allowed cannot evaluate.
    `head`: None without a cluster.
    """

    given: Input
    grouping: Grouping
    findings: list[Finding]
    suppressed: int
    unchecked: int
    cluster: ClusterSnapshot | None
    head: AnswerHead | None


def _lint(
    options: argparse.Namespace,
    outputs: list[Target],
    config: Config,
    baseline: dict[str, Any] | None,
    release: Release | None,
) -> int:
    try:
        checked = _check(options, config, release)
        if options.diff:
            return _show(checked, config)
        while options.fix and _fix(checked, config):
            options.fix -= 1  # a fix may reveal further findings
            checked = _check(options, config, release)
    except SourceError as fault:
        return _complain(fault, status_of(fault))
    for unreadable in checked.given.unreadable:
        _complain(unreadable, status_of(unreadable))
    return _report(options, outputs, checked, baseline)


def _check(options: argparse.Namespace, config: Config, release: Release | None) -> _Checked:
    """Read the input and evaluate all rules. Raises SourceError."""
    cluster, reported_minor = _cluster(options, config, release) if release else (None, None)
    minor = release.minor or reported_minor if release else None
    gates = release.semantics(reported_minor).gates if release else ()
    told_options = config.options._replace(minor=minor, gates=gates, namespace=options.namespace or "")
    config = config._replace(options=told_options)
    given = read_input(
        options.paths,
        config,
        options.namespace or DEFAULT_NAMESPACE,
        options.definitions,
        options.stdin_filename,
        as_git=not options.no_gitignore,
        definitions=options.cluster,
        every_definition=options.render,
    )
    if given.class_paths:
        from forewarn.policies.commands.lint_schemas import with_schemas

        config = with_schemas(config, given)
    if options.render:
        from forewarn.policies.commands.lint_render import render

        render(given, options, config)
    read_templates(given, config, options.namespace or DEFAULT_NAMESPACE, as_git=not options.no_gitignore)
    named = config.options._replace(
        template_classes=frozenset((*given.class_names, *given.renamed_classes)),
        input_classes=given.defined_classes,
        class_uses=given.class_uses,
    )
    config = config._replace(options=named)
    grouping = given.grouping(config, one=options.one_apply, limits_stay=options.namespace is None)
    found, unchecked = findings_on(grouping, given, cluster, config)
    findings, suppressed = unsuppressed(found, given, config, with_cluster=cluster is not None)
    return _Checked(given, grouping, findings, suppressed, unchecked, cluster, _head(cluster, findings))


def _fix(checked: _Checked, config: Config) -> bool:
    """Apply the safe fixes; returns true if there were any. Raises SourceError."""
    from forewarn.policies.commands import lint_fix

    found = list(lint_fix.fixed(checked.findings, checked.given, config, checked.cluster))
    lint_fix.write(found)
    return bool(found)


def _show(checked: _Checked, config: Config) -> int:
    from forewarn.policies.commands import lint_fix

    for unreadable in checked.given.unreadable:
        _complain(unreadable, status_of(unreadable))
    found = list(lint_fix.fixed(checked.findings, checked.given, config, checked.cluster))
    lint_fix.show(found)
    return _of_unreadable(checked.given) or (FINDINGS if found else OK)


def _report(
    options: argparse.Namespace, outputs: list[Target], checked: _Checked, baseline: dict[str, Any] | None
) -> int:
    given, findings, suppressed, fixed = checked.given, checked.findings, checked.suppressed, 0
    if options.write_baseline and not write_baseline(options.write_baseline, findings):
        return FAILED
    if baseline is not None:
        from forewarn.policies.evaluation.suppressions import less_baseline

        try:
            findings, known, fixed = less_baseline(findings, baseline)
        except ValueError as fault:
            return _complain(f"{options.baseline}: {fault}", USAGE)
        suppressed += known
    findings = lint_output.folded(findings)
    notes = options.verbose or bool(options.select) or FAIL_ON[options.fail_on] is Severity.NOTE
    for target in outputs:
        try:
            lint_output.write(
                target,
                findings,
                given,
                options.color,
                suppressed,
                checked.head,
                most=options.max_per_rule,
                notes=notes,
            )
        except SourceError as fault:
            return _complain(fault, FAILED)
    if not options.quiet and (findings or not _has_no_answer(options, given)):
        head = checked.head if ("text", "") in outputs else None
        lint_output.summarize(findings, given, checked.grouping, suppressed, head, verbose=options.verbose, notes=notes)
        _report_counts(checked.unchecked, fixed)
    return _status(options, given, findings)


def _has_no_answer(options: argparse.Namespace, given: Input) -> bool:
    """True if an error replaces the summary: a file is unreadable, or there was nothing to check."""
    is_empty = not given.reported or not (given.objects or given.diagnostics)
    return bool(given.unreadable) or (is_empty and not options.allow_empty)


def _status(options: argparse.Namespace, given: Input, findings: list[Finding]) -> int:
    if given.unreadable:
        return _of_unreadable(given)
    if not given.reported and not options.allow_empty:
        return _complain("no .yaml, .yml or .json files found", FAILED)
    if not (given.objects or given.diagnostics or options.allow_empty):
        return _complain("no objects found; --allow-empty accepts that", FAILED)
    threshold = FAIL_ON[options.fail_on]
    if options.exit_zero or options.write_baseline or threshold is None:
        return OK
    return FINDINGS if any(finding.severity <= threshold for finding in findings) else OK


def _of_unreadable(given: Input) -> int:
    """The exit status for unreadable files; 0 if there are none."""
    return max(map(status_of, given.unreadable), default=OK)


def findings_on(
    grouping: Grouping, given: Input, cluster: ClusterSnapshot | None, config: Config
) -> tuple[list[Finding], int]:
    """Return the sorted findings of all groups without duplicates, and the number of objects that class-not-allowed
    cannot evaluate.
    """
    now = datetime.now(UTC)
    found = {f.order: f for f in _evaluate(ChangeSet((), tuple(given.diagnostics)), cluster, config, now)}
    unchecked = 0
    for group in grouping.groups:
        sent = as_updates(group, cluster)
        change_set = ChangeSet(sent.subjects)
        found |= {f.order: f for f in _evaluate(change_set, cluster, config, now, sent.evaluated)}
        unchecked += count_open(change_set, config, cluster, now, sent.evaluated)
    # A value of the wrong type (`value: yes`) is one mistake: the finding about its spelling would repeat it.
    wrong_types = {f.location for f in found.values() if f.rule == "parse-error"}
    ordered = (found[key] for key in sorted(found))
    return [f for f in ordered if f.rule != "ambiguous-value" or f.location not in wrong_types], unchecked


def _evaluate(
    change_set: ChangeSet,
    cluster: ClusterSnapshot | None,
    config: Config,
    now: datetime,
    checked: Sequence[ReviewedObject] | None = None,
) -> list[Finding]:
    return evaluate(EvaluationRequest(change_set, cluster, config, phase=Phase.LINT, now=now, evaluated=checked))


def unsuppressed(
    findings: list[Finding], given: Input, config: Config, *, with_cluster: bool
) -> tuple[list[Finding], int]:
    """The findings that are not suppressed, and the number of suppressed ones."""
    if not given.suppressions and not config.options.ignored:
        return findings, 0
    from forewarn.policies.evaluation.suppressions import of_configuration, suppress

    suppressions = [*given.suppressions, *of_configuration(config.options.ignored)]
    today = datetime.now(UTC).date()
    return suppress(
        findings, suppressions, config.linter_severity, today, with_cluster=with_cluster, read=given.reported
    )


def _cluster(
    options: argparse.Namespace, config: Config, release: Release
) -> tuple[ClusterSnapshot | None, int | None]:
    """The cluster state, and the minor version that the cluster reports (None if unknown)."""
    if not options.cluster:
        return None, None
    cache = settle(loaded(options, templates=config.options.pod_template_paths), release)
    cluster = cache.snapshot()
    if cluster.semantics.unknown:
        print_notice(f"forewarn lint: no prediction: {cluster.semantics.unknown}")
        return cluster, None
    return cluster, cache.reported_minor


def _head(cluster: ClusterSnapshot | None, findings: Sequence[Finding]) -> AnswerHead | None:
    if cluster is None:
        return None
    from forewarn.policies.cluster.answer_head import head_of_findings

    return head_of_findings(cluster, findings)


def _config(options: argparse.Namespace) -> Config:
    """The configuration with the additions of the command line. Raises ConfigError, ValueError."""
    config = config_of(options)
    closed, exclude = config.options.closed or options.closed, (*config.options.exclude, *options.exclude)
    return config._replace(options=config.options._replace(closed=closed, exclude=exclude))


def _report_counts(unchecked: int, fixed: int) -> None:
    if unchecked:
        what = f"{plural(unchecked, 'object')} not checked by class-not-allowed"
        print_notice(f"{what}: the result depends on the requester or on an unknown namespace")
    if fixed:
        print_notice(f"{plural(fixed, 'finding')} of the baseline no longer found; update it with --write-baseline")


def _list_rules(config: Config) -> None:
    from forewarn.policies.commands.explain import table_of
    from forewarn.policies.rules import RULES

    print("\n".join(table_of((*RULES, *config.foreign))))  # noqa: T201


def _list_files(options: argparse.Namespace, config: Config) -> int:
    from forewarn.policies.terminal import clean

    def print_skipped(path: str, what: str) -> None:
        print_notice(f"skipped: {path} ({what})")

    files = list(find_files(options.paths, omitted=print_skipped, as_git=not options.no_gitignore))
    assertions = assertion_files(files)
    for file in files:
        if os.path.normpath(file.path) in assertions:
            print_skipped(file.path, ASSERTION)
        elif is_excluded(file.path, config.options.exclude):
            print_skipped(file.path, EXCLUDED)
        else:
            print(clean(file.name, color=False))  # noqa: T201
    return OK


def _complain(fault: object, status: int) -> int:
    return complain("lint", fault, status)


@contextmanager
def _no_collector() -> Iterator[None]:
    """Disable Python's cycle collector inside the block: a run frees little, so collections only cost time."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
