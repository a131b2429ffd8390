"""One plugin a module, and the registry of the default profile."""
