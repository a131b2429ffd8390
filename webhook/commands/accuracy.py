"""`forewarn webhook accuracy`: compare the predictions of a running webhook with kube-scheduler's decisions."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from forewarn.policies.base.findings import cut, printable
from forewarn.policies.cli.commands.cluster_command import add_output_option
from forewarn.policies.cli.commands.parser import Parser, integer_between
from forewarn.policies.cli.terminal import complain
from forewarn.policies.inputs.sources.files import reason
from forewarn.webhook.accuracy import path_of, request_table
from forewarn.webhook.workload_accuracy import DIFFERING, EXAMPLES, RESULTS, UNKNOWN, WORKLOAD_RESULTS, headlines

PORT: Final = 8080
FAILED: Final = 3
_CLIPPED: Final = 600
_DESCRIPTION: Final = (
    "Compare the predictions of a replica of the webhook, since its start, with what happened. Run the command in the "
    "Pod of the replica, with kubectl exec."
)
_EXAMPLES: Final = ("webhook accuracy", "webhook accuracy --health-port 9090 -o json")


_IN_ITS_POD: Final = (
    "run it in the webhook's Pod: kubectl -n forewarn exec deploy/forewarn -- forewarn webhook accuracy"
)


class NoTable(Exception):
    """The reason why the webhook returned no table."""


def main(arguments: Sequence[str]) -> int:
    """Run the command; return 0, or 3 if there is no table."""
    parser = Parser(prog="forewarn webhook accuracy", description=_DESCRIPTION, examples=_EXAMPLES)
    health_port = f"the webhook's health port (default: {PORT})"
    parser.add_argument("--health-port", type=integer_between(1, 65535), default=PORT, metavar="PORT", help=health_port)
    add_output_option(parser.add_argument)
    given = parser.parse_args(arguments)
    try:
        table = read_table(given.health_port)
    except NoTable as why:
        return complain("webhook accuracy", f"{path_of(given.health_port)}: {why}", FAILED)
    given.output.print(lambda: table, _lines(table), indent=2)
    return 0


def read_table(port: int) -> dict[str, Any]:
    """Return the table of the webhook with this health port. Raises NoTable."""
    try:
        table: dict[str, Any] = json.loads(request_table(port))
        list(_lines(table))  # raises an error for another document
    except (FileNotFoundError, ConnectionRefusedError):
        raise NoTable(f"no webhook with a live cluster listens. Fix: {_IN_ITS_POD}") from None
    except OSError as error:
        raise NoTable(f"no answer: {reason(error)}") from None
    except (ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RecursionError):
        raise NoTable("what answers there is no webhook of this version") from None
    return table


def _lines(table: dict[str, Any]) -> Iterator[str]:
    workloads, others = table["workloads"], table.get("notCompared", 0)
    yield from (printable(cut(line, _CLIPPED)) for line in headlines(table))
    yield ""
    yield "Whole changes: workloads and Pods without a controller, at the end of the rollout"
    reasons = "; ".join(
        f"{printable(cut(str(reason), _CLIPPED))} ({count:d})" for reason, count in workloads["notJudged"].items()
    )
    unknown = f"{WORKLOAD_RESULTS[UNKNOWN]}{reasons and ': '}{reasons}"
    yield from _results(workloads, {**WORKLOAD_RESULTS, UNKNOWN: unknown})
    yield ""
    omitted = f". Not compared: {others:d}" if others else ""
    yield f"Pods: the first action of kube-scheduler{omitted}"
    yield from _results(table, RESULTS)
    yield from _examples(workloads["examples"], "whole changes", "workload", "because of")
    yield from _examples(table["examples"], "Pods", "pod", "in between")


def _results(table: dict[str, Any], meanings: dict[str, str]) -> Iterator[str]:
    results = table["results"]
    width, names_width = max(len(str(results[result])) for result in meanings), max(map(len, meanings))
    for result, meaning in meanings.items():
        yield f"{result:<{names_width}}  {results[result]:>{width}d}  {meaning}"
    if table["open"]:
        yield f"{table['open']:d} more {'has' if table['open'] == 1 else 'have'} no result yet"


def _examples(every: list[dict[str, Any]], what: str, named: str, why: str) -> Iterator[str]:
    for kind in DIFFERING:
        examples = [example for example in every if example["result"] == kind][:EXAMPLES]
        if examples:
            yield ""
            yield f"{kind}, {what}, the last {len(examples)}:"
        for example in examples:
            at = datetime.fromtimestamp(example["at"], UTC)
            yield f"  {printable(cut(example[named], _CLIPPED))}  {at:%Y-%m-%d %H:%M:%S}Z"
            yield f"    predicted: {printable(cut(example['predicted'], _CLIPPED))}"
            yield f"    happened:  {printable(cut(example['happened'], _CLIPPED))}"
            if example["change"]:
                yield f"    {why}: {printable(cut(example['change'], _CLIPPED))}"
