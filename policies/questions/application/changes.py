"""The changes of a cluster that `whatif` simulates: one request type for each."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from forewarn.policies.base.documents.answer import AnswerStatus
from forewarn.policies.base.findings import listed, plural, quote
from forewarn.policies.inputs.sources.files import File, PathLike, SourceError
from forewarn.policies.kubernetes.controllers.view import workload_key
from forewarn.policies.kubernetes.kinds.registry import AUTOSCALER, POD_TEMPLATE_PATHS
from forewarn.policies.kubernetes.objects.fields import (
    ApiObject,
    InvalidInput,
    InvalidObject,
    check_numbers,
    check_one_of,
    group_kind,
    ref_of,
)
from forewarn.policies.prediction.simulation.scenario import Arrival, DumpCache
from forewarn.policies.prediction.simulation.simulation import Simulation
from forewarn.policies.prediction.simulation.summary import names_in
from forewarn.policies.questions.application import simulated
from forewarn.policies.questions.application.fixes import relaxed
from forewarn.policies.questions.application.kueue import (
    assumed,
    queued_arrivals,
    status_of,
    summary_of,
    warnings_of_jobs,
)
from forewarn.policies.questions.application.manifests import (
    Manifest,
    applied,
    given_manifests,
    manifests_of,
    with_queues,
)
from forewarn.policies.questions.application.removal import removal
from forewarn.policies.questions.whatif import DEFAULT_AWAY, DEFAULT_UNTIL, MAX_ADDED, class_change, questions
from forewarn.policies.questions.whatif.autoscalers import (
    Autoscalers,
    Autoscaling,
    PendingPods,
    autoscalers,
    without_help,
)
from forewarn.policies.questions.whatif.node_groups import pool_of
from forewarn.policies.questions.whatif.questions import Question, Queueing
from forewarn.policies.questions.whatif.upgrade import UpgradeRun

if TYPE_CHECKING:
    from collections.abc import Sequence

    from forewarn.policies.kubernetes.cluster.cache import ClusterSnapshot
    from forewarn.policies.kubernetes.options import Options
    from forewarn.policies.prediction.autoscaling.cluster_autoscaler.node_group import NodeGroup
    from forewarn.policies.questions.application.places import Places


_MAX_ROUNDS: Final = 5
_LOWEST: Final = -(2**31)


class Start(NamedTuple):
    """The cluster before a change. `cache`: a change may write to it. `places`: records the positions of objects.
    `options`: the options of rules, which select placeholder Pods.
    """

    cache: DumpCache
    groups: Sequence[NodeGroup]
    places: Places
    options: Options

    @property
    def cluster(self) -> ClusterSnapshot:
        return self.cache.snapshot()

    def read(
        self,
        manifests: Manifest | Sequence[Manifest],
        namespace: str,
        *,
        strict: bool = True,
        others: list[ApiObject] | None = None,
    ) -> list[Arrival]:
        given = manifests_of(manifests)
        return list(applied(given, namespace, self.places, self.cluster, strict=strict, others=others))


class Change(Protocol):
    """A change of a cluster: one of the types from `LoseNodes` to `ChangeClass`."""

    def question(self, start: Start) -> Question:
        """The change as timed events. Raises SourceError, InvalidInput and InvalidObject."""


@dataclass(frozen=True)
class LoseNodes:
    """Deletes nodes, all at the same time, as in an outage."""

    names: Sequence[str]

    def question(self, start: Start) -> Question:
        return questions.nodes_lost(start.cluster, _names(self.names))


@dataclass(frozen=True)
class LoseZone:
    """Deletes all nodes of a zone at the same time."""

    zone: str

    def question(self, start: Start) -> Question:
        return questions.zone_lost(start.cluster, self.zone)


@dataclass(frozen=True)
class LosePool:
    """Deletes all nodes with these labels at the same time. `selector`: `LABEL=VALUE[,LABEL=VALUE]`."""

    selector: str

    def question(self, start: Start) -> Question:
        return questions.pool_lost(start.cluster, self.selector)


@dataclass(frozen=True)
class Drain:
    """Cordons and drains the nodes, all at the same time. `kubectl drain` drains one node after the other."""

    names: Sequence[str]

    def question(self, start: Start) -> Question:
        return questions.drained(start.cluster, _names(self.names))


@dataclass(frozen=True)
class Remove:
    """Drains the `count` nodes whose drain preempts no Pod and leaves none Pending, and which no PDB blocks.

    `pool`: only nodes with these labels, `LABEL=VALUE`. If fewer can go, `removal.kept` of the answer shows why.
    """

    count: int
    pool: str = ""

    def question(self, start: Start) -> Question:
        """Return the question of draining all nodes that can be removed together."""
        check_numbers(1, count=self.count)
        nodes = questions.nodes_of_pool(start.cluster, self.pool)
        if self.count > len(nodes):
            which = f" with {self.pool}" if self.pool else ""
            raise InvalidInput(f"{self.count:,} nodes to remove, but the cluster has {len(nodes):,}{which}")
        world = simulated.world_with(start.cache, [], DEFAULT_UNTIL)
        found = removal(start.cluster, world, nodes, self.count, start.options, start.groups)
        arrivals = questions.drained(start.cluster, found.nodes).arrivals if found.nodes else ()
        title = f"removal of {self.count:,} of {plural(len(nodes), 'node')}"
        return Question(title, arrivals, removal=found, notes=found.notes)


@dataclass(frozen=True)
class Upgrade:
    """Drains, replaces and uncordons nodes, by default one after the other.

    `pool`: only nodes with these labels, `LABEL=VALUE`. `max_unavailable`: number of nodes that are upgraded at the
    same time. `max_surge`: number of nodes that are replaced at the same time, each after a new node is ready; instead
    of `max_unavailable`. `away`: seconds until a node returns, or a new node is ready. `drain_timeout`: seconds after
    which the remaining Pods of a node are deleted; 0: never. `assume_pdbs`: `maxUnavailable=N` or `minAvailable=N` of
    all PDBs that allow no disruptions now; "": their own.
    """

    pool: str = ""
    max_unavailable: int = 1
    max_surge: int = 0
    away: float = DEFAULT_AWAY
    drain_timeout: float = 0.0
    assume_pdbs: str = ""

    def question(self, start: Start) -> Question:
        """Return the question of upgrading the nodes."""
        check_numbers(0, max_surge=self.max_surge, away=self.away, drain_timeout=self.drain_timeout)
        check_numbers(0 if self.max_surge else 1, max_unavailable=self.max_unavailable)
        most, surge = self.max_surge or self.max_unavailable, bool(self.max_surge)
        relaxed_pdbs = _assume_pdbs(start.cache, self.assume_pdbs) if self.assume_pdbs else 0
        nodes = questions.nodes_of_pool(start.cluster, self.pool)
        title = f"upgrade of {plural(len(nodes), 'node')}, {most} at a time{', new nodes first' if surge else ''}"
        if self.assume_pdbs:
            title += f", {plural(relaxed_pdbs, 'PDB')} with {self.assume_pdbs.replace('=', ' ')}"
        in_order = sorted(nodes, key=lambda node: (pool_of(node), node.name))
        return Question(title, upgrade=UpgradeRun(in_order, most, self.away, surge, self.drain_timeout))


def _assume_pdbs(cache: DumpCache, spec: str) -> int:
    """Give the PDBs that allow no disruptions this limit; return their number. Raises InvalidInput."""
    name, _, value = spec.partition("=")
    if name not in ("maxUnavailable", "minAvailable") or not re.fullmatch(r"\d{1,6}%?", value):
        raise InvalidInput(f"assume_pdbs {quote(spec)}", fix="write maxUnavailable=1 or minAvailable=50%")
    limit = value if value.endswith("%") else int(value)
    stored = cache.snapshot().objects.pdbs
    spent = [key for key in sorted(cache.pdbs) if key in stored and not stored[key].disruptions_allowed]
    for key in spent:
        cache.add(relaxed(cache.pdbs[key], name, limit))
    return len(spent)


@dataclass(frozen=True)
class Add:
    """Adds empty nodes, like the node `node` or like the nodes of `pool`.

    `pool`: `LABEL=VALUE`, or the name of a node group. `count`: number of nodes. `until_scheduled`: add as many nodes
    as Pending Pods need (at most 1,000), instead of `count`.
    """

    node: str = ""
    pool: str = ""
    count: int = 1
    until_scheduled: bool = False

    def question(self, start: Start) -> Question:
        """Return the question of adding the nodes."""
        if bool(self.node) == bool(self.pool):
            raise InvalidInput("both or none of node and pool are given", fix="give one")
        check_numbers(1, count=self.count)
        scope, name = ("node", self.node) if self.node else ("pool", self.pool)
        if self.until_scheduled:
            return _fewest_nodes_question(start, scope, name)
        return questions.added(start.cluster, scope, name, self.count, start.groups)


def _fewest_nodes_question(start: Start, scope: str, name: str) -> Question:
    """The question of adding the fewest nodes that Pending Pods need. Adds nodes until cluster-autoscaler adds no more;
    then a binary search finds the fewest, because kube-scheduler may need fewer than estimated.
    """
    group = questions.group_like(start.cluster, scope, name, start.groups)
    settings = Autoscaling(cutoff=_LOWEST, groups=[group._replace(max_size=None, blocked="")])

    def tried(count: int) -> tuple[Question, Autoscalers, int]:
        """Return the question, the autoscaler's reaction, and the number of nodes that it would still add."""
        question = questions.added(start.cluster, scope, name, count, start.groups)
        simulation = Simulation(simulated.world_with(start.cache, question.arrivals, DEFAULT_UNTIL))
        simulation.run()
        reaction = autoscalers(PendingPods.from_simulation(simulation, names_in(simulation)), settings)
        scale_ups = reaction.node_groups.scale_ups if reaction.node_groups else ()
        return question, reaction, sum(added.nodes for scale_up in scale_ups for added in scale_up.added)

    too_few, count = -1, 0
    question, reaction, more = tried(count)
    for _ in range(_MAX_ROUNDS - 1):
        if not more or count == MAX_ADDED:
            break
        too_few, count = count, min(count + more, MAX_ADDED)
        question, reaction, more = tried(count)
    while not more and count - too_few > 1:
        middle = (too_few + count) // 2
        smaller = tried(middle)
        if smaller[2]:
            too_few = middle
        else:
            count, (question, reaction, _) = middle, smaller
    notes = [*without_help(reaction)]
    notes += ["more nodes may be needed: the limit of the search is reached"] if more else []
    title = question.title
    if group.max_added is not None and count > group.max_added:
        title += f" (node group {group.name} has room for {group.max_added} of these nodes)"
    return question._replace(title=title, notes=notes)


