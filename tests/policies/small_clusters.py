"""Small random clusters at rest, for the comparison of a search with all choices."""

from __future__ import annotations

from typing import TYPE_CHECKING
from unittest.mock import patch

from forewarn.policies.base import process_pool
from tests.builders import Made, make_budget, make_node, make_pod, make_priority_class

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path
    from random import Random

BATCHES = [range(first, first + 20) for first in range(0, 200, 20)]
"""Seeds of 200 clusters."""
CLASSES = {"high": 1000, "low": 10}
_CPU = 4


def small_cluster(rng: Random) -> list[Made]:
    """3 to 5 nodes in 2 or 3 zones, ReplicaSets of two PriorityClasses and without one, and a PDB for some."""
    zones, count = rng.choice(["ab", "abc"]), rng.randint(3, 5)
    made: list[Made] = [make_node(f"n{n}").has(memory="16Gi").zone(zones[n % len(zones)]) for n in range(count)]
    made += [make_priority_class(value, name) for name, value in CLASSES.items()]
    free = {node: float(_CPU) for node in range(count)}
    for number in range(rng.randint(2, 5)):
        name, cpu = f"rs{number}", rng.choice([0.5, 1, 2, 3])
        class_name = rng.choice([*CLASSES, ""])
        spec = {"priorityClassName": class_name, "priority": CLASSES[class_name]} if class_name else {}
        places = []
        for _ in range(rng.randint(1, 4)):
            if fitting := [node for node, left in free.items() if left >= cpu]:
                place = rng.choice(fitting)
                free[place] -= cpu
                places.append(place)
        if places:
            made += replica_set(name, cpu, places, spec)
            if rng.random() < 0.25:
                least = rng.choice([len(places), len(places) - 1])
                made.append(make_budget(name, 0, app=name).spec(minAvailable=least))
    return made


def replica_set(name: str, cpu: float, places: list[int], spec: dict[str, object]) -> list[Made]:
    """A ReplicaSet with a ready Pod on each of these nodes."""
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": f"{cpu}"}}}
    named = {key: value for key, value in spec.items() if key != "priority"}
    template = {"metadata": {"labels": {"app": name}}, "spec": {"containers": [container], **named}}
    selector = {"matchLabels": {"app": name}}
    workload = Made("apps/v1", "ReplicaSet", name, "default").spec(
        replicas=len(places), selector=selector, template=template
    )
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": name, "controller": True, "uid": name}
    ready = [{"type": "Ready", "status": "True"}]
    made: list[Made] = [workload]
    for number, place in enumerate(places):
        pod = make_pod(f"{name}-{number}").request(cpu=f"{cpu}").on(f"n{place}").labels(app=name).spec(**spec)
        made.append(pod.metadata(ownerReferences=[owner]).status(conditions=ready))
    return made


def compared(compare: Callable[[int, Path], int | None], seeds: Iterable[int], path: Path) -> None:
    """Compare in the clusters of these seeds, and check that they are not all alike."""
    assert len({compare(seed, path / "c.json") for seed in seeds}) > 1


def compared_without_forks(compare: Callable[[int, Path], int | None], seeds: Iterable[int], path: Path) -> None:
    """Compare in one process: a fork takes longer than the simulation of a small cluster."""
    with patch.object(process_pool, "forked", lambda _: None):
        compared(compare, seeds, path)
