"""Events about a Pod, its workload and nodes: the latest of each kind.

An Event names an object and its uid: with the name of a StatefulSet's Pod, there are Events of earlier Pods. Every user
with permission to create Events in a namespace can forge them, so their number and length are limited, messages are
quoted, and a condition of the Pod takes precedence.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

from forewarn.policies.findings import cut, one_line
from forewarn.policies.objects.fields import NOTHING, at, group_kind
from forewarn.policies.why.records import MAX_NAME, MAX_TEXT, seconds

if TYPE_CHECKING:
    from forewarn.policies.objects.fields import ApiObject

KINDS: Final = ("/Event", "events.k8s.io/Event")
PREEMPTED: Final = "Preempted"
"""The reason of kube-scheduler's Event about a victim. Source: pkg/scheduler/framework/preemption, executor.go."""
TAINT: Final = ("TaintManagerEviction", "DeviceTaintManagerEviction")
_REJECTED: Final = frozenset((
    "AppArmor", "InitContainerRestartPolicyForbidden", "InvalidNodeInfo", "NodeAffinity", "NodeName", "NodePorts",
    "NodeShutdown", "OutOfcpu", "OutOfmemory", "OutOfephemeral-storage", "OutOfpods", "PodFeatureUnsupported",
    "PodLevelResourcesNotSupported", "PodOSNotSupported", "PodOSSelectorNodeLabelDoesNotMatch",
    "SupplementalGroupsPolicyNotSupported", "SysctlForbidden", "TaintToleration", "TopologyAffinityError",
    "UnexpectedAdmissionError", "UnexpectedPredicateFailureType", "UnknownReason", "VolumeAttachmentLimitExceeded",
))  # fmt: skip
"""Reasons for which the kubelet does not admit a Pod, without those of extended resources (`OutOf…`).

Source: pkg/kubelet, kubelet.go, admissionRejectionReasons; lifecycle, predicate.go.
"""
DEADLINE: Final = "DeadlineExceeded"
DECISIVE: Final = frozenset((PREEMPTED, "Evicted", "Preempting", DEADLINE, *TAINT, *_REJECTED))
"""Reasons of Events that name the cause of a Pod's end."""
_OF_NODES: Final = frozenset(("NodeNotReady", "RemovingNode", "DeletingNode", "Shutdown", "SystemOOM", "Rebooted",
                              "NodeHasInsufficientMemory", "NodeHasDiskPressure", "NodeHasInsufficientPID",
                              "EvictionThresholdMet"))  # fmt: skip
_BY: Final = re.compile(r"Preempted by (?:pod|podgroup) (\S{1,64}) on node (\S{1,253})")
"""The note of a preemption's Event: the uid of the preemptor, and the node.

`related` should be the preemptor too, but is empty in 1.36, where kube-scheduler passes no Pod: `Could not construct
reference`.
"""
_DELETED: Final = re.compile(r"(?:\(combined from similar events\): ?)?(?:Deleted pod: (\S{1,253})$|"
                             r"[Dd]elete Pod (\S{1,253}) in StatefulSet \S{1,253} successful$)")  # fmt: skip
_ASSIGNED: Final = re.compile(r"Successfully assigned \S{1,317} to (\S{1,253})$")
LONG: Final = 300
"""Maximum characters of a message in the output."""
_LONG_REASON: Final = 60
_MAX: Final = 5
"""Maximum reasons in the output."""
_MAX_EVENTS: Final = 100
"""Maximum Events for a Pod about objects of one kind; the latest are recorded."""
_MAX_WORKLOAD_EVENTS: Final = 5000
_WHEN: Final = (
    ("series", "lastObservedTime"),
    ("lastTimestamp",),
    ("deprecatedLastTimestamp",),
    ("eventTime",),
    ("metadata", "creationTimestamp"),
)
"""The fields with the latest time of an Event; the first one that is set counts."""


class Event(NamedTuple):
    """An Event. `kind`, `name`, `uid`: of the object; uid "" if unknown. `when`: in seconds since 1970; 0 if unknown.

    `by`: namespace, name and uid of the preemptor, each "" if unknown. `node`: the node of a preemption.
    """

    kind: str
    name: str
    reason: str
    message: str
    uid: str = ""
    when: float = 0.0
    by: tuple[str, str, str] = ("", "", "")
    node: str = ""

    @property
    def is_rejection(self) -> bool:
        """True if the kubelet did not admit the Pod; the reason of an eviction is also that of a node's condition."""
        return self.reason in _REJECTED or (
            self.reason == "Evicted" and self.message.startswith("The node had condition")
        )


