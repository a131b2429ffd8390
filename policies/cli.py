"""The `forewarn` command: a table of subcommands, each imported when it is used."""

from __future__ import annotations

import io
import os
import signal
import sys
from contextlib import suppress
from importlib import import_module
from typing import TYPE_CHECKING, Final, NamedTuple

from policies import VERSION, WITHIN
from policies.findings import cut
from policies.minors import CHECKED_WITH, KNOWN_MINORS, NEWEST
from policies.terminal import complain, is_about_output, say

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

KUBERNETES: Final = CHECKED_WITH[NEWEST]
TRACEBACK: Final = "FOREWARN_TRACEBACK"
"""The variable that has an internal error told in full."""


class Command(NamedTuple):
    """Where a subcommand's function is (arguments in, exit status out), and the line that help says of it."""

    module: str
    help: str
    function: str = "main"

    def load(self) -> Callable[[Sequence[str]], int]:
        """The function. Raises ImportError."""
        function: Callable[[Sequence[str]], int] = getattr(import_module(WITHIN + self.module), self.function)
        return function


COMMANDS: Final[dict[str, Command]] = {
    "lint": Command("policies.commands.lint", "check manifests, with file, line and column"),
    "lsp": Command("policies.commands.lsp", "what the linter says, in an editor while you type (language server)"),
    "completion": Command("policies.cli", "a script by which bash, zsh or fish complete commands", "complete"),
    "explain": Command("policies.commands.explain", "say what a rule means, why, and what to do"),
    "dry-run": Command("policies.commands.dry_run", "what kube-apiserver itself would answer, offline"),
    "preempt": Command("policies.commands.preempt", "whom a pod would push out, and from which node"),
    "why": Command("policies.commands.why", "why a pod is pending or was preempted, and what would help"),
    "simulate": Command("policies.commands.simulate", "what becomes of a cluster, one event after the other"),
    "whatif": Command("policies.commands.whatif", "what a lost zone, a drained node or a changed class comes to"),
    "test": Command("policies.commands.test", "whether what you promise of a cluster holds"),
    "merge": Command("policies.commands.merge", "put the parts of a sweep or of a test together"),
    "risk": Command("policies.commands.risk", "what each workload risks: preemption, lost zones and nodes, pressure"),
    "headroom": Command("policies.commands.headroom", "how many more replicas fit, and what runs out first"),
    "audit": Command("policies.commands.audit", "check what is in a cluster, and what its next restarts would do"),
    "node-pressure": Command("policies.commands.node_pressure", "whom the kubelet ends first on a node"),
    "scheduler-config": Command(
        "policies.commands.scheduler_config", "which plugins decide where, by a scheduler's configuration"
    ),
    "versions": Command(
        "policies.commands.versions", "for which Kubernetes releases predictions hold, and what differs"
    ),
    "review": Command("webhook.commands.review", "answer an AdmissionReview as the webhook would"),
    "serve": Command("webhook.commands.serve", "run the admission webhook"),
    "ca-injector": Command("webhook.commands.ca_injector", "issue the webhook's certificate and write caBundle"),
    "doctor": Command("webhook.commands.doctor", "whether a cluster's webhook works, and what is misconfigured"),
    "accuracy": Command("webhook.commands.accuracy", "how a running webhook's predictions came true"),
    "snapshot": Command("webhook.commands.snapshot", "write a running cluster to a file"),
    "demo": Command("webhook.commands.demo", "see it at work on a small sample cluster"),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one subcommand; returns the exit status (2: wrong usage, 3: what it has to say cannot be written)."""
    if arguments is None:
        _end_when_told()
        _print_whatever_comes()
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    name = arguments[0] if arguments else "--help"
    if sys.stdout is None:
        print(f"forewarn {name}: standard output is closed", file=sys.stderr)  # noqa: T201
        return 3
    try:
        try:
            return _run(name, arguments)
        finally:
            sys.stdout.flush()  # not left to the interpreter's end, where nobody would say what is wrong
    except BrokenPipeError:
        _write_no_more()  # the reader went away (`| head`): nothing to say
        return 141
    except OSError as error:
        if not is_about_output(error):
            raise
        _write_no_more()
        print(f"forewarn {name}: standard output: {error.strerror}", file=sys.stderr)  # noqa: T201
        return 3
    except KeyboardInterrupt:
        return complain(name, "interrupted", 130)
    except Exception as error:
        if os.environ.get(TRACEBACK):
            raise
        return complain(name, _internal(error), 3)


def complete(arguments: Sequence[str]) -> int:
    """`forewarn completion`, which has to know all of the others."""
    from policies.commands.completion import main as print_script

    return print_script(arguments, COMMANDS)


def _internal(error: Exception) -> str:
    """What is said of a fault of ours, or of a machine with too little memory."""
    if isinstance(error, MemoryError):
        return "out of memory"
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    code = trace.tb_frame.f_code if trace else None
    where = f" in {os.path.basename(code.co_filename)}, {code.co_name}" if code else ""
    said = f"{type(error).__name__}: {cut(str(error), 200)}{where}"
    return f"internal error, please report it ({TRACEBACK}=1 shows more): {said}"


def _print_whatever_comes() -> None:
    """Let no character end a command that the terminal has no encoding for: it becomes its escape."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _run(name: str, arguments: list[str]) -> int:
    if name == "help" and len(arguments) > 1:
        name, arguments = arguments[1], [arguments[1], "--help"]
    if name in ("-h", "--help", "help"):
        print(_usage())  # noqa: T201
        return 0 if arguments else 2
    if name in ("-V", "--version"):
        known = f"1.{KNOWN_MINORS[0]} to 1.{NEWEST}"
        print(f"forewarn {VERSION} (Kubernetes {known}; default 1.{NEWEST}, checked with {KUBERNETES})")  # noqa: T201
        return 0
    try:
        function = _load(name)
    except ModuleNotFoundError as missing:
        if (missing.name or "").partition(".")[0] in ("", "forewarn", "policies", "webhook"):
            raise
        lacks = f"{missing.name} is not installed: it comes with forewarn's extra `webhook`"
        print(f"forewarn {name}: {lacks}", file=sys.stderr)  # noqa: T201
        return 3
    if function is None:
        from difflib import get_close_matches

        near = get_close_matches(name[:80], COMMANDS, n=1)
        hint = f"did you mean {near[0]!r}?" if near else "see `forewarn --help`"
        say(f"forewarn: unknown command {cut(name, 80)!r}; {hint}")
        return 2
    return function(arguments[1:])


def _write_no_more() -> None:
    """Let what is left in the buffer go nowhere: at its end the interpreter would try once more."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _end_when_told() -> None:
    """End at SIGTERM by a handler: the first process of a container does not hear a signal that it has none for."""
    if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))


def _load(name: str) -> Callable[[Sequence[str]], int] | None:
    """The function of a subcommand; other distributions' come by the entry-point group forewarn.commands."""
    command = COMMANDS.get(name)
    if command is not None:
        return command.load()
    from importlib.metadata import entry_points

    for entry_point in entry_points(group="forewarn.commands", name=name):
        loaded: Callable[[Sequence[str]], int] = entry_point.load()
        return loaded
    return None


def _usage() -> str:
    width = max(map(len, COMMANDS))
    lines = [f"  {name:{width}}  {command.help}" for name, command in COMMANDS.items()]
    return "\n".join(
        [
            "Says beforehand whom a Kubernetes pod's priority will push out.",
            "",
            "usage: forewarn COMMAND [OPTIONS]   (`forewarn COMMAND --help` says more)",
            "",
            *lines,
            "",
            "  --version  version, and the Kubernetes releases that it predicts",
        ]
    )


if __name__ == "__main__":
    sys.exit(main())
