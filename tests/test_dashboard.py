"""The dashboard is one that Grafana takes: whole, and by Grafana's own schema where that is at hand.

git clone https://github.com/grafana/grafana-foundation-sdk
GRAFANA_SCHEMA=grafana-foundation-sdk/jsonschema python -m pytest tests/test_dashboard.py
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import jsonschema
import pytest

DASHBOARD: Any = json.loads(Path("manifests/components/monitoring/forewarn.json").read_text())
SCHEMA = os.environ.get("GRAFANA_SCHEMA", "")


def problems(name: str, definition: str, value: object) -> list[str]:
    """What a definition of the schema says against a value, whatever the case of its name in that release."""
    schema: Any = json.loads(Path(SCHEMA, f"{name}.jsonschema.json").read_text())
    (found,) = [known for known in schema["definitions"] if known.lower() == definition]
    validator = jsonschema.Draft7Validator({**schema, "$ref": f"#/definitions/{found}"})
    return [f"{'.'.join(map(str, error.absolute_path))}: {error.message}" for error in validator.iter_errors(value)]


@pytest.mark.skipif(not SCHEMA, reason="GRAFANA_SCHEMA says where Grafana's schema is")
def test_it_is_valid_by_grafanas_schema() -> None:
    assert problems("dashboard", "dashboard", DASHBOARD) == []
    for panel in DASHBOARD["panels"]:
        assert problems("dashboard", "panel", panel) == []
        assert [told for target in panel["targets"] for told in problems("prometheus", "dataquery", target)] == []
        if "options" in panel:
            assert problems(panel["type"], "options", panel["options"]) == []


def test_it_has_what_the_schema_asks_for() -> None:
    """What was missing of it once: since Grafana 10 annotations are required, and a current value that says nothing is
    refused."""
    assert {"annotations", "panels", "schemaVersion", "templating", "time", "title", "uid"} <= DASHBOARD.keys()
    assert DASHBOARD["annotations"] == {"list": []}
    for variable in DASHBOARD["templating"]["list"]:
        assert {"text", "value"} <= variable.get("current", {"text", "value"})


def test_panels_do_not_lie_on_each_other() -> None:
    taken: dict[tuple[int, int], str] = {}
    for panel in DASHBOARD["panels"]:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24, panel["title"]
        for x in range(place["x"], place["x"] + place["w"]):
            for y in range(place["y"], place["y"] + place["h"]):
                assert taken.setdefault((x, y), panel["title"]) == panel["title"]


def test_each_panel_asks_the_chosen_data_source_something_of_its_own() -> None:
    chosen = {"type": "prometheus", "uid": "${datasource}"}
    for panel in DASHBOARD["panels"]:
        assert panel["datasource"] == chosen, panel["title"]
        names = [target["refId"] for target in panel["targets"]]
        assert names
        assert len(set(names)) == len(names), panel["title"]
        assert all(target["expr"] for target in panel["targets"])


def test_an_unknown_expiry_is_no_time() -> None:
    asked = [target["expr"] for panel in DASHBOARD["panels"] for target in panel["targets"]]
    expiries = [expression for expression in asked if "expiry_timestamp" in expression]
    assert expiries
    assert all("_expiry_timestamp_seconds > 0)" in expression for expression in expiries)
