"""Devices (DRA): followed as soon as the API server serves them, and done without until then."""

from __future__ import annotations

from threading import Event, Thread
from typing import TYPE_CHECKING, Final

from policies.kinds import DEVICES
from webhook.apiserver.errors import ApiError
from webhook.apiserver.raw_objects import mapping
from webhook.logs import LOGGER

if TYPE_CHECKING:
    from collections.abc import Callable

    from policies.kinds import KindSpec
    from webhook.apiserver.discovery import Getter

ASK_AGAIN_SECONDS: Final = 60.0


def follow_devices(
    api: Getter, follow: Callable[[KindSpec], object], stopped: Event, pause: float = ASK_AGAIN_SECONDS
) -> Thread:
    """Follow the kinds of devices, on a thread, once all are served; until it is stopped.

    Until all have been listed, pods that claim devices are not predicted.
    """
    thread = Thread(target=_look, args=(api, follow, stopped, pause), name="device-kinds", daemon=True)
    thread.start()
    return thread


def _look(api: Getter, follow: Callable[[KindSpec], object], stopped: Event, pause: float) -> None:
    while not stopped.is_set():
        try:
            if _served(api):
                for spec in DEVICES:
                    follow(spec)
                return
        except Exception:
            LOGGER.exception("a fault of ours while looking for the kinds of devices")
        stopped.wait(pause)


def _served(api: Getter) -> bool:
    try:
        found = api.get(f"/apis/{DEVICES[0].api_version}").get("resources")
    except ApiError:
        return False
    plurals = {mapping(resource).get("name") for resource in found} if isinstance(found, list) else set()
    return plurals >= {spec.plural for spec in DEVICES}
