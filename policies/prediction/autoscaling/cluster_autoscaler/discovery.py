"""Find node groups, their sizes and the flags of cluster-autoscaler in the objects of a cluster.

Sources: labels of nodes, the status ConfigMap (clusterstate/api/types.go), MachineSets and MachineDeployments with the
annotations of cloudprovider/clusterapi, and the flags of the Deployment. Objects are hostile: reading never fails, a
field of the wrong type counts as absent, and the numbers of groups, flags and characters are bounded.
"""

from __future__ import annotations

import json
import os
import re
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from math import inf
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from forewarn.policies.base.findings import brief, cut
from forewarn.policies.inputs.manifests.documents import Fault
from forewarn.policies.inputs.manifests.reading import values
from forewarn.policies.kubernetes.cluster.cache import Cache, key_of
from forewarn.policies.kubernetes.kinds.registry import AUTOSCALER, POD_TEMPLATE_PATHS
from forewarn.policies.kubernetes.objects.fields import (
    ApiObject,
    InvalidObject,
    at,
    group_kind,
    items,
    list_at,
    mapping_at,
    text,
    text_at,
    timestamp,
)
from forewarn.policies.kubernetes.objects.node import ZONE, Node
from forewarn.policies.kubernetes.objects.resources import CPU, MEMORY
from forewarn.policies.prediction.autoscaling.cluster_autoscaler import orchestrator, scale_down
from forewarn.policies.prediction.autoscaling.cluster_autoscaler.estimator import MAX_NODES
from forewarn.policies.prediction.autoscaling.cluster_autoscaler.flags import duration, number, values_of
from forewarn.policies.prediction.autoscaling.cluster_autoscaler.node_group import (
    IGNORED_LABELS,
    Member,
    NodeGroup,
    from_node,
    from_provider,
    is_good_template,
    is_ready,
)

if TYPE_CHECKING:
    from forewarn.policies.kubernetes.scheduling.snapshot import Snapshot

