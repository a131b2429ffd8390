"""`forewarn why`: show why a Pod is Pending, ended or does not end, with the fix."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any

from forewarn.policies.cluster.cache import Cache
from forewarn.policies.commands.cluster_command import (
    add_cluster_option,
    add_color_option,
    add_output_option,
    answered,
    loaded,
    options_with_cluster,
    pod_key,
    status_of_conditions,
)
from forewarn.policies.commands.parser import Parser
from forewarn.policies.commands.release import add_release_options, release_of, settle
from forewarn.policies.findings import cut, one_line
from forewarn.policies.kinds.registry import POD
from forewarn.policies.objects.fields import InvalidInput
from forewarn.policies.sources import SourceError
from forewarn.policies.sources.cluster import events_about, has_events
from forewarn.policies.terminal import as_json, clean, painter, wants_color
from forewarn.policies.why.events import LONG

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from forewarn.policies.cluster.cache import ClusterSnapshot
    from forewarn.policies.objects.fields import ApiObject
    from forewarn.policies.releases.release import Release
    from forewarn.policies.why.evidence import Evidence
    from forewarn.policies.why.troubles import Diagnosis

    Painter = Callable[[str, str], str]


class _EvidenceCache(Cache):
    """A Cache that also collects evidence about the end of Pods."""

    def __init__(self, evidence: Evidence) -> None:
        super().__init__()
        self._evidence = evidence

    def add(self, obj: ApiObject) -> bool:
        """Add an object to the evidence; if the object is not evidence alone, also to the cache. Returns as
        `Cache.add`.
        """
        return not self._evidence.add(obj) and super().add(obj)


def main(arguments: Sequence[str]) -> int:
    """Run the command; returns 0, 1 if a condition of --fail-on is met, 2 for wrong usage, or 3 without a result."""
    parser = _parser()
    options = options_with_cluster(parser, arguments)
    if options.fail_on:
        _check_fail_on(options.fail_on, parser)
    release = release_of(options, parser)
    return answered("why", options, lambda: _answer(options, release))


def _check_fail_on(given: Sequence[str], parser: argparse.ArgumentParser) -> None:
    """Exit if a value of --fail-on is neither a state nor an id."""
    from forewarn.policies.rules.support.names import nearest
    from forewarn.policies.why.trouble import IDS, STATES

    known = {*STATES, *IDS}
    for what in given:
        if what not in known:
            parser.error(f"--fail-on {cut(what, 40)}: no state or finding id{nearest(what, known)}")


def _answer(options: argparse.Namespace, release: Release) -> int:
    evidence = _target(options.pod, options.namespace)
    cluster = settle(loaded(options, _EvidenceCache(evidence)), release).snapshot()
    evidence.forget()
    _read_events(options.cluster, evidence)
    now = time.time() if evidence.is_live else evidence.latest or None
    write = _pod if evidence.kind == POD else _workload
    return write(options, cluster, evidence, now)


def _target(given: str, namespace: str) -> Evidence:
    """Return the empty Evidence for the Pod or workload that an argument names. Raises InvalidInput.

    Forms: `POD`, `NAMESPACE/POD`, `KIND/NAME`, `NAMESPACE/KIND/NAME`.
    """
    from forewarn.policies.why.evidence import Evidence
    from forewarn.policies.why.timeline import kind_named

    parts = given.split("/")
    kind = kind_named(parts[-2]) if len(parts) > 1 and all(parts) else ""
    if kind and len(parts) <= 3:
        return Evidence(parts[0] if len(parts) == 3 else namespace, parts[-1], kind)
    return Evidence(*pod_key(given, namespace))


def _pod(options: argparse.Namespace, cluster: ClusterSnapshot, evidence: Evidence, now: float | None) -> int:
    from forewarn.policies.cluster.answer_head import head_of
    from forewarn.policies.render.head import after_verdict, headed
    from forewarn.policies.why.trouble import ids
    from forewarn.policies.why.troubles import diagnose, of_deleted_pod, quota_hint

    namespace, name = evidence.namespace, evidence.name
    pod = cluster.pods.get((namespace, name))
    key = f"{namespace}/{name}"
    found = of_deleted_pod(cluster, evidence, name) if pod is None else diagnose(cluster, pod, evidence, now)
    if found is None:
        from forewarn.policies.whatif.questions import namespace_not_found, pod_not_found
        from forewarn.policies.why.timeline import kind_names

        near = _workload_hint(cluster, namespace, name) or pod_not_found(cluster, namespace, name)
        if namespace != options.namespace and namespace_not_found(cluster, namespace):
            near += f"; for a workload, use KIND/NAME with one of {', '.join(kind_names())}"
        notes = [f"{near}{quota_hint(cluster, namespace)}", *evidence.missing()]
        if evidence.not_read:  # they could name a Pod that was deleted
            raise SourceError(key, "; ".join(notes))
        raise InvalidInput(f"{key}: {'; '.join(notes)}")
    head = head_of(cluster, found.prediction.assumes if found.prediction is not None else ())
    missing = evidence.missing() if found.state != "pending" or evidence.not_read else []
    messages = _messages(evidence, pod.uid if pod is not None else "")
    if options.output == "json":
        sys.stdout.write(as_json(headed(_as_dict(key, found, messages, missing, cluster), head)))
    else:
        _print(options, lambda paint: after_verdict(_lines(key, found, messages, missing, cluster, paint), head))
    return status_of_conditions({found.state, *ids(found.troubles)}, options.fail_on)


def _workload_hint(cluster: ClusterSnapshot, namespace: str, name: str) -> str:
    """The message for a name that is no Pod's but that of workloads; "" without such a workload."""
    kinds = sorted({key[0].rpartition("/")[2] for key in cluster.workloads if key[1:] == (namespace, name)})
    uses = [f"for the {kind}, use {kind.lower()}/{name} -n {namespace}" for kind in kinds[:3]]
    return "; ".join(("Pod not found in the cluster", *uses)) if uses else ""


