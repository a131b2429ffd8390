"""The records that explain the termination of a Pod or of a workload's Pods, collected while the cluster is read."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, get_args

from forewarn.policies.base.documents import Hidden, optional_in_json
from forewarn.policies.base.findings import brief, cut, grouped, with_fix
from forewarn.policies.kubernetes.kinds.registry import CRON_JOB, DEPLOYMENT, JOB, NODE, POD, REPLICA_SET
from forewarn.policies.kubernetes.objects.fields import (
    NOTHING,
    ApiObject,
    at,
    group_kind,
    list_at,
    mapping_at,
    moment_of,
    text_at,
)

if TYPE_CHECKING:
    from forewarn.policies.questions.why.post_mortem import PostMortem

MAX_PARTS: Final = 64
"""Maximum number of conditions, of containers, of finalizers and of taints that are read of one object."""
MAX_TEXT: Final = 1000
"""Maximum characters of a message that is parsed."""
MAX_NAME: Final = 253
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_NODE_TERMS: Final = ("spec", "affinity", "nodeAffinity", _REQUIRED, "nodeSelectorTerms")
_CREATING: Final = "ContainerCreating"
BACK_OFF: Final = "CrashLoopBackOff"
_USUAL: Final = (_CREATING, "PodInitializing", BACK_OFF)
"""Reasons of waiting containers that are no problem: they start soon, or their last termination is reported."""


class Condition(NamedTuple):
    """A condition of a Pod, Node or Job. `when`: in seconds since 1970; 0 if unknown."""

    type: str
    status: str
    reason: str = ""
    message: str = ""
    when: float = 0.0


class Container(NamedTuple):
    """The last termination of a container, which ran from `started` to `when`. `limit`: its memory limits, or "".
    `backs_off`: the kubelet waits before it restarts the container.
    """

    name: str
    reason: str
    exit_code: int
    started: float
    when: float
    restarts: int
    limit: str
    backs_off: bool = False

    @property
    def more(self) -> str:
        """The restarts and the back-off as a phrase; "" if there are none."""
        restarts = [f"{self.restarts} restarts"] if self.restarts > 1 else []
        parts = [*restarts, BACK_OFF] if self.backs_off else restarts
        return f"; {', '.join(parts)}" if parts else ""


class WaitingContainer(NamedTuple):
    """A container that does not start."""

    name: str
    reason: str
    message: str


class PodRecord(NamedTuple):
    """A Pod's status and deletion. `deleted`: the time of the deletion request; None without one."""

    namespace: str
    name: str
    uid: str = ""
    node: str = ""
    phase: str = ""
    reason: str = ""
    message: str = ""
    owner: tuple[str, str] = ("", "")
    """Kind and name of the Pod's controller."""
    created: float = 0.0
    """When the Pod was created; 0 if unknown."""
    deleted: float | None = None
    deadline: float = 0.0
    """The end of the Pod's grace period; 0 if the Pod was not deleted."""
    finalizers: tuple[str, ...] = ()
    conditions: tuple[Condition, ...] = ()
    terminated: tuple[Container, ...] = ()
    still_running: tuple[str, ...] = ()
    waiting: tuple[WaitingContainer, ...] = ()
    creating: tuple[str, ...] = ()
    """The containers that the kubelet has not created yet."""
    has_statuses: bool = True
    target_node: str = ""
    """The only node that the Pod's affinity allows, in the form that the DaemonSet controller writes."""
    gates: tuple[str, ...] = ()
    """The names of the Pod's scheduling gates."""

    @property
    def key(self) -> str:
        """The Pod as `namespace/name`."""
        return f"{self.namespace}/{self.name}"

    @property
    def has_terminated(self) -> bool:
        return self.disruption is not None or self.deleted is not None or self.phase in ("Failed", "Succeeded")

    @property
    def is_waiting(self) -> bool:
        """Whether a container does not start, or does not restart."""
        return bool(self.waiting) or any(container.backs_off for container in self.terminated)

    @property
    def disruption(self) -> Condition | None:
        """The condition DisruptionTarget if its status is True; otherwise None."""
        targets = (c for c in self.conditions if (c.type, c.status) == ("DisruptionTarget", "True"))
        return next(targets, None)


