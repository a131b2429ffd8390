"""The argument parser of all commands: help with examples, and errors limited to one or two lines."""

from __future__ import annotations

import argparse
import sys
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NoReturn

from forewarn.policies.findings import cut, no_command, one_line, quote
from forewarn.policies.patterns import later
from forewarn.policies.terminal import as_invoked, columns

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_LONGEST: Final = 400
"""Maximum characters of an error."""
_UNRECOGNIZED: Final = later(r"unrecognized arguments: (--?[A-Za-z][\w-]*)")

_NO_VALUE: Final = later(r"argument ((?:-\w/)?(--[\w-]+)): expected one argument$")
_NO_CHOICE: Final = later(r"(argument .{1,200}): invalid choice: '?(.{0,200}?)'? \(choose from (.{0,2000})\)$")
_QUOTE: Final = "'"
_UNEXPECTED: Final = later(r"unrecognized arguments: ([^- ]\S*)$")


class Parser(argparse.ArgumentParser):
    """An ArgumentParser with examples and short errors, for arguments of any length and content.

    `examples`: command lines without `forewarn`, shown at the end of the help.
    """

    def __init__(self, *, examples: Sequence[str] = (), **arguments: Any) -> None:
        arguments.setdefault("formatter_class", partial(argparse.HelpFormatter, width=columns()))
        arguments.setdefault("allow_abbrev", False)
        super().__init__(**arguments)
        self.prog = as_invoked(self.prog)
        self._examples = examples

    def format_help(self) -> str:
        """Return argparse's help with the examples."""
        lines = (f"  forewarn {example}\n" for example in self._examples)
        return as_invoked(super().format_help() + ("\nExamples:\n" + "".join(lines) if self._examples else ""))

    def error(self, message: str) -> NoReturn:
        """Print the error, with the nearest option if one is misspelled, and exit with status 2."""
        text = _NO_CHOICE.sub(
            lambda m: f"{m[1]}: unknown value {quote(m[2])}; known: {m[3].replace(_QUOTE, '')}", message
        )
        text = cut(no_command(one_line(text)), _LONGEST)
        print(as_invoked(f"{self.prog}: {text}{self._did_you_mean(message)}"), file=sys.stderr)  # noqa: T201
        self.exit(2, f"Run `{self.prog} --help` for its options.\n")

    def _did_you_mean(self, message: str) -> str:
        if unset := _NO_VALUE.match(message):
            return self._form_of(unset[2])
        unknown, choice = _UNRECOGNIZED.match(message), _NO_CHOICE.match(message)
        if unknown is None and choice is None:
            file = _UNEXPECTED.match(message) if "-f" in self._option_string_actions else None
            return f"; did you mean -f {cut(one_line(file[1]), 80)}?" if file else ""
        from difflib import get_close_matches

        options = [name for name in self._option_string_actions if name[:2] == "--"]
        arguments = {f"--{action.dest}": action.metavar for action in self._actions if not action.option_strings}
        if unknown and unknown[1] in arguments:
            return f". Fix: write {self.prog} {' '.join(map(str, arguments.values()))}"
        if choice and f"--{choice[2]}" in options:
            return f"; did you mean --{choice[2]}?"
        names = choice[3].replace(_QUOTE, "").split(", ") if choice else options
        near = get_close_matches((choice[2] if choice else unknown[1])[:80], names)  # type: ignore[index]
        return f"; did you mean {quote(near[0]) if choice else near[0]}?" if near else ""

    def _form_of(self, option: str) -> str:
        """A message suffix with the form of an option's value; "" for a value of any form.

        argparse reads the value of `--away -5m` as an option.
        """
        action = self._option_string_actions.get(option)
        try:
            if action is not None and callable(action.type):
                action.type("")
        except argparse.ArgumentTypeError as fault:
            return f"; it {fault}"
        except ValueError:
            pass
        return ""


def integer_between(least: int, most: int) -> Callable[[str], int]:
    """A type for argparse: a whole number between `least` and `most`."""

    def read(text: str) -> int:
        digits = text[1:] if text[:1] == "-" else text
        if not digits.isdecimal() or not digits.isascii():
            given = f", not {quote(cut(text, 40))}" if text else ""
            raise argparse.ArgumentTypeError(f"must be a whole number{given}")
        if len(digits) > 18 or not least <= int(text) <= most:
            raise argparse.ArgumentTypeError(f"must be between {least} and {most}")
        return int(text)

    return read


def add_config_option(add: Callable[..., object]) -> None:
    """Add `--config` by a parser's `add_argument`."""
    help_text = "configuration file (default: .forewarn.yaml in this directory or a parent)"
    add("-c", "--config", metavar="FILE", help=help_text)


def add_admission_option(add: Callable[..., object]) -> None:
    """Add `--admission-config` by a parser's `add_argument`."""
    add("--admission-config", metavar="FILE", help="kube-apiserver's AdmissionConfiguration, for limitedResources")


def add_rule_options(add: Callable[..., object]) -> None:
    """Add the options that select rules and known findings, by a parser's `add_argument`."""
    add_config_option(add)
    add_admission_option(add)
    add(
        "--select",
        action="append",
        default=[],
        metavar="RULE",
        help="run only these rules (repeatable, or separated by commas)",
    )
    add(
        "--ignore",
        action="append",
        default=[],
        metavar="RULE",
        help="do not run these rules (repeatable, or separated by commas)",
    )
    add("--baseline", metavar="FILE", help="file with known findings, which are not reported")
    add("--write-baseline", metavar="FILE", help="write the current findings to a baseline file")
