"""Create what-if questions as arrivals (timed changes) of a simulation.

Nodes are lost, drained or added, and objects are created, changed or deleted.
"""

from __future__ import annotations

from collections import Counter
from fnmatch import fnmatchcase
from itertools import cycle, islice
from operator import itemgetter
from typing import TYPE_CHECKING, Final, NamedTuple

from forewarn.policies.base.findings import cut, grouped, listed, plural, quote
from forewarn.policies.kubernetes.controllers.changes import replaces_no_pods
from forewarn.policies.kubernetes.controllers.deployment import is_paused
from forewarn.policies.kubernetes.controllers.disruption import SCALED
from forewarn.policies.kubernetes.controllers.view import workload_key
from forewarn.policies.kubernetes.kinds import registry
from forewarn.policies.kubernetes.objects.fields import (
    InvalidInput,
    InvalidObject,
    at,
    group_kind,
    ref_of,
    string_map,
    text_at,
)
from forewarn.policies.kubernetes.objects.node import ZONE, Node
from forewarn.policies.kubernetes.objects.workload import applied_to
from forewarn.policies.linting.rules.support.names import nearest, suggested
from forewarn.policies.linting.rules.support.predictions import restarted
from forewarn.policies.linting.rules.support.rule_text import integer
from forewarn.policies.prediction.autoscaling.cluster_autoscaler.node_group import NodeGroup, Price
from forewarn.policies.prediction.simulation.scenario import MAX_REPLICAS, Arrival, node_object
from forewarn.policies.questions.whatif.node_groups import free_names, new_node_like

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator, Mapping, Sequence

    from forewarn.policies.base.documents import Hidden
    from forewarn.policies.base.documents.answer import AnswerStatus
    from forewarn.policies.kubernetes.cluster.cache import ClusterSnapshot
    from forewarn.policies.kubernetes.controllers.view import Key
    from forewarn.policies.kubernetes.objects.fields import ApiObject
    from forewarn.policies.questions.whatif.class_change import ClassChange
    from forewarn.policies.questions.whatif.upgrade import UpgradeRun

    _Scaler = tuple[tuple[str, str], ApiObject]

_CLASSED: Final = (*registry.ROLLED_OUT, registry.REPLICA_SET, registry.REPLICATION_CONTROLLER, registry.CRON_JOB)
"""The kinds whose template can name another PriorityClass. The template of a Job is immutable."""
_SHORT: Final = {
    "/Pod": "po",
    "/ReplicationController": "rc",
    "apps/DaemonSet": "ds",
    "apps/Deployment": "deploy",
    "apps/ReplicaSet": "rs",
    "apps/StatefulSet": "sts",
    "batch/CronJob": "cj",
}
"""The short names of kubectl."""
_INSTEAD: Final = {
    "job": "pass its manifest to forewarn whatif apply -f, whatif delete -f or headroom -f",
    "pod": "name the workload of the Pod, or pass its manifest to forewarn whatif delete -f",
}
"""Kinds that cannot be scaled or restarted -> what to do instead."""


class KeptNode(NamedTuple):
    """A node that cannot be removed together with the chosen ones.

    `why`: what its drain would cost. `cause`: the first counter that rises; "" if a limit of the simulation is reached.
    `pdbs`: those that block the drain.
    """

    node: str
    why: str
    cause: str
    pdbs: Hidden[Sequence[str]] = ()


class Removal(NamedTuple):
    """Which nodes can go: no Pod is preempted, Pending or lost if all are drained. `wanted`: their number.

    `kept`: nodes that were tried and cannot go as well, the first one stops the next. `untried`: all others, if fewer
    nodes can go than wanted. `saved`: the price of the nodes per month; absent without prices.
    """

    wanted: int
    nodes: Sequence[str]
    kept: Sequence[KeptNode]
    untried: Sequence[KeptNode] = ()
    notes: Hidden[Sequence[str]] = ()
    """What the search does not cover."""
    weaker: Hidden[str] = ""
    """The counters of losses of zones that are higher after the removal."""
    saved: Price | None = None

    @property
    def missing(self) -> int:
        """How many of the wanted nodes cannot go."""
        return self.wanted - len(self.nodes)


class Queueing(NamedTuple):
    """What Kueue does with the Jobs of a question. `status`: the best possible status of the answer. `clause`: the
    start of the answer's consequence. `assumes`: the assumptions.
    """

    status: AnswerStatus
    clause: str
    assumes: str


