"""Random requests about PriorityClasses, Pods and ResourceQuotas, many of them with a mistake or two.

Of what forewarn judges alone: see `kube_apiserver/validation/pod.py` for what it does not look at. No amount
overflows 64 bits, nor do its thousandths (`policies/kubernetes/quantity.py`).
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tests.e2e import quotas
from tests.e2e.api import identity
from tests.e2e.objects import priority_class

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random

    from tests.e2e.api import Obj

CLASSES: Final = (
    priority_class("gold", 1000),
    priority_class("cluster-services", 900),
    priority_class("silver", 100, preemptionPolicy="Never"),
    priority_class("below", -5),
    priority_class("usual", 10, globalDefault=True, description="for most"),
)
NAMESPACES: Final = tuple(name.replace("limits", "asked") for name in quotas.NAMESPACES)
UNLIMITED: Final = NAMESPACES[: len(quotas.BARE)]
"""Namespaces without any quota."""
ALSO_IN_SOME_MINOR: Final = ("workloadRef", "schedulingGroup", "evictionResponders")
"""Fields of a pod's spec that not every minor knows."""
_NAMES: Final = ("", "Bad", "a..b", "-a", "a_b", "x" * 254, "a.b", "1", "system-mine", "system-node-critical")
_LABELS: Final[tuple[Obj, ...]] = (
    {"a": "b"},
    {"-a": "b"},
    {"example.com/": "b"},
    {"x/y/z": "b"},
    {"a": "-"},
    {"a": "b" * 64},
    {"A.b/c_d": ""},
    {"ä": "ö"},
)
_AMOUNTS: Final[tuple[Any, ...]] = (
    *("1", "-1", "100m", "0", "1.5Gi", "1e3", "1n", "1x", "", "9E", "1Ki", "99999999999"),
    *(2, 0.5, True),
)
_RESOURCES: Final = (
    "cpu",
    "memory",
    "ephemeral-storage",
    "hugepages-2Mi",
    "example.com/gpu",
    "requests.example.com/gpu",
    "pods",
    "storage",
    "kubernetes.io/x",
    "Bad_",
    "example.com/",
    "attachable-volumes-x",
)
_QUOTA_RESOURCES: Final = (
    "pods",
    "cpu",
    "requests.cpu",
    "limits.memory",
    "requests.storage",
    "count/pods",
    "count/deployments.apps",
    "requests.example.com/gpu",
    "limits.example.com/gpu",
    "example.com/gpu",
    "gold.storageclass.storage.k8s.io/requests.storage",
    "services.loadbalancers",
    "resourcequotas",
    "hugepages-2Mi",
    "requests.hugepages-2Mi",
    "gold.deviceclass.resource.k8s.io/devices",
    "nonsense",
    "Bad_",
)
_SCOPES: Final = (
    "Terminating",
    "NotTerminating",
    "BestEffort",
    "NotBestEffort",
    "PriorityClass",
    "CrossNamespacePodAffinity",
    "VolumeAttributesClass",
    "Nonsense",
)


class Request(NamedTuple):
    """What is asked. `old`: what an update replaces."""

    operation: str
    obj: Obj
    old: Obj | None = None


def random_quotas(random: Random) -> list[Obj]:
    """Quotas for the namespaces but the unlimited ones, with the status that a controller would write."""
    return [_moved(each) for each in quotas.random_quotas(random)]


def random_request(random: Random, number: int, stored: dict[str, list[Obj]]) -> Request:
    """One request. `stored`: by kind, what there is to be updated."""
    kind = random.choice(("Pod", "Pod", "Pod", "Pod", "PriorityClass", "PriorityClass", "ResourceQuota"))
    if random.random() < 0.2:
        old = random.choice(stored[kind])
        new = copy.deepcopy(old)
        for _ in range(random.choice((0, 1, 1, 2))):
            random.choice(CHANGES[kind])(random, new)
        return Request("UPDATE", new, old)
    made = NEW[kind](random, f"asked-{number}")
    for _ in range(random.choice((0, 0, 1, 1, 1, 2))):
        random.choice(MISTAKES[kind])(random, made)
    return Request("CREATE", made)


