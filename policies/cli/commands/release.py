"""The options `--kubernetes-version` and `--feature-gates` of all commands that predict."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from forewarn.policies.base.findings import one_line
from forewarn.policies.cli.commands.parser import converted
from forewarn.policies.cli.terminal import print_notice
from forewarn.policies.inputs.sources.files import SourceError
from forewarn.policies.kubernetes.releases.minors import PREDICTED_MINORS, PREVIEW, PREVIEW_MINORS
from forewarn.policies.linting.config.model import ConfigError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

    from forewarn.policies.kubernetes.cluster.cache import Cache
    from forewarn.policies.kubernetes.releases.release import Release
    from forewarn.policies.linting.config.scheduler import SchedulerSource

KNOWN: Final = "|".join(f"1.{minor}" for minor in PREDICTED_MINORS)
_PREVIEWS: Final = "".join(f"; 1.{minor}: {PREVIEW}" for minor in PREVIEW_MINORS)


def settle(cache: Cache, release: Release) -> Cache:
    """Set the cache's semantics (Kubernetes version, feature gates, scheduler) by the options and the cluster; return
    the cache.

    Raises SourceError if feature gates or the scheduler configuration do not match the cluster's version.
    """
    from forewarn.policies.kubernetes.releases.release import BadGates

    try:
        cache.semantics = release.semantics(cache.reported_minor, cache.kubelet_minor)
    except BadGates as fault:
        raise SourceError("--feature-gates", str(fault)) from None
    except ConfigError as fault:
        raise SourceError("--scheduler-config", str(fault)) from None
    return cache


def add_release_options(add: Callable[..., object]) -> None:
    """Add the options of the release by a parser's `add_argument`."""
    help_text = f"Kubernetes release (default: that of the cluster, if known{_PREVIEWS})"
    add("--kubernetes-version", type=release_minor, metavar=KNOWN, help=help_text)
    help_text = "feature gates set on the cluster's components"
    add("--feature-gates", rare=True, type=feature_gates, default={}, metavar="A=true,B=false", help=help_text)
    help_text = "file with a KubeSchedulerConfiguration, or a preset (default: default profile of the release)"
    add("--scheduler-config", rare=True, type=scheduler_config, metavar="FILE|PRESET", help=help_text)


def names_a_release(options: argparse.Namespace) -> bool:
    return bool(options.kubernetes_version or options.feature_gates or options.scheduler_config)


def release_of(options: argparse.Namespace, parser: argparse.ArgumentParser) -> Release:
    """Return the release that the options select; exits if feature gates or scheduler do not match the version."""
    from forewarn.policies.kubernetes.releases.release import BadGates, Release

    release = Release(options.kubernetes_version, options.feature_gates, options.scheduler_config)
    try:
        release.semantics()
    except BadGates as fault:
        parser.error(one_line(f"argument --feature-gates: {fault}"))
    except ConfigError as fault:
        parser.error(one_line(f"argument --scheduler-config: {fault}"))
    for reason, names in release.without_effect.items():
        print_notice(f"{parser.prog}: --feature-gates: {', '.join(names)}: no effect on predictions: {reason}")
    return release


def release_minor(text: str) -> int:
    """Parse a supported Kubernetes version; return the minor version. Raises argparse.ArgumentTypeError."""
    from forewarn.policies.kubernetes.releases.release import UnknownRelease, known_minor

    return converted(known_minor, text, UnknownRelease)


def scheduler_config(text: str) -> SchedulerSource:
    """Return the scheduler configuration in a file, or a preset. Raises argparse.ArgumentTypeError."""
    from forewarn.policies.linting.config.scheduler import scheduler_source

    return converted(scheduler_source, text, ConfigError)


def feature_gates(text: str) -> dict[str, bool]:
    """Parse `A=true,B=false`. Raises argparse.ArgumentTypeError."""
    from forewarn.policies.kubernetes.releases.release import BadGates, parse_gates

    return converted(parse_gates, text, BadGates)
