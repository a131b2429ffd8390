"""Common parts of commands about a cluster: options and errors."""

from __future__ import annotations

import argparse
import os
import sys
from typing import TYPE_CHECKING, Any, Final, TextIO

from forewarn.policies.base.documents import json_of
from forewarn.policies.base.findings import MAX_PATH_LENGTH, cut, one_line, plural
from forewarn.policies.base.forks import cores
from forewarn.policies.base.light import NamedTuple
from forewarn.policies.cli.commands.impersonation import add_impersonation_options, use_impersonation
from forewarn.policies.cli.commands.parser import (
    SUFFIXES,
    Output,
    duration_between,
    existing,
    integer_between,
    print_lines,
)
from forewarn.policies.cli.terminal import COLOR_CHOICES, as_json, complain, counting, print_faults, print_notice
from forewarn.policies.inputs.sources.files import STDIN, USAGE, File, MissingFile, SourceError, no_such_file, status_of
from forewarn.policies.kubernetes.kinds.registry import NODE, POD, PRIORITY_CLASS
from forewarn.policies.linting.config.model import ConfigError
from forewarn.policies.questions.application import NO_ANSWER
from forewarn.policies.questions.application.places import Rejected, document_of_rejected, is_rejection

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from forewarn.policies.base.documents.answer import AnswerDocument
    from forewarn.policies.cli.commands.parser import Printed
    from forewarn.policies.kubernetes.cluster.cache import Cache, ClusterSnapshot

LIVE: Final = "live"
"""The value of `--cluster` for a running cluster."""

MAX_BY_DEFAULT: Final = 8
"""Maximum number of clusters that are read at the same time without `--jobs`."""
DEFAULT_TIMEOUT: Final = 600
"""Seconds for each of several clusters."""

SEVERAL: Final = ("paths", "names")
"""Positional arguments that take any number of values."""
_PATTERN: Final = frozenset("*?[")


def add_cluster_option(
    add: Callable[..., object], *, required: bool = True, several: bool = False, in_turn: bool = False
) -> None:
    """Add `--cluster`, `--context` and `--kubeconfig` with `add`, a parser's `add_argument`.

    `required`: the command needs a cluster, so the current context is the default. `several`: the command can
    evaluate several clusters in one run, so `--context` takes several names and patterns; also add `--clusters`, and
    unless `in_turn` the options for clusters at the same time.
    """
    default = "default: the current kubeconfig context" if required else "default: none"
    help_text = f"cluster snapshot (a file or directory, repeatable), or live for a running cluster ({default})"
    add("--cluster", action="append", default=[], metavar="SOURCE", help=help_text)
    if several:
        help_text = (
            "snapshots of several clusters, for example 'snapshots/*.json.gz': one cluster for each match (repeatable)"
        )
        add("--clusters", action="append", default=[], metavar="PATTERN", help=help_text)
    add_context_options(add, "" if required else "; implies --cluster live", several=several)
    if several and not in_turn:
        help_text = f"maximum number of clusters at the same time (default: number of CPUs, at most {MAX_BY_DEFAULT})"
        add("--jobs", rare=True, type=integer_between(1, 64), metavar="N", help=help_text)
        help_text = f"time limit for each of several clusters (default: {DEFAULT_TIMEOUT // 60}m)"
        limit = duration_between(1, 86_400)
        add("--cluster-timeout", rare=True, type=limit, default=DEFAULT_TIMEOUT, metavar="DURATION", help=help_text)


class _Contexts(argparse.Action):
    """Stores the last value as `context` and all values as `contexts`; rejects several values if the command takes
    one cluster.
    """

    def __init__(self, *, several: bool, **arguments: Any) -> None:
        super().__init__(**arguments)
        self._several = several

    def __call__(self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, value: Any, *_: object) -> None:
        given = [*getattr(namespace, "contexts", ()), value]
        if not self._several and (len(given) > 1 or is_pattern(value)):
            fix = "pass one; commands with the option --clusters take several"
            parser.error(f"--context {cut(value, 80)}: takes one context. Fix: {fix}")
        namespace.context, namespace.contexts = value, given


