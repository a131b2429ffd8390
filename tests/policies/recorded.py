"""Answers of a real kube-apiserver v1.36.3, and how they are compared."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path
from typing import Any

CASES = Path(__file__).parent / "cases"
_SEVERAL = re.compile(r"forbidden: (failed|exceeded) quota: ")
_FAULT = re.compile(r", (?=(?:metadata|spec|value|preemptionPolicy)[.:\[])")


def load(name: str) -> list[dict[str, Any]]:
    """The cases of a file."""
    with gzip.open(CASES / name, "rt") as stream:
        return [json.loads(line) for line in stream]


def comparable(message: str, case: dict[str, Any]) -> object:
    """A message without what is arbitrary in it: the order of faults, and which of several quotas is named."""
    if len(case["cluster"].get("resourceQuotas", [])) > 1 and _SEVERAL.search(message):
        return "one of several quotas"
    found = re.fullmatch(r"(.*? is invalid: )\[(.*)\]", message, re.DOTALL)
    return (found[1], sorted(_FAULT.split(found[2]))) if found else message
