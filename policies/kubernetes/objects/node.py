"""Node, with the fields that kube-scheduler reads, and node selectors, as in the affinity of Pods and of volumes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

from forewarn.policies.base.copies import shared_labels
from forewarn.policies.base.metering import FEW, charge, charging
from forewarn.policies.kubernetes.objects.fields import (
    PREFERRED,
    REQUIRED,
    ApiObject,
    at,
    boolean,
    int32,
    integer,
    items,
    list_at,
    mapping,
    string_map,
    strings,
    text,
    within,
)
from forewarn.policies.kubernetes.objects.resources import Resource, as_resource, read_resource_list
from forewarn.policies.kubernetes.selectors import NODE_OPERATORS, InvalidSelector, Requirement, parse_requirement


@dataclass(frozen=True, slots=True)
class FieldRequirement:
    """A condition on a field of a node; upstream supports only `metadata.name`."""

    key: str
    operator: str
    value: str

    def matches(self, name: str) -> bool:
        """Report whether the condition matches the node `name`."""
        return ((name if self.key == "metadata.name" else "") == self.value) == (self.operator == "In")


@dataclass(frozen=True, slots=True)
class NodeSelectorTerm:
    """A term of a node selector: requirements that must all match. `error`: why the term is invalid; it then matches no
    node.

    `names`: the names that `metadata.name In` allows; None without such a requirement. PreFilter reads `names` even
    from an invalid term. `unchecked`: (key, operator, values) of an invalid term, for components that do not check it.
    """

    expressions: tuple[Requirement, ...] = ()
    fields: tuple[FieldRequirement, ...] = ()
    error: str = ""
    names: frozenset[str] | None = None
    unchecked: tuple[tuple[str, str, tuple[str, ...]], ...] = ()

    def matches(self, labels: Mapping[str, str], name: str) -> bool:
        """Report whether the term matches a node. With "" as name, only labels are compared (for PersistentVolumes)."""
        if self.error:
            return False
        return all(e.matches(labels) for e in charging(self.expressions)) and (
            not name or all(f.matches(name) for f in charging(self.fields))
        )


@dataclass(frozen=True, slots=True)
class NodeSelector:
    """The terms of a node selector, one of which must match. Empty terms match no node, but PreFilter reads them."""

    terms: tuple[NodeSelectorTerm, ...]

    def matches(self, labels: Mapping[str, str], name: str) -> bool:
        """Report whether one of the terms matches the node. See `NodeSelectorTerm.matches`."""
        return any((t.expressions or t.fields) and t.matches(labels, name) for t in charging(self.terms, 1))

    @property
    def labels(self) -> list[dict[str, frozenset[str]]]:
        """The labels that each term requires, with the values that its operator In allows."""
        return [{e.key: e.values for e in term.expressions if e.operator == "In"} for term in self.terms]


@dataclass(frozen=True, slots=True)
class PreferredSchedulingTerm:
    """A preferred term of node affinity, and its weight for nodes that match the term."""

    weight: int
    term: NodeSelectorTerm


@dataclass(frozen=True, slots=True)
class NodeAffinity:
    """The nodes that a Pod's nodeSelector and node affinity allow. `node_selector`, `required`: None if absent."""

    node_selector: Mapping[str, str] | None = None
    required: NodeSelector | None = None
    preferred: tuple[PreferredSchedulingTerm, ...] | None = None

    def matches(self, labels: Mapping[str, str], name: str) -> bool:
        """Report whether a node satisfies nodeSelector and required affinity (upstream
        `RequiredNodeAffinity.Match`).
        """
        wanted = self.node_selector or {}
        if len(wanted) > FEW:
            charge(len(wanted) // 32)  # the first expression usually decides
        for key, value in wanted.items():
            if labels.get(key) != value:
                return False
        return self.required is None or self.required.matches(labels, name)

    @property
    def only_node(self) -> str:
        """The name of the single node that the required terms name; "" without one, as for Pods of no DaemonSet."""
        named = {name for term in self.required.terms for name in term.names or ("", " ")} if self.required else set()
        return named.pop() if len(named) == 1 else ""

    @classmethod
    def from_api(cls, pod: ApiObject) -> NodeAffinity:
        """Read the nodeSelector and node affinity of a Pod's API object. Raises InvalidObject."""
        path = ("spec", "affinity", "nodeAffinity")
        has_selector = at(pod, "spec", "nodeSelector") is not None
        requires, prefers = (at(pod, *path, how) is not None for how in (REQUIRED, PREFERRED))
        return cls(
            node_selector=dict(string_map(pod, "spec", "nodeSelector")) if has_selector else None,
            required=read_node_selector(pod, *path, REQUIRED) if requires else None,
            preferred=tuple(_preferred(pod, path)) if prefers else None,
        )


def read_node_selector(obj: ApiObject, *path: str | int) -> NodeSelector:
    """Read the `v1.NodeSelector` at a path. Raises InvalidObject."""
    return NodeSelector(tuple(_term(term) for term in items(obj, *path, "nodeSelectorTerms")))


def _preferred(pod: ApiObject, path: tuple[str, ...]) -> list[PreferredSchedulingTerm]:
    terms = []
    for entry in items(pod, *path, PREFERRED):
        term = _term(mapping(entry, "preference"))
        weight = int32(entry, "weight") or 0
        if weight and (term.expressions or term.fields or term.error):
            terms.append(PreferredSchedulingTerm(weight, term))
    return terms


def _term(term: ApiObject) -> NodeSelectorTerm:
    try:
        expressions = tuple(parse_requirement(e, NODE_OPERATORS) for e in items(term, "matchExpressions"))
        fields = tuple(_field(f) for f in items(term, "matchFields"))
    except InvalidSelector as error:
        return NodeSelectorTerm(error=str(error), names=_names(term), unchecked=tuple(_unchecked(term)))
    return NodeSelectorTerm(expressions, fields, names=_names(term))


def _unchecked(term: ApiObject) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    for expression in items(term, "matchExpressions"):
        known = tuple(value for value in list_at(expression, "values") if isinstance(value, str))
        yield str(expression.get("key", "")), str(expression.get("operator", "")), known


def _field(requirement: ApiObject) -> FieldRequirement:
    key, operator, values = requirement.get("key", ""), requirement.get("operator", ""), strings(requirement, "values")
    if operator not in ("In", "NotIn") or len(values) != 1:
        raise InvalidSelector("matchFields takes In and NotIn, with one value")
    return FieldRequirement(str(key), str(operator), values[0])


def _names(term: ApiObject) -> frozenset[str] | None:
    names: frozenset[str] | None = None
    for requirement in items(term, "matchFields"):
        if requirement.get("key") == "metadata.name" and requirement.get("operator") == "In":
            values: frozenset[Any] = frozenset(strings(requirement, "values"))
            names = values if names is None else names & values
    return names


HOSTNAME: Final = "kubernetes.io/hostname"
ZONE: Final = "topology.kubernetes.io/zone"
REGION: Final = "topology.kubernetes.io/region"
NO_SCHEDULE: Final = "NoSchedule"
NO_EXECUTE: Final = "NoExecute"
PREFER_NO_SCHEDULE: Final = "PreferNoSchedule"


class Taint(NamedTuple):
    """A taint of a node or a device. `added`: for a device, when the taint was added, in seconds since 1970."""

    key: str
    value: str
    effect: str
    added: int | None = None

    def __str__(self) -> str:
        return f"{self.key}{self.value and f'={self.value}'}:{self.effect}"

    @property
    def repels_pods(self) -> bool:
        return self.effect in (NO_SCHEDULE, NO_EXECUTE)


UNSCHEDULABLE_TAINT: Final = Taint("node.kubernetes.io/unschedulable", "", NO_SCHEDULE)


class Toleration(NamedTuple):
    """A toleration of a Pod or of a device request; "" as key or effect matches all keys or effects.

    `seconds` None: tolerates without limit.
    """

    key: str
    operator: str
    value: str
    effect: str
    seconds: int | None = None

    def tolerates(self, taint: Taint) -> bool:
        """Report whether the taint is tolerated; False for the alpha operators Gt and Lt. Source: `ToleratesTaint`."""
        if (self.effect and self.effect != taint.effect) or (self.key and self.key != taint.key):
            return False
        if self.operator in ("", "Equal"):
            return self.value == taint.value
        return self.operator == "Exists"


def tolerations_tolerate_taint(tolerations: Sequence[Toleration], taint: Taint) -> bool:
    return any(toleration.tolerates(taint) for toleration in charging(tolerations, 0.2))


def untolerated_taint(taints: Iterable[Taint], tolerations: tuple[Toleration, ...]) -> Taint | None:
    """Return the first untolerated taint except PreferNoSchedule, or None. Source: `FindMatchingUntoleratedTaint`."""
    for taint in taints:
        if taint.repels_pods and not tolerations_tolerate_taint(tolerations, taint):
            return taint
    return None


def read_taints(obj: ApiObject, *path: str) -> tuple[Taint, ...]:
    """Parse the taints at a path. Raises InvalidObject."""
    return tuple(Taint(text(t, "key"), text(t, "value"), text(t, "effect")) for t in items(obj, *path))


def read_tolerations(obj: ApiObject, *path: str) -> tuple[Toleration, ...]:
    """Parse the tolerations at a path. Raises InvalidObject."""
    return tuple(map(_toleration, items(obj, *path)))


def _toleration(entry: ApiObject) -> Toleration:
    key, operator, value, effect = (text(entry, name) for name in ("key", "operator", "value", "effect"))
    return Toleration(key, operator, value, effect, integer(entry, "tolerationSeconds"))


LABEL_OS: Final = "kubernetes.io/os"
_LINUX: Final = "linux"


@dataclass(frozen=True, slots=True)
class Node:
    """A stored Node. `images`: name -> size in bytes. `allocatable`: resources in kube-scheduler's units.

    `operating_system`: as the kubelet reports it (upstream `runtime.GOOS`). `supplemental_groups_policy`: whether the
    container runtime supports the policy Strict.
    """

    name: str
    labels: Mapping[str, str]
    taints: tuple[Taint, ...]
    unschedulable: bool
    allocatable: Resource
    images: Mapping[str, int]
    declared_features: frozenset[str] = frozenset()
    operating_system: str = _LINUX
    supplemental_groups_policy: bool = False
    kubelet_version: str = ""

    def with_taint_of_cordon(self) -> Node:
        """Return the node with UNSCHEDULABLE_TAINT if it is unschedulable, otherwise without."""
        cordon = (UNSCHEDULABLE_TAINT.key, UNSCHEDULABLE_TAINT.effect)
        taints = tuple(taint for taint in self.taints if (taint.key, taint.effect) != cordon)
        if self.unschedulable == (len(taints) < len(self.taints)):
            return self
        return replace(self, taints=(*taints, UNSCHEDULABLE_TAINT) if self.unschedulable else taints)

    def has_taints(self) -> bool:
        return bool(self.taints)

    def has_prefer_no_schedule(self) -> bool:
        """Report whether the node has PreferNoSchedule taints."""
        return any(taint.effect == PREFER_NO_SCHEDULE for taint in self.taints)

    def has_images(self) -> bool:
        return bool(self.images)

    @classmethod
    def from_api(cls, obj: ApiObject) -> Node:
        """Read an API object. Raises InvalidObject."""
        with within(obj, "spec", "taints"):
            taints = read_taints(obj, "spec", "taints")
        labels = shared_labels(string_map(obj, "metadata", "labels"))
        images: dict[str, int] = {}
        with within(obj, "status", "images"):
            for image in items(obj, "status", "images"):
                size = image.get("sizeBytes")
                for name in strings(image, "names"):
                    images.setdefault(name, size if isinstance(size, int) else 0)
        return cls(
            name=text(obj, "metadata", "name"),
            labels=labels,
            taints=taints,
            unschedulable=boolean(obj, "spec", "unschedulable"),
            allocatable=as_resource(read_resource_list(obj, "status", "allocatable")),
            images=images,
            declared_features=frozenset(strings(obj, "status", "declaredFeatures")),
            operating_system=text(obj, "status", "nodeInfo", "operatingSystem") or labels.get(LABEL_OS, _LINUX),
            supplemental_groups_policy=boolean(obj, "status", "features", "supplementalGroupsPolicy"),
            kubelet_version=text(obj, "status", "nodeInfo", "kubeletVersion"),
        )
