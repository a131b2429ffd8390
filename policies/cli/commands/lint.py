"""`forewarn lint`: check manifests."""

from __future__ import annotations

import os
import sys
from contextlib import chdir
from functools import partial
from io import TextIOWrapper
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, TextIO

from forewarn.policies.base.findings import Finding, Severity, cut, grouped, listed, one_line, plural, printable
from forewarn.policies.base.light import NamedTuple, no_collection
from forewarn.policies.cli.commands import cluster_command, known_findings
from forewarn.policies.cli.commands.parser import Output, Parser, add_rule_options, existing, integer_between
from forewarn.policies.cli.commands.release import add_release_options, names_a_release, release_of, settle
from forewarn.policies.cli.terminal import as_markdown, clean, complain, painter, print_notice, wants_color
from forewarn.policies.inputs.sources.files import STDIN, TEMPLATES, SourceError, append_file, output_file, status_of
from forewarn.policies.kubernetes.objects.fields import InvalidInput
from forewarn.policies.kubernetes.objects.priority_class import HOSTED_CLASSES
from forewarn.policies.linting.config.model import Config, ConfigError
from forewarn.policies.linting.lint.input import TEMPLATE, Input, LintRequest, read_input
from forewarn.policies.questions.application.lint import Lint, checked

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from forewarn.policies.cli.commands.cluster_command import Run
    from forewarn.policies.kubernetes.cluster.cache import ClusterSnapshot
    from forewarn.policies.kubernetes.releases.release import Release
    from forewarn.policies.questions.application.findings import Report


FORMATS: Final = ("text", "json", "sarif", "junit", "gitlab", "github", "rdjson", "markdown")
SUMMARY: Final = "GITHUB_STEP_SUMMARY"
"""Environment variable with the file for GitHub's job summary in Markdown."""


def outputs_of(outputs: Sequence[str] | None, color: str, environment: Mapping[str, str]) -> list[Output]:
    """The requested outputs; by default text, and in GitHub Actions also annotations. Raises ValueError."""
    result: list[Output] = []
    in_actions = environment.get("GITHUB_ACTIONS") == "true"
    for output in outputs or (("text", "github") if in_actions else ("text",)):
        form, _, file = output.partition("=")
        if form not in FORMATS:
            from forewarn.policies.linting.rules.support.names import nearest  # only when something is wrong

            raise ValueError(cluster_command.unknown_format(form, FORMATS, nearest(form, FORMATS)))
        result.append(Output(form, color, file=file))
    printed = [output.form for output in result if not output.file]
    if len(printed) > 1 and not {"text", "github"}.issuperset(printed):
        raise ValueError("-o: several formats on standard output. Fix: write others to files: -o sarif=report.sarif")
    return result


def write_report(output: Output, result: Lint, *, limit: int = 0, notes: bool = True) -> None:
    """Write one report. Raises SourceError. `limit`: maximum findings of one rule in text (0: all).

    `notes`: include notes in text and annotations; other formats always include notes.
    """
    form, color = output.form, output.color
    if not notes and form in ("text", "github"):
        result = result._replace(findings=[f for f in result.findings if f.severity is not Severity.NOTE])
    report = result.report
    if not output.file:
        _print(form, report, sys.stdout, wants_color(color, sys.stdout), limit)
        return
    with output_file(output.file) as file:
        stream = TextIOWrapper(file, "utf-8", "backslashreplace")
        try:
            _print(form, report, stream, color == "always", limit)
        finally:
            stream.detach()


PARSE_ERROR: Final = "parse-error"
SKIPPED_TEMPLATES: Final = (TEMPLATES, TEMPLATE)
"""Types of skipped files that the summary counts by engine."""
FOLDED: Final[Mapping[str, Callable[[Finding], object]]] = {
    "priority-class-not-checked": lambda finding: finding.detail.get("class"),
    "system-class-outside-kube-system": lambda finding: (finding.message, os.path.dirname(finding.location.file)),
    "job-fails-on-eviction": lambda finding: (finding.message, os.path.dirname(finding.location.file)),
    "quota-exceeded": lambda finding: (finding.message, finding.object.namespace),
    "daemon-set-without-class": lambda finding: (finding.severity, finding.message, finding.object.name),
}
"""Rules that repeat one message for many objects -> the key of findings that are reported only once."""


