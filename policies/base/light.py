"""What modules that `forewarn lint FILE` imports create, with less work at the start: regular expressions that are
compiled on their first use, NamedTuples without a check of their annotations, names of modules, and blocks without
cycle collection.
"""

from __future__ import annotations

import gc
import os
import re
from collections import namedtuple
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, AnyStr, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from collections.abc import Set as AbstractSet
    from re import Pattern
    from typing import NamedTuple as NamedTuple
else:

    class _Record(type):
        """Creates a NamedTuple in half the time of Python's own, which compiles each annotation."""

        def __new__(cls, name: str, _bases: tuple[type, ...], members: dict[str, Any]) -> type:
            fields = members["__annotations__"]
            defaults = [members.pop(field) for field in fields if field in members]
            record = namedtuple(name, fields, defaults=defaults, module=members["__module__"])
            for key, member in members.items():
                setattr(record, key, member)
            return record

    NamedTuple = type.__new__(_Record, "NamedTuple", (), {})

compile_now: Final = re.compile


class Later:
    """A pattern that is compiled on its first use."""

    def __init__(self, pattern: Any, flags: int = 0) -> None:
        self._arguments: Final = pattern, flags

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):  # copy and pickle look these up before `__init__`
            raise AttributeError(name)
        value = getattr(compile_now(*self._arguments), name)
        setattr(self, name, value)
        return value


def later(pattern: AnyStr, flags: int = 0) -> Pattern[AnyStr]:
    """Return a pattern of which only the methods and attributes can be used: it is no argument of functions of re."""
    return Later(pattern, flags)  # type: ignore[return-value]


_ENDINGS: Final = (".py", ".pyc", "")
"""File name extensions of modules and packages."""


def modules_in(path: Iterable[str], omitted: AbstractSet[str] = frozenset()) -> list[str]:
    """Return the names of the modules and packages in some directories, sorted."""
    # pkgutil would import inspect, which takes 5 ms of the linter's start
    files = (os.path.splitext(file) for directory in path for file in os.listdir(directory))
    found = {name for name, ending in files if ending in _ENDINGS and name.isidentifier()}
    return sorted(found - {"__init__", "__pycache__"} - omitted)


@contextmanager
def no_collection() -> Iterator[None]:
    """Disable Python's cycle collector inside the block."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
