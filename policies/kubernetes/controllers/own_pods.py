"""The Pods of a workload: those that exist, and missing ones as its controller will create them, with the fields that
kube-scheduler reads.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from forewarn.policies.base.copies import MadeOnAccess, replace
from forewarn.policies.base.cow_table import derived
from forewarn.policies.base.findings import grouped
from forewarn.policies.base.metering import TooLarge, charge
from forewarn.policies.kubernetes.cluster.admission import admitted
from forewarn.policies.kubernetes.controllers.daemon_set import (
    node_of,
    nodes_that_should_run,
    on_node,
    with_daemon_fields,
)
from forewarn.policies.kubernetes.controllers.deployment import find_new_replica_set
from forewarn.policies.kubernetes.controllers.job import JobStatus, stored_status, wanted_pods
from forewarn.policies.kubernetes.controllers.replica_set import spec_replicas
from forewarn.policies.kubernetes.controllers.stateful_set import ordinal_of, start_ordinal
from forewarn.policies.kubernetes.controllers.templates import (
    TEMPLATE_HASH,
    made_of,
    replica_set_name,
    template_of,
    without_hash,
)
from forewarn.policies.kubernetes.controllers.view import Key, controller_of
from forewarn.policies.kubernetes.kinds import registry
from forewarn.policies.kubernetes.objects.fields import (
    ApiObject,
    InvalidObject,
    at,
    boolean,
    group_kind,
    items,
    mapping,
    ref_of,
    text_at,
)
from forewarn.policies.kubernetes.objects.pod import Owner, Pod
from forewarn.policies.kubernetes.objects.pod_loss import role_of
from forewarn.policies.kubernetes.objects.volumes import Volume
from forewarn.policies.kubernetes.objects.workload import Workload, is_managed_elsewhere, pod_template_of, selector_of

if TYPE_CHECKING:
    from forewarn.policies.kubernetes.cluster.cache import ClusterSnapshot
    from forewarn.policies.kubernetes.selectors import LabelSelector


def pods_of(cluster: ClusterSnapshot, obj: ApiObject) -> list[Pod]:
    """Return a workload's running or Pending Pods: by owner, else by selector among Pods with unknown owners."""
    pods = [pod for pod in owned_pods_of(cluster, obj) if _is_there(pod)]
    selector = selector_of(obj)
    if pods or selector.empty:
        return pods
    namespace = ref_of(obj, "default").namespace
    groups = [
        same for part in derived(cluster.pods_of(namespace), _pods_by_label) for same in part.get(selector.label, ())
    ]
    charge(len(groups))
    matching = (same for same in groups if selector.matches(same[0].labels))
    return [pod for same in matching if not _has_owner(cluster, same[0]) for pod in same]


def owned_pods_of(cluster: ClusterSnapshot, obj: ApiObject) -> list[Pod]:
    """Return a workload's Pods, including terminal and terminating ones and those of workloads it controls."""
    ref = ref_of(obj, "default")
    of_it = {(group_kind(obj), ref.name), *(_identity(workload) for workload in controlled(cluster, obj))}
    parts = derived(cluster.pods_of(ref.namespace), _pods_by_owner)
    pods = [pod for part in parts for owner in of_it for pod in part.get(owner, ())]
    charge(len(pods))
    return pods


def controlled(cluster: ClusterSnapshot, obj: ApiObject) -> list[Workload]:
    """Return the workloads whose controller is this object: a Deployment's ReplicaSets, a CronJob's Jobs."""
    ref, kind = ref_of(obj, "default"), group_kind(obj)
    parts = derived(cluster.workloads_of(ref.namespace), _workloads_by_controller)
    return [w for part in parts for w in part.get((kind, ref.name), ())]


_Identity = tuple[str, str]
"""(`group/Kind`, name)."""


def _workloads_by_controller(workloads: Mapping[Any, Workload]) -> dict[_Identity | None, list[Workload]]:
    """Return controller -> the workloads that it controls."""
    charge(len(workloads))
    return grouped((workload.controller, workload) for workload in workloads.values())


