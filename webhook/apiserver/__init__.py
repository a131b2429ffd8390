"""The API server as raw JSON: lists in pages, watches line by line; no client models."""

from webhook.apiserver.client import ApiServer, Page, Timeouts
from webhook.apiserver.errors import ApiError, Expired, Silent
from webhook.apiserver.transport import Connection, connect
from webhook.apiserver.watch import Event, EventType, Watch

__all__ = [
    "ApiError",
    "ApiServer",
    "Connection",
    "Event",
    "EventType",
    "Expired",
    "Page",
    "Silent",
    "Timeouts",
    "Watch",
    "connect",
]
