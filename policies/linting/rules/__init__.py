"""The rules: every `rule` in these modules and packages, without a list."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from importlib import import_module
from typing import Final

from forewarn.policies.base.light import modules_in
from forewarn.policies.linting.rules.support.context import Rule, Target, rule

_NO_RULES: Final = frozenset(("support", "wording"))
"""Modules and packages without rules."""


def _rules_in(path: Iterable[str], package: str) -> Iterator[Rule]:
    for name in modules_in(path, _NO_RULES):
        module = import_module(f"{package}.{name}")
        if hasattr(module, "__path__"):
            yield from _rules_in(module.__path__, module.__name__)
        else:
            yield from (value for value in vars(module).values() if isinstance(value, rule))


_ORDER: Final = list(Target)
RULES: Final = tuple(sorted(_rules_in(__path__, __name__), key=lambda rule: (_ORDER.index(rule.TARGETS[0]), rule.ID)))
"""All rules, sorted by target, then by id: the order of the documentation."""
