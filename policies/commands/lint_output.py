"""The output of `forewarn lint`: reports in several formats, and the summary."""

from __future__ import annotations

import os
import sys
from collections import Counter
from io import TextIOWrapper
from typing import TYPE_CHECKING, Final, TextIO

from forewarn.policies.commands.lint_input import TEMPLATE
from forewarn.policies.findings import Finding, Severity, one_line, plural, printable
from forewarn.policies.sources import SourceError, read_file
from forewarn.policies.sources.files import TEMPLATES
from forewarn.policies.sources.output_file import append_file, output_file
from forewarn.policies.terminal import as_markdown, clean, painter, print_notice, wants_color

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from forewarn.policies.cluster.answer_head import AnswerHead
    from forewarn.policies.commands.lint_input import Input
    from forewarn.policies.manifests.groups import Grouping
    from forewarn.policies.render.report import Report

FORMATS: Final = ("text", "json", "sarif", "junit", "gitlab", "github", "rdjson", "markdown")
SUMMARY: Final = "GITHUB_STEP_SUMMARY"
"""Environment variable with the file for GitHub's job summary in Markdown."""
Target = tuple[str, str]
"""A format, and a file ("" for standard output)."""


def targets(given: Sequence[str] | None, environment: Mapping[str, str]) -> list[Target]:
    """The requested outputs; by default text, and in GitHub Actions also annotations. Raises ValueError."""
    found: list[Target] = []
    in_actions = environment.get("GITHUB_ACTIONS") == "true"
    for output in given or (("text", "github") if in_actions else ("text",)):
        form, _, target = output.partition("=")
        if form not in FORMATS:
            from forewarn.policies.rules.support.names import nearest  # only when something is wrong

            raise ValueError(f"--output {output}: there are {', '.join(FORMATS)}{nearest(form, FORMATS)}")
        found.append((form, target))
    if sum(not target for _, target in found) > 1 and any(not t and f not in ("text", "github") for f, t in found):
        raise ValueError("--output: one format for standard output; write the others to files: -o sarif=report.sarif")
    return found


def write(
    target: Target,
    findings: list[Finding],
    given: Input,
    color: str,
    suppressed: int = 0,
    head: AnswerHead | None = None,
    *,
    most: int = 0,
    notes: bool = True,
) -> None:
    """Write one report. Raises SourceError. `most`: maximum findings of one rule in text (0: all).

    `notes`: include notes in text and annotations; other formats always include notes.
    """
    form, path = target
    if not notes and form in _WITHOUT_NOTES:
        findings = [finding for finding in findings if finding.severity is not Severity.NOTE]
    report = report_of(findings, given, suppressed, head)
    if not path:
        _print(form, report, given, sys.stdout, wants_color(color, sys.stdout), most)
        return
    with output_file(path) as file:
        stream = TextIOWrapper(file, "utf-8", "backslashreplace")
        try:
            _print(form, report, given, stream, color == "always", most)
        finally:
            stream.detach()


_WITHOUT_NOTES: Final = ("text", "github")
SKIPPED_TEMPLATES: Final = (TEMPLATES, TEMPLATE)
"""Types of skipped files that the summary counts by engine."""
FOLDED: Final[Mapping[str, Callable[[Finding], object]]] = {
    "priority-class-not-checked": lambda finding: finding.detail.get("class"),
    "system-class-outside-kube-system": lambda finding: (finding.message, os.path.dirname(finding.location.file)),
    "job-fails-on-eviction": lambda finding: (finding.message, os.path.dirname(finding.location.file)),
    "daemon-set-without-class": lambda finding: (finding.severity, finding.message, finding.object.name),
}
"""Rules that repeat one message for many objects, and what findings that are reported once have in common."""


def folded(findings: list[Finding]) -> list[Finding]:
    """Return the findings, with those of FOLDED rules that have the same cause merged to one, with the number of
    objects.
    """
    keys = [(f.rule, FOLDED[f.rule](f) if f.rule in FOLDED else None) for f in findings]
    counts = Counter(key for key in keys if key[0] in FOLDED)
    shown, reported = [], set()
    for finding, key in zip(findings, keys, strict=True):
        if key in reported:
            continue
        if key in counts:
            reported.add(key)
            more = counts[key] - 1
            suffix = f" (and {plural(more, 'more object')} with it)" if more else ""
            finding = finding._replace(text=finding.text._replace(problem=finding.text.problem + suffix))
        shown.append(finding)
    return shown


def report_of(findings: list[Finding], given: Input, suppressed: int = 0, head: AnswerHead | None = None) -> Report:
    """The report about an input."""
    from forewarn.policies.render.report import Report

    lines = Lines(given)
    return Report(findings, list(given.reported), len(given.subjects), given.skipped, lines.line_of, suppressed, head)


