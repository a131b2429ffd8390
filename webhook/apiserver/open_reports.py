"""Findings in a cluster as objects of OpenReports: a ClusterReport, and a Report for each namespace with findings.

A ClusterReport is for cluster administrators, and contains all names. Everybody with read access to a namespace can
read its Report, which contains no names of other namespaces.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

from forewarn.policies.base.findings import Finding, grouped
from forewarn.policies.cli.render.openreports import API_VERSION, NAME, report_of, result_of
from forewarn.policies.inputs.sources.cluster import Written
from forewarn.policies.kubernetes.objects.fields import ApiObject, at
from forewarn.webhook.apiserver.typed_client import Forbidden, NotFound, ObjectApi, get_or_none

GROUP: Final = f"/apis/{API_VERSION}"
MAX_REPORTS: Final = 200
"""Maximum number of namespaces that get a Report; those with the worst findings first."""
_TERMINATING: Final = "is being terminated"
"""Part of the message of a 403 for a terminating namespace. Source: plugin/namespace/lifecycle, admission.go."""
_WRITTEN: Final = "forewarn.dev/reported-namespaces"


def is_served(api: ObjectApi) -> bool:
    """Report whether the API server has both kinds. Raises ObjectApiError."""
    resources = (get_or_none(api, GROUP) or {}).get("resources") or ()
    return {"reports", "clusterreports"} <= {resource.get("name") for resource in resources}


def write_reports(api: ObjectApi, findings: Sequence[Finding], summary: Mapping[str, int] | None = None) -> Written:
    """Write the ClusterReport, and the Report of each namespace that has findings or had some before.

    `findings`: the worst first. `summary`: that of the ClusterReport, if `findings` is incomplete. Reports without
    findings become empty. Raises ObjectApiError, except for a Report of a namespace that the API server denies.
    """
    path = f"{GROUP}/clusterreports"
    before = get_or_none(api, f"{path}/{NAME}")
    by_namespace = grouped((one.object.namespace, one.as_shown) for one in findings if one.object.namespace)
    now = sorted(by_namespace)[:MAX_REPORTS] if len(by_namespace) <= MAX_REPORTS else [*by_namespace][:MAX_REPORTS]
    had = at(before or {}, "metadata", "annotations", _WRITTEN) or ""
    left = [name for name in dict.fromkeys(had.split()) if name not in now][:MAX_REPORTS]
    body = report_of("ClusterReport", [result_of(one) for one in findings])
    body["summary"] = summary or body["summary"]
    # Names are stored first: a Report that is written but not listed would never be emptied.
    body["metadata"]["annotations"] = {_WRITTEN: " ".join((*now, *left))}
    _write(api, path, before, body)
    denied: dict[str, str] = {}
    for namespace in (*now, *left):
        path = f"{GROUP}/namespaces/{namespace}/reports"
        body = report_of("Report", [result_of(one) for one in by_namespace.get(namespace, ())])
        body["metadata"]["namespace"] = namespace
        try:
            _write_where_there_is_a_namespace(api, path, body)
        except Forbidden as error:
            if _TERMINATING not in str(error):
                denied[namespace] = str(error)
    return Written(sum(name not in denied for name in now), len(by_namespace) - len(now), denied)


def _write_where_there_is_a_namespace(api: ObjectApi, path: str, body: dict[str, Any]) -> None:
    before = get_or_none(api, f"{path}/{NAME}")
    if before is None and not body["results"]:
        return
    with suppress(NotFound):  # the namespace was deleted in the meantime
        _write(api, path, before, body)


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
