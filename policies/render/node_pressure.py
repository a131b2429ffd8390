"""Text of eviction order, kubelet preemption and graceful shutdown on a node, with reasons."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from forewarn.policies.application.node import NodePressure, Order, amount_of
from forewarn.policies.findings import cut, duration, first_of, listed, one_line, plural
from forewarn.policies.render import Painter, plain
from forewarn.policies.render.table import MAX_ROWS, left_out, markdown_table, text_of
from forewarn.policies.render.whatif import named

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from forewarn.policies.kubelet.admission import Admission
    from forewarn.policies.kubelet.eviction import Group, Place

MAX_LINES: Final = 200
_NAMED: Final = 10
_LONGEST: Final = 400
_LONGEST_LINE: Final = 1000
"""Maximum characters of a Markdown line: enough for a Pod and a node with the longest possible names."""


def render(answer: NodePressure, paint: Painter = plain) -> Iterator[str]:
    """The answers as text lines."""
    if answer.order:
        yield paint(evicted_first(answer.order, answer.node), "bold")
        yield from (f"  {line}" for line in _places(answer.order))
    if answer.admission:
        yield verdict(answer.admission, answer.node)
        yield from (f"  {line}" for line in pod_status(answer.admission))
        preempted = answer.admission.preempted
        yield from (f"  - {pod.key}  priority {pod.priority}, {pod.qos}" for pod in preempted[:MAX_LINES])
        yield from left_out(len(preempted), MAX_LINES, indent="  ")
    if answer.shutdown is not None:
        yield shutdown_time(answer.shutdown, answer.node)
        for group in answer.shutdown:
            yield f"  priority {group.priority} and above, {group.seconds} s: {_members(group)}"


def verdicts(answer: NodePressure) -> Iterator[str]:
    """The answer to each requested part, as a phrase."""
    if answer.order:
        yield evicted_first(answer.order, answer.node)
    if answer.admission:
        yield verdict(answer.admission, answer.node)
    if answer.shutdown is not None:
        yield shutdown_time(answer.shutdown, answer.node)


def evicted_first(order: Order, node: str) -> str:
    """The Pods that the kubelet evicts first, as a phrase."""
    first, later = _tied(order.places)
    second, last = _tied(later)
    more = f", then {plural(len(last), 'more Pod')}" if last else ""
    lasting = f"; if the pressure lasts, {_keys(second)}{more}" if second else ""
    evicts = f"{_keys(first, ' first')}{lasting}" if first else "no Pod"
    return f"the kubelet evicts {evicts}: {order.what} pressure on node {node}"


def _tied(places: Sequence[Place]) -> tuple[Sequence[Place], Sequence[Place]]:
    """The first place with those tied with it, and the others."""
    ties = next((n for n, place in enumerate(places) if n and not place.tied), len(places))
    return places[:ties], places[ties:]


def _keys(places: Sequence[Place], position: str = "") -> str:
    return f"{named([place.pod.key for place in places], 'Pod')}{position}{' (tied)' * (len(places) > 1)}"


def shutdown_time(groups: Sequence[Group], node: str) -> str:
    """The maximum time of a graceful shutdown, and the Pod that lacks most of its grace period, as a phrase."""
    waited = [group for group in groups if group.pods]
    seconds, pods = sum(group.seconds for group in waited), sum(len(group.pods) for group in waited)
    counted = f"{plural(pods, 'Pod')} in {plural(len(waited), 'group')}, lowest priority first"
    short = [(pod.grace - group.seconds, pod.priority, pod, group.seconds) for group in waited for pod in group.pods]
    if short := [each for each in short if each[0] > 0]:
        _, _, worst, time = max(short, key=lambda each: each[:2])
        which = f"{'at worst ' * (len(short) > 1)}{named([worst.key], 'Pod')}: {time} s of {worst.grace} s"
        counted += f"; {plural(len(short), 'Pod gets', 'Pods get')} less than the grace period ({which})"
    return f"at most {duration(seconds)} for {counted}: graceful shutdown of node {node}"


def _places(order: Order) -> Iterator[str]:
    places = order.places
    width, names = len(str(len(places))), max((len(place.pod.key) for place in places), default=0)
    for number, place in enumerate(places[:MAX_LINES], 1):
        tied = " (tied with the previous)" if place.tied else ""
        text = f"priority {place.pod.priority}: {place.reason}{tied}"
        yield f"{number:{width}}. {place.pod.key:{names}}  {text}"
    yield from left_out(len(places), MAX_LINES)
    if order.never:
        yield _never(order)
    if unknown := sum(place.usage is None for place in places):
        yield f"note: usage unknown for {plural(unknown, 'Pod')}; pass --stats for the order by usage"


def _never(order: Order) -> str:
    return f"never evicted: {listed(list(order.never), _NAMED)} (critical or static)"


def verdict(admission: Admission, node: str) -> str:
    """A sentence about the kubelet's admission of a Pod."""
    key, missing = admission.admitted.key, admission.insufficient
    if not missing and admission.rejection is None:
        return f"{key}: fits on {node}; the kubelet preempts no Pods"
    if not missing:
        return f"{key}: the kubelet of {node} rejects it"
    names = listed([f"{_amount(name, amount)} {name}" for name, amount in missing.items()])
    text = f"{key}: insufficient capacity on {node} (missing {names})"
    if admission.rejection is None:
        victims = first_of([pod.key for pod in admission.preempted], "Pod")
        return f"{text}: the kubelet preempts {victims}{admission.instead} and ignores PDBs"
    if not admission.admitted.critical:
        why = "not critical"
    elif admission.failed:
        why = "preemption would not help"
    else:
        why = "preempting every eligible Pod would not free enough"
    return f"{text}: {why}, the kubelet rejects it"


