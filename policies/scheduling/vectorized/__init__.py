"""Fast paths: the node that preemption would empty, worked out for all nodes at once. `node_fit` is the door.

Every function says when it is valid; where it is not, plugins and the walk over nodes (`preemption`) decide.
"""
