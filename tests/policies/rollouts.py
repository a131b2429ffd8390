"""Random rollouts in small clusters that are nearly full."""

from __future__ import annotations

from copy import deepcopy
from random import Random
from typing import TYPE_CHECKING, Any

from forewarn.policies.kubernetes.controllers.daemon_set import with_daemon_fields
from tests.builders import Made, MadeNode, MadePod, make_pod
from tests.policies.test_cascade import random_world

if TYPE_CHECKING:
    from collections.abc import Sequence

_LIMITS = [(0, 1), (1, 0), (1, 1), (2, 1), ("50%", "50%"), ("100%", 0)]
_DAEMON_LIMITS = [(0, 1), (0, 2), (0, "50%"), (0, "100%"), (1, 0), (2, 0), ("50%", 0), ("100%", 0)]
"""Of a DaemonSet one of the two is 0."""


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


def pdbs(made: Sequence[Made], dice: Random) -> list[Made]:
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


def with_daemon_set(made: Sequence[Made], dice: Random) -> tuple[list[Made], Made]:
    """The world with a DaemonSet, which is the second of what is returned. Its nodes have as much more as its pods ask
    for, but for a few on which the pod waits. Some nodes are of a pool, some have a taint."""
    nodes = [node for node in made if isinstance(node, MadeNode)]
    for node in nodes:
        if dice.random() < 0.5:
            node.labels(pool="a")
        if dice.random() < 0.25:
            node.taint("apart")
    halves, priority = dice.choice([1, 2, 3]), dice.choice([0, 0, 10, 20, 50])
    pod = make_pod("").request(cpu=f"{halves * 500}m").priority(priority)
    spec = pod.spec(terminationGracePeriodSeconds=dice.choice([5, 30, 60])).obj["spec"]
    _choose_nodes(spec, dice)
    daemons = Made("apps/v1", "DaemonSet", "d", "default")
    daemons.spec(selector={"matchLabels": {"app": "d"}}, template={"metadata": {"labels": {"app": "d"}}, "spec": spec})
    if dice.random() < 0.2:
        daemons.spec(updateStrategy={"type": "OnDelete"})
    elif dice.random() < 0.8:
        surge, unavailable = dice.choice(_DAEMON_LIMITS)
        limits = {"maxSurge": surge, "maxUnavailable": unavailable}
        daemons.spec(updateStrategy={"type": "RollingUpdate", "rollingUpdate": limits})
    if dice.random() < 0.2:
        daemons.spec(minReadySeconds=20)
    found: list[Made] = [*made, daemons]
    for number, node in enumerate(node for node in nodes if _may_run(spec, node)):
        place = node.obj["metadata"]["name"]
        pod = _daemon(spec, place)
        if dice.random() < 0.85:
            node.has(cpu=f"{4000 + halves * 500}m")
            pod.on(place, started=500 + number).status(conditions=[{"type": "Ready", "status": "True"}])
        else:
            pod.metadata(creationTimestamp="2026-01-03T00:00:00Z")
        found.append(pod)
    return found, daemons


def _choose_nodes(spec: dict[str, Any], dice: Random) -> None:
    """Whether a template is for one pool alone, and for nodes with the taint too."""
    spec["nodeSelector"] = {"pool": "a"} if dice.random() < 0.3 else {}
    spec["tolerations"] = [{"key": "apart", "operator": "Exists"}] if dice.random() < 0.4 else []


def _may_run(spec: dict[str, Any], node: Made) -> bool:
    labels, taints = node.obj["metadata"].get("labels", {}), node.obj["spec"].get("taints")
    return spec["nodeSelector"].items() <= labels.items() and (not taints or bool(spec["tolerations"]))


def _daemon(spec: dict[str, Any], node: str) -> MadePod:
    """The pod of a DaemonSet for a node, as its controller makes it."""
    pod = make_pod(f"d-{node}").labels(app="d", **{"controller-revision-hash": "1"})
    pod.obj["spec"] = deepcopy(dict(with_daemon_fields({"spec": spec})["spec"]))
    here = {"key": "metadata.name", "operator": "In", "values": [node]}
    pod.affinity("nodeAffinity", {"matchFields": [here]})
    reference = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "controller": True, "uid": "uid-d"}
    return pod.metadata(ownerReferences=[reference])


def random_rollout(seed: int, kinds: Sequence[str] = ("Deployment",)) -> tuple[list[Made], dict[str, Any]] | None:
    """A world, and a workload of it as it is to be; None where there is none with a pod on a node."""
    if "DaemonSet" in kinds:
        return _daemon_rollout(seed)
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
    return [*made, *pdbs(made, dice)], changed


def _daemon_rollout(seed: int) -> tuple[list[Made], dict[str, Any]] | None:
    dice = Random(seed)
    made, daemons = with_daemon_set(with_deployments(random_world(seed, waits=True)[0]), dice)
    if not any(workload_of(pod) == "d" and pod.obj["spec"].get("nodeName") for pod in made):
        return None
    changed = deepcopy(daemons.obj)
    spec = changed["spec"]["template"]["spec"]
    what = dice.choice(("priority", "priority", "requests", "both", "nodes", "all"))
    if what in ("priority", "both", "all"):
        spec["priority"] = dice.choice([number for number in (0, 15, 30, 60) if number != spec["priority"]])
    if what in ("requests", "both", "all"):
        now = spec["containers"][0]["resources"]["requests"]["cpu"]
        cpu = dice.choice([amount for amount in ("500m", "1", "1500m", "2", "2500m") if amount != now])
        spec["containers"][0]["resources"]["requests"] = {"cpu": cpu}
    if what in ("nodes", "all"):
        _choose_nodes(spec, dice)
    return [*made, *pdbs(made, dice)], changed
