"""Read a file of node groups: templates of the nodes that cluster-autoscaler can add.

The file is a list of `{name, minSize, size, maxSize, template}`; `template` is a Node (docs/guides/what-if.md).
cluster-autoscaler's functions turn a template into a node. Sources, of cluster-autoscaler 1.36.1:
simulator/node_info_utils.go, utils/taints/taints.go, utils/daemonset/daemonset.go, utils/labels/labels.go.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final, NamedTuple

from forewarn.policies.config.document import ConfigNode, contents, parse
from forewarn.policies.controllers.daemon_set import nodes_that_should_run, with_daemon_fields
from forewarn.policies.controllers.templates import made_of, template_of
from forewarn.policies.objects.fields import InvalidObject, json_type, mapping, ref_of
from forewarn.policies.objects.node import Node
from forewarn.policies.objects.pod import Pod
from forewarn.policies.objects.pod_spec import shared_labels
from forewarn.policies.objects.resources import as_resource, read_resource_list

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from forewarn.policies.config.model import ConfigError
    from forewarn.policies.objects.fields import ApiObject
    from forewarn.policies.objects.resources import Resource

MAX_GROUPS: Final = 500
MAX_SIZE: Final = 2**31 - 1
_LONGEST: Final = 253
"""Maximum characters of a name."""
_FIELDS: Final = ("name", "minSize", "size", "maxSize", "template")
_NODE: Final = ("apiVersion", "kind", "metadata", "spec", "status")
_NODE_FIELDS: Final = {
    "metadata": (
        "annotations",
        "creationTimestamp",
        "finalizers",
        "generation",
        "labels",
        "managedFields",
        "name",
        "ownerReferences",
        "resourceVersion",
        "selfLink",
        "uid",
    ),
    "spec": ("configSource", "externalID", "podCIDR", "podCIDRs", "providerID", "taints", "unschedulable"),
    "status": (
        "addresses",
        "allocatable",
        "capacity",
        "conditions",
        "config",
        "daemonEndpoints",
        "declaredFeatures",
        "features",
        "images",
        "nodeInfo",
        "phase",
        "runtimeHandlers",
        "volumesAttached",
        "volumesInUse",
    ),
}
"""The known fields of a Node. A misspelled field is an error; other fields are ignored. Source: core/v1 types.go."""
_TAINT: Final = ("key", "value", "effect", "timeAdded")
_EFFECTS: Final = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_NEEDED: Final = ("cpu", "memory", "pods")
HOSTNAME: Final = "kubernetes.io/hostname"
POOL_LABELS: Final = (
    "karpenter.sh/nodepool",
    "cloud.google.com/gke-nodepool",
    "eks.amazonaws.com/nodegroup",
    "kubernetes.azure.com/agentpool",
    "pool",
    "node.kubernetes.io/instance-type",
)
"""Labels that name a node's pool; the first one that a node has counts."""
_CONDITIONS: Final = "node.kubernetes.io/"
"""Prefix of the taints that the API server and controllers set for conditions."""
TEMPLATE: Final = "cluster-autoscaler.kubernetes.io/template-node"
"""Label of each node that cluster-autoscaler creates from a template."""
_DEPRECATED: Final = {
    "node.kubernetes.io/instance-type": "beta.kubernetes.io/instance-type",
    "topology.kubernetes.io/region": "failure-domain.beta.kubernetes.io/region",
    "topology.kubernetes.io/zone": "failure-domain.beta.kubernetes.io/zone",
}
"""Label -> the deprecated label that cluster-autoscaler sets to the same value. Source: `UpdateDeprecatedLabels`."""
_PASSING_TAINTS: Final = frozenset(
    {
        "ToBeDeletedByClusterAutoscaler",
        "DeletionCandidateOfClusterAutoscaler",
        "node.kubernetes.io/not-ready",
        "node.kubernetes.io/unreachable",
        "node.kubernetes.io/unschedulable",
        "node.kubernetes.io/memory-pressure",
        "node.kubernetes.io/disk-pressure",
        "node.kubernetes.io/network-unavailable",
        "node.kubernetes.io/pid-pressure",
        "node.cloudprovider.kubernetes.io/uninitialized",
        "node.cloudprovider.kubernetes.io/shutdown",
        "cloud.google.com/impending-node-termination",
        "NodeWithImpairedVolumes",
    }
)
_PASSING_PREFIXES: Final = (
    "ignore-taint.cluster-autoscaler.kubernetes.io/",
    "startup-taint.cluster-autoscaler.kubernetes.io/",
    "status-taint.cluster-autoscaler.kubernetes.io/",
)
"""Prefixes of taints that are removed from a template, because a new node is not in that state.

Source: `SanitizeTaints`.
"""


