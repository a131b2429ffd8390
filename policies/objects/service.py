"""Service, with the fields that default topology spreading reads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from forewarn.policies.objects.fields import at, string_map, text

if TYPE_CHECKING:
    from collections.abc import Mapping

    from forewarn.policies.objects.fields import ApiObject


@dataclass(frozen=True, slots=True)
class Service:
    """A stored Service. `selector`: None (missing) matches no Pod, an empty selector every Pod."""

    namespace: str
    name: str
    selector: Mapping[str, str] | None

    @classmethod
    def from_api(cls, obj: ApiObject) -> Service:
        """Read an API object. Raises InvalidObject."""
        return cls(
            namespace=text(obj, "metadata", "namespace", default="default"),
            name=text(obj, "metadata", "name"),
            selector=None if at(obj, "spec", "selector") is None else string_map(obj, "spec", "selector"),
        )

    def matches(self, labels: Mapping[str, str]) -> bool:
        """True if the selector matches these labels."""
        return self.selector is not None and all(labels.get(key) == value for key, value in self.selector.items())
