"""A selector of many requirements matches what each of them matches, and does not go through them for each object."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from forewarn.policies.kubernetes.selectors import LabelSelector, one_of, parse_label_selector, with_label_keys
from tests.work import steps

KEYS, VALUES = [f"k{number}" for number in range(24)], ["", "a", "b", "c"]


def expression(key: str, operator: str, values: list[str]) -> dict[str, Any]:
    return {"key": key, "operator": operator, **({"values": values} if "In" in operator else {})}


EXPRESSIONS = st.builds(
    expression,
    st.sampled_from(KEYS),
    st.sampled_from(["In", "NotIn", "NotIn", "DoesNotExist", "Exists"]),
    st.lists(st.sampled_from(VALUES), min_size=1, max_size=3),
)
LABELS = st.dictionaries(st.sampled_from(KEYS), st.sampled_from(VALUES))


@given(st.lists(st.text("a/.*?[!]-|", max_size=5), max_size=5), st.text("ab/.|\n", max_size=5))
def test_one_of_several_patterns_matches(patterns: list[str], name: str) -> None:
    assert one_of(patterns, name) == any(fnmatchcase(name, pattern) for pattern in patterns)


@given(st.lists(EXPRESSIONS, max_size=60), st.lists(LABELS, min_size=1, max_size=5), LABELS)
def test_all_of_its_requirements_hold(
    expressions: list[dict[str, Any]], objects: list[dict[str, str]], own: dict[str, str]
) -> None:
    selector = parse_label_selector({"matchExpressions": expressions})
    assert selector is not None
    for found in (selector, with_label_keys(selector, "NotIn", own, own)):
        assert found is not None
        key, value = found.label or ("", None)
        for labels in objects:
            assert labels.get(key) == value or not found.matches(labels)
            assert found.matches(labels) == all(each.matches(labels) for each in found.requirements)
        assert found == LabelSelector(tuple(found.requirements))
        assert hash(found) == hash(LabelSelector(tuple(found.requirements)))


def test_what_fits_all_requirements_is_found() -> None:
    """Random labels hardly do."""
    selector = parse_label_selector({"matchExpressions": [expression(k, "NotIn", [v]) for k in KEYS for v in "bc"]})
    assert selector is not None
    assert selector.matches(dict.fromkeys(KEYS, "a"))
    assert not selector.matches({**dict.fromkeys(KEYS, "a"), "k7": "b"})
    assert selector.matches({})


def test_ten_thousand_requirements_cost_no_more_than_the_labels_they_are_asked_of() -> None:
    """Twenty budgets of a tenant, with 5,000 each, had every prediction on the cluster cut short."""
    selector = parse_label_selector({"matchExpressions": [expression(f"k{n}", "NotIn", ["x"]) for n in range(10_000)]})
    assert selector is not None
    assert selector.matches({"app": "web"})
    assert steps(lambda: selector.matches({"app": "web"})) < 50
