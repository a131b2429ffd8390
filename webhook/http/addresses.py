"""Addresses of clients."""

from __future__ import annotations

from ipaddress import IPv6Address, ip_address


def is_loopback(address: str | None) -> bool:
    """True for a loopback address, also as an IPv4-mapped IPv6 address."""
    try:
        found = ip_address(address or "")
    except ValueError:
        return False
    mapped = found.ipv4_mapped if isinstance(found, IPv6Address) else None
    return (mapped or found).is_loopback
