"""The audit by the leader: periodic, at low cost, with results as metrics and objects."""
