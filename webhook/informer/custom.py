"""Custom workloads: followed as soon as the API server serves their kinds, ignored before."""

from __future__ import annotations

import logging
from threading import Event, Thread
from typing import TYPE_CHECKING, Final

from forewarn.policies.kinds.registry import BY_GROUP_KIND
from forewarn.webhook.apiserver.discovery import discover
from forewarn.webhook.apiserver.errors import ApiError
from forewarn.webhook.logs import LOGGER, log_event

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from forewarn.policies.kinds.registry import KindSpec
    from forewarn.webhook.apiserver.discovery import Getter

ASK_AGAIN_SECONDS: Final = 60.0


def follow_custom(
    api: Getter,
    templates: Mapping[str, tuple[str, ...]],
    follow: Callable[[KindSpec], object],
    stopped: Event,
    pause: float = ASK_AGAIN_SECONDS,
) -> Thread | None:
    """Find each kind of `templates` (`group/Kind` -> path of the Pod template) that is not built in, and follow it.

    Runs on a thread until all kinds are found or `stopped` is set; returns None if there is no such kind.
    """
    wanted = {kind: path for kind, path in templates.items() if kind not in BY_GROUP_KIND}
    if not wanted:
        return None
    thread = Thread(target=_discover, args=(api, wanted, follow, stopped, pause), name="custom-kinds", daemon=True)
    thread.start()
    return thread


def _discover(
    api: Getter,
    wanted: dict[str, tuple[str, ...]],
    follow: Callable[[KindSpec], object],
    stopped: Event,
    pause: float,
) -> None:
    logged: dict[str, str] = {}
    while wanted and not stopped.is_set():
        for kind, path in [*wanted.items()]:
            try:
                spec = discover(api, kind, path)
            except ApiError as error:
                if logged.get(kind) != str(error):
                    logged[kind] = str(error)
                    log_event("cannot watch custom kind", {"kind": kind, "reason": str(error)}, logging.WARNING)
            except Exception:
                LOGGER.exception("internal error while discovering %s", kind)
            else:
                del wanted[kind]
                follow(spec)
        if wanted and stopped.wait(pause):
            return
