"""The limit on open files, and how the ports share it."""

from __future__ import annotations

import os
import resource
from collections.abc import Collection
from contextlib import suppress
from typing import TYPE_CHECKING, Final, NamedTuple

from forewarn.policies.kubernetes.kinds.registry import BY_GROUP_KIND
from forewarn.webhook.http.connections import MAX_CONNECTIONS
from forewarn.webhook.http.server import ACCEPTED_AT_ONCE, MAX_HEALTH_CONNECTIONS

if TYPE_CHECKING:
    from forewarn.webhook.settings import Settings


_LEAST: Final = (32, 8)
"""Minimum connections of the TLS port and of the health port."""
_HEALTH_PART: Final = 5
_FILES, _RELOADS = 32, 8
_THREADS: Final = 16
"""Threads with a connection to the API server besides those that watch."""


class TooFewDescriptors(Exception):
    """The limit on open files does not suffice."""


class Shares(NamedTuple):
    """The limit on open files, and the maximum connections of the TLS port and of the health port."""

    limit: int
    tls: int
    health: int

    @property
    def is_low(self) -> bool:
        """True if the limit on open files is the reason for fewer connections."""
        return self.tls < MAX_CONNECTIONS or self.health < MAX_HEALTH_CONNECTIONS


def reserve(settings: Settings, kinds: Collection[str]) -> int:
    """Return the number of descriptors that connections must leave. `kinds`: those of workloads.

    Listening sockets, event loops, modules and a credential plugin need some. Each prediction process and the audit
    need a pipe, and a second one during a fork. Each of the two ports accepts connections in up to two turns of its
    event loop before evicted ones are closed.
    """
    watches = len(BY_GROUP_KIND.keys() | kinds) + _THREADS
    processes = 2 * (settings.prediction_processes + 1)
    return _FILES + _RELOADS + watches + processes + 4 * ACCEPTED_AT_ONCE


def raise_limit() -> int:
    """Raise the soft limit on open files to the hard limit; return the soft limit."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(OSError, ValueError):  # macOS does not accept "unlimited"
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return soft


def divide(limit: int, used: int) -> Shares:
    """Divide what a limit on open files leaves. Raises TooFewDescriptors. `used`: descriptors for other things."""
    least_tls, least_health = _LEAST
    left = limit - used
    if limit == resource.RLIM_INFINITY:
        left = MAX_CONNECTIONS + MAX_HEALTH_CONNECTIONS
    health = min(max(left // _HEALTH_PART, least_health), MAX_HEALTH_CONNECTIONS)
    if left < least_tls + least_health:
        raise TooFewDescriptors(
            f"the limit on open files is {limit}, and forewarn needs {used + least_tls + least_health}. "
            f"Fix: raise the hard limit (ulimit -Hn)"
        )
    return Shares(limit, min(left - health, MAX_CONNECTIONS), health)


def open_files() -> int:
    """Return the number of open descriptors; 0 if unknown."""
    with suppress(OSError):
        return len(os.listdir("/dev/fd"))
    return 0
