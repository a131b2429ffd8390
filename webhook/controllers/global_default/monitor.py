"""What is told when there are two global defaults all the same: made while forewarn was away, or past an exemption."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from policies.kube_apiserver.priority import default_priority_class
from webhook.admission.several_defaults import several
from webhook.logs import log_event

if TYPE_CHECKING:
    from collections.abc import Mapping

    from policies.objects.priority_class import PriorityClass
    from webhook.metrics import Metrics


class GlobalDefaults:
    """Counts the defaults, and tells once of every set of several. One thread calls it."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._told: tuple[str, ...] = ()

    def reconcile(self, classes: Mapping[str, PriorityClass]) -> None:
        """Count the classes that are the default, for the metric; several are logged by name."""
        names = tuple(sorted(found.name for found in classes.values() if found.global_default))
        counts, message = default_priority_class(classes.values()), several(classes.values())
        self._metrics.global_defaults.set(len(names))
        if counts is None or not message:
            self._told = ()
        elif names != self._told:
            log_event(
                "multiple global default PriorityClasses", {"classes": names, "effective": counts.name}, logging.ERROR
            )
            self._told = names
