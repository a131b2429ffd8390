"""`forewarn whatif lose --each`: simulate each case, on all cores, or a part of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from forewarn.policies.base.documents.answer import CONDITIONS
from forewarn.policies.cli.commands.cluster_command import Run, status_of_conditions
from forewarn.policies.cli.commands.many_clusters import Evaluated
from forewarn.policies.cli.commands.parser import Printed, document_in
from forewarn.policies.cli.commands.shards import Shard, digest_of, marked, run_options
from forewarn.policies.cli.commands.simulated import loaded_for
from forewarn.policies.cli.terminal import as_json, counting
from forewarn.policies.inputs.sources.files import FAILED
from forewarn.policies.linting.config.load import contents

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Sequence

    from forewarn.policies.cli.commands.simulated import AutoscalingOf
    from forewarn.policies.kubernetes.releases.release import Release
    from forewarn.policies.questions.whatif.autoscalers import Autoscaling
    from forewarn.policies.questions.whatif.sweep import Sweep


def add_fail_on(add: Callable[..., object]) -> None:
    """Add `--fail-on` by a parser's `add_argument`."""
    help_text = "exit with 1 if this counter is not 0 (repeatable)"
    add("--fail-on", action="append", choices=CONDITIONS, default=[], metavar="COUNTER", help=help_text)


def evaluate_sweep(
    options: argparse.Namespace, release: Release, shard: Shard | None, settings_of: AutoscalingOf, run: Run
) -> Evaluated:
    """Simulate all cases of a sweep on a cluster. Raises SourceError, InvalidObject, ValueError.

    `shard`: simulate only this part of the cases; None for all.
    """
    from forewarn.policies.prediction.simulation.scenario import DigestedCache
    from forewarn.policies.questions.application.whatif import names_of, whatif_each

    scope = options.each
    cluster = loaded_for(run, options.config, release, digested=bool(shard))
    cache, autoscaling = cluster.cache, settings_of(cluster.cache, run.cluster)
    with counting("cases", run.errors) as show:
        settings: dict[str, Any] = {"until": options.until, "autoscaling": autoscaling, "progress": show}
        settings |= {"part": shard.part_of} if shard else {}
        sweep = whatif_each(cluster, scope, **settings)
    if isinstance(cache, DigestedCache) and shard is not None:
        identity = run_options(f"each {scope}", release, options.until, cache, options.config)
        identity |= _group_options(options.node_templates, autoscaling)
        of = len(names_of(cluster, scope))
        part = as_json(marked(sweep.to_dict(), shard, of, cache.digest, identity))
        return Evaluated(0, printed=Printed([part]))  # the merge of all parts decides the status
    from forewarn.policies.questions.application.several_clusters import rank_of, row_of

    document = sweep.document
    cells = {**row_of(document), "CASES": len(sweep.cases), "WORST CASE": sweep.cases[0].case}
    status, printed = status_of(sweep, options.fail_on), document_in(run.output, sweep)
    return Evaluated(status, rank_of(document), cells, printed, head=sweep.head)


def _group_options(node_templates: str | None, autoscaling: Autoscaling) -> dict[str, Any]:
    """Return the options about node groups that identify a run of several parts; empty without node groups."""
    if not autoscaling.groups:
        return {}
    groups = digest_of(contents(node_templates)) if node_templates else "of the cluster"
    of = {"cutoff": autoscaling.cutoff, "delay": autoscaling.node_delay}
    return {"node templates": groups, **{f"node templates, {name}": value for name, value in of.items()}}


def status_of(sweep: Sweep, fail_on: Sequence[str]) -> int:
    """Return the exit status: 3 if a row is incomplete, 1 if any row meets a condition of `fail_on`, otherwise 0."""
    status = status_of_conditions(sweep.conditions, fail_on)
    return FAILED if any(row.incomplete for row in sweep.cases) else status
