"""Cluster state that follows an API server: one reflector for each kind, one owner of the cache."""

from forewarn.webhook.informer.informer import Backoff, Informer, Pace, Reflector
from forewarn.webhook.informer.state import ClusterState

__all__ = ["Backoff", "ClusterState", "Informer", "Pace", "Reflector"]
