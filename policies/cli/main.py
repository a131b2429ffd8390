"""The `forewarn` command: a table of subcommands. Each subcommand's module is imported on first use."""

from __future__ import annotations

import gc
import io
import os
import signal
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib import import_module
from typing import Final

from forewarn.policies import VERSION
from forewarn.policies.base.findings import cut, nearest_word, quote
from forewarn.policies.base.light import NamedTuple
from forewarn.policies.cli.terminal import as_invoked, complain, is_about_output
from forewarn.policies.kubernetes.releases.minors import CHECKED_WITH, KNOWN_MINORS, NEWEST, PREVIEW, PREVIEW_MINORS

KUBERNETES: Final = CHECKED_WITH[NEWEST]
TRACEBACK: Final = "FOREWARN_TRACEBACK"
"""Environment variable that makes an internal error print its traceback."""


class Command(NamedTuple):
    """A subcommand: its function (arguments in, exit status out), its help section (`group`) and its help line.

    `group` is empty for a command that only the help of its command group lists.
    """

    group: str
    module: str
    help: str
    function: str = "main"

    def load(self) -> Callable[[Sequence[str]], int]:
        """Import the command's module and return its function. Raises ImportError."""
        module = self.module if "." in self.module else f"policies.cli.commands.{self.module}"
        function: Callable[[Sequence[str]], int] = getattr(import_module(f"forewarn.{module}"), self.function)
        return function


COMMANDS: Final[dict[str, Command]] = {
    "lint": Command("Lint", "lint", "check manifests, and report problems with file and line"),
    "explain": Command("Lint", "explain", "explain a rule and how to fix its findings"),
    "policies": Command("Webhook", "policies", "write rules of the configuration as CEL policies"),
    "lsp": Command("Lint", "lsp", "run the linter as a language server for editors"),
    "predict": Command("Predict", "predict", "predict node and victims for Pods and workloads"),
    "diff": Command("Predict", "diff", "show what a change of manifests does to every cluster"),
    "whatif": Command("Predict", "whatif", "simulate a loss, a drain, an upgrade, or another change"),
    "whatif pressure": Command("", "pressure", "rank the Pods that a kubelet evicts first"),
    "whatif merge": Command("", "merge", "combine the parts of a sweep or of a test"),
    "classes": Command("Cluster", "classes", "show which PriorityClasses may preempt which"),
    "classes plan": Command("Cluster", "classes", "order a change of PriorityClasses", "plan"),
    "classes suggest": Command("Cluster", "classes", "suggest classes for workloads", "suggest"),
    "headroom": Command("Predict", "headroom", "count the replicas that still fit"),
    "test": Command("Predict", "test", "check expectations about a cluster"),
    "overview": Command("Cluster", "overview", "show what is at risk (also without a command)"),
    "why": Command("Cluster", "why", "explain why a Pod is Pending or was preempted"),
    "risk": Command("Cluster", "risk", "list the risks of each workload (preemption, losses)"),
    "audit": Command("Cluster", "audit", "check the objects of a cluster, and simulate restarts"),
    "ui": Command("Cluster", "policies.cli.ui.command", "show a cluster in the browser, predict and simulate"),
    "snapshot": Command("Cluster", "webhook.commands.snapshot", "write the objects of a running cluster to a file"),
    "webhook serve": Command("Webhook", "webhook.commands.serve", "run the admission webhook"),
    "webhook ca-injector": Command("Webhook", "webhook.commands.ca_injector", "issue certificates and set caBundle"),
    "webhook review": Command("Webhook", "webhook.commands.review", "answer an AdmissionReview from a file"),
    "webhook doctor": Command("Webhook", "webhook.commands.doctor", "check the webhook of a cluster"),
    "webhook accuracy": Command("Webhook", "webhook.commands.accuracy", "compare predictions with actual decisions"),
    "info releases": Command("Other", "info", "show supported Kubernetes releases", "releases"),
    "info node-groups": Command("Other", "info_node_groups", "show the node groups of a cluster"),
    "info scheduler": Command("Other", "info", "show the profiles of a scheduler", "scheduler"),
    "completion": Command("Other", "policies.cli.main", "print a completion script for bash, zsh or fish", "complete"),
    "demo": Command("Other", "webhook.commands.demo", "show the webhook and the linter on a sample cluster"),
}
"""All public commands by name; a command of a group has a name of two words, such as `whatif drain`."""

