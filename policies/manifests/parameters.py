"""Parameters in embedded objects: replaced by their defaults, or removed if they have none."""

from __future__ import annotations

import json
import re
from typing import Any, Final

from forewarn.policies.kinds.class_paths import is_class_key

_VARIABLE: Final = re.compile(r"\$\{\{?(?P<name>\w+)\}\}?|\$\([\w.\-]+\)|\{\{.*\}\}", re.DOTALL)
"""OpenShift: `${X}` in a string, `${{X}}` for any value; Tekton: `$(tt.params.x)`; OCM policies: `{{ … }}`."""
_STRING: Final = re.compile(r"\$\{\w+\}")
_NAMES: Final = frozenset(("name", "generateName", "namespace"))
_DEEPEST: Final = 100
_UNKNOWN: Final = object()


class Parameters:
    """Parameters of an object with their defaults. Results are cached, because YAML aliases may repeat one value very
    often.
    """

    def __init__(self, holder: dict[str, Any]) -> None:
        given = holder.get("parameters")
        items = [each for each in (given if isinstance(given, list) else ()) if isinstance(each, dict)]
        self._defaults = {each.get("name"): each["value"] for each in items if isinstance(each.get("value"), str)}
        self._done: dict[int, Any] = {}

    def applied(self, value: Any, depth: int = 0) -> Any:
        """Return the value with parameters replaced; the same object if there are none."""
        if depth > _DEEPEST or not isinstance(value, dict | list):
            return value
        if id(value) not in self._done:
            self._done[id(value)] = self._applied(value, depth)
        return self._done[id(value)]

    def _applied(self, value: dict[Any, Any] | list[Any], depth: int) -> Any:
        items = dict(value.items() if isinstance(value, dict) else enumerate(value))
        found = {
            key: self._text(key, item) if isinstance(item, str) else self.applied(item, depth + 1)
            for key, item in items.items()
        }
        if all(new is old for new, old in zip(found.values(), items.values(), strict=True)):
            return value
        if isinstance(value, list):
            return list(found.values())
        return {key: item for key, item in found.items() if item is not _UNKNOWN}

    def _text(self, key: object, text: str) -> Any:
        match = _VARIABLE.fullmatch(text) if text[:1] in ("$", "{") else None
        if match is None:
            return text
        default = self._defaults.get(match["name"])
        if _STRING.fullmatch(text):
            return text if default is None else default
        if default is not None:
            try:
                return json.loads(default)
            except (ValueError, RecursionError):
                return default
        return text if isinstance(key, int) or is_class_key(key) or key in _NAMES else _UNKNOWN
