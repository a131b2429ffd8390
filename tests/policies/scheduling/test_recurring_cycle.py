"""Cycles of pods that are tried again and again: what a cycle comes to that knows nothing from before."""

from __future__ import annotations

import os
import random
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from forewarn.policies.base.cow_table import Table
from forewarn.policies.kubernetes.cluster.admission import admitted, predict
from forewarn.policies.kubernetes.objects.pod import Pod
from forewarn.policies.kubernetes.releases.semantics import Semantics
from forewarn.policies.kubernetes.scheduling.recurring_cycle import RecurringCycle, RecurringCycles
from forewarn.policies.kubernetes.scheduling.schedule_one import Prediction
from forewarn.policies.kubernetes.scheduling.snapshot import NotValid, Snapshot
from forewarn.policies.kubernetes.scheduling.vectorized.node_fit import Nominations
from forewarn.policies.kubernetes.scheduling.vectorized.pod_matrix import pod_matrix_of
from forewarn.policies.kubernetes.scheduling.vectorized_cycle import Cycle
from forewarn.policies.prediction.simulation import scheduler_cache as simulated_cycle
from forewarn.policies.prediction.simulation.scenario import Arrival, DumpCache, world_of
from forewarn.policies.prediction.simulation.scheduler_cache import Fits, Rejected, SchedulingAlgorithm
from forewarn.policies.prediction.simulation.simulation import Simulation
from forewarn.policies.prediction.simulation.summary import Outcome
from forewarn.policies.questions.whatif import questions
from tests.benchmarks import bench_simulation
from tests.benchmarks.clusters import Size, objects
from tests.builders import Made, cluster, make_node, make_pod
from tests.cases import cases
from tests.policies.scheduling.comparing import node_by_node
from tests.policies.scheduling.profiles import args, config, point, semantics
from tests.policies.scheduling.profiles import cluster as cluster_of_profile

if TYPE_CHECKING:
    from collections.abc import Iterator

SEED = os.environ.get("FOREWARN_SEED", "1")
Obj = dict[str, Any]


def crowded(seed: str, kinds: int = 12) -> DumpCache:
    """A small cluster of workloads on full nodes, with budgets. `kinds`: of specs, see `varied`."""
    rng = random.Random(seed)
    cache, templates, counts = DumpCache(), dict[tuple[str, str], Obj](), Counter[tuple[str, str]]()
    for obj in objects(Size(nodes=rng.randint(8, 14), pods_per_node=10, workloads=14, pdbs=6), rng.randrange(999)):
        if obj["kind"] == "Pod":
            key = obj["metadata"]["namespace"], obj["metadata"]["labels"]["app"]
            template = templates.setdefault(key, varied(obj["spec"], key[1], kinds, rng))
            obj["spec"] = {**template, "nodeName": obj["spec"]["nodeName"]}
            owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": key[1], "controller": True}
            obj["metadata"]["ownerReferences"] = [owner]
            counts[key] += 1
        elif obj["kind"] == "Node":
            obj["status"]["allocatable"]["cpu"] = "6"
        cache.add(obj)
    for (namespace, app), spec in templates.items():
        for obj in storage_of(spec, namespace, rng):
            cache.add(obj)
        labels = {"app": app}
        template = {"metadata": {"labels": labels}, "spec": spec}
        made = {"replicas": counts[namespace, app], "selector": {"matchLabels": labels}, "template": template}
        metadata = {"name": app, "namespace": namespace}
        cache.add({"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": metadata, "spec": made})
    return cache


def varied(spec: Obj, app: str, kinds: int, rng: random.Random) -> Obj:
    """The spec with something that matters to scheduling. The first three kinds only concern nodes and priority."""
    found = {key: value for key, value in spec.items() if key != "nodeName"}
    found["terminationGracePeriodSeconds"] = rng.choice((0, 1, 30))
    kind = rng.randrange(kinds)
    if kind == 0:
        found["nodeSelector"] = {"disk": rng.choice(("ssd", "hdd"))}
    elif kind == 1:
        found["tolerations"] = [{"operator": "Exists"}]
    elif kind == 2:
        found["preemptionPolicy"] = "Never"
    elif kind == 3:
        found["containers"] = [{**found["containers"][0], "ports": [{"containerPort": 80, "hostPort": 8080}]}]
    elif kind in (4, 5):
        found["topologySpreadConstraints"] = [
            {
                "maxSkew": rng.choice((1, 2)),
                "topologyKey": "topology.kubernetes.io/zone",
                "whenUnsatisfiable": rng.choice(("ScheduleAnyway", "DoNotSchedule")),
                "labelSelector": {"matchLabels": {"app": app}},
            }
        ]
    elif kind in (6, 7):
        term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": app}}}
        required = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
        preferred = {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 9, "podAffinityTerm": term}]}
        found["affinity"] = {"podAntiAffinity": rng.choice((required, preferred))}
    elif kind == 8:
        found["volumes"] = [{"name": "data", "persistentVolumeClaim": {"claimName": f"data-{app}"}}]
    return found