class NodeRecord(NamedTuple):
    """The health of a Node. `taints`: (key, time of addition) of its NoExecute taints."""

    name: str
    conditions: tuple[Condition, ...] = ()
    taints: tuple[tuple[str, float], ...] = ()
    cordoned: bool = False

    @property
    def not_ready(self) -> Condition | None:
        """The condition Ready if its status is not True; otherwise None."""
        not_ready = (c for c in self.conditions if c.type == "Ready" and c.status != "True")
        return next(not_ready, None)


class JobRecord(NamedTuple):
    """The failure of a Job. `failed`: its condition, or None. `ignores`: its policy ignores disrupted Pods."""

    name: str
    failed: Condition | None = None
    backoff_limit: int | None = None
    ignores: bool = False


def pod_record(obj: ApiObject) -> PodRecord:
    """The record of a Pod."""
    deadline = seconds(at(obj, "metadata", "deletionTimestamp"))
    grace = at(obj, "metadata", "deletionGracePeriodSeconds")
    deleted = deadline - _number(grace) if deadline else None
    statuses = [*_objects(obj, "status", "initContainerStatuses"), *_objects(obj, "status", "containerStatuses")]
    conditions, message = conditions_of(obj), _text(obj, "status", "message", longest=MAX_TEXT)
    node = _text(obj, "spec", "nodeName")
    fields = [field for term in _objects(obj, *_NODE_TERMS) for field in _objects(term, "matchFields")]
    is_of_daemon = [at(field, "key") for field in fields] == ["metadata.name"]
    target_node = _text(fields[0], "values", 0) if is_of_daemon else ""
    return PodRecord(
        namespace=_text(obj, "metadata", "namespace") or "default",
        name=_text(obj, "metadata", "name"),
        uid=_text(obj, "metadata", "uid"),
        node=node,
        phase=_text(obj, "status", "phase"),
        reason=_text(obj, "status", "reason"),
        message=message,
        owner=controller(obj),
        created=seconds(at(obj, "metadata", "creationTimestamp")),
        deleted=deleted,
        deadline=deadline,
        finalizers=tuple(
            brief(name, MAX_NAME) for name in _list(obj, "metadata", "finalizers") if isinstance(name, str)
        ),
        conditions=conditions,
        terminated=tuple(_terminated(obj, statuses)),
        still_running=tuple(
            _text(status, "name") for status in statuses if isinstance(at(status, "state", "running"), dict)
        ),
        waiting=tuple(_waiting(statuses)),
        creating=tuple(
            _text(status, "name") for status in statuses if at(status, "state", "waiting", "reason") == _CREATING
        ),
        has_statuses=not node
        or (any(at(status, "state") is not None for status in statuses) if statuses else bool(conditions or message)),
        target_node=target_node,
        gates=tuple(_text(gate, "name") for gate in _objects(obj, "spec", "schedulingGates")),
    )


def node_record(obj: ApiObject) -> NodeRecord:
    """Return the record of a Node's API object."""
    taints = (taint for taint in _objects(obj, "spec", "taints") if at(taint, "effect") == "NoExecute")
    added = tuple((_text(taint, "key"), seconds(at(taint, "timeAdded"))) for taint in taints)
    is_cordoned = at(obj, "spec", "unschedulable") is True
    return NodeRecord(_text(obj, "metadata", "name"), conditions_of(obj), added, is_cordoned)


