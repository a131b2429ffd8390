"""What `forewarn whatif lose` predicts with Karpenter's nodes is what Karpenter, with its kwok provider, then does.

Random clusters of three zones whose nodes Karpenter itself has launched. A zone or a few nodes are lost: their Nodes
and NodeClaims are deleted, and a lost zone has no offerings. LOSSES says how many there are, SEED which ones, FIRST the
number of the first one, a multiple of A_CLUSTER, and EVIDENCE names a directory for the snapshot, the answer and what
was seen. The end counts: new nodes by NodePool and instance type, and by workload the Pods that run and those that are
Pending. Pods of equal priority race for nodes, and Karpenter takes Pods of equal size by random UIDs, so the end has to
be that of `forewarn whatif`, or that of one of RUNS simulations with another order.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import time
from collections import Counter
from contextlib import contextmanager, suppress
from itertools import pairwise
from signal import SIGCONT, SIGSTOP
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pytest

from forewarn.policies.prediction.autoscaling.karpenter.instance_types import read_instance_types
from forewarn.policies.prediction.simulation.simulation import Simulation
from forewarn.policies.questions.application.changes import LoseNodes, LoseZone, Start
from forewarn.policies.questions.application.cluster import load, with_node_groups
from forewarn.policies.questions.application.places import Places
from forewarn.policies.questions.application.simulated import world_with
from forewarn.policies.questions.whatif.autoscalers import Autoscaling
from forewarn.policies.questions.whatif.karpenter import KarpenterRounds
from tests.e2e.api import Refused, identity
from tests.e2e.build import KARPENTER, binaries
from tests.e2e.control_plane import answers
from tests.e2e.graceful_kubelet import GracefulKubelets, workload_of
from tests.e2e.living import CLASSES, CONTROLLERS, NAMESPACE, RUNS, ZONE, apart, clear, forewarn, keep, made
from tests.e2e.objects import container, node
from tests.e2e.processes import free_ports
from tests.e2e.random_cases import SEED
from tests.e2e.truth import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from forewarn.policies.questions.application.changes import Change
    from tests.e2e.api import Api, Obj
    from tests.e2e.control_plane import ControlPlane
    from tests.e2e.staging import Stage

pytestmark = [pytest.mark.e2e, pytest.mark.whole]

LOSSES = int(os.environ.get("LOSSES", "4"))
FIRST = int(os.environ.get("FIRST", "0"))
A_CLUSTER: Final = 4
QUIET: Final = 15
"""Seconds without an event at the end: more than kube-scheduler's longest back-off and Karpenter's batch, 10 s."""
NODE_DELAY: Final = 4
"""Seconds until nodes are ready, about: those of the KWOKNodeClass, and what Karpenter and the kubelets need."""
ZONES: Final = ("zone-a", "zone-b", "zone-c")
CPUS: Final = (2, 4, 8)
POOL: Final = "karpenter.sh/nodepool"
CAPACITY_TYPE: Final = "karpenter.sh/capacity-type"
INSTANCE_TYPE: Final = "node.kubernetes.io/instance-type"
NOT_READY: Final = "node.kubernetes.io/not-ready"


class Offering(NamedTuple):
    """Where an instance type is offered, and at which price; no two prices are equal."""

    zone: str
    capacity_type: str
    price: float


InstanceTypes = dict[int, list[Offering]]
"""By their number of cores."""


def instance_types(rng: random.Random) -> InstanceTypes:
    def offering(cpu: int, zone: str, capacity_type: str) -> Offering:
        return Offering(zone, capacity_type, cpu * (2 if capacity_type == "spot" else 5) * rng.uniform(0.9, 1.1))

    return {cpu: [offering(cpu, zone, kind) for zone in ZONES for kind in ("spot", "on-demand")] for cpu in CPUS}


def capacity(cpu: int) -> dict[str, str]:
    return {"cpu": str(cpu), "memory": f"{4 * cpu}Gi", "pods": "30"}


def for_karpenter(types: InstanceTypes, lost: str = "") -> list[Obj]:
    """The file that the kwok provider reads."""
    return [
        {
            "name": f"m-{cpu}x",
            "architecture": "amd64",
            "operatingSystems": ["linux"],
            "resources": capacity(cpu),
            "offerings": [
                {
                    "Price": each.price,
                    "Available": True,
                    "Requirements": [
                        {"key": ZONE, "operator": "In", "values": [each.zone]},
                        {"key": CAPACITY_TYPE, "operator": "In", "values": [each.capacity_type]},
                    ],
                }
                for each in offerings
                if each.zone != lost
            ],
        }
        for cpu, offerings in types.items()
    ]


def for_forewarn(types: InstanceTypes) -> list[Obj]:
    """The file of `--instance-types`. The kwok provider reserves the overhead on each node."""
    return [
        {
            "name": f"m-{cpu}x",
            "capacity": capacity(cpu),
            "overhead": {"cpu": "100m", "memory": "10Mi"},
            "requirements": {
                "kubernetes.io/arch": "amd64",
                "kubernetes.io/os": "linux",
                "karpenter.kwok.sh/instance-size": str(cpu),
                "karpenter.kwok.sh/instance-family": "m",
                "karpenter.kwok.sh/instance-cpu": str(cpu),
                "karpenter.kwok.sh/instance-memory": f"{4 * cpu}Gi",
            },
            "offerings": [
                {"zone": o.zone, "capacityType": o.capacity_type, "price": o.price, "available": True}
                for o in offerings
            ],
        }
        for cpu, offerings in types.items()
    ]


class Kubelets(GracefulKubelets):
    """Those of Karpenter's nodes too, which register and become ready; Nodes count as part of the shape."""

    def turn(self) -> None:
        for each in self._api.list("Node"):
            with suppress(Refused):  # Karpenter changes it too
                self._boot(each)
        super().turn()

    def _boot(self, each: Obj) -> None:
        ready = any(c["type"] == "Ready" for c in each["status"].get("conditions", ()))
        taints = each["spec"].get("taints", [])
        if "deletionTimestamp" in each["metadata"] or not each["spec"].get("providerID"):
            return
        if not ready:
            size = each["metadata"]["labels"][INSTANCE_TYPE].removeprefix("m-").removesuffix("x")
            conditions = [{"type": "Ready", "status": "True", "reason": "KubeletReady"}]
            self._api.patch(each, {"status": {"conditions": conditions, "capacity": capacity(int(size))}}, "status")
            self.changed = time.monotonic()
        elif any(taint["key"] == NOT_READY for taint in taints):
            each["spec"]["taints"] = [taint for taint in taints if taint["key"] != NOT_READY]
            self._api.replace(each)
            self.changed = time.monotonic()


