"""Lowers findings about manifests of archives, tests or other projects to notes."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable
from functools import cache
from typing import Any, Final

from forewarn.policies.base.findings import Finding, Severity, sort_findings
from forewarn.policies.base.light import later
from forewarn.policies.inputs.manifests.reading import first_value
from forewarn.policies.inputs.sources.files import File, readable
from forewarn.policies.inputs.sources.git import upwards, work_trees
from forewarn.policies.kubernetes.objects.fields import at, list_at, text_at

CHART: Final = "Chart.yaml"
REQUIRED: Final = (CHART, "requirements.yaml")
"""Files of a chart that list its subcharts."""
_NOT_DEPLOYED: Final = later(
    r"(?:^|/)(?:[._]archive|[._]?(?:archived|attic|deprecated|obsolete|old|te?mp|unused)|[\w.-]*-deprecated[\d-]*"
    r"|fixtures?|golden|src/test|(?:chart|helm|template|unit)s?[_-]tests?|third[_-]party)/|^archive/"
    r"|(?<!charts)/testdata/|tests?/(?:data|generated|snapshots?)/|(?:^|[/_-])disallowed[^/]*$",
    re.IGNORECASE,
)
"""Directories of manifests that their owner does not edit: archives, copies, and the input or output of tests."""
_RELEASE: Final = later(r"(?:^|/)[A-Za-z][\w.-]*-v?\d+\.\d+(?:\.\d+)?(?:[-+.][\w.]+)?(?=/)")
"""The name of the directory in an archive of a release of a project, such as `istio-1.27.2`."""
_OF_RELEASES: Final = ("LICENSE", "LICENSE.txt", "LICENSE.md", "COPYING", "samples")
"""Files and directories of such an archive; without them, the directory may be of this project."""
_TESTS: Final = later(r"(?:^|/)(?:(?:[\w-]*\be2e\b[\w-]*|tests|\.[\w-]*tests?)/|test_[^/]*$)")
_LOWERED: Final = (
    (later(""), _NOT_DEPLOYED),
    # such files may be old, or block evictions, on purpose, and the test works although the API server drops a field
    (
        later(
            r"^(?:constraint-without-effect|evictions-blocked|removed-api-version|scheduler-configuration"
            r"|unknown-field) |generateName is"
        ),
        _TESTS,
    ),
    (later("^value-rejected Pod .*generateName is required"), later("")),  # Jenkins or Spark names it
    # outlines, and kustomizations that developers complete
    (later(" does not exist: kustomize build fails"), later(r"(?:^|/)(?:hack|samples|tests?|\w*templates?)/")),
    # an operator reads these manifests into Go types, and completes them
    (later(r"^value-rejected .*(?:: Required value|of type string$)"), later(r"(?:^|/)(?:assets|bindata)/")),
)
"""Patterns of the rule, kind and message of findings that are notes, each with the pattern of their paths."""
_MEANT: Final = later(
    r"(?:^|/)(?:bad[_-]|(?:broken|invalid|malformed)[_-]?)(?:config|job|deployment|manifest|pdb|pod)?s?\d*(?:/|\.[^/]*$)"
)
"""Names of directories and files in tests that are wrong on purpose."""
_EXPECTED: Final = later(
    r"(?:^|[.-])(?:bad|broken|deny|disallow(?:ed)?|fail(?:s|ing)?|invalid|malformed|violat\w+)(?=[.-]|$)"
)
"""Words in names of objects that a test or an example expects to be wrong."""
_EXAMPLES: Final = later(r"(?:^|/)\.?(?:[\w-]+[_-])?(?:e2e|examples?|fixtures?|samples?|testdata|tests?)/")
"""Directories of tests and examples."""
_IS_OWN: Final = later(r"file:|$")


def lowered(findings: Iterable[Finding]) -> list[Finding]:
    """Return the findings in order; those about manifests of archives, tests or other projects become notes."""
    is_of_others = cache(_is_of_others)  # each chart is read once
    return sort_findings(_lowered(finding, is_of_others) for finding in findings)


def _lowered(finding: Finding, is_of_others: Callable[[str], bool]) -> Finding:
    if finding.severity is Severity.NOTE or not finding.line:
        return finding
    top = next(work_trees(os.path.dirname(finding.file)), None)
    path = os.path.relpath(os.path.realpath(finding.file), top) if top else os.path.normpath(finding.file)
    if os.path.isabs(path):  # directories above the input prove nothing
        path = os.path.basename(path)
    releases = (os.path.join(top or "", path[: match.end()]) for match in _RELEASE.finditer(path))
    is_meant = _EXAMPLES.search(path) and (_MEANT.search(path) or _EXPECTED.search(finding.object.name))
    shown = f"{finding.rule} {finding.object.kind} {finding.message}"
    if (
        is_meant
        or any(about.search(shown) and where.search(path) for about, where in _LOWERED)
        or any(os.path.exists(os.path.join(release, name)) for release in releases for name in _OF_RELEASES)
        or any(map(is_of_others, upwards(os.path.dirname(finding.file))))
    ):
        return finding.as_note
    return finding


def _is_of_others(directory: str) -> bool:
    """Report whether a directory is a deprecated chart, or is among copies of charts from repositories."""
    path, parent = os.path.join(directory, CHART), os.path.dirname(directory)
    if at(first_document(path), "deprecated") is True:
        return True
    if os.path.basename(parent) != "charts" or not os.path.isfile(path):
        return False
    values = [first_document(os.path.join(os.path.dirname(parent), file)) for file in REQUIRED]
    required = [item for value in values for item in list_at(value, "dependencies")]
    names = [text_at(item, "name") for item in required if not _IS_OWN.match(text_at(item, "repository"))]
    return any(os.path.isfile(os.path.join(parent, name, CHART)) for name in names)


def first_document(path: str) -> Any:
    """Return the first document of a file; None if there is none."""
    data = readable(File(path, os.path.dirname(path))) if os.path.isfile(path) else b""
    return first_value(data, path) if data else None