class Question(NamedTuple):
    """A what-if question: the changes to simulate.

    `arrivals`: timed changes. `upgrade`: an upgrade of nodes; None for other questions. `added`: the names of new
    nodes. `restarts`: true if a workload is restarted. `lost`: the labels of the zone or pool that is lost.
    `class_change`: the effect of a changed PriorityClass. `replicas`: before and at their maximum. `removal`: which
    nodes can go. `queueing`: None without Jobs that Kueue manages. `every_job`: CronJobs create all their Jobs, and not
    only the first. `notes`: what is not simulated.
    """

    title: str
    arrivals: Sequence[Arrival] = ()
    upgrade: UpgradeRun | None = None
    added: Sequence[str] = ()
    restarts: bool = False
    lost: Sequence[tuple[str, str]] = ()
    class_change: ClassChange | None = None
    replicas: tuple[int, int] | None = None
    removal: Removal | None = None
    queueing: Queueing | None = None
    every_job: bool = False
    notes: Sequence[str] = ()

    def with_objects(self, objects: Sequence[ApiObject]) -> Question:
        """Return the question with these objects in place of those that it applies or scales."""
        if not objects:
            return self
        new = {workload_key(obj): obj for obj in objects}
        pairs = ((each, new.get(workload_key(each.object), each.object)) for each in self.arrivals)
        return self._replace(arrivals=[each._replace(object=obj) for each, obj in pairs])


def nodes_lost(cluster: ClusterSnapshot, names: Sequence[str]) -> Question:
    """Return the question of losing these nodes at the same time. Raises InvalidInput for an unknown name."""
    nodes = [node_named(cluster, name) for name in dict.fromkeys(names)]
    return Question(f"{_nodes_text(nodes, cluster)} lost", [_node_arrival("lost", node.name) for node in nodes])


def zone_lost(cluster: ClusterSnapshot, zone: str) -> Question:
    """Return the question of losing all nodes in a zone. Raises InvalidInput if no node is in the zone."""
    return _all_lost(cluster, f"zone {zone}", ((ZONE, zone),))


def _all_lost(cluster: ClusterSnapshot, what: str, labels: Sequence[tuple[str, str]]) -> Question:
    nodes = _selected(cluster, labels, what)
    question = question_of_loss(Loss(what, [node.name for node in nodes], labels))
    return question._replace(title=f"{what} lost ({_count_text(nodes, cluster)})")


def each_lost(cluster: ClusterSnapshot, scope: str) -> list[Question]:
    """Return one question for the loss of each `node` or `zone`, by name, with short titles. Nodes without a zone label
    are in no zone.
    """
    return [question_of_loss(loss) for loss in each_loss(cluster, scope, "", cluster.objects.nodes.values())]


def largest_losses(cluster: ClusterSnapshot, losses: Sequence[Question], limit: int) -> list[Question]:
    """Return the losses of most Pods, until they are more than `limit` Pods together; at least one."""
    on = Counter(pod.node_name for pod in cluster.pods.values() if pod.node_name and not pod.terminal)
    pods = {loss.title: sum(on[each.object["metadata"]["name"]] for each in loss.arrivals) for loss in losses}
    found, total = list[Question](), 0
    for loss in sorted(losses, key=lambda each: (-pods[each.title], each.title)):
        total += pods[loss.title]
        if total <= limit or not found:
            found.append(loss)
    return found


def simulated_losses(losses: Sequence[Question], every: Sequence[Question], kind: str) -> Iterator[str]:
    """Yield how many of all losses are simulated, unless all are."""
    if len(losses) < len(every):
        which = "that" if len(losses) == 1 else "those"
        yield f"losses simulated: {len(losses):,} of {plural(len(every), kind)}, {which} with most Pods"


def pool_lost(cluster: ClusterSnapshot, selector: str) -> Question:
    """Return the question of losing all nodes with these labels.

    `selector`: `key=value,key=value`. Raises InvalidInput.
    """
    return _all_lost(cluster, _pool_text(selector), _labels(selector, cluster))


class Loss(NamedTuple):
    """Nodes that are lost at the same time. `title`: such as `zone a`. `labels`: of the zone or pool."""

    title: str
    nodes: Sequence[str]
    labels: Sequence[tuple[str, str]] = ()


def each_loss(cluster: ClusterSnapshot, scope: str, selector: str, nodes: Iterable[Node]) -> list[Loss]:
    """Return the losses of each `zone` or `node`, or of the `pool` with the labels `selector`, among these nodes.

    `cluster`: the cluster before nodes were added. Raises InvalidInput, also for unknown labels.
    """
    ordered = sorted(nodes, key=lambda node: node.name)
    if scope == "pool":
        _selected(cluster, labels := _labels(selector, cluster), _pool_text(selector))
        lost = [node.name for node in ordered if all(node.labels.get(key) == value for key, value in labels)]
        return [Loss(_pool_text(selector), lost, labels)]
    if scope == "zone":
        zones = grouped((node.labels[ZONE], node.name) for node in ordered if ZONE in node.labels)
        return [Loss(f"zone {zone}", zones[zone], ((ZONE, zone),)) for zone in sorted(zones)]
    return [Loss(f"node {node.name}", [node.name]) for node in ordered]


