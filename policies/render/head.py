"""The head of every answer about a cluster as JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from forewarn.policies.cluster.answer_head import AnswerHead
from forewarn.policies.cluster.origin import Origin

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from forewarn.policies.render.documents.head import Head


def as_dict(head: AnswerHead) -> Head:
    """Return the head as a JSON object."""
    origin = head.origin
    return {
        "cluster": origin.cluster,
        "time": origin.time,
        "timeOf": "read" if origin.is_read else "newest object" if origin.time else "",
        "release": head.release,
        "profile": head.profile,
        "assumes": list(head.assumes),
    }


def headed(document: Mapping[str, Any], head: AnswerHead) -> dict[str, Any]:
    """Return a JSON object with the head as its first key."""
    return {"head": as_dict(head), **document}


def merged(documents: Iterable[Any]) -> AnswerHead:
    """Return the head of several parts of an answer: that of the first, with the assumptions of all. Raises
    ValueError for input that `headed` did not write.
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