class Karpenter(NamedTuple):
    """The real one, and what it launches nodes of."""

    plane: ControlPlane
    api: Api
    kubelets: Kubelets
    file: Path

    def offer(self, types: InstanceTypes, lost: str = "") -> None:
        part = self.file.with_suffix(".part")
        part.write_text(json.dumps(for_karpenter(types, lost)))
        part.rename(self.file)
        self.kubelets.changed = time.monotonic()

    def settled(self) -> None:
        """Wait until nothing changes, no Pod terminates, and all NodeClaims are initialized."""
        self.kubelets.changed = time.monotonic()

        def is_quiet() -> bool:
            self.plane.processes.assert_alive("karpenter")
            if time.monotonic() - self.kubelets.changed <= QUIET or self.kubelets.stranded:
                return False
            ending = any(ending for _, _, ending, _ in self.kubelets.shape)
            return not ending and all(map(is_initialized, self.api.list("NodeClaim")))

        wait_until(is_quiet, 600, "nothing changes")

    def lose(self, lost: Sequence[Obj]) -> None:
        """Delete Nodes and their NodeClaims at once, as others see it; the Pod garbage collector deletes their Pods."""
        names = {each["metadata"]["name"] for each in lost}
        claims = [each for each in self.api.list("NodeClaim") if each["status"].get("nodeName") in names]
        others = ("karpenter", "kube-scheduler", "kube-controller-manager")
        for name in others:
            self.plane.processes.signal(name, SIGSTOP)
        for each in (*claims, *lost):
            with suppress(Refused):
                self.api.delete(each)
                self.api.patch(each, {"metadata": {"finalizers": None}})
        for name in others:
            self.plane.processes.signal(name, SIGCONT)


