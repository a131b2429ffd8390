"""Changes whose outcome on a live control plane earlier predictions contradicted."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.in_process import forewarn

CASES = Path(__file__).parents[1] / "cases/live"
EXPECTED: dict[str, dict[str, Any]] = yaml.safe_load((CASES / "expected.yaml").read_text())


@pytest.mark.parametrize("name", EXPECTED)
def test_warnings_and_annotation_predict_what_happened(name: str) -> None:
    review, cluster = (CASES / f"{name}-{file}.json" for file in ("review", "cluster"))
    options = ("-f", review, "--cluster", cluster, "--phase", "validate", "--kubernetes-version", "1.36")
    response = json.loads(forewarn("webhook", "review", *options).stdout)["response"]
    impact = json.loads(response["auditAnnotations"].get("preemption-impact", "{}"))
    impact.pop("assumes", None)
    assert {"warnings": response.get("warnings", []), "impact": impact} == EXPECTED[name]