def storage_of(spec: Obj, namespace: str, rng: random.Random) -> Iterator[Obj]:
    """The claims of a Pod's volumes, each bound to a volume of one zone."""
    for volume in spec.get("volumes", ()):
        name = volume["persistentVolumeClaim"]["claimName"]
        bound = {"pv.kubernetes.io/bind-completed": "yes"}
        resources = {"accessModes": ["ReadWriteMany"], "storageClassName": "disks"}
        zone = {"key": "topology.kubernetes.io/zone", "operator": "In", "values": [rng.choice("abc")]}
        yield {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": name, "namespace": namespace, "annotations": bound},
            "spec": {**resources, "volumeName": f"{namespace}-{name}"},
            "status": {"phase": "Bound"},
        }
        yield {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": f"{namespace}-{name}"},
            "spec": {
                **resources,
                "capacity": {"storage": "1Gi"},
                "claimRef": {"namespace": namespace, "name": name},
                "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [zone]}]}},
            },
        }


class Watched(RecurringCycles):
    """Holds each answer to one that is worked out anew."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: Counter[str] = Counter()

    def cycle(self, snapshot: Snapshot, pod: Pod) -> RecurringCycle | None:
        found = super().cycle(snapshot, pod)
        if found is None:
            self.seen["not valid"] += 1
            return found
        fresh = Snapshot.build(snapshot.objects)
        anew = Cycle(fresh, pod)
        fits = bool(anew.feasible.any())
        assert found.feasible.tolist() == anew.feasible.tolist()
        assert [found.fits_on(name) for name in fresh.rows] == anew.feasible.tolist()
        order = np.roll(np.arange(len(fresh.rows)), sum(self.seen.values()) % len(fresh.rows))
        sought, found_anew = found.find(order), anew.find(order)
        assert (sought.rows.tolist(), sought.evaluated) == (found_anew.rows.tolist(), found_anew.evaluated)
        if fits:
            self.seen["scored"] += self._scores_are_those(found, anew)
        else:
            assert found.rejection() == anew.rejection()
            assert found.ineligible_reason == anew.ineligible_reason
        if fits or found.ineligible_reason:
            self.seen["fits" if fits else "rejected"] += 1
            return found
        assert [*found.decision.best_nodes] == [*anew.decision.best_nodes]
        for name in found.decision.best_nodes:
            assert found.candidate_on(name) == anew.candidate_on(name)
        if not found.decision.best_nodes:
            assert found.unhelped() == anew.unhelped()
        self.seen["helped" if found.decision.best_nodes else "not helped"] += 1
        self.seen["nominated"] += bool(pod.nominated_node_name)
        self.seen["constrained"] += found.constrained
        self.seen["constrained and helped"] += found.constrained and bool(found.decision.best_nodes)
        self.seen["with storage"] += pod.spec.has_storage
        return found

    def _scores_are_those(self, kept: RecurringCycle, anew: Cycle) -> bool:
        """Of sums that go on from snapshot to snapshot."""
        rows = np.flatnonzero(anew.feasible)
        with anew.snapshot.derived.locked():
            assert kept.scores(rows).tolist() == anew.scores(rows).tolist()
        return len(rows) > 1


def test_it_is_what_a_cycle_anew_comes_to(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(simulated_cycle, "MIN_FEASIBLE_NODES", 0)
    seen: Counter[str] = Counter()
    for number in range(3):
        cache = crowded(f"{SEED} recurring {number}")
        question = questions.zone_lost(cache.snapshot(), "abc"[number])
        simulation = Simulation(world_of(cache, question.arrivals, until=250.0), random.Random(number))
        watched = simulation.scheduler.algorithm.recurring = Watched()
        simulation.run()
        seen += watched.seen
    assert seen["helped"] > 5, seen
    assert seen["not helped"] > 20, seen
    assert seen["rejected"] > 5, seen
    for constrained in ("constrained", "constrained and helped", "with storage"):
        assert seen[constrained], seen


def test_scores_go_on_from_cycle_to_cycle(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(simulated_cycle, "MIN_FEASIBLE_NODES", 0)
    simulation = Simulation(bench_simulation.rollout(8, 6, 30))
    watched = simulation.scheduler.algorithm.recurring = Watched()
    simulation.run()
    assert watched.seen["scored"] > 20, watched.seen


@pytest.mark.parametrize("seed", [None, 3])
def test_a_simulation_is_the_same_without(seed: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(simulated_cycle, "MIN_FEASIBLE_NODES", 0)
    cache = crowded(f"{SEED} recurring the same")
    question = questions.zone_lost(cache.snapshot(), "b")

    def outcome() -> dict[str, Any]:
        world = world_of(cache, question.arrivals, until=250.0)
        simulation = Simulation(world, None if seed is None else random.Random(seed))
        simulation.run()
        return Outcome(simulation).to_dict()

    found = outcome()
    monkeypatch.setattr(RecurringCycles, "cycle", lambda *_: None)
    assert outcome() == found


def test_a_simulation_of_few_nodes_is_the_same_in_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    decided, at_once = Counter[bool](), SchedulingAlgorithm._common_result

    def counted(self: SchedulingAlgorithm, snapshot: Snapshot, pod: Pod) -> Fits | Rejected | None:
        found = at_once(self, snapshot, pod)
        decided[found is not None] += 1
        return found

    def outcome(cache: DumpCache) -> dict[str, Any]:
        question = questions.zone_lost(cache.snapshot(), "b")
        simulation = Simulation(world_of(cache, question.arrivals, until=250.0))
        simulation.run()
        return Outcome(simulation).to_dict()

    for seed in range(cases(6)):
        cache = crowded(f"{SEED} recurring few {seed}")
        monkeypatch.setattr(SchedulingAlgorithm, "_common_result", lambda *_: None)
        expected = outcome(cache)
        monkeypatch.setattr(SchedulingAlgorithm, "_common_result", counted)
        assert outcome(cache) == expected
    assert decided[True] > cases(100), decided


def test_pods_without_columns_get_the_first_good_nodes_of_a_large_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    """kube-scheduler stops its search after 100 feasible nodes, whichever way the plugins run."""

    def bound() -> dict[str, str]:
        cache = DumpCache()
        for obj in objects(Size(nodes=150, pods_per_node=6, workloads=14, pdbs=6)):
            cache.add(obj)
        new = [make_pod(f"new-{number}").request(cpu="1", memory="1Gi").obj for number in range(60)]
        arrivals = [Arrival(1.0 + number, "create", obj) for number, obj in enumerate(new)]
        simulation = Simulation(world_of(cache, arrivals, until=100.0))
        simulation.run()
        return {e["pod"]: e["node"] for e in Outcome(simulation).to_dict()["timeline"] if e["event"] == "scheduled"}

    expected = bound()
    assert len(set(expected.values())) > 20
    monkeypatch.setattr(SchedulingAlgorithm, "_common_result", lambda *_, **__: None)
    assert bound() == expected


def test_default_spread_constraints_depend_on_the_labels_of_a_pod() -> None:
    """Pods with equal specs share results, but the Service of only one of them selects it."""
    spread = {"maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "DoNotSchedule"}
    default = {"defaultingType": "List", "defaultConstraints": [spread]}
    service = Made("v1", "Service", "web").spec(selector={"app": "web"})
    nodes = make_node("n1").has(cpu="4"), make_node("n2").has(cpu="4")
    running = make_pod("web-0").label("app", "web").on("n1")
    meant = semantics(config({"pluginConfig": args(PodTopologySpread=default)}))
    snapshot = cluster_of_profile(meant, service, *nodes, running)
    alone, web = (admitted(pod.obj, snapshot) for pod in (make_pod("p"), make_pod("web-1").label("app", "web")))
    assert alone.spec is web.spec
    scheduling, cycles = snapshot.scheduling, RecurringCycles()
    with scheduling.derived.locked():
        cycles.cycle(scheduling, alone)
        assert cycles.cycle(scheduling, web) is None, "n1 is feasible without the spread constraint"
    assert Prediction(scheduling, web).feasible == ["n2"]


@pytest.mark.parametrize(
    ("limit", "expected"), [(1, "exceed max volume count"), (2, "PersistentVolume's node affinity")]
)
def test_a_volume_in_another_zone_rejects_a_node_below_its_limit_of_volumes(limit: int, expected: str) -> None:
    """NodeVolumeLimits runs before VolumeBinding."""
    node = make_node("n").has(cpu="4").zone("a")
    drivers = [{"name": "disks", "nodeID": "n", "allocatable": {"count": limit}}]
    storage = [made for name, zone in (("here", "a"), ("away", "b")) for made in disk(name, zone)]
    running, new = (
        make_pod(name).request(cpu="1").spec(volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": name}}])
        for name in ("here", "away")
    )
    csi_node = Made("storage.k8s.io/v1", "CSINode", "n").spec(drivers=drivers)
    snapshot = cluster(node, csi_node, *storage, running.on("n"))
    scheduling, pod = snapshot.scheduling, admitted(new.obj, snapshot)
    with scheduling.derived.locked():
        found, anew = RecurringCycles().cycle(scheduling, pod), Cycle(scheduling, pod)
        assert (found is not None) is (limit == 2), "else the plugin runs on the node"
        for cycle in (found or anew, anew):
            assert [expected in reason for reason in cycle.rejection()[1]] == [True]
        assert (found or anew).unhelped() == anew.unhelped()


def disk(name: str, zone: str) -> list[Made]:
    """A claim, bound to a CSI volume of a zone."""
    claim = Made("v1", "PersistentVolumeClaim", name, "default")
    terms = [{"matchExpressions": [{"key": "topology.kubernetes.io/zone", "operator": "In", "values": [zone]}]}]
    affinity = {"required": {"nodeSelectorTerms": terms}}
    csi = {"driver": "disks", "volumeHandle": name}
    volume = Made("v1", "PersistentVolume", name).spec(
        csi=csi, nodeAffinity=affinity, claimRef={"name": name, "namespace": "default"}
    )
    bound = {"pv.kubernetes.io/bind-completed": "yes"}
    return [claim.spec(volumeName=name).metadata(annotations=bound).status(phase="Bound"), volume]


PACKED = config(
    {
        "plugins": {"score": point(("NodeResourcesFit", 5), disabled=("ImageLocality",))},
        "pluginConfig": args(NodeResourcesFit={"scoringStrategy": {"type": "MostAllocated"}}),
    }
)


@pytest.mark.parametrize("meant", [Semantics(34), Semantics(35), semantics(PACKED)])
def test_a_simulation_of_a_release_or_profile_is_that_of_plugins_asked_node_by_node(
    meant: Semantics, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(simulated_cycle, "MIN_FEASIBLE_NODES", 0)
    decided = Counter[bool]()
    at_once = SchedulingAlgorithm._common_result

    def counted(self: SchedulingAlgorithm, snapshot: Snapshot, pod: Pod) -> Fits | Rejected | None:
        found = at_once(self, snapshot, pod)
        decided[found is not None] += 1
        return found

    def outcome() -> dict[str, Any]:
        cache = crowded(f"{SEED} recurring of a release")
        cache.semantics = meant
        question = questions.zone_lost(cache.snapshot(), "b")
        simulation = Simulation(world_of(cache, question.arrivals, until=250.0))
        simulation.run()
        found = Outcome(simulation).to_dict()
        for event in found["timeline"]:  # of preemption that helps nowhere, columns do not list the reasons
            if "message" in event:
                event["message"] = event["message"].partition(" preemption: 0/")[0]
        return found

    monkeypatch.setattr(SchedulingAlgorithm, "_common_result", counted)
    found = outcome()
    assert decided[True] > 50 * decided[False], decided
    monkeypatch.setattr(SchedulingAlgorithm, "_common_result", lambda *_: None)
    assert outcome() == found


class Walked(RecurringCycles):
    """Holds each decision in columns, with constraints and nominated pods, to the plugins asked node by node."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: Counter[str] = Counter()

    def cycle(self, snapshot: Snapshot, pod: Pod) -> None:
        fresh = Snapshot.build(snapshot.objects)
        try:
            cycle = Cycle(fresh, pod)
            with fresh.derived.locked():
                feasible = {name for name, row in fresh.rows.items() if cycle.feasible[row]}
                rejection, reason = (None, "") if feasible else (cycle.rejection(), cycle.ineligible_reason)
                best = [] if feasible or reason else [*cycle.decision.best_nodes]
                unhelped = None if feasible or reason or best else cycle.unhelped()
        except NotValid:
            self.seen["not valid"] += 1
            return
        with node_by_node():
            prediction = Prediction(Snapshot.build(snapshot.objects), pod, reasons=True)
            assert feasible == set(prediction.feasible)
            if rejection is not None:
                statuses = prediction.rejection.statuses
                reasons = Counter(reason for status in statuses for reason in status.reasons)
                assert rejection == (prediction.rejection.plugins, reasons)
                assert reason == prediction.preemption.ineligible_reason
                if not reason:
                    assert best == [candidate.node_name for candidate in prediction.preemption.best_candidates]
                if unhelped is not None:
                    assert unhelped == prediction.preemption.reasons(len(fresh.rows))
        constrained = any(demand.constraint is not None for demand in cycle.node_fit.demands)
        self.seen["constrained"] += constrained
        self.seen["constrained and nominated"] += constrained and bool(pod.nominated_node_name)
        self.seen["rejected"] += rejection is not None
        self.seen["helped"] += bool(best)
        self.seen["unhelped"] += unhelped is not None


