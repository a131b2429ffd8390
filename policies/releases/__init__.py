"""Releases of Kubernetes and scheduler profiles as data."""
