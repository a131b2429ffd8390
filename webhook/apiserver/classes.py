"""Live reads of PriorityClasses, to confirm denials that depend on the watch cache."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from time import monotonic
from typing import TYPE_CHECKING, Final

from forewarn.policies.kubernetes.cluster.cache import Cache
from forewarn.policies.kubernetes.kinds.registry import BY_GROUP_KIND, PRIORITY_CLASS
from forewarn.policies.kubernetes.objects.fields import InvalidObject
from forewarn.webhook.apiserver.client import ApiError, ApiServer, Timeouts

if TYPE_CHECKING:
    from forewarn.policies.kubernetes.objects.priority_class import PriorityClass

TIMEOUTS: Final = Timeouts(connect=1.0, read=2.0, total=2.0)
"""Timeouts shorter than the API server's timeout for the webhook, to leave time for the response."""
_REST: Final = 1.0
"""Seconds without another request after a failure, so that many denials do not all wait."""


class LiveClasses:
    """Reads the live PriorityClasses by name, with one consistent LIST per call. Thread-safe."""

    def __init__(self, api: ApiServer, clock: Callable[[], float] = monotonic) -> None:
        self._api, self._clock = api, clock
        self._failed: tuple[float, ApiError] | None = None

    def __call__(self) -> Mapping[str, PriorityClass]:
        """Return the PriorityClasses by name. Raises ApiError, also shortly after a failed read."""
        failed = self._failed
        if failed is not None and self._clock() - failed[0] < _REST:
            raise failed[1]
        try:
            classes = self._read()
        except ApiError as error:
            self._failed = self._clock(), error
            raise
        self._failed = None
        return classes

    def _read(self) -> Mapping[str, PriorityClass]:
        cache = Cache()
        for page in self._api.pages(BY_GROUP_KIND[PRIORITY_CLASS], timeouts=TIMEOUTS):
            for obj in page.objects:
                try:
                    cache.add(obj)
                except InvalidObject as error:
                    raise ApiError(0, str(error)) from None
        return cache.snapshot().priority_classes
