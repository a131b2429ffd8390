"""Kueue: which Workloads its scheduler admits or preempts (Kueue v0.19). Optional: no other prediction imports it."""