def _moved(obj: Obj) -> Obj:
    obj["metadata"]["namespace"] = obj["metadata"]["namespace"].replace("limits", "asked")
    return obj


def _pod(random: Random, name: str) -> Obj:
    made = _moved(quotas.random_pod(random, name))
    if random.random() < 0.5:
        made["metadata"]["namespace"] = random.choice(UNLIMITED)
    if random.random() < 0.4:
        made["spec"]["priorityClassName"] = random.choice([each["metadata"]["name"] for each in CLASSES])
    return made


def _class(random: Random, name: str) -> Obj:
    made = priority_class(name, random.choice((0, 1, -1, 1000, 10**9)))
    if random.random() < 0.5:
        made["preemptionPolicy"] = random.choice(("Never", "PreemptLowerPriority"))
    return made


def _quota(random: Random, name: str) -> Obj:
    hard = {each: random.choice(("1", "2Gi", "10")) for each in random.sample(_QUOTA_RESOURCES[:6], 2)}
    made: Obj = {**identity("ResourceQuota", name, random.choice(NAMESPACES)), "spec": {"hard": hard}}
    if random.random() < 0.3:
        made["spec"]["scopes"] = random.sample(_SCOPES[:6], random.randint(1, 2))
    return made


def _container(random: Random, pod: Obj) -> Obj:
    """One of its containers; a new one where a mistake before has left none."""
    found = [c for c in pod["spec"].get("containers") or [] if isinstance(c, dict)]
    if not found:
        pod["spec"]["containers"] = found = [{"name": "c", "image": "img"}]
    chosen: Obj = random.choice(found)
    return chosen


def _field(path: str, *values: Any) -> Callable[[Random, Obj], None]:
    """A mistake: one of some values for a field."""

    def make(random: Random, obj: Obj) -> None:
        *parents, last = path.split(".")
        for key in parents:
            obj = obj.setdefault(key, {})
        obj[last] = copy.deepcopy(random.choice(values))

    return make


def _in_container(field: str, *values: Any) -> Callable[[Random, Obj], None]:
    return lambda random, pod: _field(field, *values)(random, _container(random, pod))


def _amounts(random: Random, where: Obj) -> None:
    amounts = where.setdefault(random.choice(("requests", "limits")), {})
    amounts[random.choice(_RESOURCES)] = random.choice(_AMOUNTS)


def _wrong_amount(random: Random, pod: Obj) -> None:
    _amounts(random, _container(random, pod).setdefault("resources", {}))


def _wrong_pod_amount(random: Random, pod: Obj) -> None:
    _amounts(random, pod["spec"].setdefault("resources", {}))


def _second_container(random: Random, pod: Obj) -> None:
    pod["spec"]["containers"].append(copy.deepcopy(_container(random, pod)))


def _generated(random: Random, obj: Obj) -> None:
    obj["metadata"].pop("name", None)
    obj["metadata"]["generateName"] = random.choice(("web-", "Bad-", "x" * 300, ""))


def _unknown_field(random: Random, obj: Obj) -> None:
    name = random.choice(("foo", "Spec", "priorityClass", "x-y"))
    random.choice((obj, obj["metadata"], obj.setdefault("spec", {}) if obj["kind"] != "PriorityClass" else obj))[
        name
    ] = 1


def _newer_field(random: Random, pod: Obj) -> None:
    pod["spec"][random.choice(ALSO_IN_SOME_MINOR)] = None


def _wrong_hard(random: Random, quota: Obj) -> None:
    quota["spec"].setdefault("hard", {})[random.choice(_QUOTA_RESOURCES)] = random.choice(_AMOUNTS)


def _wrong_scopes(random: Random, quota: Obj) -> None:
    quota["spec"]["scopes"] = random.choices(_SCOPES, k=random.randint(1, 2))


