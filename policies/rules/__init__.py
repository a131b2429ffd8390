"""The rules, one a module: all that are in this package. No list of them, no decorators."""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules
from typing import TYPE_CHECKING, Final, cast

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from policies.rules.support.context import Rule

_SUPPORT: Final = "support"
"""What rules share."""


def _found(path: Iterable[str], package: str) -> Iterator[Rule]:
    """Every rule in a package and the packages in it."""
    for module in iter_modules(path):
        if module.name == _SUPPORT:
            continue
        found = import_module(f"{package}.{module.name}")
        if module.ispkg:
            yield from _found(found.__path__, found.__name__)
        else:
            yield cast("Rule", found)


def _ordered(rules: Iterator[Rule]) -> tuple[Rule, ...]:
    """By what they are about, then by name: the order of the documentation."""
    from policies.rules.support.context import Target

    subjects = list(Target)
    return tuple(sorted(rules, key=lambda rule: (subjects.index(rule.TARGETS[0]), rule.ID)))


RULES: Final = _ordered(_found(__path__, __name__))
