"""A client that writes TLS 1.3 records of its own, such as KeyUpdates, which Python's ssl cannot send."""

from __future__ import annotations

import hmac
from socket import create_connection
from ssl import MemoryBIO, SSLWantReadError
from struct import pack
from tempfile import NamedTemporaryFile
from typing import TYPE_CHECKING, Any, Final, Self

from cryptography.hazmat.primitives.ciphers.aead import AESGCM

if TYPE_CHECKING:
    from collections.abc import Callable
    from ssl import SSLContext

ALERT, HANDSHAKE, DATA = 21, 22, 23
KEY_UPDATE: Final = b"\x18\0\0\1\1"
"""With the request for an update of the other side."""
USER_CANCELED: Final = b"\x01\x5a"


class RecordClient:
    """A connection after its handshake."""

    def __init__(self, port: int, context: SSLContext, source: str = "127.0.0.1") -> None:
        self.socket = create_connection(("127.0.0.1", port), 10, (source, 0))
        self._incoming, outgoing = MemoryBIO(), MemoryBIO()
        with NamedTemporaryFile("r") as log:
            context.keylog_filename = log.name
            self._tls = context.wrap_bio(self._incoming, outgoing)
            self._until(self._tls.do_handshake, lambda: self.socket.sendall(outgoing.read()))
            lines = (line.split() for line in log)
            (secret,) = (words[2] for words in lines if words[0] == "CLIENT_TRAFFIC_SECRET_0")
        self.socket.sendall(outgoing.read())
        cipher, _, bits = self._tls.cipher() or ("", "", 0)
        self._hash, self._key_length = cipher.rpartition("_")[2].lower(), bits // 8
        self._use(bytes.fromhex(secret))

    def record(self, content: bytes, kind: int = DATA, padding: int = 0) -> bytes:
        """The next record."""
        plain = content + bytes([kind]) + bytes(padding)
        head = pack(">BHH", DATA, 0x0303, len(plain) + 16)
        nonce = (int.from_bytes(self._iv, "big") ^ self._number).to_bytes(12, "big")
        self._number += 1
        return head + self._cipher.encrypt(nonce, plain, head)

    def key_update(self, padding: int = 0) -> bytes:
        """The next record, a KeyUpdate: later ones have other keys."""
        sent = self.record(KEY_UPDATE, HANDSHAKE, padding)
        self._use(self._expand(b"traffic upd", len(self._secret)))
        return sent

    def answer(self) -> bytes:
        """The first part of the data that the server sends; nothing if it ends the connection."""
        try:
            return bytes(self._until(lambda: self._tls.read(65536), lambda: None))
        except OSError:
            return b""

    def _until(self, step: Callable[[], Any], send: Callable[[], None]) -> Any:
        """Read from the server until a step needs no more data."""
        while True:
            try:
                return step()
            except SSLWantReadError:
                send()
                received = self.socket.recv(65536)
                if received:
                    self._incoming.write(received)
                else:
                    self._incoming.write_eof()

    def _use(self, secret: bytes) -> None:
        self._secret, self._number = secret, 0
        self._cipher = AESGCM(self._expand(b"key", self._key_length))
        self._iv = self._expand(b"iv", 12)

    def _expand(self, label: bytes, length: int) -> bytes:
        """HKDF-Expand-Label of RFC 8446, for at most one block."""
        label = b"tls13 " + label
        info = pack(">HB", length, len(label)) + label + b"\0"
        return hmac.digest(self._secret, info + b"\1", self._hash)[:length]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()


USELESS: Final[dict[str, Callable[[RecordClient], list[bytes]]]] = {
    "KeyUpdates": lambda client: [client.key_update() for _ in range(20)],
    "KeyUpdates with padding": lambda client: [client.key_update(16_000) for _ in range(30)],
    "a KeyUpdate for each byte": lambda client: [
        part for byte in b"GET / HTTP/1.1\r\n" * 2 for part in (client.key_update(), client.record(bytes([byte])))
    ],
    "empty records": lambda client: [client.record(b"") for _ in range(20)],
    "records of one byte": lambda client: [client.record(b"x") for _ in range(20)],
    "records of 20 bytes": lambda client: [client.record(b"a: 0123456789abcde\r\n") for _ in range(300)],
    "alerts": lambda client: [client.record(USER_CANCELED, ALERT) for _ in range(20)],
    "session tickets": lambda client: [client.record(b"\x04\0\0\1\0", HANDSHAKE)],
    "ChangeCipherSpecs": lambda _: [b"\x14\3\3\0\1\1"] * 20,
    "no TLS": lambda _: [b"GET / HTTP/1.1\r\n\r\n"],
}
"""Records of a connection that the server ends: by name, what a client sends at once."""
