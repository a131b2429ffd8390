"""The Flask application of `forewarn ui`."""

from __future__ import annotations

import json
import select
from collections.abc import Callable, Iterator
from importlib.resources import files
from typing import Any, Final, NamedTuple

from flask import Flask, Response, abort, render_template, request
from markupsafe import Markup
from werkzeug.exceptions import HTTPException, UnprocessableEntity

from forewarn.policies.base.documents import to_dict
from forewarn.policies.cli.render.html.nodes import nodes
from forewarn.policies.cli.ui.access import MAX_BYTES, PAGES, Access, protect
from forewarn.policies.cli.ui.processes import Processes, Unanswered
from forewarn.policies.cli.ui.questions import FORM, OTHERS, BadLink, CommandLine, command_line_of
from forewarn.policies.cli.ui.shown import Cluster, View, markup_of


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
    """The cluster, of which nodes can be selected for a question."""
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
    return {"command": command_line.answer, "change": command_line.change, "fields": dict(command_line.fields)}


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