def _pods_by_owner(pods: Mapping[Any, Pod]) -> dict[_Identity | None, list[Pod]]:
    """Return owner -> its Pods.

    Cached for each shard of the table: a namespace may have 100,000 Pods, few of which change.
    """
    charge(len(pods))
    return grouped((_owner_of(pod), pod) for pod in pods.values())


def _pods_by_label(pods: Mapping[Any, Pod]) -> dict[tuple[str, str] | None, list[list[Pod]]]:
    """Return label (None: any) -> running or Pending Pods, in groups with the same owner and labels.

    Pods of one controller share one labels object.
    """
    groups = grouped(((_owner_of(pod), id(pod.labels)), pod) for pod in pods.values() if _is_there(pod)).values()
    labelled = [(label, same) for same in groups for label in (None, *same[0].labels.items())]
    charge(len(pods) + len(labelled))
    return grouped(labelled)


def _owner_of(pod: Pod) -> _Identity | None:
    return None if pod.owner is None else (pod.owner.group_kind, pod.owner.name)


def _has_owner(cluster: ClusterSnapshot, pod: Pod) -> bool:
    """Report whether the Pod's controller is a workload of the cluster."""
    return pod.owner is not None and cluster.workload(pod.owner.group_kind, pod.namespace, pod.owner.name) is not None


def _identity(workload: Workload) -> _Identity:
    return group_kind(workload.object), workload.ref.name


def _is_there(pod: Pod) -> bool:
    return not pod.terminal and not pod.terminating


_ADOPTING: Final = (
    "/ReplicationController",
    registry.REPLICA_SET,
    registry.STATEFUL_SET,
    registry.DAEMON_SET,
    registry.JOB,
)


_ByLabel = Mapping["tuple[str, str] | None", "list[tuple[int, LabelSelector, Owner]]"]
"""A label that the selector requires (None: unknown) -> place in the order of workloads, selector and owner."""


class Adoption:
    """Finds the workloads that adopt Pods without a controller.

    A Deployment without ReplicaSets adopts as the ReplicaSet that it creates. Source: pkg/controller `ClaimObject`; for
    StatefulSets also `isMemberOf`.
    """

    def __init__(self, cluster: ClusterSnapshot) -> None:
        self._cluster = cluster
        self._by_namespace: dict[str, _ByLabel] = {}

    def adopt(self, pod: Pod) -> Pod:
        """Return the Pod, with the workload that adopts it as its owner."""
        if pod.owner is not None or pod.terminal or pod.terminating:
            return pod
        if (by_label := self._by_namespace.get(pod.namespace)) is None:
            adopting = enumerate(_adopting(self._cluster.workloads_of(pod.namespace)))
            by_label = grouped((selector.label, (place, selector, owner)) for place, (selector, owner) in adopting)
            self._by_namespace[pod.namespace] = by_label
        found = [each for label in (None, *pod.labels.items()) for each in by_label.get(label, ())]
        charge(len(found))
        for _, selector, owner in sorted(found, key=lambda each: each[0]):
            is_member = owner.group_kind != registry.STATEFUL_SET or ordinal_of(pod.name, owner.name) >= 0
            if is_member and selector.matches(pod.labels):
                return replace(pod, owner=owner)
        return pod


def _adopting(workloads: Mapping[tuple[str, str, str], Workload]) -> Iterator[tuple[LabelSelector, Owner]]:
    charge(len(workloads))
    controlling = {workload.controller for workload in workloads.values()}
    for (kind, _, name), workload in sorted(workloads.items()):
        obj = workload.object
        creates = kind == registry.DEPLOYMENT and (kind, name) not in controlling
        if not (creates or kind in _ADOPTING) or at(obj, "metadata", "deletionTimestamp"):
            continue
        with suppress(InvalidObject):
            if not (selector := selector_of(obj)).empty:
                version, uid = text_at(obj, "apiVersion"), text_at(obj, "metadata", "uid")
                of_kind = Owner(kind.rpartition("/")[2], name, uid, version)
                yield selector, Owner("ReplicaSet", replica_set_name(obj), "", version) if creates else of_kind


