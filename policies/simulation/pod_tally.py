"""The numbers of stored Pods by controller and by labels, updated with each change."""

from __future__ import annotations

from typing import TYPE_CHECKING

from forewarn.policies.controllers.view import PodCounts, Tally

if TYPE_CHECKING:
    from collections.abc import Callable

    from forewarn.policies.controllers.view import Key, PodState
    from forewarn.policies.objects.pod import Pod


class PodTally:
    """The numbers of stored Pods by controller and by labels.

    `controller_of`: returns the controller of a Pod, or None.
    """

    def __init__(self, controller_of: Callable[[Pod], Key | None]) -> None:
        self._controller_of = controller_of
        self.by_controller: dict[Key, PodCounts] = {}
        self.by_labels: dict[str, dict[int, Tally]] = {}
        """Namespace -> id of labels -> tally; entries are never removed."""

    def count(self, state: PodState | None, sign: int) -> None:
        """Add (`sign` 1) or subtract (-1) a Pod; None: do nothing."""
        if state is None:
            return
        tallies, labels = self.by_labels.setdefault(state.pod.namespace, {}), state.pod.labels
        tally = tallies.get(id(labels))
        if tally is None:  # which keeps the labels, so that no others have their identity
            tally = tallies[id(labels)] = Tally(labels)
        tally.count(state, sign)
        owner = self._controller_of(state.pod) if state.active else None
        if owner is not None:
            active, ready = self.by_controller.get(owner, PodCounts())
            self.by_controller[owner] = PodCounts(active + sign, ready + sign * (state.ready is not None))
