"""The argument parser of all commands: help with examples, and errors limited to one or two lines."""

from __future__ import annotations

import argparse
import sys
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NoReturn

from forewarn.policies.findings import cut, no_command, one_line, quote
from forewarn.policies.light import later
from forewarn.policies.objects.fields import NOTHING
from forewarn.policies.terminal import as_invoked, columns

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

_LONGEST: Final = 400
"""Maximum characters of an error."""
_UNRECOGNIZED: Final = later(r"unrecognized arguments: (--?[A-Za-z][\w-]*)")

_NO_VALUE: Final = later(r"argument ((?:-\w/)?(--[\w-]+)): expected one argument$")
_NO_CHOICE: Final = later(r"(argument .{1,200}): invalid choice: '?(.{0,200}?)'? \(choose from (.{0,2000})\)$")
_QUOTE: Final = "'"
_FILES: Final = ("-f", "--file", "--filename")
_UNEXPECTED: Final = later(r"unrecognized arguments: ([^- ]\S*)$")


class Parser(argparse.ArgumentParser):
    """An ArgumentParser with examples and short errors, for arguments of any length and content.

    `examples`: command lines without `forewarn`, shown at the end of the help. `hints`: an unknown value -> what it
    probably means.
    """

    def __init__(self, *, examples: Sequence[str] = (), hints: Mapping[str, str] = NOTHING, **arguments: Any) -> None:
        arguments.setdefault("formatter_class", partial(argparse.HelpFormatter, width=columns()))
        arguments.setdefault("allow_abbrev", False)
        super().__init__(**arguments)
        self.prog = as_invoked(self.prog)
        self._examples, self._hints = examples, hints

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
        if choice := _NO_CHOICE.match(message):
            return self._instead_of_value(choice[1], choice[2], choice[3].replace(_QUOTE, "").split(", "))
        unknown = _UNRECOGNIZED.match(message)
        if unknown is None:
            return self._instead_of(word[1]) if (word := _UNEXPECTED.match(message)) else ""
        arguments = self._arguments()
        if unknown[1] in arguments or (arguments and unknown[1] in _FILES):
            return f". Fix: write {self.prog} {' '.join(arguments.values())}"
        near = _nearest(unknown[1], self._long_options())
        return f"; did you mean {near}?" if near else ""

    def _long_options(self) -> list[str]:
        return [name for name in self._option_string_actions if name[:2] == "--"]

    def _instead_of_value(self, argument: str, value: str, known: Sequence[str]) -> str:
        """A message suffix for an unknown value. `argument`: such as `argument --each`."""
        if value in self._hints:
            return f"; did you mean {quote(self._hints[value])}?"
        if f"--{value}" in self._long_options():
            return f"; did you mean --{value}?"
        if near := _nearest(value, known):
            return f"; did you mean {quote(near)}?"
        arguments = self._arguments()
        is_option = argument.startswith("argument -")
        return "" if is_option or len(arguments) < 2 else f". Fix: write {self.prog} {' '.join(arguments.values())}"

    def _arguments(self) -> dict[str, str]:
        """The arguments without an option: `--` and their name -> how the help writes them."""
        return {f"--{each.dest}": str(each.metavar) for each in self._actions if not each.option_strings}

    def _instead_of(self, word: str) -> str:
        """A message suffix for one argument too many."""
        if "-f" in self._option_string_actions:
            return f"; did you mean -f {cut(one_line(word), 80)}?"
        if arguments := self._arguments():
            return f". Fix: write {self.prog} {' '.join(arguments.values())}"
        return ". Fix: pass only options"

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


def _nearest(word: str, names: Sequence[str]) -> str:
    from difflib import get_close_matches

    return next(iter(get_close_matches(word[:80], names)), "")


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


def any_duration(text: str) -> float:
    """Parse a duration: seconds, or such as `90s`, `5m`, `1h`. Raises argparse.ArgumentTypeError."""
    from forewarn.policies.simulation.scenario import seconds

    try:
        return seconds(int(text) if text.isdecimal() and len(text) < 10 else text, "")
    except ValueError as fault:
        given = f", not {quote(cut(text, 40))}" if text else ""
        raise argparse.ArgumentTypeError(f"{str(fault).strip()}{given}") from None


def duration_between(least: int, most: int) -> Callable[[str], float]:
    """A type for argparse: a duration between `least` and `most` seconds."""

    def read(text: str) -> float:
        if not least <= (seconds := any_duration(text)) <= most:
            raise argparse.ArgumentTypeError(f"must be between {least}s and {most}s, not {quote(cut(text, 40))}")
        return seconds

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