def folded(findings: list[Finding]) -> list[Finding]:
    """Return the findings; findings of a FOLDED rule with the same cause are merged into one, with their number."""
    alike: dict[object, list[Finding]] = {}
    groups: list[list[Finding]] = []
    for finding in findings:
        place = (finding.rule, finding.message, finding.location) if finding.line > 0 else finding.order
        cause = (finding.rule, FOLDED[finding.rule](finding)) if finding.rule in FOLDED else place
        group = alike.get(cause) or alike.get(place)
        if group is None:
            groups.append(group := [])
        alike[cause] = alike[place] = group
        group.append(finding)
    return [_merge_findings(same) if len(same) > 1 else same[0] for same in groups]


def _merge_findings(same: Sequence[Finding]) -> Finding:
    """Return the first of several findings, with the number of objects."""
    first = same[0]
    suffix = f" (and {plural(len(same) - 1, 'more object')} with it)"
    return first._replace(text=first.text._replace(problem=first.text.problem + suffix))


def _print(form: str, report: Report, stream: TextIO, color: bool, limit: int) -> None:
    if form == "text":
        from forewarn.policies.cli.render import text

        worst_first = sorted(report.findings, key=lambda finding: finding.severity)
        lines = text.render(worst_first, report.line_of, painter(color), limit)
        stream.writelines(clean(line, color) + "\n" for line in lines)
    elif form == "github":
        _print_for_github(report, stream)
    else:
        stream.writelines(_rendered(form, report))


WITH_HEAD: Final = ("json", "sarif", "junit", "markdown", "html", "openreports")
"""Formats whose report contains the head of the answer; for other formats, the summary contains it."""


def _rendered(form: str, report: Report) -> Iterable[str]:
    """The report in a format, in parts."""
    if form == "sarif":
        from forewarn.policies.cli.render import sarif

        for line in sarif.notices(report):
            print_notice(line)
    if form in ("json", "sarif"):
        return known_findings.printed(form, report).parts
    if form == "markdown":
        return as_markdown(_markdown(report)), "\n"
    from forewarn.policies.cli.render import ci, junit

    return chain({"junit": junit.finding_suite, "gitlab": ci.gitlab, "rdjson": ci.rdjson}[form](report), "\n")


def _markdown(report: Report) -> str:
    from forewarn.policies.cli.render.head import insert_head
    from forewarn.policies.cli.render.table import markdown_findings

    text = markdown_findings(report.findings)
    return text if report.head is None else insert_head(text, report.head)


def _print_for_github(report: Report, stream: TextIO) -> None:
    """Print as many annotations as GitHub shows; if there are more, write all findings to the job summary."""
    from forewarn.policies.cli.render import ci

    lines, rest = ci.github(report.findings)
    stream.writelines(line + "\n" for line in lines)
    summary = os.environ.get(SUMMARY)
    if rest and summary:
        append_file(summary, f"{as_markdown(_markdown(report))}\n".encode("utf-8", "backslashreplace"))


def summary_of(result: Lint, *, head: bool, verbose: bool, notes: bool) -> list[str]:
    """Return the lines of the summary: findings, files, skipped objects and separate environments.

    `head`: with the head, if there is one. `verbose`: include what was left out, and directories that define the same
    objects. `notes`: the report contains notes.
    """
    from forewarn.policies.cli.render.report import findings_text
    from forewarn.policies.cli.render.text import checked_text

    given, grouping, findings = result.given, result.grouping, result.findings
    omitted = {what: count for what, count in given.omitted.items() if what not in SKIPPED_TEMPLATES}
    checked = checked_text(len(given.reported), len(given.subjects), given.skipped, omitted)
    lines = [f"{findings_text(findings, result.suppressed)}: {checked}"]
    if head and result.head is not None:
        from forewarn.policies.cli.render.head import line_of

        lines.append(line_of(result.head))
    lines += _about_notes(findings, shown=notes)
    reported = {finding.file for finding in findings if finding.rule == PARSE_ERROR}
    if unread := {found.location.file for found in given.diagnostics if found.rule == PARSE_ERROR} - reported:
        lines.append(f"{plural(len(unread), 'file')} with findings of {PARSE_ERROR} that are not reported")
    if given.engines:
        from forewarn.policies.linting.lint.templates import unrendered

        lines.append(unrendered(given.engines))
    if verbose:
        lines += _left_out(given)
        which = ", ".join(one_line(printable(path)) for path in grouping.alternatives)
        lines += [f"checked separately because they define the same objects: {which}"] if which else []
    limits = (
        (grouping.unpatched, "object", "not checked: patches that forewarn does not apply (pass on `kustomize build`)"),
        (grouping.apart, "kustomization", "not combined (too large): their files are checked by directory"),
        (grouping.unseen, "definition", "not visible in every directory (too many); --one-apply makes all visible"),
    )
    return lines + [f"{plural(count, noun)} {what}" for count, noun, what in limits if count]