def question_of_loss(loss: Loss, added: Iterable[Node] = (), delay: float = 0.0) -> Question:
    """Return the question of adding nodes, and of a loss `delay` seconds later; without added nodes, of an immediate
    loss.
    """
    creations = [_node_arrival("create", node.name, node) for node in added]
    at = delay if creations else 0.0
    losses = (_node_arrival("lost", name)._replace(at=at) for name in loss.nodes)
    return Question(loss.title, [*creations, *losses], lost=loss.labels)


def drained(cluster: ClusterSnapshot, names: Sequence[str]) -> Question:
    """Return the question of draining these nodes at the same time. Raises InvalidInput for an unknown name.

    Like `kubectl drain`, this cordons all nodes before the first eviction.
    """
    nodes = [node_named(cluster, name) for name in dict.fromkeys(names)]
    operations = ("cordon", "drain") if nodes[1:] else ("drain",)
    arrivals = [_node_arrival(operation, node.name) for operation in operations for node in nodes]
    return Question(f"drain of {_nodes_text(nodes, cluster)}", arrivals)


def nodes_of_pool(cluster: ClusterSnapshot, selector: str) -> list[Node]:
    """Return the nodes with these labels, by name, or all for "". Raises InvalidInput."""
    return _selected(cluster, _labels(selector, cluster) if selector else (), _pool_text(selector))


def added(cluster: ClusterSnapshot, scope: str, name: str, count: int, groups: Sequence[NodeGroup] = ()) -> Question:
    """Return the question of adding `count` nodes.

    `scope`: "node" for nodes like the node `name`; "pool" for nodes like those with the labels `name`, or like the node
    group of this name. Raises InvalidInput.
    """
    group = _group_named(groups, scope, name)
    free = islice(free_names("new", {node.name for node in cluster.objects.nodes.values()}), count)
    if group is not None:
        nodes = [group.real_node(name) for name in free]
    else:
        models = _models(cluster, scope, name)
        nodes = [new_node_like(model, name) for model, name in zip(cycle(models), free, strict=False)]
    names = [node.name for node in nodes]
    what = f"node {name}" if scope == "node" else f"group {name}" if group else _pool_text(name)
    arrivals = [_node_arrival("create", node.name, node) for node in nodes]
    return Question(f"{plural(count, 'node')} like {what} added", arrivals, added=names)


def group_like(cluster: ClusterSnapshot, scope: str, name: str, groups: Sequence[NodeGroup]) -> NodeGroup:
    """Return the node group of the nodes of `added`, of a pool like its first node. Raises InvalidInput."""
    if (group := _group_named(groups, scope, name)) is not None:
        return group
    model = _models(cluster, scope, name)[0]
    info = cluster.scheduling.get(model.name)
    return NodeGroup(
        name, 0, None, new_node_like(model, f"template-node-for-{name}"), {}, {}, info.pods if info else ()
    )


def _group_named(groups: Sequence[NodeGroup], scope: str, name: str) -> NodeGroup | None:
    return next((group for group in groups if scope == "pool" and group.name == name), None)


def _models(cluster: ClusterSnapshot, scope: str, name: str) -> list[Node]:
    if scope == "node":
        return [node_named(cluster, name)]
    return _selected(cluster, _labels(name, cluster), _pool_text(name))


def _pool_text(selector: str) -> str:
    """The nodes with these labels as a phrase, with the word "pool" once."""
    return selector if "pool" in selector.partition("=")[0] else f"pool {selector}"


def scaled(
    cluster: ClusterSnapshot,
    workload: str,
    replicas: int,
    namespace: str,
    autoscalers: Mapping[tuple[str, str], ApiObject] | None = None,
) -> Question:
    """Return the question of scaling a workload, given as `KIND/NAME`, to `replicas`. Raises InvalidInput.

    `autoscalers`: HorizontalPodAutoscalers; the one of the workload keeps the number within its limits.
    """
    if replicas > MAX_REPLICAS:
        raise InvalidInput(f"scale to {replicas:,} replicas; the limit is {MAX_REPLICAS:,}")
    if kind_named(workload.rpartition("/")[0].rpartition("/")[2]) == registry.DAEMON_SET:
        fix = "change its nodeSelector, and pass its manifest to forewarn whatif apply -f"
        raise InvalidInput(f"{quote(cut(workload, 80))}: a DaemonSet has no replicas", fix=fix)
    target = _named(cluster, workload, namespace, SCALED)
    again = _rescaled(target, replicas, _scalers_by_target(autoscalers or {}).get(target, ()), 0.0)
    present = _replicas(cluster.workloads[target].object) if target in cluster.workloads else None
    verb = "already has" if present == replicas else "scaled to"
    title = f"{_text_of(target)} {verb} {plural(replicas, 'replica')}"
    arrivals = [_scaling(target, replicas), *(each.arrival for each in again if each.arrival)]
    return Question(title, arrivals, notes=[each.note for each in again])


def _scalers_by_target(autoscalers: Mapping[tuple[str, str], ApiObject]) -> dict[Key, list[_Scaler]]:
    return grouped((target_of(item[0][0], item[1]), item) for item in sorted(autoscalers.items(), key=itemgetter(0)))