def job_record(obj: ApiObject) -> JobRecord:
    """Return the record of a Job's API object. Source: pkg/controller/job, pod_failure_policy.go."""
    ends = [c for c in conditions_of(obj) if c.status == "True" and c.type in ("Failed", "FailureTarget")]
    limit = at(obj, "spec", "backoffLimit")
    failed = min(ends, key=lambda condition: condition.type, default=None)
    limit = limit if isinstance(limit, int) else None
    ignores = any(map(_ignores_disruption, _objects(obj, "spec", "podFailurePolicy", "rules")))
    return JobRecord(_text(obj, "metadata", "name"), failed, limit, ignores)


def _ignores_disruption(rule: ApiObject) -> bool:
    patterns = _objects(rule, "onPodConditions")
    return at(rule, "action") == "Ignore" and any(at(pattern, "type") == "DisruptionTarget" for pattern in patterns)


def conditions_of(obj: ApiObject) -> tuple[Condition, ...]:
    """Return the conditions in the status of an object."""
    return tuple(
        Condition(
            _text(condition, "type"),
            _text(condition, "status"),
            _text(condition, "reason"),
            _text(condition, "message", longest=MAX_TEXT),
            seconds(at(condition, "lastTransitionTime")),
        )
        for condition in _objects(obj, "status", "conditions")
    )


def controller(obj: ApiObject) -> tuple[str, str]:
    """Return the (kind, name) of an object's controller; ("", "") without one."""
    for owner in _objects(obj, "metadata", "ownerReferences"):
        if at(owner, "controller") is True:
            return _text(owner, "kind"), _text(owner, "name")
    return "", ""


def heartbeat_of(node: ApiObject) -> float:
    """Return the latest heartbeat in the conditions of a Node; 0 without one."""
    conditions = _objects(node, "status", "conditions")
    return max((seconds(at(condition, "lastHeartbeatTime")) for condition in conditions), default=0.0)


def seconds(value: object) -> float:
    """Return an API time in seconds since 1970; 0 if it is absent or malformed."""
    moment = moment_of(value) if isinstance(value, str) else None
    try:
        return moment.timestamp() if moment else 0.0
    except OverflowError:
        return 0.0


def shown_time(when: float) -> str:
    """Return a time (seconds since 1970) as text, `2026-11-22T03:12:07Z`; "" for an unknown time."""
    try:
        return f"{datetime.fromtimestamp(when, UTC):%Y-%m-%dT%H:%M:%SZ}" if when > 0 else ""
    except (ValueError, OverflowError, OSError):
        return ""


def _terminated(obj: ApiObject, statuses: list[ApiObject]) -> Iterator[Container]:
    """The current termination of each container; without one, the last one before a restart."""
    containers = [*_objects(obj, "spec", "initContainers"), *_objects(obj, "spec", "containers")]
    own = {_text(each, "name"): _text(each, "resources", "limits", "memory") for each in containers}
    of_pod = _text(obj, "spec", "resources", "limits", "memory")
    for status in statuses:
        name = _text(status, "name")
        for state in ("state", "lastState"):
            end = at(status, state, "terminated")
            if isinstance(end, dict):
                code, restarts = map(_number, (end.get("exitCode"), status.get("restartCount")))
                times = seconds(end.get("startedAt")), seconds(end.get("finishedAt"))
                limits = (("its", own.get(name)), ("its Pod's", of_pod))
                limit = " or ".join(f"{whose} memory limit of {most}" for whose, most in limits if most)
                backs_off = _text(status, "state", "waiting", "reason") == BACK_OFF
                yield Container(name, _text(end, "reason"), code, *times, restarts, limit, backs_off)
                break


def _waiting(statuses: list[ApiObject]) -> Iterator[WaitingContainer]:
    for status in statuses:
        reason = _text(status, "state", "waiting", "reason")
        if reason and reason not in _USUAL:
            message = _text(status, "state", "waiting", "message", longest=MAX_TEXT)
            yield WaitingContainer(_text(status, "name"), reason, message)


def _list(obj: ApiObject, *path: str) -> list[Any]:
    return [*list_at(obj, *path)[:MAX_PARTS]]


def _objects(obj: ApiObject, *path: str) -> list[ApiObject]:
    return [item for item in _list(obj, *path) if isinstance(item, dict)]


