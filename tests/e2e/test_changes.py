"""What `forewarn simulate` foretells of a change is what the real scheduler and controllers then make of it.

Random small clusters with kube-controller-manager and kubelets that keep to grace periods; workloads are made, scaled,
given another class, and pods come, through the webhook. CHANGES says how many changes there are, SEED which ones, and
FIRST the number of the first one, a multiple of A_CLUSTER. EVIDENCE names a directory for the dump, the change, the
warnings and what was seen of every change: what is said of it can be asked again later. With QUOTAS=1 a tight
ResourceQuota is there too, and every change takes most of a minute, as controllers try again ever more seldom.
What pushed out whom counts by workload, for the names of pods are the controllers' own; so does who stays pending, and
whose pods a quota refuses.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
import time
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest

from tests.e2e.api import Refused, identity, path_of
from tests.e2e.graceful_kubelet import GracefulKubelets, workload_of
from tests.e2e.installation import NAMESPACE as OWN
from tests.e2e.objects import container, node, priority_class
from tests.e2e.random_cases import SEED
from tests.e2e.truth import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.e2e.api import Answer, Api, Obj
    from tests.e2e.control_plane import ControlPlane
    from tests.e2e.staging import Stage
    from tests.e2e.webhook import Webhook

pytestmark = [pytest.mark.e2e, pytest.mark.whole]

CHANGES = int(os.environ.get("CHANGES", "30"))
FIRST = int(os.environ.get("FIRST", "0"))
A_CLUSTER = 3
"""Changes that one cluster lives through."""
QUOTAS = bool(os.environ.get("QUOTAS"))
QUIET = 45 if QUOTAS else 13
"""Seconds in which nothing happens once all is over: more than kube-scheduler's longest back-off, 10 s; where a quota
refuses pods, what a controller waits that has tried for 40 s."""
RUNS = 24
NAMESPACE = "default"
CLASSES = {"": 0, "mid": 100, "high": 1000}
TOLD_BY = ("[preempts-running-pods]", "[rollout-preempts-itself]")
CONTROLLERS = ("deployment", "replicaset", "statefulset", "disruption", "garbage-collector", "resourcequota")


class Ending(NamedTuple):
    """What a change comes to: pods pushed out, those that stay pending, and those that a quota refuses, by workload."""

    pushed_out: frozenset[tuple[str, int]]
    pending: frozenset[tuple[str, int]]
    missing: frozenset[tuple[str, int]]

    @classmethod
    def of(cls, pushed_out: dict[str, int], pending: dict[str, int], missing: dict[str, int]) -> Ending:
        return cls(*(frozenset(counts.items()) for counts in (pushed_out, pending, missing)))

    def __str__(self) -> str:
        told = (", ".join(f"{count} of {name}" for name, count in sorted(counts)) or "nobody" for counts in self)
        return "; ".join(f"{what}: {who}" for what, who in zip(("pushed out", "pending", "missing"), told, strict=True))


def made(kind: str, name: str, rng: random.Random, class_: str) -> Obj:
    """A Deployment or StatefulSet of random size and grace."""
    spec: Obj = {
        "containers": [container(rng.choice(("500m", "1", "1500m", "2")))],
        "terminationGracePeriodSeconds": rng.randint(1, 4),
        **({"priorityClassName": class_} if class_ else {}),
    }
    labels = {"app": name}
    obj: Obj = {
        **identity(kind, name, NAMESPACE),
        "spec": {
            "replicas": rng.randint(1, 4),
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": spec},
        },
    }
    if kind == "StatefulSet":
        obj["spec"] |= {"serviceName": name, "podManagementPolicy": rng.choice(("OrderedReady", "Parallel"))}
    elif rng.random() < 0.3:
        obj["spec"]["strategy"] = {"type": "Recreate"}
    return obj


def change_of(there: list[Obj], number: int, rng: random.Random) -> Obj:
    """An object as it is to be applied: a new one, or one of those that are there, changed."""
    what = rng.choice(("create", "create", "scale", "class", "pod"))
    name = f"new-{number}"
    if what == "pod":
        spec = made("Deployment", name, rng, rng.choice(("mid", "high")))["spec"]["template"]
        return {**identity("Pod", name, NAMESPACE), "spec": spec["spec"]}
    if what == "create" or not there:
        return made(rng.choice(("Deployment", "Deployment", "StatefulSet")), name, rng, rng.choice(("mid", "high")))
    found: Obj = json.loads(json.dumps(rng.choice(there)))
    found["metadata"] = {key: found["metadata"][key] for key in ("name", "namespace")}
    found.pop("status", None)
    if what == "scale":
        found["spec"]["replicas"] += rng.randint(1, 3)
    else:
        found["spec"]["template"]["spec"]["priorityClassName"] = "high"
        found["spec"]["template"]["spec"].pop("priority", None)
    return found


def settled(kubelets: GracefulKubelets, quiet: float = QUIET) -> None:
    """Wait until nothing has happened for a while, and nobody is ending."""
    wait_until(
        lambda: time.monotonic() - kubelets.changed > quiet and not any(ending for _, _, ending, _ in kubelets.shape),
        120,
        "nothing changes",
    )


def pending(api: Api) -> Counter[str]:
    return Counter(workload_of(pod) for pod in api.list("Pod") if not pod["spec"].get("nodeName"))


def missing(api: Api) -> Counter[str]:
    """Pods that a ReplicaSet or a StatefulSet lacks; one that goes in order lacks the next, while none of its waits."""
    found: Counter[str] = Counter()
    for each in api.list("ReplicaSet", NAMESPACE):
        (owner,) = each["metadata"]["ownerReferences"]
        found[f"{NAMESPACE}/{owner['name']}"] += each["spec"]["replicas"] - each["status"]["replicas"]
    waiting = pending(api)
    for each in api.list("StatefulSet", NAMESPACE):
        name, lacks = f"{NAMESPACE}/{each['metadata']['name']}", each["spec"]["replicas"] - each["status"]["replicas"]
        in_order = each["spec"]["podManagementPolicy"] == "OrderedReady"
        found[name] += min(lacks, 0 if waiting[name] else 1) if in_order else lacks
    return +found


def foretold(plane: ControlPlane, change: Obj, directory: Path) -> set[Ending]:
    """What people are told: `forewarn snapshot`, then `forewarn simulate` of it."""
    program, environment = [sys.executable, "-m", "policies.cli"], {**os.environ, "KUBECONFIG": str(plane.kubeconfig())}
    dump, file = directory / "cluster.json", directory / "change.json"
    file.write_text(json.dumps(change))
    subprocess.run([*program, "snapshot", "-o", str(dump)], env=environment, check=True, capture_output=True)
    command = [*program, "simulate", "--cluster", str(dump), "-f", str(file), "--runs", str(RUNS), "-o", "json"]
    told = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    outcomes = json.loads(told.stdout)["outcomes"]
    return {
        Ending.of(each["summary"]["byWorkload"], each["summary"]["pending"], each["summary"].get("missing", {}))
        for each in outcomes
    }


@pytest.fixture(scope="module")
def kubelets(plane: ControlPlane, webhook: Webhook) -> Iterator[GracefulKubelets]:
    """A cluster that lives: controllers and kubelets. forewarn is a process of this machine, so it has no pods here."""
    with closing(plane.api()) as client:
        own = client.list("Deployment", OWN)
        for deployment in own:
            client.patch(deployment, {"spec": {"replicas": 0}})
        plane.start_controllers(*(f"{name}-controller" for name in CONTROLLERS))
        running = GracefulKubelets(client)
        running.start()
        yield running
        running.stop()
        plane.processes.stop("kube-controller-manager")
        for deployment in own:
            client.patch(deployment, {"spec": {"replicas": deployment["spec"]["replicas"]}})


@pytest.fixture
def classes(api: Api) -> Iterator[None]:
    for name, value in CLASSES.items():
        if name:
            api.create(priority_class(name, value))
    yield
    for name in filter(None, CLASSES):
        api.delete(identity("PriorityClass", name))


def build(stage: Stage, api: Api, rng: random.Random) -> None:
    """Nodes that are nearly full of workloads of all classes."""
    for number in range(rng.randint(3, 5)):
        stage.node(node(f"n{number}", cpu=str(rng.choice((3, 4)))))
    for number in range(rng.randint(3, 5)):
        kind = rng.choice(("Deployment", "Deployment", "StatefulSet"))
        obj = made(kind, f"old-{number}", rng, rng.choice(("", "", "mid")))
        api.create(obj)
        if rng.random() < 0.3:
            budget = {"minAvailable": 1, "selector": {"matchLabels": {"app": f"old-{number}"}}}
            api.create({**identity("PodDisruptionBudget", f"old-{number}", NAMESPACE), "spec": budget})


def limit(api: Api, rng: random.Random) -> None:
    """Leave little room beside what there is: for all pods, for what they ask for, or for a class."""
    pods = api.list("Pod", NAMESPACE)
    kind, more = rng.choice(("pods", "requests.cpu", "class")), rng.randint(0, 2)
    if kind == "class":
        within = {"scopeName": "PriorityClass", "operator": "In", "values": ["high"]}
        spec = {"hard": {"pods": str(more)}, "scopeSelector": {"matchExpressions": [within]}}
    elif kind == "pods":
        spec = {"hard": {"pods": str(len(pods) + more)}}
    else:
        spec = {"hard": {"requests.cpu": f"{sum(map(asked, pods)) + 1000 * more}m"}}
    quota = {**identity("ResourceQuota", "tight", NAMESPACE), "spec": spec}
    api.create(quota)
    wait_until(lambda: api.get("ResourceQuota", "tight", NAMESPACE).get("status", {}).get("used"), 30, "it is counted")


def asked(pod: Obj) -> int:
    """Thousandths of a core."""
    cpu: str = pod["spec"]["containers"][0]["resources"]["requests"]["cpu"]
    return int(cpu[:-1]) if cpu.endswith("m") else 1000 * int(cpu)


def workloads(api: Api) -> list[Obj]:
    return [*api.list("Deployment", NAMESPACE), *api.list("StatefulSet", NAMESPACE)]


def clear(api: Api) -> None:
    for kind in ("Deployment", "StatefulSet", "PodDisruptionBudget", "ResourceQuota"):
        api.delete_all(kind, NAMESPACE)
    wait_until(lambda: not workloads(api), 60, "workloads are gone")

    def empty() -> bool:
        api.delete_all("Pod", NAMESPACE)
        return not api.list("Pod", NAMESPACE)

    wait_until(empty, 60, "pods are gone")
    api.delete_all("Node")


def test_what_is_simulated_is_what_happens(
    plane: ControlPlane,
    webhook: Webhook,
    api: Api,
    stage: Stage,
    classes: None,
    kubelets: GracefulKubelets,
    tmp_path: Path,
) -> None:
    as_told, warned, raced, differences, silent = 0, 0, 0, list[str](), list[str]()
    print(f"\ne2e: {CHANGES} changes, SEED={SEED}")
    for number in range(FIRST, FIRST + CHANGES):
        rng = random.Random(f"{SEED} {number}")
        if number % A_CLUSTER == 0 or number == FIRST:
            if number > FIRST:
                clear(api)
            build(stage, api, rng)
            settled(kubelets, min(QUIET, 13))
            if QUOTAS:
                limit(api, rng)
        webhook.catch_up(api)
        change = change_of(workloads(api), number, rng)
        expected = foretold(plane, change, tmp_path)
        running = {pod["metadata"]["uid"] for pod in api.list("Pod") if pod["spec"].get("nodeName")}
        kubelets.preempted.clear()
        kubelets.seen.clear()
        answer = apply(api, change)
        refused = QUOTAS and answer.code == 403 and "exceeded quota" in str(answer.body)
        if not (refused or 200 <= answer.code < 300):
            raise Refused(answer.code, str(answer.body))
        kubelets.changed = time.monotonic()
        settled(kubelets)
        found = Ending.of(Counter(kubelets.preempted.values()), pending(api), missing(api))
        what = f"{number}: {change['kind']} {change['metadata']['name']}"
        as_told += found in expected
        if found not in expected:
            told = "; or ".join(map(str, sorted(expected, key=str)[:3]))
            differences.append(f"{what}: {found}; one of {len(expected)} was told: {told}")
        loud = any(rule in line for line in answer.warnings for rule in TOLD_BY)
        pushed_out = not running.isdisjoint(kubelets.preempted)  # who waited may be let in and out again
        either_way = found in expected and {True, False} <= {bool(end.pushed_out) for end in expected}
        warned += loud == pushed_out
        raced += loud != pushed_out and either_way
        if loud != pushed_out and not either_way:
            silent.append(f"{what}: {found}; warned {answer.warnings}")
        if found not in expected or (loud != pushed_out and not either_way):
            print((differences + silent)[-1], flush=True)
        keep(tmp_path, f"{SEED}-{number}", [what, str(found), *answer.warnings, *kubelets.seen])
        if number % 10 == 9:
            done = number + 1 - FIRST
            print(f"e2e: {as_told} of {done} as simulated, {warned} rightly warned of or not", flush=True)
    clear(api)
    print(
        f"e2e: {as_told} of {CHANGES} as simulated, {warned} of {CHANGES} rightly warned of or not, {raced} were a race"
    )
    print(f"e2e: that some of the runs told of, and others did not (SEED={SEED})")
    print("\n".join([*differences, *silent]))
    assert as_told >= 0.9 * CHANGES


def keep(directory: Path, name: str, lines: list[str]) -> None:
    """The dump and the change, and what was seen, for whoever looks for a cause."""
    if os.environ.get("EVIDENCE"):
        kept = Path(os.environ["EVIDENCE"]) / name
        shutil.copytree(directory, kept, dirs_exist_ok=True)
        (kept / "seen.txt").write_text("\n".join(lines) + "\n")


def apply(api: Api, change: Obj) -> Answer:
    """As kubectl would, with the warnings that it prints."""
    try:
        api.get(change["kind"], change["metadata"]["name"], NAMESPACE)
    except Refused:
        return api.ask("POST", path_of(change, name=""), change)
    return api.ask("PATCH", path_of(change), change, "application/merge-patch+json")