@dataclass(frozen=True)
class Restart:
    """Restarts a workload, as `kubectl rollout restart` does. `workload`: `KIND/NAME`."""

    workload: str
    namespace: str = "default"

    def question(self, start: Start) -> Question:
        return questions.restart(start.cluster, self.workload, self.namespace)


@dataclass(frozen=True)
class Scale:
    """Scales a workload to `replicas`. `workload`: `KIND/NAME`."""

    workload: str
    replicas: int
    namespace: str = "default"

    def question(self, start: Start) -> Question:
        check_numbers(0, replicas=self.replicas)
        return questions.scaled(start.cluster, self.workload, self.replicas, self.namespace, start.cache.autoscalers)


@dataclass(frozen=True)
class MaxReplicas:
    """Scales workloads to the maxReplicas of their HorizontalPodAutoscalers, in `namespace` or all.

    `notes` of the result show why some are not simulated.
    """

    namespace: str | None = None

    def question(self, start: Start) -> Question:
        """Return the question of scaling the workloads."""
        autoscalers = start.cache.autoscalers
        if not autoscalers:
            fix = "add the output of kubectl get hpa -A -o json as a second source"
            raise SourceError("", "the cluster has no HorizontalPodAutoscalers", fix=fix)
        autoscalers = {key: obj for key, obj in autoscalers.items() if self.namespace in (None, key[0])}
        if not autoscalers:
            hint = questions.unknown_namespace(start.cluster, self.namespace or "")
            raise InvalidInput(f"no HorizontalPodAutoscaler in namespace {self.namespace}{hint}")
        return questions.max_replicas_question(start.cluster, autoscalers)