MAX_GROUPS: Final = 500
STATUS: Final = "cluster-autoscaler-status"
NO_TEMPLATE: Final = "no node to make a template of"
_MAX_LENGTH: Final = 253
_MAX_STATUS: Final = 1 << 20
_UNLIMITED: Final = {CPU: 320_000, MEMORY: 6_400_000}
"""Defaults of --cores-total and --memory-total (GiB)."""
_MAX_FLAGS: Final = 200
_MAX_FLAG_LENGTH: Final = 60
_MACHINES: Final = {
    "cluster.x-k8s.io/MachineDeployment": "cluster.x-k8s.io",
    "cluster.x-k8s.io/MachineSet": "cluster.x-k8s.io",
    "machine.openshift.io/MachineSet": "machine.openshift.io",
}
"""Kinds of node groups -> the prefix of their annotations."""
_EKS: Final = re.compile(r"eks-(.+)-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_EKSCTL: Final = re.compile(r"eksctl-.*-nodegroup-(.+)-NodeGroup-[0-9A-Za-z]+")
_DISABLED: Final = "cluster-autoscaler.kubernetes.io/scale-down-disabled"
_DELAYED: Final = "delay-deletion.cluster-autoscaler.kubernetes.io/"
_STARTUP_TIME: Final = 900.0
_TOTALS: Final = {"cores-total": 0, "memory-total": 0, "gpu-total": 1}
"""Flags with a minimum and a maximum -> the position of the minimum in the value."""
_FLAG: Final = re.compile(r"--?([a-z][a-z0-9_-]*)(?:=(.*))?", re.DOTALL)
_PROGRAM: Final = "cluster-autoscaler"
_MAX_SCRIPT: Final = 20_000
_STARTUP_TAINTS: Final = ("startup-taint", "ignore-taint")
with open(os.path.join(os.path.dirname(__file__), "flags.json"), encoding="utf-8") as _file:
    _FLAGS: Final = json.load(_file)
"""Three groups of flags, besides those of settings: flags that forewarn reads; flags that it does not model, with their
default values; and flags that change no answer, for example because nothing fails in simulations. All other flags count
as not modelled.
"""
_OF_SETTINGS: Final = {**orchestrator.SCALE_UP_FLAGS, **scale_down.SCALE_DOWN_FLAGS}
_READ: Final = frozenset((*_FLAGS["read"], *_OF_SETTINGS, *_STARTUP_TAINTS))
_NOT_MODELLED, _NOT_MODELLED_IN_SCALE_DOWN = (
    {flag: default for flag, default in _FLAGS[key].items() if flag not in _READ}
    for key in ("notModelled", "notModelledInScaleDown")
)
_NOT_MODELLED["max-nodes-per-scaleup"] = str(MAX_NODES)
_ALLOWED: Final = _READ.union(_FLAGS["irrelevant"], _NOT_MODELLED_IN_SCALE_DOWN)
_ALLOWED_PREFIXES: Final = tuple(flag.removesuffix("*") for flag in _FLAGS["irrelevant"] if flag.endswith("*"))
_BOOLEAN: Final = frozenset(
    name for name, default in {**_NOT_MODELLED, **_NOT_MODELLED_IN_SCALE_DOWN}.items() if default in ("true", "false")
).union(["scale-from-unschedulable"], (name for name, flag in _OF_SETTINGS.items() if flag.is_switch))


class Sizes(NamedTuple):
    """What one source says about a group. `state`: why the group does not grow, or None."""

    size: int | None = None
    min_size: int = 0
    max_size: int | None = None
    state: str | None = None


class Pool(NamedTuple):
    """A node group of the cluster. `source`: where forewarn found it. `limits`: where its sizes are from, or "".

    `template`: what the template was made from, or "". `group`: None without a template.
    """

    name: str
    source: str
    nodes: int
    zones: tuple[str, ...]
    sizes: Sizes
    limits: str
    template: str
    group: NodeGroup | None


class _Seen:
    """The nodes of one group. `model`: the first node that is a good template, otherwise the first one."""

    def __init__(self, source: str) -> None:
        self.source, self.names, self.zones = source, 0, set[str]()
        self.members: dict[str, Member] = {}
        self.model: ApiObject | None = None
        self.is_good = False

    def add(self, obj: ApiObject, *, is_ready: bool) -> None:
        self.names += 1
        if zone := text_at(obj, "metadata", "labels", ZONE):
            self.zones.add(zone)
        try:
            annotations = mapping_at(obj, "metadata", "annotations")
            delayed = any(str(key).startswith(_DELAYED) for key in annotations)
            member = Member(annotations.get(_DISABLED) == "true", is_ready, delayed)
            self.members[text_at(obj, "metadata", "name")] = member
            if self.is_good:
                return
            self.is_good = is_good_template(obj)
        except InvalidObject:
            return
        if self.is_good or self.model is None:
            self.model = obj


class _State(NamedTuple):
    """The data that decide whether a node is ready. `created`: creation time in seconds. `taints`: their keys."""

    created: int
    ready: bool
    taints: tuple[str, ...]


class Discovery:
    """Collects what the objects of a cluster say about node groups."""

    def __init__(self) -> None:
        self._nodes: dict[str, _Seen] = {}
        self._sizes: dict[str, tuple[Sizes, str]] = {}
        self._templates: dict[str, ApiObject] = {}
        self._flags: list[tuple[str, str]] = []
        self.has_flags = False
        """Whether there is a Deployment of cluster-autoscaler."""
        self._states: dict[str, _State] = {}
        """The states of nodes that are not ready or have taints."""
        self._priorities: dict[str, str] = {}
        self.node_pools: list[ApiObject] = []
        """NodePools of Karpenter."""
        self.karpenter_flags: dict[str, str] = {}
        """The flags of the Deployment of Karpenter, including flags that are set by environment variables."""
        self.problem = ""
        """Why the status ConfigMap is not read, or ""."""

    def take(self, obj: ApiObject) -> bool:
        """Read an object; return whether only node groups need it."""
        kind = group_kind(obj)
        if kind == "/Node":
            self._take_node(obj)
        elif kind == "apps/Deployment":
            self._take_deployment(obj)
        elif kind == "/ConfigMap" and text_at(obj, "metadata", "name") == STATUS:
            self._take_status(text_at(obj, "data", "status"))
        elif kind == "/ConfigMap" and text_at(obj, "metadata", "name") == orchestrator.PRIORITIES:
            self._priorities[text_at(obj, "metadata", "namespace")] = text_at(obj, "data", "priorities")
        elif kind in _MACHINES:
            self._take_machines(obj, kind)
        elif kind == "karpenter.sh/NodePool":
            self.node_pools = [*self.node_pools[-MAX_GROUPS:], obj]
        else:
            return False
        return kind not in ("/Node", "apps/Deployment")

    def _take_node(self, obj: ApiObject) -> None:
        node, (name, source) = text_at(obj, "metadata", "name"), _group_of(obj)
        try:
            created, ready = timestamp(obj, "metadata", "creationTimestamp") or 0, is_ready(obj)
            taints = tuple(text(taint, "key")[:_MAX_LENGTH] for taint in items(obj, "spec", "taints"))
        except InvalidObject:
            created, ready, taints = 0, True, ()
        self._states.pop(node, None)
        if taints or not ready:
            self._states[node] = _State(created, ready, taints)
        if name and (name in self._nodes or len(self._nodes) < MAX_GROUPS):
            self._nodes.setdefault(name, _Seen(source)).add(obj, is_ready=ready)

    def _take_status(self, status: str) -> None:
        try:
            document: Any = next((v.value for v in values(status[:_MAX_STATUS].encode(), STATUS)), None)
        except Fault:
            document = None
        groups = at(document, "nodeGroups")
        if not isinstance(groups, list):
            self.problem = f"ConfigMap {STATUS} is not in the format of cluster-autoscaler 1.30 or newer"
            return
        for entry in groups[:MAX_GROUPS]:
            if name := brief(text_at(entry, "name"), _MAX_LENGTH):
                self._sizes[name] = _status_sizes(entry), f"ConfigMap {STATUS}"

    def _take_machines(self, obj: ApiObject, kind: str) -> None:
        prefix = f"{_MACHINES[kind]}/cluster-api-autoscaler-node-group-"
        annotations = mapping_at(obj, "metadata", "annotations")
        most = number(annotations.get(f"{prefix}max-size"))
        if most is None or len(self._templates) >= MAX_GROUPS:
            return
        kind_name = kind.rpartition("/")[2]
        name = "/".join([kind_name, *(text_at(obj, "metadata", key) for key in ("namespace", "name"))])
        least = number(annotations.get(f"{prefix}min-size")) or 0
        self._sizes.setdefault(name, (Sizes(number(at(obj, "spec", "replicas")), least, most), kind_name))
        if template := _template_of_annotations(annotations):
            self._templates[name] = template

    def _take_deployment(self, obj: ApiObject) -> None:
        for container in list_at(obj, "spec", "template", "spec", "containers")[:10]:
            words = [word for key in ("command", "args") for word in _words(container, key)]
            if "karpenter" in _image(container):
                self.karpenter_flags = {**_environment(container), **dict(_flags_in(words))}
            programs = [place for place, word in enumerate(words) if word.rpartition("/")[2] == _PROGRAM]
            if programs or _image(container).rpartition("/")[2] == _PROGRAM:
                self.has_flags = True
                self._flags = list(_flags_in(words[programs[0] + 1 if programs else 0 :][:_MAX_FLAGS]))

    @property
    def settings(self) -> orchestrator.Settings:
        """Return the settings that the flags of cluster-autoscaler's Deployment specify."""
        flags = dict(self._flags)
        limits = {CPU: _most(flags.get("cores-total")), MEMORY: _most(flags.get("memory-total"))}
        priorities = self._priorities.get(flags.get("namespace", "kube-system"))
        extra = frozenset(value for name, value in self._flags if name == "balancing-ignore-label")
        return orchestrator.Settings(
            expanders=tuple(flags.get("expander", orchestrator.DEFAULT).split(",")[:10]),
            ignored_labels=extra | {*IGNORED_LABELS.get(flags.get("cloud-provider", ""), ())},
            limits={
                name: most << (30 if name == MEMORY else 0)
                for name, most in limits.items()
                if most is not None and most < _UNLIMITED[name]
            },
            priorities=None if priorities is None else orchestrator.Priorities(priorities),
            scale_down=_scale_down(self._flags),
            unmodelled=_unmodelled(self._flags),
            **{
                field: value
                for field, value in values_of(orchestrator.SCALE_UP_FLAGS, flags).items()
                if value is not None
            },
        )

    def unready(self, time: str) -> frozenset[str]:
        """Return the nodes neither ready nor starting. `time`: in RFC 3339, or "". Source: `updateReadinessStats`."""
        startup = duration(dict(self._flags).get("max-node-startup-time", ""))
        least = _STARTUP_TIME if startup is None else startup
        now, is_ready = timestamp({"time": time}, "time") or inf, self._tells_ready()
        return frozenset(
            name
            for name, state in self._states.items()
            if state.created + least <= now and scale_down.TO_BE_DELETED.key not in state.taints and not is_ready(name)
        )

    def _tells_ready(self) -> Callable[[str], bool]:
        states, is_passing = self._states, _tests_keys(self._flags, _STARTUP_TAINTS)
        starting = {name for name, state in states.items() if any(map(is_passing, state.taints))}
        return lambda name: name not in starting and (name not in states or states[name].ready)

    @property
    def cutoff(self) -> int | None:
        """The flag --expendable-pods-priority-cutoff; None if unknown."""
        text = dict(self._flags).get("expendable-pods-priority-cutoff", "")
        return int(text) if re.fullmatch(r"-?[0-9]{1,10}", text, re.ASCII) else None

    def pools(self, snapshot: Snapshot) -> list[Pool]:
        """Return the node groups, by name. `snapshot`: the cluster as cluster-autoscaler sees it."""
        sizes = {_key(name, self._nodes): (name, *of) for name, of in (*self._flag_sizes(), *self._sizes.items())}
        pools = []
        for key in sorted({*self._nodes, *sizes})[:MAX_GROUPS]:
            name, of, limits = sizes.get(key, (key, Sizes(), ""))
            pools.append(self._pool(key, name, of, limits, snapshot))
        return pools

    def _flag_sizes(self) -> Iterator[tuple[str, tuple[Sizes, str]]]:
        for name, value in self._flags:
            least, _, rest = value.partition(":")
            most, _, group = rest.partition(":")
            if name == "nodes" and group and (maximum := number(most)) is not None:
                yield brief(group, _MAX_LENGTH), (Sizes(None, number(least) or 0, maximum), "flag --nodes")

    def _pool(self, key: str, name: str, sizes: Sizes, limits: str, snapshot: Snapshot) -> Pool:
        seen = self._nodes.get(key) or _Seen(limits)
        size = max(seen.names if sizes.size is None else sizes.size, 0)
        group, template = None, ""
        try:
            if seen.model is not None and (info := snapshot.get(text_at(seen.model, "metadata", "name"))):
                group, template = from_node(key, size, sizes.max_size, seen.model, info.pods), f"node {info.name}"
            elif key in self._templates:
                group = from_provider(key, size, sizes.max_size, self._templates[key])
                template = "annotations"
        except InvalidObject:
            pass
        zones = tuple(sorted(seen.zones))
        if group is not None:
            group = group._replace(blocked=sizes.state, zones=zones, id=name, node=self._sanitized(group.node))
            is_ready = self._tells_ready()
            members = {each: of._replace(ready=is_ready(each)) for each, of in seen.members.items()}
            group = group._replace(min_size=sizes.min_size, members=members)
        return Pool(name, seen.source, seen.names, zones, sizes._replace(size=size), limits, template, group)

    def _sanitized(self, node: Node) -> Node:
        """Return a template's node, sanitized as the flags require. Source: `SanitizedTemplateNodeInfoFromNodeInfo`."""
        is_passing = _tests_keys(self._flags, (*_STARTUP_TAINTS, "status-taint"))
        scales = dict(self._flags).get("scale-from-unschedulable") == "true"
        taints = tuple(taint for taint in node.taints if not is_passing(taint.key))
        return replace(node, taints=taints, unschedulable=node.unschedulable and not scales)


class GroupCache(Cache):
    """A Cache that also collects what the objects say about node groups, and the HorizontalPodAutoscalers."""

    def __init__(
        self, collect: Callable[[ApiObject], bool | None] | None = None, templates: Collection[str] = POD_TEMPLATE_PATHS
    ) -> None:
        super().__init__(collect=collect, templates=templates)
        self.discovery = Discovery()
        self.autoscalers: dict[tuple[str, str], ApiObject] = {}

    def add(self, obj: ApiObject) -> bool:
        """Add or replace an object. See `Cache.add`."""
        if group_kind(obj) == AUTOSCALER:
            self.autoscalers[key_of(obj)] = obj
            return True
        return self.discovery.take(obj) or super().add(obj)


def _group_of(node: ApiObject) -> tuple[str, str]:
    """Return (name of the node's group, as cluster-autoscaler names it if known; source of the name), or ("", "")."""
    name = text_at(node, "metadata", "name")
    labels, annotations = (mapping_at(node, "metadata", key) for key in ("labels", "annotations"))
    for label, shortened in _LABELS.items():
        if isinstance(value := labels.get(label), str) and value:
            return brief(shortened(name, value), _MAX_LENGTH), f"label {label}"
    if isinstance(machine := annotations.get("machine.openshift.io/machine"), str):
        return brief(f"MachineSet/{machine.rpartition('-')[0]}", _MAX_LENGTH), "annotation machine.openshift.io/machine"
    owner, namespace = (annotations.get(f"cluster.x-k8s.io/{key}") for key in ("owner-name", "cluster-namespace"))
    if isinstance(owner, str) and isinstance(namespace, str):
        name = f"MachineDeployment/{namespace}/{owner.rpartition('-')[0]}"
        return brief(name, _MAX_LENGTH), "annotation cluster.x-k8s.io/owner-name"
    return "", ""


def _as_labelled(_node: str, pool: str) -> str:
    return pool


_LABELS: Final[Mapping[str, Callable[[str, str], str]]] = {
    "cloud.google.com/gke-nodepool": lambda node, pool: (
        f"{node.rpartition('-')[0]}-grp" if node.startswith("gke-") else pool
    ),
    "eks.amazonaws.com/nodegroup": _as_labelled,
    "alpha.eksctl.io/nodegroup-name": _as_labelled,
    "kubernetes.azure.com/agentpool": lambda node, pool: (
        node[:-6] if re.fullmatch(r".*-vmss[0-9a-z]{6}", node) else pool
    ),
    "kops.k8s.io/instancegroup": _as_labelled,
}
"""Label of a node -> function that returns the group's name for the node's name and the label's value."""


def _key(name: str, nodes: Mapping[str, object]) -> str:
    """Return the key in `nodes` of the group that cluster-autoscaler calls `name`; `name` itself if there is none."""
    last = name.rpartition("/")[2]
    matches = (pattern.fullmatch(last) for pattern in (_EKS, _EKSCTL))
    candidates = (name, last, *(match[1] for match in matches if match), last.partition(".")[0])
    return next((candidate for candidate in candidates if candidate in nodes), name)


def _status_sizes(entry: ApiObject) -> Sizes:
    size, least, most = (number(at(entry, "health", key)) for key in ("cloudProviderTarget", "minSize", "maxSize"))
    state = orchestrator.NOT_READY if text_at(entry, "health", "status") == "Unhealthy" else None
    state = orchestrator.BACK_OFF if text_at(entry, "scaleUp", "status") == "Backoff" else state
    return Sizes(size, least or 0, most, state)


def _template_of_annotations(annotations: Mapping[str, Any]) -> ApiObject | None:
    """Return a Node built from the capacity annotations; None without cpu and memory. Source: `TemplateNodeInfo`."""
    annotated = {
        key: _annotation(annotations, key) for key in ("cpu", "memory", "ephemeral-disk", "maxPods", "gpu-count")
    }
    if not (annotated["cpu"] and annotated["memory"]):
        return None
    capacity = {"cpu": annotated["cpu"], "memory": annotated["memory"], "pods": annotated["maxPods"] or "110"}
    if annotated["ephemeral-disk"]:
        capacity["ephemeral-storage"] = annotated["ephemeral-disk"]
    if annotated["gpu-count"]:
        capacity[_annotation(annotations, "gpu-type") or "nvidia.com/gpu"] = annotated["gpu-count"]
    labels = {"kubernetes.io/arch": "amd64", "kubernetes.io/os": "linux"}
    labels |= dict(_pairs(_annotation(annotations, "labels")))
    taints = [
        {"key": key, "value": value.partition(":")[0], "effect": value.partition(":")[2]}
        for key, value in _pairs(_annotation(annotations, "taints"))
    ]
    return {
        "kind": "Node",
        "metadata": {"name": "template", "labels": labels},
        "spec": {"taints": taints},
        "status": {"capacity": capacity, "allocatable": capacity},
    }


def _annotation(annotations: Mapping[str, Any], key: str) -> str:
    value = annotations.get("capacity.cluster-autoscaler.kubernetes.io/" + key)
    return value[:4096] if isinstance(value, str) else ""


def _pairs(text: str) -> Iterable[tuple[str, str]]:
    parts = (part.strip().partition("=") for part in text.split(",") if part.strip())
    return ((key, value) for key, _, value in parts)


def _words(container: ApiObject, key: str) -> Iterator[str]:
    """Yield the words of a command; a shell script is split into words."""
    for word in list_at(container, key)[:_MAX_FLAGS]:
        if isinstance(word, str):
            is_script = not word.startswith("-") and _PROGRAM in word
            yield from re.sub("[\"']", "", word[:_MAX_SCRIPT]).split() if is_script else [word[:1000]]


def _flags_in(words: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield flags with their values, as pflag reads them."""
    left = deque(words)
    while left:
        if (match := _FLAG.fullmatch(left.popleft())) is None:
            continue
        name, value = match[1].replace("_", "-"), match[2]
        if value is None:
            has_value = name not in _BOOLEAN and left and not _FLAG.fullmatch(left[0])
            value = left.popleft() if has_value else "true"
        yield name, value


def _environment(container: ApiObject) -> dict[str, str]:
    """Return the environment variables as flags: PREFERENCE_POLICY becomes preference-policy."""
    read = [(at(each, "name"), at(each, "value")) for each in list_at(container, "env")[:_MAX_FLAGS]]
    return {
        name[:_MAX_LENGTH].lower().replace("_", "-"): value[:_MAX_LENGTH]
        for name, value in read
        if isinstance(name, str) and isinstance(value, str)
    }


def _tests_keys(flags: Iterable[tuple[str, str]], names: Collection[str]) -> Callable[[str], bool]:
    """Return a function that reports whether one of these flags names the key of a taint, or a prefix of it."""
    given = [(name, value) for name, value in flags if value]
    keys = {value for name, value in given if name in names}
    prefixes = tuple(value for name, value in given if name == "startup-taint-prefix")
    return lambda key: key in keys or key.startswith(prefixes)


def _unmodelled(flags: Iterable[tuple[str, str]]) -> tuple[str, ...]:
    """Return the flags that forewarn does not model and that may change an answer."""
    names = {
        name: None
        for name, value in flags
        if name not in _ALLOWED
        and not name.startswith(_ALLOWED_PREFIXES)
        and not _is_default(value, _NOT_MODELLED.get(name))
    }
    return tuple(cut(name, _MAX_FLAG_LENGTH) for name in names)


def _is_default(value: str, default: str | None) -> bool:
    return value == default or (default == "0s" and duration(value) == 0)


def _image(container: ApiObject) -> str:
    return re.split("[:@]", text_at(container, "image")[:_MAX_LENGTH])[0]


def _scale_down(arguments: Sequence[tuple[str, str]]) -> scale_down.ScaleDownSettings:
    """Return the settings of scale-down; a flag that is unreadable or not modelled makes removals unknown."""
    flags = dict(arguments)
    chosen = values_of(scale_down.SCALE_DOWN_FLAGS, flags)
    for name, flag in scale_down.SCALE_DOWN_FLAGS.items():
        if chosen.get(flag.field, flag) is None:
            return scale_down.ScaleDownSettings(not_predicted=f"--{name} has an unreadable value")
    totals = ((name, [*value.split(":"), ""]) for name, value in arguments if name in _TOTALS)
    least = [name for name, limits in totals if number(limits[_TOTALS[name]]) != 0]
    unmodelled = [name for name, default in _NOT_MODELLED_IN_SCALE_DOWN.items() if name in flags]
    unmodelled = [name for name in unmodelled if not _is_default(flags[name], _NOT_MODELLED_IN_SCALE_DOWN[name])]
    names = [*(f"the minimum of --{name}" for name in least), *(f"--{name}" for name in unmodelled)]
    return scale_down.ScaleDownSettings(**chosen, not_predicted=f"{names[0]} is not modelled" if names else "")


def _most(limits: str | None) -> int | None:
    """Return the maximum in a text of the form `min:max`."""
    return number((limits or "").partition(":")[2])
