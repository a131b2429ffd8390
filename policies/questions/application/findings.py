"""The configuration and the report that `lint` and `audit` have in common."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Literal

from forewarn.policies.base.documents import VERSION, Hidden, Inlined, in_json
from forewarn.policies.base.findings import Finding, Location, Severity, one_line
from forewarn.policies.base.light import NamedTuple
from forewarn.policies.kubernetes.objects.fields import NOTHING, InvalidInput
from forewarn.policies.linting.config.model import Config
from forewarn.policies.linting.evaluation.suppressions import identity

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from forewarn.policies.base.documents.answer import AnswerDocument
    from forewarn.policies.base.documents.info import ReportChange
    from forewarn.policies.kubernetes.cluster.cache import AnswerHead
    from forewarn.policies.linting.lint.fixes import Edit


class ReportedFinding(NamedTuple):
    """A finding with its position. `fingerprint`: stays the same while rule, file, object and field stay the same."""

    finding: Inlined[Finding]
    location: Inlined[Location]
    fingerprint: str


class FindingsSummary(NamedTuple):
    """Numbers of files, objects and findings. `skipped`: objects that forewarn does not check. `suppressed`: suppressed
    findings. `leftOut`: number of skipped files by reason.
    """

    files: int
    objects: int
    errors: int
    warnings: int
    notes: int
    skipped: int
    suppressed: int
    left_out: Mapping[str, int]


class Report(NamedTuple):
    """Findings for all formats. `line_of(file, line)`: returns a source line, or None. `names`: all files. `skipped`:
    number of skipped objects by kind. `omitted`: number of skipped files by reason. `edits`: returns the safe fixes,
    each with its finding. `changes`: with `--since`. `document`: of `audit`. `errors`: why parts were not checked.
    """

    findings: Hidden[Sequence[Finding]]
    names: Hidden[Sequence[str]]
    objects: Hidden[int]
    skipped: Hidden[Mapping[str, int]]
    line_of: Hidden[Callable[[str, int], str | None]]
    suppressed: Hidden[int] = 0
    head: AnswerHead | None = None
    omitted: Hidden[Mapping[str, int]] = NOTHING
    edits: Hidden[Callable[[], Iterable[tuple[Finding, Edit]]]] = tuple
    changes: Sequence[ReportChange] | None = None
    document: Inlined[AnswerDocument | None] = None
    errors: Hidden[Sequence[str]] = ()

    @in_json
    def version(self) -> Literal[1]:
        return VERSION

    @in_json
    def findings_(self) -> Sequence[ReportedFinding]:
        """The findings, sorted by file, line and column."""
        return [*self.entries()]

    @in_json
    def summary(self) -> FindingsSummary:
        """The numbers of files, objects and findings."""
        found, skipped = counts(self.findings), sum(self.skipped.values())
        numbers = found[Severity.ERROR], found[Severity.WARNING], found[Severity.NOTE]
        return FindingsSummary(len(self.names), self.objects, *numbers, skipped, self.suppressed, self.omitted)

    def entries(self) -> Iterator[ReportedFinding]:
        """The findings with their fingerprints, in order."""
        for finding, fingerprint in zip(self.findings, fingerprints(self.findings), strict=True):
            yield ReportedFinding(finding, finding.location, fingerprint)


def fingerprints(findings: Sequence[Finding]) -> list[str]:
    """Return a unique fingerprint for each finding, equal in the next run. Findings with equal keys are numbered."""
    import hashlib

    seen, marks = Counter[tuple[str, ...]](), []
    for finding in findings:
        key = identity(finding)
        seen[key] += 1
        text = "\0".join((*key, str(seen[key])))
        marks.append(hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:32])
    return marks


def counts(findings: Sequence[Finding]) -> Mapping[Severity, int]:
    return Counter(finding.severity for finding in findings)


def one_line_finding(finding: Finding) -> str:
    """A finding in one line, `OBJECT: PROBLEM`, for example `Deployment shop/web: …`."""
    about = f"{finding.object}: " if str(finding.object) else ""
    return one_line(about + finding.message)


def worst_first(findings: Sequence[Finding]) -> list[Finding]:
    """The findings, the most harmful first."""
    return sorted(findings, key=lambda finding: finding.damage)


def configured(
    file: str | None = None, admission_config: str | None = None, select: Sequence[str] = (), ignore: Sequence[str] = ()
) -> Config:
    """A configuration file with rules by name (also several, separated by commas), and an AdmissionConfiguration.

    Raises ConfigError and InvalidInput.
    """
    config = Config()
    if file:
        from forewarn.policies.linting.config.load import load_config

        config = load_config(file)
    if admission_config:
        from forewarn.policies.linting.config.load import load_limited_resources

        config = config.limiting(load_limited_resources(admission_config))
    try:
        selected, ignored = (_rules(given, config.rules) for given in (select, ignore))
    except ValueError as fault:
        raise InvalidInput(str(fault)) from None
    if config.rules:
        from forewarn.policies.linting.evaluation.foreign_rules import with_rules

        config = with_rules(config, file)
    return config._replace(selected=selected, disabled_rules=ignored)


def _rules(items: Sequence[str], foreign: Sequence[str]) -> frozenset[str]:
    """The ids of the named rules. `foreign`: ids of other packages' rules. Raises ValueError for an unknown id."""
    names = frozenset(name for item in items for name in item.split(",") if name)
    if names:
        from forewarn.policies.linting.rules import RULES
        from forewarn.policies.linting.rules.support.names import nearest

        ids = {*(rule.ID for rule in RULES), *foreign}
        for name in sorted(names - ids):
            raise ValueError(f'no rule "{name}"{nearest(name, ids) or ". Fix: see `forewarn lint --list-rules`"}')
    return names
