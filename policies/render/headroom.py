"""The headroom (the number of further Pods that fit) as text and Markdown."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from forewarn.policies.findings import listed, plural
from forewarn.policies.render import Painter, plain
from forewarn.policies.render.markdown import text_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from forewarn.policies.objects.pod import Pod
    from forewarn.policies.whatif.capacity_buffers import Buffers
    from forewarn.policies.whatif.headroom import Count, Headroom, OfClass, OfGroup, Stranded
    from forewarn.policies.whatif.placeholders import Placeholders

_SHOWN: Final = 5
_MAX_GROUPS: Final = 20
_GIB: Final = 2**30
_LARGE_CPU: Final = 10**8
"""Amount of cpu in thousandths from which cores are printed without a fraction."""


def render(
    found: Headroom,
    paint: Painter = plain,
    reserve: Placeholders | None = None,
    buffers: Buffers | None = None,
) -> Iterator[str]:
    """The headroom as text lines."""
    pod = found.pod
    named = f"class {pod.priority_class_name}, " if pod.priority_class_name else ""
    size = size_of(pod)
    yield paint(f"{found.name} ({named}priority {pod.effective_priority}, {size})", "bold")
    yield from (f"  {line}" for line in _lines(found, paint))
    if reserve is not None:
        yield from (f"  {line}" for line in _placeholders(reserve, paint))
    if buffers is not None:
        yield from (f"  {line}" for line in _buffers(buffers, paint))


def count_text(count: Count) -> str:
    """Return the number as a phrase: `12 more Pods`, `at least 2000 more Pods`, or `no more Pods`."""
    if not count.pods:
        return "no more Pods"
    return f"{'' if count.is_exact else 'at least '}{plural(count.pods, 'more Pod')}"


def size_of(pod: Pod) -> str:
    """A phrase with a Pod's requests, for example `0.5 cpu and 6Gi memory each`."""
    asks = pod.occupies.resource
    parts = [f"{cpu(asks.milli_cpu)} cpu"] if asks.milli_cpu else []
    parts += [f"{memory(asks.memory)} memory"] if asks.memory else []
    return f"{' and '.join(parts)} each" if parts else "no cpu or memory request"


def _lines(found: Headroom, paint: Painter) -> Iterator[str]:
    style = "good" if found.more[0] else "warning"
    if (group := found.of_pod_group) is not None:
        fit = f"{plural(group.without, 'more group')} of {plural(group.size, 'Pod')} fit"
        preempting = f"{group.preempting} with preemption for the group"
        yield paint(f"PodGroup {group.name} (minCount {group.min_count}): {fit}; {preempting}", style)
    zones = listed([f"zone {zone} {count}" for zone, count in found.by_zone.items()], _SHOWN)
    yield paint(f"without preemption: {count_text(found.without)}", style) + (f" ({zones})" if zones else "")
    by_node = sorted((found.without.by_node or {}).items(), key=lambda item: (-item[1], item[0]))
    if by_node:
        yield f"  on {listed([f'{node} ({count})' for node, count in by_node if count], _SHOWN)}"
    yield from (f"  {of_group(group)}" for group in (found.groups or ())[:_MAX_GROUPS])
    if found.groups and len(found.groups) > _MAX_GROUPS:
        yield f"  and {len(found.groups) - _MAX_GROUPS} more node groups; use -o json for all"
    if found.reasons:
        yield "then no node fits:"
        yield from (f"  {plural(count, 'node')}: {reason}" for reason, count in found.reasons[:_SHOWN])
    for left in found.stranded[:_SHOWN]:
        free = stranded(left)
        if free:
            yield f"stranded on nodes with {insufficient(left)}: {free}"
    yield f"with preemption: {count_text(found.preempting)}{_never(found)}"
    if found.by_class:
        yield "with preemption, by PriorityClass:"
    yield from (f"  {_of_class(each)}" for each in found.by_class)
    yield from (f"note: {note}" for note in found.notes)


def _never(found: Headroom) -> str:
    return " (its class never preempts)" if found.pod.preemption_policy == "Never" else ""


def of_group(group: OfGroup) -> str:
    """Return a phrase about a node group: `and 40 more with up to 10 nodes of group spot-large`, or why no more Pods
    fit.
    """
    if group.why_not:
        return f"no more with group {group.name}: {group.why_not}"
    count = f"{'' if group.more.is_exact else 'at least '}{group.more.pods}"
    capped = " (limit of one scale-up)" if group.capped else ""
    return f"and {count} more with {up_to_nodes(group.nodes)} of group {group.name}{capped}"


def up_to_nodes(count: int) -> str:
    """A number of nodes as a phrase: `1 node`, or `up to 10 nodes`."""
    return plural(count, "node") if count == 1 else f"up to {plural(count, 'node')}"


def _of_class(found: OfClass) -> str:
    return f"{found.name} ({found.priority}{'' if found.preempts else ', never preempts'}): {count_text(found.fitting)}"


def insufficient(left: Stranded) -> str:
    """The insufficient resources as a phrase: `insufficient cpu`, or `insufficient memory and Pod slots`."""
    names = ["Pod slots" if name == "pods" else name for name in left.scarce]
    return f"insufficient {' and '.join(names)}"


