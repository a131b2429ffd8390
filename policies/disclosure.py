"""Whom a text is for, and so what it may name: names are for those who may read the objects, others get counts."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable


class Disclose(StrEnum):
    """What a requester is told by name of what is not in the request."""

    NAMES = "names"
    """Everything."""
    OWN_NAMESPACE = "own-namespace"
    """What is in the namespace of the request, and the classes that may be used there."""
    COUNTS = "counts"
    """Nothing: pods, nodes and classes are counted."""


class Audience(NamedTuple):
    """Who reads a text: somebody in `namespace` (empty: in none, as for a PriorityClass). Without arguments: everybody.

    `knows`: whether he may be told that there is a class of this name.
    """

    disclose: Disclose = Disclose.NAMES
    namespace: str = ""
    knows: Callable[[str], bool] = lambda _: True

    @property
    def sees_all(self) -> bool:
        """Whether nothing is withheld: names of other namespaces, of nodes, of every class."""
        return self.disclose is Disclose.NAMES

    def is_told_of(self, namespace: str) -> bool:
        """Whether objects of this namespace are named."""
        own = self.disclose is Disclose.OWN_NAMESPACE and bool(namespace) and namespace == self.namespace
        return self.sees_all or own


OPEN: Final = Audience()
"""Who may see everything: the audit log, the log, whoever runs a command on files of his own."""
