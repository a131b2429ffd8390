"""Cheaper ways to create what the modules need that `forewarn lint FILE` imports: regular expressions that are compiled
on their first use, NamedTuples without a check of their annotations, names of modules, and blocks without cycle
collection.
"""

from __future__ import annotations

import gc
import os
import re
import sys
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from types import FunctionType
from typing import TYPE_CHECKING, Any, AnyStr, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from collections.abc import Set as AbstractSet
    from re import Pattern
    from types import CodeType
    from typing import NamedTuple as NamedTuple
else:
    from collections import _tuplegetter

    class _Tuple(tuple):
        """The methods of a NamedTuple."""

        __slots__ = ()

        @classmethod
        def _make(cls, values: Iterable[Any]) -> Any:
            return cls(*values)

        def _replace(self, /, **changes: Any) -> Any:
            record = tuple.__new__(self.__class__, map(changes.pop, self._fields, self))
            if changes:
                raise TypeError(f"{type(self).__name__} has no fields {[*changes]!r}")
            return record

        def _asdict(self) -> dict[str, Any]:
            return dict(zip(self._fields, self, strict=True))

        def __repr__(self) -> str:
            return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in self._asdict().items())})"

        def __getnewargs__(self) -> tuple[Any, ...]:
            return tuple(self)

    @cache
    def _code_of_new(count: int) -> CodeType:
        """Return the code of `__new__` for a record with `count` fields; its parameters do not have their names."""
        values = ", ".join(f"value_{number}" for number in range(count))
        return eval(f"lambda cls, {values}: new(cls, ({values},))").__code__

    class _Record(type):
        """Creates a NamedTuple in a tenth of the time of Python's own, which compiles each annotation and `__new__`."""

        def __new__(cls, name: str, _bases: tuple[type, ...], members: dict[str, Any]) -> type:
            fields = (*members["__annotations__"],)
            defaults = {field: members.pop(field) for field in fields if field in members}
            names = {"co_name": "__new__", "co_qualname": f"{name}.__new__", "co_varnames": ("cls", *fields)}
            code = _code_of_new(len(fields)).replace(**names)
            members["__new__"] = FunctionType(code, {"new": tuple.__new__}, None, tuple(defaults.values()))
            members |= {field: _tuplegetter(number, None) for number, field in enumerate(fields)}
            members |= {"_fields": fields, "__match_args__": fields, "_field_defaults": defaults, "__slots__": ()}
            return type(name, (_Tuple,), members)

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
    """Return a pattern for use by its methods and attributes only; functions of re do not accept it as an argument."""
    return Later(pattern, flags)  # type: ignore[return-value]


def import_with_later_patterns(*names: str) -> None:
    """Import modules or packages, and compile their patterns on first use; patterns of other modules immediately."""

    def compile_pattern(pattern: Any, flags: int = 0) -> Any:
        module = sys._getframe(1).f_globals.get("__name__", "")  # noqa: SLF001
        return (Later if module.partition(".")[0] in names else compile_now)(pattern, flags)

    re.compile = compile_pattern
    try:
        for name in names:
            import_module(name)
    finally:
        re.compile = compile_now


_ENDINGS: Final = (".py", ".pyc", "")
"""File name extensions of modules and packages."""


def modules_in(path: Iterable[str], omitted: AbstractSet[str] = frozenset()) -> list[str]:
    """Return the sorted names of the modules and packages in these directories."""
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
