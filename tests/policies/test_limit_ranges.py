"""What LimitRanges give to containers that leave their resources out, and who counts with it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.cluster import Cache
from policies.objects.fields import InvalidObject
from policies.objects.limit_range import LimitRange

Obj = dict[str, Any]


def limit_range(*items: Obj, name: str = "defaults", namespace: str = "team") -> Obj:
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": "v1", "kind": "LimitRange", "metadata": metadata, "spec": {"limits": list(items)}}


def of_containers(**fields: Obj) -> Obj:
    return {"type": "Container", **fields}


READ: list[tuple[str, list[Obj], Obj, Obj]] = [
    ("nothing", [], {}, {}),
    ("both", [of_containers(default={"cpu": "2"}, defaultRequest={"cpu": "1"})], {"cpu": "1"}, {"cpu": "2"}),
    ("only requests", [of_containers(defaultRequest={"cpu": "1"})], {"cpu": "1"}, {}),
    ("a limit is the request too", [of_containers(default={"cpu": "2"})], {"cpu": "2"}, {"cpu": "2"}),
    ("a maximum is the limit", [of_containers(max={"cpu": "4"})], {"cpu": "4"}, {"cpu": "4"}),
    ("unless there is one", [of_containers(max={"cpu": "4"}, default={"cpu": "2"})], {"cpu": "2"}, {"cpu": "2"}),
    ("a minimum is the request", [of_containers(min={"cpu": "1"})], {"cpu": "1"}, {}),
    ("but after the limit", [of_containers(min={"cpu": "1"}, max={"cpu": "4"})], {"cpu": "4"}, {"cpu": "4"}),
    ("each resource alone", [of_containers(min={"cpu": "1"}, max={"memory": "1Gi"})],
        {"cpu": "1", "memory": "1Gi"}, {"memory": "1Gi"}),
    ("ratios say nothing", [of_containers(maxLimitRequestRatio={"cpu": "2"})], {}, {}),
    ("pods and claims have no defaults",
        [{"type": "Pod", "max": {"cpu": "4"}}, {"type": "PersistentVolumeClaim", "min": {"storage": "1Gi"}}], {}, {}),
    ("in thousandths", [of_containers(defaultRequest={"cpu": "1u"})], {"cpu": "1m"}, {}),
    ("the last item", [of_containers(default={"cpu": "2"}), of_containers(default={"cpu": "3"})],
        {"cpu": "3"}, {"cpu": "3"}),
]  # fmt: skip


@pytest.mark.parametrize(("items", "requests", "limits"), [case[1:] for case in READ], ids=[case[0] for case in READ])
def test_a_limit_range_gives(items: list[Obj], requests: Obj, limits: Obj) -> None:
    read = LimitRange.from_api(limit_range(*items))
    told = [{name: str(q) for name, q in given.items()} for given in (read.default_requests, read.default_limits)]
    assert told == [requests, limits]


UNREADABLE = [
    ({"limits": 1}, "LimitRange team/defaults: spec.limits: must be a list, not number"),
    ({"limits": [1]}, "LimitRange team/defaults: spec.limits[0]: must be an object, not number"),
    ({"limits": [of_containers(), {"type": 1}]}, "spec.limits[1].type: must be a string"),
    ({"limits": [of_containers(max={"cpu": "much"})]}, "spec.limits[0].max.cpu: quantities must match"),
]


@pytest.mark.parametrize(("spec", "message"), UNREADABLE)
def test_what_cannot_be_read_is_named(spec: Obj, message: str) -> None:
    with pytest.raises(InvalidObject) as fault:
        LimitRange.from_api({**limit_range(), "spec": spec})
    assert message in str(fault.value)


@given(st.lists(st.tuples(st.booleans(), st.sampled_from("abc"), st.sampled_from("xyz"), st.integers(1, 9))))
def test_limit_ranges_of_a_namespace_are_those_of_all(steps: list[tuple[bool, str, str, int]]) -> None:
    cache = Cache()
    expected: dict[tuple[str, str], LimitRange] = {}
    for add, namespace, name, cpus in steps:
        obj = limit_range(of_containers(max={"cpu": cpus}), name=name, namespace=namespace)
        if add:
            cache.add(obj)
            expected[namespace, name] = LimitRange.from_api(obj)
        else:
            cache.remove(obj)
            expected.pop((namespace, name), None)
    snapshot = cache.snapshot()
    assert cache.keys("/LimitRange") == {*expected}
    for namespace in "abc":
        assert snapshot.limit_ranges_of(namespace) == [r for key, r in sorted(expected.items()) if key[0] == namespace]
