"""`forewarn headroom`: predict how many more replicas fit, and the resource that prevents more."""

from __future__ import annotations

import sys
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

from forewarn.policies.application.places import Places
from forewarn.policies.application.simulated import suggesting
from forewarn.policies.commands.autoscaling import add_autoscaling_options, autoscaling_of, rule_options_of
from forewarn.policies.commands.cluster_command import (
    add_cluster_option,
    add_color_option,
    add_namespace_option,
    add_output_option,
    loaded,
    options_with_cluster,
    require_nodes,
)
from forewarn.policies.commands.many_clusters import Evaluated, Evaluation, answered_each
from forewarn.policies.commands.parser import Parser, integer_between
from forewarn.policies.commands.predict import given_objects
from forewarn.policies.commands.release import add_release_options, release_of, settle
from forewarn.policies.findings import cut, one_line
from forewarn.policies.objects.fields import InvalidObject, at, ref_of
from forewarn.policies.sources.cluster import capacity_buffers_of
from forewarn.policies.sources.errors import SourceError
from forewarn.policies.terminal import as_json, as_markdown, clean, complain, painter, wants_color

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from forewarn.policies.cluster.answer_head import AnswerHead
    from forewarn.policies.cluster.cache import ClusterSnapshot
    from forewarn.policies.objects.fields import ApiObject
    from forewarn.policies.releases.release import Release
    from forewarn.policies.whatif.autoscalers import Autoscaling
    from forewarn.policies.whatif.capacity_buffers import BufferCache, Buffers
    from forewarn.policies.whatif.headroom import Count, Headroom, OfGroup, OfPodGroup
    from forewarn.policies.whatif.placeholders import Placeholders
    from forewarn.policies.whatif.quota_room import QuotaRoom

OK, FOUND, USAGE, FAILED = range(4)
_LONG: Final = 200
FORMATS: Final = ("text", "json", "markdown", "html")
HEADS: Final = ("WITHOUT PREEMPTION", "WITH PREEMPTION", "OBJECT")
"""Of the table of several clusters, with the object of which the fewest replicas fit."""

_MODULES: Final = ("sources.cluster", "render.headroom", "whatif.headroom", "releases.release")


def main(arguments: Sequence[str]) -> int:
    """Run the command; returns 0, 1 if fewer fit than --at-least, 2 for wrong usage, or 3 without a result."""
    parser = _parser()
    options = options_with_cluster(parser, arguments)
    if options.preempting and options.at_least is None:
        parser.error("--preempting goes with --at-least")
    if options.placeholders and options.output == "html":
        parser.error("--placeholders goes with -o text, json and markdown")
    release = release_of(options, parser)
    places = Places()
    autoscaling = autoscaling_of(options, parser)
    return answered_each(
        Evaluation(
            "headroom",
            HEADS,
            lambda each: _answer(each, release, autoscaling, places),
            json_lines=True,
            modules=_MODULES,
            places=places,
        ),
        options,
    )


def _answer(options: argparse.Namespace, release: Release, autoscaling: Autoscaling, places: Places) -> Evaluated:
    from forewarn.policies.cluster.answer_head import head_of
    from forewarn.policies.whatif.capacity_buffers import BufferCache

    cache = BufferCache()
    cluster = settle(loaded(options, cache), release).snapshot()
    note = _read_buffers(options.cluster, cache)
    if not autoscaling.groups:
        require_nodes(cluster)
    objects, cluster = given_objects(options.filename, options.namespace, cluster, places)
    objects = _one_of_each_group(objects)
    found = [_headroom(cluster, obj, autoscaling) for obj in objects]
    found = [each._replace(notes=[*each.notes, note]) for each in found] if note else found
    buffers = [cache.buffers_for(obj, options.placeholders) for obj in objects]
    reserves: list[Placeholders | None] = [None] * len(found)
    if options.placeholders:
        from forewarn.policies.whatif.placeholders import placeholders

        cache_key = options.placeholders, rule_options_of(options), autoscaling.cutoff
        reserves = [placeholders(cluster, obj, each, *cache_key) for obj, each in zip(objects, found, strict=True)]
    head = head_of(cluster, (clause for each in found for clause in each.assumes))
    if options.output == "html":
        if len(found) > 1:
            raise InvalidObject("-o html takes one object", ref=ref_of(objects[1], options.namespace))
        from forewarn.policies.render.head import on_page
        from forewarn.policies.render.html.headroom import report

        sys.stdout.write(on_page(report(found[0], cluster), head).document())
    else:
        _print(options, found, reserves, buffers, head)
    least = min(found, key=lambda each: each.more[options.preempting])
    without, preempting = (least.more[each] for each in (False, True))
    status = _status(least, options.at_least, preempting=options.preempting)
    return Evaluated(status, (-without, -preempting), (without, preempting, least.name))


def _status(least: Headroom, at_least: int | None, *, preempting: bool) -> int:
    """Return 1, and print the reason on standard error, if fewer replicas fit than --at-least; otherwise 0."""
    fitting = least.more[preempting]
    if at_least is None or fitting >= at_least:
        return OK
    from forewarn.policies.render.headroom import limits_text

    how, count = ("with", least.preempting) if preempting else ("without", least.without)
    limits = limits_text(count, least.quota)
    what = f"{least.name}: {fitting} of {at_least} Pods fit {how} preemption (--at-least)"
    return complain("", f"{what}: {limits}" if limits else what, FOUND)


def _headroom(cluster: ClusterSnapshot, obj: ApiObject, autoscaling: Autoscaling) -> Headroom:
    from forewarn.policies.whatif.headroom import headroom

    try:
        return headroom(cluster, obj, autoscaling)
    except InvalidObject as fault:
        raise suggesting(fault, cluster, obj) from None


