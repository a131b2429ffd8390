"""YAML text: its nodes with positions, and their values as kubectl reads them."""

from __future__ import annotations

from forewarn.policies.base.light import import_with_later_patterns

# `forewarn lint FILE` needs none of the patterns of PyYAML's reader, resolver and constructor, which libyaml replaces.
import_with_later_patterns("yaml")
