"""The HTML page of `forewarn whatif pressure`: a sortable table for each requested part."""

from __future__ import annotations

from typing import TYPE_CHECKING

from forewarn.policies.findings import plural
from forewarn.policies.render import node_pressure
from forewarn.policies.render.html.elements import (
    Amount,
    Cell,
    Page,
    display_text,
    element,
    page_header,
    section,
    table,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from xml.etree.ElementTree import Element

    from forewarn.policies.application.node import NodePressure, Order
    from forewarn.policies.kubelet.admission import Admission
    from forewarn.policies.kubelet.eviction import Group


def report(answer: NodePressure) -> Page:
    """Return the page."""
    title = display_text(next(node_pressure.verdicts(answer)))
    parts = [page_header(title, _tiles(answer))]
    if answer.order:
        parts.append(section("Eviction order", "order", *_order(answer.order)))
    if answer.admission:
        parts.append(section("Kubelet admission", "door", *_admission(answer.admission, answer.node)))
    if answer.shutdown is not None:
        parts.append(section("Graceful shutdown, lowest priority first", "shutdown", *_shutdown(answer.shutdown)))
    return Page(title, parts, scripts=("tables.js",))


def _tiles(answer: NodePressure) -> Iterator[tuple[str, object, bool]]:
    if answer.order:
        usages = [place.usage for place in answer.order.places if place.usage]
        counted = [usage.exceeds for usage in usages if usage.exceeds is not None]
        yield "Pods that may be evicted", len(answer.order.places), False
        if counted:
            yield "above their request", sum(counted), any(counted)
        yield "usage unknown", len(answer.order.places) - len(usages), False
        yield "never evicted", len(answer.order.never), False
    if answer.admission:
        ends = (
            f"preempts {plural(len(answer.admission.preempted), 'Pod')}"
            if answer.admission.preempted
            else "no preemption"
        )
        rejected = answer.admission.rejection is not None
        is_bad = rejected or bool(answer.admission.preempted)
        yield "kubelet admission", "rejects it" if rejected else ends, is_bad
    if answer.shutdown is not None:
        yield "shutdown groups", len(answer.shutdown), False


def _order(order: Order) -> Iterator[Element]:
    """Yield the table of the eviction order. The Pod is the first column, which identifies a row."""
    place, pod, *others = node_pressure.PLACES
    yield table("Eviction order", (pod, place, *others), _places(order), len(order.places))
    if order.never:
        yield table("Never evicted", ("Pod (critical or static)",), ((key,) for key in order.never), len(order.never))


def _places(order: Order) -> Iterator[Sequence[Cell]]:
    """The rows of the eviction order. Unknown amounts are sorted below 0."""
    for number, place in enumerate(order.places, 1):
        used = Amount(node_pressure.uses(place, order.amount), place.usage.used if place.usage else -1)
        counts = place.usage is not None and place.usage.exceeds is not None
        requested = Amount(
            node_pressure.requests(place, order.amount), place.usage.requested if place.usage and counts else -1
        )
        yield place.pod.key, number, place.pod.priority, used, requested, node_pressure.reason(number, place)


def _admission(admission: Admission, node: str) -> Iterator[Element]:
    lines = (node_pressure.verdict(admission, node), *node_pressure.pod_status(admission))
    yield element("ul", *(element("li", display_text(line)) for line in lines), class_="plain")
    if admission.preempted:
        rows = ((pod.key, pod.priority, pod.qos) for pod in admission.preempted)
        yield table("Pods that the kubelet preempts", node_pressure.PREEMPTED_COLUMNS, rows, len(admission.preempted))


def _shutdown(groups: Sequence[Group]) -> Iterator[Element]:
    counts = ((group.priority, group.seconds, len(group.pods)) for group in groups)
    yield table("Shutdown groups", node_pressure.GROUPS, counts, len(groups))
    rows = ((pod.key, pod.priority, group.priority) for group in groups for pod in group.pods)
    heads = ("Pod", "priority", "group from priority")
    yield table("Pods by shutdown group", heads, rows, sum(len(group.pods) for group in groups))