def is_initialized(claim: Obj) -> bool:
    conditions = claim.get("status", {}).get("conditions", ())
    return any(c["type"] == "Initialized" and c["status"] == "True" for c in conditions)


@contextmanager
def karpenter_of(plane: ControlPlane, api: Api) -> Iterator[Karpenter]:
    program, home = binaries(KARPENTER) / "karpenter", plane.home / "karpenter"
    home.mkdir()
    for crd in json.loads(subprocess.run([program, "crds"], check=True, capture_output=True).stdout):
        api.create(crd)
    wait_until(lambda: is_served(api), 60, "the API server serves NodePools")
    plane.start_controllers(*(f"{name}-controller" for name in CONTROLLERS))
    kubelets = Kubelets(api)
    kubelets.start()
    running = Karpenter(plane, api, kubelets, home / "instance-types.json")
    running.offer(instance_types(random.Random(SEED)))
    metrics, health = free_ports(2)
    environment = {
        "KUBECONFIG": str(plane.kubeconfig()),
        "METRICS_PORT": str(metrics),
        "HEALTH_PROBE_PORT": str(health),
        "DISABLE_LEADER_ELECTION": "true",
        "INSTANCE_TYPES_FILE_PATH": str(running.file),
        "LOG_LEVEL": "debug",
    }
    plane.processes.start("karpenter", [str(program)], environment)
    plane.processes.wait_for("karpenter", lambda: answers(f"http://127.0.0.1:{health}/readyz"), 120)
    yield running
    plane.processes.stop("karpenter")
    kubelets.stop()
    plane.processes.stop("kube-controller-manager")


def is_served(api: Api) -> bool:
    try:
        return not any(api.list(kind) for kind in ("NodePool", "NodeClaim", "KWOKNodeClass"))
    except Refused:
        return False


@pytest.fixture(scope="module")
def karpenter(plane: ControlPlane, api: Api) -> Iterator[Karpenter]:
    with karpenter_of(plane, api) as running:
        yield running


def node_pool(name: str, requirements: dict[str, Sequence[str]], **spec: Any) -> Obj:
    """A NodePool that never replaces its nodes. `spec`: of the NodePool, and taints of its nodes."""
    template: Obj = {
        "nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"},
        "requirements": [{"key": key, "operator": "In", "values": [*values]} for key, values in requirements.items()],
        "expireAfter": "Never",
    }
    if "taints" in spec:
        template["taints"] = spec.pop("taints")
    disruption = {"consolidateAfter": "Never", "budgets": [{"nodes": "0"}]}
    return {**identity("NodePool", name), "spec": {"template": {"spec": template}, "disruption": disruption, **spec}}


AGENT: Final = f"{NAMESPACE}/agent"
"""The DaemonSet; it has no row of its own in an answer, but is part of all Pods."""
ALL: Final = "Pods"
BATCH: Final = {"key": "batch", "value": "yes", "effect": "NoSchedule"}


def node_pools(rng: random.Random) -> list[Obj]:
    """One for all Pods, and sometimes one for a few."""
    small = [f"m-{cpu}x" for cpu in rng.choice((CPUS[:2], CPUS[:2], CPUS))]
    kinds = rng.choice((("spot",), ("on-demand",), ("spot", "on-demand")))
    pools = [node_pool("general", {INSTANCE_TYPE: small, CAPACITY_TYPE: kinds})]
    if rng.random() < 0.5:
        pools.append(node_pool("batch", {INSTANCE_TYPE: small[:2], CAPACITY_TYPE: ["spot"]}, taints=[BATCH], weight=10))
    if rng.random() < 0.4:
        pools.append(node_pool("reserve", {ZONE: rng.sample(ZONES, 2), INSTANCE_TYPE: small}, weight=5))
    return pools


