"""`forewarn info releases`: list the Kubernetes releases that predictions support, and their differences."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

from forewarn.policies.commands.cluster_command import add_output_option
from forewarn.policies.commands.parser import Parser
from forewarn.policies.documents import info, json_of
from forewarn.policies.releases.gates import MODELLED, NOT_MODELLED, default, state
from forewarn.policies.releases.minors import CHECKED_WITH, NEWEST, PREDICTED_MINORS, PREVIEW, PREVIEW_MINORS
from forewarn.policies.releases.release import CHANGES, PATCH_CHANGES, UNFIXED, PatchChange, named_minors

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Sequence


def main(arguments: Sequence[str]) -> int:
    """Run the command; returns 0, or 2 for wrong usage."""
    options = _parser().parse_args(arguments)
    minors = [options.release] if options.release else PREDICTED_MINORS
    title = [f"predictions for Kubernetes {named_minors()}"] if len(minors) > 1 else []
    lines = chain(title, *map(_lines, minors))
    options.output.print(lambda: json_of([_entry(minor) for minor in minors]), lines)
    return 0


def _entry(minor: int) -> info.Release:
    changes = [
        info.ReleaseChange(change.where, change.what, change.source, change.modelled if change.source else None)
        for change in CHANGES
        if change.minor == minor
    ]
    patches = [info.PatchChange(_release(change), change.where, change.what) for change in _patches(minor)]
    unfixed = [info.Unfixed(*unfixed) for unfixed in _unfixed(minor)]
    checked = CHECKED_WITH.get(minor)
    return info.Release(f"1.{minor}", checked, changes, patches, unfixed, _gates(minor), _not_modelled(minor))


def _unfixed(minor: int) -> Sequence[tuple[str, str, str]]:
    return () if minor in PREVIEW_MINORS else UNFIXED


def _gates(minor: int) -> dict[str, bool]:
    """Return the feature gates of a minor version that predictions model, with their defaults."""
    return {name: default(name, minor) for name in sorted(MODELLED) if state(name, minor) != "-"}


def _not_modelled(minor: int) -> dict[str, bool]:
    """Return the other feature gates that change predictions, with the only predicted state."""
    return {name: NOT_MODELLED[name] for name in sorted(NOT_MODELLED) if state(name, minor) in ("on", "off")}


def _patches(minor: int) -> Iterator[PatchChange]:
    return (change for change in PATCH_CHANGES if change.minor == minor)


def _release(change: PatchChange) -> str:
    return f"1.{change.minor}.{change.fixed}"


def _lines(minor: int) -> Iterator[str]:
    default = ", default without a cluster or --kubernetes-version" if minor == NEWEST else ""
    checked = PREVIEW if minor in PREVIEW_MINORS else f"checked with {CHECKED_WITH[minor]}"
    yield f"Kubernetes 1.{minor} ({checked}{default})"
    for change in CHANGES:
        if change.minor == minor:
            notes = [note for note in (change.source, "" if change.modelled else "not modelled") if note]
            yield f"  {change.where}: {change.what}" + (f" ({', '.join(notes)})" if notes else "")
    yield from (f"  before {_release(patch)}, {patch.where}: {patch.what} (not modelled)" for patch in _patches(minor))
    yield from (f"  {where}: {what} (until {fix})" for fix, where, what in _unfixed(minor))
    for what, gates in (("gates", _gates(minor)), ("not modelled, predicted only with", _not_modelled(minor))):
        yield f"  {what}: {' '.join(f'{name}={str(on).lower()}{_lock(name, minor)}' for name, on in gates.items())}"


def _lock(gate: str, minor: int) -> str:
    return "!" if state(gate, minor).endswith("!") else ""


def _parser() -> argparse.ArgumentParser:
    from forewarn.policies.commands.release import KNOWN, release_minor

    parser = Parser(
        prog="forewarn info releases",
        description="Show the supported Kubernetes releases. For each release, show its changes, how earlier patch "
        "releases differ, and the feature gates that affect predictions (! marks locked gates).",
        examples=("info releases", "info releases 1.37 -o json"),
    )
    parser.add_argument("release", nargs="?", type=release_minor, metavar=KNOWN, help="only this release")
    add_output_option(parser.add_argument)
    return parser
