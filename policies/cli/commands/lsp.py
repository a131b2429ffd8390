"""`forewarn lsp`: run the linter as a language server on standard input and output."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import sys
from bisect import bisect_right
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from forewarn.policies import VERSION
from forewarn.policies.base.findings import (
    MAX_PATH_LENGTH,
    Finding,
    Location,
    Severity,
    brief,
    cut,
    one_line,
    printable,
)
from forewarn.policies.cli.commands.parser import Parser
from forewarn.policies.cli.terminal import complain
from forewarn.policies.inputs.manifests.groups import Member
from forewarn.policies.inputs.manifests.reading import read
from forewarn.policies.kubernetes.kinds.registry import PRIORITY_CLASS
from forewarn.policies.kubernetes.objects.fields import group_kind
from forewarn.policies.kubernetes.objects.priority_class import SYSTEM_CLASSES, PriorityClass
from forewarn.policies.linting.config.model import Config, ConfigError, find_config
from forewarn.policies.linting.evaluation.foreign_rules import with_rules
from forewarn.policies.linting.evaluation.suppressions import annotation_suppressions, comment_suppressions
from forewarn.policies.linting.lint.fixes import Edit, class_names, defined_classes, edits_of
from forewarn.policies.linting.lint.input import Input, LintRequest, read_input, wanted_kinds, with_schemas
from forewarn.policies.questions.application.lint import SourceLines, evaluated

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pygls.lsp.server import LanguageServer

with suppress(ImportError):  # `main` reports the error
    from lsprotocol import types


PAUSE: Final = 0.2
"""Seconds without input after which a text is checked."""
_MAX: Final = 1_000
"""Maximum number of findings of one file."""
_MAX_LENGTH: Final = 2_000


def main(arguments: Sequence[str]) -> int:
    """Serve until the editor ends the session; returns the exit status."""
    parser = Parser(
        prog="forewarn lsp",
        description="Run a Language Server Protocol server on standard input and output. Editors start this command.",
    )
    help_text = "accepted for editors; the server always uses standard input and output"
    parser.add_argument("--stdio", action="store_true", help=help_text)
    parser.parse_args(arguments)
    try:
        server, session = _server()
    except ImportError as missing:
        return complain("lsp", f"{missing.name} is not installed: it comes with forewarn's extra `lsp`", 3)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)  # an exception would wait for the thread that reads standard input
    with os.fdopen(os.dup(sys.stdout.fileno()), "wb") as output:  # pygls closes the one that it is given
        server.start_io(stdout=output)
    return session.exit_status


class _Session:
    """The state of an editor session: open documents and their latest diagnostics."""

    def __init__(self, server: LanguageServer) -> None:
        self.server = server
        self.workspace: Workspace | None = None
        self.checked: dict[str, tuple[int | None, Checked]] = {}
        self.is_shut_down = False
        self.exit_status = 0
        self._waiting: dict[str, asyncio.TimerHandle] = {}

    def start(self, root: str) -> None:
        """Set the directory of the workspace ("" for none), and load its configuration."""
        self.workspace = Workspace(root)
        self.refresh()

    def refresh(self) -> None:
        """Reload files and configuration. Errors are shown in the editor; the defaults then apply."""
        try:
            if self.workspace is not None:
                self.workspace.refresh()
        except ConfigError as fault:
            message = brief(str(fault), _MAX_LENGTH)
            self.server.window_show_message(types.ShowMessageParams(types.MessageType.Error, message))

    def soon(self, uri: str) -> None:
        """Schedule the check of a text after PAUSE seconds without input."""
        self.forget(uri)
        self._waiting[uri] = asyncio.get_running_loop().call_later(PAUSE, self.publish, uri)

    def forget(self, uri: str) -> None:
        """Cancel the scheduled check of a text."""
        if waiting := self._waiting.pop(uri, None):
            waiting.cancel()

    def check(self, uri: str) -> Checked | None:
        """Check the current text, with a cache by version; None for a document that is not a file."""
        document = self.server.workspace.get_text_document(uri)
        if self.workspace is None or not document.path or not uri.startswith("file:"):
            return None
        version, checked = self.checked.get(uri, (None, None))
        if checked is None or version != document.version or checked.text != document.source:
            checked = self.workspace.check(os.path.relpath(document.path), document.source)
            self.checked[uri] = document.version, checked
        return checked

    def publish(self, uri: str) -> None:
        """Check a text, and send its findings to the editor."""
        self.forget(uri)
        checked = self.check(uri)
        if checked is None:
            return
        lines = checked.lines
        diagnostics = [self._diagnostic(finding, lines) for finding in checked.findings[:_MAX]]
        version = self.checked[uri][0]
        parameters = types.PublishDiagnosticsParams(uri=uri, diagnostics=diagnostics, version=version)
        self.server.text_document_publish_diagnostics(parameters)

    def span(self, line: int, start: int, end: int, lines: Sequence[str]) -> types.Range:
        """The range of a part of a line in the client's units. Arguments count from 1; `end` is exclusive."""
        number = min(max(line, 1), len(lines)) - 1
        units = self.server.workspace.position_codec.client_num_units
        text = lines[number]
        return types.Range(
            types.Position(number, units(text[: start - 1])), types.Position(number, units(text[: end - 1]))
        )

    def character(self, position: types.Position, lines: Sequence[str]) -> int:
        """The column (from 1) of a position in the client's units."""
        if position.line >= len(lines):
            return 1
        units, text = self.server.workspace.position_codec.client_num_units, lines[position.line]
        return bisect_right(range(len(text) + 1), position.character, key=lambda end: units(text[:end]))

    def class_field(self, uri: str, position: types.Position) -> tuple[Checked | None, ClassField | None]:
        """The checked text, and its field for a class name at a position; None for both if there is none."""
        row, lines = position.line, self.server.workspace.get_text_document(uri).source.split("\n")
        field = class_field_at(lines[row], self.character(position, lines)) if row < len(lines) else None
        return (self.check(uri), field) if field else (None, None)  # checking after each key press would cost too much

    def place(self, checked: Checked, where: Location) -> types.Location:
        """Convert a location of the linter to a location of the protocol."""
        lines = checked.lines if where.file in checked.given.reported else []
        line = lines[where.line - 1] if lines else self.workspace.line_of(where) if self.workspace else ""
        span = self.span(1, where.column, where.end_column, [line])
        span.start.line = span.end.line = where.line - 1
        return types.Location(Path(os.path.realpath(where.file)).as_uri(), span)

    def _diagnostic(self, finding: Finding, lines: Sequence[str]) -> types.Diagnostic:
        severities = {
            Severity.ERROR: types.DiagnosticSeverity.Error,
            Severity.WARNING: types.DiagnosticSeverity.Warning,
            Severity.NOTE: types.DiagnosticSeverity.Information,
        }
        message = f"{finding.message}\n{finding.remediation}" if finding.remediation else finding.message
        where = finding.location
        return types.Diagnostic(
            range=self.span(where.line, where.column, where.end_column, lines),
            message="\n".join(one_line(part) for part in cut(message, _MAX_LENGTH).split("\n")),
            severity=severities[finding.severity],
            code=finding.rule,
            source="forewarn",
        )

    def action(self, uri: str, finding: Finding, edit: Edit, lines: Sequence[str]) -> types.CodeAction:
        """The code action for a fix of a finding."""
        where = edit.location
        if edit.new is None:
            place = types.Range(types.Position(where.line - 1, 0), types.Position(where.line, 0))
        else:
            place = self.span(where.line, where.column, where.end_column, lines)
        change = types.WorkspaceEdit(changes={uri: [types.TextEdit(range=place, new_text=edit.new or "")]})
        return types.CodeAction(
            title=brief(edit.title, 200),
            kind=types.CodeActionKind.QuickFix,
            diagnostics=[self._diagnostic(finding, lines)],
            edit=change,
            is_preferred=edit.is_safe,
        )


