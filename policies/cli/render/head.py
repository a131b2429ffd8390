"""The head of every answer about a cluster, in each output format."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from forewarn.policies.cli.render.table import text_of
from forewarn.policies.kubernetes.cluster.cache import AnswerHead, Origin


def line_of(head: AnswerHead) -> str:
    """Return the head as a line of text: `cluster: a.json at 2026-11-24T10:00:00Z, Kubernetes 1.36, profile …`."""
    return "; ".join(_clauses(head))


def _clauses(head: AnswerHead) -> Iterator[str]:
    origin = head.origin
    time = f"{origin.time}{'' if origin.is_read else ' (newest object)'}" if origin.time else "an unknown time"
    release = f"Kubernetes {head.release}"
    is_assumed = release in head.assumes
    yield f"cluster: {origin.cluster} at {time}, {release}{' (assumed)' if is_assumed else ''}, profile {head.profile}"
    for number, clause in enumerate(clause for clause in head.assumes if clause != release):
        yield clause if number else f"assumes: {clause}"


def below_title(markdown: str, head: AnswerHead) -> str:
    """Return an answer as Markdown, with the head below the title and the sentence that follows it, if any."""
    parts = markdown.split("\n\n", 2)
    first = 2 if len(parts) > 2 and parts[1][:1] not in "|-#" else 1
    return "\n\n".join([*parts[:first], text_of(line_of(head)), *parts[first:]])


def merged(documents: Iterable[Any]) -> AnswerHead:
    """Return the head of several parts of an answer: that of the first, with the assumptions of all. Raises
    ValueError for input without a head.
    """
    heads = [_from_dict(document) for document in documents]
    assumes = dict.fromkeys(clause for head in heads for clause in head.assumes)
    first = heads[0]
    return AnswerHead(first.origin, first.release, first.profile, tuple(assumes))


def _from_dict(document: Any) -> AnswerHead:
    head: Any = document.get("head") if isinstance(document, dict) else None
    head = head if isinstance(head, dict) else {}
    cluster, time, release, profile = texts = [head.get(key, 0) for key in ("cluster", "time", "release", "profile")]
    assumes: Any = head.get("assumes")
    if not isinstance(assumes, list) or not all(isinstance(text, str) for text in (*texts, *assumes)):
        raise ValueError("it has no head: written by another version of forewarn")
    return AnswerHead(Origin(cluster, time, head.get("timeOf") == "read"), release, profile, tuple(assumes))
