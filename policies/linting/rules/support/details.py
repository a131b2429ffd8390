"""Typed details of problems that depend on other objects. `policies.linting.rules.wording` writes their texts and JSON.

Details contain all names and numbers: only the wording omits those that the requester may not see.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum, auto
from typing import TYPE_CHECKING, Final

from forewarn.policies.base.findings import NO_HARM, Details, Harm, ObjectRef, not_running, preempted
from forewarn.policies.base.light import NamedTuple

if TYPE_CHECKING:
    from forewarn.policies.kubernetes.objects.pod import Pod
    from forewarn.policies.kubernetes.objects.pod_loss import PodLoss
    from forewarn.policies.kubernetes.objects.priority_class import PriorityClass
    from forewarn.policies.kubernetes.options import Promise
    from forewarn.policies.kubernetes.scheduling.reasons import Reason
    from forewarn.policies.kubernetes.scheduling.schedule_one import Prediction
    from forewarn.policies.linting.rules.support.names import Names
    from forewarn.policies.prediction.forecast.impact import Impact, NewNodes
    from forewarn.policies.prediction.forecast.pod_groups import GroupForecast

ONLY_IN_FINDINGS: Final = frozenset(("basis", "expectation", "reasons", "victims"))
"""Keys of the JSON of predictions that the impact annotation does not have."""
MAX_NAME: Final = 253
"""Maximum number of characters of an object's name."""


class Cause(Enum):
    """The Pods that preempt, and the time of the preemption."""

    NEW_PODS = auto()
    PENDING_PODS = auto()
    """Pending Pods of other workloads, when the rollout terminates old Pods."""
    OWN_ROLLOUT = auto()
    """New Pods of a rollout, which preempt old Pods of the same workload."""
    RESTART = auto()
    STARTED = auto()
    """New Pods of a rollout, which preempt Pods that start only during the rollout."""


class Preemption(NamedTuple):
    """Preemptions of running Pods.

    `preempting`: predictions for the Pods that preempt. `victims`: the most important first. `placeholders`: the
    preempted placeholder Pods; `victims` has them only if there are no others. `pdb_violations`: number of victims
    whose PDB is violated. `grace_seconds`: the longest termination grace period of a victim; None to omit from the
    text. `expectation`: the expectation of the
    configuration that is violated; None if none. `workload`: that of all victims, if there are several and these are
    certain; "" otherwise.
    """

    cause: Cause
    impact: Impact
    preempting: tuple[Prediction, ...]
    victims: Sequence[Pod]
    fix: str
    placeholders: Sequence[Pod] = ()
    pdb_violations: int = 0
    grace_seconds: int | None = None
    expectation: Promise | None = None
    losses: Sequence[PodLoss] = ()
    """What fails or is interrupted without the victims."""
    workload: str = ""


class NotPredicted(NamedTuple):
    """New Pods for which forewarn has no prediction; `impact` has the reason.

    `is_stale`: time or work was used up. `expectations`: number of configured expectations that were not checked.
    `is_restart`: the prediction is about a restart of the workload.
    """

    impact: Impact
    fix: str
    is_stale: bool = False
    expectations: int = 0
    is_restart: bool = False


class StaysPending(NamedTuple):
    """New Pods that fit on no node. `stuck`: the prediction for the first of them. `reasons`: kube-scheduler's
    reasons with numbers of nodes; empty if time ran out. `is_restart`: the new Pods are from a restart of the
    workload. `needs_class`: a higher PriorityClass helps (`predictions.needs_class`). `new_nodes`: None without node
    groups. `cause`: why no node fits, if one reason explains all nodes (`why_not.cause`). `elsewhere`: where a new node
    would help, such as ` in another zone`; "" for anywhere.
    """

    impact: Impact
    stuck: Prediction
    reasons: Sequence[tuple[Reason, int]] = ()
    is_restart: bool = False
    needs_class: bool = False
    new_nodes: NewNodes | None = None
    cause: Reason | None = None
    elsewhere: str = ""


class GroupPreemption(NamedTuple):
    """Preemptions by the new Pods of a PodGroup together with its Pending Pods, on all nodes."""

    impact: Impact
    group: GroupForecast
    fix: str


class GroupPending(NamedTuple):
    """A PodGroup of which kube-scheduler would bind no Pod."""

    impact: Impact
    group: GroupForecast


class PlaceholdersPreempted(NamedTuple):
    """Workloads whose restart would preempt only placeholder Pods. `most`: maximum number of victims of one
    workload.
    """

    workloads: Sequence[ObjectRef]
    most: int


class PodsOfMissingClass(NamedTuple):
    """Pods with a PriorityClass that does not exist."""

    name: str
    pods: Sequence[Pod]


class PodsWithPriority(NamedTuple):
    """Pods with an unexpected priority.

    `after`: the end of the sentence, after the number and names of the Pods. `expected`: the priority of new Pods;
    None if unknown. `is_in_namespace`: all Pods are in the namespace that the finding is about.
    """

    pods: Sequence[Pod]
    after: str
    fix: str
    expected: int | None = None
    is_in_namespace: bool = False


class ClassInUse(NamedTuple):
    """Objects that name a deleted PriorityClass, and the number of Pods with it."""

    workloads: Sequence[ObjectRef]
    pods_without_owner: Sequence[ObjectRef]
    pods: int


class UnknownClass(NamedTuple):
    """The name of a PriorityClass that does not exist. `consequence`: the rest of the sentence after `not found`.

    `known`: the PriorityClasses that may be recommended; None to recommend none. `is_certain`: the class is known not
    to exist. `is_reserved`: only Kubernetes can create the class. `fix`: empty to name known classes. `suggestion`: the
    name that the linter may write instead. `meant`: the class that is probably meant, if it is not in
    `known`. `longest`: maximum number of characters of the name.
    """

    name: str
    consequence: str
    known: Names | None
    fix: str = ""
    is_certain: bool = True
    is_reserved: bool = False
    suggestion: str = ""
    meant: str = ""
    longest: int = MAX_NAME


class PreemptingClasses(NamedTuple):
    """PriorityClasses that preempt but have a lower value than a class that never preempts.

    `classes`: all preempting classes, the highest first; those from the index `start` are meant.
    """

    classes: Sequence[PriorityClass]
    start: int


class UncoveredClass(NamedTuple):
    """A PriorityClass whose use a ResourceQuota must permit (limitedResources), in a quota that permits it without
    naming it. `name`: empty for all other classes. `is_in_quota`: the quota names the class.
    """

    name: str
    is_in_quota: bool
    why: str
    fix: str


def harm_of(details: Details) -> Harm:
    """What the problem with these details does to Pods."""
    if isinstance(details, StaysPending | GroupPending):
        return not_running([details.impact.priority or 0])
    if isinstance(details, PodsOfMissingClass):
        return not_running(pod.effective_priority for pod in details.pods)
    if isinstance(details, Preemption):
        return preempted(pod.effective_priority for pod in details.victims)
    if isinstance(details, GroupPreemption):
        return preempted(unit.priority for unit in details.group.units)
    return NO_HARM