class Recreator(StrEnum):
    """The component that recreates a Pod after its deletion."""

    CONTROLLER = "controller"
    """The controller of the Pod."""
    NOTHING = "nothing"
    """Nothing: the Pod has no controller."""
    KUBELET = "kubelet"
    """The kubelet of the node: the Pod is static."""
    NOT_LISTED = "controller is not in the cluster state"
    """A controller of a modelled kind that is missing in the cluster state."""
    NEVER = "never"
    """A known controller, which does not create this Pod again, or only under conditions of its spec."""
    UNKNOWN = "unknown"
    """A controller of a kind that forewarn does not know."""

    @property
    def is_assumption(self) -> bool:
        """Whether forewarn only assumes that nothing recreates the Pod."""
        return self in (Recreator.NOT_LISTED, Recreator.UNKNOWN)


def again(pod: Pod, recreated: Collection[str], *, is_there: bool) -> Recreator:
    """Return what recreates a Pod after its deletion.

    `recreated`: the `group/Kind`s of controllers that recreate their Pods by the configuration. `is_there`: whether the
    simulation contains the Pod's workload.
    """
    kind = pod.owner_kind
    if is_there or kind in recreated:
        return Recreator.CONTROLLER
    if not kind:
        return Recreator.NOTHING
    if kind == registry.NODE:
        return Recreator.KUBELET
    if kind in registry.POD_TEMPLATE_PATHS:
        return Recreator.NOT_LISTED
    role = role_of(kind, pod.labels)
    if role is None:
        return Recreator.UNKNOWN
    return Recreator.CONTROLLER if role.recreated else Recreator.NEVER


def controller_in(cluster: ClusterSnapshot, pod: Pod) -> Key | None:
    """Return the controller of a Pod; if it is a ReplicaSet that the cluster state does not have, the Deployment that
    selects the Pod and has no other ReplicaSet.
    """
    owner = controller_of(pod)
    if owner is None or owner[0] != registry.REPLICA_SET or owner in cluster.workloads:
        return owner
    workloads = cluster.workloads_of(pod.namespace)
    charge(len(workloads))
    complete = {workload.controller for workload in workloads.values()}
    deployments = ((key, workload.object) for key, workload in workloads.items() if key[0] == registry.DEPLOYMENT)
    selecting = (key for key, obj in deployments if (key[0], key[2]) not in complete and _selects(obj, pod))
    return next(selecting, owner)


def _selects(deployment: ApiObject, pod: Pod) -> bool:
    try:
        selector = selector_of(deployment)
    except InvalidObject:
        return False
    return not selector.empty and selector.matches(pod.labels)


def has_lost_owner(pod: Pod, runs: Callable[[str, str], bool]) -> bool:
    """Report whether the Pod's owner is a Pod (as a Spark driver owns its executors) that no longer runs."""
    return pod.owner is not None and pod.owner_kind == registry.POD and not runs(pod.namespace, pod.owner.name)


def sentence(what: Recreator, kind: str) -> str:
    """Return a clause that says what recreates a deleted Pod; "" if its controller, of the kind `kind`, does."""
    name = kind.removeprefix("/")
    texts = {
        Recreator.CONTROLLER: "",
        Recreator.NOTHING: "nothing replaces it",
        Recreator.KUBELET: "a static Pod: the kubelet of its node starts it",
        Recreator.NOT_LISTED: f"its {name.rpartition('/')[2]} is not in the cluster state: assumed not to be replaced",
        Recreator.NEVER: f"its {name.rpartition('/')[2]} does not replace it",
        Recreator.UNKNOWN: f"owned by {name}, a kind unknown to forewarn: assumed not to be replaced",
    }
    return texts[what]


NO_HASH: Final = "new"
"""The pod-template-hash of a ReplicaSet that does not exist yet; hashes of upstream contain no `e`."""


MAX_SEQUENTIAL: Final = 5_000
"""Maximum number of Pods of one object that are predicted one after the other; further ones have an unknown outcome."""