def _register_end(server: LanguageServer, session: _Session) -> None:
    """Register shutdown and exit: by the protocol, the exit status is 1 for an exit without shutdown."""

    @server.feature(types.SHUTDOWN)
    def shutdown(_: None) -> None:
        session.is_shut_down = True

    @server.feature(types.EXIT)
    def leave(_: None) -> None:
        session.exit_status = 0 if session.is_shut_down else 1


def _server() -> tuple[LanguageServer, _Session]:
    """The language server with its features registered. Raises ImportError."""
    from pygls.lsp.server import LanguageServer

    server = LanguageServer("forewarn", VERSION)
    session = _Session(server)

    @server.feature(types.INITIALIZED)
    def initialized(_: types.InitializedParams) -> None:
        root = server.workspace.root_path or ""
        if root and os.path.isdir(root):
            os.chdir(root)
        session.start(os.curdir if root else "")

    _register_end(server, session)

    @server.feature(types.TEXT_DOCUMENT_DID_OPEN)
    def did_open(params: types.DidOpenTextDocumentParams) -> None:
        session.publish(params.text_document.uri)

    @server.feature(types.TEXT_DOCUMENT_DID_CHANGE)
    def did_change(params: types.DidChangeTextDocumentParams) -> None:
        session.soon(params.text_document.uri)

    @server.feature(types.TEXT_DOCUMENT_DID_CLOSE)
    def did_close(params: types.DidCloseTextDocumentParams) -> None:
        uri = params.text_document.uri
        session.forget(uri)
        session.checked.pop(uri, None)
        server.text_document_publish_diagnostics(types.PublishDiagnosticsParams(uri=uri, diagnostics=[]))

    @server.feature(types.TEXT_DOCUMENT_DID_SAVE)
    @server.feature(types.WORKSPACE_DID_CHANGE_WATCHED_FILES)
    def files_changed(_: types.DidSaveTextDocumentParams | types.DidChangeWatchedFilesParams) -> None:
        session.refresh()
        session.checked.clear()
        for uri in [*server.workspace.text_documents]:
            session.publish(uri)

    @server.feature(types.TEXT_DOCUMENT_HOVER)
    def hover(params: types.HoverParams) -> types.Hover | None:
        checked = session.check(params.text_document.uri)
        if checked is None:
            return None
        column = session.character(params.position, checked.lines)
        text = meaning(checked, params.position.line + 1, column)
        content = types.MarkupContent(kind=types.MarkupKind.PlainText, value=cut(text, _MAX_LENGTH))
        return types.Hover(contents=content) if text else None

    @server.feature(
        types.TEXT_DOCUMENT_CODE_ACTION, types.CodeActionOptions(code_action_kinds=[types.CodeActionKind.QuickFix])
    )
    def code_action(params: types.CodeActionParams) -> list[types.CodeAction]:
        uri = params.text_document.uri
        checked = session.check(uri)
        if checked is None:
            return []
        lines = checked.lines
        actions = fixes_on(checked, params.range.start.line + 1, params.range.end.line + 1)
        return [session.action(uri, finding, edit, lines) for finding, edit in actions[:_MAX]]

    _register_classes(server, session)
    return server, session


