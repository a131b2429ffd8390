"""The argument parser of all commands: help with examples, and errors limited to one or two lines."""

from __future__ import annotations

import argparse
import io
import os
import sys
from contextlib import contextmanager, redirect_stdout
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NoReturn, TypeVar

from forewarn.policies.base.findings import MAX_PATH_LENGTH, brief, cut, nearest_word, no_command, one_line, quote
from forewarn.policies.base.light import NamedTuple, later
from forewarn.policies.cli.terminal import (
    as_invoked,
    as_json,
    as_markdown,
    clean,
    columns,
    painter,
    print_notice,
    wants_color,
)
from forewarn.policies.inputs.sources.files import write_file
from forewarn.policies.kubernetes.durations import seconds
from forewarn.policies.kubernetes.objects.fields import NOTHING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from _typeshed import SupportsWrite

    from forewarn.policies.kubernetes.cluster.cache import Result
    from forewarn.policies.questions.application.audit import Audit

    Paint = Callable[[str, str], str]
    Lines = Callable[[Paint], Iterable[str]]

T = TypeVar("T")
R = TypeVar("R", bound="Result")


class Output(NamedTuple):
    """The destination and formats of an answer. `file`: "" for standard output.

    `is_given`: the command line names the format. `level`: 1 with -v, 2 with -vv. `others`: further formats, each in a
    file.
    """

    form: str
    color: str = "never"
    file: str = ""
    is_given: bool = False
    level: int = 0
    others: Sequence[Output] = ()

    @property
    def forms(self) -> list[str]:
        """The formats in which the answer is written."""
        return [self.form, *(other.form for other in self.others)]

    @contextmanager
    def redirected(self) -> Iterator[None]:
        """Redirect standard output to the file, if there is one; if the block fails, the file is unchanged. Raises
        SourceError.
        """
        if not self.file:
            yield
            return
        with redirect_stdout(io.StringIO()) as printed:
            yield
        write_file(self.file, printed.getvalue().encode())

    def print(self, document: Callable[[], object], lines: Iterable[str], indent: int | None = None) -> None:
        """Print a JSON document, or its text. Raises SourceError."""
        with self.redirected():
            if self.form == "json":
                sys.stdout.write(as_json(document(), indent=indent))
            else:
                sys.stdout.writelines(clean(line, color=False) + "\n" for line in lines)


class Printed(NamedTuple):
    """An answer in a format, in parts, and as JSON data: text, or the documents of the format.

    `verdict`: its first line as text. `others`: files and the answer in their formats.
    """

    parts: Iterable[str] = ()
    data: Callable[[], Any] = str
    verdict: Callable[[], str] = str
    others: Sequence[tuple[str, Printed]] = ()

    def print(self) -> None:
        """Print the answer, and write the files. Raises SourceError."""
        for file, printed in self.others:
            write_file(file, "".join(printed.parts).encode())
        sys.stdout.writelines(self.parts)


def print_formats(output: Output, printed: Callable[[Output], Printed]) -> Printed:
    """Return the answer in all formats of a command line. `printed`: returns the answer in one format."""
    others = [(each.file, printed(each._replace(level=output.level))) for each in output.others]
    return printed(output._replace(others=()))._replace(others=others)


def print_lines(output: Output, lines: Lines) -> None:
    """Print lines of text. `lines`: returns them for a painter."""
    sys.stdout.writelines(cleaned(output, lines))


def cleaned(output: Output, lines: Lines) -> Iterator[str]:
    """Yield printable lines of text, each with its end."""
    color = wants_color(output.color, sys.stdout)
    return (clean(line, color) + "\n" for line in lines(painter(color)))


def document_in(output: Output, result: Result | Audit, more: Lines | None = None) -> Printed:
    """An answer in the common answer format. `more`: lines of text after it."""
    return print_formats(output, lambda each: _document_in(each, result, more))


def _document_in(output: Output, result: Result | Audit, more: Lines | None) -> Printed:
    from forewarn.policies.cli.render import answer

    document = result.document
    if output.form == "json":
        data = result.to_dict()
        return Printed([as_json(data)], lambda: [data], lambda: document.headline)
    if output.form == "markdown":
        text = as_markdown(answer.markdown(document, result.head, max(output.level, 1)))
    elif output.form == "yaml":
        text = "".join(_manifests(result))
    elif output.form == "html":
        from forewarn.policies.cli.render.html.pages import page_of

        text = page_of(result, result.head).document()
    else:
        text = "".join(cleaned(output, lambda paint: answer.text(document, result.head, paint, output.level)))
        text += "".join(cleaned(output, more)) if more is not None else ""
    return Printed([text], lambda: text, lambda: document.headline)