class Rescaling(NamedTuple):
    """What a HorizontalPodAutoscaler does with the replicas of its workload. `arrival`: replicas that its limits force,
    whatever the metrics are.
    """

    note: str
    arrival: Arrival | None = None


_HPA_SYNC: Final = 15.0
"""Seconds between two syncs: the default of kube-controller-manager's `--horizontal-pod-autoscaler-sync-period`."""


def _rescaled(target: Key, replicas: int, scalers: Sequence[_Scaler], seconds: float) -> list[Rescaling]:
    """Return what the HorizontalPodAutoscaler of a workload does with `replicas` from a time on; [] without one.

    Source: upstream pkg/controller/podautoscaler/horizontal.go, `reconcileAutoscaler`.
    """
    if not scalers or not replicas:
        return []
    key, obj = scalers[0]
    (least, most), scaler = _limits_of(obj), "/".join(key)
    kept = min(max(replicas, least), most) if 0 <= least <= most and most else None
    if kept and kept != replicas and len(scalers) == 1:  # two autoscalers for one workload do nothing
        scaling = _scaling(target, kept)._replace(at=seconds + _HPA_SYNC, sooner=_HPA_SYNC)
        return [Rescaling(f"HPA {scaler} sets replicas to {kept} within {_HPA_SYNC:.0f} s", scaling)]
    limits = f"allows {least} to {plural(most, 'replica')}" if kept else "has invalid maxReplicas"
    return [Rescaling(f"HPA {scaler} {limits}; its changes are not simulated")]


def applied(
    title: str,
    arrivals: Sequence[Arrival],
    cluster: ClusterSnapshot,
    autoscalers: Mapping[tuple[str, str], ApiObject],
    added: Sequence[ApiObject] = (),
) -> Question:
    """Return the question of changes by users. `autoscalers`: as in `scaled`. `added`: HorizontalPodAutoscalers that
    are also applied. The title says so if all objects are workloads that the apply does not change.
    """
    again = [*rescaled(arrivals, cluster, autoscalers, added)]
    notes = [*dict.fromkeys(each.note for each in again)]
    left = len(notes) - _MAX_NOTES
    others = [f"{plural(left, 'more such change')} by HorizontalPodAutoscalers"] if left > 0 else []
    is_same = arrivals and all(each.op in _APPLIES and _is_stored(each.object, cluster) for each in arrivals)
    later = [each.arrival for each in again if each.arrival]
    return Question(
        f"{title}{' (unchanged)' if is_same else ''}", [*arrivals, *later], notes=[*notes[:_MAX_NOTES], *others]
    )


_MAX_NOTES: Final = 10
_APPLIES: Final = ("create", "update")


def rescaled(
    arrivals: Iterable[Arrival],
    cluster: ClusterSnapshot,
    autoscalers: Mapping[tuple[str, str], ApiObject],
    added: Sequence[ApiObject],
) -> Iterator[Rescaling]:
    """Yield how HorizontalPodAutoscalers change the replicas that `arrivals` set, and how `added` ones change the
    replicas of other workloads.
    """
    new = {ref_of(obj, registry.DEFAULT_NAMESPACE)[2:]: obj for obj in added}
    scalers, others = _scalers_by_target({**autoscalers, **new}), _scalers_by_target(new)
    for seconds, operation, obj, *_ in arrivals if scalers else ():
        target = group_kind(obj), *ref_of(obj, registry.DEFAULT_NAMESPACE)[2:]
        stored, replicas = cluster.workloads.get(target), obj.get("replicas", _replicas(obj))
        is_changed = stored is None or _replicas(stored.object) != replicas or target in others
        if operation == "scale" or (operation in _APPLIES and is_changed):
            yield from _rescaled(target, replicas, scalers.get(target, ()), seconds)
        others.pop(target, None)
    for target in sorted(others.keys() & cluster.workloads.keys()):
        yield from _rescaled(target, _replicas(cluster.workloads[target].object), scalers[target], 0.0)


def _is_stored(obj: ApiObject, cluster: ClusterSnapshot) -> bool:
    """Report whether an object is a workload that an apply does not change, ignoring the status."""
    stored = cluster.workload(group_kind(obj), *ref_of(obj, registry.DEFAULT_NAMESPACE)[2:])
    given = {name: value for name, value in obj.items() if name != "status"}
    return stored is not None and applied_to(stored.object, given) == stored.object


def _limits_of(autoscaler: ApiObject) -> tuple[int, int]:
    """Return minReplicas and maxReplicas; kube-apiserver rejects an object without maxReplicas."""
    least = integer(at(autoscaler, *_LEAST))
    return 1 if least is None else least, integer(at(autoscaler, *_MOST)) or 0


def _scaling(target: Key, replicas: int) -> Arrival:
    (group, _, kind), metadata = target[0].partition("/"), {"namespace": target[1], "name": target[2]}
    version = f"{group}/v1" if group else "v1"
    return Arrival(0.0, "scale", {"apiVersion": version, "kind": kind, "metadata": metadata, "replicas": replicas})


