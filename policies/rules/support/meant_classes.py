"""The PriorityClass that a misspelled name means, although the change set of the name does not define it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from forewarn.policies.objects.priority_class import SYSTEM_CLASSES
from forewarn.policies.rules.support.names import Names, is_misspelt, is_one_edit

if TYPE_CHECKING:
    from forewarn.policies.rules.support.context import Context

_OFTEN = 2
"""Minimum uses of a name in the input that is no misspelling of another name."""


def meant_system_class(name: str) -> str:
    """The system class that a name is a misspelling of; "" if there is none."""
    return next((c.name for c in SYSTEM_CLASSES if is_misspelt(name, c.name)), "")


def meant_elsewhere(name: str, context: Context) -> str:
    """The class that a name is a misspelling of, among those of other directories, or the more frequent names of the
    input; "" if there is none.
    """
    options = context.options
    if name in options.input_classes:
        return ""
    meant = context.once(_Defined).nearest_name(name)
    if meant and is_misspelt(name, meant):
        return meant
    often = context.once(_Used).nearest_name(name)
    is_rarer = options.class_uses.get(name, 0) < options.class_uses.get(often, 0)
    return often if often and is_rarer and is_one_edit(name, often) else ""


class _Defined(Names):
    """The classes that other directories of the input define."""

    def __init__(self, context: Context) -> None:
        super().__init__(context.options.input_classes - context.classes.keys())


class _Used(Names):
    """The names that the input uses several times."""

    def __init__(self, context: Context) -> None:
        super().__init__({name for name, count in context.options.class_uses.items() if count >= _OFTEN})
