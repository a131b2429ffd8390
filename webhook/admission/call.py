"""The two webhooks, their URL paths, and an admission request as HTTP delivers it."""

from __future__ import annotations

from enum import StrEnum
from typing import Final, NamedTuple


class Hook(StrEnum):
    """The two webhooks, by the first part of their path."""

    MUTATE = "mutate"
    VALIDATE = "validate"


PATHS: Final = {f"/{hook}": hook for hook in Hook}
"""The webhooks by URL path. `/validate/TOKEN` is also valid: see webhook.admission.callers."""


class AdmissionCall(NamedTuple):
    """A request with its body. `received`: time of the first byte (monotonic clock). `timeout`: `?timeout=`.

    `client`: the address of the client, for the log of rejected requests. `tokens`: the tokens of the path and header.
    """

    hook: Hook
    body: bytes
    received: float
    timeout: str = ""
    client: str = ""
    tokens: tuple[str, ...] = ()


def route(path: str) -> tuple[Hook | None, str]:
    """Return the webhook of a path (None for other paths) and the token in the path, as in `/validate/TOKEN`."""
    hook = PATHS.get(path)
    if hook is not None:
        return hook, ""
    base, _, token = path.rpartition("/")
    return (PATHS.get(base), token) if token else (None, "")
