"""Features of pods that look at other pods: affinity, spreading, and the owners behind default spreading."""

from .dice import Dice, Obj
from .world import APPS, HOSTNAME, NAMESPACES, REGION, TIERS, ZONE, World

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
KEYS = (HOSTNAME, HOSTNAME, ZONE, ZONE, REGION, "disk")


def affinity_pod(world: World) -> None:
    """The incoming pod wants to be near others; so do some of those that run."""
    world.pod["spec"].setdefault("affinity", {})["podAffinity"] = {REQUIRED: _terms(world, world.pod, 2)}
    _sprinkle(world, "podAffinity", 0.1)


def anti_affinity(world: World) -> None:
    """The incoming pod avoids others, or others avoid it."""
    if world.dice.chance(0.75):
        world.pod["spec"].setdefault("affinity", {})["podAntiAffinity"] = {REQUIRED: _terms(world, world.pod, 2)}
    _sprinkle(world, "podAntiAffinity", 0.2)


def loners(world: World) -> None:
    """The incoming pod wants to be near pods like itself, and may be the first of them."""
    labels = world.pod["metadata"]["labels"]
    labels["app"] = "solo"
    terms = [{"labelSelector": {"matchLabels": {"app": "solo"}}, "topologyKey": world.dice.pick(KEYS)}]
    if world.dice.chance(0.4):
        terms.append({"labelSelector": selector(world.dice), "topologyKey": world.dice.pick(KEYS)})
    world.pod["spec"].setdefault("affinity", {})["podAffinity"] = {REQUIRED: terms}
    for pod in world.dice.some(world.bound(), 0, 1):
        if world.dice.chance(0.4):
            pod["metadata"]["labels"]["app"] = "solo"


def preferred_affinity(world: World) -> None:
    for pod in world.everyone():
        if pod is world.pod or world.dice.chance(0.25):
            for kind in world.dice.some(("podAffinity", "podAntiAffinity"), 1, 2):
                weighted = [{"weight": world.dice.number(1, 100), "podAffinityTerm": t} for t in _terms(world, pod, 3)]
                pod["spec"].setdefault("affinity", {}).setdefault(kind, {})[PREFERRED] = weighted


def _sprinkle(world: World, kind: str, share: float) -> None:
    for pod in world.pods:
        if world.dice.chance(share):
            affinity = pod["spec"].setdefault("affinity", {}).setdefault(kind, {})
            affinity[REQUIRED] = _terms(world, pod, 1)


def _terms(world: World, pod: Obj, most: int) -> list[Obj]:
    return [_term(world, pod) for _ in range(world.dice.number(1, most))]


def _term(world: World, pod: Obj) -> Obj:
    dice = world.dice
    term: Obj = {"topologyKey": dice.pick(KEYS)}
    if dice.chance(0.93):
        term["labelSelector"] = selector(dice)
    if dice.chance(0.25):
        term["namespaces"] = dice.some(NAMESPACES, 1, 2)
    if dice.chance(0.25):
        term["namespaceSelector"] = dice.pick(({}, {"matchLabels": {"team": "a"}}, {"matchLabels": {"team": "c"}}))
    if "labelSelector" in term and dice.chance(0.2):
        _label_keys(dice, term, pod)
    return term


def _label_keys(dice: Dice, term: Obj, pod: Obj) -> None:
    """matchLabelKeys and mismatchLabelKeys; the API server copies them into the selector when it stores the pod."""
    keys = {"matchLabelKeys": "In", "mismatchLabelKeys": "NotIn"}
    used = {e["key"] for e in term["labelSelector"].get("matchExpressions", [])} | set(
        term["labelSelector"].get("matchLabels", {})
    )
    free = [key for key in ("rev", "tier", "app") if key not in used]
    for (name, operator), key in zip(keys.items(), free, strict=False):
        if dice.chance(0.6):
            term[name] = [key]
            merge_label_key(term["labelSelector"], pod, key, operator)


def merge_label_key(label_selector: Obj, pod: Obj, key: str, operator: str) -> None:
    if key in pod["metadata"]["labels"]:
        requirement = {"key": key, "operator": operator, "values": [pod["metadata"]["labels"][key]]}
        label_selector.setdefault("matchExpressions", []).append(requirement)


def selector(dice: Dice) -> Obj:
    """A label selector; now and then the empty one, which matches everything."""
    shape = dice.weighted({"app": 8, "tier": 2, "in": 2, "notin": 1, "exists": 1, "absent": 1, "empty": 1, "nobody": 1})
    simple: dict[str, Obj] = {
        "app": {"matchLabels": {"app": dice.pick(APPS)}},
        "tier": {"matchLabels": {"tier": dice.pick(TIERS)}},
        "empty": {},
        "nobody": {"matchLabels": {"app": "nobody"}},
    }
    if shape in simple:
        return simple[shape]
    if shape in ("in", "notin"):
        operator = "In" if shape == "in" else "NotIn"
        return {"matchExpressions": [{"key": "app", "operator": operator, "values": dice.some(APPS, 1, 2)}]}
    return {"matchExpressions": [{"key": "tier", "operator": "Exists" if shape == "exists" else "DoesNotExist"}]}


def spread(world: World) -> None:
    """Topology spread constraints of the incoming pod, hard and soft, with all their options."""
    constraints: dict[tuple[str, str], Obj] = {}
    for _ in range(world.dice.number(1, 3)):
        made = _constraint(world.dice, world.pod)
        constraints[made["topologyKey"], made["whenUnsatisfiable"]] = made
    world.pod["spec"]["topologySpreadConstraints"] = list(constraints.values())