def _about_notes(findings: Sequence[Finding], *, shown: bool) -> Iterator[str]:
    """Yield the number of notes that are not shown, and the number of notes that would be errors elsewhere."""
    hidden = 0 if shown else sum(finding.severity is Severity.NOTE for finding in findings)
    if hidden:
        yield f"{plural(hidden, 'note')} not shown; -v shows {'it' if hidden == 1 else 'them'}"
    if lowered := sum(finding.was_error for finding in findings):
        would = "would be an error" if lowered == 1 else "would be errors"
        yield f"{plural(lowered, 'note')} {would} outside tests, archives and other projects"


def _left_out(files: Input) -> Iterator[str]:
    """Yield the names of skipped files and directories, a line for each reason."""
    left_out = ((what, path) for path, what in files.left_out.items() if what != TEMPLATES)  # read with their chart
    for what, paths in grouped(left_out).items():
        yield f"left out ({what}): {listed([one_line(printable(path)) for path in paths], MAX_LEFT_OUT)}"


MAX_PER_RULE: Final = 100
MAX_LEFT_OUT: Final = 100
"""Maximum number of names of files and directories in a line; `--list-files` prints all."""


MAX_PASSES: Final = 3
"""Maximum number of passes of `--fix`: a fix may reveal further findings."""


def lint_parser() -> argparse.ArgumentParser:
    """The parser of `forewarn lint`."""
    parser = Parser(
        prog="forewarn lint",
        description="Check manifests in files, directories (.yaml, .yml, .json) or standard input (-).",
        epilog="Exit status: 0: no finding at or above --fail-on. 1: such findings. 2: wrong usage or configuration. "
        "3: no answer.",
        examples=("lint manifests/", "lint --cluster live -o sarif=report.sarif ."),
    )
    add, add_mutually_exclusive_group = parser.add_argument, parser.add_mutually_exclusive_group
    help_text = "file or directory to check, or - for standard input (default: this directory)"
    add("paths", nargs="*", default=["."], metavar="PATH", help=help_text)
    cluster_command.add_cluster_option(add, required=False)
    help_text = "file or directory with PriorityClasses and other definitions, which are not checked (repeatable)"
    add("--definitions", action="append", default=[], type=existing, metavar="PATH", help=help_text)
    help_text = "platform whose built-in PriorityClasses and admission limits apply (aks and eks: none)"
    add("--preset", choices=tuple(HOSTED_CLASSES), help=help_text)
    add("--exclude", action="append", default=[], metavar="PATTERN", help="files to skip (repeatable)")
    add("--no-gitignore", action="store_true", help="also check files that .gitignore names")
    help_text = (
        "report only findings that are new since the merge base with this commit, and changes of PriorityClasses"
    )
    add("--base", metavar="REF", help=help_text)
    add("--one-apply", action="store_true", help="treat all files as one apply, whatever their directories")
    add("--closed", action="store_true", help="treat unknown PriorityClasses as missing")
    add("--allow-empty", action="store_true", help="accept an input without objects")
    add("-n", "--namespace", help="namespace of objects that name none (default: default)")
    add("--stdin-filename", default="", metavar="NAME", help="file name for standard input in reports")
    add_release_options(add)
    add_rule_options(add)
    formats = ", ".join(FORMATS)
    help_text = f"{formats} (repeatable; default: text; in GitHub Actions also github)"
    add("-o", "--output", action="append", metavar="FORMAT[=FILE]", help=help_text)
    help_text = f"maximum number of findings of one rule in text output; 0 for all (default: {MAX_PER_RULE})"
    add("--max-per-rule", type=integer_between(0, 2**31 - 1), default=MAX_PER_RULE, metavar="N", help=help_text)
    fix = add_mutually_exclusive_group().add_argument
    help_text = "apply safe fixes, and report the other findings"
    fix("--fix", action="store_const", const=MAX_PASSES, default=0, help=help_text)
    fix("--diff", action="store_true", help="print the changes that --fix would make; exit with 1 if there are any")
    known_findings.add_status_options(add)
    help_text = "show notes, what is left out, and directories that are checked separately"
    add("-v", "--verbose", action="store_true", help=help_text)
    add("-q", "--quiet", action="store_true", help="do not print the summary")
    cluster_command.add_color_option(add)
    add("--list-rules", action="store_true", help="list the rules with severity, default action and summary")
    add("--list-files", action="store_true", help="list checked and skipped files")
    return parser