class Events:
    """The Events about one Pod or workload, and about objects that may explain its termination.

    Add them in any order.
    """

    def __init__(self, namespace: str, name: str, *, of_workload: bool = False) -> None:
        self._namespace, self._name, self._of_workload = namespace, name, of_workload
        self._max_events = _MAX_WORKLOAD_EVENTS if of_workload else _MAX_EVENTS
        self._last: dict[str, dict[tuple[str, ...], Event]] = {}
        self._index: _Index | None = None
        """Of the Events that are kept; None after another one was added."""
        self.limit = 0
        """The maximum of Events that are kept, if some were dropped; else 0."""
        self.read = 0
        """Number of Events that were added, about any object."""

    def add(self, obj: ApiObject) -> bool:
        """Add an object if it is an Event, and return whether it is."""
        if group_kind(obj) not in KINDS:
            return False
        self.read += 1
        about = _object(obj, "regarding") or _object(obj, "involvedObject")
        kind, name = _text(about, "kind"), _text(about, "name")
        if self._is_wanted(kind, _text(about, "namespace"), name, _text(obj, "reason")):
            self._keep(obj, kind, name, _text(about, "uid"))
        return True

    def _is_wanted(self, kind: str, namespace: str, name: str, reason: str) -> bool:
        if kind == "Node":
            return reason in _OF_NODES
        if not name or len(name) > MAX_NAME or namespace != self._namespace:
            return False
        if name == self._name or (self._of_workload and name.startswith(f"{self._name}-")):
            return True
        return not self._of_workload and kind != "Pod" and self._name.startswith(f"{name}-")

    def _keep(self, obj: ApiObject, kind: str, name: str, uid: str) -> None:
        reason = cut(one_line(_text(obj, "reason")), _LONG_REASON)
        message = cut(one_line(_text(obj, "note") or _text(obj, "message")), MAX_TEXT)
        by, node = _preemptor(obj, reason, message)
        event = Event(cut(one_line(kind), _LONG_REASON), name, reason, message, uid, _when(obj), by, node)
        self._index = None
        events = self._last.setdefault("Pod" if kind == "Pod" else "", {})
        key = (name, uid, reason) if kind == "Pod" else (kind, name, uid, reason, message)
        if key not in events or events[key].when <= event.when:
            events[key] = event
        if len(events) > 2 * self._max_events:
            self.limit = self._max_events
            self._last["Pod" if kind == "Pod" else ""] = self._bounded(events)

    def _bounded(self, events: dict[tuple[str, ...], Event]) -> dict[tuple[str, ...], Event]:
        best = sorted(events, key=lambda key: _rank(events[key]))[-self._max_events :]
        return {key: events[key] for key in best}

    def of_pod(self, name: str, uid: str = "") -> list[Event]:
        """Return the Events about the Pod with this name and uid ("": any), sorted by time."""
        return [e for e in self._indexed().of_pod.get(name, ()) if uid in ("", e.uid) or not e.uid]

    def pods(self) -> list[str]:
        """Return the names of all Pods that an Event is about, or that a controller deleted according to its Event."""
        return list(dict.fromkeys([*self._indexed().of_pod, *self._indexed().deletions]))

    def messages_of(self, name: str, uid: str) -> dict[str, str]:
        """Return reason -> message of the latest Events about the Pod, sorted by time."""
        shown = sorted(self.of_pod(name, uid), key=_rank)[-_MAX:]
        return {event.reason: cut(event.message, LONG) for event in sorted(shown, key=lambda event: event.when)}

    def preempted(self, name: str, uid: str) -> Event | None:
        """Return the last Event about a preemption of the Pod with this name and uid ("": any), or None."""
        preemptions = [event for event in self.of_pod(name, uid) if event.reason == PREEMPTED]
        return preemptions[-1] if preemptions else None

    def decisive(self, name: str, uid: str = "", since: float = 0.0) -> Event | None:
        """Return the last Event that names a cause of the Pod's termination, or None.

        `since`: the earliest time of an Event without uid.
        """
        events = [e for e in self.of_pod(name, uid) if _is_decisive(e) and (e.uid or e.when >= since)]
        return events[-1] if events else None

    def former(self, name: str, uid: str, created: float = 0.0) -> Event | None:
        """Return the last Event that names a cause of the termination of an earlier Pod with this name and
        another uid, or None.

        `created`: when the Pod with this uid was created; 0 if unknown. Events of taint eviction have no uid: they are
        about the Pod that existed then.
        """
        others = [e for e in self.of_pod(name) if _is_decisive(e) and e.uid != uid]
        earlier = [e for e in others if e.uid or 0 < e.when <= created]
        if not earlier or not uid:
            return None
        last = earlier[-1]
        # Events of taint eviction have whole seconds: an Event of the same second may be earlier.
        uids = [e.uid for e in self.of_pod(name) if e.uid not in ("", uid) and int(e.when) <= last.when]
        return last if last.uid or not uids else last._replace(uid=uids[-1])

    def last(self, name: str) -> tuple[str, float]:
        """Return the uid of the last Pod with this name, and the time of its first Event; ("", 0.0) if unknown."""
        uid = next((event.uid for event in reversed(self.of_pod(name)) if event.uid), "")
        return uid, min((event.when for event in self.of_pod(name) if event.uid == uid != ""), default=0.0)

    def deletion(self, name: str) -> Event | None:
        """Return the last Event in which a controller reports that it deleted the Pod, or None."""
        return self._indexed().deletions.get(name)

    def node_of(self, name: str, uid: str = "") -> str:
        """Return the node of the Pod with this name and uid ("": any) according to its Events; "" if unknown."""
        for event in reversed(self.of_pod(name, uid)):
            if event.node:
                return event.node
            if event.reason == "Scheduled" and (match := _ASSIGNED.match(event.message)):
                return match[1]
        return ""

    def others(self, kind: str, name: str = "") -> list[Event]:
        """Return the Events about workloads or nodes of this kind (and name, unless ""), sorted by time."""
        return [e for e in self._indexed().others.get(kind, ()) if name in ("", e.name)]

    def _indexed(self) -> _Index:
        if self._index is None:
            self._index = _Index({}, {}, {})
            for event in sorted(self._last.get("Pod", {}).values(), key=lambda event: event.when):
                self._index.of_pod.setdefault(event.name, []).append(event)
            for event in sorted(self._last.get("", {}).values(), key=lambda event: event.when):
                self._index.others.setdefault(event.kind, []).append(event)
                if name := _deleted(event):
                    self._index.deletions[name] = event
        return self._index


