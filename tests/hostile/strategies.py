"""Reviews of every kind that is judged, drawn so that a few draws make something large.

A list is a number and the form of its entries: numbers have long tails and favour the bounds, forms are few.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from hypothesis import strategies as st

from forewarn.policies.kubernetes.objects import extent
from tests.hostile.attacks import HOSTNAME, HUGE, PREFERRED, REQUIRED, STORED, ZONE, review

if TYPE_CHECKING:
    from collections.abc import Callable

Obj = dict[str, Any]

MAX_SIZE: Final = 3 * 1024 * 1024
"""Bytes of an object that an API server takes."""
_BOUNDS: Final = sorted({value for name, value in vars(extent).items() if name.startswith("MAX_")})
COUNTS: Final = (
    st.integers(0, 4)
    | st.integers(0, 60)
    | st.sampled_from([*_BOUNDS, *(bound + 1 for bound in _BOUNDS), *(bound // 2 for bound in _BOUNDS)])
    | st.integers(0, 3_000)
    | st.integers(0, 60_000)
)
"""How many entries a list has."""
NUMBERS: Final = st.sampled_from(
    [0, 1, 2, 3, 5, 30, 1000, 40_000, HUGE, 2**31 - 1, 2**31, -1, -(2**31), 2**63, 10**30, 10**300]
)
"""What somebody writes where a number belongs."""
_USUAL: Final = ("1", "0", "1m", "100m", "2", "4", "6", "1Gi", "24Gi", "1e3", "1.5", 5, 1.5, "1n")
_LONG: Final = ("9" * 900, "0" * 900 + "1", "0" * 3000 + "!")
_ODD: Final = (
    *_LONG,
    "1e999",
    "1e-999",
    "-1",
    "",
    "9" * 20,
    "1Ei",
    "1e999999999",
)
AMOUNTS: Final = st.sampled_from(_USUAL) | st.sampled_from(_ODD)
KEYS: Final = st.sampled_from([HOSTNAME, ZONE, "disk", "t{}", "", "t" * 300])
TEXTS: Final = st.sampled_from(
    ["x", "gold", "class-001", "app-1", "n00001", "k{}", "x" * 300, "golf" * 20_000, "\u202e", ""]
)
OPERATORS: Final = st.sampled_from(["In", "NotIn", "Exists", "DoesNotExist", "Gt"])
_VALUELESS: Final = ("Exists", "DoesNotExist")


def size_of(value: Any, known: dict[int, int] | None = None) -> int:
    """About how many bytes a value is as JSON; what is in many places is looked at once."""
    if isinstance(value, str):
        return len(value) + 3
    if not isinstance(value, dict | list):
        return 6
    known = {} if known is None else known
    if id(value) not in known:
        keys = sum(len(key) + 4 for key in value) if isinstance(value, dict) else len(value)
        parts = value.values() if isinstance(value, dict) else value
        known[id(value)] = 2 + keys + sum(size_of(part, known) for part in parts)
    return known[id(value)]


@st.composite
def many(draw: st.DrawFn, make: Callable[[int], Any], most: int = 60_000) -> list[Any]:
    """A list, of at most a megabyte; each entry is made of its number."""
    count = min(draw(COUNTS), most, MAX_SIZE // 3 // size_of(make(0)))
    return [make(number) for number in range(count)]


def named(text: str, number: int) -> str:
    """A name that may have the number in it."""
    return text.replace("{}", str(number))


@st.composite
def expressions(draw: st.DrawFn, most: int) -> list[Obj]:
    """`matchExpressions`."""
    operator, key = draw(OPERATORS), draw(st.sampled_from(["app", "k{}", "pod-template-hash", ZONE, "disk"]))
    value = draw(st.sampled_from(["app-1", "v{}", "9" * 30, "a"]))
    values = [] if operator in _VALUELESS else draw(many(lambda n: named(value, n)))
    values = values[:1] if operator == "Gt" else values
    found: list[Obj] = draw(many(lambda n: {"key": named(key, n), "operator": operator, "values": values}, most))
    return found


@st.composite
def selectors(draw: st.DrawFn) -> Obj | None:
    """A label selector."""
    labels = {"matchLabels": draw(st.sampled_from([{}, {"app": "app-1"}, {"a": "b"}]))}
    if draw(st.booleans()):
        return draw(st.sampled_from([None, {}, labels]))
    return {**labels, "matchExpressions": draw(expressions(3000))}


@st.composite
def pod_terms(draw: st.DrawFn) -> list[Obj]:
    """Terms of affinity to pods."""
    key = draw(KEYS)
    term = {
        "labelSelector": draw(selectors()),
        "namespaces": draw(st.sampled_from([[], ["team-1"], [f"team-{n}" for n in range(50)]])),
        "namespaceSelector": draw(st.sampled_from([None, {}, {"matchLabels": {"a": "b"}}])),
    }
    found: list[Obj] = draw(many(lambda n: {"topologyKey": named(key, n), **term}, 4000))
    return found


@st.composite
def node_affinities(draw: st.DrawFn) -> Obj:
    """`spec.affinity.nodeAffinity`."""
    fields = [{"key": "metadata.name", "operator": "In", "values": ["n00001"]}] * draw(st.integers(0, 2))
    term = {"matchExpressions": draw(expressions(200)), "matchFields": fields}
    terms = draw(many(lambda _: term, 20_000))
    preferred = [{"weight": 1, "preference": each} for each in terms[: draw(COUNTS)]]
    return {REQUIRED: {"nodeSelectorTerms": terms}, PREFERRED: preferred}


@st.composite
def affinities(draw: st.DrawFn) -> Obj:
    """`spec.affinity`."""
    found: Obj = {}
    for kind in sorted(draw(st.sets(st.sampled_from(["podAffinity", "podAntiAffinity", "nodeAffinity"]), min_size=1))):
        if kind == "nodeAffinity":
            found[kind] = draw(node_affinities())
        else:
            preferred = [{"weight": 3, "podAffinityTerm": term} for term in draw(pod_terms())]
            found[kind] = {REQUIRED: draw(pod_terms()), PREFERRED: preferred}
    return found


@st.composite
def amounts(draw: st.DrawFn) -> Obj:
    """A resource list."""
    amount, prefix = draw(AMOUNTS), draw(st.sampled_from(["example.com/r", "r", "hugepages-", "requests.x/"]))
    found = {"cpu": draw(st.sampled_from(["1m", "1", "6", "100"])), "memory": draw(st.sampled_from(["1Mi", "24Gi"]))}
    count = min(draw(COUNTS), MAX_SIZE // 3 // (len(str(amount)) + 20)) if draw(st.booleans()) else 0
    return {**found, **{f"{prefix}{number}": amount for number in range(count)}}


@st.composite
def containers(draw: st.DrawFn) -> list[Obj]:
    """Containers that ask for much, or many things."""
    requests, shared = draw(amounts()), draw(st.booleans())
    limits = draw(st.sampled_from([{}, requests]))
    ports = draw(many(lambda n: {"containerPort": n + 1, "hostPort": n + 1})) if draw(st.booleans()) else []
    policy = draw(st.sampled_from([None, "Always"]))

    def container(number: int) -> Obj:
        own = requests if shared else {f"{name}{number}": amount for name, amount in [*requests.items()][:30]}
        resources = {"requests": own, "limits": limits}
        return {"name": f"c{number}", "image": "i", "resources": resources, "ports": ports, "restartPolicy": policy}

    return draw(many(container)) if draw(st.booleans()) else [container(0)]


@st.composite
def constraints(draw: st.DrawFn) -> list[Obj]:
    """`spec.topologySpreadConstraints`."""
    key = draw(KEYS)
    about = {
        "maxSkew": draw(NUMBERS),
        "whenUnsatisfiable": draw(st.sampled_from(["DoNotSchedule", "ScheduleAnyway"])),
        "minDomains": draw(st.sampled_from([None, 1, 5, 2**31 - 1])),
        "nodeTaintsPolicy": draw(st.sampled_from([None, "Honor"])),
        "labelSelector": draw(selectors()),
    }
    found: list[Obj] = draw(many(lambda n: {**about, "topologyKey": named(key, n)}, 4000))
    return found


VOLUMES: Final = st.sampled_from(
    [
        {"gcePersistentDisk": {"pdName": "d{}"}},
        {"persistentVolumeClaim": {"claimName": "d{}"}},
        {"ephemeral": {}},
        {"emptyDir": {}},
        {"rbd": {"monitors": ["a"], "image": "i{}"}},
        {"image": {"reference": "i"}},
    ]
)


@st.composite
def volumes(draw: st.DrawFn) -> list[Obj]:
    """`spec.volumes`, of one kind."""
    source = json.dumps(draw(VOLUMES))
    found: list[Obj] = draw(many(lambda n: {"name": f"v{n}", **json.loads(source.replace("{}", str(n), 1))}, 10_000))
    return found


PARTS: Final[dict[str, st.SearchStrategy[Any]]] = {
    "affinity": affinities(),
    "topologySpreadConstraints": constraints(),
    "tolerations": many(lambda n: {"key": f"k{n}", "operator": "Exists"}),
    "volumes": volumes(),
    "nodeSelector": COUNTS.map(lambda count: {f"k{n}": "v" for n in range(count)}),
    "initContainers": containers(),
    "overhead": amounts(),
    "resources": amounts().map(lambda requests: {"requests": requests}),
    "hostNetwork": st.just(True),
    "preemptionPolicy": st.just("Never"),
}
"""Of a pod's spec."""


