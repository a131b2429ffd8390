"""Cluster state that follows an API server: one reflector a kind, one owner of the cache."""

from webhook.informer.informer import Informer
from webhook.informer.reflector import Backoff, Pace, Reflector
from webhook.informer.state import ClusterState

__all__ = ["Backoff", "ClusterState", "Informer", "Pace", "Reflector"]
