"""The audit by the leader: periodic, at low cost, reported as metrics and objects."""
