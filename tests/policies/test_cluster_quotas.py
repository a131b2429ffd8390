"""A snapshot finds the quotas of a namespace without looking at all others."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from forewarn.policies.kubernetes.cluster.cache import Cache


@given(st.lists(st.tuples(st.booleans(), st.sampled_from("abc"), st.sampled_from("xyz"), st.integers(0, 9))))
def test_quotas_by_namespace_are_those_of_all_quotas(steps: list[tuple[bool, str, str, int]]) -> None:
    cache = Cache()
    for add, namespace, name, pods in steps:
        metadata = {"namespace": namespace, "name": name}
        obj = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": metadata, "spec": {"hard": {"pods": pods}}}
        if add:
            cache.add(obj)
        else:
            cache.remove(obj)
    snapshot = cache.snapshot()
    for namespace in "abc":
        expected = [quota for (where, _), quota in sorted(snapshot.resource_quotas.items()) if where == namespace]
        assert snapshot.quotas_of(namespace) == expected
