"""Common parts of commands that simulate: options, which the configuration file may also set for autoscalers."""

from __future__ import annotations

import argparse
import os
from functools import partial
from typing import TYPE_CHECKING, Final

from forewarn.policies.base.findings import duration, one_line
from forewarn.policies.cli.commands.cluster_command import Run, add_cluster_option, loaded
from forewarn.policies.cli.commands.parser import (
    add_config_option,
    any_duration,
    duration_between,
    existing,
    integer_between,
)
from forewarn.policies.cli.commands.release import add_release_options, settle
from forewarn.policies.kubernetes.objects.fields import ApiObject, InvalidObject
from forewarn.policies.linting.config.model import Config, ConfigError, find_config
from forewarn.policies.prediction.autoscaling import NODE_DELAY, NotPredicted
from forewarn.policies.questions.whatif import MAX_UNTIL

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from forewarn.policies.kubernetes.releases.release import Release
    from forewarn.policies.prediction.autoscaling.cluster_autoscaler.discovery import GroupCache
    from forewarn.policies.prediction.autoscaling.karpenter.instance_types import InstanceType
    from forewarn.policies.questions.application.cluster import Cluster
    from forewarn.policies.questions.whatif.autoscalers import Autoscaling

    AutoscalingOf = Callable[[GroupCache, Sequence[str]], Autoscaling]
    """Cache and sources of a cluster -> the settings. Raises SourceError."""

_MAX: Final = 2**31
_MAX_DELAY: Final = 86_400


def add_simulation_options(
    add: Callable[..., object], *, several: bool = False, has_config: bool = False, nodes_arrive: bool = True
) -> None:
    """Add the options for the cluster, its release and autoscalers, and `--config` unless the parser has it. `add`: a
    parser's `add_argument`. `several`: as for `add_cluster_option`. `nodes_arrive`: the command simulates the time at
    which new nodes are ready.
    """
    add_cluster_option(add, several=several)
    add_release_options(add)
    if not has_config:
        add_config_option(add)
    help_text = (
        "flag of cluster-autoscaler: Pods with a lower priority cause no scale-up (default: that of the "
        "cluster, of the configuration, or -10)"
    )
    priority = integer_between(-_MAX, _MAX - 1)
    add("--expendable-pods-priority-cutoff", rare=True, type=priority, metavar="N", help=help_text)
    help_text = "file with node groups that cluster-autoscaler can scale up: a list of {name, maxSize, template}"
    add("--node-templates", type=existing, metavar="FILE", help=help_text)
    no_autoscaler = "ignore the node groups of the cluster"
    if nodes_arrive:
        no_autoscaler = f"simulate without new nodes, and {no_autoscaler}"
        what = "a list of instance types {name, capacity, offerings}, to predict the nodes that Karpenter adds"
        add("--instance-types", type=existing, metavar="FILE", help=f"file with {what}")
        help_text = f"time from a scale-up to ready nodes (default: {duration(NODE_DELAY)})"
        delay = duration_between(0, _MAX_DELAY)
        add("--node-delay", rare=True, type=delay, default=NODE_DELAY, metavar="DURATION", help=help_text)
    add("--no-autoscaler", action="store_true", help=no_autoscaler)


def reject_node_templates(add: Callable[..., object], why: str) -> None:
    """Add a hidden `--node-templates` that always fails with the message `why`, because other commands have this
    option.
    """

    class RejectedOption(argparse.Action):
        def __call__(self, parser: argparse.ArgumentParser, *_: object, **__: object) -> None:
            parser.error(f"--node-templates: {why}")

    add("--node-templates", action=RejectedOption, help=argparse.SUPPRESS)


