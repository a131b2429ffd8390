"""Who goes first on a node, for people: each place with its reason."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from policies.findings import listed, plural
from policies.kubelet.admission import NotEnough

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from policies.kubelet.eviction import Place
    from policies.kubelet.pods import KubeletPod
    from policies.kubelet.shutdown import Group

_UNITS: Final = (("Gi", 2**30), ("Mi", 2**20), ("Ki", 2**10))
MOST_LINES: Final = 200
_NAMED: Final = 10


def _plain(text: str, style: str) -> str:  # noqa: ARG001  (the signature of a painter)
    return text


def order(
    node: str,
    what: str,
    places: Sequence[Place],
    amount: Callable[[int], str],
    paint: Callable[[str, str], str] = _plain,
) -> Iterator[str]:
    """The order of eviction. `what`: the signal; `amount`: how its amounts are written."""
    evicted = [place for place in places if not place.pod.critical]
    yield paint(f"{node}, {what}: one pod at a time, until there is enough again", "bold")
    width, names = len(str(len(evicted))), max((len(place.pod.key) for place in evicted), default=0)
    for number, place in enumerate(evicted[:MOST_LINES], 1):
        tied = " (as the one before)" if place.tied and number > 1 else ""
        yield f"  {number:{width}}. {place.pod.key:{names}}  priority {place.pod.priority}: {why(place, amount)}{tied}"
    if len(evicted) > MOST_LINES:
        yield f"  and {len(evicted) - MOST_LINES} more: -o json has them all"
    spared = [place.pod.key for place in places if place.pod.critical]
    if spared:
        yield f"  never: {listed(spared, _NAMED)} (critical, or static)"


def why(place: Place, amount: Callable[[int], str]) -> str:
    """Why it is where it is."""
    if not place.known:
        return "nothing is known of what it uses"
    if place.exceeds is None:
        return f"{amount(place.used)} in use"
    difference = place.used - place.requested
    if place.exceeds:
        return f"uses {amount(place.used)}, {amount(difference)} more than it requests"
    return f"uses {amount(place.used)}, within the {amount(place.requested)} that it requests"


def size(number: int) -> str:
    """`1.5Gi`."""
    for unit, factor in _UNITS:
        if number >= factor:
            return f"{number / factor:.3g}{unit}"
    return str(number)


def processes(number: int) -> str:
    """`12 processes`."""
    return plural(number, "process", "processes")


def inodes(number: int) -> str:
    """`12 inodes`."""
    return plural(number, "inode")


def door(
    admitted: KubeletPod, lacks: Mapping[str, int], victims: Sequence[KubeletPod] | NotEnough, node: str
) -> Iterator[str]:
    """What becomes of a critical pod that comes to the kubelet itself."""
    if not lacks:
        yield f"{admitted.key}: there is room on {node}; nobody is ended for it"
        return
    told = listed([f"{_amount(name, amount)} {name}" for name, amount in lacks.items()])
    if not admitted.critical:
        yield f"{admitted.key}: {node} lacks {told}, and it is not critical: the kubelet refuses it"
    elif isinstance(victims, NotEnough):
        yield f"{admitted.key}: {node} lacks {told}; {victims}: the kubelet refuses it"
    else:
        ended = plural(len(victims), "pod")
        yield f"{admitted.key}: {node} lacks {told}; the kubelet ends {ended}, whatever their budgets say"
        yield from (f"  - {pod.key}  priority {pod.priority}, {pod.qos}" for pod in victims[:MOST_LINES])


def _amount(name: str, amount: int) -> str:
    return f"{amount / 1000:g}" if name == "cpu" else str(amount) if name == "pods" else size(amount)


def shutdown(groups: Sequence[Group]) -> Iterator[str]:
    """The groups of a graceful shutdown, in their order."""
    for group in groups:
        named = listed([pod.key for pod in group.pods], _NAMED) or "nobody"
        yield f"  from priority {group.priority}, within {group.seconds} s: {named}"