def _text_of(workload: Key) -> str:
    return f"{workload[0].rpartition('/')[2]} {workload[1]}/{workload[2]}"


def max_replicas_question(cluster: ClusterSnapshot, autoscalers: Mapping[tuple[str, str], ApiObject]) -> Question:
    """Return the question of scaling the workload of each HorizontalPodAutoscaler to its maxReplicas.

    Simulates at most MAX_REPLICAS replicas, those of the smallest workloads first.
    """
    targets = {key: target_of(key[0], obj) for key, obj in autoscalers.items()}
    number = Counter(targets.values())
    ignored: dict[str, list[str]] = {}
    arrivals, before, after = list[Arrival](), 0, 0
    for key, obj in sorted(autoscalers.items(), key=lambda item: (integer(at(item[1], *_MOST)) or 0, item[0])):
        target, most = targets[key], integer(at(obj, *_MOST)) or 0
        if why := _why_not_scaled(cluster, obj, target, number[target], MAX_REPLICAS - after):
            ignored.setdefault(why, []).append("/".join(key))
            continue
        before, after = before + _replicas(cluster.workloads[target].object), after + most
        arrivals.append(_scaling(target, most)._replace(autoscaler=obj))
    of = f"{len(arrivals)} of " if ignored else ""
    replicas = f" ({before:,} → {after:,} replicas)" if arrivals else ""
    title = f"{of}{plural(len(autoscalers), 'HorizontalPodAutoscaler')} at maxReplicas{replicas}"
    notes = [
        f"{plural(len(names), 'HorizontalPodAutoscaler')} not simulated: {why}: {listed(sorted(names))}"
        for why, names in sorted(ignored.items())
    ]
    return Question(title, arrivals, replicas=(before, after), notes=notes)


_LEAST: Final = ("spec", "minReplicas")
_MOST: Final = ("spec", "maxReplicas")


def target_of(namespace: str, autoscaler: ApiObject) -> Key:
    """Return the (`group/Kind`, namespace, name) that a HorizontalPodAutoscaler scales."""
    version, kind, name = (text_at(autoscaler, "spec", "scaleTargetRef", key) for key in ("apiVersion", "kind", "name"))
    return f"{version.rpartition('/')[0]}/{kind}", namespace, name


def commands_at_maximum(cluster: ClusterSnapshot, autoscalers: Iterable[ApiObject]) -> Iterator[str]:
    """Yield the commands that simulate the workloads of the cluster at the maxReplicas of these
    HorizontalPodAutoscalers.
    """
    for obj in autoscalers:
        group_and_kind, namespace, name = target = target_of(ref_of(obj, registry.DEFAULT_NAMESPACE).namespace, obj)
        if target in cluster.workloads:
            workload = f"{group_and_kind.rpartition('/')[2].lower()}/{name}"
            yield f"run forewarn whatif scale {workload} {_limits_of(obj)[1]} -n {namespace}"


def _replicas(workload: ApiObject) -> int:
    replicas = integer(at(workload, "spec", "replicas"))
    return 1 if replicas is None else replicas


def _why_not_scaled(cluster: ClusterSnapshot, autoscaler: ApiObject, target: Key, number: int, remaining: int) -> str:
    """Return why a HorizontalPodAutoscaler scales nothing, or ""."""
    most = integer(at(autoscaler, *_MOST)) or 0
    if target[0] not in SCALED:
        return "scales another kind than Deployment, ReplicaSet, StatefulSet and ReplicationController"
    if target not in cluster.workloads:
        return "its workload is not in the cluster"
    if number > 1:
        return "another one scales the same workload"
    if not _replicas(cluster.workloads[target].object) and integer(at(autoscaler, *_LEAST)) != 0:
        return "a workload with 0 replicas disables it"
    return "" if 1 <= most <= remaining else f"more than {MAX_REPLICAS:,} replicas, or an invalid maxReplicas"


def restart(cluster: ClusterSnapshot, workload: str, namespace: str) -> Question:
    """Return the question of replacing all Pods of `KIND/NAME`, as by `kubectl rollout restart`.

    Raises InvalidInput.
    """
    key = _named(cluster, workload, namespace, registry.ROLLED_OUT)
    obj = cluster.workloads[key].object
    strategy = "OnDelete" if text_at(obj, "spec", "updateStrategy", "type") == "OnDelete" else "partition"
    why = f"updateStrategy: {strategy}" if replaces_no_pods(obj) else ""
    why = "paused; kubectl rollout restart fails" if is_paused(obj) else why
    none = f", which replaces no Pod ({why})" if why else ""
    arrivals = [Arrival(0.0, "update", restarted(obj).object)]
    return Question(f"{_text_of(key)} restarted{none}", arrivals, restarts=True)


