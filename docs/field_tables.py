"""Writes field_tables.json in kube_apiserver/validation: which fields the kinds that are read have, by minor.

Made of Kubernetes' own OpenAPI, which `go mod download` brings for each release of
`policies.kubernetes.releases.release.CHECKED_WITH`.
`make field-tables`; a new minor is a line there, and this run again.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
TARGET = ROOT / "policies/kubernetes/kube_apiserver/validation/field_tables.json"
sys.path.insert(0, str(ROOT))

from forewarn.policies.kubernetes.kinds.registry import (  # noqa: E402
    AUTOSCALER,
    GROUP_TEMPLATES,
    KINDS,
    LINTED,
    OPTIONAL,
    POD_GROUP,
    POD_TEMPLATE_PATHS,
)
from forewarn.policies.kubernetes.releases.minors import CHECKED_WITH  # noqa: E402

GROUP_VERSIONS = ("v1alpha1", "v1alpha2", "v1alpha3", "v1beta1")
"""The versions of PodGroups and Workloads. v1alpha3 has the fields of v1beta1; their types are those of v1beta1."""
_NODE = "io.k8s.api.core.v1.Node"
"""A type without kind in the tables: files of node groups contain Nodes, but no linted manifest does."""
Types = dict[str, dict[str, str]]
"""Type -> field -> what it holds: a type, `[` and the type of its items, `{` and that of its values, or nothing."""


def main() -> int:
    """Write the tables of all minors."""
    kinds: dict[int, dict[str, str]] = {minor: {} for minor in CHECKED_WITH}
    found = {minor: types_of(definitions_of(release), kinds[minor]) for minor, release in CHECKED_WITH.items()}
    names = sorted({name for types in found.values() for name in types})
    tables = {
        "minors": list(found),
        "kinds": dict(
            sorted((kind, f"{name}{_span(kind, kinds)}") for served in kinds.values() for kind, name in served.items())
        ),
        "types": {name: " ".join(_fields(name, found)) for name in names},
    }
    TARGET.write_text(json.dumps(tables, indent=0) + "\n")
    return 0


def definitions_of(release: str) -> dict[str, Any]:
    """The definitions of a release's OpenAPI."""
    command = ["go", "mod", "download", "-json", f"k8s.io/kubernetes@v{release}"]
    module = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    text = (Path(module["Dir"]) / "api/openapi-spec/swagger.json").read_text()
    definitions: dict[str, Any] = json.loads(text)["definitions"]
    return definitions


def types_of(definitions: dict[str, Any], kinds: dict[str, str]) -> Types:
    """The types that the kinds that are read consist of; `kinds` gets their names by `apiVersion/Kind`."""
    read = {*LINTED, *POD_TEMPLATE_PATHS}
    wanted = {f"{s.api_version}/{s.kind}" for s in (*KINDS, *OPTIONAL) if s.group_kind in read}
    wanted |= {kind.replace("/", f"/{version}/") for kind in (POD_GROUP, GROUP_TEMPLATES) for version in GROUP_VERSIONS}
    wanted |= {AUTOSCALER.replace("/", f"/{version}/") for version in ("v1", "v2")}
    to_do, types = [_NODE], Types()
    for name, definition in definitions.items():
        for kind in definition.get("x-kubernetes-group-version-kind", ()):
            of_kind = "/".join(filter(None, (kind["group"], kind["version"], kind["kind"])))
            if of_kind in wanted and not definition["description"].startswith("DeleteOptions"):
                own = name.replace(".scheduling.v1alpha3.", ".scheduling.v1beta1.")
                kinds[of_kind] = _short(own)
                to_do.append(own)
    homes: dict[str, str] = {}
    while to_do:
        name = to_do.pop()
        if homes.setdefault(_short(name), name) != name:
            raise SystemExit(f"{name} and {homes[_short(name)]} have one short name")
        if _short(name) not in types:
            types[_short(name)] = {}
            for field, schema in definitions[name].get("properties", {}).items():
                types[_short(name)][field] = _held(schema, definitions, to_do)
    return types


def _held(schema: dict[str, Any], definitions: dict[str, Any], to_do: list[str]) -> str:
    if "$ref" in schema:
        name = schema["$ref"].removeprefix("#/definitions/")
        if "properties" not in definitions[name] and not _is_empty_struct(name, definitions[name]):
            return ""
        to_do.append(name)
        return _short(name)
    for sign, key in (("[", "items"), ("{", "additionalProperties")):
        if key in schema:
            inner = _held(schema[key], definitions, to_do)
            return sign + inner if inner else ""
    return ""


def _is_empty_struct(name: str, definition: dict[str, Any]) -> bool:
    """Whether no field is known, as in `basic: {}`; types of apimachinery without properties take any."""
    return name.startswith("io.k8s.api.") and definition.get("type") == "object"


def _fields(name: str, found: dict[int, Types]) -> list[str]:
    """`field`, `field:Type`, and `@35`, `@-36` or `@35-36` behind one that not all minors have."""
    held = {field: kind for types in found.values() for field, kind in types.get(name, {}).items()}
    fields = []
    for field in sorted(held):
        if not re.fullmatch(r"[$\w]+", field):
            raise SystemExit(f"{name}.{field} needs another notation")
        span = _span(field, {minor: types.get(name, {}) for minor, types in found.items()})
        fields.append(field + (f":{held[field]}" if held[field] else "") + span)
    return fields


def _span(name: str, found: dict[int, dict[str, str]]) -> str:
    """`@35`, `@-36` or `@35-36` for what not all minors have."""
    minors = list(found)
    have = [minor for minor in minors if name in found[minor]]
    first = "" if have[0] == minors[0] else str(have[0])
    last = "" if have[-1] == minors[-1] else f"-{have[-1]}"
    return f"@{first}{last}" if first or last else ""


def _short(name: str) -> str:
    """The name of a type; with the API group where other groups have types of the same name."""
    package, _, short = name.rpartition(".")
    if ".api.resource." in name:
        return f"resource.{short}"
    if ".scheduling.v1alpha1." in name:  # its PodGroup is another type
        return f"scheduling.v1alpha1.{short}"
    if ".autoscaling.v1." in name:
        return f"autoscaling.v1.{short}"
    return f"scheduling.{short}" if package.endswith((".scheduling.v1alpha2", ".scheduling.v1beta1")) else short


if __name__ == "__main__":
    sys.exit(main())
