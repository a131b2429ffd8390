"""The work items of the controllers: changes, due syncs and arrivals."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from forewarn.policies.simulation.api_server import Change

if TYPE_CHECKING:
    from collections.abc import Callable

    from forewarn.policies.controllers.view import Key


class Sync(NamedTuple):
    """A sync of a workload or PDB."""

    key: Key


class Collect(NamedTuple):
    """A round of Pod garbage collection."""


class PodFinished(NamedTuple):
    """The end of a Pod's termination."""

    key: tuple[str, str]
    uid: str


class Arrive(NamedTuple):
    """A user's change. `change` stores it, and returns the changes other than Pods."""

    change: Callable[[], list[Change]]


Due = Change | Sync | Collect | PodFinished | Arrive
NOT_WATCHED: Final = ("Status", "Claim", "Volume", "PodGroup")
"""Kinds of changes that controllers ignore."""
