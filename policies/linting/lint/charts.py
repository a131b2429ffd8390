"""Findings in deprecated charts: one severity lower. Removed versions and rejected values in files for tests: notes."""

from __future__ import annotations

import os
from collections.abc import Iterable
from functools import cache
from typing import Final

from forewarn.policies.base.findings import Action, Finding, Severity
from forewarn.policies.base.light import later
from forewarn.policies.inputs.manifests import first_value
from forewarn.policies.inputs.sources.files import File, readable
from forewarn.policies.inputs.sources.git import upwards, work_trees
from forewarn.policies.kubernetes.objects.fields import at
from forewarn.policies.linting.rules.support.rule_text import is_fixture

CHART: Final = "Chart.yaml"
_OF_TESTS: Final = ("removed-api-version", "scheduler-configuration")
"""Rules whose findings are notes in files for tests, which may be old on purpose."""
_FIXTURES: Final = later(r"(?:^|/)(?:testdata|fixtures?|golden|tests?/(?:generated|snapshots?))/")
"""Directories whose files may have rejected values on purpose, or as the output of a test."""


class Charts:
    """Reads the `deprecated` field of charts, each once."""

    def __init__(self) -> None:
        self._says_deprecated = cache(_says_deprecated)

    def lowered(self, findings: Iterable[Finding]) -> list[Finding]:
        """Return the findings in order, those in deprecated charts and of some rules in tests with lower severity."""
        return sorted((self._lowered(finding) for finding in findings), key=lambda finding: finding.order)

    def _lowered(self, finding: Finding) -> Finding:
        is_old = finding.rule in _OF_TESTS and _is_fixture(finding.file)
        if is_old or (finding.rule == "value-rejected" and _FIXTURES.search(finding.file)):
            return finding._replace(severity=Severity.NOTE, action=Action.AUDIT)
        if finding.severity is Severity.NOTE or not finding.line or not self.is_deprecated(finding.file):
            return finding
        text = finding.text._replace(problem=f"{finding.text.problem} (the chart is deprecated)")
        if finding.severity is Severity.ERROR:
            return finding._replace(severity=Severity.WARNING, action=Action.WARN, text=text)
        return finding._replace(severity=Severity.NOTE, action=Action.AUDIT, text=text)

    def is_deprecated(self, file: str) -> bool:
        """True if a file is in a chart that says `deprecated: true`."""
        return any(map(self._says_deprecated, upwards(os.path.dirname(file))))


def _is_fixture(file: str) -> bool:
    """Report whether a file is in a directory for tests: of its git work tree, or of its path outside of one."""
    top = next(work_trees(os.path.dirname(file)), "")
    return is_fixture(os.path.relpath(os.path.realpath(file), top) if top else file)


def _says_deprecated(directory: str) -> bool:
    path = os.path.join(directory, CHART)
    data = readable(File(path, directory)) if os.path.isfile(path) else b""
    return b"deprecated" in data and at(first_value(data, path), "deprecated") is True
