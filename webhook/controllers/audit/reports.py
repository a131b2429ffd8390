"""Audit results as objects: OpenReports if the cluster has these kinds, otherwise Events.

Everybody with read access to a namespace can read its Events: they contain no names of other namespaces.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from forewarn.policies.findings import Severity, cut
from forewarn.policies.render.openreports import NAME, SOURCE, not_written_lines, outcome_of, summary_of
from forewarn.webhook.apiserver.object_api import Conflict, Forbidden, NotFound
from forewarn.webhook.apiserver.open_reports import is_served, write_reports

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from datetime import datetime

    from forewarn.webhook.apiserver.object_api import ObjectApi
    from forewarn.webhook.apiserver.open_reports import Found
    from forewarn.webhook.controllers.audit.scan import Audited

MAX_EVENTS: Final = 20
"""Maximum Events of one audit; the worst findings first."""
_EVENT_MESSAGE: Final = 1_000
"""Maximum characters of an Event's message; the API server accepts 1,024."""
_DEFAULT: Final = "default"
"""Namespace of Events about cluster-scoped objects: pkg/apis/core/validation/events.go accepts no other."""


class Published(NamedTuple):
    """The written objects: `reports` or `events`; "" without the permission. `missing`: sentences about namespaces
    without a Report.
    """

    objects: str = ""
    missing: tuple[str, ...] = ()


def publish(api: ObjectApi, audited: Audited, now: datetime, identity: str) -> Published:
    """Write the findings. Raises ObjectApiError.

    `now`: UTC. `identity`: the name of this replica.
    """
    try:
        if is_served(api):
            written = write_reports(api, audited.found, _summary(audited.counts))
            return Published("reports", tuple(not_written_lines(written)))
        _create_events(api, audited, now, identity)
    except Forbidden:
        return Published()
    return Published("events")


def _summary(counts: Mapping[tuple[str, str], int]) -> dict[str, int]:
    """Return the number of findings by outcome, including findings that are counted but not listed in the report."""
    outcomes = {str(severity): outcome_of(severity) for severity in Severity}
    total = Counter[str]()
    for (_, severity), count in counts.items():
        total[outcomes[severity]] += count
    return summary_of(total.elements())


def _create_events(api: ObjectApi, audited: Audited, now: datetime, identity: str) -> None:
    """Create an Event for each of the worst findings except notes. Events that already exist do not change."""
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
