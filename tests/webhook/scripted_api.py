"""An API server that plays what it is told: pages, bookmarks, errors, hangs, cut streams, garbage."""

from __future__ import annotations

import json
from collections import defaultdict, deque
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from queue import Queue
from threading import Condition, Event, Lock, Thread
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, urlsplit

from forewarn.policies.kubernetes.kinds.registry import KINDS, OPTIONAL, KindSpec
from forewarn.webhook.apiserver.client import ApiServer, Timeouts, connect

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from email.message import Message
    from pathlib import Path
    from ssl import SSLContext

Obj = dict[str, Any]
BY_NAME = {resource.plural: resource for resource in (*KINDS, *OPTIONAL)}
QUICK = Timeouts(connect=5, read=5, total=5)


@dataclass
class Stream:
    """A watch that is open: lines to send; None ends it in order, an exception cuts it."""

    query: dict[str, str]
    lines: Queue[bytes | Exception | None] = field(default_factory=Queue)

    def send(self, type_: str, obj: Obj) -> None:
        self.lines.put(json.dumps({"type": type_, "object": obj}).encode() + b"\n")

    def bookmark(self, version: str) -> None:
        self.send("BOOKMARK", {"metadata": {"resourceVersion": version}})

    def error(self, code: int) -> None:
        self.send("ERROR", {"kind": "Status", "code": code, "message": "too old resource version"})

    def end(self) -> None:
        self.lines.put(None)

    def cut(self) -> None:
        self.lines.put(ConnectionAbortedError())