def workload(name: str, rng: random.Random, pools: Sequence[str], class_: str) -> Obj:
    obj = made(rng.choice(("Deployment", "Deployment", "StatefulSet")), name, rng, class_)
    obj["spec"]["replicas"] = rng.randint(2, 6)
    template = obj["spec"]["template"]
    drawn = rng.random()
    if drawn < 0.3:
        template["spec"] |= spread_over_zones(
            template["metadata"]["labels"], rng.choice(("DoNotSchedule", "ScheduleAnyway"))
        )
    elif drawn < 0.5:
        template["spec"] |= apart(template["metadata"]["labels"], rng)
    if "batch" in pools and rng.random() < 0.4:
        template["spec"]["tolerations"] = [{**BATCH, "operator": "Equal"}]
        if rng.random() < 0.5:
            template["spec"]["nodeSelector"] = {POOL: "batch"}
    return obj


def spread_over_zones(labels: dict[str, str], otherwise: str) -> Obj:
    selector = {"matchLabels": labels}
    return {
        "topologySpreadConstraints": [
            {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": otherwise, "labelSelector": selector}
        ]
    }


def build(karpenter: Karpenter, stage: Stage, rng: random.Random) -> list[Obj]:
    """A cluster for which Karpenter has launched nodes; returns the NodePools."""
    api, pools = karpenter.api, node_pools(rng)
    names = [pool["metadata"]["name"] for pool in pools]
    for each in ({**identity("KWOKNodeClass", "default"), "spec": {"nodeRegistrationDelay": "3s"}}, *pools):
        api.create(each)
    for number in range(rng.randint(0, 2)):
        fixed = node(f"fixed-{number}", cpu="4")
        fixed["metadata"]["labels"][ZONE] = rng.choice(ZONES)
        stage.node(fixed)
    for number in range(rng.randint(6, 9)):
        class_ = rng.choice([*CLASSES])
        obj = workload(f"w-{number}", rng, names, class_)
        api.create(obj)
        if rng.random() < 0.4:
            budget = {"minAvailable": 1, "selector": obj["spec"]["selector"]}
            api.create({**identity("PodDisruptionBudget", f"w-{number}", NAMESPACE), "spec": budget})
    daemons = made("DaemonSet", "agent", rng, rng.choice(("", "high")))
    daemons["spec"].pop("replicas")
    daemons["spec"].pop("strategy", None)
    daemons["spec"]["template"]["spec"]["containers"] = [container("100m")]
    daemons["spec"]["template"]["spec"]["tolerations"] = [{"operator": "Exists"}]
    api.create(daemons)
    karpenter.settled()
    for pool in api.list("NodePool"):
        if rng.random() < 0.6:
            used = int(pool.get("status", {}).get("resources", {}).get("cpu", "0"))
            api.patch(pool, {"spec": {"limits": {"cpu": str(max(used + rng.choice((-4, -2, 0, 0, 2)), 0))}}})
    return pools


def pods_of(api: Api) -> tuple[Counter[str], Counter[str]]:
    """Running and Pending Pods by workload."""
    pods = api.list("Pod", NAMESPACE)
    running = Counter(workload_of(pod) for pod in pods if pod["spec"].get("nodeName"))
    pending = Counter(workload_of(pod) for pod in pods if not pod["spec"].get("nodeName"))
    return running + Counter({ALL: running.total()}), pending


class End(NamedTuple):
    """New nodes by NodePool and instance type, and running and Pending Pods by workload."""

    nodes: frozenset[tuple[str, int]]
    running: frozenset[tuple[str, int]]
    pending: frozenset[tuple[str, int]]

    @classmethod
    def of(cls, nodes: dict[str, int], running: dict[str, int], pending: dict[str, int]) -> End:
        return cls(*(frozenset((+Counter(counts)).items()) for counts in (nodes, running, pending)))

    @classmethod
    def predicted(cls, api: Api, answer: Obj) -> End:
        """As `forewarn whatif` sums it up; what it does not mention stays as it is now."""
        running, pending = pods_of(api)
        launches = answer["autoscalers"].get("nodePools", {}).get("launches", ())
        nodes = {f"{each['nodePool']} {each['instanceType']}": each["nodes"] for each in launches}
        after = [(w["workload"], w["running"]["after"], w["pending"]["after"]) for w in answer["workloads"]]
        arrived = answer.get("withNewNodes")
        if arrived:
            after = [(each["workload"], each["after"], each["pending"]) for each in arrived["workloads"]]
        for name, runs, waits in after:
            running[name], pending[name] = runs, waits
        running[ALL] = arrived["running"] if arrived else answer["running"]["after"]
        del running[AGENT]
        return cls.of(nodes, running, pending)

    @classmethod
    def simulated(cls, simulation: Simulation, rounds: KarpenterRounds) -> End:
        """The end of a simulation with Karpenter."""
        running, pending = Counter[str](), Counter[str]()
        for state in simulation.api.pods.values():
            counts = running if state.pod.node_name else pending
            counts[simulation.timeline.origins[state.pod.key].workload[1]] += 1
        running[ALL] = running.total()
        del running[AGENT]
        nodes = Counter(f"{pool} {node.labels[INSTANCE_TYPE]}" for (pool, node, _), _ in rounds.launched)
        return cls.of(nodes, running, pending)

    @classmethod
    def seen(cls, api: Api, before: set[str]) -> End:
        """What is there now. `before`: the nodes that were there before the loss."""
        labels = [n["metadata"]["labels"] for n in api.list("Node") if n["metadata"]["name"] not in before]
        running, pending = pods_of(api)
        del running[AGENT]
        return cls.of(Counter(f"{each[POOL]} {each[INSTANCE_TYPE]}" for each in labels), running, pending)

    def __str__(self) -> str:
        told = (", ".join(f"{count} {name}" for name, count in sorted(counts)) or "none" for counts in self)
        return "; ".join(f"{what}: {which}" for what, which in zip(("nodes", "running", "pending"), told, strict=True))


def possible_ends(dump: str, types: InstanceTypes, change: Change) -> tuple[Counter[End], int]:
    """The ends of RUNS simulations with random latencies, and Pods of equal priority or size in random order; and the
    most rounds of Karpenter that launch nodes in one of them.
    """
    cluster, ends, most = load(dump), Counter[End](), 0
    own = Autoscaling(instance_types=read_instance_types({"file": for_forewarn(types)}, "file"), node_delay=NODE_DELAY)
    autoscaling, cache = with_node_groups(own, cluster.cache, cluster.sources), cluster.cache.copy()
    question = change.question(Start(cache, autoscaling.groups, Places(), cluster.config.options))
    world, karpenter = world_with(cache, question.arrivals, 3600.0), autoscaling.after(question.lost).karpenter
    assert karpenter
    for number in range(RUNS):
        rng = random.Random(f"{SEED} run {number}")
        simulation = Simulation(world, rng)
        rounds = KarpenterRounds(simulation, karpenter, NODE_DELAY, rng)
        rounds.deliver()
        simulation.run()
        ends[End.simulated(simulation, rounds)] += 1
        most = max(most, rounds.launches)
    return ends, most


def launches_in(log: str) -> int:
    """The number of rounds of Karpenter that launched nodes."""
    what = [line for line in log.splitlines() if "computing scheduling decision" in line or "created nodeclaim" in line]
    return sum("computing" in one and "created" in other for one, other in pairwise(what))


def loss_of(api: Api, rng: random.Random) -> tuple[tuple[str, ...], list[Obj]]:
    """What `whatif lose` is asked, and the nodes that are lost."""
    nodes = sorted(api.list("Node"), key=lambda each: str(each["metadata"]["name"]))
    if rng.random() < 0.7:
        zone = rng.choice(sorted({each["metadata"]["labels"][ZONE] for each in nodes}))
        return ("zone", zone), [each for each in nodes if each["metadata"]["labels"][ZONE] == zone]
    some = rng.sample(nodes, rng.randint(1, max(1, len(nodes) // 3)))
    return ("node", *(each["metadata"]["name"] for each in some)), some


@pytest.mark.usefixtures("living_classes")
def test_nodes_that_karpenter_launches_after_a_loss(
    karpenter: Karpenter, api: Api, stage: Stage, tmp_path: Path
) -> None:
    kinds = Counter[str]()
    print(f"\ne2e: {LOSSES} losses, SEED={SEED}")
    for number in range(FIRST, FIRST + LOSSES):
        rng = random.Random(f"{SEED} loss {number}")
        if number % A_CLUSTER == 0 or number == FIRST:
            if number > FIRST:
                take_away(karpenter)
            types = instance_types(rng)
            karpenter.offer(types)
            (tmp_path / "types.json").write_text(json.dumps(for_forewarn(types)))
            build(karpenter, stage, rng)
        karpenter.settled()
        asked, lost = loss_of(api, rng)
        before = {each["metadata"]["name"] for each in api.list("Node")}
        dump = str(tmp_path / "cluster.json")
        forewarn(karpenter.plane, "snapshot", "-o", dump)
        files = ("--cluster", dump, "--instance-types", str(tmp_path / "types.json"), "--node-delay", str(NODE_DELAY))
        answer = forewarn(karpenter.plane, "whatif", "lose", *asked, *files, "-o", "json")
        (tmp_path / "answer.json").write_text(answer)
        expected = End.predicted(api, json.loads(answer))
        karpenter.kubelets.seen.clear()
        logged = len(karpenter.plane.processes.log("karpenter").read_text())
        karpenter.offer(types, lost=asked[1] if asked[0] == "zone" else "")
        karpenter.lose(lost)
        karpenter.settled()
        found = End.seen(api, before)
        what = f"{number}: {len(lost)} of {len(before)} nodes lost, {'a zone' if asked[0] == 'zone' else 'of any zone'}"
        log = karpenter.plane.processes.log("karpenter").read_text()[logged:]
        ends, most = possible_ends(dump, types, LoseZone(asked[1]) if asked[0] == "zone" else LoseNodes(asked[1:]))
        kind = kind_of(found, expected, ends, launches_in(log) - most)
        kinds[kind] += 1
        print(f"e2e: {what}: {kind}: {found}", "" if kind == EQUAL else f"predicted {expected}", flush=True)
        end = [each for kind in ("NodePool", "NodeClaim", "Node", "Pod", "Event") for each in api.list(kind)]
        (tmp_path / "end.json").write_text(json.dumps(end))
        (tmp_path / "karpenter.log").write_text(log)
        clock = f"wall clock minus these seconds: {time.time() - time.monotonic():.1f}"
        keep(tmp_path, f"karpenter-{SEED}-{number}", [what, str(found), str(expected), clock, *karpenter.kubelets.seen])
        karpenter.offer(types)
    take_away(karpenter)
    print(f"e2e: {LOSSES} losses: {dict(kinds)}")
    assert kinds[EQUAL] + kinds[RACE] >= 0.6 * LOSSES
    assert kinds[DIFFERENT] <= 0.1 * LOSSES


EQUAL, RACE, DIFFERENT = "as predicted", "race", "different"
BATCHES: Final = "more batches than in simulations"
"""Karpenter ends a batch if no Pod follows for a second: on a busy machine, Pods of one moment come in several batches,
each with its own nodes."""


def kind_of(found: End, expected: End, ends: Counter[End], more_launches: int) -> str:
    """Why the end is not the predicted one. `more_launches`: launching rounds, less the most of all simulations."""
    if found == expected:
        return EQUAL
    if found in ends:
        return RACE
    return BATCHES if more_launches > 0 else DIFFERENT


def take_away(karpenter: Karpenter) -> None:
    api = karpenter.api
    for kind in ("Deployment", "StatefulSet", "DaemonSet"):
        api.delete_all(kind, NAMESPACE)
    api.delete_all("NodePool")
    wait_until(lambda: not api.list("NodePool"), 120, "NodePools are gone")
    karpenter.lose(api.list("Node"))
    wait_until(lambda: not api.list("NodeClaim"), 300, "NodeClaims are gone")
    clear(api)
    api.delete_all("KWOKNodeClass")
