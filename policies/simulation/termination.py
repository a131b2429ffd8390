"""The time that the kubelet needs to terminate a Pod."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

    from forewarn.policies.controllers.view import PodState

TERMINATION_SECONDS: Final = "terminationSeconds"
"""Annotation of a Pod template in a simulation: seconds until a Pod has terminated, if less than its grace period."""


def termination_seconds(state: PodState) -> float:
    """Return the seconds from the deletion of a Pod until it has terminated: the grace period, or less by
    TERMINATION_SECONDS.
    """
    grace = float(state.pod.spec.termination_grace_period)
    template: Mapping[str, Any] = state.template or {}
    annotations = (template.get("metadata") or {}).get("annotations") or {}
    try:
        seconds = float(annotations[TERMINATION_SECONDS])
    except (KeyError, TypeError, ValueError):
        return grace
    return seconds if 0 <= seconds < grace else grace  # who writes `nan` or less than nothing has said nothing
