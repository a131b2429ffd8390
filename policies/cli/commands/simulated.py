"""Common parts of commands that simulate: options, which the configuration file may also set for autoscalers."""

from __future__ import annotations

import argparse
import os
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from forewarn.policies.base.findings import duration, one_line
from forewarn.policies.cli.commands.cluster_command import (
    Run,
    add_cluster_option,
    answered,
    loaded,
    options_with_cluster,
    print_answer,
)
from forewarn.policies.cli.commands.parser import (
    add_config_option,
    any_duration,
    document_in,
    duration_between,
    existing,
    integer_between,
)
from forewarn.policies.cli.commands.release import add_release_options, release_of, settle
from forewarn.policies.cli.terminal import counting, of_total, print_faults
from forewarn.policies.inputs.sources.files import FAILED, status_of
from forewarn.policies.kubernetes.objects.fields import ApiObject, InvalidObject
from forewarn.policies.linting.config.model import Config, ConfigError, find_config
from forewarn.policies.prediction.autoscaling import NODE_DELAY, NotPredicted
from forewarn.policies.questions.whatif import MAX_UNTIL

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from forewarn.policies.cli.commands.parser import Output, Printed
    from forewarn.policies.kubernetes.releases.release import Release
    from forewarn.policies.prediction.autoscaling.cluster_autoscaler.discovery import GroupCache
    from forewarn.policies.prediction.autoscaling.karpenter.instance_types import InstanceType
    from forewarn.policies.questions.application.cluster import Cluster, Progress
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


@dataclass(frozen=True)
class Subject:
    """The cluster of a question. `settings`: returns those of autoscalers; raises SourceError. `collected`: by the
    question's collector, while the cluster was read. `draws`: whether the answer needs data for a drawing of nodes.
    """

    cluster: Cluster
    settings: Callable[[], Autoscaling]
    progress: Progress | None = None
    collected: Any = None
    draws: bool = False


def _nothing(*_: object) -> Any:
    """Return None: options that can be combined, no failures, no collector."""


def _document(_: argparse.Namespace, output: Output, result: Any) -> Printed:
    return document_in(output, result)


@dataclass(frozen=True)
class Question:
    """A question about a cluster that a command and the pages of `forewarn ui` ask with the same options.

    `ask`: returns the result. `what`: the name of its progress. `counts`: returns the progress as text. `check`: exits
    if options cannot be combined. `collector`: returns an object whose method `collect` gets the objects of the
    cluster. `failures`: returns lines for standard error if the exit status is 1, otherwise None. `printed`: returns
    the answer in the formats of an output. `simulates`: whether it needs a DumpCache.
    """

    command: str
    parser: Callable[[], argparse.ArgumentParser]
    ask: Callable[[argparse.Namespace, Subject], Any]
    what: str
    counts: Callable[[float, int], str] = of_total
    check: Callable[[argparse.Namespace, argparse.ArgumentParser], object] = _nothing
    collector: Callable[[argparse.Namespace], Any] = _nothing
    failures: Callable[[argparse.Namespace, Any], Sequence[str] | None] = _nothing
    printed: Callable[[argparse.Namespace, Output, Any], Printed] = _document
    simulates: bool = True

    def main(self, arguments: Sequence[str]) -> int:
        """Run the command; returns 0, 1 if the question fails, 2 for wrong usage, or 3 without a result."""
        parser = self.parser()
        options, run = options_with_cluster(parser, arguments)
        self.check(options, parser)
        settings = self.settings(options, parser)

        def answer() -> int:
            _, printed, status, failures = self.answer(options, run, *settings)
            print_answer(printed, failures)
            return status

        return answered(self.command, run.output, answer)

    def settings(self, options: argparse.Namespace, parser: argparse.ArgumentParser) -> tuple[Release, Any]:
        """Return the release, and the settings of autoscalers, if the command has options for these. Exits if they are
        invalid.
        """
        from forewarn.policies.kubernetes.releases.release import Release

        release = release_of(options, parser) if hasattr(options, "kubernetes_version") else Release()
        return release, autoscaling_of(options, parser) if hasattr(options, "no_autoscaler") else None

    def answer(
        self, options: argparse.Namespace, run: Run, release: Release, settings_of: AutoscalingOf | None
    ) -> tuple[Any, Printed, int, Sequence[str]]:
        """Return the result on one cluster, as it is printed, the exit status, and lines for standard error. Prints the
        errors of objects that are left out. Raises an exception in NO_ANSWER.
        """
        from forewarn.policies.base.documents.answer import AnswerStatus  # slow to import for the linter

        collected = self.collector(options)
        collect = collected and collected.collect
        cluster = loaded_for(run, getattr(options, "config", ""), release, collect=collect, simulates=self.simulates)
        settings: Any = settings_of and partial(settings_of, cluster.cache, run.cluster)
        with counting(self.what, run.errors, self.counts) as show:
            result = self.ask(options, Subject(cluster, settings, show, collected, "html" in run.output.forms))
            printed = self.printed(options, run.output, result)  # evaluates parts of the answer
        faults = getattr(result, "faults", ())
        print_faults(self.command, faults, run.errors)
        failures = None if faults else self.failures(options, result)
        status = FAILED if result.document.status is AnswerStatus.NO_ANSWER else int(failures is not None)
        return result, printed, max(map(status_of, faults), default=status), failures or ()


def loaded_for(
    run: Run,
    config: str | None,
    release: Release,
    *,
    digested: bool = False,
    collect: Callable[[ApiObject], bool | None] | None = None,
    simulates: bool = True,
) -> Cluster:
    """Load the cluster for questions. `config`: the value of `--config`; "": no configuration is read. `digested`: into
    a DigestedCache. `collect`: see `Cache`. `simulates`: into a DumpCache. Raises SourceError and ConfigError.
    """
    from forewarn.policies.prediction.autoscaling.cluster_autoscaler.discovery import GroupCache
    from forewarn.policies.prediction.simulation.scenario import DigestedCache, DumpCache
    from forewarn.policies.questions.application.cluster import Cluster

    configured = Config() if config == "" else configuration(config)
    cache: Any = DigestedCache() if digested else (DumpCache if simulates else GroupCache)(collect)
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
