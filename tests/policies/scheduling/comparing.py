"""How two answers to a case differ, and the smallest case in which they still do."""

import copy
import gzip
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeAlias
from unittest.mock import patch

from forewarn.policies.kubernetes.objects.pod import Pod
from forewarn.policies.kubernetes.scheduling.find_nodes import framework_of
from forewarn.policies.kubernetes.scheduling.framework import Framework
from forewarn.policies.kubernetes.scheduling.not_predicted import not_predicted
from forewarn.policies.kubernetes.scheduling.preemption import Decision
from forewarn.policies.kubernetes.scheduling.snapshot import NotValid, Snapshot
from forewarn.policies.kubernetes.scheduling.vectorized_cycle import decide

Answer: TypeAlias = dict[str, Any]
Part: TypeAlias = tuple[str, Any, Any]


def outcome_in_columns(snapshot: Snapshot, pod: Pod) -> Decision | None:
    """The prediction of one Pod in columns; None if they do not apply."""
    if not_predicted(pod, snapshot) or snapshot.may_preempt_groups(pod.effective_priority):
        return None
    with suppress(NotValid):
        return decide(framework_of(snapshot, pod), pod)
    return None


def _statuses(answer: Answer, key: str) -> dict[str, Any]:
    return {node: _status(found) for node, found in (answer.get(key) or {}).items()}


def _status(found: Answer | None) -> tuple[str, str, list[str]] | None:
    """Reasons in any order: upstream goes over scalar resources as a Go map has them."""
    if not found:
        return None
    return found["code"], found.get("plugin") or "", sorted(found.get("reasons") or [])


def scores_given(answer: Answer) -> dict[str, Any]:
    """A plugin that gives nothing may be left out."""
    rows = answer.get("scores") or {}
    return {node: {plugin: score for plugin, score in row.items() if score} for node, row in rows.items()}


def _victims(case: Answer, answer: Answer) -> dict[str, Any]:
    """By priority and start time where pods tie: which of them comes first cannot be seen from outside."""
    keys = {}
    for pod in case["pods"]:
        name = f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
        keys[name] = (pod["spec"].get("priority", 0), pod["status"].get("startTime", ""))
    ties = case["id"].startswith("ties")
    return {
        node: (sorted(keys[v] for v in found["victims"]) if ties else found["victims"], found["pdbViolations"])
        for node, found in (answer.get("candidates") or {}).items()
    }


def differences(case: Answer, want: Answer, got: Answer) -> list[Part]:
    """The parts of the answer that differ: name, wanted, got."""
    parts: list[Part] = [
        ("feasible", sorted(want["feasible"]), sorted(got.get("feasible") or [])),
        ("preFilter", _status(want.get("preFilter")), _status(got.get("preFilter"))),
        ("statuses", _statuses(want, "statuses"), _statuses(got, "statuses")),
        ("scores", scores_given(want), scores_given(got)),
        ("selected", want["selected"] or [], sorted(got.get("selected") or [])),
    ]
    if not want["feasible"]:
        parts += [
            ("eligible", want["eligible"], got.get("eligible")),
            ("ineligibleReason", want.get("ineligibleReason") or None, got.get("ineligibleReason") or None),
            ("candidates", _victims(case, want), _victims(case, got)),
            ("dryRunStatuses", _statuses(want, "dryRunStatuses"), _statuses(got, "dryRunStatuses")),
        ]
    return [part for part in parts if part[1] != part[2]]


def recorded(path: Path) -> list[tuple[Answer, Answer]]:
    """Cases and what upstream answered, from a file of JSON lines."""
    data = path.read_bytes()
    text = gzip.decompress(data) if path.suffix == ".gz" else data
    return [(row["case"], row["answer"]) for row in map(json.loads, text.splitlines())]


def told(parts: list[Part]) -> str:
    return "\n".join(f"{name}:\n  want {want}\n  got  {got}" for name, want, got in parts)


def smallest(case: Answer, fails: Callable[[Answer], bool], tries: int = 2000) -> Answer:
    """Leave out one thing after the other for as long as the case still fails."""
    found = copy.deepcopy(case)
    progress = True
    while progress:
        progress = False
        for path in list(_removable(found)):
            tries -= 1
            smaller = _without(found, path)
            if tries > 0 and smaller is not None and fails(smaller):
                found, progress = smaller, True
    return found


def _removable(obj: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Ways to every part, outermost and last first."""
    keys = list(obj) if isinstance(obj, dict) else list(range(len(obj)))[::-1] if isinstance(obj, list) else []
    for key in keys:
        yield (*path, key)
    for key in keys:
        yield from _removable(obj[key], (*path, key))


# What an object cannot be without.
_REQUIRED_FIELDS = frozenset(
    [
        "id",
        "pod",
        "pods",
        "nodes",
        "metadata",
        "name",
        "namespace",
        "uid",
        "spec",
        "status",
        "apiVersion",
        "kind",
        "key",
        "operator",
        "values",
        "topologyKey",
        "maxSkew",
        "whenUnsatisfiable",
        "weight",
        "containers",
        "provisioner",
        "podAffinityTerm",
        "preference",
        "nodeSelectorTerms",
        "volumeBindingMode",
        "disruptionsAllowed",
        "effect",
        "capacity",
        "storageClassName",
        "attacher",
        "nodeName",
        "source",
        "driver",
        "volumeHandle",
    ]
)


def _without(case: Answer, path: tuple[Any, ...]) -> Answer | None:
    if path[-1] in _REQUIRED_FIELDS or path[-2:-1] in (("values",), ("containers",)):
        return None
    made = copy.deepcopy(case)
    at: Any = made
    for step in path[:-1]:
        try:
            at = at[step]
        except (KeyError, IndexError):
            return None
    if (isinstance(at, list) and path[-1] < len(at)) or (isinstance(at, dict) and path[-1] in at):
        del at[path[-1]]
        return made
    return None


@contextmanager
def node_by_node() -> Iterator[None]:
    """Run every plugin on each node, as for a profile whose plugins have no columns."""
    with patch.object(Framework, "without_columns", "columns are compared with the plugins"):
        yield