NOTHING_TO_SUGGEST: Final = "nothing to suggest: all workloads have a PriorityClass"


def _manifests(result: Any) -> Iterator[str]:
    """Yield the suggested PriorityClasses, and the workloads with their class, as YAML."""
    import yaml

    if result.manifest:
        yield yaml.safe_dump_all(result.manifest, sort_keys=False)
    else:
        print_notice(NOTHING_TO_SUGGEST)
        yield f"# {NOTHING_TO_SUGGEST}\n"


_MAX_LENGTH: Final = MAX_PATH_LENGTH + 400
"""Maximum characters of an error."""
_UNRECOGNIZED: Final = later(r"unrecognized arguments: (--?[A-Za-z][\w-]*)")
_NO_VALUE: Final = later(r"argument ((?:-\w/)?(--?[\w-]+)): expected one argument$")
_NO_CHOICE: Final = later(r"(argument .{1,200}): invalid choice: '?(.{0,200}?)'? \(choose from (.{0,2000})\)$")
_VALUE_OF_FLAG: Final = later(r"argument (?:-\w/)?(--[\w-]+): ignored explicit argument ")
_QUOTE: Final = "'"
SUFFIXES: Final = (".yaml", ".yml", ".json", ".gz")
"""Suffixes of files that are probably manifests or snapshots."""
_FILES: Final = ("-f", "--file", "--filename")
_UNEXPECTED: Final = later(r"unrecognized arguments: ([^- ]\S*)")
_ABOUT_POSITIONAL: Final = later(r"argument [^-]|the following arguments are required: ")
_IS_COMPLETE: Final = later(r"[.;] (Fix: |did you mean )|: must be (?!a whole)")
_NOT_IN_FOREWARN: Final = {
    "-A --all-namespaces": "leave it out, because commands about a cluster read all namespaces",
    "--dry-run": "leave it out, because predictions never change the cluster",
    "--ignore-daemonsets --delete-emptydir-data --force": "leave it out, because PDBs alone can block a drain",
    "-l --selector": "name the object; a pool of nodes is LABEL=VALUE",
    "--format": "pass -o FORMAT",
    "--rule --rules": "pass --select RULE",
    "--disable --skip --exclude": "pass --ignore RULE",
    "-r -R --recursive": "leave it out, because directories are read with all their files",
}
"""Options of kubectl and of linters -> what to do instead; used only if the command has the options in the text."""
_OPTION: Final = later(r"(?:pass )(-\S+)")
_COMMON: Final = (
    "--help",
    "--help-all",
    "--filename",
    "--cluster",
    "--clusters",
    "--context",
    "--namespace",
    "--output",
    "--verbose",
    "--fail-on",
)
"""Options that a help shows first."""


