"""`forewarn whatif merge`: combine the parts of a sweep or a test."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any, Final, TypeVar

from forewarn.policies.commands import sweep as sweeps
from forewarn.policies.commands import test as tests
from forewarn.policies.commands.cluster_command import add_color_option, add_output_option, answered
from forewarn.policies.commands.parser import Parser
from forewarn.policies.commands.shards import Part, in_order, read_part
from forewarn.policies.sources import SourceError, read_file
from forewarn.policies.sources.errors import unreadable
from forewarn.policies.sources.files import File

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterator, Sequence

T = TypeVar("T")
FORMATS: Final = tuple(dict.fromkeys((*sweeps.FORMATS, *tests.FORMATS)))
_MAX_BYTES: Final = 512 * 1024 * 1024


def main(arguments: Sequence[str]) -> int:
    """Run the command; returns 0, 1 for --fail-on or violated expectations, 2 for wrong usage, or 3 without a
    result.
    """
    options = _parser().parse_args(arguments)
    return answered("whatif merge", options, lambda: _merged(options))


def _merged(options: argparse.Namespace) -> int:
    parts = in_order([read_part(name, value) for path in options.paths for name, value in _values(path)])
    is_test = parts[0].options.get("command") == "test"
    formats = tests.FORMATS if is_test else sweeps.FORMATS
    if options.output not in formats:
        what = "of a test" if is_test else "of a sweep"
        raise SourceError(parts[0].file, f"a part {what}, written as {', '.join(formats)}, not {options.output}")
    return (_of_test if is_test else _of_sweep)(parts, options)


def _of_test(parts: Sequence[Part], options: argparse.Namespace) -> int:
    """Combine the results of a test in the order of the expectations; returns the exit status."""
    from forewarn.policies.render.expectations import from_dict

    turns = [iter(_each(part, "expectations", from_dict)) for part in parts]
    results = [next(turns[number % len(parts)]) for number in range(parts[0].of)]
    tests.write_results(results, options)
    return tests.status_of(results)


def _of_sweep(parts: Sequence[Part], options: argparse.Namespace) -> int:
    from forewarn.policies.whatif.sweep import Row, from_dict, worst_first

    found = []
    for part in parts:
        _each(part, "rows", lambda row: row)
        try:
            found.append(from_dict(part.result))
        except ValueError as fault:
            raise SourceError(part.file, str(fault)) from None
    first = found[0]
    for part, each in zip(parts, found, strict=True):
        if each._replace(rows=()) != first._replace(rows=()):
            raise SourceError(part.file, f"differs from {parts[0].file} about the cluster before")
    rows: dict[str, Row] = {}
    for part, each in zip(parts, found, strict=True):
        for row in each.rows:
            if rows.setdefault(row.case, row) is not row:
                raise SourceError(part.file, f"{row.case}: also in another part")
    whole = first._replace(rows=worst_first(rows.values()))
    sweeps.write_sweep(whole, options)
    return sweeps.status_of(whole, options.fail_on)


def _each(part: Part, name: str, read: Callable[[Any], T]) -> list[T]:
    """The results of a part, parsed by `read`. Raises SourceError if their number is wrong."""
    told = part.result.get(name)
    wanted = len(part.shard.part_of(range(part.of)))
    if not isinstance(told, list) or len(told) != wanted:
        raise SourceError(part.file, f"it does not have the {wanted} {name} that part {part.shard.number} has")
    try:
        return [read(each) for each in told]
    except ValueError as fault:
        raise SourceError(part.file, str(fault)) from None


def _values(path: str) -> Iterator[tuple[str, Any]]:
    """Yield the name and JSON value of a file, or of each `.json` file in a directory. Raises SourceError."""
    for name in _files(path):
        data = read_file(File(name), _MAX_BYTES)
        if len(data) > _MAX_BYTES:
            raise SourceError(name, f"more than {_MAX_BYTES // 2**20} MiB, the limit for a part")
        try:
            yield name, json.loads(data)
        except (ValueError, RecursionError):
            raise SourceError(name, "not JSON written by forewarn --shard") from None


def _files(path: str) -> list[str]:
    """The `.json` files of a directory, without subdirectories, which a volume may contain; or the file itself.

    Raises SourceError.
    """
    if not os.path.isdir(path):
        return [path]
    try:
        found = sorted(name for name in os.listdir(path) if name.endswith(".json") and not name.startswith("."))
    except OSError as fault:
        raise unreadable(path, fault) from None
    if not found:
        raise SourceError(path, "no .json files found")
    return [os.path.join(path, name) for name in found]


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="forewarn whatif merge",
        description="Combine the parts that forewarn whatif --each or forewarn test wrote with --shard, and print "
        "them as one result.",
        epilog="The exit status is the status of the combined run, or 3 if the files do not contain each part of one "
        "run once.",
        examples=("whatif merge parts/", "whatif merge part-0.json part-1.json -o html=losses.html"),
    )
    add = parser.add_argument
    add("paths", nargs="+", metavar="FILE", help="files with parts, or directories that contain no other .json files")
    add_output_option(add, FORMATS)
    sweeps.add_fail_on(add)
    add_color_option(add)
    return parser
