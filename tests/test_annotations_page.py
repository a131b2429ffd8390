"""Every name in docs/reference/annotations.md is a name in the code, and the other way round."""

from __future__ import annotations

import ast
import fnmatch
import re
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from forewarn.policies.base.documents import fields_of
from forewarn.policies.base.findings import INCOMPLETE
from forewarn.policies.prediction.forecast.impact import Cascade, ImpactDocument, PreemptionBy
from forewarn.policies.prediction.forecast.pod_groups import GroupImpact

if TYPE_CHECKING:
    from collections.abc import Iterator

PAGE = Path("docs/reference/annotations.md").read_text()
DETAILS = {"basis", "victims", "reasons", "newNodes", "expectation"}
"""Keys of the impact that only details of findings have."""


def _rows(section: str) -> Iterator[tuple[list[str], str]]:
    """Yield (names in the first column, last column) of each row of a section's table."""
    (text,) = re.findall(rf"^## {section}$(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL)
    for line in text.splitlines():
        if line.startswith("| ") and not line.startswith("| key "):
            first, *_, last = line.strip("| ").split(" | ")
            yield re.findall(r"`([^`]+)`", first), last


def _documented_impact() -> set[str]:
    names = {re.sub(r"^\.|\[\]$", "", name) for row, _ in _rows("preemption-impact") for name in row}
    ((_, group),) = [row for row in _rows("preemption-impact") if row[0] == ["podGroup"]]
    return names | set(re.findall(r"`([^`]+)`", group))


def _trees(folder: str) -> Iterator[tuple[str, ast.Module]]:
    for path in sorted(Path(folder).rglob("*.py")):
        yield str(path), ast.parse(path.read_text())


def test_the_keys_of_the_impact_are_those_of_the_code() -> None:
    types = (PreemptionBy, Cascade, GroupImpact)
    keys = {field.key for field in fields_of(ImpactDocument)} - DETAILS
    assert _documented_impact() == keys.union(field.key for one in types for field in fields_of(one))


def _audit_keys() -> Iterator[str]:
    for path, tree in _trees("webhook/admission"):
        module = import_module(f"forewarn.{path.removesuffix('.py').replace('/', '.')}")
        for node in ast.walk(tree):
            keys: list[Any] = []
            if isinstance(node, ast.Call) and ast.unparse(node.func).endswith(".audited"):
                keys = [node.args[0]]
            elif isinstance(node, ast.keyword) and node.arg == "audit" and isinstance(node.value, ast.Dict):
                keys = [key for key in node.value.keys if key is not None]
            elif isinstance(node, ast.Subscript) and ast.unparse(node.value) == "audit":
                keys = [node.slice]
            texts = (ast.unparse(key) for key in keys if ast.unparse(key) != "key")
            yield from (eval(text, vars(module)) for text in texts)


def test_the_audit_annotations_are_those_of_the_code() -> None:
    documented = {name for names, _ in _rows("Audit annotations") for name in names}
    assert documented - {INCOMPLETE} == set(_audit_keys()), "the first is the id of a message, as those of rules are"


@cache
def _strings(folder: str) -> set[str]:
    constants = (node for _, tree in _trees(folder) for node in ast.walk(tree) if isinstance(node, ast.Constant))
    return {node.value for node in constants if isinstance(node.value, str)}


def test_the_annotations_of_forewarn_are_those_of_the_code() -> None:
    table = PAGE[: PAGE.index("\nLabels:")]
    written = {
        text
        for text in _strings("policies") | _strings("webhook")
        if re.fullmatch(r"forewarn\.dev/(?!v\d)[\w-]+", text)
    }
    assert set(re.findall(r"^\| \[?`(forewarn\.dev/[\w-]+)`", table, re.MULTILINE)) == written


def test_the_annotations_of_kubernetes_are_names_in_the_code() -> None:
    written = _strings("policies")
    documented = {name for names, _ in _rows("Kubernetes' annotations and labels") for name in names}
    missing = [name for name in documented - {"annotation"} if not fnmatch.filter(written, name)]
    assert not missing