class NewPods(NamedTuple):
    """The missing Pods of a workload. `wanted`: the requested number of Pods.

    `without_claims`: whether to ignore volumes whose claims are created together with the Pods. `none`: why `wanted` is
    0.
    """

    wanted: int
    pods: Sequence[Pod]
    without_claims: bool = False
    none: str = "0 replicas"


def new_pods(
    cluster: ClusterSnapshot,
    obj: ApiObject,
    template: ApiObject,
    replicas: int | None = None,
    own: Sequence[Pod] | None = None,
) -> NewPods:
    """Return the missing Pods of a workload in the order of creation.

    `replicas`: replaces the number in the object, unless None. `own`: the existing Pods; None: found by `pods_of`.
    Raises InvalidObject for an invalid template or an unknown PriorityClass.
    """
    if group_kind(obj) == "apps/DaemonSet":
        return _new_daemons(cluster, obj, template, own)
    wanted = replicas_of(obj) if replicas is None else replicas
    present = {pod.name for pod in (pods_of(cluster, obj) if own is None else own)}
    missing = max(wanted - len(present), 0)
    if not missing:
        return NewPods(wanted, (), none=_why_none(obj) if replicas is None else "0 replicas")
    first = start_ordinal(obj) if group_kind(obj) == "apps/StatefulSet" else 0
    numbers = FreeNumbers(ref_of(obj).name, first, present)
    one = _pod(cluster, obj, template, numbers.name(0))
    return _with_claims(cluster, obj, wanted, NumberedPods(one, numbers, range(missing)))


def _new_daemons(cluster: ClusterSnapshot, obj: ApiObject, template: ApiObject, own: Sequence[Pod] | None) -> NewPods:
    """Return the missing Pods of a DaemonSet: one for each node that should have a Pod and has none.

    `own`: the existing Pods of the DaemonSet; None: found by `pods_of`. Without known nodes, there are no Pods.
    """
    if not cluster.objects.nodes:
        return NewPods(0, (), none="no nodes")
    pod = daemon(cluster, obj, template)
    nodes = _daemon_nodes(cluster, obj, template, pod)
    present = {node_of(pod) for pod in (pods_of(cluster, obj) if own is None else own)}
    whole = without_missing_claims(pod, cluster)
    missing = DaemonPods(whole, [name for name in nodes if name not in present])
    return NewPods(len(nodes), missing, whole is not pod, "no node matches")


def without_missing_claims(pod: Pod, cluster: ClusterSnapshot) -> Pod:
    """Return the Pod without volumes whose claims do not exist yet (ephemeral claims, and claims of the same apply)."""

    def is_created_later(volume: Volume) -> bool:
        claim = (pod.namespace, volume.claim_of(pod.name) or "")
        return (volume.ephemeral or claim in cluster.pending_claims) and claim not in cluster.objects.claims

    volumes = tuple(v for v in pod.spec.volumes if not is_created_later(v))
    return pod if volumes == pod.spec.volumes else replace(pod, spec=replace(pod.spec, volumes=volumes))


