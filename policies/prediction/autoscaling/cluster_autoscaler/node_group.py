"""Node groups, and the templates of their new nodes.

Sources: simulator/node_info_utils.go, utils/taints/taints.go, utils/daemonset/daemonset.go, utils/labels/labels.go.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final, NamedTuple

from forewarn.policies.base.copies import shared_labels
from forewarn.policies.kubernetes.controllers.daemon_set import nodes_that_should_run, with_daemon_fields
from forewarn.policies.kubernetes.controllers.templates import made_of, template_of
from forewarn.policies.kubernetes.objects.fields import ApiObject, boolean, items, ref_of, text
from forewarn.policies.kubernetes.objects.node import HOSTNAME, Node
from forewarn.policies.kubernetes.objects.pod import Pod
from forewarn.policies.kubernetes.objects.priority_class import PREEMPT_NEVER
from forewarn.policies.kubernetes.objects.resources import ExactAmounts, read_resource_list
from forewarn.policies.kubernetes.scheduling.node_info import NodeInfo

if TYPE_CHECKING:
    from forewarn.policies.kubernetes.releases.semantics import Semantics

TEMPLATE: Final = "cluster-autoscaler.kubernetes.io/template-node"
"""Label of each node that cluster-autoscaler creates from a template."""
_DEPRECATED: Final = {
    "node.kubernetes.io/instance-type": "beta.kubernetes.io/instance-type",
    "topology.kubernetes.io/region": "failure-domain.beta.kubernetes.io/region",
    "topology.kubernetes.io/zone": "failure-domain.beta.kubernetes.io/zone",
}
"""Label -> the deprecated label that cluster-autoscaler sets to the same value. Source: `UpdateDeprecatedLabels`."""
_DELETED: Final = "ToBeDeletedByClusterAutoscaler"
with open(os.path.join(os.path.dirname(__file__), "node_groups.json"), encoding="utf-8") as _file:
    _TABLES: Final = json.load(_file)
IGNORED_LABELS: Final[Mapping[str, frozenset[str]]] = {
    provider: frozenset(labels) for provider, labels in _TABLES["ignoredLabels"].items()
}
"""Value of --cloud-provider -> labels by which similar node groups may differ; "": labels for all providers. Sources:
compare_nodegroups.go, {aws,azure,gce}_nodegroups.go.
"""
_STARTUP_PREFIXES: Final = (
    "ignore-taint.cluster-autoscaler.kubernetes.io/",
    "startup-taint.cluster-autoscaler.kubernetes.io/",
)
_PASSING_PREFIXES: Final = (*_STARTUP_PREFIXES, "status-taint.cluster-autoscaler.kubernetes.io/")
"""Prefixes of taints that are removed from a template, because a new node is not in that state.

