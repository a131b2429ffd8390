"""The kubelet's use of priority: which Pods it evicts first. PDBs do not apply."""