def _workload(options: argparse.Namespace, cluster: ClusterSnapshot, evidence: Evidence, now: float | None) -> int:
    from forewarn.policies.cluster.answer_head import head_of
    from forewarn.policies.render.head import after_verdict, headed
    from forewarn.policies.why.timeline import lines, timeline, to_dict
    from forewarn.policies.why.trouble import ids

    found, head = timeline(cluster, evidence, now), head_of(cluster)
    kind = evidence.kind.rpartition("/")[2]
    if not evidence.workload and not found.states:
        from forewarn.policies.whatif.questions import elsewhere

        near = elsewhere(cluster, evidence.kind, evidence.namespace, evidence.name)
        first = options.pod.partition("/")[0]
        if (first, evidence.name) in cluster.pods:
            near = f"; for the Pod, use pod/{evidence.name} -n {first}"
        missing = "".join(f"; {each}" for each in evidence.missing())
        raise InvalidInput(
            f"{kind} {evidence.namespace}/{evidence.name} not found, and no Event names its Pods{near}{missing}"
        )
    if options.output == "json":
        sys.stdout.write(as_json(headed({**to_dict(found, evidence), "missing": evidence.missing()}, head)))
    else:
        missing_lines = [f"  {each}" for each in evidence.missing()]
        _print(options, lambda paint: after_verdict((*lines(found, evidence, paint), *missing_lines), head))
    met = {*found.states, *(each for ending in found.endings for each in ids(ending.diagnosis.troubles))}
    return status_of_conditions(met, options.fail_on)


def _print(options: argparse.Namespace, lines: Callable[[Painter], Iterable[str]]) -> None:
    color = wants_color(options.color, sys.stdout)
    sys.stdout.writelines(clean(line, color) + "\n" for line in lines(painter(color)))


def _read_events(sources: Sequence[str], evidence: Evidence) -> None:
    """Read Events about the Pod, its owners and its node from running clusters into the evidence.

    If reading fails, `evidence.not_read` gives the reason.
    """
    try:
        for source in filter(has_events, sources):
            evidence.is_live = True
            for name in evidence.event_names():
                _add_events(source, evidence.namespace, name, evidence)
            if node := evidence.node():
                _add_events(source, "", node, evidence)
    except SourceError as fault:
        evidence.not_read = cut(one_line(str(fault)), LONG)


