"""The fields of custom resources that name PriorityClasses: Pod templates in lists or maps, or only the name.

A path has a step for each key; `[*]` means each item of a list, `*` each value of a map. class_paths.json has the paths
of each kind. Their sources are the CustomResourceDefinitions and Go types of these projects:

- Tekton: pipeline config/300-crds (v1 and v1beta1), triggers pkg/apis/triggers/v1beta1/trigger_template_types.go. A
  Task, a Pipeline and an EventListener (event_listener_validation.go, podSpecMask) name no class.
- ECK: cloud-on-k8s config/crds/v1/resources. Apache Spark: spark-kubernetes-operator,
  build-tools/helm/spark-kubernetes-operator/crds.
- KServe: config/crd/full; a ServingRuntime names no class. Strimzi: packaging/install/cluster-operator.
- Koordinator: config/crd/bases; apis/scheduling/v1alpha1. Kueue: config/components/crd/bases.
- Open Cluster Management: api operator/v1, work/v1/types.go, work/v1alpha1/types_manifestworkreplicaset.go,
  addon/v1alpha1/types_addontemplate.go; governance-policy-propagator api/v1/policy_types.go,
  config-policy-controller api/v1/configurationpolicy_types.go.
- Crossplane: provider-kubernetes package/crds. OpenShift: api template/v1/types.go.
- Flux: helm-controller api/v2/helmrelease_types.go. Argo CD: pkg/apis/application/v1alpha1/types.go.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from forewarn.policies.base.light import NamedTuple

ITEMS: Final = "[*]"
VALUES: Final = "*"
ANYWHERE: Final = "**"
"""Step to each value at a key such as `priorityClassName`, at any depth: for Helm values, as the chart is unknown."""
PARAMETERS: Final = "[priorityClassName]"
"""Step to each list item whose `name` ends with `priorityClassName`: for Helm parameters."""
MARKERS: Final = frozenset((ITEMS, VALUES, ANYWHERE, PARAMETERS))
"""Steps that are not keys."""


class BadPath(ValueError):
    """The error for an invalid path."""


class ClassPath(NamedTuple):
    """A path in the objects of a kind: to Pod templates, or (`is_name`) to PriorityClass names.

    In `PRESETS`, a path may end in ANYWHERE.
    """

    steps: tuple[str, ...]
    is_name: bool = False


def found_at(value: Any, steps: tuple[str, ...], path: tuple[str | int, ...] = ()) -> Iterator[tuple[Any, Any]]:
    """Yield (path, value) for each value to which the steps lead. `path`: the path of `value` in the object."""
    if not steps:
        yield path, value
    elif steps[0] == ANYWHERE:
        yield from _class_keys(value, path, _DEEPEST)
    elif steps[0] in (ITEMS, PARAMETERS):
        for index, item in enumerate(value if isinstance(value, list) else ()):
            if steps[0] == ITEMS or (isinstance(item, Mapping) and is_class_key(item.get("name"))):
                yield from found_at(item, steps[1:], (*path, index))
    elif isinstance(value, Mapping):
        for key in tuple(value) if steps[0] == VALUES else (steps[0],):
            if value.get(key) is not None:
                yield from found_at(value[key], steps[1:], (*path, key))


def _class_keys(value: Any, path: tuple[str | int, ...], deepest: int) -> Iterator[tuple[Any, Any]]:
    """Yield (path, value) of each string at a PriorityClass key in Helm values, at most `deepest` levels down."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            if isinstance(item, str) and is_class_key(key):
                yield (*path, key), item
            elif isinstance(item, Mapping | list) and deepest:
                yield from _class_keys(item, (*path, key), deepest - 1)
    elif isinstance(value, list) and deepest:
        for index, item in enumerate(value):
            yield from _class_keys(item, (*path, index), deepest - 1)


def is_class_key(key: object) -> bool:
    return isinstance(key, str) and key.endswith(("priorityClassName", "PriorityClassName"))


_DEEPEST: Final = 50
"""Maximum depth of the search in Helm values."""


def parse_path(text: str, *, is_name: bool = False) -> ClassPath:
    """Parse a path such as `spec.tasks[*].template`. Raises BadPath."""
    if text.startswith(("$", "/", ".")) or "/" in text:
        raise BadPath(f'"{text}" must be the names of fields with dots between them, as in spec.template')
    for part in text.split("."):
        name = part.removesuffix(ITEMS)
        if not name or (set(name) & set("[]*?{}\"' \t\n") and name != VALUES):
            raise BadPath(
                f'"{text}": a step is the name of a field, name[*] for a list, or * for any key, not "{part}"'
            )
    steps = _steps(text)
    if steps[0] in (VALUES, "metadata", "status", "kind", "apiVersion"):
        raise BadPath(f'"{text}" must begin with a field such as spec')
    if not is_name and (
        steps[-1] == ITEMS or steps[-1].startswith("priorityClassName") or steps[-2:] == ("spec", "spec")
    ):
        raise BadPath(
            f'"{text}" must end at the pod template, which holds metadata and spec; names: priorityClassPaths'
        )
    return ClassPath(steps, is_name)