def is_pattern(name: str) -> bool:
    return not _PATTERN.isdisjoint(name)


def add_context_options(add: Callable[..., object], more: str = "", *, several: bool = False) -> None:
    """Add `--context` and `--kubeconfig` by a parser's `add_argument`."""
    help_text = "kubeconfig context, repeatable, or a pattern such as 'prod-*'" if several else "kubeconfig context"
    help_text = f"{help_text}{more} (default: current context)"
    add("--context", action=_Contexts, several=several, default="", metavar="NAME", help=help_text)
    help_text = "kubeconfig (default: $KUBECONFIG, ~/.kube/config)"
    add("--kubeconfig", rare=True, default="", type=existing, metavar="FILE", help=help_text)
    add_impersonation_options(add)


def use_kubeconfig(options: argparse.Namespace) -> None:
    """Set the user to impersonate, and set KUBECONFIG to the value of `--kubeconfig`, because credential plugins also
    read this variable.
    """
    use_impersonation(options)
    if options.kubeconfig:
        os.environ["KUBECONFIG"] = options.kubeconfig


class Several(NamedTuple):
    """The clusters of a command line that can name several, even if its patterns match only one.

    `contexts`, `snapshots`: names and patterns. `seconds`: the time limit for each cluster.
    """

    contexts: Sequence[str]
    snapshots: Sequence[str]
    jobs: int
    seconds: float


class Run(NamedTuple):
    """The input of a command: the sources of one cluster (none if the command needs no cluster), or `several`.

    `announced`: the running cluster that is used by default; `loaded` prints its name on standard error. `name`: of one
    of several clusters. `has_groups`: a file describes node groups.
    """

    command: str
    cluster: Sequence[str]
    output: Output
    errors: TextIO
    announced: str = ""
    name: str = ""
    has_groups: bool = False
    several: Several | None = None


def choose_cluster(
    options: argparse.Namespace, parser: argparse.ArgumentParser, output: Output, *, required: bool = True
) -> Run:
    """Return the clusters that the options select; the default is the current context if `required`. Exits if
    `--context`, `--kubeconfig` or `--cluster` has no effect.
    """
    use_kubeconfig(options)
    parser = getattr(options, "own", parser)
    contexts, snapshots = getattr(options, "contexts", ()), getattr(options, "clusters", ())
    _check_context(options, contexts, snapshots, parser)
    command, has_groups = parser.prog.rpartition("forewarn ")[2], bool(getattr(options, "node_templates", None))
    run = Run(command, options.cluster, output, sys.stderr, has_groups=has_groups)
    if snapshots or len(contexts) > 1 or any(map(is_pattern, contexts)):
        if options.cluster:
            parser.error("--cluster combines its sources into one cluster. Fix: for several clusters, pass --clusters")
        jobs = getattr(options, "jobs", None) or min(cores(), MAX_BY_DEFAULT)
        seconds = getattr(options, "cluster_timeout", DEFAULT_TIMEOUT)
        return run._replace(several=Several(contexts, snapshots, jobs, seconds))
    live = f"{LIVE}:{options.context}" if options.context else LIVE
    if not options.cluster and (required or options.context or options.kubeconfig):
        return run._replace(cluster=[live], announced=live)
    return run._replace(cluster=[live if source == LIVE else source for source in options.cluster])


