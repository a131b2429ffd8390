"""A frozen table never changes, whatever its owner does next."""

from collections.abc import Mapping

from hypothesis import given
from hypothesis import strategies as st

from forewarn.policies.base.cow_table import GroupedTable, Table, derived


@given(st.lists(st.tuples(st.sampled_from(["put", "pop", "freeze"]), st.integers(0, 20), st.integers())))
def test_frozen_tables_hold_what_a_dict_held_at_that_moment(steps: list[tuple[str, int, int]]) -> None:
    table: Table[int, int] = Table()
    model: dict[int, int] = {}
    frozen = []
    for step, key, value in steps:
        if step == "put":
            table.put(key, value)
            model[key] = value
        elif step == "pop":
            assert table.pop(key) == model.pop(key, None)
        else:
            frozen.append((table.freeze(), dict(model)))
        assert len(table) == len(model)
        assert sorted(table) == sorted(model)
    for kept, expected in frozen:
        assert dict(kept) == expected
        assert len(kept) == len(kept.items()) == len(expected)
        assert sorted(kept.items()) == sorted(expected.items())
        assert sorted(kept.values()) == sorted(expected.values())
        assert sum(kept.derived(_sum)) == sum(expected.values())


def _sum(part: Mapping[int, int]) -> int:
    return sum(part.values())


def test_what_was_made_of_a_part_is_made_again_of_those_alone_that_changed() -> None:
    table: Table[int, int] = Table(8)
    for key in range(100):
        table.put(key, key)
    seen = []

    def count(part: Mapping[int, int]) -> int:
        seen.append(part)
        return len(part)

    before = table.freeze()
    assert [sum(before.derived(count)), len(seen)] == [100, 8]
    table.put(100, 1)
    after = table.freeze()
    assert [sum(after.derived(count)), len(seen)] == [101, 9]
    assert [sum(before.derived(count)), len(seen)] == [100, 9]
    assert derived({1: 1, 2: 2}, count) == [2]


KEYS = st.tuples(st.sampled_from("abc"), st.sampled_from("xyz"))


@given(st.lists(st.tuples(st.sampled_from(["put", "pop", "freeze"]), KEYS, st.integers())), st.integers(0, 1))
def test_grouped_tables_do_too_and_know_their_groups(steps: list[tuple[str, tuple[str, str], int]], place: int) -> None:
    table: GroupedTable[tuple[str, str], int] = GroupedTable(place)
    model: dict[tuple[str, str], int] = {}
    frozen = []
    for step, key, value in steps:
        if step == "put":
            table.put(key, value)
            model[key] = value
        elif step == "pop":
            assert table.pop(key) == model.pop(key, None)
        else:
            frozen.append((table.freeze(), dict(model)))
            assert table.freeze() is frozen[-1][0]
        assert table.get(key) == model.get(key)
        assert len(table) == len(model)
        assert sorted(table) == sorted(model)
    for kept, expected in frozen:
        assert dict(kept) == expected
        assert len(kept) == len(expected)
        assert sorted(kept.items()) == sorted(expected.items())
        assert sorted(kept.values()) == sorted(expected.values())
        for name in "abcxyz":
            assert dict(kept.group(name)) == {k: v for k, v in expected.items() if k[place] == name}
            assert kept.get((name, name), -1) == expected.get((name, name), -1)
