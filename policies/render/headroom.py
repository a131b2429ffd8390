"""The headroom (the number of further Pods that fit) as text and Markdown."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from forewarn.policies.findings import cut, first_line, first_of, fitting, listed, one_line, plural
from forewarn.policies.forecast.why_not import by_nodes, most_frequent
from forewarn.policies.render import Painter, plain
from forewarn.policies.render.table import left_out, limited, text_of
from forewarn.policies.scheduling.reasons import insufficient

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from forewarn.policies.application.headroom import ObjectHeadroom
    from forewarn.policies.objects.pod import Pod
    from forewarn.policies.whatif.capacity_buffers import Buffers
    from forewarn.policies.whatif.headroom import Count, Headroom, OfClass, OfGroup, Preempted, Quota, Stranded
    from forewarn.policies.whatif.placeholders import NewPlaceholders, PlaceholderNodes, PlaceholderPool, Placeholders

_ALONE: Final = (("", ""),)
_SHOWN: Final = 5
_LONGEST: Final = 40
_MAX_GROUPS: Final = 20
_GIB: Final = 2**30
_LARGE_CPU: Final = 10**8
"""Amount of cpu in thousandths from which cores are printed without a fraction."""


def render(
    result: ObjectHeadroom, asked: str = "", paint: Painter = plain, beside: Sequence[tuple[str, str]] = _ALONE
) -> Iterator[str]:
    """The headroom as text lines. `asked`: the answer to `--at-least`, from `answer_to_number`. `beside`: starts and
    ends of the first line, the longest first.
    """
    headroom, reserve, buffers = result.headroom, result.placeholders, result.capacity_buffers
    text = f"{asked}{answer_to(result)}: {headroom.name} ({about(headroom.pod)})"
    start, end = fitting(text, beside)
    yield paint(first_line(f"{start}{text}", end), "bold")
    yield from (f"  {line}" for line in _lines(headroom, paint))
    if reserve is not None:
        yield from (f"  {line}" for line in _placeholders(reserve, headroom, paint))
    if buffers is not None:
        yield from (f"  {line}" for line in _buffers(buffers, paint))


def answer_to_number(headroom: Headroom, at_least: int | None, *, preempting: bool) -> str:
    """Whether so many Pods (or PodGroups) fit, as the start of the first line; "" without a number."""
    if at_least is None:
        return ""
    return "yes: " if headroom.more[preempting] >= at_least else f"no, not {at_least}: "


def answer_to(result: ObjectHeadroom) -> str:
    """The numbers of needed placeholder Pods, if requested, and of more Pods, as a phrase."""
    answer, reserve = answer_of(result.headroom), result.placeholders
    if reserve is None:
        return answer
    more, wanted = reserve.create.pods, plural(reserve.wanted, "Pod")
    if reserve.obstacle:
        return f"placeholder Pods do not help to start {wanted} at once; {answer}"
    beside = " beside the CapacityBuffers" if result.capacity_buffers and result.capacity_buffers.provisioned else ""
    fit = f" ({reserve.create.fit_now} fit now{beside})" if more else ""
    needed = plural(more, "more placeholder Pod") if more else "no more placeholder Pods"
    quota = result.headroom.quota
    admitted = f" (a ResourceQuota admits only {quota.pods})" if quota and quota.pods < reserve.wanted else ""
    return f"{needed} needed{fit} to start {wanted} at once{admitted}; {answer}"


def answer_of(headroom: Headroom) -> str:
    """The numbers of more Pods as a phrase, without and with preemption."""
    if (group := headroom.pod_group) is not None:
        groups = f"{plural(group.without_preemption, 'more group')} of {plural(group.pods, 'Pod')}"
        return f"{groups}, {group.with_preemption} with preemption"
    (without, preempting), quota = headroom.pods, headroom.quota
    first = f"{count_text(without)}{' without preemption' if preempting.pods > without.pods == 0 else ''}"
    limit = f" (limit: {quota_text(quota)})" if quota and quota.pods < headroom.preempting.pods else ""
    if headroom.largest:
        name, most = min(headroom.largest.items())
        limit = f" (no node is large enough: the largest has {cpu(most) if name == 'cpu' else memory(most)} {name})"
    elif quota is None and preempting.pods == without.pods:
        limit = most_frequent(by_nodes(headroom.reasons))
    answer = f"{first}, {number_text(preempting)} with preemption{_price(headroom.preempted)}{limit}"
    together = [] if headroom.all_node_groups is None else [headroom.all_node_groups]
    grown = {each.group: each.more.admitted for each in together or headroom.node_groups or ()}
    best = max(grown, key=lambda name: grown[name].pods, default=None)
    if best is None or not grown[best].pods:
        return answer
    return f"{answer}, {number_text(grown[best])} on new nodes of {f'group {best}' if best else 'all groups'}"


def _price(preempted: Preempted | None) -> str:
    """The number of preempted Pods as a phrase: ` of 4 Pods (3 violate a PDB)`; "" if unknown."""
    if preempted is None:
        return ""
    violate = plural(preempted.pdb_violations, "violates", "violate")
    violations = f" ({violate} a PDB)" if preempted.pdb_violations else ""
    return f" of {plural(preempted.pods, 'Pod')}{violations}"


def number_text(count: Count) -> str:
    return f"{'' if count.is_exact else 'at least '}{count.pods}"


def count_text(count: Count) -> str:
    """Return the number as a phrase: `12 more Pods`, `at least 2000 more Pods`, or `no more Pods`."""
    if not count.pods:
        return "no more Pods"
    return f"{'' if count.is_exact else 'at least '}{plural(count.pods, 'more Pod')}"


def limits_text(count: Count, zones: str = "") -> str:
    """Return the two limits as a phrase, `nodes: 4 more; ResourceQuota team: 0 more`; without a quota, `zones`.

    `zones`: a phrase with the Pods of each zone.
    """
    if (quota := count.quota) is None:
        return zones
    nodes = f"nodes: {number_text(count)} more{', ' if zones else ''}{zones}"
    return f"{nodes}; {quota_text(quota)}: {quota.pods} more"


def quota_text(quota: Quota) -> str:
    return f"ResourceQuota {cut(quota.quota, _LONGEST)}" if quota.quota else "quota"


def with_limits(count: Count, zones: str = "") -> str:
    """Return the number of Pods that fit and that quotas admit as a phrase, with both limits if a quota applies."""
    limits = limits_text(count, zones)
    return count_text(count.admitted) + (f" ({limits})" if limits else "")


def about(pod: Pod) -> str:
    """The class, the priority and the requests of a Pod as a phrase."""
    named = f"class {pod.priority_class_name}, " if pod.priority_class_name else ""
    return f"{named}priority {pod.effective_priority}, {size_of(pod)}"


def size_of(pod: Pod) -> str:
    """A phrase with a Pod's requests, for example `0.5 cpu, 6Gi memory and 1 nvidia.com/gpu each`."""
    asks = pod.occupies.resource
    parts = [f"{cpu(asks.milli_cpu)} cpu"] if asks.milli_cpu else []
    parts += [f"{memory(asks.memory)} memory"] if asks.memory else []
    parts += [f"{amount} {cut(name, _LONGEST)}" for name, amount in asks.scalars.items() if amount]
    return f"{first_of(parts, 'resource')} each" if parts else "no cpu or memory request"


