"""`forewarn classes suggest`: suggest PriorityClasses for workloads without one."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import Final

from forewarn.policies.cli.commands import autoscaling, cluster_command
from forewarn.policies.cli.commands.parser import Parser
from forewarn.policies.cli.commands.release import add_release_options, release_of
from forewarn.policies.cli.commands.simulated import loaded_for
from forewarn.policies.cli.terminal import counting

FORMATS: Final = (*cluster_command.PAGES, "yaml")


def main(arguments: Sequence[str]) -> int:
    """Run the command; returns 0, 2 for wrong usage, or 3 without a result."""
    parser = _parser()
    options, run = cluster_command.options_with_cluster(parser, arguments)
    release, settings_of = release_of(options, parser), autoscaling.autoscaling_of(options, parser)

    def answer() -> int:
        import yaml

        from forewarn.policies.questions.application.class_suggestion import suggest_classes
        from forewarn.policies.questions.application.cluster import require_nodes

        cluster = loaded_for(run, options.config, release)
        require_nodes(cluster.snapshot)
        with counting("simulating lost zones", run.errors, lambda *_: "") as show:
            result = suggest_classes(cluster, autoscaling=settings_of(cluster.cache, run.cluster), progress=show)
        if run.output.form != "yaml":
            return cluster_command.print_result(run.output, result)
        sys.stdout.write(yaml.safe_dump_all(result.manifest, sort_keys=False))
        return 0

    return cluster_command.answered("classes suggest", run.output, answer)


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="forewarn classes suggest",
        description="Suggest a PriorityClass for each workload without one, by the kind of the workload, its "
        "PodDisruptionBudgets and HorizontalPodAutoscalers, and the classes of others. Show what this changes if a "
        "zone is lost.",
        epilog="Exit status: 0: suggested. 2: wrong usage. 3: no answer.",
        examples=("classes suggest", "classes suggest --cluster cluster.json.gz -o yaml=classes.yaml"),
    )
    add = parser.add_argument
    cluster_command.add_cluster_option(add)
    autoscaling.add_autoscaling_options(add)
    add_release_options(add)
    cluster_command.add_answer_options(add, FORMATS, repeatable=False)
    return parser
