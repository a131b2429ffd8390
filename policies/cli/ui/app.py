"""The Flask application of `forewarn ui`, and the data of a cluster that its pages show until it is read again."""

from __future__ import annotations

import json
import select
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from threading import Lock
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from flask import Flask, Response, abort, render_template, request
from markupsafe import Markup
from werkzeug.exceptions import HTTPException, UnprocessableEntity

from forewarn.policies.base.documents import to_dict
from forewarn.policies.cli.render.html.elements import Page, data, section, table, tiles
from forewarn.policies.cli.render.html.nodes import nodes
from forewarn.policies.cli.ui.processes import Processes, Unanswered
from forewarn.policies.cli.ui.questions import FORM, OTHERS, BadLink, CommandLine, command_line_of, links
from forewarn.policies.cli.ui.server import MAX_BYTES, PAGES, Access, protect
from forewarn.policies.kubernetes.objects.fields import NOTHING
from forewarn.policies.kubernetes.objects.priority_class import SYSTEM_PRIORITY_CLASS_PREFIX

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element


MAX_ANSWERS: Final = 16
MAX_STORED_BYTES: Final = 128 << 20


class Report(NamedTuple):
    """An answer: the title, the HTML inside `main`, the scripts of the page, and the JSON document."""

    title: str
    markup: str
    scripts: Sequence[str]
    document: str
    command: str = ""
    """The equivalent command, if it is longer than the one that the address gives; otherwise ""."""

    @property
    def size(self) -> int:
        """The approximate size in bytes."""
        return len(self.markup) + len(self.document)


class Answers:
    """The answers to recent questions. Thread-safe."""

    def __init__(self) -> None:
        self._reports: OrderedDict[CommandLine, Report] = OrderedDict()
        self._lock = Lock()

    def get(self, command_line: CommandLine) -> Report | None:
        """Return the report that answers a question; None if there is no recent one."""
        with self._lock:
            if command_line in self._reports:
                self._reports.move_to_end(command_line)
            return self._reports.get(command_line)

    def put(self, command_line: CommandLine, answer: dict[str, Any]) -> Report:
        """Store an answer of a process, and remove the oldest answers above the limits."""
        document = json.dumps(answer["document"], indent=1)
        report = Report(answer["title"], answer["markup"], answer["scripts"], document, answer.get("command", ""))
        with self._lock:
            self._reports[command_line] = report
            self._reports.move_to_end(command_line)
            while len(self._reports) > 1 and (
                len(self._reports) > MAX_ANSWERS or sum(item.size for item in self._reports.values()) > MAX_STORED_BYTES
            ):
                self._reports.popitem(last=False)
        return report


class Shown(NamedTuple):
    """The cluster of the pages, as JSON data. `source`: its description; `named`: the options that name it for a
    command; `head`: the head of all answers.
    """

    source: str
    counts: str
    named: Sequence[str]
    picture: dict[str, Any]
    document: dict[str, Any]
    classes: Sequence[tuple[str, int]]
    names: Mapping[str, Sequence[str]] = NOTHING
    """The suggestions for inputs: `zones`, `pools`, `nodes`, `pods` …"""
    head: str = ""
    totals: Mapping[str, str] = NOTHING
    levels: Sequence[Sequence[str | int]] = ()
    """The column heads and the rows of `forewarn classes`."""


@dataclass(frozen=True, slots=True)
class View:
    """A cluster with the answers to questions about it."""

    shown: Shown
    markup: Markup
    totals: Markup
    levels: Markup
    document: str
    answers: Answers = field(default_factory=Answers)


class Cluster:
    """The latest view. Safe from any thread."""

    def __init__(self, processes: Processes, shown: Shown) -> None:
        self._processes, self._lock, self._view = processes, Lock(), _view(shown)

    def view(self) -> View:
        return self._view

    def load(self, before: View) -> None:
        """Read the cluster again, unless another thread has done so since `before`. Raises Unanswered."""
        with self._lock:
            if self._view is before:
                self._view = _view(Shown(**self._processes.load()))


def markup_of(*parts: Any) -> Markup:
    return Markup(Page("", parts).markup())


def _changes(name: str) -> Element:
    of_class = {"change": "class", "name": name}
    return links(name, {"Delete": {**of_class, "delete": 1}, "Make global default": {**of_class, "default": 1}})


