"""The limit on the Pods that controllers add to a simulated cluster.

One object may ask for 2,147,483,647 Pods. Pods beyond those that all nodes can run only stay Pending, so a simulation
need not create them all.
"""

from __future__ import annotations

from collections import Counter
from itertools import count
from typing import TYPE_CHECKING, Final

from forewarn.policies.base.findings import grouped
from forewarn.policies.kubernetes.controllers.view import Action, CreatePod, Key, controller_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from forewarn.policies.prediction.simulation.api_server import ApiServer, Change

MIN_OF_WORKLOAD: Final = 10_000
MAX_OF_WORKLOAD: Final = 100_000
"""A workload may add as many Pods as all nodes can run, within these bounds."""
MIN_IN_ALL: Final = 20_000
MAX_IN_ALL: Final = 150_000
"""All workloads together may add twice as many Pods as all nodes can run, within these bounds."""
ALWAYS: Final = 500
"""Number of Pods that a workload may add even if the others have used up the limit."""


class PodLimit:
    """Counts the Pods that each top workload adds from time 0 on, and omits those beyond the limit.

    The replacement of a deleted Pod does not count. A workload may also double its Pods, as a rollout with surge does.
    """

    def __init__(self, api: ApiServer) -> None:
        self._api = api
        self._of_workload, self._in_all = MAX_OF_WORKLOAD, MAX_IN_ALL
        self._tops: dict[Key, Key] = {}
        """Key of a workload -> the key of its top workload, also after its deletion."""
        self._at_start, self._added = Counter[Key](), Counter[Key]()
        self._total = 0
        self._cut: dict[Key, None] = {}
        """The top workloads that have reached the limit."""

    def start(self) -> None:
        """Read the number of Pods that the nodes can run, and the Pods of each workload."""
        room = sum(node.allocatable.allowed_pod_number for node in self._api.nodes.values())
        self._of_workload = min(max(room, MIN_OF_WORKLOAD), MAX_OF_WORKLOAD)
        self._in_all = min(max(2 * room, MIN_IN_ALL), MAX_IN_ALL)
        for key, pods in self._api.by_controller.items():
            self._at_start[self._top(key)] += len(pods)

    def handle(self, change: Change) -> None:
        """Count a Pod that was created or removed; ignore other changes."""
        if change.kind == "Pod" and (change.old is None or change.new is None):
            owner = controller_of((change.new or change.old).pod)
            if owner is not None:
                one = 1 if change.old is None else -1
                self._added[self._top(owner)] += one
                self._total += one

    def limit_actions(self, key: Key, actions: Sequence[Action]) -> Sequence[Action]:
        """Return the actions of a workload's sync, without those that create Pods beyond the limit."""
        wanted = sum(isinstance(action, CreatePod) for action in actions)
        if not wanted:
            return actions
        top = self._top(key)
        most = self._of_workload if self._total < self._in_all else ALWAYS
        left = max(most + self._at_start[top] - self._added[top], 0)
        if wanted <= left:
            return actions
        self._cut[top] = None
        numbers = count()
        return [action for action in actions if not isinstance(action, CreatePod) or next(numbers) < left]

    def cut(self) -> dict[Key, list[Key]]:
        """Return each top workload that has reached the limit -> the keys of the workloads that create its Pods."""
        creators = grouped((top, key) for key, top in self._tops.items())
        return {top: creators[top] for top in self._cut}

    def _top(self, key: Key) -> Key:
        state = self._api.workloads.get(key)
        if state is not None:
            self._tops[key] = state.controller or key
        return self._tops.get(key, key)
