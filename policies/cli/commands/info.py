"""`forewarn info releases` and `forewarn info scheduler`: show what predictions support, and what a scheduler does."""

from __future__ import annotations

import json
from dataclasses import asdict, is_dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

from forewarn.policies.base.documents import info, json_of, key_of, to_dict
from forewarn.policies.base.findings import listed, plural
from forewarn.policies.cli.commands.cluster_command import add_output_option
from forewarn.policies.cli.commands.parser import Parser
from forewarn.policies.cli.commands.release import KNOWN, feature_gates, release_minor
from forewarn.policies.cli.terminal import complain
from forewarn.policies.kubernetes.releases.minors import CHECKED_WITH, NEWEST, PREDICTED_MINORS, PREVIEW, PREVIEW_MINORS
from forewarn.policies.kubernetes.releases.release import (
    CHANGES,
    PATCH_CHANGES,
    UNFIXED,
    BadGates,
    Release,
    named_minors,
)
from forewarn.policies.kubernetes.releases.semantics import MODELLED, NOT_MODELLED, default, state
from forewarn.policies.linting.config.model import ConfigError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Sequence

    from forewarn.policies.kubernetes.releases.semantics import Extender, Profile, SchedulerConfiguration

OK, _, USAGE = range(3)
_PREEMPTION: Final = "DefaultPreemption"
_NOT_RECOMMENDED: Final = "Kubernetes does not recommend this, because critical Pods need preemption"
_UNKNOWN_PLUGIN: Final = " (unknown plugin: not predicted when it decides)"
_ROLES: Final = {
    "preEnqueue": "may keep a Pod out of the queue",
    "queueSort": "order of the scheduling queue",
    "preFilter": "before nodes are filtered",
    "filter": "which nodes can run the Pod",
    "postFilter": "when no node can run the Pod, such as preemption",
    "preScore": "before nodes are scored",
    "score": "rank the feasible nodes",
    "reserve": "reserve resources on the node",
    "permit": "may reject or delay the Pod",
    "preBind": "before binding",
    "bind": "bind the Pod",
    "postBind": "after binding",
}
"""Extension point -> its purpose, in the order of execution."""


def releases(arguments: Sequence[str]) -> int:
    """Run the command; returns 0, or 2 for wrong usage."""
    options = _releases_parser().parse_args(arguments)
    minors = [options.release] if options.release else PREDICTED_MINORS
    title = [f"predictions for Kubernetes {named_minors()}"] if len(minors) > 1 else []
    entries = [*map(_release_entry, minors)]
    options.output.print(lambda: json_of(entries), chain(title, *map(_release_lines, minors, entries)))
    return 0


def _release_entry(minor: int) -> info.Release:
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


def _release_lines(minor: int, release: info.Release) -> Iterator[str]:
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


def _releases_parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="forewarn info releases",
        description="Show the supported Kubernetes releases. For each release, show its changes, how earlier patch "
        "releases differ, and the feature gates that affect predictions (! marks locked gates).",
        examples=("info releases", "info releases 1.37 -o json"),
    )
    parser.add_argument("release", nargs="?", type=release_minor, metavar=KNOWN, help="only this release")
    add_output_option(parser.add_argument)
    return parser


def scheduler(arguments: Sequence[str]) -> int:
    """Run the command; returns 0, or 2 if kube-scheduler would not start with the configuration."""
    options = _scheduler_parser().parse_args(arguments)
    if options.presets:
        from forewarn.policies.kubernetes.scheduling.configuration import PRESETS

        options.output.print(lambda: [*PRESETS], PRESETS)
        return OK
    from forewarn.policies.linting.config.scheduler import scheduler_source

    try:
        release = Release(options.kubernetes_version, options.feature_gates, scheduler_source(options.file))
        semantics = release.semantics()
    except (ConfigError, BadGates) as fault:
        return complain("info scheduler", fault, USAGE)
    configuration = semantics.scheduler
    assert configuration is not None
    entry = _scheduler_entry(configuration, semantics.release)
    options.output.print(lambda: to_dict(entry), _scheduler_lines(configuration, entry))
    return OK


def _scheduler_lines(configuration: SchedulerConfiguration, entry: info.Scheduler) -> Iterator[str]:
    named = listed([f"{p.scheduler_name}{'' if _preempts(p) else ' (preemption disabled)'}" for p in entry.profiles])
    yield f"{plural(len(entry.profiles), 'profile')}: {named}"
    yield f"source: {entry.source}, as read by kube-scheduler {entry.release}"
    initial, most = entry.pod_initial_backoff_seconds, entry.pod_max_backoff_seconds
    yield f"backoff of unschedulable Pods: {initial} s, doubled up to {most} s"
    for profile, shown in zip(configuration.profiles.values(), entry.profiles, strict=True):
        yield ""
        yield from _profile_lines(profile, shown)
    for extender in configuration.extenders:
        yield ""
        yield from _extender_lines(extender)