def workloads_of(cluster: ClusterSnapshot, which: Iterable[str], namespace: str) -> list[ApiObject]:
    """Return the workloads that these arguments select, without those that another workload controls.

    An argument is `KIND/NAME`, or `KEY=VALUE[,KEY=VALUE]` of labels and of `namespace`, which may be a shell pattern
    (default: `namespace`). Raises InvalidInput for arguments that select nothing.
    """
    selected: dict[Key, ApiObject] = {}
    for argument in which:
        by_name = "=" not in argument
        if by_name and "," in argument:
            raise InvalidInput(f"{quote(cut(argument, 80))}: several workloads", fix="repeat --workloads for each")
        keys = [_named(cluster, argument, namespace, _CLASSED)] if by_name else _labelled(cluster, argument, namespace)
        selected |= {key: cluster.workloads[key].object for key in keys}
    return [obj for _, obj in sorted(selected.items())]


def _labelled(cluster: ClusterSnapshot, selector: str, namespace: str) -> list[Key]:
    pattern, labels = _labels_of(cluster, selector, namespace)
    keys = _inside(cluster, _CLASSED, pattern, labels)
    if not keys:
        what = f"no workload in namespace {quote(pattern)} matches {quote(selector)}"
        hint = "" if _inside(cluster, _CLASSED, pattern, {}) else unknown_namespace(cluster, pattern)
        if _inside(cluster, {registry.JOB}, pattern, labels):
            what = f"{quote(selector)} matches only Jobs in namespace {quote(pattern)}, whose template is immutable"
            hint = ""
        raise InvalidInput(f"{what}{hint}", fix="" if hint else "pass KIND/NAME, or labels that workloads have")
    return keys


def jobs_of(cluster: ClusterSnapshot, which: Iterable[str], namespace: str, class_name: str) -> list[str]:
    """Return, as `namespace/name`, the Jobs that the label arguments select and that have another class.

    Their class cannot change, because the template of a Job is immutable.
    """
    path = ("spec", "template", "spec", "priorityClassName")
    given = (_labels_of(cluster, argument, namespace) for argument in which if "=" in argument)
    keys = {key for selected in given for key in _inside(cluster, {registry.JOB}, *selected)}
    return sorted("/".join(key[1:]) for key in keys if text_at(cluster.workloads[key].object, *path) != class_name)


def _labels_of(cluster: ClusterSnapshot, selector: str, namespace: str) -> tuple[str, Mapping[str, str]]:
    labels = dict(_labels(selector, cluster))
    return labels.pop("namespace", namespace), labels


def _inside(cluster: ClusterSnapshot, kinds: Container[str], pattern: str, labels: Mapping[str, str]) -> list[Key]:
    return [
        key
        for key, workload in cluster.workloads.items()
        if key[0] in kinds and fnmatchcase(key[1], pattern) and not any(workload.controller)
        if labels.items() <= string_map(workload.object, "metadata", "labels").items()
    ]


def _named(cluster: ClusterSnapshot, workload: str, namespace: str, kinds: Sequence[str]) -> Key:
    """Return the key of a workload given as `KIND/NAME`, `NAMESPACE/KIND/NAME`, or as in `only_workload`.

    `kinds`: names accepted for a kind -> the kind. Raises InvalidInput for other arguments and unknown workloads.
    """
    parts = workload.split("/")
    if len(parts) == 3:
        namespace, *parts = parts
    kind, name = parts if len(parts) == 2 else (workload, "")
    found = kind_named(kind, kinds)
    if not found and (key := only_workload(cluster, workload, namespace, kinds)):
        return key
    if not found or not name:
        fix, instead = _with_kind(cluster, workload, namespace, kinds), _INSTEAD.get(kind.lower(), "")
        keys = [key for key in cluster.workloads if key[0] in kinds and not instead]
        names = {f"{key[0].rpartition('/')[2].lower()}/{key[2]}" for key in keys if key[2] == name}
        why = f". Fix: {fix}" if fix else nearest(workload, {*names, *("/".join(key[-len(parts) :]) for key in keys)})
        known = ", ".join(f"{each.rpartition('/')[2].lower()} ({_SHORT[each]})" for each in kinds)
        why = why or f" of a supported kind. Fix: {instead or 'write NAMESPACE/KIND/NAME'}; known: {known}"
        raise InvalidInput(f"{quote(cut(workload, 80))}: not a workload{why}")
    key = found, namespace, name
    if key not in cluster.workloads:
        near, fix = elsewhere(cluster, *key, _with_kind(cluster, name, namespace, kinds))
        raise InvalidInput(f"{_text_of(key)} not found{near}", fix=fix)
    return key


def kind_named(text: str, kinds: Iterable[str] = (registry.POD, *registry.POD_TEMPLATE_PATHS)) -> str:
    """Return which of these kinds has a name that kubectl accepts: `deploy`, `deployments.apps`; "" if none has it."""
    name, _, group = text.lower().partition(".")
    for kind in kinds:
        spec = registry.BY_GROUP_KIND[kind]
        names = spec.plural, spec.kind.lower(), _SHORT.get(kind)
        if name in names and group in ("", spec.group, f"v1.{spec.group}"):
            return kind
    return ""


