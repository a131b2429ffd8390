"""The reasons why a Pod that is bound to a node does not run normally, or stays on a node that is drained."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from forewarn.policies.controllers.taint_eviction import tolerated_for
from forewarn.policies.findings import cut, listed
from forewarn.policies.objects.taints import NO_EXECUTE
from forewarn.policies.why.causes import LOST, node_health
from forewarn.policies.why.events import LONG
from forewarn.policies.why.records import shown_time
from forewarn.policies.why.trouble import Trouble

if TYPE_CHECKING:
    from collections.abc import Iterator

    from forewarn.policies.cluster.cache import ClusterSnapshot
    from forewarn.policies.objects.pod import Pod
    from forewarn.policies.why.evidence import Evidence
    from forewarn.policies.why.records import PodRecord

_PULLED: Final = "Pulled"
_STARTING: Final = ("Pulling", _PULLED, "FailedMount", "FailedAttachVolume", "FailedCreatePodSandBox")
"""Reasons of the kubelet's Events before a container is created. Source: pkg/kubelet/events, event.go."""
_SHOWN: Final = 3


def of_bound_pod(cluster: ClusterSnapshot, evidence: Evidence, pod: Pod, record: PodRecord) -> Iterator[Trouble]:
    """Yield the problems of a Pod that has a node and is neither terminating nor preempted."""
    yield from _creating(evidence, record)
    yield from _on_lost_node(cluster, evidence, pod)
    yield from _drain_blocked(cluster, pod)


def _creating(evidence: Evidence, record: PodRecord) -> Iterator[Trouble]:
    """Yield what the kubelet does before it creates the containers, by its last Event."""
    if not record.creating:
        return
    message = f"container {listed([*record.creating], _SHOWN)} is not created yet (ContainerCreating)"
    events = [event for event in evidence.events.of_pod(record.name, record.uid) if event.reason in _STARTING]
    last = events[-1] if events and events[-1].reason != _PULLED else None
    if last is None:
        yield Trouble("container-waiting", message)
    else:
        yield Trouble("container-waiting", f"{message}: {last.reason}: {cut(last.message, LONG)}", "", last.when)


def _on_lost_node(cluster: ClusterSnapshot, evidence: Evidence, pod: Pod) -> Iterator[Trouble]:
    """Yield the problem of a node that does not exist or is not ready, and when taint eviction deletes the Pod."""
    node = evidence.nodes.get(pod.node_name)
    taint = next(((key, when) for key, when in node.taints if key in LOST), None) if node is not None else None
    if node is None or node.not_ready is not None:
        found = list(node_health(evidence, pod.node_name))
    elif taint is not None:
        found = [Trouble("node-not-ready", f"{node.name} has the NoExecute taint {taint[0]}", "", taint[1])]
    else:
        return
    added = f" (added at {shown_time(taint[1])})" if taint is not None and taint[1] else ""
    then = _eviction(cluster, pod, added)
    yield from (each._replace(message=f"{each.message}; {then}") if then else each for each in found)


def _eviction(cluster: ClusterSnapshot, pod: Pod, added: str) -> str:
    """Return when taint eviction deletes the Pod as a phrase; "" if the node has no NoExecute taint."""
    node = cluster.objects.nodes.get(("", pod.node_name))
    taints = [taint for taint in node.taints if taint.effect == NO_EXECUTE] if node is not None else []
    if not taints:
        return ""
    seconds = tolerated_for(taints, pod.spec.tolerations)
    if seconds is None:
        return "the Pod tolerates its NoExecute taint without limit, and stays"
    if seconds < 0:
        return "the Pod does not tolerate its NoExecute taint, and is deleted"
    return f"the Pod is deleted {seconds} seconds after the NoExecute taint{added}"


def _drain_blocked(cluster: ClusterSnapshot, pod: Pod) -> Iterator[Trouble]:
    """Yield the reason why a Pod on a cordoned node is not evicted: a PDB allows no disruption."""
    node = cluster.objects.nodes.get(("", pod.node_name))
    if node is None or not node.unschedulable:
        return
    for pdb in cluster.objects.pdbs.values():
        if pdb.namespace == pod.namespace and pdb.disruptions_allowed <= 0 and pdb.selects(pod.labels):
            yield Trouble(
                "drain-blocked",
                f"{pod.node_name} is cordoned, and PodDisruptionBudget {pdb.name} allows no disruption",
                "start replacement Pods, or change the PodDisruptionBudget",
            )
