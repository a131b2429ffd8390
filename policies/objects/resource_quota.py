"""ResourceQuota, as far as rules read it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from policies.objects.fields import mapping, text

if TYPE_CHECKING:
    from policies.objects.fields import ApiObject


class ResourceQuota(NamedTuple):
    """A quota in a cluster; `spec` and `status` as stored."""

    namespace: str
    name: str
    spec: ApiObject
    status: ApiObject

    @classmethod
    def from_api(cls, obj: ApiObject) -> ResourceQuota:
        """Read an API object. Raises InvalidObject."""
        return cls(
            namespace=text(obj, "metadata", "namespace", default="default"),
            name=text(obj, "metadata", "name"),
            spec=mapping(obj, "spec"),
            status=mapping(obj, "status"),
        )