def only_workload(cluster: ClusterSnapshot, name: str, namespace: str, kinds: Container[str]) -> Key | None:
    """Return the key of the only workload called `NAME` or `NAMESPACE/NAME`; None for none or several.

    `namespace`: of `NAME`; if it is the default one and has no such workload, the workload may be in any.
    """
    *where, own = name.split("/")
    named = [key for key in cluster.workloads if key[0] in kinds and key[2] == own and len(where) < 2]
    found = [key for key in named if key[1] == "".join(where or [namespace])]
    if not found and not where and namespace == registry.DEFAULT_NAMESPACE:
        found = named
    return found[0] if len(found) == 1 else None


def _with_kind(cluster: ClusterSnapshot, name: str, namespace: str, kinds: Container[str]) -> str:
    """Return a fix for a name without a kind, such as `write shop/deployment/web`; "" for unknown names."""
    keys = [key for key in cluster.workloads if key[2] == name and key[0] in kinds]
    if not keys:
        return ""
    elsewhere, there, resource = min((key[1] != namespace, key[1], key[0].rpartition("/")[2].lower()) for key in keys)
    return f"write {f'{there}/' if elsewhere else ''}{resource}/{name}"


def elsewhere(cluster: ClusterSnapshot, kind: str, namespace: str, name: str, fix: str = "") -> tuple[str, str]:
    """Return (a message suffix with other objects that the name of a workload may refer to, the fix or ""). `kind`:
    `group/Kind`. `fix`: for workloads of other kinds.
    """
    named = sorted({key[1] for key in cluster.workloads if (key[0], key[2]) == (kind, name)})
    if named:
        return f"; found in {listed(named)}", f"pass namespace {named[0]} (-n)"
    if fix:
        return "", fix
    there = [key[2] for key in cluster.workloads if key[:2] == (kind, namespace)]
    others = sorted(f"{key[0].rpartition('/')[2].lower()}/{key[2]}" for key in cluster.workloads if key[1] == namespace)
    found = suggested(name, there) or unknown_namespace(cluster, namespace)
    none = f"; known: {listed(others)}" if others else f"; namespace {quote(namespace)} has no workloads"
    return found or none, ""


def pod_not_found(cluster: ClusterSnapshot, namespace: str, name: str) -> tuple[str, str]:
    """Return (`Pod not found in the cluster` with Pods that the name may refer to, the fix or "")."""
    keys = (key for key in cluster.workloads if key[2] == name)
    workloads = sorted((there != namespace, there, kind.rpartition("/")[2]) for kind, there, _ in keys)
    uses = [f"for the {kind}, write {there}/{kind.lower()}/{name}" for _, there, kind in workloads[:3]]
    if uses:
        return "Pod not found in the cluster", "; ".join(uses)
    named = sorted(pod.key for key, pod in cluster.pods.items() if key[1] == name)
    known = [key[1] for key in cluster.pods if key[0] == namespace]
    near = f"; known: {listed(named)}" if named else suggested(name, known) or unknown_namespace(cluster, namespace)
    if not near and (names := sorted({key[0] for key in cluster.pods})):
        return f"Pod not found in the cluster; namespaces with Pods: {listed(names)}", "write NAMESPACE/POD"
    return f"Pod not found in the cluster{near}", ""


def unknown_namespace(cluster: ClusterSnapshot, namespace: str) -> str:
    """Return the message suffix `; namespace "shpo" not found; did you mean "shop"?`; "" if the namespace exists."""
    namespaces = {"default", *(key[0] for key in cluster.pods), *(key[1] for key in cluster.workloads)}
    namespaces.update(key[1] for key in cluster.namespaces)
    namespaces.update(quota.namespace for quota in cluster.resource_quotas.values())
    if namespace in namespaces:
        return ""
    return f"; namespace {quote(namespace)} not found{suggested(namespace, namespaces)}"


_FIX_OF_ABSENT: Final = "name its namespace in the file or by -n, or remove it from the file"


def deleted(cluster: ClusterSnapshot, name: str, arrivals: Sequence[Arrival]) -> Question:
    """Return the question of deleting the objects in a file. `name`: the file's name. `arrivals`: one for each object.

    Raises InvalidInput for an object that does not exist, and InvalidObject for one that is not simulated or belongs to
    another question.
    """
    for arrival in arrivals:
        kind, ref = group_kind(arrival.object), ref_of(arrival.object, "default")
        if kind == registry.PRIORITY_CLASS:
            fix = f"use forewarn whatif class {ref.name} --delete"
            raise InvalidObject(f"{name}: PriorityClass {ref.name}: whatif delete does not delete classes", fix=fix)
        if kind in registry.APPLIED and kind not in (registry.DISRUPTION_BUDGET, registry.POD_GROUP):
            raise InvalidObject(f"{name}: deleting a {kind.rpartition('/')[2]} is not simulated")
        if not is_there(cluster, kind, ref.namespace, ref.name):
            near, fix = "", _FIX_OF_ABSENT
            if kind in registry.POD_TEMPLATE_PATHS:
                near, fix = elsewhere(cluster, kind, ref.namespace, ref.name)
            raise InvalidInput(f"not found in the cluster{near}", (), ref, fix)
    title = f"{objects_text(arrivals)} deleted"
    return Question(title, [arrival._replace(op="delete") for arrival in arrivals])


