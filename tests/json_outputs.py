"""Every JSON document that a test lets a command print fits its JSON Schema, and has no key that the schema lacks."""

from __future__ import annotations

import json
import sys
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from types import FrameType

    from jsonschema import Draft202012Validator

    from forewarn.policies.cli.commands.simulated import Question
    from forewarn.policies.questions.application.findings import Report

_SCHEMAS: Final[Mapping[str, str]] = {
    "forewarn.policies.cli.commands.cluster_command._print_rejected": "rejected",
    "forewarn.policies.cli.commands.diff": "diff",
    "forewarn.policies.cli.commands.explain": "explain",
    "forewarn.policies.cli.commands.info_node_groups": "info-node-groups",
    "forewarn.policies.cli.commands.info.releases": "info-releases",
    "forewarn.policies.cli.commands.info.scheduler": "info-scheduler",
    "forewarn.policies.cli.commands.many_clusters": "several-clusters",
    "forewarn.policies.cli.commands.merge._merge_sweep": "whatif-each",
    "forewarn.policies.cli.commands.whatif._evaluate_part": "whatif-each",
    "forewarn.policies.cli.commands.test": "test",
    "forewarn.webhook.commands.accuracy": "webhook-accuracy",
    "forewarn.webhook.commands.doctor": "webhook-doctor",
    "forewarn.webhook.commands.review": "webhook-review",
}
"""Module that prints, or a function of it -> the schema."""
_QUESTION: Final = "forewarn.policies.cli.commands.simulated.Question"
"""Prints the answers to questions; the schema has the name of the command."""
_RECORDED_FORMAT: Final = "tests.recorded.batch"
_MAX_SIZE: Final = 200_000
"""Characters of a document, beyond which a test need not wait for its validation."""


def check_outputs() -> None:
    """Validate what commands print in this process from now on."""
    from forewarn.policies.cli import terminal
    from forewarn.policies.cli.render import report

    written, written_report = terminal.as_json, report.as_json

    def as_json(value: object, indent: int | None = None) -> str:
        text = written(value, indent)
        frame = sys._getframe(1)
        while not (place := _printing({_RECORDED_FORMAT, _QUESTION, *_SCHEMAS}, frame)):
            assert frame.f_back is not None, "printed by no command"
            frame = frame.f_back
        if place != _RECORDED_FORMAT and len(text) <= _MAX_SIZE:
            asked = _schema_of(frame.f_locals["self"]) if place == _QUESTION else ""
            check(asked or _SCHEMAS[place], json.loads(text))
        return text

    def of_report(report: Report) -> Iterator[str]:
        parts, size = list[str](), 0
        for part in written_report(report):
            size += len(part)
            parts = [*parts, part] if size <= _MAX_SIZE else []
            yield part
        if size <= _MAX_SIZE:
            document = json.loads("".join(parts))
            check("lint", document)
            for finding in document["findings"]:
                if "detail" in finding and "." not in finding["rule"]:  # not of another package
                    check("lint", finding["detail"], "ReportedFinding", "detail")

    terminal.as_json = as_json
    report.as_json = of_report


def _schema_of(question: Question) -> str:
    return "whatif-each" if question.what == "cases" else question.command.replace(" ", "-")


def _printing(known: set[str], frame: FrameType) -> str:
    """The module of a frame, or its function at the top of the module, if it is known; otherwise ""."""
    module = str(frame.f_globals["__name__"])
    function = f"{module}.{frame.f_code.co_qualname.partition('.')[0]}"
    return next((place for place in (module, function) if place in known), "")


FAULTS: Final[list[str]] = []
"""What did not fit since the test began: a command would report an exception as its own."""


def check(name: str, document: Any, part: str = "", key: str = "") -> None:
    """Add to FAULTS why a document, or a part of one, does not fit its schema."""
    for fault in validator(name, part, key).iter_errors(document):
        FAULTS.append(f"{name} {part} {fault.json_path}: {fault.message}"[:500])


@cache
def validator(name: str, part: str = "", key: str = "", closed: bool = True) -> Draft202012Validator:
    """The validator of a document, of one of its types, or of a key of that type. `closed`: other keys are faults."""
    from jsonschema import Draft202012Validator

    sys.path.append(str(Path(__file__).parent.parent / "docs"))
    from json_schemas import schema_of  # type: ignore[import-not-found]

    schema = schema_of(name, closed=closed)
    if part:
        there = schema["$defs"][part]
        told = {"anyOf": there["properties"][key]["anyOf"][:-1]} if key else there  # without any other object
        schema = {**told, "$defs": schema["$defs"]}
    return Draft202012Validator(schema)
