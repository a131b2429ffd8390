"""JSON Patch: what is written applies, and makes of the object what was meant."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forewarn.policies.kubernetes.objects.fields import at
from forewarn.policies.kubernetes.objects.patches import (
    PatchError,
    PatchOperation,
    apply_patch,
    drop,
    pointer,
    set_value,
)

KEYS = st.sampled_from(["a", "b", "c/d", "~e", ""])
PARTS = st.recursive(st.integers() | st.none(), lambda v: st.dictionaries(KEYS, v, max_size=3), max_leaves=6)
OBJECTS = st.dictionaries(KEYS, PARTS, max_size=3)
PATHS = st.lists(KEYS, min_size=1, max_size=3).map(tuple)


@given(OBJECTS, PATHS, st.integers())
def test_a_value_that_is_set_is_there_and_nothing_else_changes(
    obj: dict[str, Any], path: tuple[str, ...], v: int
) -> None:
    before = copy.deepcopy(obj)
    patched = apply_patch(obj, [set_value(obj, path, v)])
    assert obj == before
    assert at(patched, *path) == v
    assert apply_patch(patched, [set_value(patched, path, v)]) == patched
    for key in obj.keys() - {path[0]}:
        assert patched[key] == obj[key]


@given(OBJECTS, PATHS)
def test_a_value_that_is_dropped_is_gone_and_dropping_what_is_absent_says_nothing(
    obj: dict[str, Any], path: tuple[str, ...]
) -> None:
    before = copy.deepcopy(obj)
    patched = apply_patch(obj, drop(obj, path))
    assert obj == before
    parent = at(patched, *path[:-1]) if path[:-1] else patched
    assert not isinstance(parent, dict) or path[-1] not in parent
    assert drop(patched, path) == []


def test_missing_parents_are_sent_whole() -> None:
    operation = set_value({"metadata": {}}, ("metadata", "annotations", "forewarn.dev/x"), "1")
    assert operation.to_json() == {"op": "add", "path": "/metadata/annotations", "value": {"forewarn.dev/x": "1"}}


def test_slashes_and_tildes_of_a_key_are_escaped() -> None:
    assert pointer(("metadata", "annotations", "a.b/c~d")) == "/metadata/annotations/a.b~1c~0d"


def test_removing_sends_no_value() -> None:
    assert PatchOperation("remove", ("spec", "priority")).to_json() == {"op": "remove", "path": "/spec/priority"}


def test_an_operation_on_what_is_absent_does_not_apply() -> None:
    with pytest.raises(PatchError, match="/a/b: the path does not exist"):
        apply_patch({"a": {}}, [PatchOperation("remove", ("a", "b"), 1)])
    with pytest.raises(PatchError, match="/a/0: the path does not exist"):
        apply_patch({"a": []}, [PatchOperation("replace", ("a", 0), 1)])
    with pytest.raises(PatchError):
        apply_patch({"a": 5}, [PatchOperation("add", ("a", "b"), 1)])
