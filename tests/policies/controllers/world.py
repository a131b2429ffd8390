"""A small cluster for controllers: what they ask for is stored at once, one write after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from forewarn.policies.kubernetes.controllers import reconcile
from forewarn.policies.kubernetes.controllers.view import (
    Action,
    CreateClaim,
    CreatePod,
    CreateWorkload,
    DeletePod,
    DeleteWorkload,
    Key,
    PodState,
    ReleasePod,
    SetClaimOwner,
    SetStatus,
    Tally,
    UpdateConflict,
    UpdateWorkload,
    WorkloadState,
)
from forewarn.policies.kubernetes.objects.disruption_budget import PodDisruptionBudget
from forewarn.policies.kubernetes.objects.fields import ApiObject, group_kind, ref_of
from forewarn.policies.kubernetes.objects.node import Node
from forewarn.policies.kubernetes.objects.pod import Owner, Pod
from forewarn.policies.kubernetes.objects.storage import PersistentVolumeClaim
from forewarn.policies.kubernetes.releases.semantics import DEFAULT, Semantics


@dataclass
class World:
    """A View; `step` syncs one object and stores what comes of it, until no write is refused; `log` has every write."""

    now: float = 1_000.0
    pods: dict[tuple[str, str], PodState] = field(default_factory=dict)
    gone: list[PodState] = field(default_factory=list)
    objects: dict[Key, WorkloadState] = field(default_factory=dict)
    claims: dict[tuple[str, str], PersistentVolumeClaim] = field(default_factory=dict)
    node_table: dict[str, Node] = field(default_factory=dict)
    log: list[Action] = field(default_factory=list)
    semantics: Semantics = DEFAULT
    count: int = 0

    def workload(self, key: Key, /) -> WorkloadState | None:
        return self.objects.get(key)

    def owned(self, key: Key, /) -> Sequence[WorkloadState]:
        return [state for state in self.objects.values() if state.controller == key]

    def pods_of(self, key: Key, /) -> Sequence[PodState]:
        every = [*self.pods.values(), *(self.gone if key[0] == "batch/Job" else ())]
        return sorted((p for p in every if _owned_by(p.pod, key)), key=lambda p: int(p.pod.uid))

    def selected(self, state: WorkloadState, /) -> Iterable[Tally]:
        pdb = PodDisruptionBudget.from_api(state.object)
        for (where, _), pod in self.pods.items():
            if where == state.key[1] and pdb.selects(pod.pod.labels):
                tally = Tally(pod.pod.labels)
                tally.count(pod, 1)
                yield tally

    def counts(self, key: Key, /) -> None:
        """Nobody keeps count."""

    def claim(self, namespace: str, name: str, /) -> PersistentVolumeClaim | None:
        return self.claims.get((namespace, name))

    def default_storage_class(self) -> str:
        return "standard"

    def lot(self, _name: str, /) -> float:
        return 0.0

    def pods_on(self, node: str, /) -> Sequence[PodState]:
        return [pod for pod in self.pods.values() if pod.pod.node_name == node]

    def nodes(self) -> Mapping[str, Node]:
        return self.node_table

    def admit(self, template: ApiObject, make: Callable[[], ApiObject], /) -> Pod:
        return Pod.from_api(make())

    def add(self, obj: ApiObject, controller: Key | None = None) -> Key:
        """Store a workload or a budget; one of its name keeps its status."""
        ref = ref_of(obj, "default")
        key = (group_kind(obj), ref.namespace, ref.name)
        before = self.objects.get(key)
        status = before.status if before else None
        self.objects[key] = WorkloadState(key, obj, status, before.created if before else self.now, controller)
        return key

    def add_node(self, name: str, **spec: Any) -> None:
        node = {"metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}}, "spec": spec}
        self.node_table[name] = Node.from_api(node)

    def step(self, key: Key) -> list[Action]:
        actions = reconcile(self, key, self.now)
        for action in actions:
            self.apply(action)
        self.log += actions
        return self.step(key) if any(isinstance(action, UpdateConflict) for action in actions) else actions

    def apply(self, action: Action) -> None:
        match action:
            case CreatePod():
                self._create(action)
            case CreateClaim():
                self.claims[action.claim.key] = action.claim
            case SetClaimOwner():
                key = action.namespace, action.name
                self.claims[key] = replace(self.claims[key], owner=action.owner)
            case DeletePod():
                pod = self.pods[action.namespace, action.name]
                self.change(pod.pod.name, pod=replace(pod.pod, terminating=True), deleted=float(int(self.now)))
            case CreateWorkload():
                self.add(action.object, action.owner)
            case UpdateWorkload():
                self.objects[action.key] = replace(self.objects[action.key], object=action.object)
            case DeleteWorkload():
                del self.objects[action.key]
            case SetStatus():
                self.objects[action.key] = replace(self.objects[action.key], status=action.status)
            case ReleasePod():
                self.gone = [pod for pod in self.gone if pod.pod.uid != action.uid]

    def _create(self, action: CreatePod) -> None:
        self.count += 1
        self.claims.update({claim.key: claim for claim in action.claims})
        for owner in action.claim_owners:
            self.apply(owner)
        name = action.pod.name or f"{action.generate_name}{self.count}"
        pod = replace(action.pod, name=name, uid=str(self.count), phase="Pending", terminating=False)
        self.pods[pod.namespace, name] = PodState(pod, created=float(int(self.now)), template=action.template)

    def change(self, name: str, /, namespace: str = "default", **fields: Any) -> None:
        self.pods[namespace, name] = replace(self.pods[namespace, name], **fields)

    def run(self, *names: str, node: str = "n") -> None:
        """The pods are bound, Running and Ready; all that wait where none is named."""
        for name in names or [p.pod.name for p in self.pods.values() if p.ready is None and not p.terminating]:
            pod = self.pods["default", name].pod
            where = pod.node_name or node
            self.change(name, pod=replace(pod, phase="Running", node_name=where), ready=float(int(self.now)))

    def end(self, *names: str) -> None:
        """The pods are gone; all that terminate where none is named."""
        for name in names or [p.pod.name for p in self.pods.values() if p.terminating]:
            self.gone.append(replace(self.pods.pop(("default", name)), removed=True))

    def names(self) -> list[str]:
        return sorted(name for (_, name), pod in self.pods.items() if not pod.terminating)

    def settle(self, key: Key, *, rounds: int = 50) -> None:
        """Sync the object and its ReplicaSets until none of them writes."""
        for _ in range(rounds):
            keys = [key, *(state.key for state in self.owned(key))]
            before = (dict(self.objects), dict(self.pods))
            for each in keys:
                self.step(each)
            if before == (self.objects, self.pods):
                return
        raise AssertionError(f"{key} does not settle")


def _owned_by(pod: Pod, key: Key) -> bool:
    owner: Owner | None = pod.owner
    if owner is None or pod.namespace != key[1] or owner.name != key[2]:
        return False
    return f"{owner.api_version.rpartition('/')[0]}/{owner.kind}" == key[0]


def workload(kind: str, /, **spec: Any) -> dict[str, Any]:
    """A workload `w` with a template of one container."""
    name = "w"
    api_version = {"Job": "batch/v1", "CronJob": "batch/v1"}.get(kind, "apps/v1")
    template = {
        "metadata": {"labels": {"app": name}},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    }
    given = {"selector": {"matchLabels": {"app": name}}, "template": template, **spec}
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name, "namespace": "default"}, "spec": given}


def with_image(obj: dict[str, Any], image: str) -> dict[str, Any]:
    """The workload with another image in its template."""
    template = obj["spec"]["template"]
    spec = {**template["spec"], "containers": [{"name": "c", "image": image}]}
    return {**obj, "spec": {**obj["spec"], "template": {**template, "spec": spec}}}
