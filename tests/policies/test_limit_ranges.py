"""What LimitRanges give to containers that leave their resources out, and who counts with it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.apis.limit_ranger import with_limit_range_defaults
from policies.cluster import Cache
from policies.objects.fields import InvalidObject
from policies.objects.limit_range import LimitRange
from policies.objects.pod import Pod
from policies.quota import usage

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


def pod(*containers: Obj, init: tuple[Obj, ...] = (), own: Obj | None = None, **metadata: str) -> Obj:
    """A pod of containers with these resources; `own`: what it says of itself."""
    spec = {kind: [{"name": f"{kind}-{n}", "resources": r} for n, r in enumerate(given)]
        for kind, given in (("containers", containers), ("initContainers", init)) if given}  # fmt: skip
    resources = {} if own is None else {"resources": own}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", **metadata}, "spec": {**spec, **resources}}


def both(requests: Obj, limits: Obj | None = None) -> Obj:
    return {"requests": requests, "limits": limits} if limits else {"requests": requests}


RANGE = limit_range(of_containers(default={"cpu": "2", "memory": "2Gi"}, defaultRequest={"cpu": "1"}))
SMALL = limit_range(of_containers(defaultRequest={"cpu": "100m", "memory": "64Mi"}), name="small")
FULL = both({"cpu": "1", "memory": "2Gi"}, {"cpu": "2", "memory": "2Gi"})

FILLED: list[tuple[str, list[Obj], Obj, Obj]] = [
    ("an empty container", [RANGE], pod({}), pod(FULL)),
    ("init containers too", [RANGE], pod({}, init=({}, both({"cpu": "3"}))),
        pod(FULL, init=(FULL, both({"cpu": "3", "memory": "2Gi"}, {"cpu": "2", "memory": "2Gi"})))),
    ("what is given stays", [RANGE], pod(both({"cpu": "0", "memory": "1"}, {"cpu": "1500m", "memory": "3"})),
        pod(both({"cpu": "0", "memory": "1"}, {"cpu": "1500m", "memory": "3"}))),
    ("a limit is the request before any default", [RANGE], pod({"limits": {"cpu": "4"}}),
        pod(both({"cpu": "4", "memory": "2Gi"}, {"cpu": "4", "memory": "2Gi"}))),
    ("other resources and fields stay", [SMALL], pod({"limits": {"gpu/x": 1}, "claims": []}),
        pod({**both({"cpu": "100m", "memory": "64Mi", "gpu/x": 1}, {"gpu/x": 1}), "claims": []})),
    ("the first of two that disagree", [RANGE, SMALL], pod({}), pod(FULL)),
    ("the second for what the first leaves out", [SMALL, RANGE], pod({}),
        pod(both({"cpu": "100m", "memory": "64Mi"}, {"cpu": "2", "memory": "2Gi"}))),
    ("a range of pods", [limit_range({"type": "Pod", "max": {"cpu": "4"}})], pod({}), pod({})),
    ("no range", [], pod({"limits": {"cpu": "4"}}), pod({"limits": {"cpu": "4"}})),
    ("no containers", [RANGE], pod(), pod()),
    ("a stored pod", [RANGE], pod({}, uid="1"), pod({}, uid="1")),
    ("a pod that requests itself: containers all the same", [SMALL], pod({}, own=both({"cpu": "1"})),
        pod(both({"cpu": "100m", "memory": "64Mi"}), own=both({"cpu": "1"}))),
    ("a pod's limit is its request, not what containers get", [SMALL], pod({}, {}, own={"limits": {"cpu": "2"}}),
        pod(*[both({"cpu": "100m", "memory": "64Mi"})] * 2, own=both({"cpu": "2"}, {"cpu": "2"}))),
    ("unless they ask before", [SMALL], pod(both({"cpu": "1"}), {}, own={"limits": {"cpu": "2"}}),
        pod(both({"cpu": "1", "memory": "64Mi"}), both({"cpu": "100m", "memory": "64Mi"}),
            own=both({"cpu": "1"}, {"cpu": "2"}))),
]  # fmt: skip


@pytest.mark.parametrize(("ranges", "given", "filled"), [case[1:] for case in FILLED], ids=[c[0] for c in FILLED])
def test_admission_fills_in(ranges: list[Obj], given: Obj, filled: Obj) -> None:
    assert with_limit_range_defaults(given, map(LimitRange.from_api, ranges)) == filled


@pytest.mark.parametrize(
    "spec",
    [1, {"containers": 1}, {"containers": [1], "resources": {"limits": {"cpu": 1}}}, {"containers": [{"resources": 1}]},
     {"containers": [{}], "resources": 1}, {"containers": [{}], "resources": {"limits": {"cpu": "much"}}}],
)  # fmt: skip
def test_a_pod_that_cannot_be_read_is_left_to_its_reader(spec: Any) -> None:
    given = {**pod(), "spec": spec}
    assert with_limit_range_defaults(given, [LimitRange.from_api(RANGE)]) is given
    with pytest.raises(InvalidObject):
        Pod.from_api(given)


NAMES = ("cpu", "memory", "ephemeral-storage", "example.com/gpu")
"""No huge pages: of those a container's limit must be its request, which random amounts are not."""
AMOUNTS = st.dictionaries(st.sampled_from(NAMES), st.sampled_from(("0", "1", "1500m", "1u", "64Mi", 2)), max_size=3)
RESOURCES = st.fixed_dictionaries({}, optional={"requests": AMOUNTS, "limits": AMOUNTS})
CONTAINERS = st.lists(RESOURCES, max_size=2).map(tuple)
PODS = st.builds(lambda c, i, own: pod(*c, init=i, own=own), CONTAINERS, CONTAINERS, st.none() | RESOURCES)
FIELDS = dict.fromkeys(("default", "defaultRequest", "min", "max"), AMOUNTS)
ITEMS = st.fixed_dictionaries({"type": st.sampled_from(("Container", "Pod"))}, optional=FIELDS)
RANGES = st.lists(st.builds(lambda items: LimitRange.from_api(limit_range(*items)), st.lists(ITEMS, max_size=2)))


@given(PODS, RANGES)
def test_a_second_time_changes_nothing_of_what_a_pod_asks_for(given: Obj, ranges: list[LimitRange]) -> None:
    once = with_limit_range_defaults(given, ranges)
    twice = with_limit_range_defaults(once, ranges)
    assert twice["spec"].get("containers") == once["spec"].get("containers")
    assert twice["spec"].get("initContainers") == once["spec"].get("initContainers")
    assert Pod.from_api(twice).spec.request == Pod.from_api(once).spec.request
    assert usage(twice, 0) == usage(once, 0)


@given(PODS, RANGES)
def test_what_is_given_is_never_changed(given: Obj, ranges: list[LimitRange]) -> None:
    before, filled = json.dumps(given), with_limit_range_defaults(given, ranges)
    assert json.dumps(given) == before
    for kind in ("containers", "initContainers"):
        pairs = zip(given["spec"].get(kind, ()), filled["spec"].get(kind, ()), strict=True)
        assert all(says(container, more) for container, more in pairs)
    assert says(given["spec"].get("resources"), filled["spec"].get("resources"))


def says(given: Any, more: Any) -> bool:
    """Whether all that is given is there, word for word."""
    if isinstance(given, dict) and given:
        return isinstance(more, dict) and all(key in more and says(given[key], more[key]) for key in given)
    return bool(given in (None, {}) or given == more)