def _view(shown: Shown) -> View:
    counters = ((name, value, name == "Pending" and value[:2] != "0 ") for name, value in shown.totals.items())
    known = {name for name, _ in shown.classes if not name.startswith(SYSTEM_PRIORITY_CLASS_PREFIX)}
    heads, *of_classes = shown.levels or [()]
    rows = ((*row, _changes(str(row[0])) if row[0] in known else "-") for row in of_classes)
    columns = [*(str(head).lower() for head in heads), "simulate"]
    levels = table("PriorityClasses", columns, rows, len(of_classes))
    return View(
        shown,
        markup_of(nodes(shown.picture), data("nodes-data", shown.picture)),
        markup_of(tiles(counters)),
        markup_of(section("PriorityClasses", "levels", levels)),
        json.dumps(shown.document),
    )


class UiFault(NamedTuple):
    """The reason why `forewarn ui` has no answer."""

    error: str


QUESTION_SECONDS: Final = 600.0
PREDICTION_SECONDS: Final = 20.0
_SHIPPED: Final = {
    **dict.fromkeys(("page.css", "page.js", "tables.js", "rows.js"), "forewarn.policies.cli.render.html"),
    **dict.fromkeys(
        ("ui.css", "links.js", "predict.js", "whatif.js", "question.js"),
        "forewarn.policies.cli.ui.static",
    ),
}
_TYPES: Final = {"css": "text/css", "js": "text/javascript"}


def create_ui_app(cluster: Cluster, processes: Processes, access: Access) -> Flask:
    """The pages, their data and their scripts."""
    app = Flask("forewarn.policies.cli.ui", static_folder=None, template_folder="templates")
    app.config["MAX_CONTENT_LENGTH"] = MAX_BYTES
    app.jinja_env.trim_blocks = app.jinja_env.lstrip_blocks = True
    app.before_request(access.check)
    app.after_request(protect)
    pages, asked = _Pages(cluster, processes), f"<any(whatif, {', '.join(OTHERS)}):page>"
    views: dict[str, Callable[..., Response | str]] = {
        "/": pages.cluster,
        "/predict": pages.predict,
        f"/{asked}": pages.question,
        f"/events/{asked}": pages.events,
        "/api/cluster": pages.cluster_document,
        f"/api/{asked}": pages.document,
        "/static/<name>": shipped,
    }
    for path, view in views.items():
        app.add_url_rule(path, view.__name__, view, methods=["GET"])
    app.add_url_rule("/api/predict", "prediction", pages.prediction, methods=["POST"])
    app.add_url_rule("/api/reload", "reload", pages.reload, methods=["POST"])
    app.register_error_handler(HTTPException, _fault)
    app.register_error_handler(Unanswered, lambda fault: _fault(UnprocessableEntity(str(fault))))
    return app


def shipped(name: str) -> Response:
    """Return a script or a style; aborts with 404 for other names."""
    if name not in _SHIPPED:
        abort(404)
    return Response(files(_SHIPPED[name]).joinpath(name).read_text("utf-8"), mimetype=_TYPES[name.rpartition(".")[2]])