def test_cycles_in_columns_are_those_of_plugins_asked_node_by_node(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(simulated_cycle, "MIN_FEASIBLE_NODES", 0)
    seen: Counter[str] = Counter()
    for number in range(cases(8)):
        cache = crowded(f"{SEED} in columns {number}")
        question = questions.zone_lost(cache.snapshot(), "abc"[number % 3])
        simulation = Simulation(world_of(cache, question.arrivals, until=100.0), random.Random(number))
        walked = simulation.scheduler.algorithm.recurring = Walked()
        simulation.run()
        seen += walked.seen
    assert seen["constrained"] > cases(100), seen
    assert seen["constrained and nominated"] > cases(10), seen
    assert seen["helped"] > cases(20), seen
    assert seen["unhelped"] > cases(20), seen


def test_nominations_are_kept_up_as_if_they_were_made_anew() -> None:
    """Pods are nominated, to other nodes too, and lose their nominations, in any order and many between two looks."""
    rng = random.Random(f"{SEED} nominations")
    names = [f"n{number}" for number in range(9)]
    bare = cluster(*(make_node(name) for name in names)).scheduling
    matrix, table, places = pod_matrix_of(bare), Table[str, tuple[Pod, ...]](), dict[str, str]()
    pods = {
        f"p{n}": predict(cluster(), make_pod(f"p{n}").priority(rng.choice((1, 5))).request(cpu=f"{n}m").obj).pod
        for n in range(30)
    }
    kept = Nominations(matrix)
    for _ in range(200):
        for name in rng.sample(sorted(pods), rng.randint(0, 3)):
            if name in places:
                left = tuple(pod for pod in table.get(places[name]) or () if pod.name != name)
                table.put(places[name], left) if left else table.pop(places[name])
                del places[name]
            if rng.random() < 0.6:
                places[name] = node = rng.choice([*names, "gone"])
                table.put(node, (*(table.get(node) or ()), replace(pods[name], nominated_node_name=node)))
        snapshot = bare.with_node_infos(replace(bare.objects, nominated=table.freeze()), {})
        anew = Nominations(matrix)
        for each in (kept, anew):
            each.sync(snapshot)
        for priority in (0, 2, 6):
            assert kept.amounts(priority).tolist() == anew.amounts(priority).tolist()
            assert sorted(zip(*kept.columns(priority), strict=True)) == sorted(
                zip(*anew.columns(priority), strict=True)
            )
        assert [kept.nomination_of(pod) for pod in pods.values()] == [anew.nomination_of(pod) for pod in pods.values()]
        there = sum(node != "gone" for node in places.values())
        assert (bool(kept), len(kept.columns(0)[0])) == (there > 0, there)
