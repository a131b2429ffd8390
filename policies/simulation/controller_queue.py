"""The work items of the simulated controllers: changes, due syncs and arrivals."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from forewarn.policies.simulation.api_server import Change

if TYPE_CHECKING:
    from collections.abc import Callable

    from forewarn.policies.controllers.view import Key


class Sync(NamedTuple):
    """A due sync of a workload or PodDisruptionBudget: its controller compares the desired and the actual state."""

    key: Key


class Collect(NamedTuple):
    """A due round of Pod garbage collection."""


class PodFinished(NamedTuple):
    """The end of the termination of a Pod, for the kubelet to remove the Pod."""

    key: tuple[str, str]
    uid: str


class Arrive(NamedTuple):
    """A user's change. `change`: applies it, and returns the resulting changes of objects other than Pods."""

    change: Callable[[], list[Change]]


Due = Change | Sync | Collect | PodFinished | Arrive
NOT_WATCHED: Final = ("Status", "Claim", "Volume", "PodGroup")
"""Kinds of changes that controllers ignore."""
