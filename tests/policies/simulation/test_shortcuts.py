"""What is not worked out again is what it would come to."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

import pytest

from policies.controllers import reconcile
from policies.simulation.controller_manager import ControllerManager
from policies.simulation.scheduler_cache import SchedulerCache
from policies.simulation.simulation import Simulation
from tests.benchmarks import bench_simulation

if TYPE_CHECKING:
    from collections.abc import Sequence

    from policies.controllers.actions import Action
    from policies.controllers.view import Key
    from policies.scheduling.snapshot import Snapshot


@pytest.mark.parametrize("seed", [None, 5])
def test_a_deployment_that_is_as_it_was_needs_what_it_needed(seed: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    spared = 0
    kept = ControllerManager._reconcile

    def watched(self: ControllerManager, key: Key) -> Sequence[Action]:
        nonlocal spared
        known = self._quiet.get(key)
        found = kept(self, key)
        assert list(found) == reconcile(self._view, key, self._api.seconds)
        spared += known is not None and known.actions is found
        return found

    monkeypatch.setattr(ControllerManager, "_reconcile", watched)
    world = bench_simulation.rollout(6, 8, 40)
    simulation = Simulation(world, None if seed is None else Random(seed))
    simulation.run()
    assert not simulation.stopped
    assert spared > 20


def test_a_snapshot_stays_while_nothing_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is the one that would be made, at every cycle."""
    same, kept = 0, SchedulerCache.snapshot

    def watched(self: SchedulerCache) -> Snapshot:
        nonlocal same
        before = self._snapshot
        found = kept(self)
        assert self._next_snapshot().objects == found.objects
        same += before is found
        return found

    monkeypatch.setattr(SchedulerCache, "snapshot", watched)
    simulation = Simulation(bench_simulation.cascade(9, 4, 12), Random(2))
    simulation.run()
    assert same > 3
