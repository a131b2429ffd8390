"""The cost of a client's TLS records against the application data in them.

OpenSSL reads any number of records in one call until one has application data. KeyUpdates, renegotiations, alerts, and
empty records have none, and each costs as much CPU time as kilobytes of data.
"""

from __future__ import annotations

from struct import Struct
from typing import Final

_HEADER: Final = Struct(">BBxH")
"""Type, major version, and length of a record."""
_TYPES: Final = range(20, 24)
"""ChangeCipherSpec, alert, handshake and application data."""
_HANDSHAKE: Final = 22
_APPLICATION_DATA: Final = 23
"""In TLS 1.3 the type of all encrypted records, also of KeyUpdates."""
_MAJOR: Final = 3
_MAX_LENGTH: Final = (1 << 14) + 2048
_TINY: Final = 64
"""Bytes below which a record has hardly any data: a KeyUpdate has 22."""
USELESS_COST: Final = 16 << 10
"""Cost of a tiny record, and of one that has no application data. It is also paid with the data of a turn."""
LEAST_COST: Final = 1 << 10
"""Cost of another small record; a large one costs its length."""
MAX_HANDSHAKE: Final = 16 << 10
"""Maximum bytes of handshake messages without encryption. OpenSSL compares each key share of a ClientHello with each
group: 64 KiB cost 60 ms, 16 KiB 4 ms.
"""
MAX_DEBT: Final = 256 << 10
"""API servers send records of at least 1 KiB in bulk. Data that waits in TLS for a paused reader is not paid yet."""


class UselessRecords(Exception):
    """The client sends no TLS, or too many records for their application data."""


class RecordDebt:
    """The records that a client has sent and not paid for with application data."""

    def __init__(self) -> None:
        self.debt = self._handshake = 0
        self._header = b""
        """The part of a record's header that has arrived."""
        self._rest = 0
        """Bytes of the current record that have not arrived."""

    def charge(self, data: memoryview) -> int:
        """Add the records that begin in this data; return their cost. Raises UselessRecords, before TLS reads them."""
        before, place = self.debt, self._rest
        if self._header:
            data = memoryview(self._header + data)
        while place + _HEADER.size <= len(data):
            place += _HEADER.size + self._begin(*_HEADER.unpack_from(data, place))
        self._header = bytes(data[place:])
        self._rest = max(0, place - len(data))
        return self.debt - before

    def pay(self, size: int) -> None:
        """Subtract application data of `size` bytes that the client has sent."""
        self.debt = max(0, self.debt - 2 * size - USELESS_COST)

    def _begin(self, kind: int, major: int, length: int) -> int:
        """Add a record; return its length without the header."""
        is_useless = kind != _APPLICATION_DATA or length < _TINY
        self.debt += max(length, USELESS_COST if is_useless else LEAST_COST)
        self._handshake += length if kind == _HANDSHAKE else 0
        if kind not in _TYPES or major != _MAJOR or length > _MAX_LENGTH:
            raise UselessRecords
        if self._handshake > MAX_HANDSHAKE or self.debt > MAX_DEBT:
            raise UselessRecords
        return length
