"""Audit results as objects: OpenReports if the cluster has these kinds, otherwise Events.

A ClusterReport is for cluster administrators, and contains all names. Everybody with read access to a namespace can
read its Report and Events: they contain no names of other namespaces.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from forewarn.policies.findings import Severity, cut
from forewarn.policies.objects.fields import at
from forewarn.policies.render.openreports import NAME, SOURCE, outcome_of, report_of, result_of, summary_of
from forewarn.webhook.apiserver.object_api import Conflict, Forbidden, NotFound

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from datetime import datetime

    from forewarn.policies.objects.fields import ApiObject
    from forewarn.webhook.apiserver.object_api import ObjectApi
    from forewarn.webhook.controllers.audit.scan import Audited, Found

GROUP: Final = "/apis/openreports.io/v1alpha1"
MAX_REPORTS: Final = 200
"""Maximum namespaces that get a Report; those with the worst findings first."""
MAX_EVENTS: Final = 20
"""Maximum Events of one audit; the worst findings first."""
_WRITTEN: Final = "forewarn.dev/reported-namespaces"
_EVENT_MESSAGE: Final = 1_000
"""Maximum characters of an Event's message; the API server accepts 1,024."""
_DEFAULT: Final = "default"
"""Namespace of Events about cluster-scoped objects: pkg/apis/core/validation/events.go accepts no other."""


def publish(api: ObjectApi, audited: Audited, now: datetime, identity: str) -> str:
    """Write the findings; returns `reports` or `events`, or "" without the permission. Raises ObjectApiError.

    `now`: UTC. `identity`: the name of this replica.
    """
    try:
        if _knows_reports(api):
            _report(api, audited)
            return "reports"
        _create_events(api, audited, now, identity)
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
    """Write a ClusterReport with all findings, and a Report for each namespace that has findings or had some before."""
    path = f"{GROUP}/clusterreports"
    before = _read(api, f"{path}/{NAME}")
    by_namespace: dict[str, list[Found]] = {}
    for found in audited.found:
        if found.object.namespace:
            by_namespace.setdefault(found.object.namespace, []).append(found)
    now = sorted(by_namespace)[:MAX_REPORTS] if len(by_namespace) <= MAX_REPORTS else [*by_namespace][:MAX_REPORTS]
    had = at(before or {}, "metadata", "annotations", _WRITTEN) or ""
    left = [name for name in dict.fromkeys(had.split()) if name not in now][:MAX_REPORTS]
    body = _body("ClusterReport", audited.found, in_full=True)
    body["summary"] = _summary(audited.counts)
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
    return report_of(kind, [_result(one, in_full=in_full) for one in found])


def _result(found: Found, *, in_full: bool) -> dict[str, Any]:
    message, fix = (found.message, found.fix) if in_full else (found.warning, found.warning_fix)
    return result_of(found.severity, found.rule, found.object, message, fix)


def _summary(counts: Mapping[tuple[str, str], int]) -> dict[str, int]:
    """Of all findings, also those that are only counted."""
    outcomes = {str(severity): outcome_of(severity) for severity in Severity}
    total = Counter[str]()
    for (_, severity), count in counts.items():
        total[outcomes[severity]] += count
    return summary_of(total.elements())


def _create_events(api: ObjectApi, audited: Audited, now: datetime, identity: str) -> None:
    """Create an Event for each of the worst findings that are not notes, except for Events that already exist."""
    for namespace, event in _events(audited.found, now, identity):
        try:
            api.create(f"/api/v1/namespaces/{namespace}/events", event)
        except (Conflict, NotFound):
            continue  # told already, or its namespace is gone


def _events(found: Sequence[Found], now: datetime, identity: str) -> Iterator[tuple[str, dict[str, Any]]]:
    time = now.isoformat(timespec="seconds").replace("+00:00", "Z")
    serious = [one for one in found if one.severity is not Severity.NOTE and one.object.name]
    for one in serious[:MAX_EVENTS]:
        namespace = one.object.namespace or _DEFAULT
        text = cut(
            f"{one.warning} [{one.rule}]" + (f" Fix: {one.warning_fix}" if one.warning_fix else ""), _EVENT_MESSAGE
        )
        ref = one.object
        about = {"apiVersion": ref.api_version, "kind": ref.kind, "namespace": ref.namespace, "name": ref.name}
        mark = hashlib.sha256(json.dumps([*ref, one.rule, one.warning]).encode()).hexdigest()[:16]
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
