"""The numbers of stored Pods by controller and by labels, updated with each change."""

from __future__ import annotations

from typing import TYPE_CHECKING

from forewarn.policies.controllers.view import PodCounts, Tally, controller_of

if TYPE_CHECKING:
    from forewarn.policies.controllers.view import Key, PodState


class PodTally:
    """The numbers of stored Pods by controller and by labels."""

    def __init__(self) -> None:
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
        owner = controller_of(state.pod) if state.active else None
        if owner is not None:
            active, ready = self.by_controller.get(owner, PodCounts())
            self.by_controller[owner] = PodCounts(active + sign, ready + sign * (state.ready is not None))
