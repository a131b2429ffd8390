"""A file of events for a simulation: changes of objects, scaling, and nodes that are cordoned, drained or lost.

A file is a list (YAML or JSON) of `{at, ...}` with one of: `create`, `update`, `delete` (an object; for delete, kind
and name), `scale` (kind, namespace, name, replicas), `run` (namespace and name of a Job, perhaps durationSeconds),
`cordon`, `uncordon`, `drain`, `lost` (a node's name). `at`: seconds, or a text such as `90s`, `5m`, `1h`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from forewarn.policies.objects.fields import json_type
from forewarn.policies.simulation.scenario import MAX_REPLICAS, Arrival

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from forewarn.policies.objects.fields import ApiObject

_UNITS: Final = {"": 1, "s": 1, "m": 60, "h": 3600}
_DURATION: Final = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)([smh]?)")
OPERATIONS: Final = ("create", "update", "delete", "scale", "run", "cordon", "uncordon", "drain", "lost")
FORM: Final = f"list of `{{at, {'|'.join(OPERATIONS)}}}`"
"""What a file must contain, for help and messages."""
_SCALED: Final = {
    "Deployment": "apps/v1",
    "ReplicaSet": "apps/v1",
    "StatefulSet": "apps/v1",
    "ReplicationController": "v1",
}
MAX_EVENTS: Final = 10_000
MAX_BYTES: Final = 4 * 1024 * 1024
_NODE: Final = ("cordon", "uncordon", "drain", "lost")


class EntryFault(ValueError):
    """The error for an invalid entry of a list. `number`: position of the entry, from 1."""

    def __init__(self, number: int, problem: str) -> None:
        self.number = number
        super().__init__(problem)


def seconds(value: Any, what: str = "at") -> float:
    """Parse a duration into seconds: a number of seconds, or text such as `90s`, `5m`, `1h`.

    `what`: name of the field for the message. Raises ValueError.
    """
    if isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < 1e9:
        return float(value)
    match = _DURATION.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        raise ValueError(f"{what} must be seconds, or a duration in s, m or h such as 90s, 5m or 1h")
    return float(match[1]) * _UNITS[match[2]]


def read_events(values: Iterable[Any]) -> Iterator[Arrival]:
    """Yield an Arrival for each event of a file. `values`: the documents of the file, each an event or a list of
    events.

    Raises ValueError and EntryFault.
    """
    events = [event for value in values for event in (value if isinstance(value, list) else [value])]
    if len(events) > MAX_EVENTS:
        raise ValueError(f"{len(events):,} events; the limit is {MAX_EVENTS:,}")
    for number, event in enumerate(events, 1):
        try:
            yield _event(event)
        except ValueError as error:
            raise EntryFault(number, f"event {number}: {error}") from None


def _event(event: Any) -> Arrival:
    if not isinstance(event, dict):
        raise ValueError(f"must be an object, not {json_type(event)}")
    given = [name for name in OPERATIONS if name in event]
    extra = sorted(map(str, set(event) - {"at", *OPERATIONS}))
    if len(given) != 1 or extra:
        unknown = f'unknown key "{extra[0][:40]}"' if extra else "no operation" if not given else "several operations"
        raise ValueError(f"{unknown} in an event; known: at, and one of {', '.join(OPERATIONS)}")
    operation, value = given[0], event[given[0]]
    at = seconds(event.get("at", 0))
    if operation in _NODE:
        if not isinstance(value, str) or not value:
            raise ValueError(f"{operation} must be the name of a node")
        return Arrival(at, operation, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": value}})
    if not isinstance(value, dict):
        raise ValueError(f"{operation} must be an object, not {json_type(value)}")
    read = {"scale": _scale, "run": _run}.get(operation)
    return Arrival(at, operation, read(value) if read else value)


def _run(value: Mapping[str, Any]) -> ApiObject:
    """Convert `{namespace, name, durationSeconds}` to an object for an arrival. The duration is optional."""
    if value.get("kind", "Job") != "Job" or not isinstance(value.get("name"), str):
        raise ValueError("run needs the name of a Job")
    metadata = {"namespace": value.get("namespace", "default"), "name": value["name"]}
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata}
    if value.get("durationSeconds") is None:
        return job
    return {**job, "durationSeconds": seconds(value["durationSeconds"], "durationSeconds")}


def _scale(value: Mapping[str, Any]) -> ApiObject:
    """Convert `{kind, namespace, name, replicas}` to an object for an arrival."""
    replicas, kind = value.get("replicas"), value.get("kind")
    if isinstance(replicas, bool) or not isinstance(replicas, int) or not 0 <= replicas < 2**31:
        raise ValueError("scale needs replicas, a whole number")
    if kind not in _SCALED:
        raise ValueError(f"scale needs kind; known: {', '.join(_SCALED)}")
    metadata = {"namespace": value.get("namespace", "default"), "name": value.get("name")}
    if replicas > MAX_REPLICAS:
        raise ValueError(f"scale to {replicas:,} replicas; the limit is {MAX_REPLICAS:,}")
    return {"apiVersion": _SCALED[kind], "kind": kind, "metadata": metadata, "replicas": replicas}