@dataclass(frozen=True)
class Apply:
    """Applies `manifests` (paths or API objects). `namespace`: namespace of objects that name none."""

    manifests: Manifest | Sequence[Manifest]
    namespace: str = "default"

    def question(self, start: Start) -> Question:
        """Return the question of applying the objects."""
        given_manifests(self.manifests)
        others, faults = list[ApiObject](), list[InvalidObject]()
        read = start.read(self.manifests, self.namespace, others=others)
        queues = [obj for obj in others if group_kind(obj) != AUTOSCALER]
        scalers = [obj for obj in others if group_kind(obj) == AUTOSCALER]
        cluster = with_queues(start.cluster, queues, faults)
        if faults:
            raise faults[0]
        arrivals, jobs = queued_arrivals(cluster, read)
        created = [*read, *(Arrival(0.0, "create", obj) for obj in scalers)]
        title = f"{questions.objects_text(read or created)} applied"
        question = questions.applied(title, arrivals, start.cluster, start.cache.autoscalers, scalers)
        if not question.arrivals and not read:
            fix = next(questions.commands_at_maximum(start.cluster, scalers), "apply Jobs or workloads with them")
            raise InvalidInput("only objects of Kueue or autoscalers: their effect is not simulated", fix=fix)
        if not jobs:
            return question
        queueing = Queueing(status_of(AnswerStatus.OK, jobs), summary_of(jobs), assumed(start.cluster))
        return question._replace(queueing=queueing, notes=[*question.notes, *warnings_of_jobs(jobs)])


