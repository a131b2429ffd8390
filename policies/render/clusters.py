"""The report on several clusters: one table, the worst cluster first, then the report of each cluster."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from forewarn.policies.findings import cut, one_line, plural
from forewarn.policies.render.markdown import text_of
from forewarn.policies.render.openreports import as_list, of_cluster, without_answer
from forewarn.policies.render.table import markdown_table, page_table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

VERSION: Final = 1
"""Of the JSON document."""
MAX_RUNS: Final = 20
"""GitHub accepts no more runs in a SARIF file."""
_LONGEST: Final = 120
"""Characters of a cluster's name in a heading."""


class Outcome(NamedTuple):
    """The result for one cluster. `source`: a context or the path of a snapshot.

    `status`: the exit status for this cluster alone. `reason`: why there is no answer; empty if there is one. `rank`:
    numbers that are larger for a worse cluster. `cells`: its row without the name. `report`: text or JSON data.
    `messages`: lines for standard error.
    """

    name: str
    source: str
    status: int
    reason: str = ""
    rank: Sequence[int] = ()
    cells: Sequence[str | int] = ()
    report: Any = ""
    messages: Sequence[str] = ()


def worst_first(outcomes: Iterable[Outcome]) -> list[Outcome]:
    """Clusters without an answer first, then by rank, then by name."""
    return sorted(outcomes, key=lambda each: (not each.reason, [-number for number in each.rank], each.name))


def render(
    heads: Sequence[str], outcomes: Sequence[Outcome], paint: Callable[[str, str], str], clean: Callable[[str], str]
) -> Iterator[str]:
    """The text, line by line; reports are complete lines. `clean`: makes a line printable."""
    head, *rows = page_table(("CLUSTER", *heads), _rows(heads, outcomes))
    yield paint(head, "bold")
    for outcome, row in zip(outcomes, rows, strict=True):
        yield paint(clean(row), "error") if outcome.reason else clean(row)
    yield paint(verdict(outcomes), "warning" if any(each.status for each in outcomes) else "good")
    for outcome in outcomes:
        yield ""
        yield paint(clean(name_of(outcome)), "bold")
        if outcome.reason:
            yield clean(f"no answer: {outcome.reason}")
        else:
            yield str(outcome.report).removesuffix("\n") or "no findings"


def verdict(outcomes: Sequence[Outcome]) -> str:
    """The number of clusters, without an answer and with exit status 1, as one sentence."""
    unknown = sum(bool(each.reason) for each in outcomes)
    failed = sum(each.status == 1 and not each.reason for each in outcomes)
    parts = [plural(len(outcomes), "cluster")]
    parts += [f"{unknown} without an answer"] if unknown else []
    parts += [f"{failed} with exit status 1"] if failed else []
    return ", ".join(parts)


def name_of(outcome: Outcome) -> str:
    """The name of the cluster in a heading or message."""
    return cut(one_line(outcome.name[: 4 * _LONGEST]), _LONGEST)


def _rows(heads: Sequence[str], outcomes: Sequence[Outcome]) -> list[list[str | int]]:
    unknown: list[str | int] = ["-"] * (len(heads) - 1)
    return [
        [name_of(each), *unknown, f"no answer: {each.reason}"] if each.reason else [name_of(each), *each.cells]
        for each in outcomes
    ]


def markdown(command: str, heads: Sequence[str], outcomes: Sequence[Outcome]) -> str:
    """The same table, and the report of each cluster below its name."""
    lines = [f"## forewarn {command}: {verdict(outcomes)}", ""]
    lines += markdown_table([head.capitalize() for head in ("CLUSTER", *heads)], _rows(heads, outcomes))
    for each in outcomes:
        if not each.reason:
            lines += ["", f"## {text_of(name_of(each))}", "", str(each.report).strip("\n")]
    return "\n".join(lines) + "\n"


def as_dict(command: str, outcomes: Sequence[Outcome]) -> dict[str, Any]:
    """For programs."""
    return {"version": VERSION, "command": command, "clusters": [_cluster(each) for each in outcomes]}


def _cluster(outcome: Outcome) -> dict[str, Any]:
    answer = {"reason": outcome.reason} if outcome.reason else {"report": outcome.report}
    return {"cluster": outcome.name, "source": outcome.source, "status": outcome.status, **answer}


def sarif(outcomes: Sequence[Outcome], version: str) -> str:
    """One run for each cluster, the worst first. The id of the run contains the name of the cluster."""
    from forewarn.policies.render.sarif import SCHEMA  # imports all rules

    driver = {"driver": {"name": "forewarn", "semanticVersion": version}}
    runs, document = list[Any](), {"$schema": SCHEMA, "version": "2.1.0"}
    for each in outcomes:
        name = {"automationDetails": {"id": f"forewarn/{name_of(each)}/"}}
        if each.reason:
            parts = {"level": "error", "message": {"text": each.reason}}
            failed = {"executionSuccessful": False, "toolExecutionNotifications": [parts]}
            runs.append({"tool": driver, **name, "invocations": [failed], "results": []})
        else:
            runs += [{**run, **name} for run in each.report["runs"]]
    return json.dumps({**document, "runs": runs}, indent=1) + "\n"


def openreports(outcomes: Sequence[Outcome]) -> str:
    """A ClusterReport for each cluster."""
    return as_list(
        [
            of_cluster(without_answer(each.reason) if each.reason else each.report["items"][0], each.name)
            for each in outcomes
        ]
    )
