"""Authentication of the webhook's callers by a token, in the Authorization header or as last part of the path."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from hmac import compare_digest
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from pathlib import Path

LEAST: Final = 16
"""Minimum characters of a token in a file; a shorter token can be guessed."""
_LONGEST: Final = 4_096
_BEARER: Final = "bearer"

Tokens = Callable[[], Collection[str]]


class Grant(NamedTuple):
    """The reviews that forewarn answers for one token in a webhook's path: those of the resources in the webhook's
    rules.

    `resources`: (API group, resource, subresource), each may be `*`. `is_shown`: requesters without write access to
    PriorityClasses can read the path in an error of the API server.
    """

    resources: frozenset[tuple[str, str, str]] = frozenset()
    is_shown: bool = False

    def covers(self, group: str, resource: str, subresource: str) -> bool:
        """True if the webhook's rules include this resource.

        Source: apiserver pkg/admission/plugin/webhook/predicates/rules/rules.go.
        """
        target = (group, resource, subresource)
        return _ALL in self.resources or any(
            all(own in ("*", given) for own, given in zip(granted, target, strict=True)) for granted in self.resources
        )


_ALL: Final = ("*", "*", "*")
EVERYTHING: Final = Grant(frozenset({_ALL}))
NOTHING: Final = Grant()

Grants = Callable[[], Mapping[str, Grant]]


def no_grants() -> Mapping[str, Grant]:
    """Return no tokens: URL paths without tokens."""
    return {}


class BadTokens(ValueError):
    """A token file is unreadable or has no valid token: file name, problem and fix. The message never contains a
    token.
    """


def none() -> Collection[str]:
    return ()


@dataclass(frozen=True, slots=True)
class Callers:
    """The tokens that identify API servers.

    `required`: every request needs one of these tokens; empty: none needed. `grants`: the tokens in the webhook
    configurations. `proven`: TLS has verified the caller.
    """

    required: Tokens = none
    grants: Grants = no_grants
    proven: bool = False

    def may_ask(self, tokens: Collection[str]) -> bool:
        """True if the webhook answers callers with these tokens."""
        required = self.required()
        return not required or _has_one(tokens, required)

    def grant(self, tokens: Collection[str]) -> Grant:
        """Return the grant for these tokens; an empty grant (NOTHING) if no webhook configuration has them.

        The grant covers everything if TLS or the `required` tokens already identify the caller, or if the webhook
        configurations have no tokens.
        """
        grants = {} if self.proven or self.required() else self.grants()
        if not grants:
            return EVERYTHING
        return next((grant for token, grant in grants.items() if _has_one(tokens, (token,))), NOTHING)

    def are_known(self, tokens: Collection[str]) -> bool:
        """Report whether the tokens have a grant, and so belong to an API server."""
        return self.grant(tokens) is not NOTHING


EVERYBODY: Final = Callers()


def bearer(authorization: str) -> str:
    """The token of an Authorization header; empty if there is none."""
    scheme, _, token = authorization.strip().partition(" ")
    return token.strip() if scheme.lower() == _BEARER else ""


def read_tokens(path: Path) -> tuple[str, ...]:
    """The tokens of a file, one per line. Raises BadTokens with the file's name."""
    try:
        lines = [line.strip() for line in path.read_text(encoding="ascii").splitlines()]
    except OSError as error:
        raise BadTokens(f"{path}: {error.strerror}") from error
    except UnicodeDecodeError:
        raise BadTokens(f"{path}: tokens must be ASCII") from None
    tokens = tuple(line for line in lines if line)
    if not tokens:
        raise BadTokens(f"{path}: no token. Fix: write one token per line")
    for number, line in enumerate(lines, 1):
        if line and not (LEAST <= len(line) <= _LONGEST and line.isprintable() and " " not in line):
            raise BadTokens(f"{path}: line {number}: a token must have {LEAST} to {_LONGEST} characters without blanks")
    return tokens


def _has_one(given: Collection[str], tokens: Collection[str]) -> bool:
    """Report whether one of the given tokens is valid. The time depends only on the number and lengths of the
    tokens.
    """
    equal = [compare_digest(text.encode("utf-8", "replace"), token.encode()) for text in given for token in tokens]
    return any(equal)