def _register_classes(server: LanguageServer, session: _Session) -> None:
    """Register completion of class names, and go to definition."""

    @server.feature(types.TEXT_DOCUMENT_COMPLETION, types.CompletionOptions(trigger_characters=[":", " ", '"', "'"]))
    def complete(params: types.CompletionParams) -> types.CompletionList | None:
        checked, field = session.class_field(params.text_document.uri, params.position)
        if checked is None or field is None:
            return None
        names = completions(checked, field.prefix)
        span = session.span(params.position.line + 1, field.start, field.end, checked.lines)
        items = [
            types.CompletionItem(
                label=name,
                kind=types.CompletionItemKind.Reference,
                detail=line,
                text_edit=types.TextEdit(span, field.scalar(name)),
            )
            for name, line in names[:_MAX]
        ]
        return types.CompletionList(is_incomplete=len(names) > _MAX, items=items)

    @server.feature(types.TEXT_DOCUMENT_DEFINITION)
    def definition(params: types.DefinitionParams) -> list[types.Location]:
        checked, field = session.class_field(params.text_document.uri, params.position)
        if checked is None or field is None:
            return []
        return [session.place(checked, where) for where in definitions(checked, field.name)[:_MAX]]


NAMESPACE: Final = "default"
_NAME: Final = re.compile(r"[A-Za-z0-9][-A-Za-z0-9.]*")
_FIELD: Final = re.compile(
    r"""[pP]riorityClass(?:Name)?["']?:(?P<gap>[ \t]*)(?P<quote>["']?)(?P<name>[-A-Za-z0-9.]*)(?=["',}\s]|$)"""
)
_NOT_STRINGS: Final = frozenset(("true", "false", "yes", "no", "on", "off", "y", "n", "null"))
_MAX_NAME_LENGTH: Final = 253
_MAX_LINE_LENGTH: Final = 10_000
_MAX_LISTED: Final = 3
"""Maximum number of definitions of one class in a description: a directory tree may have one for each environment."""


