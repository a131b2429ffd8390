"""Findings in a cluster as objects of OpenReports: a ClusterReport, and a Report for each namespace with findings.

A ClusterReport is for cluster administrators, and contains all names. Everybody with read access to a namespace can
read its Report, which contains no names of other namespaces.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, NamedTuple

from forewarn.policies.findings import Finding, ObjectRef, Severity, cut, one_line
from forewarn.policies.objects.fields import ApiObject, at
from forewarn.policies.render.openreports import API_VERSION, LONGEST, NAME, report_of, result_of
from forewarn.policies.sources.cluster import Written
from forewarn.webhook.apiserver.typed_client import Forbidden, NotFound, ObjectApi

GROUP: Final = f"/apis/{API_VERSION}"
MAX_REPORTS: Final = 200
"""Maximum namespaces that get a Report; those with the worst findings first."""
_TERMINATING: Final = "is being terminated"
"""In the message of a 403 for a terminating namespace. Source: apiserver, plugin/namespace/lifecycle, admission.go."""
_WRITTEN: Final = "forewarn.dev/reported-namespaces"


class Found(NamedTuple):
    """A finding. `message` and `fix` contain all names; `warning` and `warning_fix` none of other namespaces."""

    severity: Severity
    rule: str
    object: ObjectRef
    message: str
    fix: str
    warning: str
    warning_fix: str
    not_evaluated: bool = False


def found_of(finding: Finding) -> Found:
    """A finding with the texts for both kinds of reports, each of at most LONGEST characters."""
    shown = finding.as_shown
    texts = (finding.message, finding.remediation, shown.message, shown.remediation)
    message, fix, warning, warning_fix = (cut(one_line(text), LONGEST) for text in texts)
    about = (finding.severity, finding.rule, finding.object)
    return Found(*about, message, fix, warning, warning_fix, finding.not_evaluated)


def is_served(api: ObjectApi) -> bool:
    """True if the API server has both kinds. Raises ObjectApiError."""
    try:
        group = api.get(GROUP)
    except NotFound:
        return False
    return {"reports", "clusterreports"} <= {resource.get("name") for resource in group.get("resources") or ()}


def write_reports(api: ObjectApi, findings: Sequence[Found], summary: Mapping[str, int] | None = None) -> Written:
    """Write the ClusterReport, and the Report of each namespace that has findings or had some before.

    `findings`: the worst first. `summary`: of the ClusterReport, if `findings` is not complete. Reports without
    findings become empty. Raises ObjectApiError, except for a Report of a namespace that the API server denies.
    """
    path = f"{GROUP}/clusterreports"
    before = _read(api, f"{path}/{NAME}")
    by_namespace: dict[str, list[Found]] = {}
    for one in findings:
        if one.object.namespace:
            by_namespace.setdefault(one.object.namespace, []).append(one)
    now = sorted(by_namespace)[:MAX_REPORTS] if len(by_namespace) <= MAX_REPORTS else [*by_namespace][:MAX_REPORTS]
    had = at(before or {}, "metadata", "annotations", _WRITTEN) or ""
    left = [name for name in dict.fromkeys(had.split()) if name not in now][:MAX_REPORTS]
    body = _body("ClusterReport", findings, in_full=True)
    body["summary"] = summary or body["summary"]
    # The names come first: a Report that is written and not listed would never be emptied again.
    body["metadata"]["annotations"] = {_WRITTEN: " ".join((*now, *left))}
    _write(api, path, before, body)
    denied: dict[str, str] = {}
    for namespace in (*now, *left):
        path = f"{GROUP}/namespaces/{namespace}/reports"
        body = _body("Report", by_namespace.get(namespace, ()), in_full=False)
        body["metadata"]["namespace"] = namespace
        try:
            _write_where_there_is_a_namespace(api, path, body)
        except Forbidden as error:
            if _TERMINATING not in str(error):
                denied[namespace] = str(error)
    return Written(sum(name not in denied for name in now), len(by_namespace) - len(now), denied)


def _write_where_there_is_a_namespace(api: ObjectApi, path: str, body: dict[str, Any]) -> None:
    before = _read(api, f"{path}/{NAME}")
    if before is None and not body["results"]:
        return
    with suppress(NotFound):  # the namespace was deleted since
        _write(api, path, before, body)


def _read(api: ObjectApi, path: str) -> dict[str, Any] | None:
    try:
        return api.get(path)
    except NotFound:
        return None


def _write(api: ObjectApi, path: str, before: ApiObject | None, body: dict[str, Any]) -> None:
    if before is None:
        api.create(path, body)
        return
    if all(before.get(key) == body[key] for key in ("results", "summary")) and (
        (at(before, "metadata", "annotations") or {}) == body["metadata"].get("annotations", {})
    ):
        return
    metadata = {**body["metadata"], "resourceVersion": at(before, "metadata", "resourceVersion")}
    api.replace(f"{path}/{NAME}", {**body, "metadata": metadata})


def _body(kind: str, findings: Iterable[Found], *, in_full: bool) -> dict[str, Any]:
    return report_of(kind, [_result(one, in_full=in_full) for one in findings])


def _result(finding: Found, *, in_full: bool) -> dict[str, Any]:
    message, fix = (finding.message, finding.fix) if in_full else (finding.warning, finding.warning_fix)
    return result_of(finding.severity, finding.rule, finding.object, message, fix, not_evaluated=finding.not_evaluated)
