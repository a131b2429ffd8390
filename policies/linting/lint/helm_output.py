"""Maps positions in the output of `helm template` on standard input to positions in the templates of the chart.

Helm writes the comment `# Source: CHART/templates/FILE` before the objects of a template.
"""

from __future__ import annotations

import os
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Final

from forewarn.policies.base.findings import Finding, Location, grouped, sort_findings
from forewarn.policies.inputs.manifests.documents import as_utf8, indent_of
from forewarn.policies.inputs.manifests.reading import first_value
from forewarn.policies.inputs.sources.files import File, find_files, readable
from forewarn.policies.kubernetes.objects.fields import at
from forewarn.policies.linting.lint.charts import CHART

if TYPE_CHECKING:
    from forewarn.policies.linting.lint.input import Input

    _Part = Callable[[str], str]

SOURCE: Final = re.compile(r"^# Source: ([^/\s]+)/(\S+)\s*$")
_SEPARATOR: Final = re.compile(r"^---(?:\s|$)")
_MAX_LENGTH: Final = 2_000
"""Maximum characters of a line that are compared."""
_FEW: Final = 100


def placed(findings: Sequence[Finding], files: Input) -> list[Finding]:
    """Return the findings in order; positions in helm's output become positions in the template, if it is found."""
    printed = files.texts.keys() & {finding.file for finding in findings}
    templates = {name: _templates_in(files.texts[name]) for name in printed}

    def relocate_to_template(finding: Finding) -> Finding:
        template = templates.get(finding.file, {}).get(finding.line)
        location = template.place(finding.location) if template else finding.location
        if template is None or location == finding.location:
            return finding
        files.texts[location.file] = template.text.encode()
        return finding._replace(location=location)

    return sort_findings(map(relocate_to_template, findings))


def _templates_in(output: bytes) -> Mapping[int, Template]:
    """Return the template of each line of helm's output, without lines whose template is not found."""
    lines = as_utf8(output).decode("utf-8", "replace").split("\n")
    source, sources = "", defaultdict[str, dict[int, str]](dict)
    for number, line in enumerate(lines, 1):
        if (match := SOURCE.match(line)) is not None:
            source = f"{match[1]}/{match[2]}"
        elif _SEPARATOR.match(line):
            source = ""
        elif source:
            sources[source][number] = line
    found = (file for file in find_files([os.curdir], (CHART.lower(),)) if os.path.basename(file.path) == CHART)
    charts = cache(lambda: grouped((str(at(first_value(readable(f), f.path), "name")), f.path) for f in found))
    result: dict[int, Template] = {}
    for name, rendered in sources.items():
        if file := _template_file(name, charts):
            text = as_utf8(readable(file)).decode("utf-8", "replace")
            result |= dict.fromkeys(rendered, Template(text, rendered, os.path.normpath(file.path)))
    return result


def _template_file(source: str, charts: Callable[[], Mapping[str, Sequence[str]]]) -> File | None:
    """Return the only file below the working directory that a `# Source:` comment can name; None otherwise."""
    chart, *steps = source.split("/")
    if not {"", os.curdir, os.pardir}.isdisjoint(steps):
        return None
    directories = (os.path.dirname(path) for path in charts().get(chart, ()))
    paths = [path for directory in directories if os.path.isfile(path := os.path.join(directory, *steps))]
    return File(paths[0], os.curdir) if len(paths) == 1 else None


class Template:
    """A template, and the lines that helm printed for it by number: equal lines, or lines with the same key, match."""

    def __init__(self, text: str, rendered: Mapping[int, str], file: str) -> None:
        self.text, self._rendered, self._file = text, rendered, file
        self._lines = text.split("\n")
        parts: tuple[_Part, ...] = str, _key
        self._by = {p: (_numbered(enumerate(self._lines, 1), p), _numbered(rendered.items(), p)) for p in parts}

    def place(self, rendered: Location) -> Location:
        """Return the position in the template; if no unique line matches, the position in the output."""
        if number := self._line_for(rendered.line, str):
            shift = indent_of(self._lines[number - 1]) - indent_of(self._rendered[rendered.line])
            return Location(self._file, number, rendered.column + shift, rendered.end_column + shift)
        if not (number := self._line_for(rendered.line, _key)):
            return rendered
        text = self._lines[number - 1].rstrip()
        start = len(text) - len(text.partition(":")[2].lstrip()) + 1
        return Location(self._file, number, start, max(len(text) + 1, start + 1))

    def _line_for(self, line: int, part: _Part) -> int:
        """Return the number of the template line with the same `part` as a line of the output; 0 if it is not unique.

        Equal lines match by their order; the only equal line of a template matches all lines of a loop.
        """
        text = part(self._rendered[line][:_MAX_LENGTH].strip())
        there, here = (numbers.get(text, []) for numbers in self._by[part])
        if len(here) == len(there) and len(here) <= _FEW:
            return there[here.index(line)] if here else 0
        is_loop = len(there) == 1 and indent_of(self._lines[there[0] - 1]) == indent_of(self._rendered[line])
        return there[0] if is_loop else 0


def _key(text: str) -> str:
    """The text before the colon, such as `- name`; "" for a line without a key."""
    head, colon, _ = text.partition(":")
    return head if colon and "{" not in head and "#" not in head else ""


def _numbered(lines: Iterable[tuple[int, str]], part: _Part) -> Mapping[str, Sequence[int]]:
    """Return, by part of a line, the numbers of the lines with this part."""
    texts = ((part(line[:_MAX_LENGTH].strip()), number) for number, line in lines)
    return grouped((text, number) for text, number in texts if text)