def _print(form: str, report: Report, given: Input, stream: TextIO, color: bool, most: int) -> None:
    if form == "text":
        from forewarn.policies.render import text

        lines = text.render(report.findings, report.line_of, painter(color), most)
        stream.writelines(clean(line, color) + "\n" for line in lines)
    elif form == "github":
        _print_for_github(report, stream)
    else:
        stream.writelines(_rendered(form, report, given))
        stream.write("\n")


def _rendered(form: str, report: Report, given: Input) -> Iterable[str]:
    """The report in a format, in parts."""
    if form == "json":
        from forewarn.policies.render import json

        return json.render(report, omitted=given.omitted)
    if form == "sarif":
        from importlib.metadata import version

        from forewarn.policies.render import sarif

        if len(report.findings) > sarif.MAX_RESULTS:
            print_notice(
                f"sarif: the worst {sarif.MAX_RESULTS} of {len(report.findings)} findings (the limit of GitHub)"
            )
        return sarif.render(report, version("forewarn"))
    if form == "markdown":
        return (as_markdown(_markdown(report)),)
    from forewarn.policies.render import ci

    return {"junit": ci.junit, "gitlab": ci.gitlab, "rdjson": ci.rdjson}[form](report)


def _markdown(report: Report) -> str:
    from forewarn.policies.render import markdown
    from forewarn.policies.render.head import below_title

    text = markdown.render(report.findings)
    return text if report.head is None else below_title(text, report.head)


def _print_for_github(report: Report, stream: TextIO) -> None:
    """Print as many annotations as GitHub shows; if there are more, write all findings to the job summary."""
    from forewarn.policies.render import ci

    lines, rest = ci.github(report.findings)
    stream.writelines(line + "\n" for line in lines)
    summary = os.environ.get(SUMMARY)
    if rest and summary:
        append_file(summary, f"{as_markdown(_markdown(report))}\n".encode("utf-8", "backslashreplace"))


def summarize(
    findings: list[Finding],
    given: Input,
    grouping: Grouping,
    suppressed: int,
    head: AnswerHead | None = None,
    *,
    verbose: bool = False,
    notes: bool = True,
) -> None:
    """Print the summary on standard error: files, findings, skipped objects and separate environments.

    `head`: None without a cluster, or if no text is printed. `verbose`: include directories that define the same
    objects. `notes`: true if the report contains notes.
    """
    from forewarn.policies.render.text import summary

    sys.stdout.flush()  # the report comes before its summary, also where both go into one pipe
    omitted = {what: count for what, count in given.omitted.items() if what not in SKIPPED_TEMPLATES}
    lines = [summary(len(given.reported), len(given.subjects), given.skipped, findings, omitted, suppressed)]
    if head is not None:
        from forewarn.policies.render.head import line_of

        lines.append(line_of(head))
    hidden = 0 if notes else sum(finding.severity is Severity.NOTE for finding in findings)
    if hidden:
        lines.append(f"{plural(hidden, 'note')} not shown; -v shows {'it' if hidden == 1 else 'them'}")
    if given.engines:
        from forewarn.policies.commands.lint_templates import unrendered

        lines.append(unrendered(given.engines))
    if grouping.alternatives and verbose:
        which = ", ".join(one_line(printable(path)) for path in grouping.alternatives)
        lines.append(f"checked separately because they define the same objects: {which}")
    if grouping.patches:
        what = plural(grouping.patches, "object")
        lines.append(f"{what} not checked: patches (use --render to check the output of kustomize)")
    if grouping.apart:
        what = plural(grouping.apart, "kustomization")
        lines.append(f"{what} not combined (too large): their files are checked by directory")
    if grouping.unseen:
        what = plural(grouping.unseen, "definition")
        lines.append(f"{what} not visible in every directory (too many); --one-apply makes all visible")
    for line in lines:
        print_notice(line)


_CACHE_SIZE: Final = 8
"""Maximum files whose lines are cached: findings are sorted by file."""


class Lines:
    """Source lines for excerpts, from files with findings, which are read again."""

    def __init__(self, given: Input) -> None:
        self._given = given
        self._lines: dict[str, list[str]] = {}

    def line_of(self, file: str, line: int) -> str | None:
        """A line of a file (from 1); None if it does not exist."""
        if file not in self._lines:
            if len(self._lines) == _CACHE_SIZE:
                del self._lines[next(iter(self._lines))]
            from forewarn.policies.manifests.documents import as_utf8

            try:
                content = self._given.texts.get(file) or read_file(self._given.sources[file])
            except (SourceError, KeyError):
                content = b""
            self._lines[file] = as_utf8(content).decode("utf-8", "replace").split("\n")
        lines = self._lines[file]
        return lines[line - 1] if 0 < line <= len(lines) else None
