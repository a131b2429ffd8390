"""The audit by the replica that is elected: regularly, at little cost, told as metrics and as objects."""
