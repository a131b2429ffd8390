"""How long audit, headroom and whatif take on a large cluster: 600 Deployments that fill its nodes.

python -m tests.benchmarks.bench_owners [--nodes 5000] [--losses 100] [--room] [QUESTION]

QUESTION: audit, round, headroom, spread, node, zone, losses, in-turn. `spread`: headroom of pods with constraints.

`--room`: nodes twice as large, so that all that is lost with a zone finds a place and nobody is pushed out.
"""

from __future__ import annotations

import argparse
import gc
import resource
import time
from collections import Counter
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Final

from forewarn.policies.kubernetes.scheduling.bulk import prepare_for_all
from forewarn.policies.linting.config.model import Config
from forewarn.policies.linting.evaluation.evaluator import audit, audit_request
from forewarn.policies.prediction.simulation.scenario import DumpCache, world_of
from forewarn.policies.prediction.simulation.simulation import Simulation
from forewarn.policies.questions.whatif import questions
from forewarn.policies.questions.whatif.autoscalers import NO_GROUPS
from forewarn.policies.questions.whatif.comparison import ask
from forewarn.policies.questions.whatif.headroom import headroom
from forewarn.policies.questions.whatif.sweep import Tally, counted
from forewarn.webhook.controllers.replica import scan
from tests.benchmarks.clusters import Size, container, objects

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.benchmarks.clusters import Obj


ZONE: Final = "topology.kubernetes.io/zone"
HOSTNAME: Final = "kubernetes.io/hostname"
ROOM: Final = {"cpu": "32", "memory": "128Gi"}
"""What nodes have where there is room."""


APP: Final = {"app": "new"}


def over(*keys: str) -> dict[str, object]:
    """Spread as evenly as can be."""
    every = {"maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {"matchLabels": APP}}
    return {"topologySpreadConstraints": [{"topologyKey": key, **every} for key in keys]}


def kept_apart(key: str) -> dict[str, object]:
    """No two in one domain."""
    terms = [{"topologyKey": key, "labelSelector": {"matchLabels": APP}}]
    return {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}}


CONSTRAINTS: Final = {
    "alone": {},
    "spread over zones": over(ZONE),
    "spread over zones and nodes": over(ZONE, HOSTNAME),
    "apart by zone": kept_apart(ZONE),
    "apart by node": kept_apart(HOSTNAME),
}