def _text(obj: ApiObject, *path: str | int, longest: int = MAX_NAME) -> str:
    return brief(text_at(obj, *path), longest)


def _number(value: object) -> int:
    return value if isinstance(value, int) else 0


PodState = Literal["pending", "preempted", "terminating", "running", "not-ready", "ended", "gone"]
STATES: Final = get_args(PodState)
IDS: Final = (
    *("preempted", "missing-lists", "former-preempted", "former-ended", "being-deleted", "gated", "other-scheduler"),
    *("class-gone", "class-changed", "not-predicted", "not-tried-yet", "will-preempt", "nominated-node-gone"),
    *("waits-for-termination", "overtaken", "never-preempts", "fits-nowhere", "cycle-error", "daemonset-pod-pending"),
    *("preempted-for-the-default", "preempted-for-a-class-that-is-gone", "preempted-before-lower"),
    *("node-pressure-evicted", "node-condition", "storage-limit-exceeded", "preempted-by-kubelet", "node-shutdown"),
    *("node-gone", "node-not-ready", "taint-evicted", "device-taint-evicted", "evicted-by-api", "drain-blocked"),
    *("rejected-by-kubelet", "deadline-exceeded", "disrupted", "oom-killed", "container-failed", "completed"),
    *("container-waiting", "deleted-by-controller", "scaled", "deleted", "stuck-terminating", "job-failed"),
    *("workload-fails", "workload-interrupted", "group-waits", "group-unschedulable"),
    *("group-will-preempt", "group-not-tried-yet", "container-not-ready"),
)
"""The ids of all Troubles."""


_WORDS: Final = {"never-preempts": "fits on no node, never preempts", "not-tried-yet": "fits now, not scheduled yet"}
_NAMES: Final = {"api": "API", "daemonset": "DaemonSet", "pod": "Pod"}


class Trouble(NamedTuple):
    """A reason for a Pod's state.

    `id`: for programs, such as `fits-nowhere`. `help`: the fix, what to wait for, or "". `when`: in seconds since 1970;
    0 if unknown. `reason`: the kubelet's word for it, such as OOMKilled, or "".
    """

    id: str
    message: str
    help: str = ""
    when: Hidden[float] = 0.0
    reason: Hidden[str] = ""

    @property
    def words(self) -> str:
        """The reason, or else the id as words."""
        in_words = self.reason or _WORDS.get(self.id)
        return in_words or " ".join(_NAMES.get(word, word) for word in self.id.split("-"))

    @optional_in_json
    def time(self) -> str | None:
        """The time in UTC; absent if unknown."""
        return shown_time(self.when) or None


def ids(troubles: Iterable[Trouble]) -> list[str]:
    return list(dict.fromkeys(trouble.id for trouble in troubles))


