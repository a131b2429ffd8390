"""`forewarn lsp` as an editor sees it: pygls' client of a server in this process; start and end of the command."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from lsprotocol import types
from pygls.lsp.client import LanguageClient

from forewarn.policies.cli.commands import lsp

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

ROOT = Path(__file__).resolve().parents[3]
CLASS = "apiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata: {name: gold-class}\nvalue: 1000\n"
POD = """apiVersion: v1
kind: Pod
metadata: {name: web, namespace: shop}
spec:
  priorityClassName: gold-clas
  containers: [{name: c, image: c}]
"""

pytestmark = pytest.mark.filterwarnings(
    "ignore::pytest.PytestUnraisableExceptionWarning", "ignore::ResourceWarning", "ignore::DeprecationWarning"
)


def _serve(listener: socket.socket) -> None:
    """Serve one client in this process, as `forewarn lsp` does on standard input and output."""
    connection, _ = listener.accept()
    with connection, connection.makefile("rb") as requests, connection.makefile("wb") as answers:
        lsp._server()[0].start_io(requests, answers)


async def _with_server(root: Path, encoding: types.PositionEncodingKind, act: Callable[[Any], Awaitable[None]]) -> None:
    client = LanguageClient("test", "1")
    told: asyncio.Queue[types.PublishDiagnosticsParams] = asyncio.Queue()
    shown: asyncio.Queue[str] = asyncio.Queue()

    @client.feature(types.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)  # type: ignore[untyped-decorator]
    def got(params: types.PublishDiagnosticsParams) -> None:
        told.put_nowait(params)

    @client.feature(types.WINDOW_SHOW_MESSAGE)  # type: ignore[untyped-decorator]
    def show(params: types.ShowMessageParams) -> None:
        shown.put_nowait(params.message)

    listener = socket.create_server(("127.0.0.1", 0))
    server = asyncio.create_task(asyncio.to_thread(_serve, listener))
    await client.start_tcp(*listener.getsockname())
    general = types.GeneralClientCapabilities(position_encodings=[encoding])
    await client.initialize_async(
        types.InitializeParams(
            capabilities=types.ClientCapabilities(general=general), root_uri=root.as_uri(), process_id=os.getpid()
        )
    )
    client.initialized(types.InitializedParams())
    client.told, client.shown = told, shown  # type: ignore[attr-defined]
    try:
        await act(client)
    finally:
        await client.shutdown_async(None)
        client.exit(None)
        await client.stop()  # type: ignore[no-untyped-call]
        await server
        listener.close()


def _run(
    root: Path,
    act: Callable[[Any], Awaitable[None]],
    encoding: types.PositionEncodingKind = types.PositionEncodingKind.Utf16,
) -> None:
    with contextlib.chdir(root):
        asyncio.run(asyncio.wait_for(_with_server(root, encoding, act), 120))


def _open(client: Any, path: Path, text: str) -> str:
    uri = path.as_uri()
    item = types.TextDocumentItem(uri=uri, language_id="yaml", version=1, text=text)
    client.text_document_did_open(types.DidOpenTextDocumentParams(text_document=item))
    return uri


def _change(client: Any, uri: str, version: int, text: str) -> None:
    whole = types.TextDocumentContentChangeWholeDocument(text=text)
    document = types.VersionedTextDocumentIdentifier(uri=uri, version=version)
    client.text_document_did_change(types.DidChangeTextDocumentParams(text_document=document, content_changes=[whole]))


def _here(uri: str, line: int, character: int) -> dict[str, Any]:
    return {
        "text_document": types.TextDocumentIdentifier(uri=uri),
        "position": types.Position(line=line, character=character),
    }


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    (tmp_path / ".git").mkdir()
    (tmp_path / "classes.yaml").write_text(CLASS)
    return tmp_path


@pytest.mark.parametrize(("methods", "status"), [(("shutdown", "exit"), 0), (("exit",), 1), (("shutdown",), 0)])
def test_the_exit_status_is_0_after_shutdown_and_nothing_is_on_standard_error(
    methods: tuple[str, ...], status: int
) -> None:
    start: list[dict[str, Any]] = [
        {"id": 1, "method": "initialize", "params": {"processId": None, "rootUri": None, "capabilities": {}}},
        {"method": "initialized", "params": {}},
    ]
    end = [{"method": method, **({"id": 2} if method == "shutdown" else {})} for method in methods]
    sent = b""
    for message in (*start, *end):
        body = json.dumps({"jsonrpc": "2.0", **message}).encode()
        sent += b"Content-Length: %d\r\n\r\n%b" % (len(body), body)
    done = subprocess.run(
        [sys.executable, "-m", "forewarn", "lsp"],
        input=sent,
        cwd=ROOT,
        capture_output=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stderr) == (status, b"")
    assert (b'"id": 2' in done.stdout) == ("shutdown" in methods)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_server_while_standard_input_is_open(number: signal.Signals) -> None:
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "unknown"}).encode()
    with subprocess.Popen(
        [sys.executable, "-m", "forewarn", "lsp"], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        server.stdin.write(b"Content-Length: %d\r\n\r\n%b" % (len(body), body))
        server.stdin.flush()
        assert server.stdout.read(14) == b"Content-Length"
        server.send_signal(number)
        assert server.wait(timeout=30) == -number


def test_findings_come_and_go_while_somebody_types(tree: Path) -> None:
    async def act(client: Any) -> None:
        uri = _open(client, tree / "pod.yaml", POD)
        said = await client.told.get()
        assert (said.uri, said.version) == (uri, 1)
        (diagnostic,) = [d for d in said.diagnostics if d.code == "unknown-priority-class"]
        assert diagnostic.source == "forewarn"
        assert diagnostic.range == types.Range(types.Position(4, 21), types.Position(4, 30))
        _change(client, uri, 2, POD.replace("gold-clas", "gold-class"))
        said = await client.told.get()
        assert (said.version, [d.code for d in said.diagnostics]) == (2, [])
        _change(client, uri, 3, "a: [}\n")
        said = await client.told.get()
        assert [d.code for d in said.diagnostics] == ["parse-error"]
        client.text_document_did_close(types.DidCloseTextDocumentParams(types.TextDocumentIdentifier(uri)))
        assert not (await client.told.get()).diagnostics

    _run(tree, act)


def test_a_misspelt_class_has_a_quick_fix(tree: Path) -> None:
    async def act(client: Any) -> None:
        uri = _open(client, tree / "pod.yaml", POD)
        said = await client.told.get()
        context = types.CodeActionContext(diagnostics=said.diagnostics)
        where = types.Range(types.Position(4, 22), types.Position(4, 22))
        params = types.CodeActionParams(types.TextDocumentIdentifier(uri), where, context)
        (action,) = await client.text_document_code_action_async(params)
        (edit,) = action.edit.changes[uri]
        assert (action.kind, edit.new_text) == (types.CodeActionKind.QuickFix, "gold-class")
        assert edit.range == types.Range(types.Position(4, 21), types.Position(4, 30))

    _run(tree, act)


def test_hovering_tells_what_a_class_is_and_which_rule_objects(tree: Path) -> None:
    async def act(client: Any) -> None:
        uri = _open(client, tree / "pod.yaml", POD.replace("gold-clas", "gold-class"))
        await client.told.get()
        hover = await client.text_document_hover_async(types.HoverParams(**_here(uri, 4, 23)))
        assert "PriorityClass gold-class: 1000, PreemptLowerPriority (./classes.yaml)" in hover.contents.value
        assert await client.text_document_hover_async(types.HoverParams(**_here(uri, 0, 0))) is None
        assert await client.text_document_hover_async(types.HoverParams(**_here(uri, 99, 0))) is None
        _change(client, uri, 2, POD)
        await client.told.get()
        hover = await client.text_document_hover_async(types.HoverParams(**_here(uri, 4, 23)))
        assert "unknown-priority-class" in hover.contents.value

    _run(tree, act)


def _pod(value: str) -> str:
    return POD.replace(" gold-clas", value)


SPARE = "system-cluster-critical", "system-node-critical"


COMPLETED: list[tuple[str, tuple[str, ...], str | None]] = [
    ("  priorityClassName: go|", ("gold-class", "7", *SPARE), "  priorityClassName: gold-class"),
    ("  priorityClassName: |", ("7", "gold-class", *SPARE), '  priorityClassName: "7"'),
    ("  priorityClassName:|", ("7", "gold-class", *SPARE), '  priorityClassName: "7"'),
    ("  priorityClassName: 's|ystem' # x", (*SPARE, "7", "gold-class"), f"  priorityClassName: '{SPARE[0]}' # x"),
    ("  {hostname: '😀', priorityClassName: gol|d-clas,", ("gold-class", "7", *SPARE), None),
    ("  priority|ClassName: gold", (), None),
    ("  hostname: go|", (), None),
    ("|", (), None),
    ("  priorityClassName: " + "a" * 20_000 + "|", (), None),
]
"""Line with a cursor, offered names, and the line with the first of them."""


def test_class_names_are_completed(tree: Path) -> None:
    """The name is replaced as a whole, whatever stands around it while the user types."""
    (tree / "more.yaml").write_text(
        "---\n".join(CLASS.replace("gold-class", name) for name in ('"7"', '"a\\nb"', "gold-class", "a/../b"))
    )

    async def act(client: Any) -> None:
        for number, (line, names, text) in enumerate(COMPLETED):
            written = line.replace("|", "")
            document = POD.replace("  priorityClassName: gold-clas", written)
            uri = _open(client, tree / f"pod-{number}.yaml", document)
            place = _here(uri, 4, len(line[: line.index("|")].encode("utf-16-le")) // 2)
            found = await client.text_document_completion_async(types.CompletionParams(**place))
            assert tuple(item.label for item in (found.items if found else ())) == names, line
            if text is not None:
                edit = found.items[0].text_edit
                start, end = edit.range.start.character, edit.range.end.character
                assert written[:start] + edit.new_text + written[end:] == text

    _run(tree, act)


def test_the_completion_of_many_classes_is_limited_to_the_nearest(tree: Path) -> None:
    (tree / "more.yaml").write_text("---\n".join(CLASS.replace("gold", f"c{number}") for number in range(1_100)))

    async def act(client: Any) -> None:
        uri = _open(client, tree / "pod.yaml", _pod(" gold"))
        found = await client.text_document_completion_async(types.CompletionParams(**_here(uri, 4, 23)))
        assert (found.is_incomplete, len(found.items), found.items[0].label) == (True, 1_000, "gold-class")

    _run(tree, act)


def test_a_class_name_leads_to_its_definitions(tree: Path) -> None:
    (tree / "more.yaml").write_text(
        "# 😀\n---\n{apiVersion: scheduling.k8s.io/v1, description: '😀', "
        "kind: PriorityClass, value: 2, metadata: {name: gold-class}}\n"
    )

    async def act(client: Any) -> None:
        pod, pod_text = tree / "pod.yaml", _pod(" gold-class").replace("web", "gold-class") + "---\n" + CLASS
        uri = _open(client, pod, pod_text)

        async def leads(line: int, character: int) -> list[str]:
            params = types.DefinitionParams(**_here(uri, line, character))
            places = []
            for place in await client.text_document_definition_async(params) or []:
                file = tree / Path(place.uri).name
                text = pod_text if file == pod else file.read_text()
                units = text.split("\n")[place.range.start.line].encode("utf-16-le")
                span = slice(place.range.start.character * 2, place.range.end.character * 2)
                places.append(f"{file.name}:{place.range.start.line + 1}: {units[span].decode('utf-16-le')}")
            return sorted(places)

        expected = ["classes.yaml:3: gold-class", "more.yaml:3: gold-class", "pod.yaml:10: gold-class"]
        assert await leads(4, 25) == expected
        assert await leads(2, 18) == [], "the name of a Pod"
        _change(client, uri, 2, _pod(" system-node-critical"))
        await client.told.get()
        assert await leads(4, 25) == [], "no file defines a system class"
        assert await leads(400, 1) == []

    _run(tree, act)


@pytest.mark.parametrize(
    ("encoding", "codec", "width"),
    [(types.PositionEncodingKind.Utf16, "utf-16-le", 2), (types.PositionEncodingKind.Utf8, "utf-8", 1)],
)
def test_columns_are_counted_as_the_editor_counts(
    tree: Path, encoding: types.PositionEncodingKind, codec: str, width: int
) -> None:
    spec = "spec: {hostname: '\U0001f600', priorityClassName: gold-clas,\n"
    text = POD.replace("spec:\n  priorityClassName: gold-clas\n", spec)
    text = text.replace("c}]\n", "c}]}\n")

    async def act(client: Any) -> None:
        _open(client, tree / "pod.yaml", text)
        (diagnostic,) = [d for d in (await client.told.get()).diagnostics if d.code == "unknown-priority-class"]
        line = text.split("\n")[diagnostic.range.start.line]
        before = line[: line.index("gold-clas")].encode(codec)
        assert diagnostic.range.start.character == len(before) // width

    _run(tree, act, encoding)


def test_what_is_saved_elsewhere_counts(tree: Path) -> None:
    async def act(client: Any) -> None:
        uri = _open(client, tree / "pod.yaml", POD)
        await client.told.get()
        (tree / "classes.yaml").write_text(CLASS.replace("gold-class", "gold-clas"))
        client.text_document_did_save(types.DidSaveTextDocumentParams(types.TextDocumentIdentifier(uri)))
        assert not (await client.told.get()).diagnostics

    _run(tree, act)


def test_a_configuration_that_cannot_be_read_is_shown_and_ends_nothing(tree: Path) -> None:
    (tree / ".forewarn.yaml").write_text("nonsense: true\n")

    async def act(client: Any) -> None:
        assert "nonsense" in await client.shown.get()
        _open(client, tree / "pod.yaml", "a: [}\n")
        assert [d.code for d in (await client.told.get()).diagnostics] == ["parse-error"]

    _run(tree, act)
