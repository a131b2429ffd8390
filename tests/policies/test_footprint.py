"""The memory that parsed JSON takes, against what the allocator counts."""

from __future__ import annotations

import gc
import json
import tracemalloc
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forewarn.policies.kubernetes.objects.extent import max_memory_of, memory_of
from tests.work import steps

NO_LIMIT = 1 << 40
TEXTS = {
    "empty objects": "[" + "{}," * 20_000 + "{}]",
    "empty lists": "[" + "[]," * 20_000 + "[]]",
    "small objects": json.dumps([{"name": f"variable-{n}", "value": f"x{n}"} for n in range(5_000)]),
    "many keys": json.dumps({f"key-{n}": n for n in range(5_000)}),
    "long text": json.dumps("x" * 100_000),
    "text of two-byte characters": json.dumps("\u0439" * 100_000),
    "floats": json.dumps([n + 0.5 for n in range(5_000)]),
    "large integers": json.dumps([10**6 + n for n in range(5_000)]),
    "small integers": json.dumps([1] * 5_000),
    "nothing": json.dumps([None, True] * 5_000),
    "nested": json.dumps({"a": [{"b": [[{"c": {}}]] * 9}] * 200}),
}
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_the_estimate_is_what_the_allocator_counts(text: str) -> None:
    json.loads(text)
    gc.collect()
    tracemalloc.start()
    parsed = json.loads(text)
    taken, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert taken * 0.9 <= memory_of(parsed, NO_LIMIT) <= taken * 1.35


def test_what_is_far_too_large_is_not_visited() -> None:
    large: list[Any] = [{} for _ in range(10_000)]
    for value in (large, [large] * 100, [{"a": large}] * 1000):
        assert memory_of(value, 64 * 1024) > 64 * 1024
        assert steps(partial(memory_of, value, 64 * 1024)) < 20_000


@given(JSON, st.booleans())
def test_the_bound_of_a_text_is_one(value: object, ascii_only: bool) -> None:
    text = json.dumps(value, ensure_ascii=ascii_only, separators=(",", ":"))
    assert memory_of(json.loads(text), NO_LIMIT) <= max_memory_of(text)
    assert max_memory_of(f"xx{text}yy", 2, 2 + len(text)) == max_memory_of(text)


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_the_bound_of_a_large_text_is_one(text: str) -> None:
    assert memory_of(json.loads(text), NO_LIMIT) <= max_memory_of(text)


@given(JSON, st.integers(0, 2000))
def test_a_limit_changes_only_what_is_beyond_it(value: object, limit: int) -> None:
    whole, bounded = memory_of(value, NO_LIMIT), memory_of(value, limit)
    assert bounded <= whole
    assert (bounded <= limit) == (whole <= limit)
    assert bounded == whole or bounded > limit