def _steps(text: str) -> tuple[str, ...]:
    """Return the steps of a path. A dot in a key is written as `\\.`."""
    names = (part.replace("\0", ".") for part in text.replace("\\.", "\0").split("."))
    parts = ((name.removesuffix(ITEMS), name.endswith(ITEMS)) for name in names)
    return tuple(step for name, items in parts for step in ((name, ITEMS) if items else (name,)))


def _paths_of(entries: Mapping[str, Mapping[str, Sequence[str]]]) -> dict[str, tuple[ClassPath, ...]]:
    return {
        kind: (
            *(ClassPath(_steps(path)) for path in paths.get("templates", ())),
            *(ClassPath(_steps(path), is_name=True) for path in paths.get("names", ())),
        )
        for kind, paths in entries.items()
    }


with open(os.path.join(os.path.dirname(__file__), "class_paths.json"), encoding="utf-8") as _file:
    _TABLES: Final = json.load(_file)
GROUPS: Final = _paths_of(_TABLES["groups"])
"""Kubernetes kinds that name PriorityClasses without a Pod template: Pod groups."""
PRESETS: Final = {**GROUPS, **_paths_of(_TABLES["presets"])}
"""`group/Kind` -> the paths at which the kind names PriorityClasses."""
CREATORS: Final = frozenset(PRESETS.keys() - GROUPS.keys() - set(_TABLES["withoutPods"]))
"""`group/Kind` of custom resources whose controllers create Pods."""
CONFIG_MAP: Final = "/ConfigMap"
MANIFESTS: Final = _paths_of(_TABLES["manifests"])
"""`group/Kind` -> the paths of whole objects in it, which its controller creates."""
TEXTS: Final = _paths_of(_TABLES["texts"])
"""`group/Kind` -> the paths of YAML text in it: manifests in a ConfigMap, Helm values in the others."""
RELEASE_NAMESPACES: Final = {kind: _steps(path) for kind, path in _TABLES["releaseNamespaces"].items()}
"""`group/Kind` -> the path of the namespace of its Pods."""


CRD: Final = "apiextensions.k8s.io/CustomResourceDefinition"
_DEEPEST_SCHEMA: Final = 60
_MAX_SCHEMAS: Final = 200_000
"""The maximum number of schemas of fields in one definition: the largest known definition has 30,000."""
_MAX_PATHS: Final = 1_000


def class_paths_of(definition: Mapping[str, Any]) -> tuple[str, tuple[ClassPath, ...]]:
    """Return the `group/Kind` that a CustomResourceDefinition defines, and all PriorityClass paths of its versions.

    For other objects, there are no paths.
    """
    spec = _mapping(definition.get("spec"))
    kind = f"{spec.get('group')}/{_mapping(spec.get('names')).get('kind')}"
    versions = spec.get("versions")
    paths = dict.fromkeys(
        path
        for version in (*(versions if isinstance(versions, list) else ()), {"schema": spec.get("validation")})
        for path in _paths(_mapping(_mapping(_mapping(version).get("schema")).get("openAPIV3Schema")))
    )
    return kind, tuple(paths)[:_MAX_PATHS]


def _paths(root: Mapping[str, Any]) -> Iterator[ClassPath]:
    """Yield the paths in one schema: to Pod templates, and to PriorityClass names outside Pod templates."""
    left = _MAX_SCHEMAS
    stack: list[tuple[tuple[str, ...], Any]] = [(("spec",), _mapping(root.get("properties")).get("spec"))]
    while stack and left:
        left -= 1
        steps, schema = stack.pop()
        if not isinstance(schema, Mapping) or len(steps) > _DEEPEST_SCHEMA:
            continue
        properties = _mapping(schema.get("properties"))
        pod = _mapping(_mapping(properties.get("spec")).get("properties"))
        if "containers" in pod and "priorityClassName" in pod:
            yield ClassPath(steps)
            continue
        for key, field in properties.items():
            if is_class_key(key) and _mapping(field).get("type") == "string":
                yield ClassPath((*steps, key), is_name=True)
            elif key not in MARKERS:
                stack.append(((*steps, key), field))
        stack.append(((*steps, ITEMS), schema.get("items")))
        stack.append(((*steps, VALUES), schema.get("additionalProperties")))


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
