"""Tables over all nodes: filters, preemption and scores of a Pod. `node_fit` is the entry point.

Each function documents when its result is valid; otherwise, the plugins and the loop over nodes (`preemption`) decide.
"""
