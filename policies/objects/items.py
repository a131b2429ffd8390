"""Lists of objects inside an API object."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from forewarn.policies.metering import TooLarge, each
from forewarn.policies.objects.fields import OBJECT, InvalidObject, json_type, ref_of, sequence

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from forewarn.policies.objects.fields import ApiObject


def items(obj: ApiObject, *path: str | int) -> Iterator[ApiObject]:
    """Yield the objects of a list field, in order; none if absent or null. Raises InvalidObject for other types."""
    for index, item in enumerate(each(sequence(obj, *path), 1)):
        if not isinstance(item, OBJECT):
            raise InvalidObject(f"must be an object, not {json_type(item)}", (*path, index), ref_of(obj))
        yield item


def strings(obj: ApiObject, *path: str | int) -> tuple[str, ...]:
    """Return a list field of strings; empty if absent or null. Raises InvalidObject for other types."""
    values: Sequence[Any] = sequence(obj, *path)
    for index, value in enumerate(each(values, 0.1)):
        if not isinstance(value, str):
            raise InvalidObject(f"must be a string, not {json_type(value)}", (*path, index), ref_of(obj))
    return tuple(values)


@contextmanager
def within(root: ApiObject, *path: str | int) -> Iterator[None]:
    """Context manager that adds the object `root` and the path to InvalidObject errors."""
    try:
        yield
    except TooLarge:
        raise
    except InvalidObject as error:
        if error.ref is not None and error.ref.name:
            raise
        raise InvalidObject(error.problem, (*path, *error.path), ref_of(root)) from None