def filled(nodes: int, *, room: bool = False, apart: bool = False) -> DumpCache:
    """A cluster with a Deployment for each workload. `room`: for half as many pods more; `apart`: its pods prefer to be
    on different nodes, in different zones."""
    cache, templates, counts = DumpCache(), dict[tuple[str, str], "Obj"](), Counter[tuple[str, str]]()
    for obj in objects(Size(nodes)):
        if room and obj["kind"] == "Node":
            obj["status"]["allocatable"].update(ROOM)
        if apart and obj["kind"] == "Pod":
            obj["spec"]["affinity"] = prefers_others(obj["metadata"]["labels"]["app"])
        cache.add(obj)
        if obj["kind"] == "Pod":
            key = obj["metadata"]["namespace"], obj["metadata"]["labels"]["app"]
            templates.setdefault(key, obj["spec"])
            counts[key] += 1
    for (namespace, app), spec in templates.items():
        labels = {"app": app}
        template = {"metadata": {"labels": labels}, "spec": {k: v for k, v in spec.items() if k != "nodeName"}}
        made = {"replicas": counts[namespace, app], "selector": {"matchLabels": labels}, "template": template}
        metadata = {"name": app, "namespace": namespace}
        cache.add({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": made})
    return cache


def prefers_others(app: str) -> Obj:
    """The affinity of a pod that prefers nodes and zones without pods of this label."""
    terms = [
        {"weight": weight, "podAffinityTerm": {"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}}}
        for key, weight in (("kubernetes.io/hostname", 100), ("topology.kubernetes.io/zone", 50))
    ]
    return {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": terms}}


def measured(name: str, ask_it: Callable[[], str]) -> None:
    """Print what it came to, and the seconds of processor that it took."""
    started = time.process_time()
    told = ask_it()
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    print(f"{name}: {time.process_time() - started:.1f} s of processor; {told}; {memory} MB")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("what", nargs="*", default=["audit", "headroom", "node"])
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--losses", type=int, default=100, help="how many nodes are lost, each alone")
    parser.add_argument("--room", action="store_true", help="nodes that have room for what is lost with a zone")
    parser.add_argument("--share", type=float, default=1.0, help="of a core, for a round of the webhook's audit")
    parser.add_argument("--seconds", type=float, default=420.0, help="by the clock, for that round")
    options = parser.parse_args()
    started = time.process_time()
    cache = filled(options.nodes, room=options.room)
    cluster = cache.snapshot()
    print(f"{options.nodes} nodes, {len(cluster.pods)} pods read in {time.process_time() - started:.1f} s of processor")

    def audited() -> str:
        return f"{len(audit(audit_request(cluster, Config(), datetime.now(UTC))))} findings"

    def looked() -> str:
        """As the webhook's audit does it, in the time that it has."""
        found = scan(cluster, Config(), time.monotonic() + options.seconds, options.share)
        ended = "whole" if found.is_complete else "cut short"
        return f"{sum(found.counts.values())} findings, {ended}; share {options.share}"

    def room(**constraints: object) -> str:
        spec = {"priority": 5000, "containers": [container("c", "500m", "1Gi")], **constraints}
        metadata = {"name": "new", "labels": APP}
        found = headroom(cluster, {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
        return f"{found.without.pods} without preemption, {found.preempting.pods} with it"

    def spread() -> str:
        told = []
        for name, constraints in CONSTRAINTS.items():
            started = time.process_time()
            told.append(f"{name} {room(**constraints)}, {time.process_time() - started:.2f} s")
        return "; ".join(told)

    def what_if(question: questions.Question) -> str:
        after = ask(question, world_of(cache, question.arrivals, until=3600.0)).after
        return f"{question.title}; preempted {len(after.preempted)}, settled after {after.summary.steady_at:.0f} s"

    def lose() -> str:
        names = [f"n{number:05}" for number in range(options.losses)]
        asked = [questions.nodes_lost(cluster, [name]) for name in names]
        began = time.monotonic()
        found = list(counted(world_of(cache, [], until=3600.0), asked, partial(Tally, autoscaling=NO_GROUPS)))
        took = time.monotonic() - began
        forks = resource.getrusage(resource.RUSAGE_CHILDREN)
        each = (forks.ru_utime + forks.ru_stime) / max(len(found), 1)
        lost = sum(bool(each.row.lost) for each in found)
        return f"{len(found)} nodes lost, each alone in {each:.2f} s; {took:.0f} s by the clock; {lost} not survived"

    def in_turn() -> str:
        """Without forks: each loss finds the cluster as those before it have left it."""
        simulation = Simulation(world_of(cache, [], until=3600.0))
        simulation.begin()
        simulation.run_first_syncs()
        prepare_for_all(simulation.cache.snapshot())
        asked = [questions.nodes_lost(cluster, [f"n{number:05}"]) for number in range(options.losses)]
        gc.collect()
        gc.freeze()  # as before forks: a round of the collector over the cluster takes longer than ten losses
        began = time.process_time()
        for question in asked:
            simulation.expect(question.arrivals)
            simulation.run()
        each = (time.process_time() - began) / options.losses
        return f"{options.losses} nodes lost one after the other, each in {each:.3f} s"

    asked: dict[str, Callable[[], str]] = {
        "in-turn": in_turn,
        "audit": audited,
        "headroom": room,
        "losses": lose,
        "spread": spread,
        "round": looked,
        "node": lambda: what_if(questions.nodes_lost(cluster, ["n00001"])),
        "zone": lambda: what_if(questions.zone_lost(cluster, "a")),
    }
    for name in options.what:
        measured(name, asked[name])


if __name__ == "__main__":
    main()
