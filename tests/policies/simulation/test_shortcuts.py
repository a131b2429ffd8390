"""What is not worked out again is what it would come to."""

from __future__ import annotations

import gc
from collections import defaultdict
from dataclasses import replace
from operator import itemgetter
from random import Random
from threading import Event, Thread
from typing import TYPE_CHECKING

import pytest

from forewarn.policies.kubernetes.controllers import reconcile
from forewarn.policies.kubernetes.controllers.view import Requeue, controller_of
from forewarn.policies.kubernetes.kinds.registry import DISRUPTION_BUDGET
from forewarn.policies.kubernetes.selectors import parse_label_selector
from forewarn.policies.prediction.simulation import controller_manager
from forewarn.policies.prediction.simulation.controller_manager import ControllerManager, reader_of
from forewarn.policies.prediction.simulation.scenario import world_of
from forewarn.policies.prediction.simulation.scheduler_cache import SchedulerCache
from forewarn.policies.prediction.simulation.simulation import Simulation
from forewarn.policies.questions.whatif import questions
from tests.benchmarks import bench_simulation
from tests.benchmarks.bench_owners import filled
from tests.policies.simulation.test_quotas import deleted, happened, workload

if TYPE_CHECKING:
    from collections.abc import Sequence

    from forewarn.policies.kubernetes.controllers.view import Action, Key, PodState
    from forewarn.policies.kubernetes.scheduling.snapshot import Snapshot


