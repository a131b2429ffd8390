"""Simulation of a cluster over time, event by event. Nothing here waits: time is a number."""
