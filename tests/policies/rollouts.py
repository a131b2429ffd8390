"""Random rollouts in small clusters that are nearly full."""

from __future__ import annotations

from copy import deepcopy
from random import Random
from typing import TYPE_CHECKING, Any

from tests.builders import Made
from tests.policies.test_aftermath import random_world

if TYPE_CHECKING:
    from collections.abc import Sequence

_LIMITS = [(0, 1), (1, 0), (1, 1), (2, 1), ("50%", "50%"), ("100%", 0)]


def with_deployments(made: Sequence[Made]) -> list[Made]:
    """The world with a Deployment over each ReplicaSet, of the same name."""
    found = list[Made]()
    for one in made:
        if one.obj["kind"] == "ReplicaSet":
            name = one.obj["metadata"]["name"]
            deployment = Made("apps/v1", "Deployment", name, "default")
            deployment.obj["spec"] = deepcopy(one.obj["spec"])
            reference = {"apiVersion": "apps/v1", "kind": "Deployment", "name": name, "controller": True, "uid": ""}
            found += [deployment, one.metadata(ownerReferences=[reference])]
        else:
            found.append(one)
    return found


def workload_of(pod: Made) -> str:
    """The name of what a random world's pod belongs to; empty of what is no pod."""
    return str(pod.obj["metadata"]["name"]).rpartition("-")[0] if pod.obj["kind"] == "Pod" else ""


def budgets(made: Sequence[Made], dice: Random) -> list[Made]:
    """Disruption budgets for some workloads, as the disruption controller has left them."""
    healthy: dict[str, int] = {}
    for pod in made:
        if pod.obj["kind"] == "Pod" and pod.obj["spec"].get("nodeName"):
            healthy[workload_of(pod)] = healthy.get(workload_of(pod), 0) + 1
    found = list[Made]()
    for name, count in healthy.items():
        if dice.random() < 0.4:
            least = dice.randint(1, count)
            budget = Made("policy/v1", "PodDisruptionBudget", name, "default")
            budget.spec(minAvailable=least, selector={"matchLabels": {"app": name}})
            found.append(budget.status(disruptionsAllowed=count - least))
    return found


def random_rollout(seed: int, kinds: Sequence[str] = ("Deployment",)) -> tuple[list[Made], dict[str, Any]] | None:
    """A world, and a workload of it as it is to be; None where there is none with a pod on a node."""
    made, dice = with_deployments(random_world(seed, waits=True)[0]), Random(seed)
    on_nodes = {workload_of(pod) for pod in made if pod.obj["spec"].get("nodeName")}
    there = [one for one in made if one.obj["kind"] in kinds and one.obj["metadata"]["name"] in on_nodes]
    if not there:
        return None
    workload = dice.choice(there)
    if workload.obj["kind"] == "Deployment":
        if dice.random() < 0.2:
            workload.obj["spec"]["strategy"] = {"type": "Recreate"}
        elif dice.random() < 0.6:
            surge, unavailable = dice.choice(_LIMITS)
            limits = {"maxSurge": surge, "maxUnavailable": unavailable}
            workload.obj["spec"]["strategy"] = {"type": "RollingUpdate", "rollingUpdate": limits}
    changed = deepcopy(workload.obj)
    spec = changed["spec"]["template"]["spec"]
    what = dice.choice(("priority", "priority", "requests", "both", "replicas too"))
    if what != "requests":
        spec["priority"] = dice.choice([number for number in (0, 15, 30, 60) if number != spec["priority"]])
    if what in ("requests", "both"):
        now = spec["containers"][0]["resources"]["requests"]["cpu"]
        cpu = dice.choice([amount for amount in ("500m", "1", "1500m", "2", "2500m") if amount != now])
        spec["containers"][0]["resources"]["requests"] = {"cpu": cpu}
    if what == "replicas too":
        changed["spec"]["replicas"] = max(1, changed["spec"]["replicas"] + dice.choice((-1, 1, 2)))
    return [*made, *budgets(made, dice)], changed
