"""Subcommands of `forewarn` that have to do with requests, one a module."""
