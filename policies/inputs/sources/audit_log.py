"""Read requests of kube-scheduler, deletions and evictions from an audit log: a JSON object in each line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Final

from forewarn.policies.inputs.sources.files import SourceError, open_file, unreadable
from forewarn.policies.kubernetes.objects.fields import ApiObject, text_at

MAX_LINE: Final = 4 << 20
"""Bytes of an event; longer ones are skipped."""
MAX_BYTES: Final = 8 << 30
_WANTED: Final = (b"kube-scheduler", b'"delete"', b'"eviction"')
"""Each line of a wanted event has one of these."""
_FIX: Final = "Fix: pass the file of kube-apiserver's --audit-log-path, with an event in each line"


def audit_events(path: str) -> Iterator[ApiObject]:
    """Yield the audit events of kube-scheduler, of deletions and of evictions. Raises SourceError, also for a file
    without audit events.
    """
    with open_file(path) as stream:
        size, number, is_rest = 0, 0, False
        while True:
            try:
                line = stream.readline(MAX_LINE)
            except (OSError, EOFError) as error:
                raise unreadable(path, error, named=False) from None
            if not line:
                break
            size, number = size + len(line), number + (not is_rest)
            if size > MAX_BYTES:
                raise SourceError(path, f"more than {MAX_BYTES >> 30} GiB. Fix: pass a shorter log")
            is_of_long, is_rest = is_rest, not line.endswith(b"\n")
            if is_of_long or not line.strip():
                continue
            if (number == 1 or any(part in line for part in _WANTED)) and (event := _event(line, path, number)):
                yield event
        if not number:
            raise SourceError(path, f"no audit events. {_FIX}")


def _event(line: bytes, path: str, number: int) -> ApiObject | None:
    """Return the event of a line, or None for a line that is cut. Raises SourceError for other files."""
    if len(line) == MAX_LINE and number > 1:
        return None
    try:
        event = json.loads(line)
    except (ValueError, RecursionError):
        event = None
    if not isinstance(event, dict) or not text_at(event, "apiVersion").startswith("audit.k8s.io/"):
        if number > 1 and not line.endswith(b"\n"):
            return None  # the log is still written
        raise SourceError(path, f"line {number}: no audit event. {_FIX}")
    return event
