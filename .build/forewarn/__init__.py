"""forewarn from a checkout: `forewarn.policies` and `forewarn.webhook`, the names that a wheel has them under.

An editable install puts this file into site-packages. What is imported as `forewarn.policies.x` is the very module
`policies.x` of the checkout: there is one of each, so that a plugin's base class is forewarn's own. A wheel has them
inside `forewarn`, and an empty file instead of this one (`.build/backend.py`).
"""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.machinery import ModuleSpec
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import ModuleType

_HERE: Final = f"{__name__}."
_BESIDE: Final = ("policies", "webhook")


class _Beside:
    """Finds what is beside this package, and loads it by its own name."""

    @staticmethod
    def find_spec(name: str, _path: Sequence[str] | None, _target: ModuleType | None = None) -> ModuleSpec | None:
        """Where `forewarn.policies` and what is in it comes from; None for every other module."""
        own = name.removeprefix(_HERE)
        if own == name or own.partition(".")[0] not in _BESIDE:
            return None
        return ModuleSpec(name, _Same(import_module(own)))  # type: ignore[arg-type]  # no Loader: that would import more


class _Same:
    """Loads a module that is loaded already."""

    def __init__(self, module: ModuleType) -> None:
        self._module = module
        self._spec = module.__spec__

    def create_module(self, _spec: ModuleSpec) -> ModuleType:
        """The one that is there."""
        return self._module

    def exec_module(self, module: ModuleType) -> None:
        """Nothing but to give it back its spec, which the import machinery has just written over."""
        module.__spec__ = self._spec


sys.meta_path.insert(0, _Beside())