def _lines(headroom: Headroom, paint: Painter) -> Iterator[str]:
    style = "good" if headroom.more[0] else "warning"
    if (group := headroom.pod_group) is not None:
        fit = f"{plural(group.without_preemption, 'more group')} of {plural(group.pods, 'Pod')} fit"
        preempting = f"{group.with_preemption} with preemption for the group"
        yield paint(f"PodGroup {group.name} (minCount {group.min_count}): {fit}; {preempting}", style)
    zones = listed([f"zone {zone} {count}" for zone, count in headroom.by_zone.items()], _SHOWN)
    yield paint(f"without preemption: {with_limits(headroom.without, zones)}", style)
    yield from _on_nodes(headroom)
    yield from (f"  {of_group(group)}" for group in (headroom.node_groups or ())[:_MAX_GROUPS])
    yield from left_out(len(headroom.node_groups or ()), _MAX_GROUPS, "node group", "  ")
    if headroom.all_node_groups is not None:
        yield f"  {of_group(headroom.all_node_groups)}"
    quota = headroom.quota
    rejects = [f"a ResourceQuota rejects further Pods: {one_line(quota.message)}"] if quota else []
    is_first = quota is not None and quota.pods <= headroom.without.pods
    yield from rejects * is_first
    if headroom.reasons:
        yield "why no more fit:"
        yield from (f"  {line}" for line in by_nodes(headroom.reasons[:_SHOWN]))
    for stranded in headroom.stranded[:_SHOWN]:
        free = stranded_text(stranded)
        if free:
            yield f"stranded on nodes with {insufficient_text(stranded)}: {free}"
    never = " (its class never preempts)" if headroom.pod.preemption_policy == "Never" else ""
    yield f"with preemption: {with_limits(headroom.preempting)}{never}"
    yield from rejects * (not is_first)
    if headroom.by_class:
        yield "with preemption, by PriorityClass:"
    yield from (f"  {_of_class(row)}" for row in headroom.by_class)
    yield from (f"note: {note}" for note in headroom.notes)


