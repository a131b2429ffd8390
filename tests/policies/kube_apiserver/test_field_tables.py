"""fields.json: each struct belongs to a kind, and each check of a module to a struct."""

from __future__ import annotations

import json
from importlib import import_module
from pathlib import Path

import pytest

from forewarn.policies.kubernetes.kube_apiserver import validation
from forewarn.policies.kubernetes.kube_apiserver.validation import tables

HERE = Path(validation.__path__[0])
STRUCTS: dict[str, dict[str, str]] = json.loads((HERE / "fields.json").read_text())
MODULES = ("tables", "pod_fields", "apps", "batch", "resources", "admissionregistration")


def structs_of(module: str) -> list[tables.Structs]:
    names = vars(import_module(f"{validation.__name__}.{module}"))
    return [value for value in names.values() if isinstance(value, tables.Structs)]


def test_each_struct_belongs_to_a_kind() -> None:
    kinds = {kind.rpartition("/")[2] for kind in tables.KINDS}
    left = {"WebhookConfiguration" if kind.endswith("WebhookConfiguration") else kind for kind in kinds}
    left |= {"RunningContainer", *(name for name in STRUCTS if name.endswith("MetricSource"))}
    reached = set[str]()
    while left:
        reached.add(name := left.pop())
        types = {text.split()[0].lstrip("[]*") for key, text in STRUCTS[name].items() if key != "+checks"}
        left |= (types & STRUCTS.keys()) - reached
    assert reached == STRUCTS.keys()


@pytest.mark.parametrize("kind", sorted(tables.KINDS))
def test_each_kind_has_its_checks(kind: str) -> None:
    known = tables._kind_of(kind)
    assert known.structs[known.name].fields


@pytest.mark.parametrize("module", MODULES)
def test_each_check_belongs_to_a_struct(module: str) -> None:
    used = {word for struct in STRUCTS.values() for text in struct.values() for word in text.replace("=", " ").split()}
    for structs in structs_of(module):
        assert structs.checks.keys() <= used
