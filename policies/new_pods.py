"""The pods that a workload's controller would make next, as far as the scheduler looks at them."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple, overload

from policies.cluster import admitted
from policies.kinds import POD_TEMPLATE_PATHS
from policies.metering import charge, each
from policies.objects.fields import (
    ApiObject,
    InvalidObject,
    at,
    boolean,
    group_kind,
    int32,
    mapping,
    ref_of,
    sequence,
    string_map,
    text,
)
from policies.objects.items import items
from policies.objects.node_selector import FieldRequirement, NodeAffinity, NodeSelector
from policies.objects.pod import Pod
from policies.objects.pod_volumes import Volume
from policies.objects.taints import untolerated_taint
from policies.objects.workload import holds
from policies.selectors import InvalidSelector, LabelSelector, Requirement, parse_label_selector

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from policies.cluster import ClusterSnapshot
    from policies.objects.workload import Workload

TEMPLATE_HASH: Final = "pod-template-hash"
REVISION: Final = "deployment.kubernetes.io/revision"
DAEMON_TOLERATIONS: Final = (
    ("node.kubernetes.io/not-ready", "NoExecute"),
    ("node.kubernetes.io/unreachable", "NoExecute"),
    ("node.kubernetes.io/disk-pressure", "NoSchedule"),
    ("node.kubernetes.io/memory-pressure", "NoSchedule"),
    ("node.kubernetes.io/pid-pressure", "NoSchedule"),
    ("node.kubernetes.io/unschedulable", "NoSchedule"),
)
"""What the DaemonSet controller lets its pods tolerate. Source: pkg/controller/daemon/util/daemonset_util.go."""


NETWORK_UNAVAILABLE: Final = "node.kubernetes.io/network-unavailable"
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_TERMS: Final = "nodeSelectorTerms"
_NOT_READY: Final = tuple(
    {"key": f"node.kubernetes.io/{state}", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
    for state in ("not-ready", "unreachable")
)
"""What admission adds to every new pod (plugin DefaultTolerationSeconds)."""


NO_HASH: Final = "new"
"""The pod-template-hash of a ReplicaSet that is not there yet: none of upstream's has an `e` in it."""


MOST_IN_TURN: Final = 5_000
"""Pods of one object that are looked at one after the other; what is beyond them is said to be unknown."""


class NewPods(NamedTuple):
    """`wanted` pods shall run, `pods` of them are missing. `without_claims`: some volumes are left out of them, because
    their claims will only be made with the pods."""

    wanted: int
    pods: Sequence[Pod]
    without_claims: bool = False


class DaemonPods(Sequence[Pod]):
    """The pods of a DaemonSet, each made when it is looked at. `nodes`: the names of their nodes, in order.

    `anywhere`: such a pod, less the one node that it must be on.
    """

    def __init__(self, anywhere: Pod, nodes: Sequence[str]) -> None:
        self.anywhere, self.nodes = anywhere, nodes

    def __len__(self) -> int:
        return len(self.nodes)

    @overload
    def __getitem__(self, index: int, /) -> Pod: ...

    @overload
    def __getitem__(self, index: slice, /) -> DaemonPods: ...

    def __getitem__(self, index: int | slice, /) -> Pod | DaemonPods:
        if isinstance(index, slice):
            return DaemonPods(self.anywhere, self.nodes[index])
        return self.of(self.nodes[index])

    def of(self, node: str) -> Pod:
        """The pod for a node. Source: `ReplaceDaemonSetPodNodeNameNodeAffinity`."""
        pod = self.anywhere
        required = pod.spec.node_affinity.required
        terms = () if required is None else required.terms
        here = FieldRequirement("metadata.name", "In", node)
        selector = NodeSelector(tuple(replace(t, fields=(here,), names=frozenset((node,))) for t in terms))
        spec = replace(pod.spec, node_affinity=replace(pod.spec.node_affinity, required=selector))
        return replace(pod, name=pod.name + node, spec=spec)