class Checked(NamedTuple):
    """A checked text, its findings, and the PriorityClasses that the text can name, each with the file that defines
    the class.
    """

    text: str
    findings: list[Finding]
    given: Input
    classes: list[tuple[PriorityClass, str]]

    @property
    def lines(self) -> list[str]:
        return self.text.split("\n")


class ClassField(NamedTuple):
    """A field for a class name in a line: the columns of the name, the name, and its part before the cursor."""

    start: int
    end: int
    name: str
    prefix: str
    has_gap: bool
    is_quoted: bool

    def scalar(self, name: str) -> str:
        """Format a name as the field's value, with quotes if YAML would not read it as a string."""
        is_plain = self.is_quoted or (name[0].isalpha() and name not in _NOT_STRINGS)
        return f"{'' if self.has_gap or self.is_quoted else ' '}{name if is_plain else json.dumps(name)}"


class Workspace:
    """A directory with its configuration and the definitions in its files. Root "": no directory, for a single file."""

    def __init__(self, root: str = "") -> None:
        self._root = root
        self.config = Config()
        self._files: Input | None = None
        self._real: dict[str, str] = {}

    def refresh(self) -> None:
        """Reload the configuration now, and the files at the next request. Raises ConfigError."""
        self._files = None
        self.config = Config()
        path = find_config(self._root) if self._root else None
        if path:
            from forewarn.policies.linting.config.load import load_config

            self.config = with_rules(load_config(path), str(path))

    def check(self, path: str, text: str) -> Checked:
        """Check a file with this text, together with the definitions in other files.

        Raises only internal errors of rules, regardless of the text.
        """
        given = self._replace_text(path, text)
        findings = evaluated(given, given.grouping(self.config), self.config).findings
        return Checked(text, [f for f in findings if f.location.file == path], given, list(_classes(given)))

    def line_of(self, where: Location) -> str:
        """The line of a location in a saved file; "" if it no longer exists."""
        return SourceLines(self._read()).line_of(where.file, where.line) or ""

    def _replace_text(self, path: str, text: str) -> Input:
        """Return the linter's input for the directory, with this text in place of the file."""
        files, own = self._read(), os.path.realpath(path)
        reading = read(text, path, wanted_kinds(self.config), namespace=NAMESPACE)
        at = next((at for at, member in enumerate(files.members) if self._real[member.file] == own), len(files.members))
        given = Input()
        given.members = [m._replace(reported=False) for m in files.members if self._real[m.file] != own]
        given.members[at:at] = [Member.from_object(subject, path) for subject in reading.subjects]
        given.kustomizations = files.kustomizations
        given.reported, given.objects = [path], reading.objects
        given.diagnostics = list(reading.diagnostics)
        given.suppressions = [*comment_suppressions(reading.comments), *annotation_suppressions(reading.subjects)]
        return given

    def _read(self) -> Input:
        if self._files is None:
            self._files = read_input(LintRequest([self._root], self.config)) if self._root else Input()
            self.config = with_schemas(self.config, self._files)
            self._real = {file: os.path.realpath(file) for file in {m.file for m in self._files.members}}
        return self._files


