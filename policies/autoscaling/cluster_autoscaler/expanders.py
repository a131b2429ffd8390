"""Choose the node group to scale up. Source: expander/{waste,leastnodes,mostpods,priority,random}, factory/chain.go."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from itertools import chain
from math import inf, nan
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from forewarn.policies.autoscaling.autoscaler import NotPredicted
from forewarn.policies.findings import cut, one_line
from forewarn.policies.manifests import Fault, values
from forewarn.policies.metering import charge
from forewarn.policies.objects.resources import CPU, MEMORY
from forewarn.policies.quantity import NANO

if TYPE_CHECKING:
    from forewarn.policies.autoscaling.cluster_autoscaler.estimator import Estimate

DEFAULT: Final = "least-waste"
RANDOM: Final = "random"
PRIORITY: Final = "priority"
PRIORITIES: Final = "cluster-autoscaler-priority-expander"
"""The ConfigMap of the expander priority."""
_MAX_TEXT: Final = 1 << 16
_MAX_NESTED: Final = 10
_TOKEN: Final = re.compile(
    r"\[\^?\]?(?:\\(?:[dDsSwW]|[^\w\s])|[^\\\[\]])*\]|\\(?:[dDsSwW]|[^\w\s])|\(\?:|[^\\]", re.ASCII | re.DOTALL
)
"""A character class, an escaped character, the start of a group, or another character of a regular expression."""

_Ends = Callable[[str, set[int]], set[int]]
"""Function of a text and positions: the positions after a match that starts at one of these."""


class Option(NamedTuple):
    """What one node group offers: `nodes` new nodes for `pods` Pods.

    `waste`: the idle share of the new nodes' cpu plus that of their memory.
    """

    group: str
    nodes: int
    pods: int
    waste: float


_PrioritiesOf = Callable[[Option], frozenset[int]]


def option_of(estimate: Estimate) -> Option:
    """Return the option of an estimate."""
    capacity, nodes = estimate.group.capacity, estimate.nodes
    requests = [pod.occupies.resource for pod, _ in estimate.placed]
    cpu, memory = -(-capacity.get(CPU, 0) * 1000 // NANO), -(-capacity.get(MEMORY, 0) // NANO)
    waste = _idle(cpu * nodes, sum(request.milli_cpu for request in requests))
    waste += _idle(memory * nodes, sum(request.memory for request in requests))
    return Option(estimate.group.name, nodes, len(estimate.placed), waste)


def _idle(available: int, requested: int) -> float:
    if available:
        return (available - requested) / available
    return -inf if requested else nan


def _least_waste(options: Sequence[Option], _: _PrioritiesOf) -> Sequence[Option]:
    best: list[Option] = []
    least = 0.0
    for option in options:
        if best and option.waste == least:
            best.append(option)
        if not best or option.waste < least:
            least, best = option.waste, [option]
    return best


def _least_nodes(options: Sequence[Option], _: _PrioritiesOf) -> Sequence[Option]:
    least = min(option.nodes for option in options)
    return [option for option in options if option.nodes == least]


def _most_pods(options: Sequence[Option], _: _PrioritiesOf) -> Sequence[Option]:
    most = max(option.pods for option in options)
    return [option for option in options if option.pods == most]


class InvalidExpression(ValueError):
    """The error for a regular expression that Go rejects."""


class Expression:
    """A regular expression of Go. The work is bounded by `charge`, unlike that of Python's module re.

    Raises InvalidExpression, and NotPredicted for syntax that is not modelled.
    """

    def __init__(self, text: str) -> None:
        self._text, self._nested = text, 0
        self._left = _TOKEN.findall(text)[::-1]
        if "".join(reversed(self._left)) != text:
            raise self._not_modelled
        self._ends = self._either()
        if self._left:
            raise InvalidExpression("unexpected )")

    def is_in(self, text: str) -> bool:
        """Report whether a part of the text matches."""
        return bool(self._ends(text, set(range(len(text) + 1))))

    @property
    def _not_modelled(self) -> NotPredicted:
        return NotPredicted(f'expression "{cut(one_line(self._text), 80)}" of ConfigMap {PRIORITIES} is not modelled')

    def _take(self, *tokens: str) -> bool:
        taken = bool(self._left) and self._left[-1] in tokens
        if taken:
            self._left.pop()
        return taken

    def _either(self) -> _Ends:
        branches = [self._sequence()]
        while self._take("|"):
            branches.append(self._sequence())
        return lambda text, starts: set(chain.from_iterable(branch(text, starts) for branch in branches))

    def _sequence(self) -> _Ends:
        parts: list[_Ends] = []
        while self._left and self._left[-1] not in "|)":
            parts.append(self._repeated(self._single()))

        def ends(text: str, starts: set[int]) -> set[int]:
            charge(1 + len(starts))
            for part in parts:
                if not starts:
                    break
                charge(len(starts))
                starts = part(text, starts)
            return starts

        return ends

    def _repeated(self, once: _Ends) -> _Ends:
        repeats = next((token for token in "*+?" if self._take(token)), "")
        if repeats:
            self._take("?")  # prefers few, but matches the same texts

        def star(text: str, starts: set[int]) -> set[int]:
            ends, new = set(starts), starts
            while new:
                new = once(text, new) - ends
                ends |= new
            return ends

        many: dict[str, _Ends] = {
            "": once,
            "*": star,
            "+": lambda text, starts: star(text, once(text, starts)),
            "?": lambda text, starts: starts | once(text, starts),
        }
        return many[repeats]

    def _single(self) -> _Ends:
        token = self._left.pop()
        if token in ("*", "+", "?"):
            raise InvalidExpression("missing argument to repetition operator")
        if token in ("(", "(?:"):
            return self._group()
        if token == "^":
            return lambda _, starts: starts & {0}
        if token == "$":
            return lambda text, starts: starts & {len(text)}
        if token in "[{" or any(twice in token for twice in ("--", "&&", "||", "~~")):
            raise self._not_modelled
        try:
            matches = re.compile(token if token[0] in "[\\." else re.escape(token), re.ASCII).match
        except re.error:
            raise self._not_modelled from None

        return lambda text, starts: {start + 1 for start in starts if matches(text, start)}

    def _group(self) -> _Ends:
        self._nested += 1
        if self._nested > _MAX_NESTED or (self._left and self._left[-1] == "?"):
            raise self._not_modelled
        ends = self._either()
        if not self._take(")"):
            raise InvalidExpression("missing closing )")
        self._nested -= 1
        return ends


class Priorities:
    """The priorities of node groups in the text of a ConfigMap. Source: `parsePrioritiesYAMLString`."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._of: dict[str, frozenset[int]] = {}

    def of(self, group: str) -> frozenset[int]:
        """Return the priorities of a node group by its id in the cloud provider. Raises NotPredicted."""
        if group not in self._of:
            self._of[group] = frozenset(
                priority for priority, several in self._expressions if any(item.is_in(group) for item in several)
            )
        return self._of[group]

    @cached_property
    def _expressions(self) -> list[tuple[int, list[Expression]]]:
        if len(self._text) > _MAX_TEXT:
            raise NotPredicted(f"ConfigMap {PRIORITIES} has more than {_MAX_TEXT} characters")
        try:
            document: Any = next((value.value for value in values(self._text.encode(), PRIORITIES)), {})
            return [(int(key), [Expression(text) for text in _texts(some)]) for key, some in dict(document).items()]
        except (Fault, ValueError, TypeError):
            return []  # upstream ignores all priorities