def _profile_lines(profile: Profile, shown: info.Profile) -> Iterator[str]:
    yield f"profile {profile.scheduler_name}: Pods with spec.schedulerName {profile.scheduler_name}"
    share = shown.percentage_of_nodes_to_score
    part = f"{share} %" if share else "50 % less 1 % per 125 nodes"
    yield f"  feasible nodes to find: {part}, at least 100"
    for point, role in _ROLES.items():
        names = [
            f"{plugin.name}{'' if plugin.weight is None else f' x{plugin.weight}'}"
            f"{_UNKNOWN_PLUGIN if plugin.name in shown.not_known else ''}"
            for plugin in shown.plugins[point]
        ]
        yield f"  {point} ({role}): {', '.join(names) or 'nothing'}"
    if not _preempts(shown):
        yield f"  preemption is disabled: Pods of this profile never preempt. {_NOT_RECOMMENDED}"
    for name, args in sorted(shown.plugin_config.items()):
        texts = [f"{key} {json.dumps(value)}" for key, value in args.items() if value not in (None, [], "", False)]
        yield f"  {name}: {', '.join(texts) or 'defaults'}"
    for name in profile.plugins_at("score"):
        if profile.plugins[name].needs_pre_score and name not in profile.plugins_at("preScore"):
            error = "if several nodes are feasible, the scheduling cycle ends in an error"
            yield f"  {name} scores without its PreScore: {error}. Fix: enable it at preScore, or disable it at score"
    without = shown.without_columns
    yield f"  evaluated {f'node by node: {without} is not vectorized' if without else 'for all nodes at once'}"


def _preempts(profile: info.Profile) -> bool:
    return any(plugin.name == _PREEMPTION for plugin in profile.plugins["postFilter"])


def _plain(value: Any) -> Any:
    """Plugin arguments as JSON values."""
    if is_dataclass(value) and not isinstance(value, type):
        return {key_of(key): _plain(entry) for key, entry in asdict(value).items()}
    if isinstance(value, frozenset):
        return sorted(value)
    if hasattr(value, "_asdict"):
        return _plain(value._asdict())
    if isinstance(value, dict):
        return {key: _plain(entry) for key, entry in value.items()}
    return [_plain(entry) for entry in value] if isinstance(value, list | tuple) else value


def _extender_lines(extender: Extender) -> Iterator[str]:
    verbs = [verb for verb in ("filter", "prioritize", "preempt", "bind") if getattr(extender, f"{verb}_verb")]
    resources = ", ".join(sorted(extender.managed_resources))
    pods = f"Pods that request {resources}" if extender.managed_resources else "all Pods"
    yield f"extender {extender.url_prefix}: called to {', '.join(verbs) or 'do nothing'} for {pods}"
    yield "  not called by forewarn: its decisions are not predicted"


def _scheduler_entry(configuration: SchedulerConfiguration, release: str) -> info.Scheduler:
    profiles = [_profile_entry(profile, configuration) for profile in configuration.profiles.values()]
    extenders = [_plain(extender) for extender in configuration.extenders]
    backoff = configuration.pod_initial_backoff_seconds, configuration.pod_max_backoff_seconds
    return info.Scheduler(configuration.source, release, *backoff, profiles, extenders)


def _profile_entry(profile: Profile, configuration: SchedulerConfiguration) -> info.Profile:
    from forewarn.policies.kubernetes.scheduling.framework import plan_of

    weights = {"score": profile.weights}
    points = {
        point: [info.PluginAt(name, weights.get(point, {}).get(name)) for name in profile.plugins_at(point)]
        for point in _ROLES
    }
    args = {name: _plain(profile.args[name]) for name in profile.plugin_names if name in profile.args}
    unknown = [name for name in profile.plugin_names if profile.plugins[name].__name__ == "NamedOnly"]
    share, without = configuration.percentage(profile), plan_of(profile).without
    return info.Profile(profile.scheduler_name, share, points, args, unknown, without)


def _scheduler_parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="forewarn info scheduler",
        description="Show the profiles of a KubeSchedulerConfiguration as kube-scheduler reads them: the plugins of "
        "each extension point in their order, with weights and arguments.",
        epilog="Exit status: 0: shown. 2: wrong usage, or an invalid configuration.",
        examples=("info scheduler scheduler.yaml", "info scheduler --presets"),
    )
    add = parser.add_argument
    help_text = "file or preset (default: default profile of the release)"
    add("file", nargs="?", default="default", metavar="FILE|PRESET", help=help_text)
    add("--presets", action="store_true", help="list the presets")
    add("--kubernetes-version", type=release_minor, metavar=KNOWN, help="Kubernetes release (default: the newest)")
    help_text = "feature gates of the scheduler"
    add("--feature-gates", type=feature_gates, default={}, metavar="A=true,B=false", help=help_text)
    add_output_option(add)
    return parser
