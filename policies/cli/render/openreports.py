"""Findings on a cluster as objects of OpenReports, which dashboards of policy engines read.

Source: openreports.io/v1alpha1, Report and ClusterReport (github.com/openreports/reports-api, docs/api-docs.md).
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from forewarn.policies.base.findings import Finding, Severity, brief, listed, no_command_in_json, plural
from forewarn.policies.cli.render import fitting_prefix

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from forewarn.policies.inputs.sources.cluster import Written

API_VERSION: Final = "openreports.io/v1alpha1"
NAME: Final = "forewarn-audit"
SOURCE: Final = "forewarn"
CLUSTER: Final = "forewarn.dev/cluster"
"""The annotation with the name of the cluster, if there are several."""
HEAD: Final = "forewarn.dev/answer-head"
"""The annotation with the state of the cluster, the release, the profile, and what the answer assumes."""
MAX_BYTES: Final = 900_000
"""Maximum bytes of the results in one report: etcd accepts 1.5 MiB."""
MAX_LENGTH: Final = 600
"""Maximum characters of a text."""
OUTCOMES: Final = {Severity.ERROR: "fail", Severity.WARNING: "warn", Severity.NOTE: "warn"}
_SEVERITY: Final = {Severity.ERROR: "high", Severity.WARNING: "medium", Severity.NOTE: "low"}
_NOT_EVALUATED: Final = "error"


def written_lines(written: Written) -> Iterator[str]:
    """Yield sentences about the reports that were written, and those that were not."""
    yield f"reports written: ClusterReport {NAME}, and the Reports of {plural(written.namespaces, 'namespace')}"
    yield from not_written_lines(written)


def not_written_lines(written: Written) -> Iterator[str]:
    """Yield sentences about the Reports that were not written."""
    if written.omitted:
        yield f"{plural(written.omitted, 'more namespace')} with findings: only in the ClusterReport"
    if written.denied:
        why = brief(next(iter(written.denied.values())), MAX_LENGTH)
        yield f"Reports denied in {plural(len(written.denied), 'namespace')} ({listed([*written.denied], 5)}): {why}"


def result_of(finding: Finding) -> dict[str, Any]:
    """A finding as a result of a report. The result `error` is a rule that was not evaluated."""
    ref, fix = finding.object, brief(finding.fix, MAX_LENGTH)
    subject = {"apiVersion": ref.api_version, "kind": ref.kind, "namespace": ref.namespace, "name": ref.name}
    about = {key: value for key, value in subject.items() if value}
    return {
        "source": SOURCE,
        "policy": finding.rule,
        "category": "priority and preemption",
        "severity": _SEVERITY[finding.severity],
        "result": _NOT_EVALUATED if finding.not_evaluated else OUTCOMES[finding.severity],
        "message": brief(finding.message, MAX_LENGTH),
        **({"resources": [about]} if about else {}),
        **({"properties": {"fix": fix}} if fix else {}),
    }


def summary_of(results: Iterable[str]) -> dict[str, int]:
    """The summary of a report, from the `result` of each of its results."""
    return {"pass": 0, "fail": 0, "warn": 0, "error": 0, "skip": 0, **Counter(results)}


def report_of(kind: str, results: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """A Report or ClusterReport, with as many results as an object can contain; its summary counts all."""
    return {
        "apiVersion": API_VERSION,
        "kind": kind,
        "metadata": {"name": NAME, "labels": {"app.kubernetes.io/managed-by": SOURCE}},
        "source": SOURCE,
        "summary": summary_of(result["result"] for result in results),
        "results": fitting_prefix(results, MAX_BYTES, lambda result: len(json.dumps(result))),
    }


def cluster_report(findings: Iterable[Finding], head: str) -> dict[str, Any]:
    """The ClusterReport of an audit, with all names. `head`: of the answer."""
    report = report_of("ClusterReport", [result_of(finding) for finding in findings])
    report["metadata"]["annotations"] = {HEAD: brief(head, MAX_LENGTH)}
    return report


def without_answer(reason: str) -> dict[str, Any]:
    """The ClusterReport of a cluster that could not be evaluated."""
    result = {"source": SOURCE, "policy": "audit", "severity": "high", "result": _NOT_EVALUATED}
    return report_of("ClusterReport", [{**result, "message": brief(reason, MAX_LENGTH)}])


def rename_for_cluster(report: dict[str, Any], cluster: str) -> dict[str, Any]:
    """Return the report of one of several clusters, under an object name that is unique for the name of the cluster."""
    digest = hashlib.sha256(cluster.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    word = re.sub(r"[^a-z0-9]+", "-", cluster[:200].lower()).strip("-")[:39].strip("-")
    name = "-".join(part for part in (NAME, word, digest) if part)
    annotations = {**report["metadata"].get("annotations", {}), CLUSTER: brief(cluster, MAX_LENGTH)}
    return {**report, "metadata": {**report["metadata"], "name": name, "annotations": annotations}}


def as_list(reports: Sequence[dict[str, Any]]) -> str:
    """The objects as JSON for `kubectl apply -f -`."""
    listed = {"apiVersion": "v1", "kind": "List", "items": list(reports)}
    return no_command_in_json(json.dumps(listed, indent=1)) + "\n"
