"""Several clusters in one run: contexts by name and pattern, and snapshots. Each is evaluated in a process of a pool.

A cluster without a result (unreachable, forbidden, too slow) is reported with its reason; the others are still
evaluated. The exit status is the worst of all clusters.
"""

from __future__ import annotations

import io
import os
import re
import sys
from fnmatch import filter as matching
from glob import iglob
from importlib import import_module
from itertools import islice
from typing import TYPE_CHECKING, Final, NamedTuple

from forewarn.policies.base.findings import MAX_PATH_LENGTH, brief, cut, no_command_in_json, one_line, quote
from forewarn.policies.base.process_pool import Lost, pooled
from forewarn.policies.cli import terminal
from forewarn.policies.cli.commands.cluster_command import (
    LIVE,
    Run,
    Several,
    answered,
    is_pattern,
    print_answer,
    status_without_answer,
)
from forewarn.policies.cli.commands.parser import Output, Printed, print_lines
from forewarn.policies.inputs.sources.files import FAILED, MissingFile, no_such_file
from forewarn.policies.kubernetes.objects.fields import InvalidInput
from forewarn.policies.questions.application import NO_ANSWER
from forewarn.policies.questions.application.places import verdict_on

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from forewarn.policies.cli.render.clusters import Outcome
    from forewarn.policies.kubernetes.cluster.cache import AnswerHead

MAX_CLUSTERS: Final = 1_000
_MAX_REASON_LENGTH: Final = 1_000
_SUFFIX: Final = re.compile(r"\.(json|ya?ml)(\.gz)?$")


class Evaluated(NamedTuple):
    """The result for one cluster.

    `rank`: numbers that are larger for a worse cluster, for sorting. `row`: the cluster's row in the table of
    several clusters, by column head. `notices`: lines for standard error, after the report. `headline`: of this
    cluster (default: that of `printed`). `head`: the input.
    """

    status: int
    rank: Sequence[int] = ()
    row: Mapping[str, str | int] = {}
    printed: Printed = Printed()
    notices: Iterable[str] = ()
    headline: str = ""
    head: AnswerHead | None = None


class Evaluation(NamedTuple):
    """How a command evaluates a cluster.

    `evaluate`: raises an exception in NO_ANSWER. `modules`: the modules that `evaluate` imports, to import them once
    before the processes start.
    """

    command: str
    evaluate: Callable[[Run], Evaluated]
    modules: Sequence[str] = ()


class Cluster(NamedTuple):
    """A cluster of the command line. `source`: argument of `load_cluster`; `shown`: the context or path, for
    reports.
    """

    name: str
    source: str
    shown: str


def answered_each(evaluation: Evaluation, run: Run) -> int:
    """Evaluate one or several clusters; return the exit status of the command."""
    if several := run.several:
        return answered(evaluation.command, run.output, lambda: _all(evaluation, run, several))
    return answered(evaluation.command, run.output, lambda: _printed(evaluation.evaluate(run)))


def _printed(result: Evaluated) -> int:
    print_answer(result.printed, result.notices)
    return result.status


def _all(evaluation: Evaluation, run: Run, several: Several) -> int:
    from forewarn.policies.cli.render.clusters import Outcome, worst_first

    clusters = clusters_of(several)
    color = "always" if terminal.wants_color(run.output.color, sys.stdout) else "never"
    output = run.output._replace(color=color)
    run = run._replace(output=output, several=None)
    for module in evaluation.modules:
        import_module(f"forewarn.policies.{module}")
    results = pooled(clusters, lambda cluster: _evaluated(cluster, evaluation, run), several.jobs, several.seconds)
    outcomes = []
    for cluster, result in terminal.progress(results, len(clusters), "clusters", sys.stderr):
        outcomes.append(
            Outcome(cluster.name, cluster.shown, FAILED, result.why) if isinstance(result, Lost) else result
        )
    outcomes = worst_first(outcomes)
    print_outcomes(evaluation.command, outcomes, output)
    return max(outcome.status for outcome in outcomes)


