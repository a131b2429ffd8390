"""`forewarn lsp`: run the linter as a language server on standard input and output."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from functools import partial
from typing import TYPE_CHECKING, Final

from forewarn.policies import VERSION
from forewarn.policies.commands.parser import Parser
from forewarn.policies.config.model import ConfigError
from forewarn.policies.findings import Severity, cut, one_line
from forewarn.policies.terminal import columns, complain

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lsprotocol import types
    from pygls.lsp.server import LanguageServer

    from forewarn.policies.commands.editor import Checked, Workspace
    from forewarn.policies.evaluation.fixes import Edit
    from forewarn.policies.findings import Finding

PAUSE: Final = 0.2
"""Seconds without input after which a text is checked."""
_MAX: Final = 1_000
"""Maximum findings of one file."""
_LONGEST: Final = 2_000


def main(arguments: Sequence[str]) -> int:
    """Serve until the editor ends the session; returns the exit status."""
    parser = Parser(
        prog="forewarn lsp",
        formatter_class=partial(argparse.HelpFormatter, width=columns()),
        description="Run a Language Server Protocol server on standard input and output. Editors start this command.",
    )
    parser.add_argument(
        "--stdio", action="store_true", help="accepted for editors; the server always uses standard input and output"
    )
    parser.parse_args(arguments)
    try:
        server, session = _server()
    except ImportError as missing:
        return complain("lsp", f"{missing.name} is not installed: it comes with forewarn's extra `lsp`", 3)
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
        from forewarn.policies.commands.editor import Workspace

        self.workspace = Workspace(root)
        self.refresh()

    def refresh(self) -> None:
        """Reload files and configuration. Errors are shown in the editor; the defaults then apply."""
        from lsprotocol import types

        try:
            if self.workspace is not None:
                self.workspace.refresh()
        except ConfigError as fault:
            message = cut(one_line(str(fault)), _LONGEST)
            self.server.window_show_message(types.ShowMessageParams(types.MessageType.Error, message))

    def soon(self, uri: str) -> None:
        """Schedule the check of a text after PAUSE seconds without input."""
        self.forget(uri)
        self._waiting[uri] = asyncio.get_running_loop().call_later(PAUSE, self.publish, uri)

    def forget(self, uri: str) -> None:
        """Cancel the scheduled check of a text."""
        waiting = self._waiting.pop(uri, None)
        if waiting is not None:
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
        from lsprotocol import types

        self.forget(uri)
        checked = self.check(uri)
        if checked is None:
            return
        lines = checked.lines
        diagnostics = [self._diagnostic(finding, lines) for finding in checked.findings[:_MAX]]
        version = self.checked[uri][0]
        parameters = types.PublishDiagnosticsParams(uri=uri, diagnostics=diagnostics, version=version)
        self.server.text_document_publish_diagnostics(parameters)

    def publish_all(self) -> None:
        """Check all open documents again."""
        self.checked.clear()
        for uri in list(self.server.workspace.text_documents):
            self.publish(uri)

    def range_of(self, finding: Finding, lines: Sequence[str]) -> types.Range:
        """Return the range of a finding in the client's units (of characters)."""
        where = finding.location
        return self.span(where.line, where.column, where.end_column, lines)

    def span(self, line: int, start: int, end: int, lines: Sequence[str]) -> types.Range:
        """The range of a part of a line in the client's units. Arguments count from 1; `end` is exclusive."""
        from lsprotocol import types

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
        low, high = 0, len(text)
        while low < high:
            middle = (low + high + 1) // 2
            low, high = (middle, high) if units(text[:middle]) <= position.character else (low, middle - 1)
        return low + 1

    def _diagnostic(self, finding: Finding, lines: Sequence[str]) -> types.Diagnostic:
        from lsprotocol import types

        severities = {
            Severity.ERROR: types.DiagnosticSeverity.Error,
            Severity.WARNING: types.DiagnosticSeverity.Warning,
            Severity.NOTE: types.DiagnosticSeverity.Information,
        }
        message = f"{finding.message}\n{finding.remediation}" if finding.remediation else finding.message
        return types.Diagnostic(
            range=self.range_of(finding, lines),
            message="\n".join(one_line(part) for part in cut(message, _LONGEST).split("\n")),
            severity=severities[finding.severity],
            code=finding.rule,
            source="forewarn",
        )

    def action(self, uri: str, finding: Finding, edit: Edit, lines: Sequence[str]) -> types.CodeAction:
        """The code action for a fix of a finding."""
        from lsprotocol import types

        where = edit.location
        if edit.new is None:
            place = types.Range(types.Position(where.line - 1, 0), types.Position(where.line, 0))
        else:
            place = self.span(where.line, where.column, where.end_column, lines)
        change = types.WorkspaceEdit(changes={uri: [types.TextEdit(range=place, new_text=edit.new or "")]})
        return types.CodeAction(
            title=cut(one_line(edit.title), 200),
            kind=types.CodeActionKind.QuickFix,
            diagnostics=[self._diagnostic(finding, lines)],
            edit=change,
            is_preferred=edit.is_safe,
        )


def _register_end(server: LanguageServer, session: _Session) -> None:
    """Register shutdown and exit: by the protocol, the exit status is 1 for an exit without shutdown."""
    from lsprotocol import types

    @server.feature(types.SHUTDOWN)
    def shutdown(_: None) -> None:
        session.is_shut_down = True

    @server.feature(types.EXIT)
    def leave(_: None) -> None:
        session.exit_status = 0 if session.is_shut_down else 1


def _server() -> tuple[LanguageServer, _Session]:
    """The language server with its features registered. Raises ImportError."""
    from lsprotocol import types
    from pygls.lsp.server import LanguageServer

    from forewarn.policies.commands.editor import fixes_on, meaning

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

    @server.feature(types.TEXT_DOCUMENT_DID_SAVE)
    def did_save(_: types.DidSaveTextDocumentParams) -> None:
        session.refresh()
        session.publish_all()

    @server.feature(types.TEXT_DOCUMENT_DID_CLOSE)
    def did_close(params: types.DidCloseTextDocumentParams) -> None:
        uri = params.text_document.uri
        session.forget(uri)
        session.checked.pop(uri, None)
        server.text_document_publish_diagnostics(types.PublishDiagnosticsParams(uri=uri, diagnostics=[]))

    @server.feature(types.WORKSPACE_DID_CHANGE_WATCHED_FILES)
    def did_change_files(_: types.DidChangeWatchedFilesParams) -> None:
        session.refresh()
        session.publish_all()

    @server.feature(types.TEXT_DOCUMENT_HOVER)
    def hover(params: types.HoverParams) -> types.Hover | None:
        checked = session.check(params.text_document.uri)
        if checked is None:
            return None
        column = session.character(params.position, checked.lines)
        text = meaning(checked, params.position.line + 1, column)
        content = types.MarkupContent(kind=types.MarkupKind.PlainText, value=cut(text, _LONGEST))
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
        found = fixes_on(checked, params.range.start.line + 1, params.range.end.line + 1)
        return [session.action(uri, finding, edit, lines) for finding, edit in found[:_MAX]]

    return server, session