class _Index(NamedTuple):
    """The Events by Pod, the Events by kind of other objects, and the last deletion of each Pod.

    Lists are sorted by time.
    """

    of_pod: dict[str, list[Event]]
    others: dict[str, list[Event]]
    deletions: dict[str, Event]


def _is_decisive(event: Event) -> bool:
    return event.reason in DECISIVE and not event.message.startswith("Cancelling")


def _deleted(event: Event) -> str:
    """Return the name of the Pod that a controller deleted according to an Event; "" for other Events.

    Source: pkg/controller, controller_utils.go; statefulset, stateful_pod_control.go.
    """
    if event.reason != "SuccessfulDelete":
        return ""
    match = _DELETED.match(event.message)
    return match[1] or match[2] if match else ""


def _preemptor(obj: ApiObject, reason: str, message: str) -> tuple[tuple[str, str, str], str]:
    """Return ((namespace, name, uid) of the preemptor in an Event, the node); "" if unknown."""
    if reason != PREEMPTED:
        return ("", "", ""), ""
    match = _BY.match(message)
    uid, node = match.groups() if match is not None else ("", "")
    other = _object(obj, "related")
    if at(other, "kind") != "Pod":
        return ("", "", uid), node
    return (_text(other, "namespace"), _text(other, "name"), _text(other, "uid") or uid), node


def _rank(event: Event) -> tuple[bool, float]:
    """Return the sort key of Events: Events with a greater key are retained longer."""
    return event.reason in DECISIVE, event.when


def _object(obj: ApiObject, name: str) -> ApiObject:
    value = at(obj, name)
    return value if isinstance(value, dict) else NOTHING


def _text(obj: ApiObject, name: str) -> str:
    value = at(obj, name)
    return value[: 4 * MAX_TEXT] if isinstance(value, str) else ""


def _when(obj: ApiObject) -> float:
    return next((time for path in _WHEN if (time := seconds(at(obj, *path)))), 0.0)
