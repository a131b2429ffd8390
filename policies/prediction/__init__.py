"""Predictions of new Pods, simulations of a cluster, and autoscalers."""