def _read_buffers(sources: Sequence[str], cache: BufferCache) -> str:
    """Add the CapacityBuffers of running clusters to the cache; return a note if they cannot be read, otherwise ""."""
    try:
        for source in sources:
            for obj in capacity_buffers_of(source):
                cache.add(obj)
    except SourceError as fault:
        return f"CapacityBuffers not read: {cut(one_line(str(fault)), _LONG)}"
    return ""


def _one_of_each_group(objects: Sequence[ApiObject]) -> list[ApiObject]:
    """Return the objects, with only the first of several Pods of a PodGroup."""
    groups: dict[object, ApiObject] = {}
    for number, obj in enumerate(objects):
        name = at(obj, "spec", "schedulingGroup", "podGroupName")
        groups.setdefault((at(obj, "metadata", "namespace"), name) if isinstance(name, str) else number, obj)
    return list(groups.values())


def _print(
    options: argparse.Namespace,
    headrooms: Sequence[Headroom],
    reserves: Sequence[Placeholders | None],
    buffers: Sequence[Buffers | None],
    head: AnswerHead,
) -> None:
    from forewarn.policies.render import headroom
    from forewarn.policies.render.head import after_verdict, below_title, headed

    parts = list(zip(headrooms, reserves, buffers, strict=True))
    if options.output == "json":
        for each, reserve, of_it in parts:
            more = {} if of_it is None else {"capacityBuffers": of_it.to_dict()}
            sys.stdout.write(as_json(headed(_as_dict(each) | _reserve_as_dict(reserve) | more, head)))
        return
    if options.output == "markdown":
        sys.stdout.write(as_markdown(below_title("\n".join(headroom.markdown(*part) for part in parts), head)))
        return
    color = wants_color(options.color, sys.stdout)
    lines = chain.from_iterable(headroom.render(each, painter(color), reserve, of_it) for each, reserve, of_it in parts)
    sys.stdout.writelines(clean(line, color) + "\n" for line in after_verdict(lines, head))


def _as_dict(found: Headroom) -> dict[str, Any]:
    of_pod_group = {} if found.of_pod_group is None else {"podGroup": _pod_group_as_dict(found.of_pod_group)}
    groups = {} if found.groups is None else {"nodeGroups": [_group_as_dict(group) for group in found.groups]}
    return {
        "object": found.name,
        **of_pod_group,
        "priority": found.pod.effective_priority,
        "priorityClass": found.pod.priority_class_name,
        "withoutPreemption": _limited(found.without, found.quota) | {"byZone": dict(found.by_zone)},
        "withPreemption": _limited(found.preempting, found.quota),
        "byClass": [
            {"class": c.name, "priority": c.priority, "preempts": c.preempts, **_limited(c.fitting, c.quota)}
            for c in found.by_class
        ],
        "reasons": dict(found.reasons),
        "stranded": [
            {"insufficient": list(left.scarce), "nodes": left.nodes, "milliCpu": left.milli_cpu, "memory": left.memory}
            for left in found.stranded
        ],
        **groups,
        **({} if found.quota is None else {"quota": found.quota._asdict()}),
        "notes": list(found.notes),
    }


def _group_as_dict(group: OfGroup) -> dict[str, Any]:
    why = {"reason": group.why_not} if group.why_not else {}
    return {"group": group.name, "nodes": group.nodes, **_count(group.more), **why}


def _count(count: Count) -> dict[str, Any]:
    return {"pods": count.pods, "atLeast": not count.is_exact}


def _limited(count: Count, quota: QuotaRoom | None) -> dict[str, Any]:
    from forewarn.policies.whatif.headroom import within

    return _count(within(count, quota)) | ({} if quota is None else {"nodes": count.pods, "quota": quota.pods})


def _pod_group_as_dict(pod_group: OfPodGroup) -> dict[str, Any]:
    counts = {"withoutPreemption": pod_group.without, "withPreemption": pod_group.preempting}
    return {"name": pod_group.name, "pods": pod_group.size, "minCount": pod_group.min_count, **counts}


def _reserve_as_dict(placeholders: Placeholders | None) -> dict[str, Any]:
    if placeholders is None:
        return {}
    from forewarn.policies.whatif.placeholders import as_dict

    return {"placeholders": as_dict(placeholders)}


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="forewarn headroom",
        description="Count the replicas of a Pod or workload that still fit without and with preemption, and show "
        "which resource runs out first.",
        epilog="Exit status: 0: counted. 1: fewer replicas (of a PodGroup: groups) fit than --at-least "
        "requires. 2: wrong usage. 3: no answer.",
        examples=(
            "headroom -f web.yaml --at-least 20 --cluster cluster.json.gz",
            "headroom -f web.yaml --context 'prod-*'",
        ),
    )
    add = parser.add_argument
    add("-f", "--filename", required=True, metavar="FILE", help="manifest of a Pod or workload (file, directory, or -)")
    add_cluster_option(add, several=True)
    add_release_options(add)
    add_namespace_option(add)
    add(
        "--at-least",
        type=integer_between(0, 2**31 - 1),
        metavar="N",
        help="exit with 1 if fewer than N replicas fit without preemption",
    )
    add("--preempting", action="store_true", help="--at-least counts replicas that fit with preemption")
    help_text = "show the placeholder Pods that let N Pods start without waiting for new nodes"
    add("--placeholders", type=integer_between(1, 100_000), metavar="N", help=help_text)
    add_autoscaling_options(add)
    add_output_option(add, FORMATS)
    add_color_option(add)
    return parser