def _constraint(dice: Dice, pod: Obj) -> Obj:
    made: Obj = {
        "maxSkew": dice.weighted({1: 5, 2: 2, 3: 1}),
        "topologyKey": dice.pick(KEYS),
        "whenUnsatisfiable": dice.weighted({"DoNotSchedule": 3, "ScheduleAnyway": 1}),
    }
    if dice.chance(0.95):
        own = pod["metadata"]["labels"].get("app")
        made["labelSelector"] = {"matchLabels": {"app": own}} if own and dice.chance(0.6) else selector(dice)
    if made["whenUnsatisfiable"] == "DoNotSchedule" and dice.chance(0.3):
        made["minDomains"] = dice.number(1, 4)
    if dice.chance(0.25):
        made["nodeAffinityPolicy"] = dice.pick(("Honor", "Ignore"))
    if dice.chance(0.25):
        made["nodeTaintsPolicy"] = dice.pick(("Honor", "Ignore"))
    if "labelSelector" in made and dice.chance(0.3):
        _spread_label_keys(dice, made, pod)
    return made


def _spread_label_keys(dice: Dice, made: Obj, pod: Obj) -> None:
    """matchLabelKeys; pods that were stored before 1.34 have them only beside the selector."""
    used = set(made["labelSelector"].get("matchLabels", {}))
    used |= {e["key"] for e in made["labelSelector"].get("matchExpressions", [])}
    keys = [key for key in ("rev", "tier") if key not in used]
    if keys:
        made["matchLabelKeys"] = dice.some(keys, 1, 2)
        if dice.chance(0.7):
            for key in made["matchLabelKeys"]:
                merge_label_key(made["labelSelector"], pod, key, "In")


def topology_labels(world: World) -> None:
    """Pods that say where they run, as since 1.35 the API server makes them, and others that select them by it."""
    dice = world.dice
    places = {node["metadata"]["name"]: node["metadata"]["labels"] for node in world.nodes}
    for pod in world.bound():
        here = places[pod["spec"]["nodeName"]]
        pod["metadata"]["labels"].update({key: here[key] for key in (ZONE, REGION) if key in here})
    by_place: Obj = {"matchLabels": dice.pick(({ZONE: "z1"}, {ZONE: "z2"}, {REGION: "r1"}))}
    if dice.chance(0.5):
        by_place = {"matchExpressions": [{"key": ZONE, "operator": dice.pick(("Exists", "DoesNotExist"))}]}
    term = {"labelSelector": by_place, "topologyKey": dice.pick(KEYS)}
    constraint = {
        **term,
        "maxSkew": dice.number(1, 2),
        "whenUnsatisfiable": dice.pick(("DoNotSchedule", "ScheduleAnyway")),
    }
    spec = world.pod["spec"]
    if dice.chance(0.6):
        spec["topologySpreadConstraints"] = [constraint]
    if dice.chance(0.6):
        kind = dice.pick(("podAffinity", "podAntiAffinity"))
        spec.setdefault("affinity", {}).setdefault(kind, {})[REQUIRED] = [term]


def unlabelled_nodes(world: World) -> None:
    """Nodes without the labels of a topology."""
    for node in world.dice.some(world.nodes, 1, 2):
        for key in world.dice.some((ZONE, REGION, HOSTNAME), 1, 2):
            node["metadata"]["labels"].pop(key, None)
        if world.dice.chance(0.1):
            node["metadata"]["labels"] = {}


def old_labels(world: World) -> None:
    """Nodes that say where they are under the names of long ago as well, or only so."""
    for node in world.nodes:
        labels = node["metadata"]["labels"]
        if ZONE in labels and world.dice.chance(0.5):
            labels["failure-domain.beta.kubernetes.io/zone"] = labels[ZONE]
            if world.dice.chance(0.3):
                del labels[ZONE]


def services(world: World) -> None:
    """Services and owners from which the default spread constraints of the incoming pod come (only when scoring)."""
    dice, pod = world.dice, world.pod
    labels = pod["metadata"]["labels"]
    for _ in range(dice.number(0, 2)):
        own = {"app": labels["app"]} if "app" in labels and dice.chance(0.7) else {"app": dice.pick(APPS)}
        metadata = {"name": world.fresh_name("svc"), "namespace": pod["metadata"]["namespace"]}
        spec: Obj = {"ports": [{"port": 80, "protocol": "TCP"}]}
        if dice.chance(0.92):
            spec["selector"] = own
        world.add("services", {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec})
    if dice.chance(0.7):
        _owner(world)


def _owner(world: World) -> None:
    dice, pod = world.dice, world.pod
    kind = dice.pick(("ReplicaSet", "ReplicaSet", "StatefulSet", "ReplicationController"))
    keys, version = {"ReplicaSet": ("replicaSets", "apps/v1"), "StatefulSet": ("statefulSets", "apps/v1")}.get(
        kind, ("replicationControllers", "v1")
    )
    name = world.fresh_name("owner")
    match = dict(pod["metadata"]["labels"]) or {"app": "none"}
    if len(match) > 1 and dice.chance(0.5):
        match.popitem()
    spec: Obj = {
        "replicas": 3,
        "selector": match if version == "v1" else {"matchLabels": match},
        "template": _template(match),
    }
    if kind == "StatefulSet":
        spec["serviceName"] = "headless"
    metadata = {"name": name, "namespace": pod["metadata"]["namespace"], "uid": f"uid-{name}"}
    if dice.chance(0.9):
        world.add(keys, {"apiVersion": version, "kind": kind, "metadata": metadata, "spec": spec})
    owned_by(pod, version, kind, name)


def _template(labels: dict[str, str]) -> Obj:
    return {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "img"}]}}


def owned_by(pod: Obj, version: str, kind: str, name: str) -> None:
    reference = {"apiVersion": version, "kind": kind, "name": name, "uid": f"uid-{name}", "controller": True}
    pod["metadata"]["ownerReferences"] = [reference]