def stranded(left: Stranded) -> str:
    """Return a phrase with the free amounts of cpu and memory that no replica can use."""
    if "pods" in left.scarce:
        return f"{cpu(left.milli_cpu)} cpu and {memory(left.memory)} memory"
    if left.scarce == ("cpu",):
        return f"{memory(left.memory)} memory"
    return f"{cpu(left.milli_cpu)} cpu" if left.scarce == ("memory",) else ""


def cpu(milli: int) -> str:
    """An amount of cpu in cores as text."""
    return f"{milli / 1000:g}" if milli < _LARGE_CPU else f"{milli // 1000}"


def memory(size: int) -> str:
    """An amount of memory in GiB as text."""
    return f"{size / _GIB:.3g}Gi" if size < 1000 * _GIB else f"{size / _GIB:.0f}Gi"


def _placeholders(found: Placeholders, paint: Painter) -> Iterator[str]:
    """Lines about the placeholder Pods for a number of Pods."""
    yield paint(f"to start {plural(found.wanted, 'Pod')} without waiting for new nodes:", "bold")
    if found.obstacle:
        yield paint(f"  placeholder Pods do not help: {found.obstacle}", "warning")
        yield "  Fix: use a CapacityBuffer, or a PriorityClass that preempts and has a higher value"
    else:
        grace = f", after up to {found.grace} s of graceful termination" if found.existing and found.grace else ""
        existing = plural(found.existing, "existing placeholder Pod")
        room = f"{existing}: room for {_pods(found.reserved)}{grace}"
        if found.existing or not found.pending:
            yield f"  {room if found.existing else 'no existing placeholder Pods'}"
        if found.pending:
            yield paint(f"  {plural(found.pending, 'placeholder Pod')} Pending: no capacity reserved yet", "warning")
        yield paint(f"  create {_of_size(found)}", "good" if not found.more else "warning")
    yield from (f"    {line}" for line in _where(found))
    if found.buffer is not None:
        yield f"  or: CapacityBuffer with replicas {found.wanted} (no Pods are preempted; -o json shows the manifest)"


def _buffers(found: Buffers, paint: Painter) -> Iterator[str]:
    """The CapacityBuffers of the cluster, against the number of replicas that is needed."""
    for each in found.own[:_MAX_GROUPS]:
        of = "" if each.replicas is None else f" of {each.replicas}"
        problem = f" ({each.problem})" if each.problem else ""
        yield f"CapacityBuffer {each.namespace}/{each.name}: {each.provisioned}{of} replicas provisioned{problem}"
    if len(found.own) > _MAX_GROUPS:
        yield f"and {len(found.own) - _MAX_GROUPS} more CapacityBuffers; use -o json for all"
    if found.needed is not None:
        style = "good" if found.provisioned >= found.needed else "warning"
        yield paint(f"CapacityBuffers for it provide {found.provisioned} of {found.needed} needed replicas", style)
    if found.others:
        more = plural(found.of_others, "replica")
        yield f"{plural(found.others, 'CapacityBuffer')} of other workloads or PodTemplates: {more} provisioned"
    if found.provisioned or found.of_others:
        yield "note: the counts above include the capacity of CapacityBuffers: kube-scheduler does not reserve it"
    if found.omitted:
        yield "more CapacityBuffers exist than forewarn reads"


def _of_size(found: Placeholders) -> str:
    if not found.more:
        return "no more placeholder Pods"
    asks = found.pod.occupies.resource
    named = f"PriorityClass {found.priority_class} (value {found.priority})"
    named = named if found.priority_class else f"a new PriorityClass with value {found.priority}"
    size = f"{cpu(asks.milli_cpu)} cpu and {memory(asks.memory)} memory"
    return f"{plural(found.more, 'more placeholder Pod')} of {size} each, with {named}"


def _pods(count: int) -> str:
    return plural(count, "Pod") if count else "no Pods"


def _where(found: Placeholders) -> Iterator[str]:
    if len(found.pools) > 1 or any(pool.pool for pool in found.pools):
        for pool in found.pools[:_MAX_GROUPS]:
            reserved = f", {pool.reserved} in place of placeholder Pods" if pool.reserved else ""
            yield f"pool {pool.pool or '(no label)'}: {_pods(pool.free)} fit now{reserved}"
    missing = found.more - found.fit
    if not missing:
        return
    yield f"{plural(missing, 'placeholder Pod needs', 'placeholder Pods need')} new nodes"
    for group in found.groups[:_MAX_GROUPS]:
        count = "not enough nodes" if group.nodes is None else plural(group.nodes, "node")
        yield f"group {group.group}: {count}"


def markdown(found: Headroom, reserve: Placeholders | None = None, buffers: Buffers | None = None) -> str:
    """The headroom as Markdown: nested lists."""
    first, *rest = render(found, reserve=reserve, buffers=buffers)
    items = (f"{' ' * (len(line) - len(line.lstrip()) - 2)}- {text_of(line.strip())}" for line in rest)
    return "\n".join([f"### {text_of(first)}", "", *items]) + "\n"