def _with_claims(cluster: ClusterSnapshot, obj: ApiObject, wanted: int, pods: NumberedPods) -> NewPods:
    """Return the Pods of a workload with volumes for the existing claims of a StatefulSet, and without missing claims.

    A claim replaces the volume of its name in the template. Source: pkg/controller/statefulset, `updateStorage`.
    """
    templates = [
        str(at(t, "metadata", "name") or "")
        for t in (items(obj, "spec", "volumeClaimTemplates") if group_kind(obj) == "apps/StatefulSet" else ())
    ]
    if not templates and not any(volume.ephemeral for volume in pods.like.spec.volumes):
        whole = without_missing_claims(pods.like, cluster)
        return NewPods(wanted, NumberedPods(whole, pods.numbers, range(len(pods))), whole is not pods.like)
    volumes = tuple(volume for volume in pods.like.spec.volumes if volume.name not in templates)
    bare = replace(pods.like, spec=replace(pods.like.spec, volumes=volumes)) if templates else pods.like
    latest = bare.spec

    def claims_of(pod: Pod) -> tuple[Volume, ...]:
        charge(len(templates))
        names = {template: f"{template}-{pod.name}" for template in templates}
        there = {t: name for t, name in names.items() if (pod.namespace, name) in cluster.objects.claims}
        return tuple(Volume(template, claim_name=name) for template, name in there.items())

    def finish(pod: Pod) -> Pod:
        nonlocal latest
        charge(len(volumes))
        volumes_of_it = without_missing_claims(pod, cluster).spec.volumes + claims_of(pod)
        if volumes_of_it != latest.volumes:  # Pods with equal volumes share one spec
            latest = replace(bare.spec, volumes=volumes_of_it)
        return pod if latest is pod.spec else replace(pod, spec=latest)

    every = {*templates}

    def is_missing(pod: Pod) -> bool:
        return len(claims_of(pod)) < len(every) or without_missing_claims(pod, cluster) is not pod

    numbered_pods = NumberedPods(bare, pods.numbers, range(len(pods)))
    missing = any(map(is_missing, numbered_pods[:MAX_SEQUENTIAL]))
    return NewPods(wanted, NumberedPods(bare, pods.numbers, range(len(pods)), finish), missing)


def has_replica_set(cluster: ClusterSnapshot, obj: ApiObject, template: ApiObject) -> bool:
    return _owner(cluster, obj, template) is not obj


def is_of_template(cluster: ClusterSnapshot, obj: ApiObject, template: ApiObject, pods: Sequence[Pod]) -> list[bool]:
    """Return, for each of `pods`, whether the Pod of a Deployment belongs to the ReplicaSet of this template."""
    ref = ref_of(_owner(cluster, obj, template), "default")
    return [controller_of(pod) == (registry.REPLICA_SET, ref.namespace, ref.name) for pod in pods]


def _owner(cluster: ClusterSnapshot, obj: ApiObject, template: ApiObject) -> ApiObject:
    """Return the controller of new Pods: a Deployment's ReplicaSet with this template if it exists, otherwise `obj`."""
    if group_kind(obj) != "apps/Deployment":
        return obj
    sets = [w.object for w in controlled(cluster, obj) if group_kind(w.object) == registry.REPLICA_SET]
    return find_new_replica_set(template, sorted(sets, key=_age)) or obj


def _age(obj: ApiObject) -> tuple[str, str]:
    return str(at(obj, "metadata", "creationTimestamp") or ""), ref_of(obj).name


def creates_pods_later(obj: ApiObject) -> bool:
    """Report whether the Pods of an object are created at set times, not when the object is applied."""
    return group_kind(obj) == registry.CRON_JOB


def is_rolled_out(cluster: ClusterSnapshot, deployment: ApiObject, replica_set: ApiObject) -> bool:
    """Report whether a Deployment does nothing when Pods of its ReplicaSet are deleted and created: the ReplicaSet has
    the template and all replicas of the Deployment.
    """
    name = ref_of(replica_set, "default").name
    by_others = sum(replicas_of(other.object) for other in controlled(cluster, deployment) if other.ref.name != name)
    if by_others or replicas_of(deployment) != replicas_of(replica_set):
        return False
    return without_hash(template_of(deployment)) == without_hash(template_of(replica_set))


def replicas_of(obj: ApiObject) -> int:
    """Return the number of Pods that a workload's controller runs at a time: 1 if unset, 0 for suspended objects, Jobs
    of another controller than the Job controller, and PodTemplates.
    """
    kind = group_kind(obj)
    if kind == "/PodTemplate":
        return 0
    if kind in ("batch/Job", "batch/CronJob"):
        return 0 if boolean(obj, "spec", "suspend") else wanted_pods(_job_of(obj), JobStatus())
    return spec_replicas(obj)


def _job_of(obj: ApiObject) -> ApiObject:
    return obj if group_kind(obj) == registry.JOB else mapping(obj, *registry.JOB_TEMPLATE)


