"""Which budgets match a kind of pods, as it is kept from one table of budgets to the next."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from forewarn.policies.base.metering import CutShort, metered
from forewarn.policies.kubernetes.objects.disruption_budget import PodDisruptionBudget
from forewarn.policies.kubernetes.objects.pod import Pod
from forewarn.policies.kubernetes.releases.semantics import DEFAULT
from forewarn.policies.kubernetes.scheduling.vectorized.equivalence_classes import EquivalenceClasses
from forewarn.policies.kubernetes.scheduling.vectorized.lower_priority_pods import MatchingPdbs
from forewarn.policies.kubernetes.selectors import parse_label_selector
from tests.cases import cases

Table = dict[str, tuple[PodDisruptionBudget, ...]]
NAMESPACES = ("a", "b", "c")
SELECTORS = [
    parse_label_selector({"matchLabels": labels}) for labels in ({"app": "x"}, {"app": "y"}, {"tier": "1"}, {})
]
PODS = [
    Pod(namespace, f"{namespace}-{number}", labels=labels)
    for namespace in NAMESPACES
    for number, labels in enumerate(({"app": "x"}, {"app": "y", "tier": "1"}, {"app": "x", "tier": "1"}, {}))
]


def budget(namespace: str, number: int, selector: int, allowed: int, named: bool = False) -> PodDisruptionBudget:
    disrupted = frozenset({"gone"} if named else ())
    return PodDisruptionBudget(namespace, f"budget-{number}", SELECTORS[selector], allowed, disrupted)


BUDGETS = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 4), st.booleans()), max_size=3)
TABLES = st.dictionaries(st.sampled_from(NAMESPACES), BUDGETS)


def table_of(drawn: Mapping[str, list[tuple[int, int, bool]]], before: Table) -> Table:
    """A namespace of which nothing has changed keeps its tuple, as in a snapshot."""
    found: Table = {}
    for namespace, given_budgets in drawn.items():
        made = tuple(budget(namespace, number, *fields) for number, fields in enumerate(given_budgets))
        if made:
            found[namespace] = before[namespace] if before.get(namespace) == made else made
    return found


def known_pods() -> tuple[EquivalenceClasses, NDArray[np.intp]]:
    kinds = EquivalenceClasses(DEFAULT)
    return kinds, np.array([kinds.number(pod) for pod in PODS], np.intp)


def check(
    known: MatchingPdbs, numbers: NDArray[np.intp], table: Mapping[str, tuple[PodDisruptionBudget, ...]]
) -> list[int]:
    """What is told of all pods against a look at every budget; the numbers of the budgets, pod after pod."""
    lengths, found = known.matches_of_kinds(numbers, table)
    rest = found.tolist()
    for pod, length in zip(PODS, lengths.tolist(), strict=True):
        matching = [b for b in table.get(pod.namespace, ()) if b.matches(pod.namespace, pod.labels)]
        own, rest = rest[:length], rest[length:]
        assert [known.allowed[number] for number in own] == [b.disruptions_allowed for b in matching]
        assert [known.names_pods[number] for number in own] == [bool(b.disrupted_pods) for b in matching]
        assert list(known.matching(pod, table.get(pod.namespace, ()))) == matching
    assert not rest
    numbered: list[int] = found.tolist()
    return numbered


@settings(deadline=None, max_examples=cases(30))
@given(st.lists(TABLES, min_size=1, max_size=6))
def test_what_is_kept_is_what_a_look_at_every_budget_gives(drawn: list[dict[str, list[tuple[int, int, bool]]]]) -> None:
    kinds, numbers = known_pods()
    known, table = MatchingPdbs(kinds), Table()
    for one in drawn:
        table = table_of(one, table)
        check(known, numbers, table)


def test_a_budget_that_only_allows_less_keeps_its_number() -> None:
    kinds, numbers = known_pods()
    known = MatchingPdbs(kinds)
    table = {name: (budget(name, 0, 0, 3), budget(name, 1, 2, 1)) for name in NAMESPACES}
    before = check(known, numbers, table)
    charged = {**table, "a": (replace(table["a"][0], surplus=2), table["a"][1])}
    assert check(known, numbers, charged) == before
    assert check(known, numbers, table) == before
    other = {**table, "a": (budget("a", 0, 1, 3), table["a"][1])}
    assert check(known, numbers, other) != before


def test_numbers_of_budgets_that_are_gone_do_not_pile_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("forewarn.policies.kubernetes.scheduling.vectorized.lower_priority_pods._MAX_NUMBERS", 16)
    kinds, numbers = known_pods()
    known = MatchingPdbs(kinds)
    for turn in range(40):
        check(known, numbers, {"a": tuple(budget("a", number, turn % 2, 1) for number in range(3))})
        assert len(known.allowed) <= 16 + 3


def test_what_was_cut_short_goes_on() -> None:
    kinds, numbers = known_pods()
    known = MatchingPdbs(kinds)
    table = {"a": tuple(budget("a", number, number % 4, 1) for number in range(2000))}
    with pytest.raises(CutShort), metered(lambda: True):
        known.matches_of_kinds(numbers, table)
    check(known, numbers, table)