@st.composite
def specs(draw: st.DrawFn) -> Obj:
    """A pod's spec."""
    spec: Obj = {"containers": draw(containers())}
    for part in sorted(draw(st.sets(st.sampled_from(sorted(PARTS)), max_size=4))):
        spec[part] = draw(PARTS[part])
    spec["priorityClassName"] = draw(st.sampled_from(["gold", "gold", "gold", "class-001", None]) | TEXTS)
    return spec


@st.composite
def metadatas(draw: st.DrawFn) -> Obj:
    """The metadata of an object in a namespace."""
    text = draw(TEXTS)
    found: Obj = {"name": draw(st.sampled_from(["p", "stored", "x" * 300])), "namespace": "team-1"}
    if draw(st.integers(0, 3)) == 0:
        labels = draw(many(lambda n: named(text, n), 9000))
        found["labels"] = {"app": "app-1", **{f"k{n}": label for n, label in enumerate(labels)}}
    if draw(st.integers(0, 3)) == 0:
        owner = {"apiVersion": "v1", "kind": "Node", "name": text, "uid": "u", "controller": draw(st.booleans())}
        found["ownerReferences"] = draw(many(lambda _: owner, 10_000))
        found["finalizers"] = draw(many(lambda n: named(text, n), 10_000))
    return found


