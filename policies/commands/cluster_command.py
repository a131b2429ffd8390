"""What commands that ask about a cluster have in common: their options, and how they end where they cannot answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from policies.config.model import ConfigError
from policies.findings import one_line
from policies.objects.fields import InvalidObject
from policies.sources import SourceError, status_of
from policies.sources.errors import USAGE
from policies.terminal import COLOR_CHOICES, complain

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Sequence

    from policies.commands.places import Places

SEVERAL: Final = ("paths", "names")
"""Positional arguments that take any number of values."""


def add_cluster_option(add: Callable[..., object]) -> None:
    """Add `--cluster` by a parser's `add_argument`."""
    add("--cluster", action="append", default=[], metavar="SOURCE", help="cluster state: a dump (repeatable), or live")


def add_color_option(add: Callable[..., object]) -> None:
    """Add `--color` likewise."""
    add("--color", choices=COLOR_CHOICES, default="auto", help="default: auto, on a terminal without NO_COLOR")


def parsed(parser: argparse.ArgumentParser, arguments: Sequence[str]) -> argparse.Namespace:
    """What the arguments say, the command's last positional one also in several places: `lint a.yaml -q b.yaml`.

    argparse gives all of them to it where they stand together, and what stands behind a further option to nobody. Its
    own parser for mixed arguments refuses parsers with subcommands, as that of `whatif` is.
    """
    options, rest = parser.parse_known_args(arguments)
    given = list(arguments)
    verbatim = given[given.index("--") + 1 :] if "--" in given else []
    rest = [argument for argument in rest if argument != "--"]
    wrong = [argument for argument in rest if argument[:1] == "-" and argument != "-" and argument not in verbatim]
    several = next((found for name in SEVERAL if isinstance(found := getattr(options, name, None), list)), None)
    if wrong or (rest and several is None):
        parser.error(one_line(f"unrecognized arguments: {' '.join(wrong or rest)}"))
    if several is not None:
        several += rest
    return options


def options_with_cluster(parser: argparse.ArgumentParser, arguments: Sequence[str]) -> argparse.Namespace:
    """What the arguments say; ends the program where they name no cluster."""
    options = parsed(parser, arguments)
    need_cluster(parser, options)
    return options


def need_cluster(parser: argparse.ArgumentParser, options: argparse.Namespace) -> None:
    """End the program where the options name no cluster."""
    if not options.cluster:
        parser.error("--cluster is missing: name a dump of the cluster, or live")


def answered(command: str, answer: Callable[[], int], places: Places | None = None) -> int:
    """The exit status of an answer; 2 or 3 (see `status_of`), and a line on standard error, if there is none.

    `places`: where the objects of files stand.
    """
    try:
        return answer()
    except ConfigError as fault:
        return complain(command, fault, USAGE)
    except (SourceError, InvalidObject, ValueError) as fault:
        return complain(command, places.located(fault) if places else fault, status_of(fault))
