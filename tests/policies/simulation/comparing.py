"""How an outcome agrees with recorded ones: the same end, and for each pod the same events in the same order."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

CASES = Path(__file__).parent / "cases"
COMPARED = {"created", "scheduled", "preempted", "nominated", "nominationCleared", "deleted", "gone"}

Outcome = dict[str, Any]
Events = dict[str, list[tuple[tuple[str, str, str], float]]]


def _lines(name: str) -> list[str]:
    return gzip.decompress((CASES / name).read_bytes()).decode().splitlines()


def pairs_of(name: str) -> list[tuple[str, str]]:
    """Cases and what was recorded, as JSON text, which needs a small part of the memory of its objects."""
    recorded = {json.loads(line)["id"]: line for line in _lines(f"{name}.expected.jsonl.gz")}
    return [(line, recorded[json.loads(line)["id"]]) for line in _lines(f"{name}.cases.jsonl.gz")]


def by_category(name: str) -> dict[str, list[tuple[str, str]]]:
    """The same by the category of the case."""
    found: dict[str, list[tuple[str, str]]] = {}
    for case, recorded in pairs_of(name):
        found.setdefault(json.loads(case)["category"], []).append((case, recorded))
    return found


def final(outcome: Outcome) -> dict[str, tuple[str, str, bool]]:
    return {
        pod: (state.get("node") or "", state.get("nominated") or "", bool(state.get("terminating")))
        for pod, state in outcome["final"].items()
    }


def by_pod(outcome: Outcome) -> Events:
    """A pod that two others evict at once is compared by the first of them: the second's dry run came before."""
    pods: Events = {}
    dying: set[str] = set()
    for event in outcome["timeline"]:
        what, pod = event["event"], event.get("pod", "")
        again = what == "preempted" and pod in dying
        if what in ("preempted", "deleted"):
            dying.add(pod)
        elif what == "gone":
            dying.discard(pod)
        if what in COMPARED and pod and not again:
            node = event.get("node", "") if what != "created" else ""
            pods.setdefault(pod, []).append(((what, node, event.get("by", "")), event["t"]))
    return pods


def order(events: Events) -> dict[str, list[tuple[str, str, str]]]:
    return {pod: [key for key, _ in entries] for pod, entries in events.items()}


def farthest(one: Events, other: Events) -> float:
    """Seconds between two events that are the same."""
    pairs = ((a[1], b[1]) for pod in one for a, b in zip(one[pod], other[pod], strict=True))
    return max((abs(a - b) for a, b in pairs), default=0.0)


def judge(recorded: dict[str, Any], outcome: Outcome) -> tuple[str, float]:
    """(what does not agree: `final` or `order`, empty where both do; how many seconds apart)."""
    ends = [each for each in recorded["outcomes"] if final(each) == final(outcome)]
    if not ends:
        return "final", 0.0
    mine = by_pod(outcome)
    same = [by_pod(each) for each in ends if order(by_pod(each)) == order(mine)]
    if not same:
        return "order", 0.0
    return "", min(farthest(each, mine) for each in same)