class Handler(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: Server

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        query = dict(parse_qsl(parts.query))
        api = self.server.api
        name = parts.path.rsplit("/", 1)[-1]
        verb = "watch" if "watch" in query else "list"
        if (route := api.routes.get(("GET", parts.path))) is not None:
            api.requests.append(("get", parts.path, query, self.headers))
            route(self)
            return
        with api.lock:
            api.requests.append((verb, name, query, self.headers))
            scripted = api.scripts[verb, name].popleft() if api.scripts[verb, name] else api.always.get((verb, name))
        if scripted is not None:
            scripted(self)
        elif verb == "watch":
            self.play(api.opened(name, query))
        elif name not in BY_NAME:
            api.reject(404, "the server could not find the requested resource")(self)
        else:
            self.answer(200, api.page(BY_NAME[name], query))

    def do_POST(self) -> None:
        parts = urlsplit(self.path)
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        api = self.server.api
        api.requests.append(("post", parts.path, dict(parse_qsl(parts.query)), self.headers))
        api.posted.append((parts.path, body))
        api.routes.get(("POST", parts.path), api.reject(404, "no such path"))(self)

    def do_PATCH(self) -> None:
        self.server.api.requests.append(("patch", self.path, {}, self.headers))
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.answer(200, {"patched": body})

    def answer(self, status: int, obj: object, **headers: str) -> None:
        body = obj if isinstance(obj, bytes) else json.dumps(obj).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        for key, value in headers.items():
            self.send_header(key.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(body)

    def start_chunks(self) -> None:
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        self.wfile.flush()

    def chunk(self, data: bytes) -> None:
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        self.wfile.flush()

    def play(self, stream: Stream) -> None:
        self.start_chunks()
        while (line := stream.lines.get()) is not None:
            if isinstance(line, Exception):
                self.close_connection = True
                return
            self.chunk(line)
        self.wfile.write(b"0\r\n\r\n")

    def log_message(self, *_: object) -> None:
        """Nobody reads it."""


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64
    api: ScriptedApi

    def handle_error(self, request: object, client_address: object) -> None:
        """Clients go away; that is what is tested."""


class ScriptedApi:
    """The objects of a cluster, and what is played instead of listing or watching them."""

    def __init__(self) -> None:
        self.lock = Lock()
        self.changed = Condition()
        self.objects: dict[str, dict[tuple[str, str], Obj]] = defaultdict(dict)
        self.version = 100
        self.requests: list[tuple[str, str, dict[str, str], Message]] = []
        self.scripts: dict[tuple[str, str], deque[Callable[[Handler], None]]] = defaultdict(deque)
        self.always: dict[tuple[str, str], Callable[[Handler], None]] = {}
        """Verb and kind -> what is played instead of the ordinary answers, as long as it is here."""
        self.routes: dict[tuple[str, str], Callable[[Handler], None]] = {}
        """Method and path -> what is played, always; for what is no list of a watched kind."""
        self.posted: list[tuple[str, Any]] = []
        self.streams: dict[str, list[Stream]] = defaultdict(list)
        self.released = Event()
        self.url = ""

    def put(self, obj: Obj) -> Obj:
        """Store an object without telling anybody."""
        name = next(r.plural for r in BY_NAME.values() if (r.api_version, r.kind) == (obj["apiVersion"], obj["kind"]))
        self.version += 1
        stored = {**obj, "metadata": {**obj["metadata"], "resourceVersion": str(self.version)}}
        self.objects[name][obj["metadata"].get("namespace", ""), obj["metadata"]["name"]] = stored
        return stored

    def script(self, verb: str, name: str, *plays: Callable[[Handler], None]) -> None:
        """Play these, one a request, before the ordinary answers."""
        self.scripts[verb, name].extend(plays)

    def reject(self, status: int, message: str = "no", **headers: str) -> Callable[[Handler], None]:
        body = {"kind": "Status", "code": status, "message": message}
        return lambda handler: handler.answer(status, body, **headers)

    def hang(self, handler: Handler) -> None:
        """Neither an answer nor an end."""
        handler.close_connection = True
        self.released.wait(20)

    def page(self, resource: KindSpec, query: dict[str, str]) -> Obj:
        stored = [obj for _, obj in sorted(self.objects[resource.plural].items())]
        start, limit = int(query.get("continue", "0")), int(query.get("limit", "0")) or len(stored) + 1
        items = [{k: v for k, v in obj.items() if k not in ("kind", "apiVersion")} for obj in stored]
        metadata: Obj = {"resourceVersion": str(self.version)}
        if start + limit < len(items):
            metadata |= {"continue": str(start + limit), "remainingItemCount": len(items) - start - limit}
        kind = f"{resource.kind}List"
        return {
            "kind": kind,
            "apiVersion": resource.api_version,
            "metadata": metadata,
            "items": items[start:][:limit],
        }

    def opened(self, name: str, query: dict[str, str]) -> Stream:
        stream = Stream(query)
        with self.changed:
            self.streams[name].append(stream)
            self.changed.notify_all()
        return stream

    def stream(self, name: str, number: int = 0) -> Stream:
        """The watch of a kind that was opened as the n-th, as soon as it is."""
        with self.changed:
            assert self.changed.wait_for(lambda: len(self.streams[name]) > number, 60)
        return self.streams[name][number]

    def asked(self, verb: str, name: str) -> list[dict[str, str]]:
        """The queries of these requests."""
        with self.lock:
            return [query for v, n, query, _ in self.requests if (v, n) == (verb, name)]


@contextmanager
def scripted_api(tls: SSLContext | None = None) -> Iterator[ScriptedApi]:
    api = ScriptedApi()
    server = Server(("127.0.0.1", 0), Handler)
    server.api = api
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    api.url = f"{'https' if tls else 'http'}://127.0.0.1:{server.server_address[1]}"
    thread = Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield api
    finally:
        api.released.set()
        for streams in api.streams.values():
            for stream in streams:
                stream.end()
        server.shutdown()
        server.server_close()
        thread.join()


def kubeconfig(path: Path, url: str, user: Obj | None = None, cluster: Mapping[str, Any] | None = None) -> Path:
    """A kubeconfig with the contexts `here` (current) and `there` (nobody answers)."""
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "here",
        "clusters": [
            {"name": "c", "cluster": {"server": url, **(cluster or {})}},
            {"name": "d", "cluster": {"server": "http://127.0.0.1:1"}},
        ],
        "users": [{"name": "u", "user": user if user is not None else {"token": "secret"}}],
        "contexts": [
            {"name": "here", "context": {"cluster": "c", "user": "u"}},
            {"name": "there", "context": {"cluster": "d", "user": "u"}},
        ],
    }
    path.write_text(json.dumps(document))
    return path


def client(timeouts: Timeouts = QUICK) -> ApiServer:
    """By the kubeconfig that KUBECONFIG names."""
    return ApiServer(connect, timeouts)
