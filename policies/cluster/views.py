"""The view of each kind that the cache stores, and the identity of its objects."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import Final

from forewarn.policies.kinds.registry import BY_GROUP_KIND, DEFAULT_NAMESPACE, POD, PRIORITY_CLASS, is_namespaced
from forewarn.policies.objects.bounded import retained_part
from forewarn.policies.objects.fields import ApiObject, group_kind, text

WORKLOADS: Final = "workloads"
"""The name of the table of all workloads; other tables have the `group/Kind` as name."""
VIEWS: Final = {kind: spec.view for kind, spec in BY_GROUP_KIND.items() if kind != PRIORITY_CLASS and not spec.template}
"""`group/Kind` of each kind with a table -> module and class of its view in policies.objects."""
SCHEDULER_TABLES: Final = {s.table: k for k, s in BY_GROUP_KIND.items() if s.table} | {WORKLOADS: WORKLOADS}
"""Field of `ClusterObjects` -> the name of its table."""


@cache
def reader_of(kind: str) -> Callable[[ApiObject], object]:
    """Return the decoder of a kind in VIEWS."""
    if kind == POD:
        from forewarn.policies.objects.pod import stored_pod  # the linter starts without it

        return stored_pod
    module, name = VIEWS[kind].split(":")
    reader: Callable[[ApiObject], object] = getattr(import_module(f"forewarn.policies.objects.{module}"), name).from_api
    return reader


def decoded(kind: str, obj: ApiObject) -> object:
    """Return the view of an object of a kind in VIEWS. Raises InvalidObject."""
    return reader_of(kind)(obj if kind == POD else retained_part(dict(obj)))


def key_of(obj: ApiObject, kind: str = "") -> tuple[str, str]:
    """Return the (namespace, name) of an API object. `kind`: its `group/Kind`, if known. Raises InvalidObject."""
    is_global = not is_namespaced(kind or group_kind(obj))
    namespace = "" if is_global else text(obj, "metadata", "namespace", default=DEFAULT_NAMESPACE)
    return namespace, text(obj, "metadata", "name")
