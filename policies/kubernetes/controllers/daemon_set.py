"""DaemonSets. Source: pkg/controller/daemon/daemon_controller.go, update.go."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from forewarn.policies.base.findings import grouped
from forewarn.policies.base.metering import charging
from forewarn.policies.kubernetes.controllers import templates
from forewarn.policies.kubernetes.controllers.replica_set import min_ready_seconds
from forewarn.policies.kubernetes.controllers.view import (
    Action,
    CreatePod,
    DeletePod,
    Requeue,
    SetStatus,
    controller_of,
)
from forewarn.policies.kubernetes.objects.fields import NOTHING, REQUIRED, ApiObject, at, items, mapping, sequence, text
from forewarn.policies.kubernetes.objects.node import (
    NO_EXECUTE,
    FieldRequirement,
    Node,
    NodeAffinity,
    NodeSelector,
    tolerations_tolerate_taint,
    untolerated_taint,
)

if TYPE_CHECKING:
    from forewarn.policies.kubernetes.controllers.view import Key, PodState, View, WorkloadState
    from forewarn.policies.kubernetes.objects.pod import Pod

BURST_REPLICAS: Final = 250
"""Maximum number of Pods that one sync creates, and the maximum number that it deletes."""
DAEMON_TOLERATIONS: Final = (
    ("node.kubernetes.io/not-ready", "NoExecute"),
    ("node.kubernetes.io/unreachable", "NoExecute"),
    ("node.kubernetes.io/disk-pressure", "NoSchedule"),
    ("node.kubernetes.io/memory-pressure", "NoSchedule"),
    ("node.kubernetes.io/pid-pressure", "NoSchedule"),
    ("node.kubernetes.io/unschedulable", "NoSchedule"),
)
"""The tolerations that the controller adds to Pods. Source: pkg/controller/daemon/util/daemonset_util.go."""
NETWORK_UNAVAILABLE: Final = "node.kubernetes.io/network-unavailable"
_TERMS: Final = "nodeSelectorTerms"


class DaemonSetStatus(NamedTuple):
    """The status of a DaemonSet: the revision of the template, and the numbers of nodes by state.

    `first`: the revision at the first sync; Pods without a revision label count as this revision.
    """

    revision: str = ""
    template: ApiObject = NOTHING
    desired: int = 0
    scheduled: int = 0
    ready: int = 0
    updated: int = 0
    first: str = ""


class _Daemons(NamedTuple):
    """The input of one sync of a DaemonSet.

    `anywhere`: its Pod after admission, without a target node. `on`: name of the node (bound or target) -> Pods.
    `should_run`: names of the nodes that should have a Pod.
    """

    view: View
    state: WorkloadState
    anywhere: Pod
    status: DaemonSetStatus
    on: Mapping[str, list[PodState]]
    should_run: frozenset[str]
    now: float

    def available(self, pod: PodState) -> bool:
        return pod.available(min_ready_seconds(self.state), self.now)

    def is_updated(self, pod: PodState) -> bool:
        return _revision_of(pod, self.status) == self.status.revision


def reconcile(view: View, state: WorkloadState, now: float) -> list[Action]:
    """Return the writes of one sync of a DaemonSet. Upstream `syncDaemonSet`. Raises InvalidObject."""
    template = templates.template_of(state.object)
    pods = view.pods_of(state.key)
    revision = _revision(state, template, pods)
    anywhere = _anywhere_of(view, state, template)
    on = grouped((node_of(pod.pod), pod) for pod in pods)
    should = frozenset(nodes_that_should_run(template, anywhere, view.nodes()))
    first = state.status.first if isinstance(state.status, DaemonSetStatus) else revision
    ds = _Daemons(view, state, anywhere, DaemonSetStatus(revision, template, first=first), on, should, now)
    create, delete = _manage(ds)
    if not create and not delete:  # upstream first waits for its own writes
        create, delete = _rolling_update(ds)
    actions: list[Action] = [_new_pod(ds, node) for node in create[:BURST_REPLICAS]]
    actions += [DeletePod(pod.pod.namespace, pod.pod.name, state.key) for pod in delete[:BURST_REPLICAS]]
    status = _updated_status(ds)
    if status != state.status:
        actions.append(SetStatus(state.key, status))
    if min_ready_seconds(state) and any(p.ready is not None and not ds.available(p) for p in pods):
        actions.append(Requeue(state.key, now + min_ready_seconds(state)))
    return actions


def is_rolled_out(view: View, key: Key) -> bool:
    """Report whether all Pods of a synced DaemonSet have its revision. Source: `manage`, `rollingUpdate`."""
    state = view.workload(key)
    if state is None or not isinstance(state.status, DaemonSetStatus):
        return False
    status = state.status
    return all(_revision_of(pod, status) == status.revision for pod in view.pods_of(key))


def _revision_of(pod: PodState, status: DaemonSetStatus) -> str:
    return pod.pod.labels.get(templates.CONTROLLER_REVISION, status.first)


def triggers_sync(view: View, key: Key, old: Node | None, new: Node) -> bool:
    """Report whether a new (`old` None) or changed node triggers a sync of a DaemonSet.

    A deleted node triggers no sync, so Pods on the node are processed only after the next change. Source: `addNode`,
    `updateNode`, `syncNodeUpdate`. Raises InvalidObject.
    """
    state = view.workload(key)
    if state is None or (old is not None and (old.labels, old.taints) == (new.labels, new.taints)):
        return False
    template = templates.template_of(state.object)
    anywhere = _anywhere_of(view, state, template)
    is_there = any(controller_of(pod.pod) == key for pod in view.pods_on(new.name))
    if nodes_that_should_run(template, anywhere, {new.name: new}):
        return not is_there
    return is_there and not should_continue_running(template, anywhere, new)


def _anywhere_of(view: View, state: WorkloadState, template: ApiObject) -> Pod:
    """Return the DaemonSet's Pod after admission, without a target node."""
    return view.admit(template, lambda: templates.made_of(state.key[1], state.object, with_daemon_fields(template)))


