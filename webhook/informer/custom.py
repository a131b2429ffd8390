"""Kinds that not every API server serves (custom workloads, DRA devices, PodGroups, Kueue): followed once they are
served.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol

from forewarn.policies.kubernetes.kinds.registry import BY_GROUP_KIND, DEVICES, KUEUE, SEPARATE_KINDS, KindSpec
from forewarn.policies.kubernetes.objects.fields import list_at
from forewarn.webhook.apiserver.client import ApiError, mapping
from forewarn.webhook.health import start_loop
from forewarn.webhook.logs import LOGGER, log_event

if TYPE_CHECKING:
    from threading import Event, Thread

_WATCHED = frozenset(("list", "watch"))


class Getter(Protocol):
    """The methods of an API server that discovery needs."""

    def get(self, path: str) -> dict[str, Any]:
        """Return the object at this path. Raises ApiError."""


def discover(api: Getter, kind: str, template: tuple[str, ...]) -> KindSpec:
    """Return the KindSpec of a custom workload `group/Kind`, in the API server's preferred version.

    `template`: path of the Pod template. Raises ApiError, with status 404 if the kind is not served or cannot be
    watched.
    """
    group, _, name = kind.rpartition("/")
    served = mapping(api.get(f"/apis/{group}").get("preferredVersion")) if group else {"groupVersion": "v1"}
    version = str(served.get("groupVersion") or "")
    for resource in map(mapping, list_at(api.get(f"/{'apis' if group else 'api'}/{version}"), "resources")):
        plural = str(resource.get("name") or "")
        if resource.get("kind") == name and "/" not in plural and _is_watched(resource):
            return KindSpec(version, name, plural, "workload:Workload", template=template, optional=True)
    raise ApiError(404, f"{version} has no namespaced kind {name} that can be watched")


def _is_watched(resource: dict[str, Any]) -> bool:
    verbs = resource.get("verbs")
    return bool(resource.get("namespaced")) and isinstance(verbs, list) and set(map(str, verbs)) >= _WATCHED


ASK_AGAIN_SECONDS: Final = 60.0
Find = Callable[[], Sequence[KindSpec]]
"""Returns kinds to follow; none if they are not served. May raise ApiError."""


def follow_optional(
    api: Getter,
    templates: Mapping[str, tuple[str, ...]],
    follow: Callable[[KindSpec], object],
    stopped: Event,
    pause: float = ASK_AGAIN_SECONDS,
) -> Thread:
    """Follow optional kinds on a new thread, each once it is served, until `stopped`.

    These are the kinds in `kinds.OPTIONAL`, and the kinds of `templates` (`group/Kind` -> path of the Pod template)
    that are not built in. The kinds of DRA devices are followed once all of them are served, and so are those of Kueue.
    Until all of these are listed, forewarn does not predict Pods that claim devices, or Jobs that Kueue starts.
    """
    wanted: dict[str, Find] = {kinds[0].name: partial(_served, api, kinds) for kinds in (DEVICES, KUEUE)}
    wanted |= {spec.name: partial(_served, api, (spec,)) for spec in SEPARATE_KINDS}
    wanted |= {kind: partial(_custom, api, kind, path) for kind, path in templates.items() if kind not in BY_GROUP_KIND}
    return start_loop("optional-kinds", partial(_follow, wanted, follow, stopped, pause), stopped)


def _follow(wanted: dict[str, Find], follow: Callable[[KindSpec], object], stopped: Event, pause: float) -> None:
    logged: dict[str, str] = {}
    while wanted and not stopped.is_set():
        for name, find in [*wanted.items()]:
            try:
                found = find()
                for spec in found:
                    follow(spec)
                if found:
                    del wanted[name]
            except ApiError as error:
                if logged.get(name) != str(error):
                    logged[name] = str(error)
                    log_event("cannot watch custom kind", {"kind": name, "reason": str(error)}, logging.WARNING)
            except Exception:
                LOGGER.exception("internal error while discovering %s", name)
        if wanted:
            stopped.wait(pause)


def _custom(api: Getter, kind: str, template: tuple[str, ...]) -> Sequence[KindSpec]:
    """Return the kind. Raises ApiError, even if it is not served."""
    return (discover(api, kind, template),)


def _served(api: Getter, together: Sequence[KindSpec]) -> Sequence[KindSpec]:
    """Return the kinds if all of them are served; otherwise none."""
    try:
        resources = list_at(api.get(f"/apis/{together[0].api_version}"), "resources")
    except ApiError:
        return ()
    plurals = {mapping(resource).get("name") for resource in resources}
    return together if plurals >= {spec.plural for spec in together} else ()
