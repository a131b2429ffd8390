"""The effect of losing one Pod on the Pod's workload, according to the table owners.json or the spec of the Job.

owners.json has the owners that forewarn does not simulate. Each row names its sources, by the project and the path in
the project's repository. A row applies to Pods whose controller is of the row's kind and that have the row's labels;
the first row that applies counts. To add an owner, add a row, a Pod to tests/policies/cases/owners.yaml, and a line to
docs/guides/custom-controllers.md.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol

from forewarn.policies.base.documents import Hidden, in_json
from forewarn.policies.base.findings import brief, grouped
from forewarn.policies.base.light import NamedTuple
from forewarn.policies.kubernetes.kinds.registry import DAEMON_SET, JOB
from forewarn.policies.kubernetes.objects.fields import ApiObject, InvalidObject
from forewarn.policies.kubernetes.objects.workload import fails_with_one_pod

if TYPE_CHECKING:
    from forewarn.policies.kubernetes.objects.pod import Owner, Pod


class Loss(StrEnum):
    """The effect of losing one Pod on the application to which the Pod belongs."""

    NOTHING = ""
    """The rest of the application continues."""
    INTERRUPTS = "interrupts"
    """The rest of the application stops, restarts or fails over."""
    FAILS = "fails"
    """The whole application fails, and its controller does not continue it."""


class Role(NamedTuple):
    """The Pods that a controller of the kind `owner` (`group/Kind`, empty for Pods without controller) owns, and that
    have all `labels` (an empty value: any).

    `recreated`: the controller creates a lost Pod again. `condition`: when the loss has a smaller or larger effect;
    follows the name of the application in a sentence. `whole`: the application that the loss affects if it is not the
    owner: its kind, and the labels with its name.
    """

    owner: str
    labels: Mapping[str, str]
    recreated: bool
    loss: Loss
    sources: tuple[str, ...]
    condition: str = ""
    whole: tuple[str, tuple[str, ...]] = ("", ())


def _role(row: dict[str, Any]) -> Role:
    kind, labels = row.pop("whole", ("", ()))
    loss, sources = Loss(row.pop("loss")), tuple(row.pop("sources"))
    return Role(**row, loss=loss, sources=sources, whole=(kind, tuple(labels)))


with open(os.path.join(os.path.dirname(__file__), "owners.json"), encoding="utf-8") as _file:
    ROLES: Final = tuple(map(_role, json.load(_file)))
"""In order: of rows with the same owner, those with more labels first."""

_BY_OWNER: Final = grouped((role.owner, role) for role in ROLES)


def role_of(owner: str, labels: Mapping[str, str]) -> Role | None:
    """Return the row for a Pod, by the `group/Kind` of its controller and by its labels; None without one."""
    for role in _BY_OWNER.get(owner, ()):
        if all(key in labels and value in ("", labels[key]) for key, value in role.labels.items()):
            return role
    return None


_MAX_LENGTH: Final = 253


class PodLoss(NamedTuple):
    """The effect of losing a Pod on the workload `kind` `name`. `pod`: `namespace/name`.

    `condition`: a condition that changes the effect, as text, such as `unless …`; empty without such a condition.
    """

    pod: str
    namespace: Hidden[str]
    loss: Hidden[Loss]
    kind: str
    name: str
    condition: str = ""

    @property
    def fails(self) -> bool:
        return self.loss is Loss.FAILS

    @property
    def effect(self) -> str:
        """The effect as text: `fails SparkApplication spark-pi`."""
        return f"{self.loss} {self.kind} {self.name}"

    @property
    def sentence(self) -> str:
        """The effect and condition: `fails SparkApplication spark-pi, unless spec.restartPolicy.type is Always`."""
        return f"{self.effect}{self.condition and ', '}{self.condition}"

    @in_json
    def effect_(self) -> Literal["fails", "interrupts"]:
        return "fails" if self.fails else "interrupts"


class DaemonSetVictim(NamedTuple):
    """A victim that DaemonSet `daemonSet` (`namespace/name`) recreates on the same node only."""

    pod: str
    daemon_set: str
    node: str


class Consequences(NamedTuple):
    """What the preemption of Pods does to their workloads.

    `losses`: what fails or is interrupted without the victims. `daemonSetVictims`: victims that return on the same node
    only.
    """

    losses: Sequence[PodLoss] = ()
    daemon_set_victims: Sequence[DaemonSetVictim] = ()

    @classmethod
    def from_victims(cls, victims: Sequence[Pod], workload: Workloads) -> Consequences:
        """Return the consequences for these victims. `workload`: see `losses_of`."""
        daemons = [
            DaemonSetVictim(pod.key, f"{pod.namespace}/{pod.owner.name}", pod.node_name)
            for pod in victims
            if pod.owner is not None and pod.owner_kind == DAEMON_SET
        ]
        return cls(losses_of(victims, workload), daemons)


class _Stored(Protocol):
    @property
    def object(self) -> ApiObject: ...


Workloads = Callable[[str, str, str], _Stored | None]
"""Returns the workload with a `group/Kind`, namespace and name; None if it is not stored."""


def losses_of(pods: Iterable[Pod], workload: Workloads) -> list[PodLoss]:
    """Return the effects of losing these Pods: one for each affected workload, failures first.

    `workload`: returns the workload with a `group/Kind`, namespace and name.
    """
    pod_loss: dict[tuple[str, str, str], PodLoss] = {}
    for pod in pods:
        loss = loss_of(pod, workload)
        if loss is not None:
            earlier = pod_loss.setdefault((loss.namespace, loss.kind, loss.name), loss)
            if loss.fails and not earlier.fails:
                pod_loss[loss.namespace, loss.kind, loss.name] = loss
    return sorted(pod_loss.values(), key=lambda loss: (not loss.fails, loss.pod))


def loss_phrases(losses: Sequence[PodLoss], limit: int, verb: str) -> Iterator[str]:
    """Yield `VERB batch/pi-driver fails SparkApplication pi, unless …` for `limit` losses, and the others' number."""
    yield from (f"{verb} {loss.pod} {loss.sentence}" for loss in losses[:limit])
    if len(losses) > limit:
        yield f"{len(losses) - limit} more fail or are interrupted"


