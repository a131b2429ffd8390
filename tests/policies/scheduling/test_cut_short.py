"""What a question that is cut short leaves behind: the next ones, on older and newer states, are answered as ever."""

import os
import random
from collections import Counter
from contextlib import nullcontext
from typing import Any

import pytest

from forewarn import policies
from forewarn.policies.base.metering import CutShort, Meter, metered
from tests.cases import cases
from tests.policies.scheduling.comparing import node_by_node
from tests.policies.scheduling.random_changes import World
from tests.policies.scheduling.random_pods import Obj

SEED = os.environ.get("FOREWARN_SEED", "1")
PREFERRED = [
    {"weight": 1 + n, "podAffinityTerm": {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": f"a{n}"}}}}
    for n in range(20)
]


def said(snapshot: policies.ClusterSnapshot, asked: Obj, *, columns: bool) -> dict[str, Any]:
    with nullcontext() if columns else node_by_node():
        answer = policies.predict(snapshot, asked, reasons=True).to_dict()
    # A plugin that gives nothing may be left out.
    scores = {node: {name: n for name, n in row.items() if n} for node, row in answer.get("scores", {}).items()}
    return {**answer, "scores": scores}


def cut(snapshot: policies.ClusterSnapshot, asked: Obj, at: int, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Ask, and run out of time the `at`th time that work is counted. Whether it came to that."""
    seen = Counter[str]()

    def charge(self: Meter, units: int = 1) -> None:
        seen["charges"] += 1
        if seen["charges"] == at:
            raise CutShort

    with monkeypatch.context() as patch:
        patch.setattr(Meter, "charge", charge)
        try:
            with metered(lambda: False):
                said(snapshot, asked, columns=True)
        except CutShort:
            return True
    return False


@pytest.mark.parametrize("number", range(cases(12)))
def test_a_question_that_is_cut_short_changes_no_answer(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(f"cut {SEED}.{number}")
    world, cache = World(f"cut {SEED}.{number}"), policies.Cache()
    for obj in world.objects.values():
        cache.add(obj)
    asked = [world.case()["pod"] for _ in range(3)]
    for each in asked[:2]:
        each["spec"].setdefault("affinity", {})["podAffinity"] = {
            "preferredDuringSchedulingIgnoredDuringExecution": PREFERRED
        }
    times = Counter[bool]()
    for step in range(24):
        before = cache.snapshot()
        for each in asked:
            said(before, each, columns=True)
        for _ in range(rng.randint(1, 3)):
            how, obj = world.change()
            (cache.remove if how == "remove" else cache.add)(obj)
        after = cache.snapshot()
        times[cut(after, rng.choice(asked), rng.randint(1, 40), monkeypatch)] += 1
        states = [before, after]
        rng.shuffle(states)
        for state in states:
            for each in asked:
                assert said(state, each, columns=True) == said(state, each, columns=False), (number, step)
    assert times[True] > 2, times
