"""Random clusters for the oracle: each case is a cluster and one pod that wants a place in it."""
