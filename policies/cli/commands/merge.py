"""`forewarn whatif merge`: combine the parts of a sweep or a test, or reports on several clusters."""

from __future__ import annotations

import json
import os
from collections import Counter
from typing import TYPE_CHECKING, Any, Final, TypeVar

from forewarn.policies.base.documents.answer import AnswerStatus
from forewarn.policies.base.findings import MAX_PATH_LENGTH, brief
from forewarn.policies.cli.commands import test as tests
from forewarn.policies.cli.commands.cluster_command import (
    PAGES,
    TABLES,
    add_color_option,
    add_fail_on,
    add_output_option,
    answered,
    status_of_conditions,
)
from forewarn.policies.cli.commands.many_clusters import print_outcomes
from forewarn.policies.cli.commands.parser import Output, Parser, document_in
from forewarn.policies.cli.commands.shards import FIX_OF_PART, Part, read_part, sort_parts
from forewarn.policies.inputs.sources.files import FAILED, File, SourceError, read_file, unreadable

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterator, Sequence

    from forewarn.policies.cli.render.clusters import Outcome
    from forewarn.policies.kubernetes.cluster.cache import AnswerHead

T = TypeVar("T")
FORMATS: Final = tuple(dict.fromkeys((*PAGES, *tests.FORMATS, *TABLES)))
_MAX_BYTES: Final = 512 * 1024 * 1024


def main(arguments: Sequence[str]) -> int:
    """Run the command; returns 0, 1 for --fail-on or violated expectations, 2 for wrong usage, or 3 without a
    result.
    """
    options = _parser().parse_args(arguments)
    output: Output = options.output._replace(color=options.color)

    def answer() -> int:
        values = [value for path in options.paths for value in _values(path)]
        if any(_is_of_clusters(value) for _, value in values):
            return _merge_clusters(values, output)
        parts = sort_parts([read_part(name, value) for name, value in values])
        is_test = parts[0].options.get("command") == "test"
        formats = tests.FORMATS if is_test else PAGES
        if output.form not in formats:
            what = "of a test" if is_test else "of a sweep"
            raise SourceError(parts[0].file, f"a part {what}, written as {', '.join(formats)}, not {output.form}")
        return _merge_test(parts, output) if is_test else _merge_sweep(parts, output, options.fail_on)

    return answered("whatif merge", output, answer)


def _is_of_clusters(value: Any) -> bool:
    return isinstance(value, dict) and isinstance(value.get("clusters"), list)


def _merge_clusters(values: Sequence[tuple[str, Any]], output: Output) -> int:
    """Combine reports on different clusters, the worst cluster first; returns the highest exit status of a cluster."""
    from forewarn.policies.cli.render.clusters import from_dict, worst_first

    first = next(file for file, value in values if _is_of_clusters(value))
    if output.form not in TABLES:
        raise SourceError(first, f"a report on several clusters, written as {', '.join(TABLES)}")
    named: list[tuple[str, Outcome]] = []
    command, heads = "", None
    for file, value in values:
        if not _is_of_clusters(value):
            raise SourceError(file, f"not a report on several clusters, unlike {first}")
        try:
            own, outcomes = from_dict(value)
        except ValueError as fault:
            raise SourceError(file, str(fault)) from None
        rows = [outcome.row.keys() for outcome in outcomes if not outcome.reason]
        command, heads = command or own, heads or next(iter(rows), None)
        if own != command:
            raise SourceError(file, f"a report of forewarn {brief(own, 40)}, unlike {first}")
        if any(row != heads for row in rows):
            raise SourceError(file, f"a table with other columns than {first}, or than its first row")
        named += ((file, outcome) for outcome in outcomes)
    every = worst_first(_unique_outcomes(named))
    print_outcomes(command, every, output, in_full=False)
    return max((part.status for part in every), default=0)


