"""What is kept of an object that is too large: within its bound, equal to what it was, and never read by mistake."""

from __future__ import annotations

import copy
import json
import pickle
import tracemalloc
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forewarn.policies.base.metering import CutShort
from forewarn.policies.kubernetes.objects.extent import MAX_RETAINED, OmittedList, TooLargeToRetain, bounded, is_omitted
from forewarn.policies.kubernetes.objects.fields import InvalidObject
from forewarn.policies.kubernetes.objects.workload import Workload
from tests.cases import cases

METADATA = {"name": "app", "namespace": "team"}


def deployment(**spec: Any) -> dict[str, Any]:
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"priorityClassName": "gold", **spec}}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": METADATA, "spec": {"template": template}}


def terms(count: int) -> dict[str, Any]:
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    return {"nodeAffinity": {required: {"nodeSelectorTerms": [{} for _ in range(count)]}}}


def variables(count: int) -> list[dict[str, Any]]:
    env = [{"name": f"V{n}", "value": str(n)} for n in range(count)]
    return [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}, "env": env}]


def test_what_is_not_too_large_is_kept_as_it_is() -> None:
    obj = deployment(containers=variables(50))
    assert bounded(obj) is obj


def test_of_a_large_template_what_is_small_is_kept_and_the_rest_says_so() -> None:
    spec: Any = bounded(deployment(affinity=terms(99_999), containers=variables(9)))["spec"]["template"]["spec"]
    assert (spec["priorityClassName"], spec["containers"]) == ("gold", variables(9))
    why = r"Deployment team/app exceeds what forewarn keeps \(64 KiB\)"
    left = spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    for read in (
        list,
        len,
        bool,
        repr,
        json.dumps,
        lambda part: part[0],
        lambda part: [*part],
        lambda part: part or (),
    ):
        for error in (CutShort, InvalidObject):
            with pytest.raises(error, match=why):
                read(left)


def test_a_part_that_nobody_reads_costs_no_other_its_place() -> None:
    containers: Any = bounded(deployment(containers=variables(5000)))["spec"]["template"]["spec"]["containers"]
    assert containers[0]["resources"] == {"requests": {"cpu": "1"}}
    assert is_omitted(containers[0]["env"])


@pytest.mark.parametrize(
    "spec", [{"affinity": terms(50_000)}, {"containers": variables(5000)}, {"x": {"y": ["z"] * 99_999}}]
)
def test_it_can_be_compared_with_what_it_was_and_sent_elsewhere(spec: dict[str, Any]) -> None:
    obj = deployment(**spec)
    kept, other = bounded(obj), bounded(deployment(**{**spec, "affinity": terms(50_001)}))
    assert kept == obj == kept == bounded(copy.deepcopy(obj))
    assert kept != other
    assert other != obj
    assert pickle.loads(pickle.dumps(kept)) == copy.deepcopy(kept) == copy.copy(kept) == obj


@pytest.mark.parametrize("count", [1000, 100_000])
def test_what_is_kept_of_a_stored_workload_is_bounded(count: int) -> None:
    obj = deployment(affinity=terms(count))
    obj["spec"] |= {f"f{n}": {f"g{m}": [{}] * 999 for m in range(20)} for n in range(60)}
    Workload.from_api(deployment())
    tracemalloc.start()
    kept = Workload.from_api(json.loads(json.dumps(obj)))
    taken, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert taken < 2 * MAX_RETAINED, kept.ref


JSON = st.recursive(
    st.none() | st.integers() | st.text(max_size=40),
    lambda inner: st.lists(inner, max_size=20) | st.dictionaries(st.text(max_size=9), inner, max_size=20),
    max_leaves=60,
)


@settings(max_examples=cases(100))
@given(JSON, st.integers(300, 4000))
def test_whatever_is_left_out_is_the_rest_unchanged(value: Any, most: int) -> None:
    obj = {"kind": "X", "metadata": METADATA, "v": value}
    kept = bounded(obj, most)
    assert is_omitted(kept) or _agrees(kept, obj)
    assert kept == obj
    assert bounded(kept, most) is kept, "it is read again wherever a simulation stores it"


def _agrees(kept: Any, obj: Any) -> bool:
    if is_omitted(kept):
        return type(kept).__mro__[2] is type(obj)
    if isinstance(kept, dict):
        return kept.keys() == obj.keys() and all(_agrees(kept[key], obj[key]) for key in kept)
    if isinstance(kept, list):
        return len(kept) == len(obj) and all(map(_agrees, kept, obj))
    return bool(kept == obj)


def test_the_error_names_the_object() -> None:
    with pytest.raises(TooLargeToRetain) as error:
        len(OmittedList("Deployment team/app", b""))
    assert error.value.excess.fix == "make it smaller"