def meaning(checked: Checked, line: int, column: int) -> str:
    """Return the hover text for a position (line and column from 1); "" if there is none."""
    findings = [f for f in checked.findings if f.location.line == line and _covers(f, column)]
    messages = [
        f"{f.severity} [{f.rule}] {f.message}" + (f"\n{f.remediation}" if f.remediation else "") for f in findings
    ]
    text = checked.lines[line - 1][:_MAX_LINE_LENGTH] if line <= len(checked.lines) else ""
    if re.search(r"[cC]lass|name", text):
        names = {m[0] for m in _NAME.finditer(text) if m.start() < column <= m.end() + 1}
        same = [(c, file) for c, file in checked.classes if c.name in names]
        messages = [*(_class_line(c, file) for c, file in same[:_MAX_LISTED]), *messages]
        if len(same) > _MAX_LISTED:
            messages.insert(_MAX_LISTED, f"and {len(same) - _MAX_LISTED} more definitions")
    if findings:
        messages.append(f"forewarn explain {findings[0].rule}")
    return "\n\n".join("\n".join(map(printable, message.split("\n"))) for message in messages)


def fixes_on(checked: Checked, first: int, last: int) -> list[tuple[Finding, Edit]]:
    """The fixes on these lines (from 1, inclusive), each with its finding."""
    names = class_names(checked.given, None)
    data = checked.text.encode("utf-8", "surrogatepass")
    return edits_of([f for f in checked.findings if first <= f.location.line <= last], data, names)


def class_field_at(line: str, column: int) -> ClassField | None:
    """The field for a class name at a column (from 1) of a line."""
    for match in _FIELD.finditer(line[:_MAX_LINE_LENGTH]):
        start, end = match.span("name")
        if start <= column - 1 <= end:
            prefix = line[start : column - 1]
            return ClassField(start + 1, end + 1, match["name"], prefix, bool(match["gap"]), bool(match["quote"]))
    return None


def completions(checked: Checked, prefix: str) -> list[tuple[str, str]]:
    """The names of all classes with a description of each, first those that begin with `prefix`."""
    lines: dict[str, str] = {}
    for name, file in checked.classes:
        if _NAME.fullmatch(name.name) and len(name.name) <= _MAX_NAME_LENGTH:
            lines.setdefault(name.name, _class_line(name, file))
    return sorted(lines.items(), key=lambda item: (not item[0].startswith(prefix), item[0]))


def definitions(checked: Checked, name: str) -> list[Location]:
    """The locations of the names of all PriorityClasses with this name."""
    classes = (m.subject for m in checked.given.members if group_kind(m.subject.object) == PRIORITY_CLASS)
    places = (subject.locate(("metadata", "name")) for subject in classes if name and subject.ref.name == name)
    return [place for place in places if place.line]


def _covers(finding: Finding, column: int) -> bool:
    return finding.location.column <= column <= max(finding.location.end_column, finding.location.column + 1)


def _classes(files: Input) -> Iterator[tuple[PriorityClass, str]]:
    yield from ((system_class, "every cluster") for system_class in SYSTEM_CLASSES)
    yield from defined_classes(files)


def _class_line(item: PriorityClass, file: str) -> str:
    default = ", the default of pods without a class" if item.global_default else ""
    line = f"PriorityClass {item.name}: {item.value}, {item.preemption_policy}{default} ({cut(file, MAX_PATH_LENGTH)})"
    return cut(line, MAX_PATH_LENGTH + 1_000)