def pod_status(admission: Admission) -> Iterator[str]:
    """The reason and message in the status of a rejected Pod, as a line; nothing if the kubelet admits the Pod."""
    if admission.rejection is not None:
        yield f"{admission.rejection.reason}: {admission.rejection.message}"


def _amount(name: str, amount: int) -> str:
    return f"{amount / 1000:g}" if name == "cpu" else amount_of(name, amount)


def _members(group: Group) -> str:
    return listed([pod.key for pod in group.pods], _NAMED) or "no Pods"


PLACES: Final = ("order", "Pod", "priority", "uses", "requests", "reason")
PREEMPTED_COLUMNS: Final = ("Pod", "priority", "QoS class")
GROUPS: Final = ("minimum priority", "seconds", "Pods")


def uses(place: Place, amount: Callable[[int], str]) -> str:
    """The amount that a Pod uses, as text; `-` if unknown."""
    return amount(place.usage.used) if place.usage else "-"


def requests(place: Place, amount: Callable[[int], str]) -> str:
    """Return the amount that a Pod requests, as text; `-` if requests do not count for this signal, or the usage is
    unknown.
    """
    return amount(place.usage.requested) if place.usage and place.usage.exceeds is not None else "-"


def reason(number: int, place: Place) -> str:
    """Return the reason for a Pod's position, as a text that does not depend on the order of the rows."""
    return place.reason + (f" (tied with {number - 1})" if place.tied else "")


def markdown(answer: NodePressure) -> str:
    """Return the requested parts (eviction order, kubelet admission, shutdown) as Markdown, a table for each."""
    lines: list[str] = []
    if answer.order:
        order, amount = answer.order, answer.order.amount
        rows = (
            (n, p.pod.key, p.pod.priority, uses(p, amount), requests(p, amount), reason(n, p))
            for n, p in enumerate(order.places[:MAX_ROWS], 1)
        )
        lines += [f"### {_line(evicted_first(order, answer.node))}", ""]
        lines += [*_table(PLACES, rows, len(order.places)), ""]
        lines += [_line(_never(order)), ""] if order.never else []
    if answer.admission:
        preempted = answer.admission.preempted
        lines += [f"### {_line(verdict(answer.admission, answer.node))}", ""]
        lines += [part for line in pod_status(answer.admission) for part in (_line(line), "")]
        if preempted:
            victims = ((pod.key, pod.priority, pod.qos) for pod in preempted[:MAX_ROWS])
            lines += [*_table(PREEMPTED_COLUMNS, victims, len(preempted)), ""]
    if answer.shutdown is not None:
        groups = ((g.priority, g.seconds, len(g.pods), _members(g)) for g in answer.shutdown[:MAX_ROWS])
        lines += [f"### {_line(shutdown_time(answer.shutdown, answer.node))}", ""]
        lines += [*_table((*GROUPS, "names"), groups, len(answer.shutdown)), ""]
    return "\n".join(lines)


def _table(heads: Sequence[str], rows: Iterable[Sequence[str | int]], count: int) -> Iterator[str]:
    """The lines of a Markdown table. `count`: the number of all rows."""
    yield from markdown_table(heads, rows, longest=_LONGEST)
    if count > MAX_ROWS:
        yield from ("", *left_out(count, MAX_ROWS))


def _line(text: str) -> str:
    return text_of(cut(one_line(text), _LONGEST_LINE))
