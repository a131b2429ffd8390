"""Filters, preemption and scores of a Pod as numpy operations over all nodes. `vectorized_cycle` is the entry point.

Each function documents when its result is valid; otherwise, the plugins and the loop over nodes (`preemption`) decide.
Names and docstrings also call this implementation "columns": an array has one entry for each node, and a row number of
the columns is the index of a node in the Snapshot. Pods are counted by equivalence class, called kind in names: Pods of
a class differ only in name and start time.
"""
