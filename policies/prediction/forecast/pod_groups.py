"""Predict the PodGroup of new Pods: kube-scheduler schedules all Pods of a PodGroup together, or preempts for all
of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from forewarn.policies.base.disclosure import OPEN, Audience, shown_pods
from forewarn.policies.base.documents import Hidden, Sparse, in_json, optional_in_json
from forewarn.policies.base.findings import plural
from forewarn.policies.base.metering import TooLarge, limited
from forewarn.policies.kubernetes.controllers.own_pods import replicas_of
from forewarn.policies.kubernetes.objects.fields import InvalidObject, at
from forewarn.policies.kubernetes.objects.workload import pod_template_of
from forewarn.policies.kubernetes.scheduling.event_handlers import is_gated
from forewarn.policies.kubernetes.scheduling.not_predicted import (
    CLAIMS,
    assumptions,
    is_scheduled_by_group,
    needs_claims,
    why_group_not_predicted,
)
from forewarn.policies.kubernetes.scheduling.pod_group_cycle import NotModelled, predict_pod_group
from forewarn.policies.kubernetes.scheduling.preemption import Victim, violated_pdbs
from forewarn.policies.kubernetes.scheduling.queue.priority_queue import order_of_member

if TYPE_CHECKING:
    from forewarn.policies.kubernetes.objects.pod import Pod
    from forewarn.policies.kubernetes.objects.pod_group import PodGroup
    from forewarn.policies.kubernetes.objects.reviewed_object import ReviewedObject
    from forewarn.policies.kubernetes.scheduling.snapshot import Snapshot

MAX_PREEMPTIONS: Final = 500
"""Maximum number of preemptions by the Pods of one object if work is limited."""
MAX_DAEMONS: Final = 2_000
"""Maximum number of preemptions by the Pods of a DaemonSet, which are predicted together."""
MAX_VICTIMS: Final = 3_000
"""Maximum number of victims of one object if work is limited."""
MAX_PLACED: Final = 20_000
"""Maximum number of Pods of one object that are added to the snapshot together."""
MAX_REHEARSED: Final = 100
"""Maximum number of Pods of a simulated rollout; for a larger rollout, only the first Pods are predicted."""
MAX_REHEARSAL_WORK: Final = 200_000
"""Maximum units of work for the simulation of a rollout, if work is limited."""


_SELECTOR: Final = ((), ("matchExpressions",), ("matchLabels",))


def check_extents(subject: ReviewedObject, paths: Mapping[str, tuple[str, ...]]) -> None:
    """Raise CutShort if the Pod template, the metadata, the selector or a volume claim template is too large."""
    from forewarn.policies.kubernetes.objects import extent

    template = pod_template_of(subject.object, paths)
    if template is None:
        return
    extent.check_extent(template.spec)
    extent.check_metadata_extent(template.object.get("metadata"))
    if template.is_template:
        extent.check_metadata_extent(subject.object.get("metadata"))
    if limited() and template.is_template:
        spec = at(subject.object, "spec")
        parts = [
            (at(spec, "selector", *path), "requirements in its selector", extent.MAX_REQUIREMENTS) for path in _SELECTOR
        ]
        parts.append((at(spec, "volumeClaimTemplates"), "volumeClaimTemplates", extent.MAX_VOLUMES))
        sized = (part for part in parts if isinstance(part[0], list | dict))
        extent.check_counts("the object", ((what, len(part), most) for part, what, most in sized))


def new_pods_of(subject: ReviewedObject, paths: Mapping[str, tuple[str, ...]]) -> int:
    """Return the number of new Pods of an object that is too large to read; 0 if it has no Pods or is invalid."""
    try:
        template = pod_template_of(subject.object, paths)
        if template is None:
            return 0
        return replicas_of(subject.object) if template.is_template else 1
    except TooLarge:
        return 1
    except InvalidObject:
        return 0


def too_many_pods(limit: int) -> TooLarge:
    """Return the error for an object with more Pods than `limit`."""
    return TooLarge(f"the object asks for more Pods than forewarn evaluates, which is {limit}", "ask for fewer Pods")


def too_many_preemptions(limit: int) -> TooLarge:
    """Return the error for an object whose Pods cause more than `limit` preemptions, or too many victims."""
    victims = f"or {MAX_VICTIMS} victims"
    return TooLarge(f"forewarn evaluates at most {limit} preemptions {victims} of one object", "ask for fewer Pods")


TIES: Final = (
    "each Pod uses the first of the best nodes by name; if nodes tie, kube-scheduler may select other nodes and victims"
)
MAX_MEMBERS: Final = 1_000
"""Maximum number of Pods of a PodGroup if work is limited: each of them has a scheduling cycle."""
REMOVE_GATES: Final = "the controller that set a gate must remove it"
_MAX_NAMED: Final = 10
"""Maximum number of names of victims in JSON: the annotations of an object may have 256 KiB."""


class GroupImpact(NamedTuple):
    """The outcome for the PodGroup of the new Pods. `missing`: number of Pods that the gang still needs."""

    name: str
    min_count: int
    outcome: str
    pods: int | None = None
    missing: Sparse[int] = 0
    victims: Sequence[str] | None = None
    more_victims: Sparse[int] = 0
    pdb_violations: int | None = None
    unnamed_victims: int | None = None
    unnamed_priorities: Sequence[int | None] = ()


class GroupForecast(NamedTuple):
    """The result for a PodGroup.

    - `outcome`: "fits" (maybe without some Pods above minCount), "preempts", "pending" or "not-predicted".
    - `pods`: all Pods of the PodGroup that the cycle tries: Pending Pods of the cluster, then new ones. `places`: uid
      of a Pod, or `namespace/name` without uid -> its node, or its nominated node.
    - `units`: what kube-scheduler preempts: Pods, or PodGroups with their Pods on all nodes.
    - `missing`: number of Pods that must be created before kube-scheduler tries the PodGroup.
    - `message`: the reason for "pending" (empty if Pods are missing) or "not-predicted". `fix`: how to make
      kube-scheduler try the PodGroup, or "". `notes`: what the result depends on. `assumes`: what the result assumes,
      as clauses.
    """

    group: Hidden[PodGroup]
    pods: Hidden[tuple[Pod, ...]]
    outcome: str
    places: Hidden[Mapping[str, str]] = {}  # noqa: RUF012
    units: Hidden[tuple[Victim, ...]] = ()
    num_pdb_violations: Hidden[int] = 0
    missing: Hidden[int] = 0
    message: str = ""
    fix: Hidden[str] = ""
    notes: Hidden[tuple[str, ...]] = ()
    assumes: Hidden[tuple[str, ...]] = ()

    @in_json
    def id(self) -> str:
        """`PodGroup namespace/name`."""
        return f"PodGroup {self.group.key}"

    @in_json
    def min_count(self) -> int:
        return self.group.min_count

    @in_json
    def pods_(self) -> int:
        """Number of Pods that the cycle tries, also Pending Pods of the cluster."""
        return len(self.pods)

    @in_json
    def nodes(self) -> Mapping[str, int]:
        """Node -> number of Pods of the PodGroup that get this node; empty unless the outcome is "fits"."""
        return dict(sorted(Counter(self.places.values()).items())) if self.outcome == "fits" else {}

    @in_json
    def victims_(self) -> list[str]:
        """Pods to preempt."""
        return [victim.key for victim in self.victims]

    @optional_in_json
    def missing_(self) -> int | None:
        """Number of Pods that must be created before kube-scheduler tries the gang."""
        return self.missing or None

    @in_json
    def standing(self) -> Sequence[str]:
        """Why the prediction may not hold."""
        return self.notes

    @property
    def victims(self) -> tuple[Pod, ...]:
        """All Pods to preempt, most important first."""
        return tuple(pod for unit in self.units for pod in unit.pods)

    def violated_pdbs(self, snapshot: Snapshot) -> list[str]:
        """Return the PDBs that the preemption violates, as `namespace/name`. `snapshot`: before the preemption."""
        return violated_pdbs(self.victims, self.units, snapshot) if self.num_pdb_violations else []

    @property
    def policy(self) -> str:
        """The scheduling policy as text: `minCount 8`, or `policy basic`."""
        return f"minCount {self.group.min_count}" if self.group.min_count else "policy basic"

    def as_annotation(self, audience: Audience = OPEN) -> GroupImpact:
        """Return the result for the annotation: the names of victims that the audience may see, and the number of other
        victims.
        """
        shown, coarse = shown_pods(self.victims, audience), audience.coarse
        return GroupImpact(
            self.group.name,
            self.group.min_count,
            self.outcome,
            None if coarse else len(self.pods),
            0 if coarse else self.missing,
            shown.named[:_MAX_NAMED] if self.units else None,
            max(len(shown.named) - _MAX_NAMED, 0),
            (min(self.num_pdb_violations, 1) if coarse else self.num_pdb_violations) if self.units else None,
            shown.others.lowest if shown.other_priorities else None,
            [*shown.other_priorities] if shown.other_priorities else (),
        )

    def snapshot_after(self, snapshot: Snapshot) -> Snapshot:
        """Return the Snapshot for the next cycle: with Pods bound, or nominated while their victims terminate."""
        placed = [(pod, self.places[pod.identity]) for pod in self.pods if pod.identity in self.places]
        if self.outcome == "fits":
            return snapshot.with_pods([snapshot.bound(pod, node) for pod, node in placed], ())
        if self.outcome == "preempts":
            victims = [self.victims, *([()] * (len(placed) - 1))]
            cycles = [(pod, node, evicted) for (pod, node), evicted in zip(placed, victims, strict=True)]
            return snapshot.with_preemptions(cycles, for_group=True)
        return snapshot


def group_forecast(snapshot: Snapshot, pods: Sequence[Pod]) -> GroupForecast | None:
    """Predict the PodGroup of these new Pods together with its Pending Pods in the cluster. Raises CutShort.

    None if the Pods belong to several PodGroups or to none, or if forewarn does not predict the PodGroup at all
    (`why_group_not_predicted`). `snapshot`: the cluster before all of these Pods.
    """
    keys = {(pod.namespace, pod.spec.pod_group) for pod in pods}
    if len(keys) != 1 or not is_scheduled_by_group(pods[0], snapshot) or why_group_not_predicted(pods[0], snapshot):
        return None
    (key,) = keys
    group, new = snapshot.objects.pod_groups[key], {pod.identity for pod in pods}
    stored = [pod for pod in snapshot.objects.grouped_pods.values() if (pod.namespace, pod.spec.pod_group) == key]
    queued = [pod for pod in stored if not pod.node_name and pod.identity not in new]
    terminating = sum(pod.terminating for pod in queued)
    waiting = [pod for pod in queued if not pod.terminating]  # sorted by creation, because their attempts are unknown
    members = (*sorted(waiting, key=lambda pod: order_of_member(pod, pod.created or 0)), *pods)
    if limited() and len(members) > MAX_MEMBERS:
        raise too_many_pods(MAX_MEMBERS)
    forecast = _forecast(snapshot, group, members, terminating)
    notes = (TIES,) if forecast.outcome in ("fits", "preempts") else ()
    if len(members) > len(pods) and forecast.outcome != "not-predicted":
        notes = (f"with {plural(len(members) - len(pods), 'Pending Pod')} of the PodGroup in the cluster", *notes)
    assumed = assumptions(snapshot.objects, members, victims=bool(forecast.units))
    return forecast._replace(notes=notes, assumes=assumed)


def _forecast(snapshot: Snapshot, group: PodGroup, pods: tuple[Pod, ...], terminating: int) -> GroupForecast:
    """Predict a PodGroup. `terminating`: Pods without a node that count for minCount until removed."""
    existing = len(snapshot.pods_of_groups.get((group.namespace, group.name), ()))
    if missing := group.missing(existing + len(pods) + terminating):
        return GroupForecast(group, pods, "pending", missing=missing, fix="create the missing Pods, or lower minCount")
    if gated := sum(is_gated(pod, snapshot.semantics) for pod in pods):
        message = f"{plural(gated, 'Pod has', 'Pods have')} scheduling gates"
        return GroupForecast(group, pods, "pending", message=message, fix=REMOVE_GATES)
    if any(needs_claims(pod, snapshot) for pod in pods):
        return GroupForecast(group, pods, "not-predicted", message=CLAIMS)
    try:
        result = predict_pod_group(snapshot, group, pods)
    except NotModelled as why:
        return GroupForecast(group, pods, "not-predicted", message=str(why))
    if result.code is None:
        places = {pod.identity: s.node for pod, s in zip(pods, result.members, strict=True) if s.node}
        return GroupForecast(group, pods, "fits", places)
    preemption = result.preemption
    if preemption is not None and preemption.victims:
        units, nominations = tuple(preemption.victims), preemption.nominations or {}
        return GroupForecast(group, pods, "preempts", nominations, units, preemption.num_pdb_violations)
    return GroupForecast(group, pods, "pending", message=result.message)