def _on_nodes(headroom: Headroom) -> Iterator[str]:
    by_node = sorted((headroom.without.by_node or {}).items(), key=lambda item: (-item[1], item[0]))
    if by_node:
        yield f"  on {listed([f'{node} ({count})' for node, count in by_node if count], _SHOWN)}"


def of_group(group: OfGroup) -> str:
    """Return a phrase about a node group: `and 40 more with up to 10 nodes of group spot-large`, or why no more Pods
    fit.
    """
    if group.reason:
        return f"no more with group {group.group}: {group.reason}"
    more = group.more.admitted
    why = limits_text(group.more) or ("limit of one scale-up" if group.capped else "")
    whose = f"of group {group.group}" if group.group else "of all groups together"
    which = f"with {up_to_nodes(group.nodes)} {whose}{f' ({why})' if why else ''}"
    return f"and {number_text(more)} more {which}" if more.pods else f"no more {which}"


def up_to_nodes(count: int) -> str:
    return plural(count, "node") if count == 1 else f"up to {plural(count, 'node')}"


def _of_class(row: OfClass) -> str:
    never = "" if row.preempts else ", never preempts"
    return f"{row.class_} ({row.priority}{never}): {with_limits(row.fitting)}"


def insufficient_text(stranded: Stranded) -> str:
    """The insufficient resources as a phrase: `insufficient cpu`, or `insufficient Pod slots and memory`."""
    return insufficient("Pod slots" if name == "pods" else name for name in stranded.insufficient)


def stranded_text(stranded: Stranded) -> str:
    """Return a phrase with the free amounts of cpu and memory that no replica can use."""
    free = {"cpu": cpu(stranded.milli_cpu), "memory": memory(stranded.memory)}
    scarce = () if "pods" in stranded.insufficient else stranded.insufficient
    return " and ".join(f"{amount} {name}" for name, amount in free.items() if name not in scarce)


def cpu(milli: int) -> str:
    """An amount of cpu in cores as text."""
    return f"{milli / 1000:g}" if milli < _LARGE_CPU else f"{milli // 1000}"


def memory(size: int) -> str:
    """An amount of memory in GiB as text."""
    return f"{size / _GIB:.4g}Gi" if size < 1000 * _GIB else f"{size / _GIB:.0f}Gi"


def _placeholders(reserve: Placeholders, headroom: Headroom, paint: Painter) -> Iterator[str]:
    """Lines about the placeholder Pods for a number of Pods."""
    yield paint(f"to start {plural(reserve.wanted, 'Pod')} without waiting for new nodes:", "bold")
    if headroom.quota is not None and headroom.quota.pods < reserve.wanted:
        only = plural(headroom.quota.pods, "Pod")
        yield paint(f"  ResourceQuota {cut(headroom.quota.quota, _LONGEST)} admits only {only}", "warning")
    if reserve.obstacle:
        yield paint(f"  placeholder Pods do not help: {reserve.obstacle}", "warning")
        yield "  Fix: use a CapacityBuffer, or a PriorityClass that preempts and has a higher value"
    else:
        existing, more = reserve.existing, reserve.create.pods
        seconds = existing.termination_seconds if existing.pods else 0
        grace = f", after up to {seconds} s of graceful termination" if seconds else ""
        room = f"room for {_pods(existing.reserve)}{grace}"
        if existing.pods:
            yield f"  {plural(existing.pods, 'existing placeholder Pod')}: {room}"
        elif not existing.pending:
            yield "  no existing placeholder Pods"
        if existing.pending:
            fewer = "; once scheduled, they may replace some of the following" if more else ""
            pending = plural(existing.pending, "placeholder Pod")
            yield paint(f"  {pending} Pending: no capacity reserved yet{fewer}", "warning")
        yield paint(f"  create {_of_size(reserve.create)}", "good" if not more else "warning")
    yield from (f"    {line}" for line in _where(reserve, headroom.all_node_groups))
    if reserve.capacity_buffer is not None and (reserve.create.pods or reserve.obstacle):
        yield f"  or: CapacityBuffer with replicas {reserve.wanted} (no Pods are preempted; -o json shows the manifest)"


