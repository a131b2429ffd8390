"""`forewarn info releases`: list the Kubernetes releases that predictions support, and their differences."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from itertools import chain

from forewarn.policies.base.documents import info, json_of
from forewarn.policies.cli.commands.cluster_command import add_output_option
from forewarn.policies.cli.commands.parser import Parser
from forewarn.policies.kubernetes.releases.gates import MODELLED, NOT_MODELLED, default, state
from forewarn.policies.kubernetes.releases.minors import CHECKED_WITH, NEWEST, PREDICTED_MINORS, PREVIEW, PREVIEW_MINORS
from forewarn.policies.kubernetes.releases.release import CHANGES, PATCH_CHANGES, UNFIXED, named_minors


def main(arguments: Sequence[str]) -> int:
    """Run the command; returns 0, or 2 for wrong usage."""
    options = _parser().parse_args(arguments)
    minors = [options.release] if options.release else PREDICTED_MINORS
    title = [f"predictions for Kubernetes {named_minors()}"] if len(minors) > 1 else []
    releases = [*map(_entry, minors)]
    options.output.print(lambda: json_of(releases), chain(title, *map(_lines, minors, releases)))
    return 0


def _entry(minor: int) -> info.Release:
    changes = [
        info.ReleaseChange(change.where, change.what, change.source, change.modelled if change.source else None)
        for change in CHANGES
        if change.minor == minor
    ]
    patches = [
        info.PatchChange(f"1.{change.minor}.{change.fixed}", change.where, change.what)
        for change in PATCH_CHANGES
        if change.minor == minor
    ]
    unfixed = [info.Unfixed(*bug) for bug in (() if minor in PREVIEW_MINORS else UNFIXED)]
    gates = {name: default(name, minor) for name in sorted(MODELLED) if state(name, minor) != "-"}
    fixed = {name: NOT_MODELLED[name] for name in sorted(NOT_MODELLED) if state(name, minor) in ("on", "off")}
    return info.Release(f"1.{minor}", CHECKED_WITH.get(minor), changes, patches, unfixed, gates, fixed)


def _lines(minor: int, release: info.Release) -> Iterator[str]:
    default = ", default without a cluster or --kubernetes-version" if minor == NEWEST else ""
    checked = f"checked with {release.checked_with}" if release.checked_with else PREVIEW
    yield f"Kubernetes {release.release} ({checked}{default})"
    for change in release.changes:
        notes = [note for note in (change.source, "not modelled" if change.modelled is False else "") if note]
        yield f"  {change.where}: {change.what}" + (f" ({', '.join(notes)})" if notes else "")
    for patch in release.earlier_patch_releases:
        yield f"  before {patch.before}, {patch.where}: {patch.what} (not modelled)"
    yield from (f"  {where}: {what} (until {fix})" for fix, where, what in release.unfixed)
    gates = {"gates": release.feature_gates, "not modelled, predicted only with": release.not_modelled}
    for what, states in gates.items():
        locked = {name: "!" * state(name, minor).endswith("!") for name in states}
        yield f"  {what}: {' '.join(f'{name}={str(on).lower()}{locked[name]}' for name, on in states.items())}"


def _parser() -> argparse.ArgumentParser:
    from forewarn.policies.cli.commands.release import KNOWN, release_minor

    parser = Parser(
        prog="forewarn info releases",
        description="Show the supported Kubernetes releases. For each release, show its changes, how earlier patch "
        "releases differ, and the feature gates that affect predictions (! marks locked gates).",
        examples=("info releases", "info releases 1.37 -o json"),
    )
    parser.add_argument("release", nargs="?", type=release_minor, metavar=KNOWN, help="only this release")
    add_output_option(parser.add_argument)
    return parser
