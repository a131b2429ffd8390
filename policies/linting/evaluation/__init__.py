"""Evaluation of reviewed objects by all rules, for the linter, the webhook and `forewarn audit`."""