def _check_context(
    options: argparse.Namespace, contexts: Sequence[str], snapshots: Sequence[str], parser: argparse.ArgumentParser
) -> None:
    """Exit if `--context` or `--kubeconfig` is given although no cluster of the command line uses it."""
    given = options.cluster
    is_live = any(source.partition(":")[0] == LIVE for source in given) or bool(contexts)
    for option, value, is_read in (
        ("context", contexts, not given or LIVE in given),
        ("kubeconfig", options.kubeconfig, is_live or not (given or snapshots)),
        ("as", options.as_user or options.as_group or options.as_uid, is_live or not (given or snapshots)),
    ):
        if value and not is_read:
            other, source = ("cluster", given[0]) if given else ("clusters", snapshots[0])
            parser.error(
                f"--{option} selects a running cluster. Fix: remove it or --{other} {cut(source, MAX_PATH_LENGTH)}"
            )


def loaded(run: Run, into: Cache | None = None, **more: Any) -> Cache:
    """Load the cluster; print its progress on a terminal, and its name if it is the default. Raises SourceError.

    `into`: the Cache to fill. `more`: further arguments of `load_cluster`.
    """
    from forewarn.policies.inputs.sources.cluster import (  # late: linting without a cluster does not need it
        described,
        load_cluster,
    )

    try:
        with counting("objects read", run.errors) as show:
            if show is not None:
                show(0, 0)
                more["progress"] = lambda count: show(count, 0)
            cache = load_cluster(*run.cluster, into=into, **more)
    except MissingFile as fault:
        option = "--cluster " if fault.file in run.cluster and not run.announced else ""
        raise MissingFile(f"{option}{fault.file}", fault.problem, fix=fault.fix) from None
    except SourceError as fault:
        if not run.announced or fault.file != run.announced:
            raise
        raise SourceError("", fault.problem, fix=fault.fix or "pass --cluster FILE or --kubeconfig FILE") from None
    snapshot = cache.snapshot()
    _check_lists(run, snapshot)
    if run.announced:
        counts = f"{plural(len(snapshot.objects.nodes), 'node')}, {plural(len(snapshot.pods), 'Pod')}"
        print_notice(f"cluster: {described(run.announced)} ({counts})")
    return cache


_CLASSES: Final = (PRIORITY_CLASS,)
_PODS: Final = (NODE, POD)
_PODS_ONLY: Final = ("headroom", "predict", "test", "ui", "whatif pressure")
REQUIRED_LISTS: Final[Mapping[str, tuple[str, ...]]] = {
    **dict.fromkeys(("audit", "classes", "classes plan"), (*_PODS, *_CLASSES)),
    **dict.fromkeys(_PODS_ONLY, _PODS),
    "lint": _CLASSES,
}
"""Command -> kinds without whose list it has no answer (`require_lists`); questions of `application` check themselves.
"""


def _check_lists(run: Run, cluster: ClusterSnapshot) -> None:
    """Raise SourceError if the cluster state lacks a list that the command requires (REQUIRED_LISTS)."""
    if required := REQUIRED_LISTS.get(run.command, ()):
        from forewarn.policies.questions.application.cluster import require_lists

        require_lists(cluster, required, run.cluster, has_groups=run.has_groups)


def add_color_option(add: Callable[..., object]) -> None:
    """Add `--color` by a parser's `add_argument`."""
    help_text = "color the output (default: auto, depends on the terminal, NO_COLOR and FORCE_COLOR)"
    add("--color", rare=True, choices=COLOR_CHOICES, default="auto", help=help_text)


def parsed(parser: argparse.ArgumentParser, arguments: Sequence[str]) -> argparse.Namespace:
    """Parse the arguments. The last positional argument may be split, as in `lint a.yaml -q b.yaml`.

    argparse accepts positional arguments only in one place, and its method for intermixed arguments does not support
    subcommands, such as those of `whatif`.
    """
    options, rest = parser.parse_known_args(arguments)
    given = list(arguments)
    verbatim = given[given.index("--") + 1 :] if "--" in given else []
    rest = [argument for argument in rest if argument != "--"]
    wrong = [argument for argument in rest if argument[:1] == "-" and argument != "-" and argument not in verbatim]
    several = next((values for name in SEVERAL if isinstance(values := getattr(options, name, None), list)), None)
    own = getattr(options, "own", parser)
    if file := "" if hasattr(options, "paths") else _unquoted([*rest, *(several or ())], arguments):
        fix = f"quote the pattern, or write --clusters {file}"
        own.error(one_line(f"argument --clusters: {file} is a second value. Fix: {fix}"))
    if wrong or (rest and several is None):
        own.error(one_line(f"unrecognized arguments: {' '.join(wrong or rest)}"))
    if several is not None:
        several += rest
    return options


