"""Records of Pods, Nodes and Jobs that explain terminations: conditions, container statuses, deletion.

Reading never fails: a field of the wrong type counts as absent. All parts are limited, because objects are not trusted.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from forewarn.policies.findings import cut, one_line
from forewarn.policies.objects.fields import at

if TYPE_CHECKING:
    from collections.abc import Iterator

    from forewarn.policies.objects.fields import ApiObject

MAX_PARTS: Final = 64
"""Maximum conditions, containers, finalizers and taints that are read of one object."""
MAX_TEXT: Final = 1000
"""Maximum characters of a message that is parsed."""
MAX_NAME: Final = 253
_CREATING: Final = "ContainerCreating"
_USUAL: Final = (_CREATING, "PodInitializing", "CrashLoopBackOff")
"""Reasons of waiting containers that start soon, or whose last termination is reported."""


class Condition(NamedTuple):
    """A condition of a Pod, Node or Job. `when`: in seconds since 1970; 0 if unknown."""

    type: str
    status: str
    reason: str = ""
    message: str = ""
    when: float = 0.0


class Container(NamedTuple):
    """The last termination of a container, which ran from `started` to `when`. `limit`: its memory limit or ""."""

    name: str
    reason: str
    exit_code: int
    started: float
    when: float
    restarts: int
    limit: str


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
    priority: int = 0
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

    @property
    def key(self) -> str:
        """The Pod as `namespace/name`."""
        return f"{self.namespace}/{self.name}"

    @property
    def has_terminated(self) -> bool:
        return self.disruption is not None or self.deleted is not None or self.phase in ("Failed", "Succeeded")

    @property
    def disruption(self) -> Condition | None:
        """The condition DisruptionTarget if its status is True; otherwise None."""
        return next(
            (
                condition
                for condition in self.conditions
                if (condition.type, condition.status) == ("DisruptionTarget", "True")
            ),
            None,
        )


class NodeRecord(NamedTuple):
    """The health of a Node. `taints`: (key, time of addition) of its NoExecute taints."""

    name: str
    conditions: tuple[Condition, ...] = ()
    taints: tuple[tuple[str, float], ...] = ()
    cordoned: bool = False

    @property
    def not_ready(self) -> Condition | None:
        """The condition Ready if its status is not True; otherwise None."""
        return next(
            (condition for condition in self.conditions if condition.type == "Ready" and condition.status != "True"),
            None,
        )


class JobRecord(NamedTuple):
    """The failure of a Job. `failed`: its condition, or None.

    `ignores`: whether the podFailurePolicy ignores disrupted Pods.
    """

    name: str
    failed: Condition | None = None
    backoff_limit: int | None = None
    ignores: bool = False


def pod_record(obj: ApiObject) -> PodRecord:
    """The record of a Pod."""
    deadline = seconds(at(obj, "metadata", "deletionTimestamp"))
    grace = at(obj, "metadata", "deletionGracePeriodSeconds")
    deleted = deadline - (grace if isinstance(grace, int) else 0) if deadline else None
    priority = at(obj, "spec", "priority")
    statuses = [*_objects(obj, "status", "initContainerStatuses"), *_objects(obj, "status", "containerStatuses")]
    conditions, message = conditions_of(obj), _text(obj, "status", "message", most=MAX_TEXT)
    node = _text(obj, "spec", "nodeName")
    return PodRecord(
        namespace=_text(obj, "metadata", "namespace") or "default",
        name=_text(obj, "metadata", "name"),
        uid=_text(obj, "metadata", "uid"),
        node=node,
        priority=priority if isinstance(priority, int) else 0,
        phase=_text(obj, "status", "phase"),
        reason=_text(obj, "status", "reason"),
        message=message,
        owner=controller(obj),
        created=seconds(at(obj, "metadata", "creationTimestamp")),
        deleted=deleted,
        deadline=deadline,
        finalizers=tuple(_line(name) for name in _list(obj, "metadata", "finalizers") if isinstance(name, str)),
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
        target_node=_target_node(obj),
    )


def node_record(obj: ApiObject) -> NodeRecord:
    """Return the record of a Node's API object."""
    taints = (taint for taint in _objects(obj, "spec", "taints") if at(taint, "effect") == "NoExecute")
    return NodeRecord(
        _text(obj, "metadata", "name"),
        conditions_of(obj),
        tuple((_text(taint, "key"), seconds(at(taint, "timeAdded"))) for taint in taints),
        at(obj, "spec", "unschedulable") is True,
    )


