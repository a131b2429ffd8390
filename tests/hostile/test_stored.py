"""What a tenant has stored costs others nothing that can be felt."""

from __future__ import annotations

import time
from typing import Any

from forewarn.policies.kubernetes.cluster.admission import predict
from forewarn.policies.kubernetes.cluster.cache import Cache
from forewarn.policies.kubernetes.scheduling.not_predicted import assumptions
from tests.benchmarks.clusters import Size, objects
from tests.hostile.attacks import affinity, pod, small, term

SECONDS = 0.1


def bound(number: int, **spec: Any) -> dict[str, Any]:
    """A pod on a node, of no priority."""
    made = pod(nodeName=f"n{number:05}", priority=0, **spec)
    made["metadata"] |= {"name": f"stored-{number}", "uid": f"stored-{number}"}
    made["spec"]["containers"][0]["resources"] = {}
    return made


def test_pods_with_a_thousand_terms_do_not_slow_down_those_of_others() -> None:
    cache = Cache()
    for obj in objects(Size(2000, 2)):
        cache.add(obj)
    for number in range(5):
        terms = [term(n, f"topology-{number}-{n}" if n % 2 else "kubernetes.io/hostname") for n in range(1000)]
        cache.add(bound(number, affinity=affinity(terms, "podAntiAffinity")))
    snapshot, taken = cache.snapshot(), []
    snapshot.prepare()
    for number in range(3):
        asked = small(priority=100)
        asked["metadata"]["labels"] = {"app": f"other-{number}"}
        began = time.thread_time()
        prediction = predict(snapshot, asked)
        assert prediction.outcome == "fits"
        taken.append(time.thread_time() - began)
    assert min(taken) < SECONDS
    (told,) = assumptions(snapshot.objects, [], victims=False)
    assert told == "other namespaces are not affected: 5 objects are too large to keep whole", (
        "what they exclude is not known"
    )
