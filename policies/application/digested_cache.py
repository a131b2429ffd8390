"""A cluster cache with a digest, to check that several processes have read the same state."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Final

from forewarn.policies.simulation.dump import DumpCache

if TYPE_CHECKING:
    from forewarn.policies.objects.fields import ApiObject

_BITS: Final = 2**256


class DigestedCache(DumpCache):
    """A DumpCache with a digest of the added objects, independent of their order."""

    def __init__(self) -> None:
        super().__init__()
        self._sum = 0

    def add(self, obj: ApiObject) -> bool:
        """Add an object, and include it in the digest. Returns as `Cache.add`."""
        text = json.dumps(obj, sort_keys=True, separators=(",", ":")).encode()
        self._sum = (self._sum + int.from_bytes(hashlib.sha256(text).digest(), "big")) % _BITS
        return super().add(obj)

    @property
    def digest(self) -> str:
        return f"{self._sum:064x}"
