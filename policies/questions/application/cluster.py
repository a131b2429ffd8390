"""The cluster that questions are about."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from math import inf
from typing import TYPE_CHECKING, Final, TypeVar

from forewarn.policies.base.findings import cut, listed, plural, quote
from forewarn.policies.inputs.sources.cluster import load_cluster, objects_of
from forewarn.policies.inputs.sources.files import PathLike, SourceError, fspath
from forewarn.policies.kubernetes.cluster.cache import AnswerHead, ClusterSnapshot, head_of
from forewarn.policies.kubernetes.kinds.registry import NODE, POD, PRIORITY_CLASS
from forewarn.policies.kubernetes.objects.fields import ApiObject, InvalidInput, check_numbers
from forewarn.policies.kubernetes.objects.node import ZONE
from forewarn.policies.kubernetes.releases.release import BadGates, Release, UnknownRelease, known_minor
from forewarn.policies.kubernetes.scheduling.not_predicted import kinds_of
from forewarn.policies.linting.config.load import load_config
from forewarn.policies.linting.config.model import Config
from forewarn.policies.linting.config.scheduler import scheduler_source
from forewarn.policies.prediction.autoscaling.cluster_autoscaler.orchestrator import PRIORITY
from forewarn.policies.prediction.simulation.scenario import DumpCache
from forewarn.policies.questions.whatif.autoscalers import Autoscaling
from forewarn.policies.questions.whatif.node_groups import load_node_groups

if TYPE_CHECKING:
    from forewarn.policies.kubernetes.objects.pod import Pod
    from forewarn.policies.prediction.autoscaling.cluster_autoscaler.discovery import GroupCache
    from forewarn.policies.prediction.autoscaling.cluster_autoscaler.node_group import NodeGroup


POD_NAMES: Final = ("pod", "pods", "po")


def require_lists(
    cluster: ClusterSnapshot, required: Sequence[str], sources: Sequence[str], *, has_groups: bool = False
) -> None:
    """Raise SourceError if the cluster state lacks a list of a required kind. An empty list is a list.

    For other kinds, the answer says what it assumes (`assumptions`). PriorityClasses are also required if
    Pods of the cluster name some; Nodes are not if there are node groups (`has_groups`).
    """
    absent = [kind for kind in required if kind in cluster.objects.unlisted and not (has_groups and kind == NODE)]
    named = {name for name, _ in cluster.pod_counts_by_priority if name} - {*cluster.priority_classes}
    if POD in required and named and PRIORITY_CLASS in cluster.objects.unlisted:
        absent = [*dict.fromkeys((*absent, PRIORITY_CLASS))]
    if absent:
        names = listed(list(map(kinds_of, absent)))
        empty = listed([f"an empty {kind.rpartition('/')[2]}List" for kind in absent])
        fix = f"pass a whole snapshot (forewarn snapshot), or add {empty} if the cluster has none"
        raise SourceError(", ".join(sources), f"no list of {names}, which the answer depends on", fix=fix)


T = TypeVar("T")
Progress = Callable[[float, int], None]
"""Called with the finished and the total number of cases, or with simulated seconds and the number of steps; also while
a case is simulated.
"""
_DEFAULT: Final = Config()


class Cluster:
    """The state of a cluster at one time. `forewarn.load` returns it, and questions do not change it."""

    def __init__(
        self,
        cache: DumpCache,
        config: Config = _DEFAULT,
        sources: Sequence[str] = (),
        minor: int | None = None,
        groups: Sequence[NodeGroup] = (),
    ) -> None:
        self.cache, self.config, self.sources, self._groups = cache, config, sources, groups
        self.minor = minor or cache.reported_minor

    def replaced(self, cache: DumpCache) -> Cluster:
        """The cluster with the objects of another cache."""
        return Cluster(cache, self.config, self.sources, self.minor, self._groups)

    @property
    def snapshot(self) -> ClusterSnapshot:
        """The objects of the cluster."""
        return self.cache.snapshot()

    def require(self, *kinds: str, has_groups: bool = False) -> None:
        """Check that the cluster state has the lists of these `group/Kind`. Raises SourceError."""
        require_lists(self.snapshot, kinds, self.sources, has_groups=has_groups)

    @cached_property
    def autoscaling(self) -> Autoscaling:
        """The settings of autoscalers, with the node groups of `load`, or else the known ones of the cluster."""
        settings = Autoscaling(cutoff=self.config.options.autoscaler_cutoff, groups=self._groups)
        return with_node_groups(settings, self.cache, self.sources)

    @property
    def options(self) -> str:
        """The options of commands that name the cluster, after a space; "" for the current context."""
        named = () if [*self.sources] == ["live"] else self.sources
        return "".join(f" --cluster {shlex.quote(source)}" for source in named)

    @property
    def nodes(self) -> list[str]:
        """The names of the nodes, sorted."""
        return sorted(node.name for node in self.snapshot.objects.nodes.values())

    @property
    def zones(self) -> list[str]:
        """The values of the node label topology.kubernetes.io/zone."""
        return sorted({node.labels[ZONE] for node in self.snapshot.objects.nodes.values() if ZONE in node.labels})

    @property
    def pods(self) -> list[Pod]:
        """The Pods. The node name is "" for a Pod without a node."""
        return list(self.snapshot.pods.values())

    def __repr__(self) -> str:
        snapshot = self.snapshot
        counts = f"{plural(len(snapshot.objects.nodes), 'node')}, {plural(len(snapshot.pods), 'Pod')}"
        return f"<Cluster {snapshot.origin.cluster}: {counts}, Kubernetes {snapshot.semantics.release}>"


def load(
    *sources: str | PathLike[str],
    kubernetes_version: str = "",
    feature_gates: Mapping[str, bool] | None = None,
    scheduler_config: str | PathLike[str] = "",
    config: str | PathLike[str] = "",
    node_groups: str | PathLike[str] = "",
    progress: Callable[[int], None] | None = None,
) -> Cluster:
    """Load a cluster: snapshots (files or directories), or "live" or "live:CONTEXT" for a running cluster.

    Several sources describe one cluster. A later source replaces objects of earlier ones; other UIDs are an error.
    `kubernetes_version`: such as `1.36` (default: that of the cluster, otherwise of its newest kubelet, otherwise the
    newest that is not a preview). `scheduler_config`: a file or preset. `config`: a configuration file. `node_groups`:
    a file of node groups, as for `--node-templates`. `progress`: called with the number of objects read so far. Raises
    SourceError, ConfigError and InvalidInput.
    """
    if not sources:
        raise InvalidInput("no source given", fix='pass a snapshot, or "live" for a running cluster')
    paths = [fspath(source) for source in sources]
    settings = load_config(fspath(config)) if config else _DEFAULT
    try:
        minor = known_minor(kubernetes_version) if kubernetes_version else None
        scheduler = scheduler_source(fspath(scheduler_config)) if scheduler_config else None
        cache = DumpCache()
        cache.recreated = frozenset(settings.options.recreates_pods)
        load_cluster(*paths, into=cache, progress=progress)
        release = Release(minor, feature_gates or {}, scheduler)
        cache.semantics = release.semantics(cache.reported_minor, cache.kubelet_minor)
    except (UnknownRelease, BadGates) as fault:
        raise InvalidInput(str(fault)) from None
    return Cluster(cache, settings, paths, minor, load_node_groups(fspath(node_groups)) if node_groups else ())


def pod_key(name: str, namespace: str) -> tuple[str, str]:
    """Namespace and name of a Pod given as POD, pod/POD, NAMESPACE/POD or NAMESPACE/pod/POD. Raises InvalidInput."""
    *where, pod = name.split("/")
    if where and where[-1].lower() in POD_NAMES:
        where.pop()
    if len(where) > 1 or not all((*where, pod)):
        raise InvalidInput(f"{quote(cut(name, 80))}: not a Pod", fix="write NAMESPACE/POD")
    return (where[0] if where else namespace), pod


def require_nodes(cluster: ClusterSnapshot) -> None:
    """Raise SourceError for a cluster without nodes, because no prediction is possible."""
    if not cluster.objects.nodes:
        raise SourceError("", "the cluster has no nodes", fix="pass a snapshot with its nodes (forewarn snapshot)")


NO_AUTOSCALERS: Final = "no HorizontalPodAutoscalers"
"""The assumption of an answer that depends on HorizontalPodAutoscalers if none are known."""


def autoscalers_of(cache: GroupCache, sources: Iterable[str]) -> list[ApiObject] | None:
    """Return the HorizontalPodAutoscalers of a cluster. If listing them fails: those in files, or None."""
    found = [*cache.autoscalers.values()]
    try:
        return [*found, *(obj for source in sources for obj in objects_of(source, "autoscalers"))]
    except SourceError:
        return found or None


def with_node_groups(
    autoscaling: Autoscaling, cache: GroupCache, sources: Sequence[str], cutoff: int | None = None
) -> Autoscaling:
    """Return the settings with the node groups of the cluster whose sizes are known, unless a file describes groups.

    `cutoff`: overrides that of the cluster. Raises SourceError.
    """
    if autoscaling.node_delay is None:
        return autoscaling
    if not autoscaling.groups or autoscaling.instance_types or PRIORITY in cache.discovery.settings.expanders:
        for obj in (obj for source in sources for obj in objects_of(source, "node_groups")):
            cache.add(obj)
    discovery = cache.discovery
    settings = discovery.settings._replace(unready=discovery.unready(cache.origin.time))
    autoscaling = replace(autoscaling, settings=settings, has_node_pools=bool(discovery.node_pools))
    if autoscaling.instance_types:
        from forewarn.policies.prediction.autoscaling.karpenter.autoscaler import Karpenter, options_of, unmodelled_in

        flags, node_pools = discovery.karpenter_flags, discovery.node_pools
        karpenter = Karpenter(node_pools, autoscaling.instance_types, options_of(flags))
        unmodelled = unmodelled_in(flags, node_pools)
        autoscaling = replace(autoscaling, karpenter=karpenter, unmodelled_of_karpenter=unmodelled)
    if cutoff is None and discovery.cutoff is not None:
        autoscaling = replace(autoscaling, cutoff=discovery.cutoff)
    if autoscaling.groups:
        return autoscaling
    pools = discovery.pools(cache.snapshot().scheduling)
    groups = [pool.group for pool in pools if pool.group is not None and pool.sizes.max_size is not None]
    return replace(autoscaling, groups=groups)


def autoscaling_for(cluster: Cluster | ClusterSnapshot, autoscaling: Autoscaling | None) -> Autoscaling:
    """The settings `autoscaling`, or else those of the cluster; a snapshot has no node groups. Raises InvalidInput."""
    if autoscaling is None:
        return cluster.autoscaling if isinstance(cluster, Cluster) else Autoscaling()
    if not isinstance(autoscaling, Autoscaling):
        raise InvalidInput(f"autoscaling must be an Autoscaling, not {type(autoscaling).__name__}")
    check_numbers(0, node_delay=autoscaling.node_delay)
    if autoscaling.node_delay == inf:
        raise InvalidInput("node_delay is inf", fix="set it to None, for no new nodes")
    return autoscaling


LOST_NODES: Final = "lost Nodes deleted at once"
"""The assumption of a simulated loss."""


def head_with_nodes(cluster: ClusterSnapshot, assumes: Iterable[str] = (), *, is_loss: bool = False) -> AnswerHead:
    """Return the head of an answer (`head_of`) that also names cordoned nodes, and what happens to lost ones."""
    cordoned = sorted(node.name for node in cluster.objects.nodes.values() if node.unschedulable)
    of_nodes = [LOST_NODES] if is_loss else []
    of_nodes += [f"{plural(len(cordoned), 'node')} cordoned: {listed(cordoned)}"] if cordoned else []
    head = head_of(cluster, assumes)
    return replace(head, assumes=(*of_nodes, *head.assumes))


def snapshot_of(cluster: Cluster | ClusterSnapshot) -> ClusterSnapshot:
    """The state of a cluster, for questions that do not simulate."""
    return cluster.snapshot if isinstance(cluster, Cluster) else cluster


def counted_results(
    results: Callable[[Callable[..., None]], Iterable[T]], total: int, progress: Progress | None
) -> Iterator[T]:
    """Yield the results, and report how many of `total` are complete. `results`: is called with a function that repeats
    this report while a result is computed; the arguments of that function are ignored.
    """
    number = 0

    def report(*_: object) -> None:
        if progress is not None:
            progress(number, total)

    report()
    for number, result in enumerate(results(report), 1):  # noqa: B007  (`report` reads it)
        yield result
        report()
