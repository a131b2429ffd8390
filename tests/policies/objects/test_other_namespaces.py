"""Which namespaces a Pod's affinity refers to beside its own."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forewarn.policies.kubernetes.objects.pod import ALL_NAMESPACES, other_namespaces

REQUIRED, PREFERRED = (
    "requiredDuringSchedulingIgnoredDuringExecution",
    "preferredDuringSchedulingIgnoredDuringExecution",
)


def _spec(*terms: Any, kind: str = "podAffinity") -> Any:
    return {"affinity": {kind: {REQUIRED: list(terms)}}}


@pytest.mark.parametrize(
    ("spec", "found"),
    [
        ({}, set()),
        (_spec({}), set()),
        (_spec({"namespaces": []}), set()),
        (_spec({"namespaces": ["shop"]}), set()),
        (_spec({"namespaces": ["a", "shop"]}, {"namespaces": ["b"]}), {"a", "b"}),
        (_spec({"namespaceSelector": {}}, kind="podAntiAffinity"), {ALL_NAMESPACES}),
        (_spec({"namespaceSelector": None}), set()),
        (_spec({"namespaces": ["x"] * 1_001}), {"x", ALL_NAMESPACES}),
        (_spec(*({"namespaces": ["shop"]} for _ in range(65))), {ALL_NAMESPACES}),
        ({"affinity": {"podAffinity": {PREFERRED: [{"podAffinityTerm": {"namespaces": ["a"]}}]}}}, {"a"}),
        ({"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": []}}}}, set()),
    ],
)
def test_namespaces_of_terms(spec: Any, found: set[str]) -> None:
    assert other_namespaces(spec, "shop") == found


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["affinity", "podAffinity", REQUIRED, PREFERRED, "podAffinityTerm", "namespaces", "namespaceSelector"]
            ),
            inner,
            max_size=4,
        )
    ),
)


@given(st.dictionaries(st.just("affinity"), VALUES))
def test_whatever_stands_there_is_read_without_a_fault(spec: Any) -> None:
    assert all(isinstance(name, str) for name in other_namespaces(spec, "shop"))
