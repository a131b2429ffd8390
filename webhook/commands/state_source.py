"""Where `forewarn webhook serve` has its cluster state from: files, read once, or the watches of an API server."""

from __future__ import annotations

import gc
from functools import partial
from math import ceil, isinf
from threading import Event
from time import monotonic
from typing import TYPE_CHECKING, Final, NamedTuple

from policies.commands.release import settle
from policies.kinds import POD_TEMPLATE_PATHS
from policies.sources import load_cluster

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence, Sized

    from policies.cluster import ClusterSnapshot
    from policies.releases import Release
    from webhook.accuracy import Accuracy
    from webhook.admission.decision import Confirm
    from webhook.apiserver import ApiServer
    from webhook.informer.deltas import Changed
    from webhook.metrics import Metrics

LIVE: Final = "live"
_COLLECT_AFTER: Final = 100_000


def _nothing() -> str:
    return ""


class StateSource(NamedTuple):
    """Cluster state: what it is now, and what is to be said of it. `fault`: why no request may be sent here.

    Where it is watched, `api` is the API server, and `listen` adds who is told of each change. `use` tells of another
    release, or another configuration of its scheduler.
    """

    cluster: Callable[[], ClusterSnapshot | None]
    confirm: Confirm | None = None
    late: Callable[[], str] = _nothing
    fault: Callable[[], str] = _nothing
    stop: Callable[[], None] = lambda: None
    api: ApiServer | None = None
    listen: Callable[[Callable[[Changed], None]], None] = lambda _: None
    use: Callable[[Release], None] = lambda _: None


def context_of(sources: Sequence[str]) -> str | None:
    """The kubeconfig context whose cluster is watched, empty for the current one; None where files are read.

    Raises ValueError where watches and files are asked for together.
    """
    watched = [source for source in sources if source.partition(":")[0] == LIVE]
    if not sources:
        return ""
    if not watched:
        return None
    if len(sources) > 1:
        raise ValueError(f"--cluster {watched[0]} can't be combined with other --cluster flags")
    return watched[0].partition(":")[2]


def from_files(
    sources: Sequence[str], metrics: Metrics, release: Release, templates: Collection[str] = POD_TEMPLATE_PATHS
) -> StateSource:
    """Cluster state that never changes, save what holds for it; `templates`: what is a workload. Raises SourceError."""
    cache = settle(load_cluster(*sources, templates=templates), release)
    latest = cache.snapshot()
    if latest.objects.nodes:
        latest.prepare()
    gc.collect()
    gc.freeze()  # what stays need not be looked at again: forked processes share it
    loaded = monotonic()
    metrics.cache_age.set_function(lambda: monotonic() - loaded)
    _count(metrics, lambda: latest)

    def use(other: Release) -> None:
        nonlocal latest
        latest = settle(cache, other).snapshot()

    return StateSource(lambda: latest, use=use)


def from_watches(
    context: str,
    max_age: float,
    metrics: Metrics,
    accuracy: Accuracy,
    release: Release,
    templates: Mapping[str, tuple[str, ...]] = POD_TEMPLATE_PATHS,
) -> StateSource:
    """Cluster state that follows an API server; it comes in after the call. Raises ApiError.

    `accuracy` is told what becomes of pods. `templates`: what is a workload, and where it holds its pod template.
    """
    from policies.objects.bounded import as_kept
    from webhook.apiserver import ApiServer, connect
    from webhook.apiserver.classes import LiveClasses
    from webhook.informer import Informer
    from webhook.informer.custom import follow_custom
    from webhook.informer.optional import follow_optional

    # Lists are objects by the hundred thousand and no cycles: the collector's default takes a third of the time.
    gc.set_threshold(_COLLECT_AFTER)
    api = ApiServer(partial(connect, context), keep=as_kept).open()
    informer = Informer(
        api,
        trouble=lambda resource, word: metrics.count(metrics.watch_failures, resource.name, word),
        refused=lambda resource: metrics.count(metrics.cache_skipped, resource.name),
        replaced=accuracy.changed,
        release=release,
        version=lambda: str(api.get("/version").get("gitVersion") or ""),
        templates=templates,
    )
    listeners: list[Callable[[Changed], None]] = []

    def changed(delta: Changed) -> None:
        if delta.resource.kind == "Pod":
            accuracy.seen(delta.object, delta.gone)
        for listener in listeners:
            listener(delta)

    informer.changed = changed
    informer.start()
    stopped = Event()
    follow_custom(api, templates, informer.follow, stopped)
    follow_optional(api, informer.follow, stopped)
    metrics.cache_age.set_function(informer.age)
    _count(metrics, informer.cluster)

    def stop() -> None:
        stopped.set()
        informer.stop()

    def late() -> str:
        age = informer.age()
        if age <= max_age or isinf(age):  # before the first lists are in there is nothing that could be late
            return ""
        return f"no message from the API server for {ceil(age)} s (--max-cache-age {max_age:g})"

    return StateSource(
        cluster=informer.cluster,
        confirm=LiveClasses(api),
        late=late,
        fault=lambda: informer.fault(max_age),
        stop=stop,
        api=api,
        listen=listeners.append,
        use=informer.use,
    )


def _count(metrics: Metrics, cluster: Callable[[], ClusterSnapshot | None]) -> None:
    """Let the metric tell, whenever it is asked, how many objects of a kind there are."""
    tables: dict[str, Callable[[ClusterSnapshot], Sized]] = {
        "PriorityClass": lambda state: state.priority_classes,
        "Namespace": lambda state: state.namespaces,
        "ResourceQuota": lambda state: state.resource_quotas,
        "Pod": lambda state: state.pods,
        "Node": lambda state: state.objects.nodes,
        "PodDisruptionBudget": lambda state: state.objects.budgets,
        "workload": lambda state: state.workloads,
    }

    def count(table: Callable[[ClusterSnapshot], Sized]) -> float:
        state = cluster()
        return 0.0 if state is None else float(len(table(state)))

    for kind, table in tables.items():
        metrics.cache_objects.labels(kind).set_function(partial(count, table))