KINDS: Final = {
    "Deployment": "apps/v1",
    "StatefulSet": "apps/v1",
    "DaemonSet": "apps/v1",
    "ReplicaSet": "apps/v1",
    "Job": "batch/v1",
    "CronJob": "batch/v1",
    "ReplicationController": "v1",
}
"""Kinds with a pod template, and their versions."""


@st.composite
def workloads(draw: st.DrawFn) -> Obj:
    """Any kind with a pod template."""
    kind, metadata = draw(st.sampled_from(sorted(KINDS))), draw(metadatas())
    labels = metadata.get("labels") or {"app": "app-1"}
    spec: Obj = {
        "replicas": draw(NUMBERS),
        "parallelism": draw(NUMBERS),
        "completions": draw(st.none() | NUMBERS),
        "selector": {"app": "app-1"} if kind == "ReplicationController" else draw(selectors()),
        "template": {"metadata": {"labels": labels}, "spec": draw(specs())},
        "strategy": {"rollingUpdate": {"maxSurge": draw(NUMBERS | st.sampled_from(["25%", "9" * 4000 + "%", "x"]))}},
        "updateStrategy": {"rollingUpdate": {"maxSurge": draw(NUMBERS | st.just("100%"))}},
        "ordinals": {"start": draw(NUMBERS)},
        "volumeClaimTemplates": draw(many(lambda n: {"metadata": {"name": f"v{n}"}}, 5000)),
    }
    whole = {"jobTemplate": {"spec": spec}} if kind == "CronJob" else spec
    status = {"replicas": draw(NUMBERS), "currentNumberScheduled": draw(NUMBERS), "active": draw(NUMBERS)}
    return {"apiVersion": KINDS[kind], "kind": kind, "metadata": metadata, "spec": whole, "status": status}