class NodeGroup(NamedTuple):
    """A group of equal nodes that cluster-autoscaler can enlarge.

    `size`: current number of nodes. `max_size`: maximum number; None if unknown. `node`: the template as a node.
    `capacity`: the template's capacity, for the expander, which chooses the group to enlarge. `lost`: true if its new
    nodes would be in a zone or pool that is lost.
    """

    name: str
    size: int
    max_size: int | None
    node: Node
    capacity: Resource
    lost: bool = False

    @property
    def max_added(self) -> int | None:
        """The number of nodes that may be added; None if unknown."""
        return None if self.max_size is None else max(self.max_size - self.size, 0)

    def new_node(self, number: int) -> Node:
        """Return a new node of the group: the template with a unique name. Source: upstream `SanitizedNodeInfo`."""
        name = f"{self.node.name}-{number}"
        return replace(self.node, name=name, labels=shared_labels({**self.node.labels, HOSTNAME: name}))


def load_node_groups(path: str) -> tuple[NodeGroup, ...]:
    """Return the node groups in a file. Raises ConfigError, also if the file cannot be opened."""
    return read_node_groups(contents(path), path)


def read_node_groups(text: str | bytes, file: str) -> tuple[NodeGroup, ...]:
    """Parse node groups from a file's text.

    Raises ConfigError for the first error. `file`: the name in error messages.
    """
    root = parse(text, file)
    groups: dict[str, NodeGroup] = {}
    for entry in root.elements():
        if len(groups) == MAX_GROUPS:
            raise entry.fault(f"more than {MAX_GROUPS} node groups")
        group = _group(entry)
        if group.name in groups:
            raise entry.fault(f'node group "{group.name}" is duplicated')
        groups[group.name] = group
    if not groups:
        raise root.fault("no node groups: use a list of {name, maxSize, template}")
    return tuple(groups.values())


def pool_of(node: Node) -> str:
    """Return the pool of a node, from the first of POOL_LABELS that the node has; "" without such a label."""
    return next((node.labels[label] for label in POOL_LABELS if label in node.labels), "")


def new_node_like(model: Node, name: str) -> Node:
    """Return a new node like `model`, ready and empty: without the model's taints for conditions and cordoning."""
    taints = tuple(taint for taint in model.taints if not taint.key.startswith(_CONDITIONS))
    return replace(model, name=name, labels={**model.labels, HOSTNAME: name}, taints=taints, unschedulable=False)


def daemon_pods(node: Node, daemon_sets: Iterable[ApiObject]) -> list[Pod]:
    """Return the DaemonSet Pods for a new node, whether they fit or not. Source: `GetDaemonSetPodsForNode`.

    As in upstream, the Pods do not pass admission: a LimitRange changes nothing. Raises InvalidObject.
    """
    found = []
    for daemon_set in daemon_sets:
        ref, template = ref_of(daemon_set, "default"), template_of(daemon_set)
        pod = Pod.from_api(made_of(ref.namespace, daemon_set, with_daemon_fields(template)))
        if nodes_that_should_run(template, pod, {node.name: node}):
            found.append(replace(pod, name=f"{ref.name}-pod-{node.name}", node_name=node.name))
    return found


