"""What commands that ask about a cluster have in common: their options, and how they end where they cannot answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from policies.objects.fields import InvalidObject
from policies.sources import SourceError
from policies.terminal import COLOR_CHOICES, complain

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Sequence

_FAILED: Final = 3


def add_cluster_option(add: Callable[..., object]) -> None:
    """Add `--cluster` by a parser's `add_argument`."""
    add("--cluster", action="append", default=[], metavar="SOURCE", help="cluster state: a dump (repeatable), or live")


def add_color_option(add: Callable[..., object]) -> None:
    """Add `--color` likewise."""
    add("--color", choices=COLOR_CHOICES, default="auto", help="default: auto, on a terminal without NO_COLOR")


def options_with_cluster(parser: argparse.ArgumentParser, arguments: Sequence[str]) -> argparse.Namespace:
    """What the arguments say; ends the program where they name no cluster."""
    options = parser.parse_args(arguments)
    need_cluster(parser, options)
    return options


def need_cluster(parser: argparse.ArgumentParser, options: argparse.Namespace) -> None:
    """End the program where the options name no cluster."""
    if not options.cluster:
        parser.error("--cluster is missing: name a dump of the cluster, or live")


def answered(command: str, answer: Callable[[], int]) -> int:
    """The exit status of an answer; 3, and a line on standard error, where the cluster or a file does not allow one."""
    try:
        return answer()
    except (SourceError, InvalidObject, ValueError) as fault:
        return complain(command, fault, _FAILED)
