"""Kinds that not every API server serves (DRA devices, PodGroups): followed as soon as they are served."""

from __future__ import annotations

from threading import Event, Thread
from typing import TYPE_CHECKING, Final

from forewarn.policies.kinds.registry import DEVICES, SEPARATE_KINDS
from forewarn.webhook.apiserver.errors import ApiError
from forewarn.webhook.apiserver.raw_objects import mapping
from forewarn.webhook.logs import LOGGER

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from forewarn.policies.kinds.registry import KindSpec
    from forewarn.webhook.apiserver.discovery import Getter

ASK_AGAIN_SECONDS: Final = 60.0


def follow_optional(
    api: Getter, follow: Callable[[KindSpec], object], stopped: Event, pause: float = ASK_AGAIN_SECONDS
) -> Thread:
    """Follow the kinds in `kinds.OPTIONAL` on a new thread, each once it is served, until `stopped`.

    The kinds of DRA devices are followed once all of them are served. Until all of these are listed, forewarn does
    not predict Pods that claim devices.
    """
    thread = Thread(target=_discover, args=(api, follow, stopped, pause), name="optional-kinds", daemon=True)
    thread.start()
    return thread


def _discover(api: Getter, follow: Callable[[KindSpec], object], stopped: Event, pause: float) -> None:
    wanted = [DEVICES, *((spec,) for spec in SEPARATE_KINDS)]
    while wanted and not stopped.is_set():
        for together in tuple(wanted):
            try:
                if _served(api, together):
                    wanted.remove(together)
                    for spec in together:
                        follow(spec)
            except Exception:
                LOGGER.exception("internal error while discovering %s", together[0].name)
        if wanted:
            stopped.wait(pause)


def _served(api: Getter, together: Sequence[KindSpec]) -> bool:
    try:
        found = api.get(f"/apis/{together[0].api_version}").get("resources")
    except ApiError:
        return False
    plurals = {mapping(resource).get("name") for resource in found} if isinstance(found, list) else set()
    return plurals >= {spec.plural for spec in together}
