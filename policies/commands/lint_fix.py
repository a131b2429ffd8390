"""`forewarn lint --fix` and `--diff`: apply safe fixes, or show them as a patch."""

from __future__ import annotations

import os
from collections import defaultdict
from contextlib import suppress
from difflib import unified_diff
from typing import TYPE_CHECKING, NamedTuple

from forewarn.policies.commands.lint_input import wanted_kinds
from forewarn.policies.evaluation.fixes import applied, edits_of
from forewarn.policies.findings import cut, plural
from forewarn.policies.kinds.registry import PRIORITY_CLASS
from forewarn.policies.manifests import read
from forewarn.policies.objects.fields import InvalidObject, group_kind
from forewarn.policies.objects.priority_class import PriorityClass
from forewarn.policies.recommended_classes import is_recommended
from forewarn.policies.sources import SourceError, read_file
from forewarn.policies.sources.output_file import write_file
from forewarn.policies.terminal import clean, print_notice

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from forewarn.policies.cluster.cache import ClusterSnapshot
    from forewarn.policies.commands.lint_input import Input
    from forewarn.policies.config.model import Config
    from forewarn.policies.findings import Finding


class FixedFile(NamedTuple):
    """A file before and after its fixes, and the number of fixed findings."""

    path: str
    before: bytes
    after: bytes
    findings: int


def class_names(given: Input, cluster: ClusterSnapshot | None) -> set[str]:
    """Return the names of the PriorityClasses that fixes may write."""
    known = {**(cluster.priority_classes if cluster else {})}
    for member in given.members:
        if group_kind(member.subject.object) == PRIORITY_CLASS:
            with suppress(InvalidObject):  # a finding says so
                defined = PriorityClass.from_api(member.subject.object)
                known[defined.name] = defined
    return {name for name, found in known.items() if is_recommended(found)}


def fixed(
    findings: Sequence[Finding], given: Input, config: Config, cluster: ClusterSnapshot | None
) -> Iterator[FixedFile]:
    """Yield each file with safe fixes, and its text after them."""
    by_file: dict[str, list[Finding]] = defaultdict(list)
    for finding in findings:
        by_file[finding.location.file].append(finding)
    names = class_names(given, cluster)
    for name, found in by_file.items():
        file = given.sources.get(name)
        if file is None or file.is_stream:
            continue
        try:
            before = read_file(file)
        except SourceError:
            continue  # it was told when it was read
        edits = [edit for edit in edits_of(found, before, names) if edit.is_safe]
        after = applied(before, edits)
        if edits and _is_sound(before, after, name, config):
            yield FixedFile(file.path, before, after, len(edits))


def _is_sound(before: bytes, after: bytes, name: str, config: Config) -> bool:
    """Report whether the fixed text has as many objects and parse errors as before."""
    wanted = wanted_kinds(config)
    old, new = read(before, name, wanted), read(after, name, wanted)
    return (old.objects, len(old.subjects), len(old.diagnostics)) == (
        new.objects,
        len(new.subjects),
        len(new.diagnostics),
    )


def write(fixed: Sequence[FixedFile]) -> None:
    """Write the fixed files, each atomically, and print their number. Raises SourceError."""
    for file in fixed:
        write_file(os.path.realpath(file.path), file.after)  # where the link leads was checked when it was read
    if fixed:
        print_notice(f"{plural(sum(file.findings for file in fixed), 'finding')} fixed in {plural(len(fixed), 'file')}")


def show(fixed: Sequence[FixedFile]) -> None:
    """Print the fixes as a patch for `patch -p0`."""
    for file in fixed:
        before, after = (
            text.decode("utf-8", "replace").splitlines(keepends=True) for text in (file.before, file.after)
        )
        for line in unified_diff(before, after, file.path, file.path):
            ending = "" if line.endswith("\n") else "\n\\ No newline at end of file"
            print(clean(cut(line.rstrip("\r\n"), 10_000), color=False, is_patch=True) + ending)  # noqa: T201
