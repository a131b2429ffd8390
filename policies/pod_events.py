"""What Events say of one pod: the last of each reason, and by whom it was pushed out.

An Event is about a name and a uid: a StatefulSet's pod has Events of the pods of its name before it. Anybody who may
write Events in a namespace may write these: they are quoted, and nothing is counted by them.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, NamedTuple

from policies.findings import cut, one_line
from policies.objects.fields import NOTHING, at, group_kind

if TYPE_CHECKING:
    from collections.abc import Callable

    from policies.objects.fields import ApiObject

KINDS: Final = ("/Event", "events.k8s.io/Event")
PREEMPTED: Final = "Preempted"
"""The reason of the scheduler's Event about a victim. Source: pkg/scheduler/framework/preemption, executor.go."""
_BY: Final = re.compile(r"Preempted by pod (\S{1,64}) on node (\S{1,253})")
"""Its note: the uid of the pod for which it goes. `related` is to be that pod too, and is empty in 1.36, where what is
handed over is no Pod: `Could not construct reference`."""
LONG: Final = 300
"""Characters of a message that are kept."""
_LONG_REASON: Final = 60
_MOST: Final = 5
"""Reasons that are told."""
_KEPT: Final = 100
"""Events that are kept at a time, the latest: a dump may hold any number."""
_WHEN: Final = (
    ("series", "lastObservedTime"),
    ("lastTimestamp",),
    ("deprecatedLastTimestamp",),
    ("eventTime",),
    ("metadata", "creationTimestamp"),
)
"""Where an Event says when it was last so, the first that does."""


class PodEvent(NamedTuple):
    """One Event about the pod. `uid`: of the pod, empty where it does not say; `when`: in seconds since 1970, 0 where
    it does not say. `by`, of a preemption: namespace, name and uid of the pod for which it was, each empty where that
    is not told; `node` likewise."""

    reason: str
    message: str
    uid: str = ""
    when: float = 0.0
    by: tuple[str, str, str] = ("", "", "")
    node: str = ""


class PodEvents:
    """The Events about one pod, as they are read, in any order."""

    def __init__(self, namespace: str, name: str) -> None:
        self._about = ("Pod", namespace, name)
        self._last: dict[tuple[str, str], PodEvent] = {}

    def add(self, obj: ApiObject) -> bool:
        """Take in an object that was read; whether it is an Event, about whatever."""
        if group_kind(obj) not in KINDS:
            return False
        about = _object(obj, "regarding") or _object(obj, "involvedObject")
        if (at(about, "kind"), at(about, "namespace"), at(about, "name")) == self._about:
            self._keep(obj, _text(about, "uid"))
        return True

    def _keep(self, obj: ApiObject, uid: str) -> None:
        reason = cut(one_line(_text(obj, "reason")), _LONG_REASON)
        message = cut(one_line(_text(obj, "note") or _text(obj, "message")), LONG)
        found = PodEvent(reason, message, uid, _when(obj), *_preemptor(obj, reason, message))
        key = uid, reason
        if key not in self._last or self._last[key].when <= found.when:
            self._last[key] = found
        if len(self._last) > _KEPT:
            del self._last[min(self._last, key=lambda each: _rank(self._last[each]))]

    def said(self, uid: str) -> dict[str, str]:
        """Reason -> what the last such Event about the pod of this uid says, of the latest reasons; in their order."""
        found = [event for event in self._last.values() if not (uid and event.uid and event.uid != uid)]
        told = sorted(found, key=_rank)[-_MOST:]
        return {event.reason: event.message for event in sorted(told, key=lambda event: event.when)}

    def preempted(self, uid: str) -> PodEvent | None:
        """The last Event of a preemption of the pod of this uid; of any pod of its name where `uid` is empty."""
        return self._last_preemption(lambda event: uid in ("", event.uid) or not event.uid)

    def former_preempted(self, uid: str) -> PodEvent | None:
        """The last Event of a preemption of another pod of this name, one before it."""
        return self._last_preemption(lambda event: event.uid not in ("", uid))

    def _last_preemption(self, wanted: Callable[[PodEvent], bool]) -> PodEvent | None:
        found = [event for event in self._last.values() if event.reason == PREEMPTED and wanted(event)]
        return max(found, key=lambda event: event.when, default=None)


def _preemptor(obj: ApiObject, reason: str, message: str) -> tuple[tuple[str, str, str], str]:
    """Whom an Event of a preemption was for (namespace, name, uid), and on which node."""
    if reason != PREEMPTED:
        return ("", "", ""), ""
    said = _BY.match(message)
    uid, node = said.groups() if said is not None else ("", "")
    other = _object(obj, "related")
    if at(other, "kind") != "Pod":
        return ("", "", uid), node
    return (_text(other, "namespace"), _text(other, "name"), _text(other, "uid") or uid), node


def _rank(event: PodEvent) -> tuple[bool, float]:
    """What is rather kept is greater."""
    return event.reason == PREEMPTED, event.when


def _object(obj: ApiObject, name: str) -> ApiObject:
    """A field where it is an object, else an empty one: an Event that is not as it should be stops nothing."""
    value = at(obj, name)
    return value if isinstance(value, dict) else NOTHING


def _text(obj: ApiObject, name: str) -> str:
    value = at(obj, name)
    return value if isinstance(value, str) else ""


def _when(obj: ApiObject) -> float:
    for path in _WHEN:
        value = at(obj, *path)
        if isinstance(value, str) and value:
            try:
                moment = datetime.fromisoformat(value)
                return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
            except (ValueError, OverflowError):
                continue
    return 0.0
