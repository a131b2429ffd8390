"""Common parts of commands that simulate: options, and progress on a terminal."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Final

from forewarn.policies.cli.commands.autoscaling import configuration
from forewarn.policies.cli.commands.cluster_command import Run, loaded
from forewarn.policies.cli.commands.parser import any_duration, integer_between
from forewarn.policies.cli.commands.release import settle
from forewarn.policies.questions.whatif import MAX_UNTIL

if TYPE_CHECKING:
    from collections.abc import Callable

    from forewarn.policies.kubernetes.objects.fields import ApiObject
    from forewarn.policies.kubernetes.releases.release import Release
    from forewarn.policies.questions.application.cluster import Cluster

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
