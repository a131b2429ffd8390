"""`forewarn why`: why a pod is pending, or was preempted, and what would help."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from policies.cluster import Cache, key_of
from policies.commands.cluster_command import (
    add_cluster_option,
    add_color_option,
    add_output_option,
    answered,
    loaded,
    options_with_cluster,
    pod_key,
)
from policies.commands.parser import Parser
from policies.commands.release import add_release_options, release_of, settle
from policies.findings import cut, one_line
from policies.objects.fields import InvalidInput, at, group_kind
from policies.objects.items import items
from policies.pod_events import LONG, PodEvents
from policies.sources import SourceError
from policies.sources.cluster import events_about
from policies.terminal import as_json, clean, painter, wants_color

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Sequence

    from policies.cluster import ClusterSnapshot
    from policies.objects.fields import ApiObject
    from policies.releases import Release
    from policies.troubles import Diagnosis

OK, FOUND, USAGE, FAILED = range(4)


class OnePodCache(Cache):
    """A Cache that keeps one pod as it was read, and what Events say of it."""

    def __init__(self, namespace: str, name: str) -> None:
        super().__init__()
        self._key = (namespace, name)
        self.pod: ApiObject = {}
        self.events = PodEvents(namespace, name)

    def add(self, obj: ApiObject) -> bool:
        """See Cache."""
        if self.events.add(obj):
            return False
        if group_kind(obj) == "/Pod" and key_of(obj) == self._key:
            self.pod = obj
        return super().add(obj)


def main(arguments: Sequence[str]) -> int:
    """Run the command; returns the exit status: 0 answered, 1 --fail-on was met, 2 usage, 3 not done."""
    parser = _parser()
    options = options_with_cluster(parser, arguments)
    if options.fail_on:
        _check_fail_on(options.fail_on, parser)
    release = release_of(options, parser)
    return answered("why", options, lambda: _answer(options, release))


def _check_fail_on(given: Sequence[str], parser: argparse.ArgumentParser) -> None:
    """End the program if a value of --fail-on is no state and no id."""
    from policies.rules.support.names import nearest
    from policies.troubles import IDS, STATES

    known = {*STATES, *IDS}
    for what in given:
        if what not in known:
            parser.error(f"--fail-on {cut(what, 40)}: no state or finding id{nearest(what, known)}")


def _answer(options: argparse.Namespace, release: Release) -> int:
    from policies.troubles import diagnose, gone, ids, quota_hint

    namespace, name = pod_key(options.pod, options.namespace)
    cache = OnePodCache(namespace, name)
    cluster = settle(loaded(options, cache), release).snapshot()
    not_read = _read_events(options.cluster, namespace, name, cache.events)
    pod = cluster.pods.get((namespace, name))
    key = f"{namespace}/{name}"
    found = gone(cluster, cache.events) if pod is None else diagnose(cluster, pod, cache.pod, cache.events)
    if found is None:
        from policies.whatif.questions import pod_not_found

        told = f"{pod_not_found(cluster, namespace, name)}{quota_hint(cluster, namespace)}"
        if not_read:  # they could name a Pod that was deleted
            raise SourceError(key, f"{told}; Events not read: {not_read}")
        raise InvalidInput(f"{key}: {told}")
    said = _said(cache, pod.uid if pod is not None else "")
    if options.output == "json":
        sys.stdout.write(as_json(_as_dict(key, found, said, not_read, cluster)))
    else:
        color = wants_color(options.color, sys.stdout)
        lines = _lines(key, found, said, not_read, cluster, painter(color))
        sys.stdout.writelines(clean(line, color) + "\n" for line in lines)
    return FOUND if set(options.fail_on) & {found.state, *ids(found.troubles)} else OK


def _read_events(sources: Sequence[str], namespace: str, name: str, events: PodEvents) -> str:
    """Ask the sources that are no dumps for Events about the pod; why one did not tell them, or nothing."""
    try:
        for source in sources:
            for obj in events_about(source, namespace, name):
                events.add(obj)
    except SourceError as fault:
        return cut(one_line(str(fault)), LONG)
    return ""


def _said(cache: OnePodCache, uid: str) -> dict[str, str]:
    """What the cluster itself says of the pod: the scheduler's condition, and Events."""
    told = {}
    for condition in items(cache.pod, "status", "conditions"):
        if at(condition, "type") in ("PodScheduled", "DisruptionTarget") and (message := at(condition, "message")):
            told[str(at(condition, "type"))] = cut(one_line(str(message)), LONG)
    return {**told, **cache.events.said(uid)}


def _nodes(found: Diagnosis, cluster: ClusterSnapshot) -> list[tuple[int, str]]:
    from policies.render.why_not import why_not

    prediction = found.prediction
    return why_not(prediction, cluster) if prediction is not None and prediction.outcome == "pending" else []


def _lines(
    key: str, found: Diagnosis, said: dict[str, str], not_read: str, cluster: ClusterSnapshot, paint: Any
) -> Iterator[str]:
    from policies.findings import plural

    yield _headline(key, found, paint)
    for trouble in found.troubles:
        yield f"  {paint(trouble.id, 'bold')}: {trouble.message}"
        if trouble.help:
            yield f"    help: {trouble.help}"
    nodes = _nodes(found, cluster)
    if nodes:
        yield "  nodes:"
    yield from (f"    {plural(count, 'node')}: {why}" for count, why in nodes)
    yield from (f"  {reason}: {message}" for reason, message in said.items())
    if not_read:
        yield f"  Events not read: {not_read}"


def _headline(key: str, found: Diagnosis, paint: Any) -> str:
    pod = found.pod
    if pod is None:
        return f"{paint(key, 'bold')}: {paint(found.state, 'warning')}"
    where = f" on {pod.node_name}" if pod.node_name else ""
    nominated = f", nominated to {pod.nominated_node_name}" if pod.nominated_node_name and not pod.node_name else ""
    state = paint(f"{found.state}{where}{nominated}", "good" if found.state == "running" else "warning")
    return f"{paint(key, 'bold')} (priority {pod.effective_priority}): {state}"


def _as_dict(
    key: str, found: Diagnosis, said: dict[str, str], not_read: str, cluster: ClusterSnapshot
) -> dict[str, Any]:
    pod = found.pod
    about = (
        {}
        if pod is None
        else {
            "priority": pod.effective_priority,
            "node": pod.node_name,
            "nominatedNode": pod.nominated_node_name,
        }
    )
    return {
        "id": key,
        "state": found.state,
        **about,
        "troubles": [trouble.to_dict() for trouble in found.troubles],
        "nodes": [{"count": count, "reason": why} for count, why in _nodes(found, cluster)],
        "reported": said,
        **({"eventsNotRead": not_read} if not_read else {}),
    }


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="forewarn why",
        description="Explain why a Pod is Pending or was preempted, and how to fix this.",
        epilog="Exit status: 0: explained. 1: --fail-on is met. 2: wrong usage. 3: no answer.",
        examples=("why shop/web-5d9c7-x2x1z", "why web-0 -n shop --cluster cluster.json.gz"),
    )
    add = parser.add_argument
    add("pod", metavar="NAMESPACE/POD", help="Pod to explain")
    add_cluster_option(add)
    add("-n", "--namespace", default="default", help="namespace if NAMESPACE/ is missing (default: default)")
    add_output_option(add)
    told = "exit with 1 for this state (pending, preempted, running, ended, gone) or problem id (repeatable)"
    add("--fail-on", action="append", default=[], metavar="WHAT", help=told)
    add_color_option(add)
    add_release_options(add)
    return parser