def loss_of(pod: Pod, workload: Workloads) -> PodLoss | None:
    """Return the effect of losing a Pod; None if the workload continues without it, or if the effect is unknown.

    `workload`: returns the workload with a `group/Kind`, namespace and name.
    """
    owner = pod.owner
    if owner is not None and owner.group_kind == JOB:
        job = workload(JOB, pod.namespace, owner.name)
        if job is None or not _fails(job.object):
            return None
    return named_loss(pod.namespace, pod.name, owner, pod.labels)


def named_loss(namespace: str, name: str, owner: Owner | None, labels: Mapping[str, str]) -> PodLoss | None:
    """Return the effect of losing a Pod with this owner and these labels; None if there is none.

    For the Pod of a Job, assumes that the Job fails with the Pod.
    """
    role = role_of("" if owner is None else owner.group_kind, labels)
    if role is not None and role.loss is not Loss.NOTHING:
        kind, keys = role.whole
        of_owner = ("", "") if owner is None else (owner.kind, owner.name)
        whole = (kind, "/".join(labels.get(key, "") for key in keys)) if kind else of_owner
        return PodLoss(
            f"{namespace}/{name}", namespace, role.loss, whole[0], brief(whole[1], _MAX_LENGTH), role.condition
        )
    if owner is not None and owner.group_kind == JOB:
        return PodLoss(f"{namespace}/{name}", namespace, Loss.FAILS, owner.kind, brief(owner.name, _MAX_LENGTH))
    return None


def _fails(job: ApiObject) -> bool:
    try:
        return fails_with_one_pod(job)
    except InvalidObject:
        return False