@st.composite
def quotas(draw: st.DrawFn) -> Obj:
    """A ResourceQuota."""
    text, amount = draw(TEXTS), draw(AMOUNTS)
    prefix = draw(st.sampled_from(["requests.example.com/r", "count/r", "r ", "hugepages-"]))
    names = draw(many(lambda n: named(text, n)))
    operator = draw(st.sampled_from(["In", "NotIn", "Exists", "DoesNotExist", "x"]))
    scope = draw(st.sampled_from(["PriorityClass", "PriorityClass", "BestEffort", "Terminating", "x"]))
    found = draw(many(lambda _: {"scopeName": scope, "operator": operator, "values": names}, 20_000))
    spec = {
        "hard": {"pods": "5", **dict.fromkeys(draw(many(lambda n: f"{prefix}{n}")), amount)},
        "scopes": draw(many(lambda _: scope, 30_000)),
        "scopeSelector": {"matchExpressions": found},
    }
    return {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": draw(metadatas()), "spec": spec}


@st.composite
def others(draw: st.DrawFn) -> Obj:
    """PriorityClass, Namespace, LimitRange, Scale."""
    kind = draw(st.sampled_from(["PriorityClass", "Namespace", "LimitRange", "Scale"]))
    metadata, text = draw(metadatas()), draw(TEXTS)
    if kind == "PriorityClass":
        metadata = {**metadata, "name": text or "silver", "namespace": ""}
        value = {"value": draw(NUMBERS), "globalDefault": draw(st.booleans()), "description": text}
        return {"apiVersion": "scheduling.k8s.io/v1", "kind": kind, "metadata": metadata, **value}
    if kind == "Namespace":
        annotations = {"forewarn.dev/default-priority-class": text, "forewarn.dev/exempt-until": text}
        metadata = {**metadata, "name": "team-1", "namespace": "", "annotations": annotations}
        return {"apiVersion": "v1", "kind": kind, "metadata": metadata}
    if kind == "LimitRange":
        limits = draw(many(lambda _: {"type": "Container", "default": {"cpu": text}}, 20_000))
        return {"apiVersion": "v1", "kind": kind, "metadata": metadata, "spec": {"limits": limits}}
    spec = {"replicas": draw(NUMBERS)}
    return {"apiVersion": "autoscaling/v1", "kind": kind, "metadata": STORED["metadata"], "spec": spec}


@st.composite
def pods(draw: st.DrawFn) -> Obj:
    """A pod."""
    return {"apiVersion": "v1", "kind": "Pod", "metadata": draw(metadatas()), "spec": draw(specs())}


@st.composite
def reviews(draw: st.DrawFn) -> Obj:
    """A review of anything."""
    obj = draw(pods() | workloads() | pods() | workloads() | quotas() | others())
    if obj["kind"] == "Scale":
        return review(obj, "UPDATE", {**obj, "spec": {"replicas": 1}}, "scale")
    how = draw(st.sampled_from(["CREATE", "CREATE", "UPDATE", "changed", "DELETE"]))
    if how == "DELETE":
        return review(None, "DELETE", obj)
    if how == "CREATE":
        return review(obj)
    other = {**obj.get("spec", {}), "replicas": 1, "template": {"spec": {"containers": []}}}
    return review(obj, "UPDATE", obj if how == "UPDATE" else {**obj, "spec": other})