RECORDED: Final = ("autoscale", "dry-run", "kueue", "preempt", "simulate")
"""Commands of a checkout that only replay recorded cases (CONTRIBUTING.md). The help omits them."""
GROUPS: Final = ("whatif", "webhook", "info")
"""First words of the command names that have two words."""
_PARENTS: Final = ("classes",)
"""Commands that take no arguments without `-`, except the second word of another command."""
_DEFAULT: Final = "overview"
"""The command that runs if the command line names none."""
_SERVERS: Final = ("demo", "ui", "webhook ca-injector", "webhook serve")
"""Commands that run until they are stopped."""
_WITHOUT_END: Final = "lint"
"""The command that exits without freeing its memory, which would take a twentieth of its time for one file; it has no
threads, child processes or temporary files.
"""
_COLLECT_AFTER: Final = 200_000, 50
"""Thresholds of Python's garbage collector in other commands, which create few cycles: see `gc.set_threshold`."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one subcommand and return its exit status (2: wrong usage, 3: its output cannot be written)."""
    is_program = arguments is None
    if is_program:
        gc.disable()  # until the command is imported: modules stay
        _exit_on_sigterm()
        _prepare_streams()
    name, arguments = _split(list(sys.argv[1:] if arguments is None else arguments))
    if is_program and name not in _SERVERS:
        gc.set_threshold(*_COLLECT_AFTER)
    if sys.stdout is None:
        return complain(name, "standard output is closed", 3)
    try:
        try:
            status = _run(name, arguments)
        finally:
            sys.stdout.flush()  # at the interpreter's exit, nothing would report the error
            if is_program:
                gc.freeze()  # avoids a garbage collection at the interpreter's exit
        if is_program and name == _WITHOUT_END:
            print(end="", file=sys.stderr, flush=True)  # noqa: T201
            os._exit(status)
        return status
    except BrokenPipeError:
        _write_no_more()  # the reader has closed the pipe (`| head`): no error
        return 141
    except OSError as error:
        if not is_about_output(error):
            raise
        _write_no_more()
        return complain(name, f"standard output: {error.strerror}", 3)
    except KeyboardInterrupt:
        return complain(name, "interrupted", 130)
    except Exception as error:
        if os.environ.get(TRACEBACK):
            raise
        return complain(name, _internal(error), 3)


def _split(words: list[str]) -> tuple[str, list[str]]:
    """Split the words of a command line into the command's name (one or two words) and its arguments."""
    if words[:1] == ["help"]:
        words = [*words[1:3], "--help"]
    if _is_about_a_cluster(words):
        return _DEFAULT, words
    two = " ".join(words[:2])
    if two in COMMANDS:
        return two, words[2:]
    return (words[0], words[1:]) if words else ("", [])


def _is_about_a_cluster(words: Sequence[str]) -> bool:
    """Report whether a command line without a command has options of `forewarn overview`, or needs none."""
    if words:
        return words[0][:1] == "-" and words[0] not in _WITHOUT_COMMAND
    from forewarn.policies.cli.commands.overview import has_cluster

    return has_cluster()


def complete(arguments: Sequence[str]) -> int:
    """Run `forewarn completion`, which needs the table of all commands. Returns the exit status."""
    from forewarn.policies.cli.commands.completion import main as print_script

    return print_script(arguments, COMMANDS)


def _internal(error: Exception) -> str:
    """The message for an internal error of forewarn, with the place in the code, or "out of memory"."""
    if isinstance(error, MemoryError):
        return "out of memory"
    from traceback import extract_tb

    where = "".join(f" in {os.path.basename(at.filename)}, {at.name}" for at in extract_tb(error.__traceback__)[-1:])
    error_text = f"{type(error).__name__}: {cut(str(error), 200)}{where}"
    return f"internal error, please report it ({TRACEBACK}=1 shows more): {error_text}"


def _prepare_streams() -> None:
    """Make stdout and stderr escape characters that the terminal's encoding cannot represent, instead of raising.

    Without stderr (`2>&-`), print would write to stdout.
    """
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115  (until the end of the process)
    elif isinstance(sys.stderr, io.TextIOWrapper):
        sys.stderr = _Errors(sys.stderr.buffer, sys.stderr.encoding, "backslashreplace", line_buffering=True)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")


class _Errors(io.TextIOWrapper):
    """Standard error that ignores errors of writing, so that they do not change the exit status."""

    def write(self, text: str) -> int:
        with suppress(OSError):
            super().write(text)
        return len(text)

    def flush(self) -> None:
        with suppress(OSError):
            super().flush()


_HELP: Final = ("-h", "--help", "--help-all")
_VERSION: Final = ("-V", "--version")
_WITHOUT_COMMAND: Final = (*_HELP, *_VERSION)