def _unique_outcomes(named: Sequence[tuple[str, Outcome]]) -> list[Outcome]:
    """The results with unique names: if different snapshots have the same name, their paths become the names.

    Raises SourceError if several results are about the same cluster.
    """
    names, sources = Counter(part.name for _, part in named), dict[str, str]()
    for file, part in named:
        if part.source in sources:
            raise SourceError(file, f"{brief(part.source, MAX_PATH_LENGTH)}: also in {sources[part.source]}")
        sources[part.source] = file
    return [item._replace(name=item.name if names[item.name] == 1 else item.source) for _, item in named]


def _merge_test(parts: Sequence[Part], output: Output) -> int:
    """Merge the results of a divided `forewarn test`, in the order of the expectations; return the exit status."""
    from forewarn.policies.questions.application.expectations import Expectations, from_dict

    turns = [iter(_each(part, "expectations", from_dict)) for part in parts]
    results = [next(turns[number % len(parts)]) for number in range(parts[0].of)]
    whole = Expectations(_head(parts), results)
    tests.write_results(whole, output)
    return tests.status_of(whole)


def _merge_sweep(parts: Sequence[Part], output: Output, fail_on: Sequence[str]) -> int:
    from dataclasses import replace

    from forewarn.policies.questions.whatif.sweep import Row, from_dict, worst_first

    all_rows, head = [], _head(parts)
    for part in parts:
        _each(part, "cases", lambda row: row)
        try:
            all_rows.append(from_dict(part.result, head))
        except ValueError as fault:
            raise SourceError(part.file, str(fault)) from None
    first = all_rows[0]
    for part, item in zip(parts, all_rows, strict=True):
        if replace(item, cases=()) != replace(first, cases=()):
            raise SourceError(part.file, f"differs from {parts[0].file} about the cluster before")
    rows: dict[str, Row] = {}
    for part, item in zip(parts, all_rows, strict=True):
        for row in item.cases:
            if rows.setdefault(row.case, row) is not row:
                raise SourceError(part.file, f"{row.case}: also in another part")
    whole = replace(first, cases=worst_first(rows.values()))
    document_in(output, whole).print()
    status = status_of_conditions(whole.conditions, fail_on)
    return FAILED if whole.document.status is AnswerStatus.NO_ANSWER else status


def _head(parts: Sequence[Part]) -> AnswerHead:
    """Return the head of the whole result. Raises SourceError."""
    from forewarn.policies.cli.render.head import merged

    try:
        return merged(part.result for part in parts)
    except ValueError as fault:
        raise SourceError(parts[0].file, str(fault)) from None


def _each(part: Part, name: str, read: Callable[[Any], T]) -> list[T]:
    """Return the results of a part, parsed by `read`. Raises SourceError for a wrong number or invalid results."""
    value = part.result.get(name)
    wanted = len(part.shard.part_of(range(part.of)))
    if not isinstance(value, list) or len(value) != wanted:
        raise SourceError(part.file, f"it does not have the {wanted} {name} that part {part.shard.number} has")
    try:
        return [read(item) for item in value]
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
            raise SourceError(name, "not JSON", fix=FIX_OF_PART) from None


def _files(path: str) -> list[str]:
    """Return the file, or the `.json` files of a directory without its subdirectories. Raises SourceError."""
    if not os.path.isdir(path):
        return [path]
    try:
        paths = sorted(name for name in os.listdir(path) if name.endswith(".json") and not name.startswith("."))
    except OSError as fault:
        raise unreadable(path, fault) from None
    if not paths:
        raise SourceError(path, "no .json files found")
    return [os.path.join(path, name) for name in paths]


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="forewarn whatif merge",
        description="Combine the parts of a run with --shard, or JSON reports on several clusters.",
        epilog="Exit status: as for the combined commands. 2: wrong usage. 3: for example, a part is missing.",
        examples=(
            "whatif merge parts/",
            "whatif merge europe.json america.json -o json=all.json",
            "whatif merge part-0.json part-1.json -o html=losses.html",
        ),
    )
    add = parser.add_argument
    help_text = "files with parts or reports, or directories that contain no other .json files"
    add("paths", nargs="+", metavar="FILE", help=help_text)
    add_output_option(add, FORMATS)
    add_fail_on(add)
    add_color_option(add)
    return parser