def _evaluated(cluster: Cluster, evaluation: Evaluation, of_all: Run) -> Outcome:
    """Evaluate one of several clusters. Raises nothing."""
    from forewarn.policies.cli.render.clusters import Outcome

    own, errors = (cluster.name, cluster.shown), io.StringIO()
    run = of_all._replace(cluster=[cluster.source], name=cluster.name, errors=errors)
    try:
        result = evaluation.evaluate(run)
        report = result.printed.data()
        if run.output.form == "json":
            (report,) = report
        for line in result.notices:
            terminal.print_notice(line, errors)
    except NO_ANSWER as fault:
        # The row names the context.
        why = brief(str(fault), _MAX_REASON_LENGTH).removeprefix(f"{LIVE}:{cluster.name}: ") or type(fault).__name__
        if verdict := verdict_on(fault):
            terminal.print_faults(evaluation.command, [fault], errors)
            why = verdict
        messages = errors.getvalue().splitlines()
        return Outcome(*own, status_without_answer(fault), why, messages=messages)
    except MemoryError:
        return Outcome(*own, FAILED, "out of memory")
    except Exception as fault:
        return Outcome(*own, FAILED, f"internal error: {type(fault).__name__}: {brief(str(fault), _MAX_REASON_LENGTH)}")
    headline, messages = result.headline or result.printed.verdict(), errors.getvalue().splitlines()
    return Outcome(*own, result.status, "", result.rank, result.row, report, headline, messages, result.head)


def print_outcomes(command: str, outcomes: Sequence[Outcome], output: Output, *, in_full: bool = True) -> None:
    """Print the results on all clusters. `in_full`: with the report of each cluster in text and markdown."""
    from forewarn.policies.cli.render import clusters

    if output.form == "json":
        sys.stdout.write(terminal.as_json(clusters.as_dict(command, outcomes)))
    elif output.form == "sarif":
        from importlib.metadata import version

        if len(outcomes) > clusters.MAX_RUNS:
            runs = f"{len(outcomes)} runs, one for each cluster"
            terminal.print_notice(f"sarif: {runs}; GitHub accepts {clusters.MAX_RUNS} in a file")
        sys.stdout.write(no_command_in_json(clusters.sarif(outcomes, version("forewarn"))))
    elif output.form == "openreports":
        sys.stdout.write(clusters.openreports(outcomes))
    elif output.form == "markdown":
        sys.stdout.write(terminal.as_markdown(clusters.markdown(outcomes, in_full=in_full)))
    else:
        print_lines(output, lambda paint: clusters.lines(outcomes, paint, output.level if in_full else 0))
    sys.stdout.flush()
    for outcome in outcomes:
        for line in outcome.messages:
            terminal.print_notice(f"{brief(outcome.name, MAX_PATH_LENGTH)}: {line}")


def clusters_of(several: Several) -> list[Cluster]:
    """The clusters that `--context` and `--clusters` select, each once. Raises InvalidInput and SourceError."""
    contexts = [*_contexts(several.contexts), *_snapshots(several.snapshots)]
    if len(contexts) > MAX_CLUSTERS:
        raise InvalidInput(f"more than {MAX_CLUSTERS} clusters", fix="run the command for a part of them")
    return contexts


def _contexts(names: Sequence[str]) -> Iterator[Cluster]:
    if not names:
        return
    from forewarn.policies.inputs.sources.cluster import contexts_of
    from forewarn.policies.linting.rules.support.names import nearest, suggested

    contexts = contexts_of(LIVE)
    chosen: dict[str, None] = {}
    for name in names:
        matches = [name] if name in contexts else matching(contexts, name)
        if not matches:
            word = "".join(character for character in name if character not in "*?[]")
            near = nearest(word, contexts) or suggested(word, contexts)
            what = "matches no context" if is_pattern(name) else "no such context in the kubeconfig"
            raise InvalidInput(one_line(f"--context {quote(cut(name, 80))}: {what}{cut(near, 300)}"))
        chosen.update(dict.fromkeys(matches))
    yield from (Cluster(name, f"{LIVE}:{name}", name) for name in chosen)


def name_of(path: str) -> str:
    """The name of a snapshot's file without suffix; the path if the file has a generic name such as "cluster"."""
    name = _SUFFIX.sub("", os.path.basename(path.rstrip("/")))
    return path if name == "cluster" else name


def _snapshots(patterns: Sequence[str]) -> Iterator[Cluster]:
    """Yield the snapshots, named after their files; after their paths if two files have the same name. Raises
    MissingFile.
    """
    paths: dict[str, None] = {}
    for pattern in patterns:
        matches = [pattern] if os.path.exists(pattern) else list(islice(iglob(pattern), MAX_CLUSTERS + 1))
        if not matches:
            expected = ("no file matches", "pass snapshots that exist, such as 'snapshots/*.json.gz'")
            problem = no_such_file(pattern, *(expected if is_pattern(pattern) else ()))
            raise MissingFile(f"--clusters {cut(pattern, MAX_PATH_LENGTH)}", brief(problem, 300))
        paths.update(dict.fromkeys(sorted(matches)))
    names = [*map(name_of, paths)]
    for path, name in zip(paths, names, strict=True):
        yield Cluster(name if names.count(name) == 1 else path, path, path)
