"""The kubelet's use of priority: eviction, preemption for critical Pods, and node shutdown.

PodDisruptionBudgets do not apply.
"""