def _unquoted(words: Iterable[str], arguments: Sequence[str]) -> str:
    """The first of these arguments that is a file after a value of --clusters; "" if there is none."""
    after = {word for option, word in zip(arguments, arguments[2:], strict=False) if option == "--clusters"}
    return cut(next((word for word in words if word in after and word.endswith(SUFFIXES)), ""), 80)


def unknown_format(form: str, formats: Sequence[str], near: str = "") -> str:
    return f"-o {cut(form, 40)}: unknown format{near}; known: {', '.join(formats)}, or FORMAT=FILE"


class _Output(argparse.Action):
    """Stores `FORMAT[=FILE]` as an Output; if it is `repeatable`, several of them, of which one may have no file."""

    def __init__(self, *, formats: Sequence[str], repeatable: bool, **arguments: Any) -> None:
        super().__init__(default=Output(formats[0]), **arguments)
        self._formats, self._repeatable = formats, repeatable

    def __call__(self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, value: Any, *_: object) -> None:
        form, sign, file = value.partition("=")
        if form not in self._formats:
            parser.error(unknown_format(form, self._formats))
        if sign and not file:
            parser.error(f"-o {form}=: no file given. Fix: write -o {form}=FILE")
        earlier, new = namespace.output, Output(form, file=file, is_given=True)
        if earlier.is_given and not self._repeatable:
            parser.error(f"-o {form}: a run writes one format. Fix: pass -o once, such as -o {self._formats[-1]}=FILE")
        if earlier.is_given and not (earlier.file or file):
            fix = "Fix: write others to files: -o json=answer.json"
            parser.error(f"-o {form}: several formats on standard output. {fix}")
        if earlier.is_given:
            first, second = (earlier, new) if file else (new, earlier._replace(others=()))
            new = first._replace(others=(*earlier.others, second))
        namespace.output = new


TABLES: Final = ("text", "json", "markdown")
"""Formats of a report."""
PAGES: Final = (*TABLES, "html")
"""Formats of a report that has a page."""


def add_output_option(
    add: Callable[..., object], formats: Sequence[str] = ("text", "json"), *, repeatable: bool = False
) -> None:
    """Add `-o FORMAT[=FILE]` by a parser's `add_argument`. `repeatable`: the command writes several formats."""
    help_text = f"{', '.join(formats)} (default: {formats[0]}{'; repeatable with files' if repeatable else ''})"
    settings = {"action": _Output, "formats": formats, "repeatable": repeatable, "metavar": "FORMAT[=FILE]"}
    add("-o", "--output", help=help_text, **settings)


def add_answer_options(add: Callable[..., object], formats: Sequence[str] = PAGES, *, repeatable: bool = True) -> None:
    """Add the options that print an answer, `-o`, `-v` and `--color`, by a parser's `add_argument`."""
    add_output_option(add, formats, repeatable=repeatable)
    help_text = "list every workload; -vv also Pods, and pairs of preemptor and victim"
    add("-v", "--verbose", action="count", default=0, help=help_text)
    add_color_option(add)


def add_fail_on(add: Callable[..., object]) -> None:
    """Add `--fail-on` by a parser's `add_argument`."""
    from forewarn.policies.base.documents.answer import CONDITIONS  # slow to import for the linter

    help_text = "exit with 1 if this counter is not 0 (repeatable)"
    add("--fail-on", action="append", choices=CONDITIONS, default=[], metavar="COUNTER", help=help_text)