class NumberedPods(Sequence[Pod]):
    """The pods `stem-0`, `stem-1`… of a workload, less those that are there; each made when it is looked at.

    `finish`: what makes a pod of its name differ from `like`; None where nothing does, so that all are alike.
    """

    def __init__(
        self, like: Pod, numbers: FreeNumbers, indexes: range, finish: Callable[[Pod], Pod] | None = None
    ) -> None:
        self.like, self.numbers, self._indexes, self._finish = like, numbers, indexes, finish

    @property
    def alike(self) -> bool:
        """Whether they differ in their names alone."""
        return self._finish is None

    def __len__(self) -> int:
        return len(self._indexes)

    @overload
    def __getitem__(self, index: int, /) -> Pod: ...

    @overload
    def __getitem__(self, index: slice, /) -> NumberedPods: ...

    def __getitem__(self, index: int | slice, /) -> Pod | NumberedPods:
        if isinstance(index, slice):
            return NumberedPods(self.like, self.numbers, self._indexes[index], self._finish)
        pod = replace(self.like, name=self.numbers.name(self._indexes[index]))
        return pod if self._finish is None else self._finish(pod)


class Same(Sequence[Pod]):
    """One pod, so many times."""

    def __init__(self, pod: Pod, count: int) -> None:
        self._pod, self._places = pod, range(min(count, 2**31))

    def __len__(self) -> int:
        return len(self._places)

    @overload
    def __getitem__(self, index: int, /) -> Pod: ...

    @overload
    def __getitem__(self, index: slice, /) -> Same: ...

    def __getitem__(self, index: int | slice, /) -> Pod | Same:
        if isinstance(index, slice):
            return Same(self._pod, len(self._places[index]))
        self._places[index]  # raises IndexError
        return self._pod


class FreeNumbers:
    """The names `stem-first`, `stem-first+1`… that nobody has yet."""

    def __init__(self, stem: str, first: int, present: Iterable[str]) -> None:
        self._stem, self._first = stem, first
        taken = sorted(number for name in present if (number := _number_in(name, stem)) is not None and number >= first)
        self._before = [number - place for place, number in enumerate(taken)]

    def name(self, index: int) -> str:
        """The name of this place, counted from 0."""
        least = self._first + index
        return f"{self._stem}-{least + bisect_right(self._before, least)}"


def _number_in(name: str, stem: str) -> int | None:
    """The number that a pod of a workload has in its name; None where it has none, or another form of it."""
    text = name[len(stem) + 1 :]
    if not name.startswith(f"{stem}-") or not (text.isascii() and text.isdigit()) or len(text) > _DIGITS:
        return None
    return int(text) if text == "0" or text[0] != "0" else None


_DIGITS: Final = 12


def new_pods(
    cluster: ClusterSnapshot,
    obj: ApiObject,
    template: ApiObject,
    replicas: int | None = None,
    own: Sequence[Pod] | None = None,
) -> NewPods:
    """The pods that are missing, in the order they would come; `replicas` stands in for the object's own number.

    `own`: those that it has, if they are known (`pods_of`).
    Raises InvalidObject: a template that cannot be read, a class that does not exist.
    """
    if group_kind(obj) == "apps/DaemonSet":
        return _new_daemons(cluster, obj, template)
    wanted = replicas_of(obj) if replicas is None else replicas
    present = {pod.name for pod in (pods_of(cluster, obj) if own is None else own)}
    missing = max(wanted - len(present), 0)
    first = int32(obj, "spec", "ordinals", "start") or 0  # of a StatefulSet
    if not missing:
        return NewPods(wanted, ())
    numbers = FreeNumbers(ref_of(obj).name, first, present)
    one = _pod(cluster, obj, template, numbers.name(0), _owner(cluster, obj, template))
    return _with_claims(cluster, obj, wanted, NumberedPods(one, numbers, range(missing)))


def _new_daemons(cluster: ClusterSnapshot, obj: ApiObject, template: ApiObject) -> NewPods:
    """One for every node that shall run one and does not."""
    if not cluster.objects.nodes:
        return NewPods(0, ())
    pod = daemon(cluster, obj, template)
    nodes = _daemon_nodes(cluster, obj, template, pod)
    present = {pod.node_name for pod in pods_of(cluster, obj)}
    whole = without_missing_claims(pod, cluster)
    return NewPods(len(nodes), DaemonPods(whole, [name for name in nodes if name not in present]), whole is not pod)


def pods_of(cluster: ClusterSnapshot, obj: ApiObject) -> list[Pod]:
    """The pods that a workload has already: by owner, else by selector, of those whose owner is not known."""
    ref = ref_of(obj, "default")
    here = cluster.within(ref.namespace)
    owners = {(ref.kind, ref.name), *((w.ref.kind, w.ref.name) for w in _owned(cluster, obj))}
    charge(len(here.pods) + len(here.workloads))
    found = [p for p in here.pods.values() if p.owner is not None and (p.owner.kind, p.owner.name) in owners]
    found = [p for p in found if _is_there(p)]
    selector = _selector(obj)
    if found or selector.empty:
        return found
    known = {(w.ref.kind, w.ref.name) for w in here.workloads.values()}
    selected = _Selected(selector)
    return [
        p
        for p in here.pods.values()
        if selected[p.labels] and _is_there(p) and (p.owner is None or (p.owner.kind, p.owner.name) not in known)
    ]


