"""The chart's values and files, read. What helm makes of it: tests/e2e/test_chart.py."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft7Validator

from forewarn.policies.linting.config.load import read_config
from forewarn.webhook.settings import FLAGS, parse_settings
from tests.test_packaging import SETUP

CHART = Path("manifests/chart")
SCHEMA = json.loads((CHART / "values.schema.json").read_text())
WORDS = {"kubernetes-version": "1.36", "feature-gates": "", "tls-min-version": "1.2", "log-level": "warning"}


def leaves(schema: dict[str, Any], path: str = "") -> dict[str, Any]:
    """Path of each value that has a description -> its schema."""
    found: dict[str, Any] = {}
    for name, part in schema["properties"].items():
        found |= {path + name: part} if "description" in part else leaves(part, f"{path}{name}.")
    return found


@pytest.mark.parametrize("values", ["values.yaml", *(f"ci/{path.name}" for path in sorted(CHART.glob("ci/*.yaml")))])
def test_the_values_are_as_the_schema_has_them(values: str) -> None:
    Draft7Validator.check_schema(SCHEMA)
    Draft7Validator(SCHEMA).validate(yaml.safe_load((CHART / values).read_text()))


@pytest.mark.parametrize("cluster_audit", [True, False])
@pytest.mark.parametrize("cron_job", [True, False])
def test_one_audit_at_most_is_enabled(cluster_audit: bool, cron_job: bool) -> None:
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    values["clusterAudit"]["enabled"], values["auditCronJob"]["enabled"] = cluster_audit, cron_job
    assert Draft7Validator(SCHEMA).is_valid(values) is not (cluster_audit and cron_job)


def test_every_value_is_told_with_its_default() -> None:
    page, defaults = (CHART / "README.md").read_text(), yaml.safe_load((CHART / "values.yaml").read_text())
    for path in leaves(SCHEMA).keys() - {"global"}:
        value = defaults
        for step in path.split("."):
            value = value[step]
        assert f"| `{path}` | `{json.dumps(value)}` |" in page


def test_each_setting_is_a_flag_of_serve_and_of_its_type() -> None:
    flags = {flag.name: flag for flag in FLAGS}
    for name, schema in SCHEMA["properties"]["settings"]["properties"].items():
        value = WORDS[name] if schema["type"] == "string" else float(flags[name].default or "")
        parse_settings([], {flags[name].variable: f"{value:g}" if isinstance(value, float) else value})


def test_there_is_an_example_for_each_overlay() -> None:
    overlays = {path.name for path in Path("manifests/overlays").iterdir()}
    assert {path.name.removesuffix("-values.yaml") for path in CHART.glob("ci/*.yaml")} == overlays


def test_alerts_and_dashboard_are_the_files_of_the_component() -> None:
    for name in ("rules.yaml", "forewarn.json"):
        assert (CHART / "files" / name).read_bytes() == Path("manifests/components/monitoring", name).read_bytes()
        used = "".join(path.read_text() for path in CHART.glob("templates/*.yaml"))
        assert f'.Files.Get "files/{name}"' in used


def test_the_version_is_that_of_forewarn_and_of_the_image() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    version = SETUP["metadata"]["version"]
    assert (chart["version"], chart["appVersion"]) == (version, version)
    assert re.search(
        rf"^  newTag: {re.escape(version)}$", Path("manifests/base/kustomization.yaml").read_text(), re.MULTILINE
    )


@pytest.mark.parametrize("release", sorted(Path("tests/e2e/released").iterdir()), ids=lambda path: path.name)
def test_values_configuration_and_settings_of_a_release_stay_valid(release: Path) -> None:
    Draft7Validator(SCHEMA).validate(yaml.safe_load((release / "values.yaml").read_text()))
    objects = list(yaml.safe_load_all((release / "templates/manifests.yaml").read_text()))
    by_name = {(obj["kind"], obj["metadata"]["name"]): obj for obj in objects}
    read_config(by_name["ConfigMap", "forewarn"]["data"]["forewarn.yaml"], "forewarn.yaml")
    (container,) = by_name["Deployment", "forewarn"]["spec"]["template"]["spec"]["containers"]
    settings = {variable["name"]: variable["value"] for variable in container["env"] if "value" in variable}
    assert parse_settings([], settings).max_in_flight == 512