def _group(entry: ConfigNode) -> NodeGroup:
    given = dict(entry.items(_FIELDS))
    for needed in ("name", "template"):
        if needed not in given:
            raise entry.fault(f"{needed} is missing")
    name = given["name"].text()
    if not name or len(name) > _LONGEST or not name.isprintable():
        raise given["name"].fault(f"must be 1 to {_LONGEST} printable characters")
    sizes = {what: _size(given[what]) for what in ("minSize", "size", "maxSize") if what in given}
    least, most = sizes.get("minSize", 0), sizes.get("maxSize")
    if most is not None and least > most:
        raise given["minSize"].fault(f"{least} is greater than maxSize {most}")
    node, capacity = _template(name, given["template"])
    return NodeGroup(name, sizes.get("size", least), most, node, capacity)


def _size(node: ConfigNode) -> int:
    text = node.text()
    if not (text.isascii() and text.isdecimal() and len(text) <= len(str(MAX_SIZE)) and int(text) <= MAX_SIZE):
        raise node.fault(f"must be a whole number from 0 to {MAX_SIZE}")
    return int(text)


def _template(group: str, entry: ConfigNode) -> tuple[Node, Resource]:
    """Return a template as a node, with its capacity. `group`: name of the node group. Raises ConfigError."""
    _check_fields(entry)
    given = entry.plain()
    status = {**mapping(given, "status")} if isinstance(given, dict) else {}
    written = {"allocatable": "allocatable", "capacity": "capacity"}
    for one, other in (("allocatable", "capacity"), ("capacity", "allocatable")):
        if status.get(one) is None and status.get(other) is not None:
            status[one], written[one] = status[other], other
    obj = {**(given or {}), "status": status, "apiVersion": "v1", "kind": "Node"}
    try:
        read = Node.from_api(obj)
        capacity = as_resource(read_resource_list(obj, ("status", "capacity"), obj))
    except InvalidObject as fault:
        path = [written.get(step, step) if isinstance(step, str) else step for step in fault.path]
        raise _fault_at(entry, path, fault.problem) from None
    for name in _NEEDED:
        if name not in mapping(obj, "status", "allocatable"):
            raise _fault_at(entry, ("status", written["allocatable"]), f"{name} is missing; no Pod would fit")
    if not (capacity.milli_cpu > 0 and capacity.memory > 0):
        raise _fault_at(entry, ("status", written["capacity"]), "cpu and memory must be greater than 0")
    name = f"template-node-for-{group}"
    labels = shared_labels({**_labels(read.labels), HOSTNAME: name, TEMPLATE: "true"})
    taints = tuple(t for t in read.taints if t.key not in _PASSING_TAINTS and not t.key.startswith(_PASSING_PREFIXES))
    return replace(read, name=name, labels=labels, taints=taints), capacity


def _check_fields(entry: ConfigNode) -> None:
    """Raise ConfigError at the first unknown field of a template."""
    for part, value in entry.items(_NODE):
        if part == "kind" and value.text() != "Node":
            raise value.fault(f'must be Node, not "{value.text()}"')
        if part in _NODE_FIELDS:
            fields = dict(value.items(_NODE_FIELDS[part]))
            if "taints" in fields:
                _check_taints(fields["taints"])


def _check_taints(entry: ConfigNode) -> None:
    """Raise ConfigError at the first taint that the API server would reject. Source: `validateNodeTaints`."""
    for taint in entry.elements():
        fields = dict(taint.items(_TAINT))
        for needed in ("key", "effect"):
            if needed not in fields:
                raise taint.fault(f"{needed} is missing")
        for name, field in fields.items():
            value = field.plain()
            if name != "timeAdded" and not isinstance(value, str) and (name != "value" or value is not None):
                raise field.fault(f"must be a string, not {json_type(value)}")
        fields["effect"].word(_EFFECTS, "effect")


def _labels(given: Mapping[str, str]) -> dict[str, str]:
    return {**given, **{old: given[label] for label, old in _DEPRECATED.items() if label in given}}


def _fault_at(entry: ConfigNode, path: Sequence[str | int], problem: str) -> ConfigError:
    """Return the ConfigError for a field, at the deepest existing position on the field's `path`."""
    for step in path:
        if entry.is_list:
            found = dict(enumerate(entry.elements())).get(step if isinstance(step, int) else -1)
        else:
            found = dict(entry.items()).get(str(step))
        if found is None:
            break
        entry = found
    return entry.fault(problem)