Source: `SanitizeTaints`.
"""
_UNREADY_TAINTS: Final = tuple(
    f"node.kubernetes.io/{key}" for key in ("not-ready", "disk-pressure", "network-unavailable")
)


class Member(NamedTuple):
    """A node of a group. `disabled`, `delayed`: whether an annotation prevents or delays its removal by
    cluster-autoscaler.
    """

    disabled: bool
    ready: bool
    delayed: bool = False


class Price(NamedTuple):
    """A price per month, in hundredths of a currency."""

    cents: int
    currency: str

    def times(self, count: int) -> Price:
        return self._replace(cents=self.cents * count)

    def __str__(self) -> str:
        whole, cents = divmod(self.cents, 100)
        return f"{whole:,}{f'.{cents:02}' if cents else ''} {self.currency}"


class NodeGroup(NamedTuple):
    """A group of equal nodes that cluster-autoscaler can enlarge.

    `size`: target number of nodes. `max_size`: maximum number; None if unknown. `node`: the template as a node.
    `capacity`, `allocatable`: resources of the template. `example`: the Pods of the node from which the template was
    made; None for a template of the cloud provider. `blocked`: why the group does not grow, or None. `zones`: those of
    its nodes. `id`: its name in the cloud provider, or "" if that is `name`. `min_size`: minimum number of nodes.
    `members`: its nodes by name; None if unknown. `price`: price of one node; None if unknown.
    """

    name: str
    size: int
    max_size: int | None
    node: Node
    capacity: ExactAmounts
    allocatable: ExactAmounts
    example: Sequence[Pod] | None = None
    blocked: str | None = None
    zones: tuple[str, ...] = ()
    id: str = ""
    min_size: int = 0
    members: Mapping[str, Member] | None = None
    price: Price | None = None

    @property
    def max_added(self) -> int | None:
        """The number of nodes that may be added; None if unknown."""
        return None if self.max_size is None else max(self.max_size - self.size, 0)

    def new_node(self, number: int | str) -> Node:
        """Return a node of an estimate: the template with a unique name. Source: upstream `SanitizedNodeInfo`."""
        name = f"{self.node.name}-{number}"
        return replace(self.node, name=name, labels=shared_labels({**self.node.labels, HOSTNAME: name}))

    def real_node(self, name: str) -> Node:
        """Return a node that joins the cluster, without the label of estimates."""
        labels = {key: value for key, value in self.node.labels.items() if key != TEMPLATE}
        return replace(self.node, name=name, labels=shared_labels({**labels, HOSTNAME: name}))

    def has(self, node: Node) -> bool:
        """Report whether a node has the labels and the extended resources of the template."""
        added = {HOSTNAME, TEMPLATE, *_DEPRECATED.values()}
        labels = {key: value for key, value in self.node.labels.items() if key not in added}
        return labels.items() <= node.labels.items() and self.node.allocatable.scalars == node.allocatable.scalars


def from_provider(name: str, size: int, max_size: int | None, obj: ApiObject) -> NodeGroup:
    """Return a group with a template of the cloud provider. `obj`: the Node. Raises InvalidObject."""
    group = from_node(name, size, max_size, obj, None)
    labels = group.node.labels
    deprecated = {old: labels[label] for label, old in _DEPRECATED.items() if label in labels}
    return group._replace(node=replace(group.node, labels=shared_labels({**labels, **deprecated})))


def from_node(name: str, size: int, max_size: int | None, obj: ApiObject, example: Sequence[Pod] | None) -> NodeGroup:
    """Return a group whose template is a node of the group with the Pods `example`. Raises InvalidObject."""
    read, template = Node.from_api(obj), f"template-node-for-{name}"
    taints = tuple(
        t for t in read.taints if t.key not in _TABLES["passingTaints"] and not t.key.startswith(_PASSING_PREFIXES)
    )
    labels = shared_labels({**read.labels, HOSTNAME: template, TEMPLATE: "true"})
    capacity, allocatable = (read_resource_list(obj, "status", field) for field in ("capacity", "allocatable"))
    node = replace(read, name=template, labels=labels, taints=taints)
    return NodeGroup(name, size, max_size, node, capacity, allocatable, example)


def is_ready(node: ApiObject) -> bool:
    """Report whether cluster-autoscaler counts a node as ready. Raises InvalidObject.

    Without the condition Ready, a node counts as ready. Source: `GetNodeReadiness`, `FilterOutNodesWithStartupTaints`.
    """
    states = {text(condition, "type"): text(condition, "status") for condition in items(node, "status", "conditions")}
    keys = [text(taint, "key") for taint in items(node, "spec", "taints")]
    return (
        states.get("Ready", "True") == "True"
        and not any(states.get(kind) == "True" for kind in ("DiskPressure", "NetworkUnavailable"))
        and not any(key in _UNREADY_TAINTS or key.startswith(_STARTUP_PREFIXES) for key in keys)
    )


def is_schedulable(node: ApiObject) -> bool:
    """Report whether a node is ready and not cordoned. Source: `IsNodeReadyAndSchedulable`. Raises InvalidObject."""
    return is_ready(node) and not boolean(node, "spec", "unschedulable")


def is_good_template(node: ApiObject) -> bool:
    """Report whether a node is preferred as a template. Raises InvalidObject. Source: `isNodeGoodTemplateCandidate`."""
    return is_schedulable(node) and all(text(taint, "key") != _DELETED for taint in items(node, "spec", "taints"))


def template_info(
    group: NodeGroup, daemon_sets: Iterable[ApiObject], semantics: Semantics, *, force_daemon_sets: bool = False
) -> NodeInfo:
    """Return the template with the Pods of a fresh node. Source: `podsExpectedOnFreshNode`. Raises InvalidObject."""
    if group.example is None:
        return NodeInfo(group.node, daemon_pods(group.node, daemon_sets), semantics)
    running = [pod for pod in group.example if not pod.terminating and (is_daemon_pod(pod) or is_mirror_pod(pod))]
    uids = {pod.owner.uid for pod in running if pod.owner is not None and pod.owner.kind == "DaemonSet"}
    pending = daemon_pods(
        group.node, [daemon_set for daemon_set in daemon_sets if text(daemon_set, "metadata", "uid") not in uids]
    )
    forced = [pod for pod in pending if force_daemon_sets or _preempts_as_node_critical(pod)]
    return NodeInfo(group.node, [*(replace(pod, node_name=group.node.name) for pod in running), *forced], semantics)


def is_daemon_pod(pod: Pod) -> bool:
    return pod.annotated_daemon or (pod.owner is not None and pod.owner.kind == "DaemonSet")


def is_mirror_pod(pod: Pod) -> bool:
    return pod.owner_kind == "/Node"


def _preempts_as_node_critical(pod: Pod) -> bool:
    return pod.priority_class_name == "system-node-critical" and pod.preemption_policy != PREEMPT_NEVER


def daemon_pods(node: Node, daemon_sets: Iterable[ApiObject]) -> list[Pod]:
    """Return the DaemonSet Pods for a new node, whether they fit or not. Source: `GetDaemonSetPodsForNode`.

    As in upstream, the Pods do not pass admission, so a LimitRange does not change them. Raises InvalidObject.
    """
    pods = []
    for daemon_set in daemon_sets:
        ref, template = ref_of(daemon_set, "default"), template_of(daemon_set)
        pod = Pod.from_api(made_of(ref.namespace, daemon_set, with_daemon_fields(template)))
        if nodes_that_should_run(template, pod, {node.name: node}):
            pods.append(replace(pod, name=f"{ref.name}-pod-{node.name}", node_name=node.name))
    return pods