def _usage() -> str:
    sections = dict.fromkeys(command.group for command in COMMANDS.values() if command.group)
    return _USAGE.format("\n".join(line for each in sections for line in ("", f"{each}:", *_lines(each))))


def _run(name: str, arguments: list[str]) -> int:
    if name in ("", *_HELP):
        print(as_invoked(_usage()))  # noqa: T201
        return 0 if name else 2
    if name in _VERSION:
        minors = f"1.{KNOWN_MINORS[0]} to 1.{NEWEST}"
        previews = "".join(f"; 1.{minor}: {PREVIEW}" for minor in PREVIEW_MINORS)
        default = f"default 1.{NEWEST}, tested with {KUBERNETES}"
        print(f"forewarn {VERSION} (Kubernetes {minors}; {default}{previews})")  # noqa: T201
        return 0
    if name in GROUPS and name not in COMMANDS and (not arguments or arguments[0] in _HELP):
        lines = [f"usage: forewarn {name} COMMAND [OPTIONS]", "", *_lines(of_group=name)]
        print(as_invoked("\n".join(lines)))  # noqa: T201
        return 0 if arguments else 2
    try:
        function = None if name in _PARENTS and arguments and arguments[0][:1] != "-" else _load(name)
    except ModuleNotFoundError as missing:
        if (missing.name or "").partition(".")[0] in ("", "forewarn"):
            raise
        return complain(name, f"{missing.name} is not installed; install forewarn with the extra `webhook`", 3)
    if function is None:
        return complain(
            "", f"unknown command {quote(cut(_words(name, arguments), 80))}{_did_you_mean(name, arguments)}", 2
        )
    gc.enable()
    return function(arguments)


def _words(name: str, arguments: Sequence[str]) -> str:
    return " ".join((name, *arguments[:1])) if name in (*GROUPS, *_PARENTS) else name


def _did_you_mean(name: str, arguments: Sequence[str]) -> str:
    from forewarn.policies.cli.commands.completion import changes

    last_words = {command.rpartition(" ")[2]: command for command in COMMANDS}
    last_words |= {change: f"whatif {change}" for change in changes(COMMANDS["whatif"])}
    near = nearest_word(_words(name, arguments), COMMANDS) or last_words.get(nearest_word(name, last_words))
    group = f"{name} " if name in GROUPS else ""
    return f"; did you mean {quote(near)}?" if near else f". Fix: see `forewarn {group}--help`"


def _write_no_more() -> None:
    """Redirect stdout to /dev/null, so that the interpreter does not try to flush unwritten output at exit."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _exit_on_sigterm() -> None:
    """Install a SIGTERM handler that exits: without a handler, the first process of a container ignores SIGTERM."""
    if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))


def _load(name: str) -> Callable[[Sequence[str]], int] | None:
    """Return the function of a command; None for an unknown command.

    Other distributions can add commands by the entry-point group forewarn.commands.
    """
    if name in RECORDED and (replay := _replay(name.replace("-", "_"))):
        return replay
    if command := COMMANDS.get(name):
        return command.load()
    from importlib.metadata import entry_points

    for entry_point in entry_points(group="forewarn.commands", name=name):
        loaded: Callable[[Sequence[str]], int] = entry_point.load()
        return loaded
    return None


def _replay(name: str) -> Callable[[Sequence[str]], int] | None:
    """The function of a command that replays recorded cases; None outside a checkout."""
    tests = os.path.realpath(os.path.join(os.path.dirname(os.path.realpath(__file__)), "../../tests"))
    if not os.path.isdir(os.path.join(tests, "recorded")):
        return None
    package = type(sys)("tests")
    package.__path__ = [tests]
    sys.modules.setdefault("tests", package)  # a package of this name may be installed
    function: Callable[[Sequence[str]], int] = getattr(import_module("tests.recorded.commands"), name)
    return function


_USAGE: Final = """\
Predict which Pods Kubernetes will preempt, before you apply.

usage: forewarn COMMAND [OPTIONS]   (`forewarn COMMAND --help` for its options)
{}

  --version  show the version and the supported Kubernetes releases"""


def _lines(section: str = "", of_group: str = "") -> list[str]:
    """The help lines of all commands in one section of the help, or of one command group."""
    return [
        f"  {name:{_WIDTH}}{command.help}"
        for name, command in COMMANDS.items()
        if (name.startswith(f"{of_group} ") if of_group else command.group == section)
    ]


_WIDTH: Final = max(map(len, COMMANDS)) + 2

if __name__ == "__main__":
    sys.exit(main())
