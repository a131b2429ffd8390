"""Subcommands of `forewarn` that process or send requests, one per module."""