def _buffers(buffers: Buffers, paint: Painter) -> Iterator[str]:
    """The CapacityBuffers of the cluster, against the number of replicas that is needed."""
    for buffer in buffers.buffers[:_MAX_GROUPS]:
        of = "" if buffer.replicas is None else f" of {buffer.replicas}"
        problem = f" ({buffer.problem})" if buffer.problem else ""
        yield f"CapacityBuffer {buffer.name_}: {buffer.provisioned}{of} replicas provisioned{problem}"
    yield from left_out(len(buffers.buffers), _MAX_GROUPS, "CapacityBuffer")
    if buffers.needed is not None:
        provided, needed = buffers.provisioned, plural(buffers.needed, "needed replica")
        is_all = provided >= buffers.needed
        which, style = (f"the {needed}", "good") if is_all else (f"{provided} of {needed}", "warning")
        yield paint(f"CapacityBuffers of this object provide {which}", style)
    if buffers.others.buffers:
        other, more = (plural(*of) for of in zip(buffers.others, ("CapacityBuffer", "replica"), strict=True))
        yield f"{other} of other workloads or PodTemplates: {more} provisioned"
    if buffers.provisioned or buffers.others.provisioned:
        yield "note: the numbers of Pods that fit include the capacity of CapacityBuffers, which kube-scheduler ignores"
    if buffers.incomplete:
        yield "note: not all CapacityBuffers are read; numbers of provisioned replicas may be too low"


def _of_size(new: NewPlaceholders) -> str:
    if not new.pods:
        return "no more placeholder Pods"
    named = f"PriorityClass {new.priority_class} (value {new.priority})"
    named = named if new.priority_class else f"a new PriorityClass with value {new.priority}"
    size = f"{cpu(new.milli_cpu)} cpu and {memory(new.memory)} memory"
    return f"{plural(new.pods, 'more placeholder Pod')} of {size} each, with {named}"


def _pods(count: int) -> str:
    return plural(count, "Pod") if count else "no Pods"


def _where(reserve: Placeholders, together: OfGroup | None) -> Iterator[str]:
    if len(reserve.pools) > 1 or any(pool.pool for pool in reserve.pools):
        yield from limited([*map(_of_pool, reserve.pools)], "pool", indent="")
    missing = reserve.create.pods - reserve.create.fit_now
    if not missing:
        return
    groups = reserve.node_groups
    alone = ", of one of these groups" if len(groups) > 1 else ""
    yield f"{plural(missing, 'placeholder Pod needs', 'placeholder Pods need')} new nodes{alone}"
    yield from limited([*map(_nodes_of_group, groups)], "node group", indent="")
    if together is not None and all(group.nodes is None for group in groups):
        yield f"all groups together: {_enough(missing, together)}"


def _of_pool(pool: PlaceholderPool) -> str:
    reserved = f", {pool.reserved} in place of placeholder Pods" if pool.reserved else ""
    return f"pool {pool.pool or '(no label)'}: {_pods(pool.free)} fit now{reserved}"


def _enough(missing: int, together: OfGroup) -> str:
    count = together.more.pods
    return "enough nodes" if count >= missing else f"not enough nodes (for {plural(count, 'Pod')})"


def _nodes_of_group(group: PlaceholderNodes) -> str:
    few = f"not enough nodes (for {plural(group.pods, 'Pod')})"
    return f"group {group.group}: {few if group.nodes is None else plural(group.nodes, 'node')}"


def markdown(result: ObjectHeadroom, asked: str = "", beside: Sequence[tuple[str, str]] = _ALONE) -> str:
    """The headroom as Markdown: nested lists. The parameters are those of `render`."""
    first, *rest = render(result, asked, beside=beside)
    items = (f"{' ' * (len(line) - len(line.lstrip()) - 2)}- {text_of(line.strip())}" for line in rest)
    return "\n".join([f"### {text_of(first)}", "", *items]) + "\n"
