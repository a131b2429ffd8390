"""The clusters that are measured: the same every time, and read without a remainder."""

import json

from forewarn import policies
from tests.benchmarks.clusters import Size, objects, preemptor


def test_the_same_seed_gives_the_same_cluster() -> None:
    size = Size(3, large_pods=True)
    assert list(objects(size)) == list(objects(size))
    assert list(objects(size)) != list(objects(size, seed=2))


def test_a_large_pod_is_some_kilobytes_and_means_the_same() -> None:
    cache = policies.Cache()
    for obj in objects(Size(4, large_pods=True)):
        cache.add(obj)
        assert obj["kind"] != "Pod" or 3000 < len(json.dumps(obj)) < 6000
    assert not cache.skipped
    snapshot = cache.snapshot()
    assert len(snapshot.pods) == 120
    kinds = ("plain", "anti-affinity", "spread", "varied")
    assert {policies.predict(snapshot, preemptor(kind, 1)).outcome for kind in kinds} <= {"preempts", "fits", "pending"}