OK, FINDINGS, USAGE, FAILED = range(4)


def main(arguments: Sequence[str]) -> int:
    """Run the command; returns 0 without findings, 1 with findings, 2 for wrong usage, 3 without a result."""
    parser = lint_parser()
    options = cluster_command.parsed(parser, arguments)
    try:
        outputs = outputs_of(options.output, options.color, os.environ)
    except ValueError as fault:
        return _complain(fault, USAGE)
    run = cluster_command.choose_cluster(options, parser, outputs[0], required=False)
    release = release_of(options, parser) if run.cluster or names_a_release(options) else None
    try:
        config = _config(options)
        baseline = known_findings.read_baseline(options.baseline)
    except (ConfigError, ValueError) as fault:
        return _complain(fault, USAGE)
    request = _request(options, config, run.cluster)
    if options.list_rules:
        return _list_rules(config)
    if options.list_files:
        return _list_files(request)
    fails_at = known_findings.FAIL_ON[options.fail_on]
    notes = options.verbose or bool(options.select) or fails_at is Severity.NOTE
    fails_at = None if options.exit_zero or options.write_baseline else fails_at
    job = _Job(options, request, release, outputs, baseline, options.write_baseline, fails_at, notes)
    with no_collection():  # a run frees little memory, so collections only cost time
        return _lint(job, run, shows_fixes=options.diff)


def _request(options: argparse.Namespace, config: Config, cluster: Sequence[str]) -> LintRequest:
    return LintRequest(
        options.paths,
        config,
        options.namespace,
        options.definitions,
        cluster,
        options.stdin_filename,
        gitignore=not options.no_gitignore,
        one_apply=options.one_apply,
        base=options.base or "",
    )


class _Job(NamedTuple):
    """What to check and to print.

    `release`: None without a cluster and options about it. `new_baseline`: the file to write. `fails_at`: the least
    severity that causes exit status 1; None if none does.
    """

    options: argparse.Namespace
    request: LintRequest
    release: Release | None
    outputs: Sequence[Output]
    baseline: dict[str, Any] | None
    new_baseline: str | None
    fails_at: Severity | None
    notes: bool


def _lint(job: _Job, run: Run, *, shows_fixes: bool) -> int:
    try:
        cluster, request = _with_cluster(job, run)
        if shows_fixes:
            return _show(job, request, cluster)
        if request.base:
            earlier, request = _changes_since_base(request, cluster)
            known = [*earlier["findings"], *(job.baseline or {}).get("findings", [])]
            job = job._replace(baseline={**earlier, "findings": known})
        result = checked(request, cluster)
        for _ in range(job.options.fix):  # a fix may reveal further findings
            if not _fix(result):
                break
            result = checked(request, cluster)
    except SourceError as fault:
        return _complain(fault, status_of(fault))
    for unreadable in result.faults:
        _complain(unreadable, status_of(unreadable))
    return _report(job, result)


def _with_cluster(job: _Job, run: Run) -> tuple[ClusterSnapshot | None, LintRequest]:
    """The cluster, and what to check for its release. Raises SourceError."""
    request, release = job.request, job.release
    if release is None:
        return None, request
    cluster, reported_minor = None, None
    if run.cluster:
        cache = settle(cluster_command.loaded(run, templates=request.config.options.pod_template_paths), release)
        cluster = cache.snapshot()
        reported_minor = None if cluster.semantics.unknown else cache.reported_minor
        if cluster.semantics.unknown:
            print_notice(f"forewarn lint: no prediction: {cluster.semantics.unknown}")
    minor, gates = release.minor or reported_minor, release.semantics(reported_minor).gates
    rules = request.config.options._replace(minor=minor, gates=gates)
    return cluster, request._replace(config=request.config._replace(options=rules))


def _changes_since_base(request: LintRequest, cluster: ClusterSnapshot | None) -> tuple[dict[str, Any], LintRequest]:
    """Return the findings on the commit `base` as a baseline, and the request with the commit's PriorityClasses.

    Raises SourceError.
    """
    from forewarn.policies.linting.evaluation.suppressions import baseline_of
    from forewarn.policies.linting.lint.base import classes_of, commit_directory

    if any(os.path.isabs(path) or path == STDIN for path in request.paths):
        raise SourceError("--base", "needs paths relative to the working directory")
    with commit_directory(request.base) as directory, chdir(directory):
        earlier = checked(request._replace(base="", paths=list(filter(os.path.exists, request.paths))), cluster)
    return baseline_of(earlier.findings), request._replace(before=classes_of(earlier.given))


