"""Reports several global defaults, created while forewarn was unavailable or by an exempt user."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from forewarn.policies.kube_apiserver.priority import default_priority_class
from forewarn.webhook.admission.several_defaults import several
from forewarn.webhook.logs import log_event

if TYPE_CHECKING:
    from collections.abc import Mapping

    from forewarn.policies.objects.priority_class import PriorityClass
    from forewarn.webhook.metrics import Metrics


class GlobalDefaults:
    """Counts the global default PriorityClasses, and logs each set of several once. For one thread."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._reported: tuple[str, ...] = ()

    def reconcile(self, classes: Mapping[str, PriorityClass]) -> None:
        """Update the metric with the number of global defaults, and log their names if there are several."""
        names = tuple(sorted(found.name for found in classes.values() if found.global_default))
        counts, message = default_priority_class(classes.values()), several(classes.values())
        self._metrics.global_defaults.set(len(names))
        if counts is None or not message:
            self._reported = ()
        elif names != self._reported:
            log_event(
                "multiple global default PriorityClasses", {"classes": names, "effective": counts.name}, logging.ERROR
            )
            self._reported = names