def _revision(state: WorkloadState, template: ApiObject, pods: Sequence[PodState]) -> str:
    """Return the template's revision; at first the Pods' most frequent one. Source: `constructHistory`."""
    status = state.status
    if isinstance(status, DaemonSetStatus):
        same = status.template is template or status.template == template
        return status.revision if same else templates.template_hash(template)
    carried = [
        pod.pod.labels[templates.CONTROLLER_REVISION] for pod in pods if templates.CONTROLLER_REVISION in pod.pod.labels
    ]
    return max(carried, key=carried.count, default="") or templates.template_hash(template)


def node_of(pod: Pod) -> str:
    """Return the node of a DaemonSet's Pod, or else its target node. Source: daemon util `GetTargetNodeName`."""
    return pod.node_name or pod.spec.node_affinity.only_node


def on_node(anywhere: Pod, node: str) -> Pod:
    """Return a DaemonSet's Pod with affinity for a node. Source: `ReplaceDaemonSetPodNodeNameNodeAffinity`."""
    required = anywhere.spec.node_affinity.required
    terms = () if required is None else required.terms
    here = FieldRequirement("metadata.name", "In", node)
    selector = NodeSelector(tuple(replace(t, fields=(here,), names=frozenset((node,))) for t in terms))
    spec = replace(anywhere.spec, node_affinity=replace(anywhere.spec.node_affinity, required=selector))
    return replace(anywhere, spec=spec)


def with_daemon_fields(template: ApiObject) -> ApiObject:
    """Return the template with the tolerations that the controller adds, and in each required term a placeholder for
    the node's name.

    Source: `AddOrUpdateDaemonPodTolerations`. Raises InvalidObject.
    """
    added = [{"key": key, "operator": "Exists", "effect": effect} for key, effect in DAEMON_TOLERATIONS]
    if at(template, "spec", "hostNetwork") is True:
        added.append({"key": NETWORK_UNAVAILABLE, "operator": "Exists", "effect": "NoSchedule"})
    spec = {**mapping(template, "spec"), "tolerations": [*sequence(template, "spec", "tolerations"), *added]}
    affinity = mapping(template, "spec", "affinity")
    terms = [dict(term) for term in items(template, "spec", "affinity", "nodeAffinity", REQUIRED, _TERMS)] or [{}]
    return {**template, "spec": {**spec, "affinity": _anywhere(affinity, terms)}}


def _anywhere(affinity: ApiObject, terms: list[dict[str, Any]]) -> ApiObject:
    named = [{"key": "metadata.name", "operator": "NotIn", "values": [""]}]
    required = {_TERMS: [{**term, "matchFields": named} for term in terms]}
    return {**affinity, "nodeAffinity": {**mapping(affinity, "nodeAffinity"), REQUIRED: required}}