def add_since_option(add: Callable[..., object]) -> None:
    help_text = "also show the changes since this earlier report of -o json"
    add("--since", type=existing, metavar="PREVIOUS.json", help=help_text)


def add_namespace_option(add: Callable[..., object], text: str | None = None) -> None:
    add("-n", "--namespace", default="default", help=text or "namespace of objects that name none (default: default)")


def options_with_cluster(parser: argparse.ArgumentParser, arguments: Sequence[str]) -> tuple[argparse.Namespace, Run]:
    """Parse the options of a command about a cluster; also return its clusters (see `choose_cluster`)."""
    options = parsed(parser, arguments)
    output: Output = getattr(options, "output", Output("text"))
    color, level = getattr(options, "color", "never"), int(getattr(options, "verbose", 0))
    run = choose_cluster(options, parser, output._replace(color=color, level=level))
    if run.several:
        check_several(options, run, getattr(options, "own", parser))
    return options, run


def check_several(options: argparse.Namespace, run: Run, parser: argparse.ArgumentParser) -> None:
    """Exit if an option does not work with several clusters."""
    if run.output.form == "html":
        parser.error("-o html: takes one cluster. Fix: pass --cluster")
    if run.output.others:
        parser.error("-o: several clusters are written in one format. Fix: pass -o once")
    for name in ("baseline", "write_baseline", "shard", "timeline"):
        if getattr(options, name, None):
            parser.error(f"--{name.replace('_', '-')}: takes one cluster. Fix: pass --cluster")
    for file in getattr(options, "filename", None) or ():
        if file != STDIN and not os.path.exists(file):
            parser.error(f"-f {cut(file, MAX_PATH_LENGTH)}: {no_such_file(file)}")
        if File(file).is_stream and not os.path.isdir(file):
            what = f"-f {cut(file, MAX_PATH_LENGTH)}: takes one cluster, because forewarn can read it only once"
            parser.error(f"{what}. Fix: pass a file")


def print_answer(printed: Printed, notices: Iterable[str]) -> None:
    """Print an answer, then lines on standard error."""
    printed.print()
    sys.stdout.flush()  # keeps the report before its summary if both are written to one pipe
    for line in notices:
        print_notice(line)


def answered(command: str, output: Output, answer: Callable[[], int]) -> int:
    """Return the exit status of `answer`; for an error, print one line on standard error and return 2 or 3."""
    try:
        with output.redirected():
            return answer()
    except NO_ANSWER as fault:
        faults = fault.faults if isinstance(fault, Rejected) else [fault] if is_rejection(fault) else []
        if faults:
            _print_rejected(output, document_of_rejected(faults))
            print_faults(command, faults[:-1])
        return complain(command, fault, status_without_answer(fault))


def _print_rejected(output: Output, document: AnswerDocument) -> None:
    """Print the answer if all objects are rejected, as text or JSON."""
    from forewarn.policies.cli.render.answer import text

    if output.form == "json":
        sys.stdout.write(as_json(json_of(document)))
    elif output.form == "text":
        print_lines(output, lambda paint: text(document, None, paint, output.level))


def status_of_conditions(met: Collection[str], fail_on: Iterable[str]) -> int:
    """Return 1, and print the conditions on standard error, if conditions of `--fail-on` are met; otherwise 0."""
    for line in (failures := failures_of(met, fail_on)):
        print_notice(line)
    return len(failures)


def failures_of(met: Collection[str], fail_on: Iterable[str]) -> list[str]:
    """Return one line with the met conditions of `--fail-on`; empty if none is met."""
    failing = [condition for condition in dict.fromkeys(fail_on) if condition in met]
    return [f"forewarn: fails on {', '.join(failing)} (--fail-on)"] if failing else []


def status_without_answer(fault: BaseException) -> int:
    return USAGE if isinstance(fault, ConfigError) else status_of(fault)
