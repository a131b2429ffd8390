"""The linter: rules, their evaluation and configuration."""