def _texts(entries: Any) -> list[str]:
    """Return a list of strings as upstream reads it. Raises TypeError."""
    if not isinstance(entries, list | None) or any(isinstance(entry, list | dict) for entry in entries or ()):
        raise TypeError
    return ["" if entry is None else str(entry) for entry in entries or ()]


def _highest_priority(options: Sequence[Option], priorities_of: _PrioritiesOf) -> Sequence[Option]:
    priorities = [priorities_of(option) for option in options]
    highest = max(-1, max(chain.from_iterable(priorities), default=-1))
    return [option for option, some in zip(options, priorities, strict=True) if highest in some] or options


FILTERS: Final[Mapping[str, Callable[[Sequence[Option], _PrioritiesOf], Sequence[Option]]]] = {
    DEFAULT: _least_waste,
    "least-nodes": _least_nodes,
    "most-pods": _most_pods,
    PRIORITY: _highest_priority,
    RANDOM: lambda options, _: options,
}


def best_options(
    options: Sequence[Option],
    expanders: Sequence[str],
    priorities: Priorities | None = None,
    ids: Mapping[str, str] | None = None,
) -> Sequence[Option]:
    """Return the options from which upstream chooses randomly. Raises NotPredicted.

    `expanders`: of --expander. `priorities`: of node groups; None if unknown. `ids`: name of a group -> its id.
    """

    def priorities_of(option: Option) -> frozenset[int]:
        if priorities is None:
            raise NotPredicted(f'expander "{PRIORITY}" needs the ConfigMap {PRIORITIES} of cluster-autoscaler')
        return priorities.of((ids or {}).get(option.group) or option.group)

    for name in expanders:
        if name not in FILTERS:
            raise NotPredicted(f'expander "{name}" is not modelled')
        options = FILTERS[name](options, priorities_of)
    return options
