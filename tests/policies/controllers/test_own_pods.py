"""The pods that a workload has already are those that its definition says, whatever is remembered of the cluster."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from forewarn.policies.kubernetes.cluster.cache import Cache, ClusterSnapshot
from forewarn.policies.kubernetes.controllers.own_pods import controlled, pods_of
from tests.work import steps

NAMES = ("web", "db")
LABELS: tuple[dict[str, str], ...] = ({"app": "web"}, {"app": "db"}, {"app": "web", "tier": "front"}, {})
OWNERS = (None, *((kind, n) for kind in ("apps/ReplicaSet", "apps/Foreign", "example.com/ReplicaSet") for n in NAMES))


def owned(obj: dict[str, Any], owner: tuple[str, str] | None) -> dict[str, Any]:
    if owner is not None:
        group, kind = owner[0].split("/")
        reference = {"apiVersion": f"{group}/v1", "kind": kind, "name": owner[1], "uid": "u", "controller": True}
        obj["metadata"]["ownerReferences"] = [reference]
    return obj


def pod(number: int, labels: dict[str, str], owner: tuple[str, str] | None, phase: str) -> dict[str, Any]:
    metadata = {"name": f"p-{number}", "namespace": "team", "labels": labels}
    spec = {"containers": [{"name": "c", "image": "i"}]}
    return owned(
        {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": {"phase": phase}}, owner
    )


def workload(kind: str, name: str, owner: tuple[str, str] | None = None) -> dict[str, Any]:
    metadata, labels = {"name": name, "namespace": "team"}, {"app": name}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    spec = {"replicas": 1, "selector": {"matchLabels": labels}, "template": template}
    return owned({"apiVersion": "apps/v1", "kind": kind, "metadata": metadata, "spec": spec}, owner)


def by_definition(snapshot: ClusterSnapshot, obj: dict[str, Any]) -> set[str]:
    itself = (f"apps/{obj['kind']}", obj["metadata"]["name"])
    known = {(f"apps/{w.ref.kind}", w.ref.name): w.controller for w in snapshot.workloads.values()}
    of_it = {itself} | {identity for identity, above in known.items() if above == itself}
    there = [pod for pod in snapshot.pods.values() if pod.phase not in ("Succeeded", "Failed")]
    owners = {pod.name: (pod.owner_kind, pod.owner.name) if pod.owner else None for pod in there}
    found = {name for name, owner in owners.items() if owner in of_it}
    wanted = obj["spec"]["selector"]["matchLabels"].items()
    free = {p.name for p in there if owners[p.name] not in known and wanted <= dict(p.labels).items()}
    return found or free


PODS = st.tuples(
    st.integers(0, 12), st.sampled_from(LABELS), st.sampled_from(OWNERS), st.sampled_from(["Running", "Succeeded"])
)
SETS = st.tuples(
    st.sampled_from(NAMES),
    st.sampled_from([None, *((f"{group}/Deployment", name) for group in ("apps", "example.com") for name in NAMES)]),
)


@given(st.lists(st.lists(st.one_of(PODS, SETS), max_size=6), min_size=1, max_size=5))
def test_they_are_what_the_definition_says_after_any_events(rounds: list[list[Any]]) -> None:
    cache = Cache()
    for events in rounds:
        for event in events:
            cache.add(pod(*event) if len(event) == 4 else workload("ReplicaSet", *event))
        snapshot = cache.snapshot()
        for kind in ("Deployment", "ReplicaSet"):
            for name in NAMES:
                obj = workload(kind, name)
                assert {p.name for p in pods_of(snapshot, obj)} == by_definition(snapshot, obj)
                above = [w.ref.name for w in snapshot.workloads.values() if w.controller == (f"apps/{kind}", name)]
                assert sorted(w.ref.name for w in controlled(snapshot, obj)) == sorted(above)


def test_what_is_asked_again_after_one_event_is_not_looked_through_again() -> None:
    cache, asked = Cache(), workload("Deployment", "new")
    for number in range(4_000):
        cache.add(pod(number, LABELS[0], ("apps/ReplicaSet", f"r-{number // 100}"), "Running"))
    first, again = _steps(cache, asked), []
    for number in range(10):
        cache.add(pod(number, LABELS[1], ("apps/ReplicaSet", "r-0"), "Running"))
        again.append(_steps(cache, asked))
    assert max(again) < first / 2


def _steps(cache: Cache, obj: dict[str, Any]) -> int:
    snapshot = cache.snapshot()
    taken = steps(lambda: pods_of(snapshot, obj))
    assert pods_of(snapshot, obj) == []
    return taken


def test_the_search_for_the_pods_of_many_workloads_without_pods_is_linear() -> None:
    assert _steps_of_all(400) < 3 * _steps_of_all(200)


def _steps_of_all(number: int) -> int:
    cache, names = Cache(), [f"r-{each}" for each in range(number)]
    sets = [workload("ReplicaSet", name) for name in names]
    for each, obj in enumerate(sets):
        cache.add(obj)
        cache.add(pod(each, {"app": f"bare-{each}"}, None, "Running"))
        cache.add(pod(each + number, {"app": names[each]}, ("apps/ReplicaSet", names[each]), "Succeeded"))
    snapshot = cache.snapshot()
    return steps(lambda: [pods_of(snapshot, obj) for obj in sets])
