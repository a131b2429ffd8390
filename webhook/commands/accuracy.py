"""`forewarn webhook accuracy`: how predictions of a running webhook compare with what kube-scheduler did."""

from __future__ import annotations

import http.client
import json
import sys
from contextlib import closing
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from policies.commands.cluster_command import add_output_option, output_of
from policies.commands.parser import Parser
from policies.terminal import as_json, clean, complain
from webhook.accuracy import EXAMPLES, EXPLAINED, MATCHED, RESULTS, WRONG

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

URL: Final = "http://127.0.0.1:8080"
PATH: Final = "/accuracy"
FAILED: Final = 3
_SECONDS: Final = 5.0
_MOST: Final = 1024 * 1024
_CLIPPED: Final = 600
_MEANING: Final = {
    "matched": "kube-scheduler did what was predicted",
    "explained": "it did something else, and what the prediction read had changed in between",
    "wrong": "it did something else, and nothing had changed",
    "unknown": "the pod never came, went away undecided, or its turn was not seen",
}
_DESCRIPTION: Final = (
    "Print how the predictions of one replica of a running webhook for Pods compare with what kube-scheduler then did, "
    "since the replica's start, with examples. Predictions for workloads are not compared. Examples name pods, so the "
    "health port gives them to its own pod alone: use kubectl exec or kubectl port-forward."
)
_EXAMPLES: Final = ("webhook accuracy", "webhook accuracy --url http://127.0.0.1:9090 -o json")


class NotTold(Exception):
    """Why there is no table."""


def main(arguments: Sequence[str]) -> int:
    """Run the command; returns 0, 2 for wrong usage, 3 where there is no answer."""
    parser = Parser(prog="forewarn webhook accuracy", description=_DESCRIPTION, examples=_EXAMPLES)
    parser.add_argument("--url", default=URL, metavar="URL", help=f"the webhook's health port (default: {URL})")
    add_output_option(parser.add_argument)
    given = parser.parse_args(arguments)
    try:
        url = urlsplit(given.url)
        host, port = url.hostname, url.port
    except ValueError as fault:
        parser.error(f"--url {given.url!r}: {fault}")
    if url.scheme != "http" or not host or url.path not in ("", "/") or url.query or url.fragment:
        parser.error(f"--url {given.url!r} is not of the form http://HOST:PORT")
    try:
        table = _ask(host, port or 8080)
    except NotTold as why:
        return complain("webhook accuracy", f"{host} port {port or 8080}: {why}", FAILED)
    with output_of(given):
        if given.output == "json":
            sys.stdout.write(as_json(table, indent=2))
        else:
            sys.stdout.writelines(clean(line, color=False) + "\n" for line in _lines(table))
    return 0


def _ask(host: str, port: int) -> dict[str, Any]:
    """The table. Raises NotTold."""
    try:
        with closing(http.client.HTTPConnection(host, port, timeout=_SECONDS)) as connection:
            connection.request("GET", PATH)
            response = connection.getresponse()
            status, body = response.status, response.read(_MOST + 1)
    except (OSError, http.client.HTTPException) as error:
        raise NotTold(f"no answer: {_plain(str(error) or type(error).__name__)}") from None
    try:
        told = json.loads(body)
    except ValueError:
        told = None
    if status != http.HTTPStatus.OK:
        message = told.get("message") if isinstance(told, dict) else None
        raise NotTold(_plain(str(message)) if message else f"HTTP status {status}")
    if not _is_table(told):
        raise NotTold("what answers there is no webhook of this version")
    table: dict[str, Any] = told
    return table


def _is_table(told: object) -> bool:
    return (
        isinstance(told, dict)
        and isinstance(told.get("results"), dict)
        and all(isinstance(told["results"].get(result), int) for result in RESULTS)
        and isinstance(told.get("open"), int)
        and isinstance(told.get("notCompared", 0), int)
        and isinstance(told.get("examples"), list)
        and all(_is_example(example) for example in told["examples"])
    )


def _is_example(example: object) -> bool:
    texts = ("result", "pod", "predicted", "happened", "change")
    return (
        isinstance(example, dict)
        and all(isinstance(example.get(key), str) for key in texts)
        and isinstance(example.get("at"), int | float)
        and 0 <= example["at"] < 1e11
    )


def _lines(table: dict[str, Any]) -> Iterator[str]:
    results = table["results"]
    yield f"Compared: each Pod, at its own admission. Not compared: {_others(table.get('notCompared', 0))}"
    width = max(len(str(results[result])) for result in RESULTS)
    for result in RESULTS:
        yield f"{result:<9}  {results[result]:>{width}}  {_MEANING[result]}"
    if judged := results[MATCHED] + results[WRONG]:
        yield f"{100 * results[MATCHED] / judged:.1f}% of the {judged} that nothing came between are right"
    if table["open"]:
        yield f"{table['open']} more {'has' if table['open'] == 1 else 'have'} no result yet"
    for kind in (WRONG, EXPLAINED):
        examples = [example for example in table["examples"] if example["result"] == kind][:EXAMPLES]
        if examples:
            yield ""
            yield f"{kind}, the last {len(examples)}:"
        for example in examples:
            at = datetime.fromtimestamp(example["at"], UTC)
            yield f"  {_plain(example['pod'])}  {at:%Y-%m-%d %H:%M:%S}Z"
            yield f"    predicted: {_plain(example['predicted'])}"
            yield f"    happened:  {_plain(example['happened'])}"
            if example["change"]:
                yield f"    in between: {_plain(example['change'])}"


def _others(count: int) -> str:
    """What these figures do not measure."""
    return f"{count} {'prediction' if count == 1 else 'predictions'} for workloads, or cut short"


def _plain(text: str) -> str:
    """What a terminal can show of a text that came over the network."""
    shown = "".join(c if c.isprintable() else "?" for c in text[:_CLIPPED])
    return shown if len(text) <= _CLIPPED else f"{shown}…"