def _why_none(obj: ApiObject) -> str:
    """Return why `replicas_of` is 0."""
    kind = group_kind(obj)
    if kind not in (registry.JOB, registry.CRON_JOB):
        return "0 replicas" if kind != "/PodTemplate" else "no controller uses a PodTemplate alone"
    job = _job_of(obj)
    if boolean(obj, "spec", "suspend") or boolean(job, "spec", "suspend"):
        return "suspended"
    if is_managed_elsewhere(job):
        return "spec.managedBy"
    return "parallelism 0" if at(job, "spec", "parallelism") == 0 else "completions 0"


def needed(obj: ApiObject, stored: ApiObject) -> int:
    """Return `replicas_of(obj)`; for a Job, how many Pods it still needs according to the status of `stored`. Raises
    InvalidObject.
    """
    if group_kind(obj) != registry.JOB:
        return replicas_of(obj)
    status = stored_status(stored, ()) or JobStatus()
    return 0 if status.finished or status.failure else wanted_pods(obj, status)


def _pod(cluster: ClusterSnapshot, obj: ApiObject, template: ApiObject, name: str) -> Pod:
    """Return the Pod `name` of the template, after its creation by the controller and after admission."""
    owner = _owner(cluster, obj, template)
    with _template_errors(obj):
        pod = made_of(ref_of(obj, "default").namespace, owner, template)
        pod["metadata"]["name"] = name
        if group_kind(obj) == "apps/Deployment":
            template_hash = at(owner, "metadata", "labels", TEMPLATE_HASH) if owner is not obj else None
            pod["metadata"]["labels"][TEMPLATE_HASH] = str(template_hash or NO_HASH)
        return admitted(pod, cluster)


def check_template(obj: ApiObject, cluster: ClusterSnapshot | None) -> None:
    """Raise InvalidObject if no Pod can be created from an object, or if the Pod has invalid requests or limits.

    A Pod for which the cluster has LimitRanges is left to `admitted`, which sets their defaults.
    """
    from forewarn.policies.kubernetes.kube_apiserver.validation.resources import check_resources

    template = pod_template_of(obj, registry.POD_TEMPLATE_PATHS)
    if template is not None:
        with _template_errors(obj):
            is_pod, namespace = not template.is_template, ref_of(obj, "default").namespace
            Pod.from_api(obj if is_pod else made_of(namespace, obj, template.object))
        if template.is_template or not (cluster and cluster.limit_ranges_of(ref_of(obj, "default").namespace)):
            check_resources(obj)


@contextmanager
def _template_errors(obj: ApiObject) -> Iterator[None]:
    """Context manager that adds the object and the path of its template to InvalidObject errors."""
    try:
        yield
    except TooLarge:
        raise
    except InvalidObject as error:
        path = (*registry.POD_TEMPLATE_PATHS.get(group_kind(obj), ()), *error.path)
        error.with_traceback(None)  # avoids a reference cycle: callers keep the new error, whose context is this one
        raise error.at(path, ref_of(obj, "default")) from None


def count_daemons(cluster: ClusterSnapshot, obj: ApiObject, template: ApiObject) -> int:
    """Return the number of nodes that should have a Pod of a DaemonSet; 0 if no nodes are known.

    Its controller counts without admission. Source: pkg/controller/daemon, `NodeShouldRunDaemonPod`.
    """
    with _template_errors(obj):
        pod = Pod.from_api(made_of(ref_of(obj, "default").namespace, obj, with_daemon_fields(template)))
    return len(_daemon_nodes(cluster, obj, template, pod))


def _daemon_nodes(cluster: ClusterSnapshot, obj: ApiObject, template: ApiObject, pod: Pod) -> list[str]:
    """Return the sorted names of the nodes that should have a Pod. `pod`: the DaemonSet's Pod without a target node."""
    with _template_errors(obj):
        return nodes_that_should_run(template, pod, {name: node for (_, name), node in cluster.objects.nodes.items()})


