"""The source of cluster state for `forewarn webhook serve`: files, read once, or the watches of an API server."""

from __future__ import annotations

import gc
from collections.abc import Callable, Collection, Mapping, Sequence, Sized
from functools import partial
from math import ceil, isinf
from threading import Event
from time import monotonic
from typing import TYPE_CHECKING, Final, NamedTuple

from forewarn.policies.cli.commands.release import settle
from forewarn.policies.inputs.sources.cluster import load_cluster
from forewarn.policies.kubernetes.kinds.registry import POD_TEMPLATE_PATHS

if TYPE_CHECKING:
    from forewarn.policies.kubernetes.cluster.cache import ClusterSnapshot
    from forewarn.policies.kubernetes.releases.release import Release
    from forewarn.webhook.accuracy import Accuracy
    from forewarn.webhook.admission.prediction_access import Confirm
    from forewarn.webhook.apiserver.client import ApiServer
    from forewarn.webhook.informer.informer import Changed
    from forewarn.webhook.metrics import Metrics

LIVE: Final = "live"
_COLLECT_AFTER: Final = 100_000


class StateSource(NamedTuple):
    """A source of cluster state.

    `confirm`: reads the live PriorityClasses. `staleness`: a message if the state is too old, otherwise "". `fault`:
    why the replica is not ready. For watched state, `api` is the API server, and `listen` adds a callback for each
    change. `use`: replaces the release or the configuration of its scheduler.
    """

    cluster: Callable[[], ClusterSnapshot | None]
    confirm: Confirm | None = None
    staleness: Callable[[], str] = lambda: ""
    fault: Callable[[], str] = lambda: ""
    stop: Callable[[], None] = lambda: None
    api: ApiServer | None = None
    listen: Callable[[Callable[[Changed], None]], None] = lambda _: None
    use: Callable[[Release], None] = lambda _: None


def context_of(sources: Sequence[str]) -> str | None:
    """Return the kubeconfig context to watch ("" for the current context); None for files.

    Raises ValueError for a combination of watches and files.
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
    """Return cluster state from files: objects never change, but the release can. Raises SourceError.

    `templates`: the kinds of workloads.
    """
    cache = settle(load_cluster(*sources, templates=templates), release)
    latest = cache.snapshot()
    if latest.objects.nodes:
        latest.prepare()
    gc.collect()
    gc.freeze()  # the state stays in memory, shared with forked processes: collections skip it
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
    """Return cluster state that follows an API server's watches, which load the state after the call. Raises ApiError.

    `accuracy`: receives the outcomes of Pods. `templates`: the kinds of workloads with the paths of their Pod
    templates.
    """
    from forewarn.policies.kubernetes.objects.extent import retained_part
    from forewarn.webhook.apiserver.client import ApiServer, connect
    from forewarn.webhook.apiserver.typed_client import LiveClasses
    from forewarn.webhook.informer.custom import follow_optional
    from forewarn.webhook.informer.informer import Informer

    # Lists create 100,000s of objects without cycles, and default collections would take a third of the time.
    gc.set_threshold(_COLLECT_AFTER)
    api = ApiServer(partial(connect, context), keep=retained_part).open()
    informer = Informer(
        api,
        trouble=lambda resource, word: metrics.count(metrics.watch_failures, resource.name, word),
        rejected=lambda resource: metrics.count(metrics.cache_skipped, resource.name),
        replaced=accuracy.changed,
        release=release,
        version=lambda: str(api.get("/version").get("gitVersion") or ""),
        templates=templates,
    )
    listeners: list[Callable[[Changed], None]] = []

    def changed(delta: Changed) -> None:
        if delta.resource.kind == "Pod":
            accuracy.seen(delta.object, delta.deleted)
        for listener in listeners:
            listener(delta)

    informer.changed = changed
    informer.start()
    stopped = Event()
    follow_optional(api, templates, informer.follow, stopped)
    metrics.cache_age.set_function(informer.age)
    _count(metrics, informer.cluster)

    def stop() -> None:
        stopped.set()
        informer.stop()

    def staleness() -> str:
        age = informer.age()
        if age <= max_age or isinf(age):  # before the first lists, there is no state that could be stale
            return ""
        return f"no message from the API server for {ceil(age)} s (--max-cache-age {max_age:g})"

    return StateSource(
        cluster=informer.cluster,
        confirm=LiveClasses(api),
        staleness=staleness,
        fault=lambda: informer.fault(max_age),
        stop=stop,
        api=api,
        listen=listeners.append,
        use=informer.use,
    )


def _count(metrics: Metrics, cluster: Callable[[], ClusterSnapshot | None]) -> None:
    """Register metrics with the current number of objects of each kind."""
    tables: dict[str, Callable[[ClusterSnapshot], Sized]] = {
        "PriorityClass": lambda state: state.priority_classes,
        "Namespace": lambda state: state.namespaces,
        "ResourceQuota": lambda state: state.resource_quotas,
        "Pod": lambda state: state.pods,
        "Node": lambda state: state.objects.nodes,
        "PodDisruptionBudget": lambda state: state.objects.pdbs,
        "workload": lambda state: state.workloads,
    }

    def count(table: Callable[[ClusterSnapshot], Sized]) -> float:
        state = cluster()
        return 0.0 if state is None else float(len(table(state)))

    for kind, table in tables.items():
        metrics.cache_objects.labels(kind).set_function(partial(count, table))
