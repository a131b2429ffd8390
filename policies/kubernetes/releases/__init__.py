"""Kubernetes releases and kube-scheduler profiles as data."""
