"""The pod counts of a snapshot are of the pods that the snapshot has, whatever the cache does next."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from forewarn.policies.kubernetes.cluster.cache import Cache, ClusterSnapshot

STEPS = st.lists(
    st.tuples(
        st.sampled_from("abc"),
        st.sampled_from(["gold", "", None]),
        st.sampled_from([0, 5, None]),
        st.sampled_from(["Running", "Succeeded"]),
    ),
    max_size=20,
)


def _counted(snapshot: ClusterSnapshot) -> Counter[tuple[str, int | None]]:
    return Counter((p.priority_class_name, p.priority) for p in snapshot.pods.values() if not p.terminal)


@given(STEPS)
def test_the_counts_agree_with_the_pods(steps: list[tuple[str, str | None, int | None, str]]) -> None:
    cache, snapshots = Cache(), []
    for name, class_name, priority, phase in steps:
        spec = {"priorityClassName": class_name, "priority": priority}
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec, "status": {"phase": phase}}
        if class_name is None:
            cache.remove(pod)
        else:
            cache.add(pod)
        snapshots.append(cache.snapshot())
    for snapshot in snapshots:
        assert snapshot.pod_counts_by_priority == _counted(snapshot)
