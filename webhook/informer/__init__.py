"""Cluster state that follows an API server: one reflector for each kind, one owner of the cache."""
