"""API server client for raw JSON: lists in pages, watches line by line, no client models."""

from forewarn.webhook.apiserver.client import ApiServer, Page, Timeouts
from forewarn.webhook.apiserver.errors import ApiError, Expired, Silent
from forewarn.webhook.apiserver.transport import Connection, connect
from forewarn.webhook.apiserver.watch import Event, EventType, Watch

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
