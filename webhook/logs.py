"""Structured logs: one JSON object a line on stderr, uvicorn's and our own alike."""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

LOGGER: Final = logging.getLogger("forewarn")


class JsonFormatter(logging.Formatter):
    """A record as one line: time, level, message, what was given as `fields`, and the traceback where there is one."""

    def format(self, record: logging.LogRecord) -> str:
        """The line, without its end."""
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "message": record.getMessage(),
            **getattr(record, "fields", {}),
        }
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line, separators=(",", ":"))


def log_to_stderr(level: int = logging.INFO) -> None:
    """Send the logs of this process to stderr. Called once, by a command."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter())
    logging.basicConfig(handlers=[handler], level=level, force=True)
    logging.getLogger("uvicorn.error").setLevel(logging.WARNING)


def say(message: str, fields: Mapping[str, object], level: int = logging.INFO) -> None:
    """Log one event with its fields."""
    LOGGER.log(level, message, extra={"fields": fields})