def _wrong_selector(random: Random, quota: Obj) -> None:
    values = random.choice(([], ["gold"], ["gold", "silver"], None))
    operator = random.choice(("In", "NotIn", "Exists", "DoesNotExist", "Equals", ""))
    expression: Obj = {"scopeName": random.choice(_SCOPES), "operator": operator}
    if values is not None:
        expression["values"] = values
    quota["spec"]["scopeSelector"] = {"matchExpressions": [expression]}


_META: Final = (
    _field("metadata.name", *_NAMES),
    _field("metadata.labels", *_LABELS, ["a"], {"a": 1}),
    _field("metadata.annotations", *_LABELS),
    _field("metadata.finalizers", ["x"], ["example.com/y"], ["Bad/"], "x"),
    _field("metadata.generation", 1, -1),
    _generated,
    _unknown_field,
)
_PRIORITIES: Final = (10, 100, 1000, 0, -5, 2**31, "10", 1.5, 2_000_001_000)
_POLICIES: Final = ("Never", "PreemptLowerPriority", "never", "", 3)
MISTAKES: Final[dict[str, tuple[Callable[[Random, Obj], None], ...]]] = {
    "Pod": (
        *_META,
        _field("spec.priorityClassName", "ghost", "", "system-node-critical", "A_B", "usual", 7),
        _field("spec.priorityClassName", "ghost", "below", "silver"),
        _field("spec.priority", *_PRIORITIES),
        _field("spec.priority", 10, 100, 1000, -5),
        _field("spec.preemptionPolicy", *_POLICIES),
        _field("spec.preemptionPolicy", *_POLICIES[:2]),
        _field("spec.containers", [], None, [None], {}, [{"name": "c"}], [{"image": "c"}]),
        _field("spec.restartPolicy", "Always", "Never", "always", "", 1),
        _field("spec.nodeSelector", *_LABELS),
        _field("spec.nodeName", "node", "Bad", "a b", ""),
        _field("spec.activeDeadlineSeconds", 0, 1, -1, 2**31, "5", 2**63),
        _field("spec.terminationGracePeriodSeconds", 0, 5, "5"),
        _field("spec.serviceAccountName", "some", "Bad_"),
        _in_container("name", *_NAMES),
        _in_container("image", "", " img", "img ", "x", 4),
        _in_container("restartPolicy", 4, {}),
        _second_container,
        _wrong_amount,
        _wrong_amount,
        _wrong_pod_amount,
        _newer_field,
        _newer_field,
    ),
    "PriorityClass": (
        *_META,
        _field("value", *_PRIORITIES, 10**9, 10**9 + 1, None),
        _field("globalDefault", True, False, "yes"),
        _field("description", "words", 5),
        _field("preemptionPolicy", *_POLICIES),
    ),
    "ResourceQuota": (
        *_META,
        _wrong_hard,
        _wrong_hard,
        _wrong_hard,
        _wrong_scopes,
        _wrong_scopes,
        _wrong_selector,
        _wrong_selector,
    ),
}
CHANGES: Final[dict[str, tuple[Callable[[Random, Obj], None], ...]]] = {
    "Pod": (
        _field("metadata.labels", *_LABELS),
        _field("spec.priorityClassName", "gold", "ghost", "silver"),
        _field("spec.priority", 10, 100, 1000),
        _field("spec.preemptionPolicy", *_POLICIES),
        _field("spec.activeDeadlineSeconds", 0, 1, -1, 2**31),
        _in_container("image", "", " img", "other"),
        _field("spec.nodeName", "elsewhere"),
    ),
    "PriorityClass": (
        _field("value", 1000, 10, 10**9 + 1, "x"),
        _field("globalDefault", True, False),
        _field("description", "other words"),
        _field("preemptionPolicy", *_POLICIES),
        _field("metadata.labels", *_LABELS),
    ),
    "ResourceQuota": (_wrong_hard, _wrong_scopes, _wrong_selector, _field("metadata.labels", *_LABELS)),
}
NEW: Final = {"Pod": _pod, "PriorityClass": _class, "ResourceQuota": _quota}
