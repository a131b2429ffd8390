"""What `lint` and `audit` share: the configuration, and the report."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from forewarn.policies.config.model import Config
from forewarn.policies.evaluation.suppressions import identity
from forewarn.policies.findings import Finding, Severity, printable
from forewarn.policies.objects.fields import NOTHING, InvalidInput

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from forewarn.policies.cluster.answer_head import AnswerHead
    from forewarn.policies.documents.findings import Findings
    from forewarn.policies.lint.fixes import Edit

VERSION: Final = 1
"""The version of the JSON document."""


class Report(NamedTuple):
    """Findings for all formats. `line_of(file, line)`: returns a source line, or None. `names`: all files. `skipped`:
    number of skipped objects by kind. `head`: None without a cluster. `omitted`: number of skipped files by reason.
    `edits`: returns the safe fixes, each with its finding.
    """

    findings: Sequence[Finding]
    names: Sequence[str]
    objects: int
    skipped: Mapping[str, int]
    line_of: Callable[[str, int], str | None]
    suppressed: int = 0
    head: AnswerHead | None = None
    omitted: Mapping[str, int] = NOTHING
    edits: Callable[[], Iterable[tuple[Finding, Edit]]] = tuple

    def to_dict(self, more: Mapping[str, Any] = NOTHING) -> Findings:
        """The JSON document. `more`: further keys."""
        return cast("Findings", self.document(list(self.entries()), more))

    def document(self, entries: Sequence[Any], more: Mapping[str, Any] = NOTHING) -> dict[str, Any]:
        """The JSON document with these entries as findings."""
        numbers = counts(self.findings)
        return {
            **({} if self.head is None else {"head": self.head.to_dict()}),
            "version": VERSION,
            "findings": entries,
            "summary": {
                "files": len(self.names),
                "objects": self.objects,
                "errors": numbers[Severity.ERROR],
                "warnings": numbers[Severity.WARNING],
                "notes": numbers[Severity.NOTE],
                "skipped": sum(self.skipped.values()),
                "suppressed": self.suppressed,
                "leftOut": dict(self.omitted),
            },
            **more,
        }

    def entries(self) -> Iterator[dict[str, Any]]:
        """The findings as JSON objects, in order."""
        return map(_entry, self.findings, fingerprints(self.findings))


def _entry(finding: Finding, mark: str) -> dict[str, Any]:
    place, ref = finding.location, finding.object
    return {
        "rule": finding.rule,
        "severity": str(finding.severity),
        "message": finding.message,
        "remediation": finding.remediation,
        "file": place.file if place.file.isprintable() else printable(place.file),
        "line": place.line,
        "column": place.column,
        "endColumn": place.end_column,
        "field": finding.path,
        "fingerprint": mark,
        "object": {"apiVersion": ref.api_version, "kind": ref.kind, "namespace": ref.namespace, "name": ref.name},
        **({"detail": dict(finding.detail)} if finding.detail else {}),
    }


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


def configured(
    file: str | None = None, admission_config: str | None = None, select: Sequence[str] = (), ignore: Sequence[str] = ()
) -> Config:
    """A configuration file with rules by name (also several, separated by commas), and an AdmissionConfiguration.

    Raises ConfigError and InvalidInput.
    """
    config = Config()
    if file:
        from forewarn.policies.config.load import load_config

        config = load_config(file)
    if admission_config:
        from forewarn.policies.config.admission_configuration import load_limited_resources

        config = config.limiting(load_limited_resources(admission_config))
    try:
        selected, ignored = (_rules(given, config.rules) for given in (select, ignore))
    except ValueError as fault:
        raise InvalidInput(str(fault)) from None
    if config.rules:
        from forewarn.policies.evaluation.foreign_rules import with_rules

        config = with_rules(config)
    return config._replace(selected=selected, disabled_rules=ignored)


def _rules(given: Sequence[str], foreign: Sequence[str]) -> frozenset[str]:
    """The ids of the named rules. `foreign`: ids of other packages' rules. Raises ValueError for an unknown id."""
    names = frozenset(name for item in given for name in item.split(",") if name)
    if names:
        from forewarn.policies.rules import RULES
        from forewarn.policies.rules.support.names import nearest

        ids = {*(rule.ID for rule in RULES), *foreign}
        for name in sorted(names - ids):
            raise ValueError(f'no rule "{name}"{nearest(name, ids) or ". Fix: see `forewarn lint --list-rules`"}')
    return names
