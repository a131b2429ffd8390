"""The kubelet's use of priority: the order of evictions. PDBs do not apply."""
