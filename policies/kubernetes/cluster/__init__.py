"""The state of a cluster: the mutable Cache and its immutable ClusterSnapshots."""