def nodes_that_should_run(template: ApiObject, anywhere: Pod, nodes: Mapping[str, Node]) -> list[str]:
    """Return the sorted names of the nodes that should have a Pod. Source: `NodeShouldRunDaemonPod`, first result.

    `anywhere`: the DaemonSet's Pod after admission.
    """
    affinity = NodeAffinity.from_api({"spec": mapping(template, "spec")})
    named, anyone = text(template, "spec", "nodeName"), affinity.node_selector is None and affinity.required is None
    return [
        name
        for name in charging(sorted(nodes), 2)
        if named in ("", name)
        and (anyone or affinity.matches(nodes[name].labels, name))
        and (not nodes[name].taints or untolerated_taint(nodes[name].taints, anywhere.spec.tolerations) is None)
    ]


def should_continue_running(template: ApiObject, anywhere: Pod, node: Node) -> bool:
    """Report whether a Pod may stay on a node where the controller would not create it. Source:
    `NodeShouldRunDaemonPod`.

    `anywhere`: the DaemonSet's Pod after admission.
    """
    named = text(template, "spec", "nodeName")
    affinity = NodeAffinity.from_api({"spec": mapping(template, "spec")})
    if named not in ("", node.name) or not affinity.matches(node.labels, node.name):
        return False
    evicting = [taint for taint in node.taints if taint.effect == NO_EXECUTE]
    return all(tolerations_tolerate_taint(anywhere.spec.tolerations, taint) for taint in evicting)


def _new_pod(ds: _Daemons, node: str) -> CreatePod:
    pod = templates.labelled(on_node(ds.anywhere, node), {templates.CONTROLLER_REVISION: ds.status.revision})
    return CreatePod(ds.state.key, pod, ds.status.template, f"{ds.state.key[2]}-")


def _manage(ds: _Daemons) -> tuple[list[str], list[PodState]]:
    """Return (names of nodes that need a Pod, Pods to delete). Source: `manage`, `podsShouldBeOnNode`."""
    nodes = ds.view.nodes()
    create: list[str] = []
    delete: list[PodState] = []
    for name in sorted(sorted(nodes), key=ds.view.lot):  # upstream iterates over a Go map, so the order is random
        pods = ds.on.get(name)
        if pods is None:
            create += [name] if name in ds.should_run else []
        elif name in ds.should_run or should_continue_running(ds.status.template, ds.anywhere, nodes[name]):
            needed, doomed = _on_one_node(ds, name, pods)
            create += needed
            delete += doomed
        else:
            delete += [pod for pod in pods if not pod.terminating]
    lost = [pod for name, pods in ds.on.items() if name not in nodes for pod in pods]
    return create, delete + [pod for pod in lost if not pod.pod.node_name and not pod.terminating]


def _on_one_node(ds: _Daemons, name: str, pods: list[PodState]) -> tuple[list[str], list[PodState]]:
    staying = [pod for pod in pods if not pod.terminating]
    delete = [pod for pod in staying if pod.pod.terminal]
    running = sorted((pod for pod in staying if not pod.pod.terminal), key=_oldest_first)
    if not (_rolls(ds.state.object) and templates.scaled(ds.state.object, _SURGE, 100, up=True) > 0):
        return [], delete + running[1:]
    if not running:
        return ([name] if name in ds.should_run else []), delete
    return [], delete + _superfluous(ds, running)


def _superfluous(ds: _Daemons, running: list[PodState]) -> list[PodState]:
    """Return the Pods to delete on a node of a DaemonSet that surges. `running`: the Pods of the node, oldest first.

    Keeps the oldest Pod of each revision, but deletes the old Pod when the new one is available or the old one is not
    ready.
    """
    new = [pod for pod in running if ds.is_updated(pod)]
    old = [pod for pod in running if not ds.is_updated(pod)]
    delete = new[1:] + old[1:] if len(running) > 1 else []
    if new and old and (old[0].ready is None or ds.available(new[0])):
        delete.append(old[0])
    return delete


def _oldest_first(pod: PodState) -> tuple[bool, float, str]:
    """Return the sort key: Pods on nodes first, then by creation time. Source: `podByCreationTimestampAndPhase`."""
    return not pod.pod.node_name, pod.created, pod.pod.name


_SURGE: Final = ("spec", "updateStrategy", "rollingUpdate", "maxSurge")
_UNAVAILABLE: Final = ("spec", "updateStrategy", "rollingUpdate", "maxUnavailable")