class _Pages:
    """The views of the application."""

    def __init__(self, cluster: Cluster, processes: Processes) -> None:
        self._cluster, self._processes = cluster, processes

    def cluster(self) -> str:
        """The form of questions, and the nodes and their Pods by PriorityClass."""
        view = self._cluster.view()
        return self._page("cluster", view, CommandLine("classes"), **_home(view))

    def predict(self) -> str:
        """A manifest, and its prediction."""
        picture = markup_of(nodes({"notDrawn": 0}))
        return self._page("predict", self._cluster.view(), scripts=("page.js", "predict.js"), picture=picture)

    def question(self, page: str) -> str:
        """A report, or the progress of the question."""
        view = self._cluster.view()
        try:
            asked = command_line_of(page, request.args)
        except BadLink as bad:
            return self._page(page, view, fault=str(bad), **_home(view))
        if not asked:
            return self._page(page, view, **_home(view))
        own: dict[str, Any] = {"scripts": ("question.js",)}
        if report := view.answers.get(asked):
            own = {"markup": Markup(report.markup), "title": report.title, "scripts": report.scripts}
        return self._page(page, view, asked, asked=asked, report=report, limit=int(QUESTION_SECONDS), **own)

    def events(self, page: str) -> Response:
        """Return the progress of a question as server-sent events; the last event is `done` or `failed`."""
        return Response(self._steps(_command_line(page)), mimetype="text/event-stream")

    def cluster_document(self) -> Response:
        return _json(self._cluster.view().document)

    def reload(self) -> Response:
        """Read the cluster again."""
        self._cluster.load(self._cluster.view())
        return _json("{}")

    def document(self, page: str) -> Response:
        """The document of the command that answers the question."""
        command_line, answers = _command_line(page), self._cluster.view().answers
        report = answers.get(command_line)
        if report is None:
            report = answers.put(command_line, self._answer(_question(command_line), QUESTION_SECONDS))
        return _json(report.document)

    def prediction(self) -> Response:
        """Return the prediction for a manifest, as JSON."""
        try:
            body = request.get_json()
        except RecursionError:
            abort(400, "the body is nested too deeply")
        manifest = body.get("manifest") if isinstance(body, dict) else None
        if not isinstance(manifest, str):
            abort(400, "the body must have a manifest")
        question = {"command": "predict", "manifest": manifest, "document": body.get("document") is True}
        return _json(json.dumps(self._answer(question, PREDICTION_SECONDS)))

    def _answer(self, question: dict[str, Any], seconds: float) -> Any:
        """Return the answer to a question. Aborts with status 422 if there is none, with 499 if the page has
        disconnected.
        """
        steps = self._processes.ask(question, seconds)
        try:
            for step in steps:
                if step.answer is not None:
                    return step.answer
                if _is_gone():
                    steps.close()
                    abort(Response(status=499))
        except Unanswered as fault:
            abort(422, str(fault))
        raise AssertionError("the last step has the answer")

    def _steps(self, command_line: CommandLine) -> Iterator[str]:
        try:
            answers = self._cluster.view().answers
            for step in self._processes.ask(_question(command_line), QUESTION_SECONDS):
                if step.answer is not None:
                    answers.put(command_line, step.answer)
                    yield _event("done", "")
                else:
                    yield _event("progress", step.progress) if step.progress else ":\n\n"
        except Unanswered as fault:
            yield _event("failed", str(fault))

    def _page(self, page: str, view: View, command: CommandLine | None = None, **more: Any) -> str:
        report = view.answers.get(command) if command else None
        line = (report and report.command) or (command.line(view.shown.named) if command else "")
        common = {"page": page, "pages": PAGES, "shown": view.shown, "command": line, "query": request.args}
        title = {**PAGES, "whatif": "Question"}[page]
        template = "predict" if page == "predict" else "question"
        return render_template(f"{template}.html", **common | FORM | {"title": title} | more)


def _home(view: View) -> dict[str, Any]:
    """Return the data of the home page: the cluster, in which users can select nodes for a question."""
    own = {"markup": view.markup, "totals": view.totals, "levels": view.levels}
    return {**own, "scripts": ("page.js", "whatif.js")}


def _command_line(page: str) -> CommandLine:
    try:
        command_line = command_line_of(page, request.args)
    except BadLink as bad:
        abort(400, str(bad))
    if command_line is None:
        abort(400, "the address has no question")
    return command_line


def _question(command_line: CommandLine) -> dict[str, Any]:
    command, words, text, query = command_line
    return {"command": command, "words": words, "text": text, "query": query}


def _is_gone() -> bool:
    """True if the page has closed its connection."""
    connection = request.environ.get("werkzeug.socket")
    if connection is None:
        return False
    try:
        poll = select.poll()  # select() takes no descriptors above 1023
        poll.register(connection, select.POLLIN)
        return bool(poll.poll(0)) and not connection.recv(1, 2)  # MSG_PEEK
    except OSError:
        return True


def _event(name: str, text: str) -> str:
    return f"event: {name}\ndata: {json.dumps(text)}\n\n"


def _json(text: str) -> Response:
    return Response(text, mimetype="application/json")


def _fault(error: HTTPException) -> Response:
    """Return an error as JSON for scripts, or as a page for people."""
    if error.response is not None:
        return Response(status=error.code or error.response.status_code)
    reason = error.description or error.name
    if request.path.startswith(("/api/", "/events/")):
        return Response(json.dumps(to_dict(UiFault(reason))), error.code, mimetype="application/json")
    return Response(render_template("error.html", reason=reason, name=error.name), error.code)
