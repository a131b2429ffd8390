"""The user that requests impersonate: `--as` and its companions, otherwise the kubeconfig's fields of the same names.

Sources: client-go tools/clientcmd (validation.go, client_config.go), transport/round_trippers.go.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from forewarn.policies.commands.impersonation import AS, AS_GROUPS, AS_UID, groups_of
from forewarn.webhook.apiserver.errors import ApiError

if TYPE_CHECKING:
    from collections.abc import Iterator

_TOKEN: Final = "!#$&'*+-.^_`|~"
"""Characters of a header's name that Go does not escape; letters and digits apart. `%` is escaped."""


def headers_of(user: Any) -> list[tuple[str, str]]:
    """The headers that impersonate a user, in order; none if nothing is to be impersonated.

    `user`: the `user` of the kubeconfig's context. Options replace its fields one by one. Raises ApiError for fields
    of a wrong type, and for groups, uid or extra without a user, as kubectl does.
    """
    fields = user if isinstance(user, dict) else {}
    name = os.environ.get(AS) or fields.get("as") or ""
    uid = os.environ.get(AS_UID) or fields.get("as-uid") or ""
    groups = groups_of(os.environ.get(AS_GROUPS, "")) or fields.get("as-groups") or []
    extra = fields.get("as-user-extra") or {}
    if not (name or uid or groups or extra):
        return []
    if not (_are_texts([name, uid]) and _are_texts(groups) and _is_extra(extra)):
        raise ApiError(0, "the kubeconfig's as, as-uid, as-groups or as-user-extra has a wrong type")
    if not name:
        raise ApiError(
            0, "groups, uid or extra to impersonate without a user. Fix: add --as, or `as` in the kubeconfig"
        )
    return [(key, value.encode().decode("latin-1")) for key, value in _headers(name, uid, groups, extra)]


def _headers(name: str, uid: str, groups: list[str], extra: dict[str, list[str]]) -> Iterator[tuple[str, str]]:
    yield "Impersonate-User", name
    if uid:
        yield "Impersonate-Uid", uid
    for group in groups:
        yield "Impersonate-Group", group
    for key, values in extra.items():
        for value in values:
            yield f"Impersonate-Extra-{quote(key, safe=_TOKEN)}", value


def _are_texts(values: Any) -> bool:
    return isinstance(values, list) and all(isinstance(value, str) for value in values)


def _is_extra(extra: Any) -> bool:
    return isinstance(extra, dict) and _are_texts(list(extra)) and all(map(_are_texts, extra.values()))
