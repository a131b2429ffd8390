"""A cycle has one result, however it is computed and in whichever order it is read."""

import os
import random
import re
from pathlib import Path

from forewarn import policies
from forewarn.policies.kubernetes.scheduling.schedule_one import Prediction
from tests.policies.scheduling.random_changes import objects_of
from tests.policies.scheduling.random_clusters import random_case

SEED = os.environ.get("FOREWARN_SEED", "1")
SCHEDULING = Path(__file__).parents[3] / "policies" / "kubernetes" / "scheduling"
READ = ("best_nodes", "caveats", "error", "feasible", "node", "not_scored", "rejecting_plugins", "scores", "statuses")


def test_only_code_above_the_tables_falls_back_to_plugins() -> None:
    """Plugins and tables raise NotValid at any depth; a cycle only adds the name of the plugin."""
    handlers = re.compile(r"(except |suppress\()NotValid")
    assert {path.name for path in SCHEDULING.rglob("*.py") if handlers.search(path.read_text())} == {
        "bulk.py",
        "recurring_cycle.py",
        "schedule_one.py",
        "vectorized_cycle.py",
    }


def test_only_extension_points_look_for_methods_of_plugins() -> None:
    sources = {path.name: path.read_text() for path in SCHEDULING.rglob("*.py")}
    lookups = re.compile(r"(hasattr|getattr)\((plugin|profile)")
    assert {name for name, text in sources.items() if lookups.search(text)} == {
        "framework.py",
        "foreign_plugins.py",
    }


def test_answers_do_not_depend_on_the_order_of_reading() -> None:
    for number in range(60):
        rng = random.Random(f"order {SEED}.{number}")
        case = random_case(f"order {SEED}.{number}")
        cache = policies.Cache()
        for obj in objects_of(case):
            cache.add(obj)
        snapshot = cache.snapshot()

        def read(names: list[str]) -> dict[str, object]:
            prediction: Prediction = policies.predict(snapshot, case["pod"])  # noqa: B023
            return {name: getattr(prediction, name) for name in names}

        assert read(rng.sample(READ, len(READ))) == read([*READ]), case["id"]
