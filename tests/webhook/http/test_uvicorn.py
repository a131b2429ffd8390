"""webhook.http overrides internal methods of uvicorn, therefore its versions are bounded, and calls TLS of uvloop."""

from __future__ import annotations

import re
from configparser import ConfigParser
from importlib.metadata import version
from inspect import signature
from pathlib import Path

import pytest
from uvicorn import Server
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvloop.loop import SSLProtocol  # type: ignore[attr-defined]

ROOT = Path(__file__).parents[3]
INTERNALS = {
    HttpToolsProtocol: {
        "connection_made": ["self", "transport"],
        "connection_lost": ["self", "exc"],
        "data_received": ["self", "data"],
        "on_message_begin": ["self"],
        "on_header": ["self", "name", "value"],
        "on_headers_complete": ["self"],
        "on_body": ["self", "body"],
        "on_message_complete": ["self"],
        "on_response_complete": ["self"],
        "send_400_response": ["self", "msg"],
        "pause_writing": ["self"],
        "timeout_keep_alive_handler": ["self"],
        "_unset_keepalive_if_required": ["self"],
    },
    Server: {
        "run": ["self", "sockets"],
        "startup": ["self", "sockets"],
        "shutdown": ["self", "sockets"],
        "on_tick": ["self", "counter"],
        "capture_signals": ["self"],
        "handle_exit": ["self", "sig", "frame"],
    },
}


def minor(text: str) -> tuple[int, int]:
    major, second = re.findall(r"\d+", text)[:2]
    return int(major), int(second)


def test_the_bound_is_the_minor_version_after_the_tested_one() -> None:
    """Raise both together, after reading what changed in the methods below and running the tests of this directory."""
    parser = ConfigParser()
    parser.read(ROOT / "setup.cfg")
    [requirement] = re.findall(r"uvicorn\S+", parser["options.extras_require"]["webhook"])
    [pinned] = re.findall(r"^uvicorn==(\S+)", (ROOT / "constraints.txt").read_text(), re.MULTILINE)
    least, bound = requirement.removeprefix("uvicorn>=").split(",<")
    major, second = minor(pinned)
    assert minor(bound) == (major, second + 1)
    assert minor(least) <= minor(version("uvicorn")) < minor(bound)


@pytest.mark.parametrize(
    ("owner", "method", "parameters"),
    [(owner, method, parameters) for owner, methods in INTERNALS.items() for method, parameters in methods.items()],
)
def test_the_overridden_methods_have_these_parameters(owner: type, method: str, parameters: list[str]) -> None:
    assert list(signature(getattr(owner, method)).parameters) == parameters


def test_a_request_cycle_has_the_attributes_that_are_replaced_or_read() -> None:
    names = {*signature(RequestResponseCycle.__init__).parameters, *RequestResponseCycle.__init__.__code__.co_names}
    assert {
        "transport",
        "body",
        "more_body",
        "response_complete",
        "disconnected",
        "message_event",
        "keep_alive",
        "scope",
    } <= names


def test_tls_of_uvloop_is_a_protocol_for_any_transport() -> None:
    methods = {"connection_made", "connection_lost", "get_buffer", "buffer_updated", "eof_received"}
    assert methods | {"pause_writing", "resume_writing"} <= {*dir(SSLProtocol)}