@dataclass(frozen=True)
class Delete:
    """Deletes the objects in `manifests` (paths or API objects). `namespace`: namespace of objects that name none."""

    manifests: Manifest | Sequence[Manifest]
    namespace: str = "default"

    def question(self, start: Start) -> Question:
        """Return the question of deleting the objects."""
        objects = start.read(self.manifests, self.namespace, strict=False)
        given = given_manifests(self.manifests)
        files = (File(manifest) if isinstance(manifest, str) else manifest for manifest in given)
        title = " and ".join(each.name if isinstance(each, File) else str(ref_of(each)) for each in files)
        return questions.deleted(start.cluster, title, objects)


@dataclass(frozen=True)
class Events:
    """Simulates events at given times, and applies manifests at time 0.

    `events`: path of a file with a list of events, as for `forewarn whatif events`. `namespace`: namespace of objects
    that name none. `runs`: number of runs; all except the first decide ties and races at random. `outcomes` of
    `to_dict()` contains the different results. `seed`: random seed of the runs.
    """

    events: str | PathLike[str] = ""
    manifests: Manifest | Sequence[Manifest] = ()
    namespace: str = "default"
    runs: int = 1
    seed: int = 0

    def question(self, start: Start) -> Question:
        """Return the question of these events."""
        check_numbers(1, runs=self.runs)
        if not self.events and not manifests_of(self.manifests):
            raise InvalidInput("neither events nor manifests given")
        objects, titles = start.read(self.manifests, self.namespace), []
        if manifests_of(self.manifests):
            titles.append(f"{questions.objects_text(objects)} applied")
        if self.events:
            events = simulated.events_of(self.events, start.cluster, objects)
            titles.append(plural(len(events), "event"))
            objects += events
        objects, notes = simulated.with_run_times(start.cluster, objects)
        question = questions.applied(", ".join(titles), objects, start.cluster, start.cache.autoscalers)
        return question._replace(notes=[*notes, *question.notes])


@dataclass(frozen=True)
class ChangeClass:
    """Creates, changes or deletes a PriorityClass, and restarts the Deployments, StatefulSets and DaemonSets whose new
    Pods get another priority or preemptionPolicy.

    `value`: needed to create a PriorityClass. `default`: whether it becomes the global default. `workloads`: workloads
    that get the PriorityClass: `KIND/NAME`, `LABEL=VALUE` or `namespace=NAME`. `manifests`: manifests to apply, instead
    of the restarts. `namespace`: namespace of workloads and objects that name none.
    """

    name: str
    value: int | None = None
    default: bool = False
    preemption_policy: str | None = None
    delete: bool = False
    workloads: Sequence[str] = ()
    manifests: Manifest | Sequence[Manifest] = ()
    namespace: str = "default"

    def question(self, start: Start) -> Question:
        """Return the question of changing the PriorityClass, which this writes to the cache of `start`."""
        check_one_of(workloads=self.workloads, manifests=self.manifests)
        before, cache = start.cluster, start.cache
        selected = questions.workloads_of(before, self.workloads, self.namespace)
        class_change.apply_change(
            cache, class_change.Change(self.name, self.value, self.default, self.preemption_policy, self.delete)
        )
        objects = start.read(self.manifests, self.namespace)
        simulated.admit_at_once(cache, objects)
        given = [arrival.object for arrival in objects if group_kind(arrival.object) in POD_TEMPLATE_PATHS]
        given = given or [class_change.with_class(obj, self.name) for obj in selected]
        templates = {workload_key(obj): obj for obj in given}
        change = class_change.effect_of(before, cache.snapshot(), self.name, templates)
        title = class_change.title(change)
        title += f"; then {questions.objects_text(objects)} applied" if objects else ""
        if selected:
            several = f"{plural(len(selected), 'workload')} of {listed([*self.workloads])}"
            which = several if selected[1:] else str(ref_of(selected[0], "default"))
            jobs = listed(questions.jobs_of(before, self.workloads, self.namespace, self.name))
            is_same = change.before == change.after
            title = f"{which} with PriorityClass {self.name}" if is_same else f"{title}, for {which}"
            title += f", not {jobs} (immutable template)" if jobs else ""
        change = change._replace(restarted=not objects)
        return Question(title, objects or class_change.restarts(change), class_change=change)


CHANGES: Final[dict[str, type[Change]]] = {
    request.__name__: request
    for request in (
        *(LoseNodes, LoseZone, LosePool, Drain, Remove, Upgrade, Add),
        *(Restart, Scale, MaxReplicas, Apply, Delete, Events, ChangeClass),
    )
}
"""Name -> the request type."""


def _names(names: Sequence[str]) -> Sequence[str]:
    if not names:
        raise InvalidInput("no node given")
    return [names] if isinstance(names, str) else names