def autoscaling_of(options: argparse.Namespace, parser: argparse.ArgumentParser) -> AutoscalingOf:
    """Return the settings for autoscalers, from the options, otherwise the configuration, as a function that adds the
    node groups of a cluster. Exits if a setting is invalid.
    """
    from forewarn.policies.questions.application.cluster import with_node_groups
    from forewarn.policies.questions.whatif.autoscalers import Autoscaling
    from forewarn.policies.questions.whatif.node_groups import load_node_groups

    try:
        config = configuration(options.config)
        groups = () if options.node_templates is None else load_node_groups(options.node_templates)
        types = _instance_types(getattr(options, "instance_types", None))
    except ConfigError as fault:
        parser.error(one_line(str(fault)))
    given = options.expendable_pods_priority_cutoff
    cutoff = config.options.autoscaler_cutoff if given is None else given
    delay = None if getattr(options, "no_autoscaler", True) else getattr(options, "node_delay", NODE_DELAY)
    settings = Autoscaling(cutoff=cutoff, groups=groups, node_delay=delay, instance_types=types)
    return partial(with_node_groups, settings, cutoff=given)


def _instance_types(path: str | None) -> Sequence[InstanceType]:
    """The instance types in a file; none for None. Raises ConfigError."""
    if path is None:
        return ()
    from forewarn.policies.linting.config.load import contents, parse
    from forewarn.policies.prediction.autoscaling.karpenter.instance_types import read_instance_types

    try:
        types = read_instance_types({"instanceTypes": parse(contents(path), path).plain()}, "instanceTypes")
    except (InvalidObject, NotPredicted) as problem:
        raise ConfigError(f"{path}: {problem}") from None
    if not types:
        raise ConfigError(f"{path}: no instance types. Fix: write a list of {{name, capacity, offerings}}")
    return types


def configuration(path: str | None) -> Config:
    """Return the configuration in the file; by default, the one in this directory or a parent. Raises ConfigError."""
    file = path or find_config(os.curdir)
    if not file:
        return Config()
    from forewarn.policies.linting.config.load import load_config

    return load_config(file)


MAX_RUNS: Final = 1000
STEPS: Final = "{:.0f} s simulated, {:,} steps".format
"""The numbers of a progress line for `counting`."""


def loaded_for(
    run: Run,
    config: str | None,
    release: Release,
    *,
    digested: bool = False,
    collect: Callable[[ApiObject], bool | None] | None = None,
) -> Cluster:
    """Load the cluster for simulations. `config`: the value of `--config`. `digested`: into a DigestedCache. `collect`:
    see `Cache`. Raises SourceError and ConfigError.
    """
    from forewarn.policies.prediction.simulation.scenario import DigestedCache, DumpCache
    from forewarn.policies.questions.application.cluster import Cluster

    cache, configured = DigestedCache() if digested else DumpCache(collect), configuration(config)
    cache.recreated = frozenset(configured.options.recreates_pods)
    settle(loaded(run, cache), release)
    return Cluster(cache, configured, run.cluster)


def simulated_until(text: str) -> float:
    """Parse a duration as `simulated_time` does, but reject 0. Raises argparse.ArgumentTypeError."""
    until = simulated_time(text)
    if until <= 0:
        raise argparse.ArgumentTypeError("must be longer than 0s")
    return until


def simulated_time(text: str) -> float:
    """Parse a duration of a simulation, see `any_duration`. Raises argparse.ArgumentTypeError."""
    until = any_duration(text)
    if until > MAX_UNTIL:
        raise argparse.ArgumentTypeError(f"must be {MAX_UNTIL / 3600:.0f}h (31 days) at most")
    return until


def add_until_option(add: Callable[..., object], default: float | None = None) -> None:
    """Add `--until` by a parser's `add_argument`."""
    help_text = "duration of the simulation, such as 90s or 5m (default: at least 1h)"
    add("--until", type=simulated_until, metavar="DURATION", default=default, help=help_text)


def add_runs_options(add: Callable[..., object]) -> None:
    """Add `--runs` and `--seed` by a parser's `add_argument`."""
    help_text = "number of runs; all runs except the first decide ties and races at random (default: 1)"
    add("--runs", metavar="N", type=integer_between(1, MAX_RUNS), default=1, help=help_text)
    add("--seed", metavar="N", type=int, default=0, help="random seed of --runs (default: 0)")
