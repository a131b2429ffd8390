"""API server client for raw JSON: lists in pages, watches line by line, no client models."""

from forewarn.webhook.apiserver.client import (
    ApiError,
    ApiServer,
    Connection,
    Event,
    EventType,
    Expired,
    Page,
    Silent,
    Timeouts,
    Watch,
    connect,
)

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