def job_record(obj: ApiObject) -> JobRecord:
    """Return the record of a Job's API object. Source: pkg/controller/job, pod_failure_policy.go."""
    ends = [
        condition
        for condition in conditions_of(obj)
        if condition.status == "True" and condition.type in ("Failed", "FailureTarget")
    ]
    limit = at(obj, "spec", "backoffLimit")
    return JobRecord(
        _text(obj, "metadata", "name"),
        min(ends, key=lambda condition: condition.type, default=None),
        limit if isinstance(limit, int) else None,
        any(map(_ignores_disruption, _objects(obj, "spec", "podFailurePolicy", "rules"))),
    )


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
            _text(condition, "message", most=MAX_TEXT),
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
    return max(
        (seconds(at(condition, "lastHeartbeatTime")) for condition in _objects(node, "status", "conditions")),
        default=0.0,
    )


def seconds(value: object) -> float:
    """Return an API time in seconds since 1970; 0 if it is absent or malformed."""
    if not isinstance(value, str) or not value:
        return 0.0
    try:
        moment = datetime.fromisoformat(value)
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        return 0.0


def shown_time(when: float) -> str:
    """Return a time (seconds since 1970) as text, `2026-11-22T03:12:07Z`; "" for an unknown time."""
    try:
        return f"{datetime.fromtimestamp(when, UTC):%Y-%m-%dT%H:%M:%SZ}" if when > 0 else ""
    except (ValueError, OverflowError, OSError):
        return ""


def _terminated(obj: ApiObject, statuses: list[ApiObject]) -> Iterator[Container]:
    """The current termination of each container; without one, the last one before a restart."""
    limits = {
        _text(container, "name"): _text(container, "resources", "limits", "memory")
        for field in ("initContainers", "containers")
        for container in _objects(obj, "spec", field)
    }
    for status in statuses:
        name = _text(status, "name")
        for state in ("state", "lastState"):
            end = at(status, state, "terminated")
            if isinstance(end, dict):
                code, restarts = end.get("exitCode"), status.get("restartCount")
                yield Container(
                    name,
                    _text(end, "reason"),
                    code if isinstance(code, int) else 0,
                    seconds(end.get("startedAt")),
                    seconds(end.get("finishedAt")),
                    restarts if isinstance(restarts, int) else 0,
                    limits.get(name, ""),
                )
                break


def _waiting(statuses: list[ApiObject]) -> Iterator[WaitingContainer]:
    for status in statuses:
        reason = _text(status, "state", "waiting", "reason")
        if reason and reason not in _USUAL:
            yield WaitingContainer(
                _text(status, "name"), reason, _text(status, "state", "waiting", "message", most=MAX_TEXT)
            )


def _target_node(obj: ApiObject) -> str:
    terms = ("spec", "affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms")
    fields = [field for term in _objects(obj, *terms) for field in _objects(term, "matchFields")]
    if len(fields) != 1 or at(fields[0], "key") != "metadata.name":
        return ""
    return _text(fields[0], "values", 0)


def _list(obj: ApiObject, *path: str) -> list[Any]:
    value = at(obj, *path)
    return value[:MAX_PARTS] if isinstance(value, list) else []


def _objects(obj: ApiObject, *path: str) -> list[ApiObject]:
    return [item for item in _list(obj, *path) if isinstance(item, dict)]


def _text(obj: ApiObject, *path: str | int, most: int = MAX_NAME) -> str:
    value = at(obj, *path)
    return _line(value, most) if isinstance(value, str) else ""


def _line(value: str, most: int = MAX_NAME) -> str:
    return cut(one_line(value[: 4 * most]), most)
