"""The page "Accuracy and warnings" of the webhook: recent decisions, and predictions against what happened."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from flask import Response, abort, render_template, request

from forewarn.policies.render.html.elements import display_text
from forewarn.webhook.accuracy import headlines

if TYPE_CHECKING:
    from collections.abc import Mapping

Recent = Callable[[], Any]
"""Returns the decisions, newest first, and the accuracy, as JSON data."""
Readable = Callable[[list[dict[str, Any]]], tuple[list[dict[str, Any]], bool]]
"""Returns the decisions that the user of the request may read, and whether all permissions were reviewed."""
TITLE: Final = "Accuracy and warnings"
COMMAND: Final = "kubectl -n forewarn exec deploy/forewarn -- forewarn webhook accuracy"
_FILTERS: Final = ("verdict", "namespace", "text")
_VERDICTS: Final = ("denied", "warned", "patched", "allowed", "admitted")
_LONGEST: Final = 253


class Warnings:
    """The views of the page. `pages`: the pages that the user of the request may open."""

    def __init__(self, recent: Recent, readable: Readable, pages: Callable[[], Mapping[str, str]]) -> None:
        self._recent, self._readable, self._pages = recent, readable, pages

    def page(self) -> str:
        """The page. A user who may not read the whole cluster sees no accuracy, because its examples name Pods."""
        found, pages = self._found(), self._pages()
        rows = [
            {
                **{key: _clean(value) for key, value in row.items()},
                "at": f"{datetime.fromtimestamp(row['at'], UTC):%Y-%m-%d %H:%M:%S}",
            }
            for row in found["decisions"]
        ]
        return render_template(
            "warnings.html",
            page="warnings",
            pages=pages,
            title=TITLE,
            rows=rows,
            accuracy=_clean(found["accuracy"]),
            headlines=_clean(list(headlines(found["accuracy"]))) if found["accuracy"] else (),
            is_complete=found["complete"],
            query=_query(),
            verdicts=_VERDICTS,
            command=COMMAND,
            scripts=("page.js",),
        )

    def document(self) -> Response:
        """The decisions and the accuracy that the user may read."""
        return Response(json.dumps(self._found()), mimetype="application/json")

    def _found(self) -> dict[str, Any]:
        table = self._recent()
        query = _query()
        chosen = [row for row in table["decisions"] if query["namespace"] in ("", row["namespace"])]
        decisions, is_complete = self._readable(chosen)
        sees_all = "cluster" in self._pages()
        return {
            "decisions": [row for row in decisions if _matches(row, query)],
            "complete": is_complete,
            "accuracy": table["accuracy"] if sees_all else None,
        }


def _query() -> dict[str, str]:
    query = {key: request.args.get(key, "").strip() for key in _FILTERS}
    if any(len(value) > _LONGEST for value in query.values()):
        abort(400, "a filter is too long")
    return query


def _matches(row: Mapping[str, Any], query: Mapping[str, str]) -> bool:
    if query["verdict"] not in ("", row["verdict"]):
        return False
    texts = (row["kind"], row["name"], row["user"] or "", *row["rules"], *row["messages"], *row["withheld"])
    return any(query["text"].lower() in text.lower() for text in texts)


def _clean(value: Any) -> Any:
    """The value, its texts without characters that change other text."""
    if isinstance(value, str):
        return display_text(value)
    if isinstance(value, dict):
        return {_clean(key): _clean(each) for key, each in value.items()}
    return [_clean(each) for each in value] if isinstance(value, list) else value