def daemon(cluster: ClusterSnapshot, obj: ApiObject, template: ApiObject) -> Pod:
    """Return the Pod of a DaemonSet after admission, without a target node."""
    with _template_errors(obj):
        anywhere = with_daemon_fields(template)
    return _pod(cluster, obj, anywhere, f"{ref_of(obj).name}-")


def are_equivalent(pods: Sequence[Pod]) -> bool:
    """Return True if kube-scheduler treats all these Pods equally; False if they are too many to compare."""
    if isinstance(pods, NumberedPods) and pods.is_uniform:
        return True
    if len(pods) > MAX_SEQUENTIAL:
        return False
    first = pods[0]
    return all(
        (pod.spec, pod.occupies, pod.labels, pod.priority) == (first.spec, first.occupies, first.labels, first.priority)
        for pod in pods
    )


class DaemonPods(MadeOnAccess[Pod]):
    """The Pods of a DaemonSet, in the order of their nodes. `anywhere`: the Pod without affinity to a node."""

    def __init__(self, anywhere: Pod, nodes: Sequence[str]) -> None:
        super().__init__(range(len(nodes)))
        self.anywhere, self._nodes = anywhere, nodes

    @property
    def nodes(self) -> list[str]:
        return [self._nodes[place] for place in self.places]

    def _made(self, place: int) -> Pod:
        return self.pod_on(self._nodes[place])

    def pod_on(self, node: str) -> Pod:
        return on_node(self.named_for(node), node)

    def named_for(self, node: str) -> Pod:
        """Return the Pod for a node without affinity to the node, for use after scheduling."""
        return replace(self.anywhere, name=self.anywhere.name + node)


class NumberedPods(MadeOnAccess[Pod]):
    """The Pods `stem-0`, `stem-1`… of a workload, skipping names that are in use.

    `finish`: returns a Pod with fields that depend on its name; None if the Pods differ only in their names.
    """

    def __init__(
        self, like: Pod, numbers: FreeNumbers, places: range, finish: Callable[[Pod], Pod] | None = None
    ) -> None:
        super().__init__(places)
        self.like, self.numbers, self._finish = like, numbers, finish

    @property
    def is_uniform(self) -> bool:
        return self._finish is None

    def _made(self, place: int) -> Pod:
        pod = replace(self.like, name=self.numbers.name(place))
        return pod if self._finish is None else self._finish(pod)


class Same(MadeOnAccess[Pod]):
    """A Pod, `count` times. Each copy after the first has its own uid."""

    def __init__(self, pod: Pod, count: int) -> None:
        super().__init__(range(min(count, 2**31)))
        self._pod = pod

    def _made(self, place: int) -> Pod:
        return replace(self._pod, uid=f"{self._pod.identity}+{place}") if place else self._pod


class FreeNumbers:
    """The names `stem-first`, `stem-first+1`… except those of existing Pods (`present`)."""

    def __init__(self, stem: str, first: int, present: Iterable[str]) -> None:
        self._stem, self._first = stem, first
        taken = sorted(number for name in present if (number := _number_in(name, stem)) is not None and number >= first)
        self._before = [number - place for place, number in enumerate(taken)]

    def name(self, index: int) -> str:
        """Return the free name with this index, from 0."""
        least = self._first + index
        return f"{self._stem}-{least + bisect_right(self._before, least)}"


def _number_in(name: str, stem: str) -> int | None:
    """Return the number after `stem-` in the name of a Pod; None without a number, or with leading zeros."""
    text = name[len(stem) + 1 :]
    if not name.startswith(f"{stem}-") or not (text.isascii() and text.isdigit()) or len(text) > _DIGITS:
        return None
    return int(text) if text == "0" or text[0] != "0" else None


_DIGITS: Final = 12


class Chained(MadeOnAccess[Pod]):
    """The Pods of one sequence, followed by those of another."""

    def __init__(self, first: Sequence[Pod], then: Sequence[Pod]) -> None:
        super().__init__(range(min(len(first) + len(then), 2**31)))
        self._first, self._then = first, then

    def _made(self, place: int) -> Pod:
        return self._first[place] if place < len(self._first) else self._then[place - len(self._first)]
