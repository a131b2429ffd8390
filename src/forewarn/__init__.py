"""Predict which Pods Kubernetes will preempt, before you apply."""