def _add_events(source: str, namespace: str, name: str, evidence: Evidence) -> None:
    for obj in events_about(source, namespace, name):
        evidence.events.add(obj)


def _messages(evidence: Evidence, uid: str) -> dict[str, str]:
    """Return the messages of the Pod's conditions by type, and of its Events by reason."""
    record = evidence.pods.get(evidence.name)
    conditions = {
        condition.type: cut(condition.message, LONG)
        for condition in (record.conditions if record is not None else ())
        if condition.type in ("PodScheduled", "DisruptionTarget") and condition.message
    }
    return {**conditions, **evidence.events.messages_of(evidence.name, uid)}


def _nodes(diagnosis: Diagnosis, cluster: ClusterSnapshot) -> list[tuple[int, str]]:
    from forewarn.policies.render.why_not import why_not

    prediction = diagnosis.prediction
    return why_not(prediction, cluster) if prediction is not None and prediction.outcome == "pending" else []


def _lines(
    key: str,
    diagnosis: Diagnosis,
    messages: dict[str, str],
    missing: list[str],
    cluster: ClusterSnapshot,
    paint: Painter,
) -> Iterator[str]:
    from forewarn.policies.findings import plural
    from forewarn.policies.why.records import shown_time

    yield _headline(key, diagnosis, paint)
    following = [*(trouble.help for trouble in diagnosis.troubles[1:]), ""]
    for trouble, next_help in zip(diagnosis.troubles, following, strict=False):  # no reasons: one empty help
        when = shown_time(trouble.when)
        yield f"  {paint(trouble.id, 'bold')}{when and f' at {when}'}: {trouble.message}"
        if trouble.help and trouble.help != next_help:
            yield f"    help: {trouble.help}"
    nodes = _nodes(diagnosis, cluster)
    if nodes:
        yield "  nodes:"
    yield from (f"    {plural(count, 'node')}: {why}" for count, why in nodes)
    yield from (f"  {reason}: {message}" for reason, message in messages.items())
    yield from (f"  {each}" for each in missing)


def _headline(key: str, diagnosis: Diagnosis, paint: Painter) -> str:
    pod = diagnosis.pod
    if pod is None:
        return f"{paint(key, 'bold')}: {paint(diagnosis.state, 'warning')}"
    where = f" on {pod.node_name}" if pod.node_name else ""
    nominated = f", nominated to {pod.nominated_node_name}" if pod.nominated_node_name and not pod.node_name else ""
    state = paint(f"{diagnosis.state}{where}{nominated}", "good" if diagnosis.state == "running" else "warning")
    return f"{paint(key, 'bold')} (priority {pod.effective_priority}): {state}"


def _as_dict(
    key: str, diagnosis: Diagnosis, messages: dict[str, str], missing: list[str], cluster: ClusterSnapshot
) -> dict[str, Any]:
    pod = diagnosis.pod
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
        "state": diagnosis.state,
        **about,
        "troubles": [trouble.to_dict() for trouble in diagnosis.troubles],
        "nodes": [{"count": count, "reason": why} for count, why in _nodes(diagnosis, cluster)],
        "reported": messages,
        "missing": missing,
    }


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="forewarn why",
        description="Explain why a Pod is Pending, ended, or does not end, or list the ends of a workload's Pods.",
        epilog="Exit status: 0: explained. 1: --fail-on is met. 2: wrong usage. 3: no answer.",
        examples=(
            "why shop/web-5d9c7-x2x1z",
            "why deployment/web -n shop --cluster cluster.json --cluster events.json",
        ),
    )
    add = parser.add_argument
    add("pod", metavar="NAMESPACE/POD|KIND/NAME", help="Pod or workload to explain; the Pod may be deleted")
    add_cluster_option(add)
    add("-n", "--namespace", default="default", help="namespace if NAMESPACE/ is missing (default: default)")
    add_output_option(add)
    help_text = (
        "exit with 1 for this state (pending, preempted, terminating, running, ended, gone) or problem id (repeatable)"
    )
    add("--fail-on", action="append", default=[], metavar="WHAT", help=help_text)
    add_color_option(add)
    add_release_options(add)
    return parser
