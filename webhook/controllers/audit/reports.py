"""Audit results as objects: OpenReports if the cluster has these kinds, otherwise Events.

Source: openreports.io/v1alpha1, Report and ClusterReport (github.com/openreports/reports-api, apis/openreports.io). A
ClusterReport is for cluster administrators, and contains all names. Everybody with read access to a namespace can read
its Report and Events: they contain no names of other namespaces.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from forewarn.policies.findings import Severity, cut
from forewarn.policies.objects.fields import at
from forewarn.webhook.apiserver.object_api import Conflict, Forbidden, NotFound

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from datetime import datetime

    from forewarn.policies.objects.fields import ApiObject
    from forewarn.webhook.apiserver.object_api import ObjectApi
    from forewarn.webhook.controllers.audit.looking import Audited, Found

GROUP: Final = "/apis/openreports.io/v1alpha1"
NAME: Final = "forewarn-audit"
SOURCE: Final = "forewarn"
MOST_REPORTS: Final = 200
"""Namespaces that get a Report; those with the worst findings first."""
MOST_EVENTS: Final = 20
"""Of one audit, the worst findings first."""
_MOST_BYTES: Final = 900_000
"""Maximum bytes of the results in one report: etcd accepts 1.5 MiB."""
_WRITTEN: Final = "forewarn.dev/reported-namespaces"
_RESULT: Final = {Severity.ERROR: "fail", Severity.WARNING: "warn", Severity.NOTE: "warn"}
_SEVERITY: Final = {Severity.ERROR: "high", Severity.WARNING: "medium", Severity.NOTE: "low"}
_EVENT_MESSAGE: Final = 1_000
"""Maximum characters; the API server accepts 1,024."""
_DEFAULT: Final = "default"
"""Namespace of Events about cluster-scoped objects: pkg/apis/core/validation/events.go accepts no other."""


def publish(api: ObjectApi, audited: Audited, now: datetime, identity: str) -> str:
    """Write what was found, `now` in UTC; what was written: `reports`, `events`, or nothing for want of the right.

    `identity`: of this replica. Raises ObjectApiError.
    """
    try:
        if _knows_reports(api):
            _report(api, audited)
            return "reports"
        _tell_events(api, audited, now, identity)
    except Forbidden:
        return ""
    return "events"


def _knows_reports(api: ObjectApi) -> bool:
    try:
        found = api.get(GROUP)
    except NotFound:
        return False
    return {"reports", "clusterreports"} <= {resource.get("name") for resource in found.get("resources") or ()}


def _report(api: ObjectApi, audited: Audited) -> None:
    """One ClusterReport on everything, and a Report for each namespace that has findings, or had some last time."""
    path = f"{GROUP}/clusterreports"
    before = _read(api, f"{path}/{NAME}")
    by_namespace: dict[str, list[Found]] = {}
    for found in audited.found:
        if found.object.namespace:
            by_namespace.setdefault(found.object.namespace, []).append(found)
    now = sorted(by_namespace)[:MOST_REPORTS] if len(by_namespace) <= MOST_REPORTS else [*by_namespace][:MOST_REPORTS]
    had = at(before or {}, "metadata", "annotations", _WRITTEN) or ""
    left = [name for name in dict.fromkeys(had.split()) if name not in now][:MOST_REPORTS]
    body = _body("ClusterReport", audited.found, in_full=True)
    body["summary"] = _summary(audited.counts.items())
    # The names come first: a Report that is written and not listed would never be emptied again.
    body["metadata"]["annotations"] = {_WRITTEN: " ".join((*now, *left))}
    _write(api, path, before, body)
    for namespace in (*now, *left):
        path = f"{GROUP}/namespaces/{namespace}/reports"
        body = _body("Report", by_namespace.get(namespace, ()), in_full=False)
        body["metadata"]["namespace"] = namespace
        _write_where_there_is_a_namespace(api, path, body)


def _write_where_there_is_a_namespace(api: ObjectApi, path: str, body: dict[str, Any]) -> None:
    before = _read(api, f"{path}/{NAME}")
    if before is None and not body["results"]:
        return
    try:
        _write(api, path, before, body)
    except (NotFound, Forbidden):
        return  # the namespace is going


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


def _body(kind: str, found: Iterable[Found], *, in_full: bool) -> dict[str, Any]:
    results, size = [], 0
    every = list(found)
    for one in every:
        result = _result(one, in_full=in_full)
        size += len(json.dumps(result))
        if size > _MOST_BYTES:
            break
        results.append(result)
    counts = Counter((one.rule, str(one.severity)) for one in every)
    return {
        "apiVersion": "openreports.io/v1alpha1",
        "kind": kind,
        "metadata": {"name": NAME, "labels": {"app.kubernetes.io/managed-by": SOURCE}},
        "source": SOURCE,
        "summary": _summary(counts.items()),
        "results": results,
    }


def _result(found: Found, *, in_full: bool) -> dict[str, Any]:
    ref, fix = found.object, found.fix if in_full else found.told_fix
    subject = {"apiVersion": ref.api_version, "kind": ref.kind, "namespace": ref.namespace, "name": ref.name}
    about = {key: value for key, value in subject.items() if value}
    return {
        "source": SOURCE,
        "policy": found.rule,
        "category": "priority and preemption",
        "severity": _SEVERITY[found.severity],
        "result": _RESULT[found.severity],
        "message": found.message if in_full else found.told,
        **({"resources": [about]} if about else {}),
        **({"properties": {"fix": fix}} if fix else {}),
    }


def _summary(counts: Iterable[tuple[tuple[str, str], int]]) -> dict[str, int]:
    total = {"pass": 0, "fail": 0, "warn": 0, "error": 0, "skip": 0}
    for (_, severity), count in counts:
        total["fail" if severity == str(Severity.ERROR) else "warn"] += count
    return total


def _tell_events(api: ObjectApi, audited: Audited, now: datetime, identity: str) -> None:
    """One Event for each of the worst findings that are no notes; one that is still there is not made again."""
    for namespace, event in _events(audited.found, now, identity):
        try:
            api.create(f"/api/v1/namespaces/{namespace}/events", event)
        except (Conflict, NotFound):
            continue  # told already, or its namespace is gone


def _events(found: Sequence[Found], now: datetime, identity: str) -> Iterator[tuple[str, dict[str, Any]]]:
    time = now.isoformat(timespec="seconds").replace("+00:00", "Z")
    serious = [one for one in found if one.severity is not Severity.NOTE and one.object.name]
    for one in serious[:MOST_EVENTS]:
        namespace = one.object.namespace or _DEFAULT
        text = cut(f"{one.told} [{one.rule}]" + (f" Fix: {one.told_fix}" if one.told_fix else ""), _EVENT_MESSAGE)
        ref = one.object
        about = {"apiVersion": ref.api_version, "kind": ref.kind, "namespace": ref.namespace, "name": ref.name}
        mark = hashlib.sha256(json.dumps([*ref, one.rule, one.told]).encode()).hexdigest()[:16]
        yield (
            namespace,
            {
                "apiVersion": "v1",
                "kind": "Event",
                "metadata": {"name": f"{NAME}.{mark}", "namespace": namespace},
                "type": "Warning",
                "reason": "ForewarnAudit",
                "message": text,
                "involvedObject": {key: value for key, value in about.items() if value},
                "source": {"component": SOURCE},
                "reportingComponent": SOURCE,
                "reportingInstance": identity,
                "firstTimestamp": time,
                "lastTimestamp": time,
                "count": 1,
            },
        )