def objects_text(arrivals: Sequence[Arrival]) -> str:
    """Return the objects of arrivals as a phrase: `Deployment shop/web`, `12 objects`. One given twice counts once."""
    refs = [ref_of(arrival.object, registry.DEFAULT_NAMESPACE) for arrival in arrivals]
    names = {id(ref) if ref.name.endswith("*") else ref for ref in refs}  # generated names differ
    return str(refs[0]) if len(names) == 1 else plural(len(names), "object")


def is_there(cluster: ClusterSnapshot, kind: str, namespace: str, name: str) -> bool:
    """Return whether the cluster has an object of a kind that a simulation deletes or changes. `kind`: `group/Kind`."""
    if kind == registry.POD:
        return (namespace, name) in cluster.pods
    if kind == registry.NODE:
        return ("", name) in cluster.objects.nodes
    if kind == registry.DISRUPTION_BUDGET:
        return (namespace, name) in cluster.objects.pdbs
    return (kind, namespace, name) in cluster.workloads


def _nodes_text(nodes: Sequence[Node], cluster: ClusterSnapshot) -> str:
    """Return the nodes as a phrase: `node a`, `2 of 30 nodes`."""
    return f"node {nodes[0].name}" if len(nodes) == 1 else _count_text(nodes, cluster)


def _count_text(nodes: Sequence[Node], cluster: ClusterSnapshot) -> str:
    return f"{len(nodes):,} of {plural(len(cluster.objects.nodes), 'node')}"


_FIX_OF_ZONES: Final = "lose nodes or a pool, or label the nodes with topology.kubernetes.io/zone"


def nothing_to_lose(kind: str) -> InvalidObject:
    """The error for a cluster without nodes or zones. `kind`: `node` or `zone`."""
    return InvalidObject(f"the cluster has no {kind}s", fix=_FIX_OF_ZONES if kind == "zone" else "add nodes")


def node_named(cluster: ClusterSnapshot, name: str) -> Node:
    """Return the node of this name. Raises InvalidInput if no node has the name."""
    node = cluster.objects.nodes.get(("", name))
    if node is None:
        names = (node.name for node in cluster.objects.nodes.values())
        fix = "separate names by blanks" if "," in name else ""
        near = "" if fix else suggested(name.removeprefix("node/"), names)
        raise InvalidInput(f'node "{name}" not found in the cluster{near}', fix=fix)
    return node


def _labels(selector: str, cluster: ClusterSnapshot) -> tuple[tuple[str, str], ...]:
    """Parse a selector `key=value,key=value` into (key, value) pairs. Raises InvalidInput."""
    pairs = [part.partition("=") for part in selector.split(",")]
    if not all(key and sign for key, sign, _ in pairs):
        labels = {
            pair for node in cluster.objects.nodes.values() for pair in node.labels.items() if pair[1] == selector
        }
        meant = f", for example {min(labels)[0]}={selector}" if labels else ""
        raise InvalidInput(f"invalid selector {quote(selector)}", fix=f"write LABEL=VALUE[,LABEL=VALUE]{meant}")
    return tuple((key, value) for key, _, value in pairs)


def _selected(cluster: ClusterSnapshot, labels: Iterable[tuple[str, str]], what: str) -> list[Node]:
    """Return the nodes with these labels, by name.

    `what`: the selection in the message. Raises InvalidInput for no nodes.
    """
    wanted = list(labels)
    nodes = sorted(cluster.objects.nodes.values(), key=lambda node: node.name)
    result = [node for node in nodes if all(node.labels.get(key) == value for key, value in wanted)]
    if not result:
        raise InvalidInput(f"no node matches {what}{_known_values(nodes, *wanted[0]) if wanted else ''}")
    return result


def _known_values(nodes: Sequence[Node], key: str, value: str) -> str:
    """Return a message suffix that suggests existing labels or values; "" if nodes have the label with the value."""
    have = {node.labels[key] for node in nodes if key in node.labels}
    if have:
        return "" if value in have else suggested(value, have)
    keys = {each for node in nodes for each in node.labels}
    return (
        f"; no node has {f'a zone. Fix: {_FIX_OF_ZONES}' if key == ZONE else f'the label {key}{suggested(key, keys)}'}"
    )


def _node_arrival(operation: str, name: str, node: Node | None = None) -> Arrival:
    return Arrival(0.0, operation, node_object(name), node)