WITHOUT_EVENTS: Final = "no Events in the cluster snapshot", "add a cluster file with `kubectl get events -A -o json`"
"""What is missing, and the fix."""
NO_EVENTS: Final = with_fix(*WITHOUT_EVENTS)
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
"""Maximum number of reasons in the output."""
_MAX_EVENTS: Final = 100
"""Maximum number of Events for a Pod about objects of one kind; the latest are recorded."""
_MAX_WORKLOAD_EVENTS: Final = 5000
_WHEN: Final = (
    *(("series", "lastObservedTime"), ("lastTimestamp",), ("deprecatedLastTimestamp",)),
    *(("eventTime",), ("metadata", "creationTimestamp")),
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
        """True if the kubelet did not admit the Pod: the reason is in _REJECTED, or it is Evicted because of a node
        condition.
        """
        by_condition = self.message.startswith("The node had condition")
        return self.reason in _REJECTED or (self.reason == "Evicted" and by_condition)


class Events:
    """The Events about a Pod or workload, and about objects that may explain its end, added in any order."""

    def __init__(self, namespace: str, name: str, *, of_workload: bool = False) -> None:
        self._namespace, self._name, self._of_workload = namespace, name, of_workload
        self._max_events = _MAX_WORKLOAD_EVENTS if of_workload else _MAX_EVENTS
        self._last: dict[str, dict[tuple[str, ...], Event]] = {}
        self.limit = 0
        """The maximum number of Events that are kept, if some were dropped; otherwise 0."""
        self.read = 0
        """Number of Events that were added, about any object."""

    def add(self, obj: ApiObject) -> bool:
        """Add an object if it is an Event, and return whether it is."""
        if group_kind(obj) not in KINDS:
            return False
        self.read += 1
        about = mapping_at(obj, "regarding") or mapping_at(obj, "involvedObject")
        kind, name = _event_text(about, "kind"), _event_text(about, "name")
        if self._is_wanted(kind, _event_text(about, "namespace"), name, _event_text(obj, "reason")):
            self._keep(obj, kind, name, _event_text(about, "uid"))
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
        reason = brief(_event_text(obj, "reason"), _LONG_REASON)
        message = brief(_event_text(obj, "note") or _event_text(obj, "message"), MAX_TEXT)
        by, node = _preemptor(obj, reason, message)
        event = Event(brief(kind, _LONG_REASON), name, reason, message, uid, _event_time(obj), by, node)
        self.__dict__.pop("_index", None)
        events = self._last.setdefault("Pod" if kind == "Pod" else "", {})
        key = (name, uid, reason) if kind == "Pod" else (kind, name, uid, reason, message)
        if key not in events or events[key].when <= event.when:
            events[key] = event
        if len(events) > 2 * self._max_events:
            self.limit = self._max_events
            best = sorted(events, key=lambda key: _rank(events[key]))[-self._max_events :]
            self._last["Pod" if kind == "Pod" else ""] = {key: events[key] for key in best}

    def pod_events(self, name: str, uid: str = "") -> list[Event]:
        """Return the Events about the Pod with this name and uid ("": any), sorted by time."""
        return [e for e in self._index.of_pod.get(name, ()) if uid in ("", e.uid) or not e.uid]

    def pods(self) -> list[str]:
        """Return the names of all Pods that an Event is about, or that a controller deleted according to its Event."""
        return list(dict.fromkeys([*self._index.of_pod, *self._index.deletions]))

    def messages_of(self, name: str, uid: str) -> dict[str, str]:
        """Return, by reason, the message of the latest Events about the Pod, sorted by time."""
        shown = sorted(self.pod_events(name, uid), key=_rank)[-_MAX:]
        return {event.reason: cut(event.message, LONG) for event in sorted(shown, key=lambda event: event.when)}

    def creation_failure(self) -> str:
        """Return the message of the last Event about Pods that the workload's controllers could not create; or ""."""
        events = [event for event in self._last.get("", {}).values() if event.reason == "FailedCreate"]
        return max(events, key=_rank).message if events else ""

    def preempted(self, name: str, uid: str) -> Event | None:
        """Return the last Event about a preemption of the Pod with this name and uid ("": any), or None."""
        return next((event for event in reversed(self.pod_events(name, uid)) if event.reason == PREEMPTED), None)

    def decisive(self, name: str, uid: str = "", since: float = 0.0) -> Event | None:
        """Return the last Event that names a cause of termination, or None. `since`: for Events without uid."""
        events = reversed(self.pod_events(name, uid))
        return next((e for e in events if _is_decisive(e) and (e.uid or e.when >= since)), None)

    def former(self, name: str, uid: str, created: float = 0.0) -> Event | None:
        """Return the last Event that names a cause of the termination of an earlier Pod with this name and
        another uid, or None.

        `created`: when the Pod with this uid was created; 0 if unknown. Events of taint eviction have no uid: they are
        about the Pod that existed then.
        """
        others = [e for e in self.pod_events(name) if _is_decisive(e) and e.uid != uid]
        earlier = [e for e in others if e.uid or 0 < e.when <= created]
        if not earlier or not uid:
            return None
        last = earlier[-1]
        # Events of taint eviction have whole seconds: an Event of the same second may be earlier.
        uids = [e.uid for e in self.pod_events(name) if e.uid not in ("", uid) and int(e.when) <= last.when]
        return last if last.uid or not uids else last._replace(uid=uids[-1])

    def last(self, name: str) -> tuple[str, float]:
        """Return the uid of the last Pod with this name, and the time of its first Event; ("", 0.0) if unknown."""
        uid = next((event.uid for event in reversed(self.pod_events(name)) if event.uid), "")
        return uid, min((event.when for event in self.pod_events(name) if event.uid == uid != ""), default=0.0)

    def deletion(self, name: str) -> Event | None:
        """Return the last Event in which a controller reports that it deleted the Pod, or None."""
        return self._index.deletions.get(name)

    def node_of(self, name: str, uid: str = "") -> str:
        """Return the node of the Pod with this name and uid ("": any) according to its Events; "" if unknown."""
        for event in reversed(self.pod_events(name, uid)):
            if event.node:
                return event.node
            if event.reason == "Scheduled" and (match := _ASSIGNED.match(event.message)):
                return match[1]
        return ""

    def others(self, kind: str, name: str = "") -> list[Event]:
        """Return the Events about workloads or nodes of this kind (and name, unless ""), sorted by time."""
        return [e for e in self._index.others.get(kind, ()) if name in ("", e.name)]

    @cached_property
    def _index(self) -> _Index:
        """The index of the Events that are kept; computed again after another one is added."""
        of_pods, others = (
            sorted(self._last.get(kind, {}).values(), key=lambda event: event.when) for kind in ("Pod", "")
        )
        deletions = {name: event for event in others if (name := _deleted(event))}
        by_pod, by_kind = grouped((event.name, event) for event in of_pods), grouped((e.kind, e) for e in others)
        return _Index(by_pod, by_kind, deletions)


class _Index(NamedTuple):
    """The Events by Pod, by kind of other objects, and each Pod's last deletion. Lists are sorted by time."""

    of_pod: dict[str, list[Event]]
    others: dict[str, list[Event]]
    deletions: dict[str, Event]


class PreemptionEvents:
    """The last Events about the preemption of each Pod, collected while the cluster is read."""

    def __init__(self) -> None:
        self.last: dict[tuple[str, str, str], Event] = {}
        """(namespace, name, uid) of a victim -> the Event."""
        self.read = 0
        """Number of Events, about any object."""
        self.left_out = 0
        """Number of Events about Pods beyond the maximum."""
        self.latest = 0.0
        """The latest time in the objects."""
        self.earliest = 0.0
        """The time of the oldest Event; 0 without one."""
        self.conditions: dict[str, float] = {}
        """`namespace/name` of a disrupted Pod -> the time of the last change of its condition DisruptionTarget."""

    def collect(self, obj: ApiObject) -> bool | None:
        """Add an object of the cluster. Returns None, or False for an Event (see `Cache`)."""
        self.latest = max(self.latest, seconds(at(obj, "metadata", "creationTimestamp")))
        if (kind := group_kind(obj)) not in KINDS:
            targets = conditions_of(obj) if kind == POD else ()
            namespace, name = (text_at(obj, "metadata", key) for key in ("namespace", "name"))
            pod = f"{namespace or 'default'}/{name}"
            self.conditions.update((pod, each.when) for each in targets if each.type == "DisruptionTarget")
            return None
        self.read += 1
        when, reason = _event_time(obj), _event_text(obj, "reason")
        self.latest = max(self.latest, when)
        self.earliest = min(self.earliest or when, when) if when else self.earliest
        about = mapping_at(obj, "regarding") or mapping_at(obj, "involvedObject")
        namespace, name, uid = (_event_text(about, key) for key in ("namespace", "name", "uid"))
        key = namespace, name, uid
        if reason != PREEMPTED or len(name) > MAX_NAME:
            return False
        if key not in self.last and len(self.last) >= _MAX_WORKLOAD_EVENTS:
            self.left_out += 1
        else:
            message = brief(_event_text(obj, "note") or _event_text(obj, "message"), MAX_TEXT)
            by, node = _preemptor(obj, reason, message)
            if key not in self.last or self.last[key].when <= when:
                self.last[key] = Event("Pod", name, reason, message, uid, when, by, node)
        return False

    def recent_victims(self, period: float, now: float) -> list[tuple[str, Event]]:
        """Return the victims as `namespace/name`, each with its Event in the last `period` seconds; the newest come
        first.
        """
        events = [(f"{key[0]}/{key[1]}", event) for key, event in self.last.items() if now - event.when <= period]
        return sorted(events, key=lambda each: (-each[1].when, each[0]))


def _is_decisive(event: Event) -> bool:
    return event.reason in DECISIVE and not event.message.startswith("Cancelling")


def _deleted(event: Event) -> str:
    """Return the name of the Pod that a controller deleted according to an Event; "" for other Events.

    Source: pkg/controller, controller_utils.go; statefulset, stateful_pod_control.go.
    """
    match = _DELETED.match(event.message) if event.reason == "SuccessfulDelete" else None
    return match[1] or match[2] if match else ""


def _preemptor(obj: ApiObject, reason: str, message: str) -> tuple[tuple[str, str, str], str]:
    """Return ((namespace, name, uid) of the preemptor in an Event, the node); "" if unknown."""
    if reason != PREEMPTED:
        return ("", "", ""), ""
    match = _BY.match(message)
    uid, node = match.groups() if match is not None else ("", "")
    other = mapping_at(obj, "related")
    if at(other, "kind") != "Pod":
        return ("", "", uid), node
    return (_event_text(other, "namespace"), _event_text(other, "name"), _event_text(other, "uid") or uid), node


def _rank(event: Event) -> tuple[bool, float]:
    """Return the sort key of Events: Events with a greater key are retained longer."""
    return event.reason in DECISIVE, event.when


def _event_text(obj: ApiObject, name: str) -> str:
    return text_at(obj, name)[: 4 * MAX_TEXT]


def _event_time(obj: ApiObject) -> float:
    return next((time for path in _WHEN if (time := seconds(at(obj, *path)))), 0.0)


_OWNERS: Final = {DEPLOYMENT: "ReplicaSet", CRON_JOB: "Job"}
"""Workload kinds with Pods that belong to another workload in between."""


class Evidence:
    """The records of one Pod, or of the Pods of a workload (`kind`: `group/Kind`), and of related objects."""

    def __init__(self, namespace: str, name: str, kind: str = POD) -> None:
        self.namespace, self.name, self.kind = namespace, name, kind
        self.otherwise: Evidence | None = None
        """The evidence for the other meaning of an ambiguous name."""
        self.records: PostMortem | None = None
        """Records of audit logs and of an earlier snapshot; None if there are none."""
        self.events = Events(namespace, name, of_workload=kind != POD)
        self.not_read = ""
        """Why Events could not be read."""
        self.is_live = False
        self.preemptions = PreemptionEvents()
        self.workload: ApiObject = NOTHING
        self.pods: dict[str, PodRecord] = {}
        self.nodes: dict[str, NodeRecord] = {}
        self.jobs: dict[str, JobRecord] = {}
        self.ending: dict[str, PodRecord] = {}
        """The deleted Pods of all namespaces that still exist, by `namespace/name`."""
        self.latest = 0.0
        """The latest time in the objects: the state was not read before it."""
        self._owned: dict[str, tuple[str, str]] = {}
        """ReplicaSet or Job -> kind and name of its controller."""

    def collect(self, obj: ApiObject) -> bool | None:
        """Add an object of the cluster. Returns None, or False for an Event (see `Cache`)."""
        if self.otherwise is not None:
            self.otherwise.collect(obj)
        self.latest = max(self.latest, seconds(at(obj, "metadata", "creationTimestamp")))
        if self.kind == POD:
            self.preemptions.collect(obj)
        if self.events.add(obj):
            return False
        kind = group_kind(obj)
        name = at(obj, "metadata", "name")
        if kind == POD and at(obj, "metadata", "deletionTimestamp"):
            record = pod_record(obj)
            self.ending[record.key] = record
        if kind == NODE:
            self.nodes[str(name)] = node_record(obj)
            self.latest = max(self.latest, heartbeat_of(obj))
        elif isinstance(name, str) and (at(obj, "metadata", "namespace") or "default") == self.namespace:
            self._add(obj, kind, name)
        return None

    def _add(self, obj: ApiObject, kind: str, name: str) -> None:
        is_itself = (kind, name) == (self.kind, self.name)
        if kind == POD:
            if is_itself or (self.kind != POD and self._may_own(controller(obj)[1])):
                self.pods[name] = pod_record(obj)
            return
        if is_itself:
            self.workload = obj
        if kind in (REPLICA_SET, JOB) and (self._may_own(name) or self.name.startswith(f"{name}-")):
            self._owned[name] = controller(obj)
            if kind == JOB:
                self.jobs[name] = job_record(obj)

    def _may_own(self, name: str) -> bool:
        return name == self.name or name.startswith(f"{self.name}-")

    def owns(self, pod: str) -> bool:
        """Report whether a Pod belongs to the workload: by its name if the Pod no longer exists."""
        record = self.pods.get(pod)
        owner = record.owner[1] if record is not None else pod.rpartition("-")[0]
        if _OWNERS.get(self.kind) is None:
            own = self.kind.rpartition("/")[2]
            return owner == self.name and (record is None or record.owner[0] == own)
        above = self._owned.get(owner)
        return above == (self.kind.rpartition("/")[2], self.name) if above else owner.rpartition("-")[0] == self.name

    def event_names(self) -> list[str]:
        """Return the names of objects whose Events may explain the Pod; for a Pod that has terminated, also of possible
        owners.

        For a workload: [""], which means all names.
        """
        if self.kind != POD:
            return [""]
        record = self.pods.get(self.name)
        if record is not None and not record.has_terminated:
            return [self.name]
        owner = self.name.rpartition("-")[0]
        return [name for name in (self.name, owner, owner.rpartition("-")[0]) if name]

    def node(self) -> str:
        """Return the node of a Pod that has terminated, from its spec or its Events; "" for other Pods."""
        record = self.pods.get(self.name)
        if self.kind != POD or (record is not None and not record.has_terminated):
            return ""
        return record.node if record is not None else self.events.node_of(self.name)

    def forget(self) -> None:
        """Remove the records of Pods that do not belong to the workload."""
        self.pods = {name: pod for name, pod in self.pods.items() if self.kind == POD or self.owns(name)}

    @property
    def exists(self) -> bool:
        return bool(self.pods if self.kind == POD else self.workload)

    @property
    def has_audit_log(self) -> bool:
        return self.records is not None and self.records.has_audit_log

    @property
    def lacks_events(self) -> bool:
        return bool(self.not_read) or not (self.events.read or self.is_live)

    def missing(self) -> list[str]:
        """Return sentences about inputs that are missing for an answer, with the command to get them."""
        sentences = []
        if self.not_read:
            sentences.append(f"Events not read: {self.not_read}")
        elif self.lacks_events:
            sentences.append(NO_EVENTS)
        if self.events.limit:
            sentences.append(
                f"only the latest {self.events.limit} Events about Pods, and about their owners and nodes, count"
            )
        if not self.is_live and not all(pod.has_statuses for pod in self.pods.values()):
            which = f"-n {self.namespace} -o json"
            sentences.append(
                f"no statuses of Pods and containers. Fix: add a cluster file with `kubectl get pods {which}`"
            )
        return sentences + (self.records.notes if self.records is not None else [])
