"""Find the PriorityClass fields of a CustomResourceDefinition's kind in its OpenAPI schema."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from forewarn.policies.kinds.class_paths import ITEMS, MARKERS, VALUES, ClassPath, is_class_key

if TYPE_CHECKING:
    from collections.abc import Iterator

CRD: Final = "apiextensions.k8s.io/CustomResourceDefinition"
_DEEPEST: Final = 60
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
    found = dict.fromkeys(
        path
        for version in (*(versions if isinstance(versions, list) else ()), {"schema": spec.get("validation")})
        for path in _paths(_mapping(_mapping(_mapping(version).get("schema")).get("openAPIV3Schema")))
    )
    return kind, tuple(found)[:_MAX_PATHS]


def _paths(root: Mapping[str, Any]) -> Iterator[ClassPath]:
    """Yield the paths in one schema: to Pod templates, and to PriorityClass names outside Pod templates."""
    left = _MAX_SCHEMAS
    stack: list[tuple[tuple[str, ...], Any]] = [(("spec",), _mapping(root.get("properties")).get("spec"))]
    while stack and left:
        left -= 1
        steps, schema = stack.pop()
        if not isinstance(schema, Mapping) or len(steps) > _DEEPEST:
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
