"""Shared parts of rules: the context of an evaluation, predictions, quota use, and wording."""