def _rolls(obj: ApiObject) -> bool:
    return text(obj, "spec", "updateStrategy", "type") != "OnDelete"


def surge_and_unavailable(obj: ApiObject, desired: int) -> tuple[int, int]:
    """Return (maximum number of new Pods beside old ones, maximum number of nodes without an available Pod).

    `desired`: number of nodes that should have a Pod. Source: `updatedDesiredNodeCounts`.
    """
    if not _rolls(obj):
        return 0, 0
    surge = templates.scaled(obj, _SURGE, desired, up=True)
    unavailable = templates.scaled(obj, _UNAVAILABLE, desired, up=True, default=1)
    return (surge, unavailable) if surge or unavailable or not desired else (0, 1)


def _rolling_update(ds: _Daemons) -> tuple[list[str], list[PodState]]:
    """Return (names of nodes that need a Pod, Pods to delete) to roll out the template. Upstream `rollingUpdate`.

    Upstream iterates over a Go map; here the order of nodes is that of `View.lot`.
    """
    if not _rolls(ds.state.object):
        return [], []
    surge, unavailable = surge_and_unavailable(ds.state.object, len(ds.should_run))
    return _surging(ds, surge) if surge else ([], _replacing(ds, unavailable))


class _OnNode(NamedTuple):
    """A node's Pods that are not terminating: the one of the new revision and the one of an old revision, or None."""

    name: str
    new: PodState | None
    old: PodState | None


def _pairs(ds: _Daemons) -> tuple[list[_OnNode], int]:
    """Return (nodes with at most one Pod of each kind, number of other nodes). Source: `findUpdatedPodsOnNode`."""
    on_nodes: list[_OnNode] = []
    excess = 0
    for name in sorted(sorted({*ds.on, *ds.should_run}), key=ds.view.lot):  # draw one lot for each node
        staying = [pod for pod in ds.on.get(name, ()) if not pod.terminating]
        new = [pod for pod in staying if ds.is_updated(pod)]
        old = [pod for pod in staying if not ds.is_updated(pod)]
        if len(new) > 1 or len(old) > 1:
            excess += 1
        else:
            on_nodes.append(_OnNode(name, new[0] if new else None, old[0] if old else None))
    return on_nodes, excess


def _replacing(ds: _Daemons, most_unavailable: int) -> list[PodState]:
    """Return the old Pods to delete in a rollout without surge. `most_unavailable`: maximum number of nodes without an
    available Pod.
    """
    pairs, unavailable = _pairs(ds)
    allowed: list[PodState] = []
    candidates: list[PodState] = []
    for pair in pairs:
        if pair.old is None or pair.new is not None:
            unavailable += pair.new is None or pair.old is not None or not ds.available(pair.new)
        elif not ds.available(pair.old):
            allowed.append(pair.old)
            unavailable += 1
        elif unavailable < most_unavailable:
            candidates.append(pair.old)
    return allowed + candidates[: max(most_unavailable - unavailable, 0)]


def _surging(ds: _Daemons, most_surging: int) -> tuple[list[str], list[PodState]]:
    """Return (names of nodes that get a new Pod beside the old one, old Pods to delete) for a rollout with surge."""
    pairs, surging = _pairs(ds)
    create: list[str] = []
    candidates: list[str] = []
    delete: list[PodState] = []
    leaving: list[PodState] = []
    available = sum((pod := pair.old or pair.new) is not None and ds.available(pod) for pair in pairs)
    for name, new, old in pairs:
        if old is None:
            continue
        if new is not None:
            surging += not ds.available(new)
            delete += [old] if ds.available(new) else []
        elif name not in ds.should_run:
            (leaving if ds.available(old) else delete).append(old)
        elif not ds.available(old):
            create.append(name)
        elif surging < most_surging:
            candidates.append(name)
    delete += leaving[: max(available - len(ds.should_run), 0)]
    return create + candidates[: max(most_surging - surging, 0)], delete


def _updated_status(ds: _Daemons) -> DaemonSetStatus:
    """Return the status with the current numbers of nodes by state. Upstream `updateDaemonSetStatus`."""
    first = [min(ds.on[name], key=_oldest_first) for name in ds.should_run if name in ds.on]
    return ds.status._replace(
        desired=len(ds.should_run),
        scheduled=len(first),
        ready=sum(pod.ready is not None for pod in first),
        updated=sum(map(ds.is_updated, first)),
    )