@pytest.mark.parametrize("seed", [None, 5])
def test_who_is_idle_would_do_nothing(seed: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """A condition that changes is no news to who has nothing to do."""
    spared, kept = 0, ControllerManager._are_idle

    def watched(self: ControllerManager, state: PodState) -> bool:
        nonlocal spared
        idle = kept(self, state)
        if idle:
            owner = controller_of(state.pod)
            reader = reader_of(self.api, owner) if owner else None
            for key in (*self.api.pdbs_of(state.pod.namespace, state.pod.labels), owner, reader):
                actions = reconcile(self.view, key, self.api.seconds) if key else []
                for action in actions:
                    assert isinstance(action, Requeue)
                    assert self._delayed[action.key] == action.at - self.api.epoch
        spared += idle
        return idle

    monkeypatch.setattr(ControllerManager, "_are_idle", watched)
    cluster = filled(12)
    arrivals = questions.nodes_lost(cluster.snapshot(), ["n00001", "n00002"]).arrivals
    Simulation(world_of(cluster, arrivals, until=900.0), None if seed is None else Random(seed)).run()
    assert spared > 50


def test_pods_do_not_sync_a_rolling_deployment(monkeypatch: pytest.MonkeyPatch) -> None:
    """A Deployment syncs for the status of its ReplicaSets, so hardly a sync after the first has nothing to write."""
    writes, original = list[bool](), ControllerManager._reconcile

    def watched(self: ControllerManager, key: Key) -> Sequence[Action]:
        actions = original(self, key)
        if key[0] == "apps/Deployment" and self.clock.now > 1:
            writes.append(any(not isinstance(action, Requeue) for action in actions))
        return actions

    monkeypatch.setattr(ControllerManager, "_reconcile", watched)
    cluster = filled(12)
    arrivals = questions.nodes_lost(cluster.snapshot(), ["n00001", "n00002"]).arrivals
    Simulation(world_of(cluster, arrivals, until=500.0)).run()
    assert writes.count(True) > 10 * writes.count(False)


@pytest.mark.parametrize("seed", range(8))
def test_a_repeated_rejection_is_that_of_a_sync(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Workloads compete for a quota, and Pods that are deleted free it again."""
    dice = Random(seed)
    kinds = ("ReplicaSet", "Job", "ReplicaSet")
    arrivals = [(float(number), "create", workload(kind, f"w{number}", 3)) for number, kind in enumerate(kinds)]
    arrivals += [(dice.uniform(3, 400), "delete", deleted(f"w{number}-{dice.randint(1, 3)}")) for number in (0, 0, 2)]
    arrivals.append((dice.uniform(3, 400), "create", workload("ReplicaSet", "late", 1)))
    arrivals.sort(key=itemgetter(0))
    limit = {"pods": str(dice.randint(3, 7))}
    repeats, write = 0, ControllerManager._rejected_write

    def counted(self: ControllerManager, key: Key) -> float:
        nonlocal repeats
        repeats += 1
        return write(self, key)

    monkeypatch.setattr(ControllerManager, "_rejected_write", counted)
    found = happened(arrivals, limit)
    assert repeats > 10
    monkeypatch.setattr(controller_manager, "_REPEATING", ())
    assert found == happened(arrivals, limit)


def test_a_snapshot_stays_while_nothing_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    same, kept, last = 0, SchedulerCache.snapshot, list[object]()

    def watched(self: SchedulerCache) -> Snapshot:
        nonlocal same
        found = kept(self)
        same += last[-1:] == [found]
        last.append(found)
        return found

    monkeypatch.setattr(SchedulerCache, "snapshot", watched)
    simulation = Simulation(bench_simulation.cascade(9, 4, 12), Random(2))
    simulation.run()
    assert same > 3


def test_a_budget_whose_status_changes_keeps_its_selector() -> None:
    """By its identity is known which pods it matches."""
    cluster = filled(12)
    arrivals = questions.nodes_lost(cluster.snapshot(), ["n00001"]).arrivals
    simulation = Simulation(world_of(cluster, arrivals, until=900.0))
    before = dict(simulation.cache.snapshot().objects.pdbs)
    simulation.run()
    after = simulation.cache.snapshot().objects.pdbs
    assert before.keys() == after.keys()
    assert all(after[key].selector is budget.selector for key, budget in before.items())
    assert any(after[key].disruptions_allowed != budget.disruptions_allowed for key, budget in before.items())


def test_budgets_of_a_namespace_are_those_of_the_last_snapshot_while_none_of_them_changes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    same, others, before, kept = 0, 0, dict[str, tuple[object, ...]](), SchedulerCache.snapshot

    def watched(self: SchedulerCache) -> Snapshot:
        nonlocal before, same, others
        found = kept(self)
        anew = defaultdict[str, list[object]](list)
        for (namespace, _), budget in sorted(found.objects.pdbs.items()):
            anew[namespace].append(budget)
        assert found.pdbs == {namespace: tuple(pdbs) for namespace, pdbs in anew.items()}
        for namespace, pdbs in found.pdbs.items():
            same += pdbs is before.get(namespace)
            others += pdbs != before.get(namespace)
            assert (pdbs is before.get(namespace)) == (pdbs == before.get(namespace))
        before = dict(found.pdbs)
        return found

    monkeypatch.setattr(SchedulerCache, "snapshot", watched)
    cluster = filled(12)
    arrivals = questions.nodes_lost(cluster.snapshot(), ["n00001"]).arrivals
    Simulation(world_of(cluster, arrivals, until=900.0)).run()
    assert same > 10 * others > 100


def test_a_budget_that_is_written_anew_is_read_anew() -> None:
    cluster = filled(12)
    simulation = Simulation(world_of(cluster, (), until=9.0))
    state = next(state for key, state in simulation.api.workloads.items() if key[0] == DISRUPTION_BUDGET)
    selector = {"matchLabels": {"app": "another"}}
    changed = {**state.object, "spec": {**state.object["spec"], "selector": selector}}
    simulation.api.put_workload(replace(state, object=changed))
    budget = simulation.cache.snapshot().objects.pdbs[state.key[1:]]
    assert budget.selector == parse_label_selector(selector)


@pytest.mark.parametrize("before", [(700, 10, 10), (300_000, 90, 5), (0, 10, 10)])
def test_a_run_leaves_the_collector_of_cycles_as_it_was(before: tuple[int, int, int]) -> None:
    """And has it look seldom, where it looks at all."""
    during = set()
    simulation = Simulation(bench_simulation.cascade(9, 4, 12), progress=lambda _, __: during.add(gc.get_threshold()))
    kept = gc.get_threshold()
    gc.set_threshold(*before)
    given = gc.get_threshold()  # Python 3.14 ignores the third
    try:
        simulation.run()
        after = gc.get_threshold()
    finally:
        gc.set_threshold(*kept)
    assert after == given
    assert all((first >= 200_000) == bool(before[0]) for first, _, _ in during)
    assert during


def test_runs_beside_each_other_leave_it_as_it_was() -> None:
    """The one that began first ends first."""
    began, may_end = Event(), Event()

    def wait(_: float, __: int) -> None:
        began.set()
        may_end.wait(10)

    def begin_another(_: float, __: int) -> None:
        if not began.is_set():
            other.start()
            began.wait(10)

    other = Thread(target=Simulation(bench_simulation.cascade(9, 4, 12), progress=wait).run)
    before = gc.get_threshold()
    Simulation(bench_simulation.cascade(9, 4, 12), progress=begin_another).run()
    meanwhile = gc.get_threshold()
    may_end.set()
    other.join()
    assert (meanwhile[0] >= 200_000, gc.get_threshold()) == (True, before)