class _HelpAll(argparse.Action):
    """Print the help with rare options, and exit."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        assert isinstance(parser, Parser)
        parser.print_help_all()
        parser.exit()


class _HelpFormatter(argparse.HelpFormatter):
    """Formats help as Python 3.13 does: the value of an option once, after its names."""

    def _format_action_invocation(self, action: argparse.Action) -> str:
        if not action.option_strings or action.nargs == 0:
            return super()._format_action_invocation(action)
        value = self._format_args(action, self._get_default_metavar_for_optional(action))
        return f"{', '.join(action.option_strings)} {value}"


class Parser(argparse.ArgumentParser):
    """An ArgumentParser with examples and short errors, for arguments of any length and content.

    `examples`: command lines without `forewarn`, shown at the end of the help. `hints`: an unknown value -> what it
    probably means.
    """

    def __init__(self, *, examples: Sequence[str] = (), hints: Mapping[str, str] = NOTHING, **arguments: Any) -> None:
        arguments.setdefault("formatter_class", partial(_HelpFormatter, width=columns()))
        arguments.setdefault("allow_abbrev", False)
        self._rare: list[argparse.Action] = []
        super().__init__(**arguments)
        help_text = "show this help with rare options, and exit"
        self._help_all = self.add_argument(
            "--help-all", action=_HelpAll, nargs=0, dest=argparse.SUPPRESS, help=help_text
        )
        self.color = False  # Python 3.14 colors help by default
        self.prog = as_invoked(self.prog)
        self._examples, self._hints = examples, hints
        self._given: Sequence[str] = ()

    def add_argument(self, *names: str, rare: bool = False, **settings: Any) -> argparse.Action:
        """Add an argument, and return it. `rare`: only `--help-all` and the reference show it."""
        action = super().add_argument(*names, **settings)
        if rare:
            self._rare.append(action)
        return action

    def print_help_all(self) -> None:
        """Print the help with rare options."""
        self._rare, rare = [], self._rare
        self.print_help()
        self._rare = rare

    def format_help(self) -> str:
        """Return argparse's help with the examples, common options first, without rare options."""
        for actions in (self._actions, self._optionals._group_actions):  # noqa: SLF001  (argparse has no order)
            actions.sort(key=_rank_in_help)
        hidden = {action: action.help for action in self._rare or [self._help_all]}
        for action in hidden:
            action.help = argparse.SUPPRESS
        lines = (f"  forewarn {example}\n" for example in self._examples)
        text = super().format_help() + ("\nExamples:\n" + "".join(lines) if self._examples else "")
        for action, help_text in hidden.items():
            action.help = help_text
        return as_invoked(text)

    def _print_message(self, message: str, file: SupportsWrite[str] | None = None) -> None:
        """Write a help text. Raises OSError, which argparse ignores, for an output that cannot be written."""
        (file or sys.stdout).write(message)

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> tuple[Any, list[str]]:
        """Parse the arguments. Options before the name of a subcommand are an error."""
        if self._subparsers and args and args[0][:1] == "-" and args[0] not in self._option_string_actions:
            args = ()  # argparse would read the value of the option as the name
        self._given = args or ()
        return super().parse_known_args(args, namespace)

    def error(self, message: str) -> NoReturn:
        """Print the error with a fix, and exit with status 2."""
        if _NO_CHOICE.match(message) and not (self._subparsers or message.startswith("argument -")):
            # The unknown value may belong to an unknown option.
            names = (word.partition("=")[0] for word in self._given if word[:2] == "--" != word)
            unknown = next((name for name in names if name not in self._option_string_actions), "")
            message = f"unrecognized arguments: {unknown}" if unknown else message
        text = _NO_CHOICE.sub(
            lambda m: f"{m[1]}: unknown value {quote(m[2])}; known: {m[3].replace(_QUOTE, '')}", message
        )
        text = cut(no_command(one_line(text)), _MAX_LENGTH)
        text += "" if _IS_COMPLETE.search(text) else self._advice(message)
        print(as_invoked(f"{self.prog}: {text}"), file=sys.stderr)  # noqa: T201
        self.exit(2)

    def _advice(self, message: str) -> str:
        if unset := _NO_VALUE.match(message):
            return f". Fix: write {_as_written(self._option_string_actions[unset[2]])}"
        if flag := _VALUE_OF_FLAG.match(message):
            return f". Fix: write {flag[1]}"
        if choice := _NO_CHOICE.match(message):
            return self._instead_of_value(choice[1], choice[2], choice[3].replace(_QUOTE, "").split(", "))
        if unknown := _UNRECOGNIZED.match(message):
            return self._instead_of_option(unknown[1])
        if word := _UNEXPECTED.match(message):
            return self._instead_of(word[1])
        return self._usage() if _ABOUT_POSITIONAL.match(message) and "; known: " not in message else ""

    def _instead_of_option(self, option: str) -> str:
        if option in _FILES or any(option[2:] in (each.dest, *(each.choices or ())) for each in self._positional()):
            return self._usage()
        for options, fix in _NOT_IN_FOREWARN.items():
            own = _OPTION.match(fix)
            if option in options.split() and (own is None or own[1] in self._option_string_actions):
                return f". Fix: {fix}"
        near = nearest_word(option[2:], [name[2:] for name in self._option_string_actions if name[:2] == "--"], 0.7)
        return f"; did you mean --{near}?" if near else f". Fix: see `{self.prog} --help`"

    def _instead_of_value(self, argument: str, value: str, options: Sequence[str]) -> str:
        """A message suffix for an unknown value. `argument`: such as `argument --each`."""
        if value in self._hints:
            return f"; did you mean {quote(self._hints[value])}?"
        if f"--{value}" in self._option_string_actions:
            return f"; did you mean --{value}?"
        is_first = not (self._subparsers or argument.startswith("argument -"))
        if near := nearest_word(value, options):
            return f"; did you mean {quote(near)}?{self._usage().removeprefix('.') * is_first}"
        return "" if argument.startswith("argument -") else self._usage().partition("; known: ")[0]

    def _positional(self) -> list[argparse.Action]:
        return [each for each in self._actions if not each.option_strings]

    def _usage(self) -> str:
        """A message suffix with the required arguments: `. Fix: write forewarn headroom -f FILE`."""
        words = [*self._positional(), *(each for each in self._actions if each.option_strings and each.required)]
        if not words:
            return ". Fix: pass only options"
        known = f"; known: {', '.join(words[0].choices or ())}" if self._subparsers else ""
        return f". Fix: write {self.prog} {' '.join(map(_as_written, words))}{known}"

    def _instead_of(self, word: str) -> str:
        """A message suffix for an unexpected argument."""
        option = next((name for name in ("-f", "--cluster") if name in self._option_string_actions), "")
        if option and (word.endswith(SUFFIXES) or os.path.exists(word)):
            return f"; did you mean {option} {brief(word, 80)}?"
        return self._usage() + "".join(f", such as forewarn {example}" for example in self._examples[:1])


