"""What waits for the controllers: changes, due syncs and arrivals."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from forewarn.policies.simulation.api_server import Change

if TYPE_CHECKING:
    from collections.abc import Callable

    from forewarn.policies.controllers.view import Key


class Sync(NamedTuple):
    """A workload is due."""

    key: Key


class Collect(NamedTuple):
    """The collector of lost pods is due."""


class Gone(NamedTuple):
    """A pod has ended."""

    key: tuple[str, str]
    uid: str


class Arrive(NamedTuple):
    """An arrival: `change` stores it, and returns the changes other than Pods."""

    change: Callable[[], list[Change]]


Due = Change | Sync | Collect | Gone | Arrive
NOT_WATCHED: Final = ("Status", "Claim", "Volume", "PodGroup")
"""Changes that no controller here waits for."""
