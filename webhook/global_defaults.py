"""What is told when there are two global defaults all the same: made while forewarn was away, or past an exemption."""

from __future__ import annotations

import logging
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from policies.objects.fields import at
from policies.priority import default_priority_class
from webhook.api import NotFound
from webhook.logs import say
from webhook.reservation import CLASSES
from webhook.several_defaults import several

if TYPE_CHECKING:
    from collections.abc import Mapping

    from policies.objects.priority_class import PriorityClass
    from webhook.api import Api
    from webhook.metrics import Metrics

EVENTS: Final = "/api/v1/namespaces/default/events"
"""Where Events about objects without a namespace are (apimachinery validation of Events)."""
REASON: Final = "TwoGlobalDefaults"


class GlobalDefaults:
    """Counts the defaults, and tells once of every set of several. One thread calls it."""

    def __init__(self, api: Api, metrics: Metrics) -> None:
        self._api, self._metrics = api, metrics
        self._told: tuple[str, ...] = ()

    def look(self, classes: Mapping[str, PriorityClass], *, writer: bool) -> None:
        """Count the classes that are the default. The writer puts Events on them. Raises ApiError."""
        names = tuple(sorted(found.name for found in classes.values() if found.global_default))
        counts, message = default_priority_class(classes.values()), several(classes.values())
        self._metrics.global_defaults.set(len(names))
        if counts is None or not message:
            self._told = ()
            return
        if names == self._told:
            return
        say("several global defaults", {"classes": names, "counts": counts.name}, logging.ERROR)
        if writer:
            for name in names:
                self._event(name, message)
        self._told = names

    def _event(self, name: str, message: str) -> None:
        try:
            found = self._api.get(f"{CLASSES}/{name}")
        except NotFound:
            return
        self._api.create(EVENTS, event(found, message, datetime.now(UTC)))


def event(about: Mapping[str, Any], message: str, now: datetime) -> dict[str, Any]:
    """A Warning on a PriorityClass."""
    name, time = at(about, "metadata", "name"), now.isoformat(timespec="seconds").replace("+00:00", "Z")
    subject = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "name": name}
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"generateName": f"{name[:200]}.", "namespace": "default"},
        "involvedObject": {**subject, "uid": at(about, "metadata", "uid")},
        "type": "Warning",
        "reason": REASON,
        "message": message,
        "source": {"component": "forewarn"},
        "firstTimestamp": time,
        "lastTimestamp": time,
        "count": 1,
    }