def _rank_in_help(action: argparse.Action) -> int:
    """Return the position of an option in the help: common options come before the other options of the command."""
    names = action.option_strings[-1:]
    return next((place for place, name in enumerate(_COMMON) if name in names), len(_COMMON))


def _as_written(action: argparse.Action) -> str:
    """An argument as the usage line of the help shows it: `-f FILE`, `KIND/NAME`, `--max`."""
    value = "" if action.nargs == 0 else str(action.metavar or "|".join(action.choices or [action.dest.upper()]))
    return " ".join(filter(None, (*action.option_strings[:1], value)))


def converted(read: Callable[[str], T], text: str, fault: type[Exception]) -> T:
    """Convert a text with `read`. Raises argparse.ArgumentTypeError in place of the exception `fault`."""
    try:
        return read(text)
    except fault as problem:
        raise argparse.ArgumentTypeError(str(problem)) from None


def existing(path: str) -> str:
    """The path, if it is "" or -, or if the file exists. Raises argparse.ArgumentTypeError otherwise."""
    if path not in ("", "-") and not os.path.exists(path):
        from forewarn.policies.inputs.sources.files import no_such_file

        raise argparse.ArgumentTypeError(f"{cut(path, MAX_PATH_LENGTH)}: {no_such_file(path)}")
    return path


def integer_between(least: int, limit: int) -> Callable[[str], int]:
    """A type for argparse: a whole number between `least` and `limit`."""

    def read(text: str) -> int:
        digits = text[1:] if text[:1] == "-" else text
        if not digits.isdecimal() or not digits.isascii():
            given = f", not {quote(cut(text, 40))}" if text else ""
            raise argparse.ArgumentTypeError(f"must be a whole number{given}")
        if len(digits) > 18 or not least <= int(text) <= limit:
            raise argparse.ArgumentTypeError(f"must be between {least} and {limit}")
        return int(text)

    return read


def any_duration(text: str) -> float:
    """Parse a duration: a number of seconds, or such as `90s`, `5m` or `1h`. Raises argparse.ArgumentTypeError."""
    try:
        return seconds(text, "")
    except ValueError as fault:
        given = f", not {quote(cut(text, 40))}" if text else ""
        raise argparse.ArgumentTypeError(f"{str(fault).strip()}{given}") from None


def duration_between(least: int, limit: int) -> Callable[[str], float]:
    """A type for argparse: a duration between `least` and `limit` seconds."""

    def read(text: str) -> float:
        if not least <= (seconds := any_duration(text)) <= limit:
            raise argparse.ArgumentTypeError(f"must be between {least}s and {limit}s, not {quote(cut(text, 40))}")
        return seconds

    return read


def add_files_option(add: Callable[..., object], help_text: str, *, required: bool = False) -> None:
    """Add `-f`, the files and directories of a question, by a parser's `add_argument`."""
    more = {"type": existing, "default": [], "required": required}
    add("-f", "--filename", action="append", metavar="FILE", help=help_text, **more)


def add_config_option(add: Callable[..., object]) -> None:
    """Add `--config` by a parser's `add_argument`."""
    help_text = "configuration file (default: .forewarn.yaml in this directory or a parent)"
    add("-c", "--config", type=existing, metavar="FILE", help=help_text)


def add_admission_option(add: Callable[..., object]) -> None:
    """Add `--admission-config` by a parser's `add_argument`."""
    help_text = "kube-apiserver's AdmissionConfiguration, for limitedResources"
    add("--admission-config", rare=True, type=existing, metavar="FILE", help=help_text)


def add_rule_options(add: Callable[..., object]) -> None:
    """Add the options that select rules and known findings, by a parser's `add_argument`."""
    add_config_option(add)
    add_admission_option(add)
    help_text = "run only these rules (repeatable, or separated by commas)"
    add("--select", action="append", default=[], metavar="RULE", help=help_text)
    help_text = "do not run these rules (repeatable, or separated by commas)"
    add("--ignore", action="append", default=[], metavar="RULE", help=help_text)
    add("--baseline", type=existing, metavar="FILE", help="file with known findings, which are not reported")
    add("--write-baseline", metavar="FILE", help="write the current findings to a baseline file")
