"""Audiences of a text, and how many names and numbers of Pods an audience may see."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import Final, Protocol

from forewarn.policies.base.light import NamedTuple


class Disclose(StrEnum):
    """The names that a requester may see, besides those in the request."""

    NAMES = "names"
    """All names."""
    OWN_NAMESPACE = "own-namespace"
    """Names in the namespace of the request, and PriorityClasses that are allowed there."""
    COUNTS = "counts"
    """No names: forewarn shows only counts of Pods, nodes and classes."""


class Shown(NamedTuple):
    """How much of a prediction a requester may see.

    `coarse`: whether numbers about other Pods are shown as ranges. `not_predicted`: why the prediction is hidden; "" if
    shown.
    """

    coarse: bool = False
    not_predicted: str = ""


EXACT: Final = Shown()


class Range(NamedTuple):
    """The range that contains a number; both ends are equal for an exact number. None: no limit at that end."""

    lowest: int | None
    highest: int | None

    @property
    def is_exact(self) -> bool:
        return self.lowest == self.highest


_NO_MORE_THAN: Final = 5
_COUNTS: Final = (Range(0, 0), Range(1, _NO_MORE_THAN), Range(_NO_MORE_THAN + 1, None))
_PRIORITIES: Final = (Range(None, -1), Range(0, 999), Range(1_000, 999_999), Range(1_000_000, None))
_EACH: Final = 30
_MAX_LENGTH: Final = 300
"""Grace periods are shown in steps of 30 seconds up to this number of seconds."""


def count_range(number: int) -> Range:
    """Return the range of a count: 0, 1 to 5, or more."""
    return next(text for text in _COUNTS if text.highest is None or number <= text.highest)


def priority_range(lowest: int, highest: int) -> Range:
    """Return the range that contains two priority values. Ranges begin at 0, 1,000 and 1,000,000; one is below 0."""
    bands = [
        next(band for band in _PRIORITIES if band.highest is None or value <= band.highest)
        for value in (lowest, highest)
    ]
    return Range(bands[0].lowest, bands[1].highest)


def seconds_range(seconds: int) -> Range:
    """Return the interval of 30 seconds that contains a time; without upper end for more than 300 seconds."""
    if seconds > _MAX_LENGTH:
        return Range(_MAX_LENGTH + 1, None)
    highest = -(-seconds // _EACH) * _EACH
    return Range(max(highest - _EACH + 1, 0), highest)


class Audience(NamedTuple):
    """The readers of a text: users of `namespace` ("" for an object without namespace). Default: readers of all
    names.

    `knows`: returns whether these readers may learn that a PriorityClass of this name exists. `shown`: how much of a
    prediction they may see.
    """

    disclose: Disclose = Disclose.NAMES
    namespace: str = ""
    knows: Callable[[str], bool] = lambda _: True
    shown: Shown = EXACT

    @property
    def coarse(self) -> bool:
        """True if numbers about other Pods are shown as ranges, or not at all."""
        return self.shown != EXACT

    @property
    def sees_all(self) -> bool:
        """True if nothing is hidden: names of other namespaces, of nodes, of all classes."""
        return self.disclose is Disclose.NAMES

    def may_name(self, namespace: str) -> bool:
        """Report whether names of objects in this namespace are shown."""
        own = self.disclose is Disclose.OWN_NAMESPACE and bool(namespace) and namespace == self.namespace
        return self.sees_all or own


OPEN: Final = Audience()
"""Readers with full access: the audit log, logs, and users of commands."""


class _Pod(Protocol):
    """The fields of `policies.kubernetes.objects.pod.Pod` that messages contain."""

    @property
    def namespace(self) -> str: ...
    @property
    def key(self) -> str: ...
    @property
    def effective_priority(self) -> int: ...


class ShownPods(NamedTuple):
    """The names and numbers of Pods that an audience may see.

    `number`, `priorities`: those of all Pods. `named`: the names that the audience may read, as `namespace/name`, in
    the order of the Pods. `others`: the number of unnamed Pods, with their priorities (None if there are none) and the
    number of their namespaces: 0 if not shown, 1, or 2 for several.
    """

    number: Range
    priorities: Range
    named: tuple[str, ...]
    others: Range
    other_priorities: Range | None
    namespaces: int


def shown_pods(pods: Sequence[_Pod], audience: Audience) -> ShownPods:
    """Select the names and numbers of these Pods that the audience may see."""
    shown = pods if audience.sees_all else [pod for pod in pods if audience.may_name(pod.namespace)]
    others = [] if shown is pods else pods
    if shown and others:
        others = [pod for pod in pods if not audience.may_name(pod.namespace)]
    namespaces = 0
    if others and audience.disclose is Disclose.OWN_NAMESPACE:
        namespaces = 1 if not audience.coarse and len({pod.namespace for pod in others}) == 1 else 2
    priorities = _shown_priorities(pods, audience)
    return ShownPods(
        shown_count(len(pods), audience),
        priorities,
        tuple(pod.key for pod in shown),
        shown_count(len(others), audience),
        (priorities if others is pods else _shown_priorities(others, audience)) if others else None,
        namespaces,
    )


def shown_count(number: int, audience: Audience) -> Range:
    """Return a number of Pods as a Range: exact, or wider for an audience that sees only ranges."""
    return count_range(number) if audience.coarse else Range(number, number)


def shown_seconds(seconds: int, audience: Audience) -> Range:
    """Return a grace period in seconds as a Range: exact, or wider for an audience that sees only ranges."""
    return seconds_range(seconds) if audience.coarse else Range(seconds, seconds)


def _shown_priorities(pods: Sequence[_Pod], audience: Audience) -> Range:
    values = [pod.effective_priority for pod in pods] or [0]
    lowest, highest = min(values), max(values)
    return priority_range(lowest, highest) if audience.coarse else Range(lowest, highest)
