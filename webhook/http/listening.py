"""Listening sockets."""

from __future__ import annotations

import errno
import socket
from typing import Final

_ANY: Final = "::"
_ANY_IPV4: Final = "0.0.0.0"
_BACKLOG: Final = 2048


def bind(host: str, port: int) -> socket.socket:
    """Return a listening socket; port 0 selects a free port. `::` also accepts IPv4; without IPv6, IPv4 only.

    Raises OSError.
    """
    host = _ANY_IPV4 if host == _ANY and not socket.has_dualstack_ipv6() else host
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    dualstack = family == socket.AF_INET6 and socket.has_dualstack_ipv6()
    try:
        return socket.create_server((host, port), family=family, backlog=_BACKLOG, dualstack_ipv6=dualstack)
    except OSError as error:
        if host == _ANY and error.errno == errno.EADDRNOTAVAIL:
            return bind(_ANY_IPV4, port)
        raise OSError(error.errno, str(error.strerror).partition(" (while ")[0]) from None


def address_of(listening: socket.socket, scheme: str) -> str:
    """Return the address of a listening socket, as a URL."""
    host, port, *_ = listening.getsockname()
    return f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}"