def _fix(result: Lint) -> bool:
    """Apply the safe fixes; returns true if there were any. Raises SourceError."""
    from forewarn.policies.linting.lint.fixes import fixed, write

    files = list(fixed(result.findings, result.given, result.config, result.cluster))
    write(files)
    if files:
        count = sum(len(file.edits) for file in files)
        print_notice(f"{plural(count, 'finding')} fixed in {plural(len(files), 'file')}")
    return bool(files)


def _show(job: _Job, request: LintRequest, cluster: ClusterSnapshot | None) -> int:
    """Print the numbers of findings and the changes of `--fix`, which this simulates in as many passes. Raises
    SourceError.
    """
    from forewarn.policies.linting.lint.fixes import FixedFile, fixed, patch_of

    result = checked(request, cluster)
    for unreadable in result.faults:
        _complain(unreadable, status_of(unreadable))
    status = _report(job._replace(outputs=(), notes=True, fails_at=None, new_baseline=None), result)
    files: dict[str, FixedFile] = {}
    for _ in range(MAX_PASSES):
        new = list(fixed(result.findings, result.given, result.config, cluster))
        if not new:
            break
        files |= {f.path: f._replace(before=files.get(f.path, f).before) for f in new}
        result = checked(request._replace(changed={path: file.after for path, file in files.items()}), cluster)
    for line in patch_of(list(files.values())):
        print(clean(cut(line, 10_000), color=False, is_patch=True))  # noqa: T201
    return status or (FINDINGS if files else OK)


def _report(job: _Job, result: Lint) -> int:
    if job.new_baseline and not known_findings.write_baseline(job.new_baseline, result.findings):
        return FAILED
    try:
        findings, known, notices = known_findings.less_known(
            result.findings, job.baseline, job.options.baseline, result.files
        )
    except InvalidInput as fault:
        return _complain(fault, USAGE)
    result = result._replace(findings=folded(findings), suppressed=result.suppressed + known)
    has_answer = not (result.given.unreadable or _why_nothing(job, result.given))
    if not job.options.quiet and (result.findings or has_answer):
        head = not job.outputs or any(output.form not in WITH_HEAD for output in job.outputs)
        for line in summary_of(result, head=head, verbose=job.options.verbose, notes=job.notes):
            print_notice(line)
        if result.unchecked:
            what = f"{plural(result.unchecked, 'object')} not checked by class-not-allowed"
            print_notice(f"{what}: the result depends on the requester or on an unknown namespace")
        for line in notices if job.options.baseline else ():
            print_notice(line)
    for output in job.outputs:
        try:
            write_report(output, result, limit=job.options.max_per_rule, notes=job.notes)
        except SourceError as fault:
            return _complain(fault, FAILED)
    return _status(job, result.given, result.findings)


def _why_nothing(job: _Job, files: Input) -> str:
    """Return the error if nothing was checked; "" if something was checked, or with --allow-empty."""
    if job.options.allow_empty or (files.reported and (files.objects or files.diagnostics)):
        return ""
    empty = "no objects found. Fix: pass --allow-empty to accept that"
    return empty if files.reported else "no .yaml, .yml or .json files found"


def _status(job: _Job, files: Input, findings: list[Finding]) -> int:
    if files.unreadable:
        return max(map(status_of, files.unreadable))
    if why := _why_nothing(job, files):
        return _complain(why, FAILED)
    threshold = job.fails_at
    return FINDINGS if threshold is not None and any(f.severity <= threshold for f in findings) else OK


def _config(options: argparse.Namespace) -> Config:
    """The configuration with the additions of the command line. Raises ConfigError, ValueError."""
    config = known_findings.config_of(options)
    closed, exclude = config.options.closed or options.closed, (*config.options.exclude, *options.exclude)
    preset = options.preset or config.options.preset
    return config._replace(options=config.options._replace(closed=closed, exclude=exclude, preset=preset))


def _list_rules(config: Config) -> int:
    from forewarn.policies.cli.commands.explain import table_of
    from forewarn.policies.linting.rules import RULES

    print("\n".join(table_of((*RULES, *config.foreign))))  # noqa: T201
    return OK


def _list_files(request: LintRequest) -> int:
    given = read_input(request)
    for path, what in given.left_out.items():
        print_notice(f"skipped: {path} ({what})")
    for name in (*given.reported, *(fault.file for fault in given.unreadable if isinstance(fault, SourceError))):
        print(clean(name, color=False))  # noqa: T201
    return OK


_complain: Final = partial(complain, "lint")
