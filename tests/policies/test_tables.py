"""A frozen table never changes, whatever its owner does next."""

from hypothesis import given
from hypothesis import strategies as st

from policies.tables import Table


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
