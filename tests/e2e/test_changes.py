"""What `forewarn whatif events` foretells of a change is what the real scheduler and controllers then make of it.

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
import time
from typing import TYPE_CHECKING

import pytest

from tests.e2e.api import Refused, identity, path_of
from tests.e2e.living import (
    A_CLUSTER,
    NAMESPACE,
    Ending,
    build,
    clear,
    forewarn,
    keep,
    made,
    settled,
    simulated,
    workloads,
)
from tests.e2e.random_cases import SEED
from tests.e2e.truth import wait_until

if TYPE_CHECKING:
    from pathlib import Path

    from tests.e2e.api import Answer, Api, Obj
    from tests.e2e.control_plane import ControlPlane
    from tests.e2e.graceful_kubelet import GracefulKubelets
    from tests.e2e.staging import Stage
    from tests.e2e.webhook import Webhook

pytestmark = [pytest.mark.e2e, pytest.mark.whole]

CHANGES = int(os.environ.get("CHANGES", "30"))
FIRST = int(os.environ.get("FIRST", "0"))
QUOTAS = bool(os.environ.get("QUOTAS"))
QUIET = 45 if QUOTAS else 13
"""Seconds in which nothing happens once all is over: more than kube-scheduler's longest back-off, 10 s; where a quota
refuses pods, what a controller waits that has tried for 40 s."""
TOLD_BY = ("[preempts-running-pods]", "[rollout-preempts-itself]")


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


def foretold(plane: ControlPlane, change: Obj, directory: Path) -> set[Ending]:
    """What people are told: `forewarn snapshot`, then `forewarn whatif events` of it."""
    dump, file = directory / "cluster.json", directory / "change.json"
    file.write_text(json.dumps(change))
    forewarn(plane, "snapshot", "-o", str(dump))
    return simulated(plane, dump, "-f", str(file))


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


def test_what_is_simulated_is_what_happens(
    plane: ControlPlane,
    webhook: Webhook,
    api: Api,
    stage: Stage,
    living_classes: None,
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
        settled(kubelets, QUIET)
        found = Ending.seen(api, kubelets)
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


def apply(api: Api, change: Obj) -> Answer:
    """As kubectl would, with the warnings that it prints."""
    try:
        api.get(change["kind"], change["metadata"]["name"], NAMESPACE)
    except Refused:
        return api.ask("POST", path_of(change, name=""), change)
    return api.ask("PATCH", path_of(change), change, "application/merge-patch+json")
