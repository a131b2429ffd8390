"""`forewarn webhook doctor`: checks the webhook of a cluster."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from forewarn.policies.base.documents import to_dict
from forewarn.policies.cli.commands import cluster_command
from forewarn.policies.cli.commands.parser import Output, Parser, duration_between, print_lines
from forewarn.policies.cli.terminal import as_json, complain
from forewarn.webhook.apiserver.client import FIX_OF_CONNECTION, ApiError, ApiServer, Timeouts, UnknownContext, connect
from forewarn.webhook.doctor import answers, installation
from forewarn.webhook.doctor.report import Checks, Client, Line, Status, bounded, seconds_ahead, summary

if TYPE_CHECKING:
    import argparse

    from forewarn.policies.kubernetes.objects.fields import ApiObject


class Now(NamedTuple):
    """The time of the API server, and the seconds by which its clock is ahead of this machine's (None if unknown)."""

    time: datetime
    ahead: float | None = None


def examine(client: Client, version: ApiObject, namespace: str, now: Now) -> list[Line]:
    """Return all lines of the report. `version`: the response of /version. `namespace`: the namespace for dry runs."""
    registered = installation.check_registration(client)
    lines = [*registered.lines]
    installed = installation.check_installation(client, registered)
    if registered.webhooks or not registered.is_known or installed.is_there:
        lines += installation.check_trust(client, registered, installed, now.time)
        lines += installed.lines
        read = answers.read_configuration(client, installed)
        lines += answers.check_responses(client, registered, namespace, read[0], now.time)
        replicas = answers.ask_replicas(client, installed)
        lines += answers.replica_lines(replicas)
        lines += answers.clocks(replicas, now.ahead)
        lines += answers.check_predictions(client, replicas, version, now.time.timestamp())
        lines += answers.check_configuration(client, installed, read, now.time)
    return bounded(lines)


WELL, PROBLEMS, USAGE, FAILED = range(4)
_SECONDS: Final = 30.0
_MAX_SECONDS: Final = 600
_ORDER: Final = (Status.PROBLEM, Status.WARNING, Status.UNKNOWN, Status.OK)
_STYLES: Final = {Status.OK: "good", Status.PROBLEM: "error", Status.WARNING: "warning", Status.UNKNOWN: "dim"}


def main(arguments: Sequence[str]) -> int:
    """Run the command; return the exit status: 0 no problems, 1 problems, 2 wrong usage, 3 no response."""
    options = _parser().parse_args(arguments)
    cluster_command.use_kubeconfig(options)
    try:
        api = ApiServer(partial(connect, options.context))
        version, ahead = _version(api, min(options.timeout, 10.0))
    except ApiError as error:
        status = USAGE if isinstance(error, UnknownContext) else FAILED
        fix = "" if error.status or status == USAGE else f". Fix: {FIX_OF_CONNECTION}"
        return complain("webhook doctor", f"{error if error.status else error.problem}{fix}", status)
    now = Now(datetime.now(UTC) + timedelta(seconds=ahead or 0), ahead)
    lines = examine(Client(api, options.timeout), version, options.namespace, now)
    output: Output = options.output._replace(color=options.color)
    return cluster_command.answered("webhook doctor", output, lambda: _print(output, lines))


def _print(output: Output, lines: Sequence[Line]) -> int:
    """Print the report; return the exit status."""
    if output.form == "json":
        sys.stdout.write(as_json(to_dict(Checks(lines)), indent=2))
    else:
        print_lines(output, lambda paint: (paint(summary(lines), "bold"), *rendered(lines, paint)))
    return PROBLEMS if any(line.status is Status.PROBLEM for line in lines) else WELL


def _version(api: ApiServer, seconds: float) -> tuple[dict[str, object], float | None]:
    """Return the response of /version, and the seconds by which its clock is ahead. Raises ApiError without a
    response.
    """
    try:
        answer = api.ask("GET", "/version", timeouts=Timeouts(seconds, seconds, seconds))
    except ApiError as error:
        if error.status in (0, 401):
            raise
        return {}, None
    return answer.object, seconds_ahead(answer.date)


def rendered(lines: Sequence[Line], paint: Callable[[str, str], str]) -> Iterator[str]:
    """Yield a table with one line per check, and its fix below; problems first, then warnings."""
    areas, checks, words = (max((len(str(line[column])) for line in lines), default=0) for column in (0, 1, 2))
    for line in sorted(lines, key=lambda line: _ORDER.index(line.status)):
        status = paint(f"{line.status:{words}}", _STYLES[line.status])
        yield f"{line.area:{areas}}  {status}  {line.check:{checks}}  {line.message}"
        if line.fix:
            yield f"{'':{areas + words + 4}}Fix: {line.fix}"


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="forewarn webhook doctor",
        examples=("webhook doctor", "webhook doctor --context prod -o json"),
        description="Check the registration, trust, responses, predictions and configuration of the webhook in a "
        "cluster, and show fixes for problems. The command uses your permissions and changes nothing.",
        epilog="Exit status: 0: no problems. 1: problems. 2: wrong usage. 3: the API server does not answer.",
    )
    add = parser.add_argument
    cluster_command.add_context_options(add)
    help_text = "namespace for the dry run of a Deployment (default: default)"
    add("-n", "--namespace", default="default", metavar="NAME", help=help_text)
    cluster_command.add_output_option(add)
    limit = duration_between(1, _MAX_SECONDS)
    add("--timeout", type=limit, default=_SECONDS, metavar="DURATION", help="time limit for all checks (default: 30s)")
    cluster_command.add_color_option(add)
    return parser
