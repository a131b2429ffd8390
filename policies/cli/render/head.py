"""The head of every answer about a cluster, in each output format."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from forewarn.policies.cli.render.table import text_of
from forewarn.policies.kubernetes.cluster.cache import AnswerHead, Origin


def line_of(head: AnswerHead) -> str:
    """Return the head as a line of text: `Input: a.json 2026-11-24 10:00Z, Kubernetes 1.36; no PriorityClasses`."""
    return "; ".join([f"Input: {input_text(head)}", *assumptions_of(head)])


def input_text(head: AnswerHead) -> str:
    """The names of the sources, their time and the release: `b.json 2026-06-09 23:59Z, Kubernetes 1.36 (assumed)`.

    Without a release, only the names. Names of versions (`main → change`) are complete; names of files omit
    directories.
    """
    origin, release = head.origin, f"Kubernetes {head.release}"
    time = origin.time[:16].replace("T", " ") + "Z" if origin.time else "at an unknown time"
    profile = "" if head.profile == "default-scheduler" else f", profile {head.profile}"
    assumed = " (assumed)" if release in head.assumes else ""
    sources = origin.cluster.split(", ")
    names = ", ".join(name if " → " in name else name.rstrip("/").rpartition("/")[2] for name in sources)
    if not head.release:
        return names
    return f"{names} {time}, {release}{assumed}{profile}"


def assumptions_of(head: AnswerHead) -> list[str]:
    """The assumptions of the answer, except the release."""
    return [clause for clause in head.assumes if clause != f"Kubernetes {head.release}"]


def insert_head(markdown: str, head: AnswerHead) -> str:
    """Return an answer as Markdown, with the head below the title and the sentence that follows it, if any."""
    parts = markdown.split("\n\n", 2)
    first = 2 if len(parts) > 2 and parts[1][:1] not in "|-#" else 1
    return "\n\n".join([*parts[:first], text_of(line_of(head)), *parts[first:]])


def merged(documents: Iterable[Any]) -> AnswerHead:
    """Return the head for several parts of an answer: the head of the first, with the assumptions of all. Raises
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