def _is_there(pod: Pod) -> bool:
    return not pod.terminal and not pod.terminating


class _Selected:
    """Whether a selector matches labels; asked once of labels that many pods share (`shared_labels`)."""

    def __init__(self, selector: LabelSelector) -> None:
        self._selector = selector
        self._known: dict[int, bool] = {}

    def __getitem__(self, labels: Mapping[str, str]) -> bool:
        known = self._known.get(id(labels))
        if known is None:
            known = self._known[id(labels)] = self._selector.matches(labels)
        return known


def without_missing_claims(pod: Pod, cluster: ClusterSnapshot) -> Pod:
    """The pod less its volumes whose claims are not there yet, but will be: ephemeral ones, and what comes along."""

    def is_coming(volume: Volume) -> bool:
        claim = (pod.namespace, volume.claim_of(pod.name) or "")
        return (volume.ephemeral or claim in cluster.coming_claims) and claim not in cluster.objects.claims

    volumes = tuple(v for v in pod.spec.volumes if not is_coming(v))
    return pod if volumes == pod.spec.volumes else replace(pod, spec=replace(pod.spec, volumes=volumes))


def _with_claims(cluster: ClusterSnapshot, obj: ApiObject, wanted: int, pods: NumberedPods) -> NewPods:
    """The pods with the claims of a StatefulSet that exist, and without those that do not.

    A claim takes the place of the template's volume of its name. Source: pkg/controller/statefulset, `updateStorage`.
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
        whole = without_missing_claims(pod, cluster)
        volumes_of_it = whole.spec.volumes + claims_of(pod)
        if volumes_of_it != latest.volumes:  # pods whose volumes are the same have one spec
            latest = replace(bare.spec, volumes=volumes_of_it)
        return pod if latest is pod.spec else replace(pod, spec=latest)

    every = {*templates}

    def lacks(pod: Pod) -> bool:
        return len(claims_of(pod)) < len(every) or without_missing_claims(pod, cluster) is not pod

    made = NumberedPods(bare, pods.numbers, range(len(pods)))
    missing = any(map(lacks, made[:MOST_IN_TURN]))
    return NewPods(wanted, NumberedPods(bare, pods.numbers, range(len(pods)), finish), missing)


def _owned(cluster: ClusterSnapshot, obj: ApiObject) -> list[Workload]:
    """The workloads that this one controls: a Deployment's ReplicaSets, a CronJob's Jobs."""
    ref = ref_of(obj, "default")
    return [w for w in cluster.within(ref.namespace).workloads.values() if w.controller == (ref.kind, ref.name)]


def has_replica_set(cluster: ClusterSnapshot, obj: ApiObject, template: ApiObject) -> bool:
    """Whether a Deployment has made a ReplicaSet of this template."""
    return _owner(cluster, obj, template) is not obj


def _owner(cluster: ClusterSnapshot, obj: ApiObject, template: ApiObject) -> ApiObject:
    """What controls the new pods: the object itself, or a Deployment's ReplicaSet of this template, where it is there.

    Source: deployment util `FindNewReplicaSet`.
    """
    if group_kind(obj) != "apps/Deployment":
        return obj
    sets = [w.object for w in _owned(cluster, obj) if w.ref.kind == "ReplicaSet"]
    revisions = [(str(at(s, "metadata", "annotations", REVISION) or ""), s) for s in sets]
    _, newest = max(revisions, key=lambda pair: (len(pair[0]), pair[0]), default=("", obj))
    return newest if newest is not obj and holds(at(newest, "spec", "template"), template) else obj


def replicas_of(obj: ApiObject) -> int:
    """How many pods run at a time; one where the object does not say, none of what is suspended or a mere template."""
    kind = group_kind(obj)
    job = {"batch/Job": ("spec",), "batch/CronJob": ("spec", "jobTemplate", "spec")}.get(kind)
    if kind == "/PodTemplate" or (job and _is_suspended(obj, job)):
        return 0
    if job is None:
        number = int32(obj, "spec", "replicas")
    else:
        numbers = [n for n in (int32(obj, *job, "parallelism"), int32(obj, *job, "completions")) if n is not None]
        number = min(numbers) if int32(obj, *job, "parallelism") is not None else None
    return 1 if number is None else max(number, 0)


def _is_suspended(obj: ApiObject, job: tuple[str, ...]) -> bool:
    return boolean(obj, *job, "suspend") or boolean(obj, "spec", "suspend")


def _selector(obj: ApiObject) -> LabelSelector:
    if group_kind(obj) == "/ReplicationController":
        labels = string_map(obj, "spec", "selector")
        return LabelSelector(tuple(Requirement(key, "In", frozenset([value])) for key, value in labels.items()))
    try:
        return parse_label_selector(at(obj, "spec", "selector")) or LabelSelector()
    except InvalidSelector as error:
        raise InvalidObject(str(error), ("spec", "selector"), ref_of(obj)) from None


def _pod(cluster: ClusterSnapshot, obj: ApiObject, template: ApiObject, name: str, owner: ApiObject) -> Pod:
    """One pod, as its controller would make it and admission would leave it."""
    ref, controller = ref_of(obj, "default"), ref_of(owner)
    reference = {"apiVersion": controller.api_version, "kind": controller.kind, "name": controller.name}
    with _in_template(obj):
        labels = dict(string_map(template, "metadata", "labels"))
        if group_kind(obj) == "apps/Deployment":
            known = at(owner, "metadata", "labels", TEMPLATE_HASH) if owner is not obj else None
            labels[TEMPLATE_HASH] = str(known or NO_HASH)
        tolerations = [*sequence(template, "spec", "tolerations"), *_NOT_READY]
        made = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "namespace": ref.namespace,
                "name": name,
                "labels": labels,
                "ownerReferences": [{**reference, "controller": True}],
            },
            "spec": {**mapping(template, "spec"), "tolerations": tolerations},
        }
        return admitted(made, cluster)


@contextmanager
def _in_template(obj: ApiObject) -> Iterator[None]:
    """Errors in a template name the object that holds it, and the place in there: in the template, of a custom kind."""
    try:
        yield
    except InvalidObject as error:
        path = (*POD_TEMPLATE_PATHS.get(group_kind(obj), ()), *error.path)
        raise InvalidObject(error.problem, path, ref_of(obj, "default")) from None


def count_daemons(cluster: ClusterSnapshot, obj: ApiObject, template: ApiObject) -> int:
    """How many nodes shall run one."""
    return len(_daemon_nodes(cluster, obj, template, daemon(cluster, obj, template))) if cluster.objects.nodes else 0


def _daemon_nodes(cluster: ClusterSnapshot, obj: ApiObject, template: ApiObject, pod: Pod) -> list[str]:
    """The nodes that shall run one, by name. Source: pkg/controller/daemon, `NodeShouldRunDaemonPod`."""
    with _in_template(obj):
        affinity = NodeAffinity.from_api({"spec": mapping(template, "spec")})
        named = text(template, "spec", "nodeName")
    return sorted(
        name
        for (_, name), node in each(tuple(cluster.objects.nodes.items()), 2)
        if named in ("", name)
        and affinity.matches(node.labels, name)
        and untolerated_taint(node.taints, pod.spec.tolerations) is None
    )


def daemon(cluster: ClusterSnapshot, obj: ApiObject, template: ApiObject) -> Pod:
    """The pod of a DaemonSet, for any node."""
    added = [{"key": key, "operator": "Exists", "effect": effect} for key, effect in DAEMON_TOLERATIONS]
    if at(template, "spec", "hostNetwork") is True:
        added.append({"key": NETWORK_UNAVAILABLE, "operator": "Exists", "effect": "NoSchedule"})
    with _in_template(obj):
        spec = {**mapping(template, "spec"), "tolerations": [*sequence(template, "spec", "tolerations"), *added]}
        affinity = mapping(template, "spec", "affinity")
        terms = [dict(term) for term in items(template, "spec", "affinity", "nodeAffinity", _REQUIRED, _TERMS)] or [{}]
    anywhere = {**template, "spec": {**spec, "affinity": _anywhere(affinity, terms)}}
    return _pod(cluster, obj, anywhere, f"{ref_of(obj).name}-", obj)


def _anywhere(affinity: ApiObject, terms: list[dict[str, Any]]) -> ApiObject:
    """The affinity with room for the node's name in every term."""
    named = [{"key": "metadata.name", "operator": "NotIn", "values": [""]}]
    required = {_TERMS: [{**term, "matchFields": named} for term in terms]}
    return {**affinity, "nodeAffinity": {**mapping(affinity, "nodeAffinity"), _REQUIRED: required}}
