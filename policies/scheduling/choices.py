"""Compare the choices among tied nodes of a few Pods that preempt one after the other."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Final

from forewarn.policies.scheduling.caveats import victims_tie
from forewarn.policies.scheduling.schedule_one import Prediction

if TYPE_CHECKING:
    from collections.abc import Sequence

    from forewarn.policies.scheduling.snapshot import Snapshot

_MAX_CYCLES: Final = 50
"""Maximum scheduling cycles of a comparison."""
_MAX_NODES: Final = 100
"""Maximum number of nodes: kube-scheduler may evaluate a part of more."""


def are_choices_equal(predictions: Sequence[Prediction]) -> bool:
    """Report whether each of these Pods preempts as many Pods, whichever tied nodes kube-scheduler selects.

    False if it is not known: the decisions are those of a simulation, in which more happens between them; not each Pod
    preempts after those before it; a Pod has a higher priority than one before it, which may lose its node then; or
    there are too many choices.
    """
    snapshot = predictions[0].snapshot
    is_small = len(snapshot.node_infos) <= _MAX_NODES and not any(each.is_known for each in predictions)
    return is_small and all(map(_follows, pairwise(predictions))) and _Choices(predictions).are_equal(snapshot, 0)


def _follows(pair: tuple[Prediction, Prediction]) -> bool:
    before, later = pair
    nominated = later.snapshot.objects.nominated.get(before.node, ())
    is_after = any(pod.identity == before.pod.identity for pod in nominated)
    return is_after and later.pod.effective_priority <= before.pod.effective_priority


def _newly_preempted(prediction: Prediction) -> int:
    return sum(not victim.terminating for victim in prediction.victims)


class _Choices:
    def __init__(self, predictions: Sequence[Prediction]) -> None:
        self._predictions = predictions
        self._cycles = 0

    def are_equal(self, snapshot: Snapshot, place: int) -> bool:
        """Report whether the Pods from this place on preempt as many Pods as predicted, in each choice."""
        if place == len(self._predictions):
            return True
        known = self._predictions[place]
        found, self._cycles = Prediction(snapshot, known.pod, reasons=True), self._cycles + 1
        if self._cycles > _MAX_CYCLES or found.outcome != "preempts" or found.is_sampled:
            return False
        number, is_last = _newly_preempted(known), place + 1 == len(self._predictions)
        for candidate in found.preemption.best_candidates:
            chosen = found.nominating(candidate)
            if _newly_preempted(chosen) != number or (not is_last and victims_tie(candidate, snapshot)):
                return False
            if not is_last and not self.are_equal(chosen.snapshot_after(), place + 1):
                return False
        return True
