"""`forewarn why`: why a pod is pending, or was preempted, and what would help."""

from __future__ import annotations

import argparse
import json
import sys
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from policies.cluster import Cache, key_of
from policies.commands.cluster_command import add_cluster_option, add_color_option, answered, options_with_cluster
from policies.commands.release import add_release_options, release_of, settle
from policies.findings import cut, one_line
from policies.objects.fields import at, group_kind, mapping, text
from policies.objects.items import items
from policies.sources import SourceError, load_cluster
from policies.terminal import clean, columns, painter, wants_color

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from policies.cluster import ClusterSnapshot
    from policies.objects.fields import ApiObject
    from policies.releases import Release
    from policies.troubles import Diagnosis

OK, FOUND, USAGE, FAILED = range(4)
_EVENTS: Final = ("/Event", "events.k8s.io/Event")
_MOST_EVENTS: Final = 5
_LONG: Final = 300
"""Characters of what an event or a condition says."""


class OnePodCache(Cache):
    """A Cache that keeps one pod as it was read, and what events say of it."""

    def __init__(self, namespace: str, name: str) -> None:
        super().__init__()
        self._key = (namespace, name)
        self.pod: ApiObject = {}
        self.events: dict[str, str] = {}
        """Reason -> what the last such event says."""

    def add(self, obj: ApiObject) -> bool:
        """See Cache."""
        kind = group_kind(obj)
        if kind in _EVENTS:
            self._keep(obj)
            return False
        if kind == "/Pod" and key_of(obj) == self._key:
            self.pod = obj
        return super().add(obj)

    def _keep(self, obj: ApiObject) -> None:
        about = mapping(obj, "regarding") or mapping(obj, "involvedObject")
        if (at(about, "kind"), at(about, "namespace"), at(about, "name")) != ("Pod", *self._key):
            return
        reason = text(obj, "reason")
        if reason in self.events or len(self.events) < _MOST_EVENTS:
            self.events[reason] = text(obj, "note") or text(obj, "message")


def main(arguments: Sequence[str]) -> int:
    """Run the command; returns the exit status: 0 answered, 1 --fail-on was met, 2 usage, 3 not done."""
    parser = _parser()
    options = options_with_cluster(parser, arguments)
    release = release_of(options, parser)
    return answered("why", lambda: _answer(options, release))


def _answer(options: argparse.Namespace, release: Release) -> int:
    from policies.troubles import diagnose, ids, quota_hint

    namespace, slash, name = options.pod.partition("/")
    if not slash:
        namespace, name = options.namespace, namespace
    cache = OnePodCache(namespace, name)
    cluster = settle(load_cluster(*options.cluster, into=cache), release).snapshot()
    pod = cluster.pods.get((namespace, name))
    if pod is None:
        raise SourceError(
            f"{namespace}/{name}", f"no such pod in the cluster{quota_hint(cluster, namespace)} (write NAMESPACE/NAME)"
        )
    found = diagnose(cluster, pod, cache.pod)
    said = _said(cache)
    if options.output == "json":
        print(json.dumps(_as_dict(found, said, cluster)))  # noqa: T201
    else:
        color = wants_color(options.color, sys.stdout)
        sys.stdout.writelines(clean(line, color) + "\n" for line in _lines(found, said, cluster, painter(color)))
    return FOUND if set(options.fail_on) & {found.state, *ids(found.troubles)} else OK


def _said(cache: OnePodCache) -> dict[str, str]:
    """What the cluster itself says of the pod: the scheduler's condition, and events."""
    told = {}
    for condition in items(cache.pod, "status", "conditions"):
        if at(condition, "type") in ("PodScheduled", "DisruptionTarget") and (message := at(condition, "message")):
            told[str(at(condition, "type"))] = message
    return {key: cut(one_line(str(value)), _LONG) for key, value in {**told, **cache.events}.items()}


def _nodes(found: Diagnosis, cluster: ClusterSnapshot) -> list[tuple[int, str]]:
    from policies.render.why_not import why_not

    prediction = found.prediction
    return why_not(prediction, cluster) if prediction is not None and prediction.outcome == "pending" else []


def _lines(found: Diagnosis, said: dict[str, str], cluster: ClusterSnapshot, paint: Any) -> Iterator[str]:
    from policies.findings import plural

    pod = found.pod
    where = f" on {pod.node_name}" if pod.node_name else ""
    nominated = f", nominated to {pod.nominated_node_name}" if pod.nominated_node_name and not pod.node_name else ""
    state = paint(f"{found.state}{where}{nominated}", "good" if found.state == "running" else "warning")
    yield f"{paint(pod.key, 'bold')} (priority {pod.effective_priority}): {state}"
    for trouble in found.troubles:
        yield f"  {paint(trouble.id, 'bold')}: {trouble.message}"
        if trouble.help:
            yield f"    help: {trouble.help}"
    nodes = _nodes(found, cluster)
    if nodes:
        yield "  nodes:"
    yield from (f"    {plural(count, 'node')}: {why}" for count, why in nodes)
    yield from (f"  {reason} says: {message}" for reason, message in said.items())


def _as_dict(found: Diagnosis, said: dict[str, str], cluster: ClusterSnapshot) -> dict[str, Any]:
    pod = found.pod
    return {
        "id": pod.key,
        "state": found.state,
        "priority": pod.effective_priority,
        "node": pod.node_name,
        "nominatedNode": pod.nominated_node_name,
        "troubles": [trouble.to_dict() for trouble in found.troubles],
        "nodes": [{"count": count, "why": why} for count, why in _nodes(found, cluster)],
        "said": said,
    }


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="forewarn why",
        description="Say why a pod is pending or was preempted, and what would help.",
        epilog="Exit status: 0 an answer was given, 1 --fail-on was met, 2 wrong usage, 3 could not do the job.",
        formatter_class=partial(argparse.HelpFormatter, width=columns()),
    )
    add = parser.add_argument
    add("pod", metavar="NAMESPACE/POD", help="a pod of the cluster")
    add_cluster_option(add)
    add("-n", "--namespace", default="default", help="namespace of a pod that is named without one (default: default)")
    add("-o", "--output", choices=("text", "json"), default="text", help="default: text")
    add(
        "--fail-on",
        action="append",
        default=[],
        metavar="WHAT",
        help="exit with 1 for this state (pending, preempted, running, ended) or trouble, by its id (repeatable)",
    )
    add_color_option(add)
    add_release_options(add)
    return parser
