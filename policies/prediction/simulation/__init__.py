"""Simulate a cluster over time, event by event. Nothing in the package waits in real time: time is a number."""
